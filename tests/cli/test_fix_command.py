"""`cu fix`, as a user types it."""

import json
import sys
from typing import Any

import numpy as np
import pytest
import torch
from commands import SHORT_FIX

import class_uncertainty as cu
from class_uncertainty.training.candidate import CANDIDATES

UNFIT = ("colour images", "embeddings", "tables")  # for digits
GREY = [name for name, row in CANDIDATES.items() if row.data not in UNFIT]


def test_fix(run, tmp_path):
    command = "fix digits-lt:20 --epochs 2 --candidates naive,cb-rs?rate=2 --seeds 2 --save model"
    code, out, err = run(command)
    assert (code, err) == (0, "")
    assert out.startswith("digits-lt:20: 405 training and 597 test images")
    for words in ("class mean", "Kept", "model.safetensors", "model.json", "model.html"):
        assert words in out
    assert len(out.split()) + len(err.split()) <= 220
    document = json.loads(run(f"{command} --json")[1])
    assert document["files"] == ["model.safetensors", "model.json", "model.html"]
    assert len(document["before"]["errors"]) == len(document["after"]["errors"]) == 2
    assert [row["candidate"] for row in document["rungs"][0]["rows"]] == ["naive", "cb-rs?rate=2"]
    assert document["ladder"][0]["name"] == "naive"
    test = cu.load("digits-lt:20").test
    assert test is not None
    with torch.no_grad():
        guesses = cu.restore("model")(torch.from_numpy(test.inputs)).argmax(dim=1).numpy()
    errors = [100 * float((guesses != test.labels)[test.labels == c].mean()) for c in range(10)]
    assert np.mean(errors) == pytest.approx(document["after"]["errors"][0])
    page = (tmp_path / "model.html").read_text()
    for heading in ("Classes", "What each step gained", "How it was chosen", "Calibration", "cu predict model NEW"):
        assert heading in page


def test_a_second_fix_trains_nothing_and_tells_without_a_page(run, forbid_training, monkeypatch):
    command = f"fix digits-lt:20 {SHORT_FIX} --json"
    first = json.loads(run(command)[1])
    forbid_training()
    assert json.loads(run(command)[1]) == first
    assert "0 trained now" in " ".join(run(command.removesuffix(" --json"))[1].split())
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, out, err = run(command)
    assert code == 0
    assert json.loads(out) == first | {"files": []}
    assert "digits-lt-20.html was not written: the report needs jinja2" in " ".join(err.split())


def test_a_budget_stops_a_fix_and_the_same_command_goes_on(run, tmp_path):
    command = f"fix digits-lt:20 {SHORT_FIX} --json"
    codes = []
    while not codes or codes[-1] == 3:
        code, out, _ = run(f"{command} --budget 1s --store sliced.sqlite")
        codes.append(code)
    assert codes[-1] == 0
    whole = json.loads(run(f"{command} --store whole.sqlite")[1])
    assert untimed(json.loads(out)) == untimed(whole)
    assert not (tmp_path / "sliced.sqlite.running").exists()


def untimed(value: Any) -> Any:
    """A document without its seconds."""
    if isinstance(value, dict):
        return {name: untimed(item) for name, item in value.items() if name != "seconds"}
    return [untimed(item) for item in value] if isinstance(value, list) else value


def test_signs_change_the_list_of_candidates(run):
    changes = ",".join(["+cb-rs", *(f"-{name}" for name in GREY if name not in ("naive", "balanced-softmax"))])
    document = json.loads(run(f"fix digits-lt:20 --epochs 1 --seeds 1 --trainings 4 --candidates {changes} --json")[1])
    assert [row["candidate"] for row in document["rungs"][0]["rows"]] == ["naive", "balanced-softmax", "cb-rs"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("compare digits-lt:20 --methods distill", "unknown method 'distill': did you mean 'distil'?"),
        ("compare digits-lt:20 --methods distil*2", "--members (in Python members=) says how many"),
        ("compare digits-lt:20 --methods distil+mixup", "'distil' is a remedy, made of naive networks"),
        ("compare digits-lt:20 --methods adjusted@product", "takes no constant, measure or augmentation"),
        ("train digits-lt:20 --method distil", "'cu fix' saves a network"),
        ("train digits-lt:20 --method cb*3", "made of trained networks"),
        ("compare digits-lt:20 --methods cb*1", "it takes from 2 to 1,000"),
        ("fix digits-lt:20 --seeds 0", "seeds is 0"),
        ("fix nowhere:x --candidates cb-rz", "unknown method 'cb-rz'"),
        ("fix nowhere:x --candidates +naive?rate=0", "learning rate is 0"),
        ("fix nowhere:x --candidates naive,naive", "candidate naive is given twice"),
        ("fix digits-lt:20 --candidates -cb-rs", "unknown candidate to remove 'cb-rs'"),
        ("fix digits-lt:20 --candidates naive,+cb-rs", "'naive' has no sign"),
        ("fix digits-lt:20 --goal meen", "unknown goal 'meen'"),
        ("fix npz:nowhere.npz --goal cost:no.csv", "no.csv does not exist"),
        ("fix npz:nowhere.npz --goal prior:no.txt", "the prior is 'no.txt'"),
        ("fix digits-lt:20 --costs c.csv", "there is no --costs here: write --goal cost:c.csv."),
        ("fix digits-lt:20 --cost=c.csv", "write --goal cost:c.csv."),
        ("fix digits-lt:20 --prior p.txt", "there is no --prior here: write --goal prior:p.txt."),
        ("fix digits-lt:20 --prior equal", "there is no --prior here: write --goal mean."),
        ("fix digits-lt:20 --prior train", "there is no --prior here: write --goal overall."),
        ("fix digits-lt:20 --deploy two", "unknown deploy 'two'"),
        ("fix digits-lt:20 --trainings 0", "trainings is 0: it must be"),
        ("fix digits-lt:20 --device gpu", "a GPU of NVIDIA or AMD is 'cuda'"),
        ("fix digits-lt:20 --trainings 1", "trainings is 1: judging one candidate"),
        ("fix digits-lt:20 --save .", "names no file"),
        ("fix digits-lt:20 --report .", "names no file"),
        ("fix digits-lt:20 --save m --report m.json", "m.html"),
    ],
)
def test_wrong_input_is_said_before_training(run, args, sentence, forbid_training):
    forbid_training()
    code, out, err = run(args)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
