"""`cu fix`, as a user types it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import SHORT, Forbid, Run

import class_uncertainty as cu
from class_uncertainty.training.fit import train_lanes


def test_fix(run: Run, tmp_path: Path) -> None:
    command = ("fix", "digits-lt:20", *SHORT, "--seeds", "2", "--save", "model")
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    for words in (
        "class-mean error",
        "chosen out-of-fold",
        "wrote model.safetensors",
        "wrote report.html",
        "naive trainings",
    ):
        assert words in " ".join(out.split())
    document = json.loads(run(*command, "--json")[1])
    assert document["files"] == ["model.safetensors", "model.json", "report.html"]
    assert len(document["before"]["errors"]) == len(document["after"]["errors"]) == 2
    test = cu.load("digits-lt:20").test
    assert test is not None
    with torch.no_grad():
        guesses = cu.restore("model")(torch.from_numpy(test.inputs)).argmax(dim=1).numpy()
    errors = [100 * float((guesses != test.labels)[test.labels == c].mean()) for c in range(10)]
    best = int(document["note"].partition("student of seed ")[2][0])
    assert np.mean(errors) == pytest.approx(document["after"]["errors"][best])
    page = (tmp_path / "report.html").read_text()
    assert "Before and after" in page or "before and after" in page


def test_a_second_fix_trains_nothing(run: Run, forbid_training: Forbid) -> None:
    command = ("fix", "digits-lt:20", *SHORT, "--seeds", "1", "--json")
    first = json.loads(run(*command)[1])
    forbid_training()
    assert json.loads(run(*command)[1]) == first


def test_fix_after_a_measurement_trains_what_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folds and the members that measuring has trained are not trained again."""
    run("measure", "digits-lt:20", *SHORT, "--estimator", "out-of-fold", "--lrs", "0.1")
    run("measure", "digits-lt:20", *SHORT, "--lrs", "0.1")
    trained = []
    monkeypatch.setattr(
        "class_uncertainty.runs.context.train_lanes",
        lambda fitted, *options: trained.extend(fitted.lanes) or train_lanes(fitted, *options),
    )
    assert run("fix", "digits-lt:20", *SHORT, "--seeds", "1", "--lrs", "0.1")[0] == 0
    assert {lane.name for lane in trained} == {"distil"}
    assert sum(lane.fold is None for lane in trained) == 1  # the others are on trial


def test_a_budget_stops_a_fix_and_the_same_command_goes_on(run: Run, tmp_path: Path) -> None:
    command = ("fix", "digits-lt:20", *SHORT, "--seeds", "1", "--json")
    codes = []
    while not codes or codes[-1] == 3:
        code, out, _ = run(*command, "--budget", "1s", "--store", "sliced.sqlite")
        codes.append(code)
    assert codes[-1] == 0
    whole = json.loads(run(*command, "--store", "whole.sqlite")[1])
    assert json.loads(out) == whole
    assert not (tmp_path / "sliced.sqlite.running").exists()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("compare", "digits-lt:20", "--methods", "distill"), "unknown method 'distill': did you mean 'distil'?"),
        (("compare", "digits-lt:20", "--methods", "distil*2"), "--members says how many"),
        (("compare", "digits-lt:20", "--methods", "distil+mixup"), "'distil' is a remedy, made of naive networks"),
        (("compare", "digits-lt:20", "--methods", "adjusted@product"), "takes no constant, measure or augmentation"),
        (("train", "digits-lt:20", "--method", "distil"), "'cu fix' saves a network"),
        (("train", "digits-lt:20", "--method", "cb*3"), "made of trained networks"),
        (("compare", "digits-lt:20", "--methods", "cb*1"), "it takes from 2 to 1,000"),
        (("fix", "digits-lt:20", "--members", "1"), "members is 1"),
        (("fix", "digits-lt:20", "--seeds", "0"), "seeds is 0"),
        (("fix", "digits-lt:20", "--lrs", "fast"), "learning rate 'fast' is not a number"),
        (("fix", "digits-lt:20", "--lrs", "-1"), "learning rate is -1"),
        (("fix", "digits-lt:20", "--save", "."), "is a folder"),
        (("fix", "digits-lt:20", "--report", "."), "names no file"),
        (("fix", "digits-lt:20", "--save", "m", "--report", "m.json"), "which --save m writes"),
    ],
)
def test_wrong_input_is_said_before_training(
    run: Run, args: tuple[str, ...], sentence: str, forbid_training: Forbid
) -> None:
    forbid_training()
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
