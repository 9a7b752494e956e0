"""The command line as a user types it."""

import json
import os
import pty
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import SHORT, Run
from PIL import Image
from scipy.stats import spearmanr

import class_uncertainty as cu
from class_uncertainty import cli
from class_uncertainty.data import SOURCES
from class_uncertainty.measures import SCORES
from class_uncertainty.results import Store


def test_measure(run: Run) -> None:
    code, out, err = run("measure", "digits-lt:20", "--epochs", "2", "--members", "2")
    assert (code, err) == (0, "")
    for word in ("μ^C", "μ^U", "effective", "epistemic share", "rank U", "0.2864", "Spearman"):
        assert word in out
    code, out, err = run("measure", "digits-lt:20", "--epochs", "2", "--members", "2", "--json")
    document = json.loads(out)
    assert [row["count"] for row in document["classes"]] == [120, 86, 61, 44, 31, 22, 16, 11, 8, 6]
    assert sum(row["uncertainty"] for row in document["classes"]) == pytest.approx(1)
    assert document["members"] == 2


def test_measure_by_a_score(run: Run) -> None:
    """The same networks read otherwise: nothing is trained again."""
    plain, other = (json.loads(run("measure", "digits-lt:20", *SHORT, "--json", *score)[1]) for score in ((), ("--score", "true-class")))
    assert (plain["estimator"], plain["score"], plain["cost"], other["score"]) == ("ensemble", "predictive", 2, "true-class")
    train = cu.load("digits-lt:20").train
    with Store("runs.sqlite") as store:
        (kept,) = store.estimates(store.data()[0].fingerprint)
    own = 1 - kept.probabilities.mean(axis=0)[np.arange(len(train)), train.labels]
    assert [row["raw"] for row in other["classes"]] == pytest.approx([own[train.labels == c].mean() for c in range(10)], abs=1e-6)
    assert [row["raw"] for row in plain["classes"]] == pytest.approx(list(kept.raw))


def test_estimators_side_by_side(run: Run) -> None:
    """A row for each, and for cardinality, at every learning rate; the table says what the JSON says, and both what SciPy does."""
    names = ["ensemble", "bootstrap", "out-of-fold", "single", "online", "snapshot", "mc-dropout", "duq"]
    command = ("measure", "digits-lt:20", *SHORT, "--lrs", "0.1,0.4", "--estimators", ",".join(names))
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    document = json.loads(run(*command, "--json")[1])
    rows = document["estimators"]
    assert [row["estimator"] for row in rows] == 2 * [*names, "cardinality"]
    assert [row["lr"] for row in rows] == [*[0.1] * 9, *[0.4] * 9]
    assert [row["cost"] for row in rows[:7]] == [2, 2, 2, 1, 1, 1, 1]
    assert all(row["ensemble"] == pytest.approx(1) for row in (rows[0], rows[9]))
    lines = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in (*names, "cardinality")]
    for row, line in zip(rows, lines, strict=True):
        numbers = [row["ensemble"], row["ensemble_beyond"], row["error"], row["error_beyond"]]
        assert line[-4:] == ["–" if number is None else f"{number:.3f}" for number in numbers]
        assert line[0] == row["estimator"]
        assert line[-5] == f"{row['cost']:g}"
    measured = {lr: json.loads(run("measure", "digits-lt:20", *SHORT, "--lrs", lr, "--json")[1])["classes"] for lr in ("0.1", "0.4")}
    data, recipe = cu.load("digits-lt:20"), cu.training.default_recipe(cu.load("digits-lt:20").train, epochs=2)
    for row in rows:
        if row["estimator"] in ("single", "out-of-fold") and row["lr"] == 0.4:  # seeds go on behind the ensemble's
            found = cu.estimate(data, row["estimator"], 2, replace(recipe, lr=0.4), seed=2)
            for name, theirs in (("ensemble", "raw"), ("error", "error")):
                assert row[name] == pytest.approx(spearmanr(found.raw, [one[theirs] for one in measured["0.4"]]).statistic)
    errors = [one["error"] for one in measured["0.1"]]
    assert rows[0]["error"] == pytest.approx(spearmanr([one["raw"] for one in measured["0.1"]], errors).statistic)


