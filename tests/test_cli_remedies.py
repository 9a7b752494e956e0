"""Remedies as a user types them: rows of a comparison, and `cu fix`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import SHORT, Run

import class_uncertainty as cu
from class_uncertainty.remedies import REMEDIES
from class_uncertainty.results import Store


def test_remedies_beside_methods(run: Run) -> None:
    names = ["naive", "ubrw", *REMEDIES, "cb*2"]
    command = ("compare", "digits-lt:20", *SHORT, "--seeds", "2", "--methods", ",".join(names))
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    rows = {row["method"]: row for row in json.loads(run(*command, "--json")[1])["methods"]}
    assert list(rows) == names
    assert [rows[name]["cost"] for name in ("naive", "ubrw", "adjusted", "ensemble", "cb*2")] == [1, 3, 1, 2, 2]
    assert rows["distil"]["cost"] == pytest.approx(2 + 1 + 2 / 3)
    assert rows["distil"]["runs"] == 2
    for name in names:
        line = next(line for line in out.splitlines() if line.split()[:1] == [name])
        assert f"{rows[name]['error']:.2f} ±" in line
        assert f" {rows[name]['cost']:.3g} " in line + " "
    assert "in naive trainings" in out


def test_tau_is_chosen_out_of_fold_at_every_rate(run: Run) -> None:
    command = ("compare", "digits-lt:20", *SHORT, "--seeds", "1", "--methods", "adjusted", "--lrs", "0.1,0.4", "--estimator", "out-of-fold")
    rows = json.loads(run(*command, "--json")[1])["methods"]
    assert [(row["lr"], row["cost"]) for row in rows] == [(0.1, 3), (0.4, 3)]
    with Store("runs.sqlite") as store:
        kept = store.results(store.data()[0].fingerprint)
    train = cu.load("digits-lt:20").train
    for row in rows:
        (result,) = (each for each in kept if (each.method, each.lr) == ("adjusted", row["lr"]))
        recipe = cu.training.default_recipe(train, epochs=2, lr=row["lr"])
        found = cu.estimate(train, "out-of-fold", 2, recipe)
        assert result.plan["tau"] == cu.fit_adjustment(found.probabilities[0], train.labels, train.counts).tau


def test_what_is_said_of_adjusted_rows(run: Run, rng: np.random.Generator) -> None:
    """By folds each has its own tau; ECE and NLL are of examples as they come, which is not what the rows are for, unless all are equal."""
    labels = np.repeat([0, 1, 2], [40, 20, 10])
    np.savez("some.npz", X=rng.normal(0, 1, (70, 4)) + labels[:, None], y=labels)
    np.savez("even.npz", X=rng.normal(0, 1, (60, 4)), y=np.arange(60) % 3)
    said = {}
    for name in ("some", "even"):
        options = ("--seeds", "1", "--methods", "naive,adjusted", "--estimator", "out-of-fold")
        said[name] = " ".join(run("compare", f"npz:{name}.npz", *SHORT, *options)[1].split())
    assert ("each fold's was chosen on the others" in said["some"]) == ("τ: 1 at" not in said["some"])
    assert "whereas rows with τ are for classes that are equally frequent" in said["some"]
    assert "whereas" not in said["even"]
    assert "τ: 0 at the learning rate 0.1; each fold's" in said["even"]


def test_equal_cost(run: Run) -> None:
    """naive costs 1 and ubrs 2 + 1, where distil costs 2 + 1 + 2/3: three of the one, and one of the other still."""
    command = ("compare", "digits-lt:20", *SHORT, "--seeds", "1", "--methods", "naive,adjusted,ubrs,distil,adjusted*3", "--equal-cost")
    document = json.loads(run(*command, "--json")[1])
    assert [row["method"] for row in document["methods"]] == ["naive", "adjusted", "ubrs", "distil", "adjusted*3", "naive*3"]
    assert [row["runs"] for row in document["methods"]] == [1] * 6


def test_fix(run: Run, tmp_path: Path) -> None:
    command = ("fix", "digits-lt:20", *SHORT, "--seeds", "2", "--save", "model")
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    for words in ("class-mean error", "chosen out-of-fold", "wrote model.safetensors", "wrote report.html", "naive trainings"):
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


def test_a_second_fix_trains_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("fix", "digits-lt:20", *SHORT, "--seeds", "1", "--json")
    first = json.loads(run(*command)[1])
    monkeypatch.setattr(cu.training.job.Job, "_train", lambda *_: pytest.fail("trained again"))
    assert json.loads(run(*command)[1]) == first


def test_fix_after_a_measurement_trains_what_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folds and the members that measuring has trained are not trained again."""
    run("measure", "digits-lt:20", *SHORT, "--estimator", "out-of-fold", "--lrs", "0.1")
    run("measure", "digits-lt:20", *SHORT, "--lrs", "0.1")
    trained = []
    train = cu.training.job.Job._train
    monkeypatch.setattr(cu.training.job.Job, "_train", lambda job, *a: trained.extend(job.fitted.lanes) or train(job, *a))
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
        (("compare", "digits-lt:20", "--methods", "adjusted@product"), "takes no measure or augmentation"),
        (("train", "digits-lt:20", "--method", "distil"), "'cu fix' saves one that has learnt from them"),
        (("train", "digits-lt:20", "--method", "cb*3"), "is made of several networks"),
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
def test_wrong_input_is_said_before_training(run: Run, args: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cu.training.job.Job, "_train", lambda *_: pytest.fail("trained"))
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