def test_an_estimator_that_diverges_has_no_row_and_takes_none_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wild = replace(cu.ESTIMATORS["single"], lanes=lambda members, seed: [cu.Lane("naive", seed, lr=1e30)])
    monkeypatch.setitem(cu.ESTIMATORS, "wild", wild)
    code, out, _ = run("measure", "digits-lt:20", *SHORT, "--estimators", "ensemble,wild,single")
    assert code == 0
    assert "Not shown: wild: the member of seed 2 diverged in epoch 0 at the learning rate 0.1." in " ".join(out.split())
    code, out, _ = run("measure", "digits-lt:20", *SHORT, "--estimators", "ensemble,wild,single", "--json")
    document = json.loads(out)
    assert [row["estimator"] for row in document["estimators"]] == ["ensemble", "single", "cardinality"]
    assert len(document["diverged"]) == 1
    code, out, err = run("measure", "digits-lt:20", *SHORT, "--estimators", "ensemble", "--lrs", "1e30")
    assert (code, out) == (2, "")
    assert "diverged in epoch 0 at the learning rate 1e+30, and there is nothing to compare with: lower it." in err
    code, out, err = run("measure", "digits-lt:20", *SHORT, "--estimator", "wild")
    assert (code, out) == (2, "")
    assert "diverged in epoch 0: lower the learning rate." in err


def test_estimators_train_nothing_twice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one was compared for is there for the next; the ensemble is always beside them."""
    first = json.loads(run("measure", "digits-lt:20", *SHORT, "--estimators", "single,online", "--json")[1])["estimators"]
    assert [row["estimator"] for row in first] == ["ensemble", "single", "online", "cardinality"]
    monkeypatch.setattr(cu.training.job.Job, "_train", lambda *_: pytest.fail("trained again"))
    again = json.loads(run("measure", "digits-lt:20", *SHORT, "--estimators", "online,ensemble", "--json")[1])["estimators"]
    assert sorted(again, key=str) == sorted((row for row in first if row["estimator"] != "single"), key=str)
    assert run("measure", "digits-lt:20", *SHORT)[0] == 0


def test_compare_and_train_by_an_estimator_and_a_score(run: Run) -> None:
    """Each score is another vector of class uncertainties, and so another training."""
    command = ("compare", "digits-lt:20", *SHORT, "--methods", "ubrw", "--seeds", "1", "--estimator", "out-of-fold", "--json")
    plain, other = (json.loads(run(*command, *score)[1])["methods"][0] for score in ((), ("--score", "least-confidence")))
    assert plain["nll"] != other["nll"]
    data, recipe = cu.load("digits-lt:20"), cu.training.default_recipe(cu.load("digits-lt:20").train, epochs=2)
    found = cu.estimate(data, "out-of-fold", 2, recipe, score="least-confidence")
    (result,) = cu.fit(data.train, [cu.Lane("ubrw")], recipe=recipe, stats=found.stats, test=data.test).results
    assert other["nll"] == pytest.approx(result.nll)
    options = ("--method", "ubrw", "--estimator", "out-of-fold", "--score", "least-confidence", "--json")
    trained = json.loads(run("train", "digits-lt:20", *SHORT, *options)[1])["result"]
    assert trained["scores"]["nll"] == pytest.approx(result.nll)
    assert run("report")[0] == 0


def test_any_method_by_any_measure_with_any_augmentation(run: Run) -> None:
    """Stored, shown and reported under the name that was typed."""
    names = ("ubrw@product", "naive+mixup")
    command = ("compare", "digits-lt:20", *SHORT, "--methods", ",".join(names), "--seeds", "1")
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    assert all(name in out for name in names)
    assert [row["method"] for row in json.loads(run(*command, "--json")[1])["methods"]] == list(names)
    with Store("runs.sqlite") as store:
        assert {result.method for result in store.results(store.data()[0].fingerprint)} == {"naive", *names}
    assert run("report")[0] == 0
    assert all(name in Path("report.html").read_text() for name in names)


def test_probabilities_of_another_program(run: Run, tmp_path: Path) -> None:
    """Measured, compared and reported; read anew when the file changes."""
    rng = np.random.default_rng(0)
    raws = []
    for _ in range(2):
        np.save("p.npy", rng.dirichlet(np.ones(10), 405))
        code, out, err = run("measure", "digits-lt:20", "--estimator", "probabilities:p.npy", "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert (document["estimator"], document["members"], document["cost"]) == ("probabilities:p.npy", 1, 0)
        assert {row["error"] for row in document["classes"]} == {None}
        raws.append([row["raw"] for row in document["classes"]])
    assert raws[0] != raws[1]
    rows = json.loads(run("measure", "digits-lt:20", *SHORT, "--estimators", "probabilities:p.npy", "--json")[1])["estimators"]
    assert [(row["estimator"], row["lr"]) for row in rows] == [("ensemble", 0.1), ("probabilities:p.npy", 0.1), ("cardinality", 0.1)]
    assert run("compare", "digits-lt:20", *SHORT, "--methods", "ubrw", "--seeds", "1", "--estimator", "probabilities:p.npy")[0] == 0
    assert run("report")[0] == 0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"0.1 0.9\n", "p.npy is no .npy or .npz file of numbers"),
        (np.zeros((3, 10)), "p.npy has the shape (3, 10): it needs (405, 10), a row for each training example"),
        (np.ones((405, 10)), "sum to 10: every row must sum to 1 (logits need a softmax)"),
        (np.full((405, 10), None), "p.npy is no .npy or .npz file of numbers"),
    ],
    ids=["text", "shape", "logits", "objects"],
)
def test_wrong_probabilities_are_one_sentence(content: bytes | np.ndarray, sentence: str, run: Run) -> None:
    Path("p.npy").write_bytes(content) if isinstance(content, bytes) else np.save("p.npy", content)
    for option in ("--estimator", "--estimators"):
        code, out, err = run("measure", "digits-lt:20", "--epochs", "1", "--members", "1", option, "probabilities:p.npy")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err


def test_own_data_by_every_estimator(run: Run, rng: np.random.Generator) -> None:
    """A table without a test split: errors by folds, for one estimator and for several."""
    names = "bootstrap,out-of-fold,single,online,snapshot,mc-dropout,duq"
    x, y = rng.normal(size=(60, 4)), np.repeat(["a", "b", "c"], [35, 15, 10])
    np.savez("own.npz", x=x + (y == "a")[:, None], y=y)
    document = json.loads(run("measure", "npz:own.npz", *SHORT, "--estimator", "out-of-fold", "--json")[1])
    assert (document["folds"], document["estimator"]) == (5, "out-of-fold")
    code, out, err = run("measure", "npz:own.npz", *SHORT, "--estimators", names, "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["estimators"]
    assert [row["estimator"] for row in rows] == ["ensemble", *names.split(","), "cardinality"]
    assert run("report")[0] == 0


def test_compare(run: Run) -> None:
    options = (
        "compare",
        "digits-lt:20",
        "--epochs",
        "2",
        "--members",
        "2",
        "--methods",
        "naive,cb-rs,ubrs",
        "--seeds",
        "2",
        "--lrs",
        "0.1,0.2",
    )
    code, out, err = run(*options)
    assert (code, err) == (0, "")
    assert "vs cb-rs" in out
    assert "at least 5 are needed" in out
    code, out, err = run(*options, "--json")
    rows = json.loads(out)["methods"]
    assert [(row["method"], row["lr"], row["runs"]) for row in rows] == [
        (m, lr, 2) for m in ("naive", "cb-rs", "ubrs") for lr in (0.1, 0.2)
    ]
    naive, ubrs = rows[0], rows[4]
    assert ubrs["gain"] == pytest.approx(naive["error"] - ubrs["error"])
    assert ubrs["counterpart"] == "cb-rs"
    assert 0 <= ubrs["aso"] <= 1
    assert naive["gain"] is None


def test_train_restore_and_report(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("train", "digits-lt:20", "--method", "ubrw", "--save", "models/digits", "--epochs", "2", "--members", "2")
    assert code == 0
    assert "wrote models/digits.safetensors" in out
    module, test = cu.restore(tmp_path / "models/digits"), cu.load("digits-lt:20").test
    error = 100 * (module(torch.from_numpy(test.inputs)).argmax(1).numpy() != test.labels).mean()
    code, out, _ = run("train", "digits-lt:20", "--method", "ubrw", "--epochs", "2", "--members", "2", "--json")
    assert json.loads(out)["result"]["scores"]["error"] == pytest.approx(error)
    code, out, err = run("report", "--figures", "figures", "--json")
    assert (code, err) == (0, "")
    files = [Path(file) for file in json.loads(out)["files"]]
    assert files[0].read_text().startswith("<!doctype html>")
    assert {file.suffix for file in files[1:]} == {".svg", ".png"}
    assert all(file.stat().st_size > 1000 for file in files)


def test_demo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole tour, two epochs and three methods long; a second one trains nothing."""
    monkeypatch.setattr(cli, "DEMO", "naive,cb-rs,ubrs")
    recipes = {"images": cu.Recipe("small-conv", epochs=2, batch=32)}
    monkeypatch.setattr(cu.training.recipe, "RECIPES", recipes)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "cu-demo/report.html" in out
    assert "digits-lt:20" in Path("cu-demo/report.html").read_text()
    monkeypatch.setattr(cu.training.job.Job, "_train", lambda *_: pytest.fail("trained again"))
    code, out, _ = run("demo", "--json")
    assert code == 0
    assert set(json.loads(out)) == {"measure", "compare", "fix", "report"}


@pytest.mark.parametrize(
    ("command", "table"),
    [("methods", cu.METHODS), ("measures", cu.MEASURES), ("estimators", cu.ESTIMATORS), ("datasets", SOURCES), ("remedies", cu.REMEDIES)],
)
def test_lists(command: str, table: dict, run: Run) -> None:
    code, out, _ = run(command)
    assert code == 0
    assert all(name in out for name in table)
    assert {row["name"] for row in json.loads(run(command, "--json")[1])} == set(table)


WRONG = {
    "method": (("compare", "digits-lt:20", "--methods", "naive,ubr"), "unknown method 'ubr': did you mean 'ubrw'?"),
    "method of train": (("train", "digits", "--method", "nave"), "did you mean 'naive'?"),
    "data": (("measure", "digit-lt:20"), "unknown data 'digit-lt:20': did you mean 'digits-lt:20'?"),
    "ratio": (("measure", "digits-lt:x"), "needs an imbalance ratio"),
    "too steep": (("measure", "digits-lt:500"), "leaves class '9' 0 of 120 examples"),
    "option of data": (("measure", "digits?size=3"), "has the option 'size': 'digits' takes none"),
    "estimator": (("measure", "digits", "--estimator", "ensembel"), "did you mean 'ensemble'?"),
    "members": (("measure", "digits", "--members", "0"), "members is 0"),
    "folds": (("measure", "digits", "--estimator", "out-of-fold", "--members", "1"), "members is 1: for out-of-fold"),
    "score": (("measure", "digits", "--score", "preditive"), "unknown score 'preditive': did you mean 'predictive'?"),
    "score of another": (("measure", "digits", "--score", "kernel"), "unknown score 'kernel'"),
    "score of compare": (("compare", "digits", "--score", "epistemc", "--methods", "ubrw"), "did you mean 'epistemic'?"),
    "score of train": (("train", "digits", "--score", "true-clas", "--method", "ubrw"), "did you mean 'true-class'?"),
    "one of the estimators": (("measure", "digits", "--estimators", "single,onlin"), "unknown estimator 'onlin': did you mean 'online'?"),
    "estimators repeat": (("measure", "digits", "--estimators", "single,online,single"), "estimator single is given twice"),
    "no estimators": (("measure", "digits", "--estimators", ","), "no estimator is given"),
    "too few folds among them": (("measure", "digits", "--estimators", "out-of-fold", "--members", "1"), "members is 1: for out-of-fold"),
    "rates of one": (("measure", "digits", "--lrs", "0.1,0.4"), "--lrs is 0.1,0.4: without --estimators give one learning rate"),
    "rate of measure": (("measure", "digits", "--lrs", "-1"), "learning rate is -1"),
    "estimators and estimator": (
        ("measure", "digits", "--estimators", "single,online", "--estimator", "duq"),
        "leave out --estimator and --score",
    ),
    "estimators and score": (("measure", "digits", "--estimators", "single", "--score", "aleatoric"), "leave out --estimator and --score"),
    "no file": (("measure", "digits", "--estimator", "probabilities"), "estimator 'probabilities' names no file"),
    "missing file": (("measure", "digits", "--estimator", "probabilities:none.npy"), "none.npy does not exist: give probabilities:FILE"),
    "measure of a method": (("compare", "digits", "--methods", "ubrw@prodct"), "unknown measure 'prodct': did you mean 'product'?"),
    "augmentation": (("compare", "digits", "--methods", "naive+mixp"), "unknown augmentation 'mixp': did you mean 'mixup'?"),
    "measure of nothing": (("compare", "digits", "--methods", "naive@product"), "no measure can drive it"),
    "epochs": (("measure", "digits", "--epochs", "0"), "epochs is 0"),
    "rate 0": (("compare", "digits", "--lrs", "0"), "learning rate is 0"),
    "rate below 0": (("compare", "digits", "--lrs", "0.1,-2"), "learning rate is -2"),
    "rate nan": (("train", "digits", "--lr", "nan"), "learning rate is nan"),
    "rate word": (("compare", "digits", "--lrs", "fast"), "learning rate 'fast' is not a number"),
    "no rate": (("compare", "digits", "--lrs", ","), "no learning rate is given"),
    "seeds repeat": (("compare", "digits", "--seeds", "0,1,0"), "seed 0 is given twice"),
    "seeds word": (("compare", "digits", "--seeds", "many"), "seed 'many' is not a whole number"),
    "no seeds": (("compare", "digits", "--seeds", "0"), "--seeds is 0"),
    "seed below 0": (("compare", "digits", "--seeds", "1,-1"), "seed is -1"),
    "methods repeat": (("compare", "digits", "--methods", "naive,naive"), "method naive is given twice"),
    "seed too large": (("train", "digits", "--seed", "18446744073709551616"), "seed is 18446744073709551616"),
    "save to a folder": (
        ("train", "digits", "--epochs", "1", "--save", "."),
        ". is a folder: give the name of a network in it, as in model",
    ),
    "too many members": (
        ("measure", "digits", "--members", "1000000"),
        "members is 1000000: for ensemble it must be a whole number from 1",
    ),
    "store is a folder": (("measure", "digits", "--store", "."), "store . is a folder"),
    "source": (("datasets", "cifar"), "unknown source 'cifar': did you mean 'cifar10'?"),
    "data to fetch": (("data", "fetch", "cifar"), "unknown data to fetch 'cifar': did you mean 'cifar10'?"),
    "no such folder": (("measure", "folder:nowhere"), "'nowhere' is neither here nor in the data folder"),
    "no such data": (("measure", "cifar10", "--root", "."), "cifar10 is not in the data folder .: 'cu data fetch cifar10' gets it"),
    "no store": (("report",), "store runs.sqlite does not exist"),
    "option": (("measure", "digits", "--memebrs", "3"), "No such option"),
    "command": (("mesure", "digits"), "No such command 'mesure'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence_and_exit_code_2(case: str, run: Run, tmp_path: Path) -> None:
    args, sentence = WRONG[case]
    code, out, err = run(*args)
    assert code == 2
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err
    if "No such" not in sentence:
        assert err.count("\n") == 1
        assert out == ""


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("measure", "digits", "--store", "file/runs.sqlite"), "file is not a folder"),
        (("train", "digits", "--epochs", "1", "--save", "file/model"), "file is not a folder"),
        (("report", "--out", "file/report.html", "--store", "good.sqlite"), "file is not a folder"),
        (("report", "--figures", "file", "--store", "good.sqlite"), "file is not a folder"),
        (("report", "--out", "good.sqlite", "--store", "good.sqlite"), "good.sqlite is a store of results or another SQLite file"),
        (("report", "--out", "t.csv", "--store", "good.sqlite"), "t.csv is there, and is no report that was written here: give another"),
        (("fix", "csv:t.csv", "--epochs", "1", "--report", "t.csv"), "t.csv is there, and is no report that was written here"),
        (("measure", "csv:t.csv", "--epochs", "1", "--profile", "t.csv"), "t.csv is there, and is no trace that was written here"),
        (("train", "csv:t.csv", "--epochs", "1", "--save", "mine"), "mine.json is there, and is no description of a network that was"),
        (("adjust", "p.npz", "--counts", "2,1", "--out", "q.npz"), "q.npz is there, and is no file of adjusted predictions that was"),
    ],
)
def test_outputs_never_replace_something_else(args: tuple[str, ...], sentence: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "t.csv").write_text("a,label\n" + "1,u\n2,v\n" * 5)
    (tmp_path / "mine.json").write_text("{}")
    for name in "pq":
        np.savez(f"{name}.npz", probabilities=[[0.5, 0.5]])
    assert run("train", "digits", "--epochs", "1", "--store", "good.sqlite")[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, _, err = run(*args)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) <= {"runs.sqlite"}


def test_faults_of_the_machine_are_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("train", "digits", "--epochs", "1")[0] == 0

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    code, _, err = run("report")
    assert code == 1
    assert err.endswith("report.html could not be written: No space left on device.\n")
    assert err.count("\n") == 1


def test_a_network_that_diverged_is_not_saved(run: Run, tmp_path: Path) -> None:
    code, _, err = run("train", "digits", "--epochs", "2", "--lr", "1e30", "--save", "model")
    assert code == 2
    assert "naive diverged in epoch 0: lower --lr; nothing was saved" in err
    assert not list(tmp_path.glob("model*"))


def test_own_data_from_a_folder_with_odd_names_to_the_report(run: Run, tmp_path: Path) -> None:
    """measure, compare, train and report on a folder of pictures, judged by folds; each output says so."""
    rng = np.random.default_rng(0)
    for c, name in enumerate(["one two", "zwölf", "new\nline"]):
        (tmp_path / "my pictures" / name).mkdir(parents=True)
        for i in range(9 - 3 * c):
            pixels = (rng.integers(0, 60, (10, 12, 3)) + 60 * c).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "my pictures" / name / f"{i}.png")
    Image.fromarray(pixels).save(tmp_path / "my pictures" / "zwölf" / "copy.png")
    judged = "There is no test split: errors come from 5 stratified folds"
    code, out, _ = run("measure", "folder:my pictures", "--epochs", "1", "--members", "2")
    assert code == 0
    assert "1 of the 19 examples repeats another to the last value" in out
    assert all(text in out for text in (judged, "zwölf", "new\\nline"))
    document = json.loads(run("compare", "folder:my pictures", "--epochs", "1", "--members", "2", "--seeds", "1", "--json")[1])
    assert (document["folds"], document["duplicates"]) == (5, 1)
    assert {row["method"] for row in document["methods"]} == {"naive", "cb-rs", "ubrs"}
    assert judged in run("train", "folder:my pictures", "--epochs", "1", "--save", "model")[1]
    assert cu.restore("model")(torch.zeros(1, 3, 10, 12)).shape == (1, 3)
    assert run("report")[0] == 0
    page = Path("report.html").read_text()
    assert all(text in page for text in (judged, "1 of the 19 examples repeats another", "Training images of the worst classes"))


def test_scores_are_listed_with_the_estimators(run: Run) -> None:
    out = run("estimators")[1]
    assert all(score in out for score in (*SCORES, "kernel"))


def test_a_source_is_explained(run: Run) -> None:
    out = run("datasets", "csv")[1]
    assert all(text in out for text in ("csv:PATH?label=COLUMN", "categorical", "missing", "test"))


def test_a_message_is_one_line_whatever_a_file_is_called(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    code, _, err = run("measure", "folder:a\nb")
    assert code == 2
    assert err.count("\n") == 1
    assert "a\\nb" in err


def test_a_full_disk_behind_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "class_uncertainty.cli", "methods"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_saving_is_tried_before_anything_is_trained(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("train", "digits", "--method", "ubrw", "--save", "file/model")[0] == 2
    with Store("runs.sqlite") as store:
        assert store.estimates(store.data()[0].fingerprint) == []


@pytest.mark.parametrize(
    "command", [["--help"], ["--version"], ["methods"], ["measures"], ["estimators"], ["datasets"], ["compare", "--help"]]
)
def test_light_commands_import_nothing_heavy(command: list[str]) -> None:
    heavy = "{'torch', 'scipy', 'sklearn', 'altair', 'jinja2', 'vl_convert'}"
    code = f"import sys; sys.argv = ['cu', *{command}]\nfrom class_uncertainty.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    done = subprocess.run(
        [sys.executable, "-c", code + f"print('heavy', {heavy} & set(sys.modules))"], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("heavy set()\n")


def test_a_budget_stops_cleanly_and_the_same_command_goes_on(run: Run, tmp_path: Path) -> None:
    command = ("measure", "digits-lt:20", "--epochs", "300", "--members", "2", "--budget")
    code, out, err = run(*command, "1s")
    assert (code, out) == (3, "")
    assert "cu: the budget is spent with 0 of 2 lanes trained; runs.sqlite keeps what has finished (0 results, 0 networks)" in err
    assert len(list((tmp_path / "runs.sqlite.running").iterdir())) == 2
    assert run(*command, "1h")[0] == 0
    assert not (tmp_path / "runs.sqlite.running").exists()


def test_what_a_stop_leaves_is_gone_when_all_is_done(run: Run, tmp_path: Path) -> None:
    """Lanes that had ended before it too; and a trace that nothing was traced for is spoken of."""
    command = ("compare", "digits-lt:20", "--methods", "naive", "--seeds", "12", "--epochs", "8")
    assert run(*command, "--budget", "1s")[0] in (0, 3)
    assert run(*command)[0] == 0
    assert not (tmp_path / "runs.sqlite.running").exists()
    code, _, err = run(*command, "--profile", "trace.json")
    assert (code, err) == (0, "cu: nothing was trained, so trace.json was not written.\n")
    assert run(*command, "--profile", "runs.sqlite")[0] == 2


@pytest.mark.parametrize(
    "command",
    [("compare", "digits-lt:20"), ("measure", "digits-lt:20", "--estimators", "ensemble,snapshot,online"), ("fix", "digits-lt:20")],
)
def test_a_budget_holds_for_any_number_of_epochs(run: Run, command: tuple[str, ...]) -> None:
    began = time.monotonic()
    code, _, err = run(*command, "--epochs", "1000000000", "--budget", "1s")
    assert code == 3
    assert "the budget is spent" in err
    assert time.monotonic() - began < 10  # about 2, where nothing else runs


def test_more_epochs_than_anyone_trains(run: Run) -> None:
    code, _, err = run("compare", "digits-lt:20", "--epochs", str(10**30), "--budget", "1s")
    assert code == 2
    assert str(10**30) in err


@pytest.mark.parametrize("budget", ["", "0", "soon", "5x", "-3m", "1m1h", "1.5m", "9" * 400])
def test_a_budget_that_is_no_time(run: Run, budget: str) -> None:
    code, _, err = run("measure", "digits-lt:20", "--budget", budget)
    assert code == 2
    assert f"budget is {budget!r}: it must be more than 0, in hours, minutes or seconds, as in 1h30m, 25m or 90s." in err


def test_a_terminal_sees_progress_and_a_pipe_does_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "class_uncertainty.cli", "train", "digits-lt:20", "--epochs", "3", "--store", str(tmp_path / "s")]
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stderr=follower, stdout=subprocess.DEVNULL, env=os.environ | {"TERM": "xterm"}):
        os.close(follower)
        assert b"training naive" in screen(leader)
    quiet = subprocess.run(command, capture_output=True, text=True, check=True)
    assert quiet.stderr == ""


@pytest.mark.parametrize("command", ["datasets", "methods", "--version"])
def test_a_closed_output_is_no_traceback(command: str) -> None:
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m class_uncertainty.cli {command} >&-"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def screen(leader: int) -> bytes:
    """All that was written to a pseudo-terminal until its other end closed."""
    seen = b""
    with os.fdopen(leader, "rb", buffering=0) as terminal, suppress(OSError):  # Linux ends such a file with an error
        while part := terminal.read(4096):
            seen += part
    return seen


def test_a_terminal_without_greek_gets_names_not_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "class_uncertainty.cli", "measure", "digits-lt:20", "--epochs", "1", "--members", "2"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "mu^U" in done.stdout


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("measure", "digits-lt:20", "--estimator", "single", "--score", "epistemic"), "asks one about each example: choose another"),
        (("measure", "digits-lt:20", "--members", "1", "--score", "kwon-epistemic"), "asks one about each example: choose another"),
        (("measure", "digits-lt:20", "--estimators", "online,online=true-class"), "estimator online is given twice by true-class"),
        (("measure", "digits-lt:20", "--estimators", "online="), "'online=' names no score after its equals sign"),
        (("measure", "digits-lt:20", "--estimators", "single=epistemic"), "asks one about each example: choose another"),
        (("measure", "digits-lt:20", "--estimators", ""), "no estimator is given"),
        (("compare", "digits-lt:20", "--methods", "naive", "--score", "foo"), "unknown score 'foo'"),
        (("train", "digits-lt:20", "--score", "foo"), "unknown score 'foo'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_training(run: Run, args: tuple[str, ...], sentence: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_tables_say_who_measured_and_who_judged(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("compare", "digits-lt:20", "--methods", "ubrw", "--estimator", "online", "--score", "aleatoric", "--seeds", "1", *SHORT)
    assert "Uncertainty: online, by aleatoric." in out
    rng = np.random.default_rng(0)
    np.savez("own.npz", x=rng.normal(size=(60, 4)).astype(np.float32), y=np.arange(60) % 3)
    _, out, _ = run("measure", "npz:own.npz", "--estimators", "ensemble,single", *SHORT)
    assert "There is no test split: errors come from 5 stratified folds" in " ".join(out.split())
    assert json.loads(run("measure", "npz:own.npz", "--estimators", "ensemble,single", *SHORT, "--json")[1])["folds"] == 5


def test_a_terminal_without_greek_letters_has_columns_under_their_heads(tmp_path: Path) -> None:
    """The letters' names are longer than the letters."""
    plain = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    script = "import sys; from class_uncertainty.cli import main; sys.argv[0] = 'cu'; main()"
    command = [sys.executable, "-c", script, "measure", "digits-lt:20", *SHORT, "--estimators", "ensemble,single"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=plain, check=True)
    table = [line for line in done.stdout.splitlines() if line.startswith(("|", "+"))]
    assert "rho ensemble" in table[1]
    assert len({len(line) for line in table}) == 1
