"""`cu measure`, as a user types it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import SHORT
from scipy.stats import spearmanr

import class_uncertainty as cu
from class_uncertainty.runs import Store


def test_measure(run):
    code, out, err = run("measure digits-lt:20 --epochs 2 --members 2")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert [len(rows), rows[0][0]] == [11, "class"]
    verbose = run("measure digits-lt:20 --epochs 2 --members 2 --verbose")[1]
    assert [word for word in ("rarity", "effective", "disputed", "28.6", "small-conv") if word not in verbose] == []
    assert [word for word in ("rarity %", "disputed") if word in out] == []
    explained = run("measure digits-lt:20 --epochs 2 --members 2 --explain")[1]
    assert "Uncertainty (μ^U): A class's share" in explained
    quiet = run("measure digits-lt:20 --epochs 2 --members 2 --quiet")[1]
    assert out.endswith(quiet)
    code, out, err = run("measure digits-lt:20 --epochs 2 --members 2 --json")
    document = json.loads(out)
    assert [row["count"] for row in document["classes"]] == [120, 86, 61, 44, 31, 22, 16, 11, 8, 6]
    assert sum(row["uncertainty"] for row in document["classes"]) == pytest.approx(1)
    assert document["members"] == 2


def test_measure_prints_170_words_at_most(run):
    _, out, err = run("measure digits-lt:20")
    assert len(out.split()) + len(err.split()) <= 170


def test_measure_by_a_score(run):
    """The same networks read otherwise: nothing is trained again."""
    plain, other = (
        json.loads(run(f"measure digits-lt:20 {SHORT} --json", *score)[1]) for score in ((), ("--score", "true-class"))
    )
    assert (plain["estimator"], plain["score"], plain["cost"], other["score"]) == (
        "ensemble",
        "predictive",
        2,
        "true-class",
    )
    train = cu.load("digits-lt:20").train
    with Store("runs.sqlite") as store:
        (kept,) = store.estimates(store.data()[0].fingerprint)
    own = 1 - kept.probabilities.mean(axis=0)[np.arange(len(train)), train.labels]
    assert [row["raw"] for row in other["classes"]] == pytest.approx(
        [own[train.labels == c].mean() for c in range(10)], abs=1e-6
    )
    assert [row["raw"] for row in plain["classes"]] == pytest.approx(list(kept.raw))


def test_estimators_side_by_side(run):
    """Each has a row at every learning rate, which the table and JSON agree on."""
    names = ["ensemble", "out-of-fold", "single", "online"]
    command = f"measure digits-lt:20 {SHORT} --lrs 0.1,0.4 --estimators {','.join(names)}"
    code, out, err = run(command)
    assert (code, err) == (0, "")
    document = json.loads(run(f"{command} --json")[1])
    rows = document["estimators"]
    assert [row["estimator"] for row in rows] == 2 * [*names, "cardinality"]
    assert [row["lr"] for row in rows] == [*[0.1] * 5, *[0.4] * 5]
    assert [row["cost"] for row in rows[:4]] == [2, 2, 1, 1]
    assert all(row["ensemble"] == pytest.approx(1) for row in (rows[0], rows[5]))
    lines = [
        line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in (*names, "cardinality")
    ]
    for row, line in zip(rows, lines, strict=True):
        numbers = [row["ensemble"], row["error"]]
        assert line[-2:] == ["-" if number is None else f"{number:.3f}" for number in numbers]
        assert line[0] == row["estimator"]
        assert line[-3] == f"{row['cost']:g}"
    for first, lr in ((0, "0.1"), (5, "0.4")):
        measured = json.loads(run(f"measure digits-lt:20 {SHORT} --lrs {lr} --json")[1])["classes"]
        uncertainties, errors = zip(*((row["raw"], row["error"]) for row in measured), strict=True)
        assert rows[first]["error"] == pytest.approx(spearmanr(uncertainties, errors).statistic)


def test_an_estimator_that_diverges_has_no_row_and_takes_none_away(run, monkeypatch):
    wild = replace(cu.ESTIMATORS["single"], lanes=lambda members, seed: [cu.Lane("naive", seed, lr=1e30)])
    monkeypatch.setitem(cu.ESTIMATORS, "wild", wild)
    code, out, _ = run(f"measure digits-lt:20 {SHORT} --estimators ensemble,wild,single")
    assert code == 0
    assert "Not shown: wild: the member of seed 2 diverged in epoch 1 at the learning rate 0.1." in " ".join(
        out.split()
    )
    code, out, _ = run(f"measure digits-lt:20 {SHORT} --estimators ensemble,wild,single --json")
    document = json.loads(out)
    assert [row["estimator"] for row in document["estimators"]] == ["ensemble", "single", "cardinality"]
    assert len(document["diverged"]) == 1
    code, out, err = run(f"measure digits-lt:20 {SHORT} --estimators ensemble --lrs 1e30")
    assert (code, out.count("\n") <= 1) == (2, True)
    assert "diverged in epoch 1 at the learning rate 1e+30, and there is nothing to compare with: lower it." in err
    code, out, err = run(f"measure digits-lt:20 {SHORT} --estimator wild")
    assert (code, out.count("\n") <= 1) == (2, True)
    assert "diverged in epoch 1: lower the learning rate." in err


def test_estimators_train_nothing_twice(run, forbid_training):
    """What one was compared for is there for the next; the ensemble is always beside them."""
    first = json.loads(run(f"measure digits-lt:20 {SHORT} --estimators single,online --json")[1])["estimators"]
    assert [row["estimator"] for row in first] == ["ensemble", "single", "online", "cardinality"]
    forbid_training()
    again = json.loads(run(f"measure digits-lt:20 {SHORT} --estimators online,ensemble --json")[1])["estimators"]
    assert sorted(again, key=str) == sorted((row for row in first if row["estimator"] != "single"), key=str)
    assert run(f"measure digits-lt:20 {SHORT}")[0] == 0


def test_probabilities_of_another_program(run):
    """Measured, compared and reported; read anew when the file changes."""
    rng = np.random.default_rng(0)
    raws = []
    for _ in range(2):
        np.save("p.npy", rng.dirichlet(np.ones(10), 405))
        code, out, err = run("measure digits-lt:20 --estimator probabilities:p.npy --json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert (document["estimator"], document["members"], document["cost"]) == ("probabilities:p.npy", 1, 0)
        assert {row["error"] for row in document["classes"]} == {None}
        raws.append([row["raw"] for row in document["classes"]])
    assert raws[0] != raws[1]
    rows = json.loads(run(f"measure digits-lt:20 {SHORT} --estimators probabilities:p.npy --json")[1])["estimators"]
    assert [(row["estimator"], row["lr"]) for row in rows] == [
        ("ensemble", 0.1),
        ("probabilities:p.npy", 0.1),
        ("cardinality", 0.1),
    ]
    assert run(f"compare digits-lt:20 {SHORT} --methods ubrw --seeds 1 --estimator probabilities:p.npy")[0] == 0
    assert run("report")[0] == 0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"0.1 0.9\n", "p.npy is not a .npy or .npz file"),
        (np.zeros((3, 10)), "(405, 10)"),
        (np.ones((405, 10)), "sum to 10: every row must sum to 1 (logits need a softmax)"),
        (np.full((405, 10), None), "p.npy is not a .npy or .npz file"),
    ],
    ids=["text", "shape", "logits", "objects"],
)
def test_wrong_probabilities_are_one_sentence(content, sentence, run):
    Path("p.npy").write_bytes(content) if isinstance(content, bytes) else np.save("p.npy", content)
    for option in ("--estimator", "--estimators"):
        code, out, err = run("measure digits-lt:20 --epochs 1 --members 1", option, "probabilities:p.npy")
        assert (code, err.count("\n")) == (2, 1)
        assert out.count("\n") <= 1  # what is said of the data
        assert sentence in err


def test_own_data_by_every_estimator(run, rng):
    """A table without a test split: errors by folds, for one estimator and for several."""
    names = "bootstrap,out-of-fold,single,online,snapshot,mc-dropout,duq"
    x, y = rng.normal(size=(60, 4)), np.repeat(["a", "b", "c"], [35, 15, 10])
    np.savez("own.npz", x=x + (y == "a")[:, None], y=y)
    document = json.loads(run(f"measure npz:own.npz {SHORT} --estimator out-of-fold --json")[1])
    assert (document["folds"], document["estimator"]) == (5, "out-of-fold")
    code, out, err = run(f"measure npz:own.npz {SHORT} --estimators", names, "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["estimators"]
    assert [row["estimator"] for row in rows] == ["ensemble", *names.split(","), "cardinality"]
    assert run("report")[0] == 0


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("measure digits-lt:20 --estimator single --score epistemic", "epistemic"),
        ("measure digits-lt:20 --members 1 --score kwon-epistemic", "epistemic"),
        ("measure digits-lt:20 --estimators online,online=true-class", "estimator online is given twice by true-class"),
        ("measure digits-lt:20 --estimators online=", "'online=' names no score after its equals sign"),
        ("measure digits-lt:20 --estimators single=epistemic", "epistemic"),
        ("measure digits-lt:20 --estimators ''", "no estimator is given"),
        ("compare digits-lt:20 --methods naive --score foo", "unknown score 'foo'"),
        ("train digits-lt:20 --score foo", "unknown score 'foo'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_training(run, args, sentence):
    code, out, err = run(args)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_uncertainty_of_networks_by_another_method_is_said_to_be_theirs(run):
    """No class is called easy that the method favours."""
    given = "measure digits-lt:20 --members 2 --epochs 2"
    code, out, _ = run(f"{given} --estimator ensemble:power-rs:q=-1")
    assert code == 0
    assert "trained by power-rs:q=-1" in out
    assert "examples suggest" not in out
    assert "trained by" not in run(given)[1]


def test_options_of_data_beside_their_path(run):
    """They are those of the name: both have one document, and one estimate in the store."""
    rows = [f"{i},{i % 3},{'' if i % 9 == 0 else i},p{i // 2},{'uv'[i % 2]}" for i in range(60)]
    Path("a.csv").write_text("\n".join(["id,x,gap,owner,kind", *rows]))
    options = "--label kind --drop id --missing drop --group owner --test 0.3"
    command = f"--recipe features {SHORT} --json"
    code, out, _ = run(f"measure a.csv {options} {command}")
    assert code == 0
    named = run(f"measure csv:a.csv?label=kind&drop=id&missing=drop&group=owner&test=0.3 {command}")
    assert json.loads(named[1]) == json.loads(out)
    with Store("runs.sqlite") as store:
        (data,) = store.data()
        assert len(store.estimates(data.fingerprint)) == 1
        assert len(store.estimates(data.fingerprint)[0].labels) < 0.7 * 53 + 4


def test_a_page_of_what_was_measured(run):
    command = f"measure digits-lt:20 {SHORT} --report page.html"
    code, out, _ = run(command)
    assert (code, "wrote page.html" in out) == (0, True)
    assert "cu fix digits-lt:20" in Path("page.html").read_text()
    assert run(command)[0] == 0  # its own page is replaced
    code, _, err = run("compare digits-lt:20 --methods naive --seeds 1 --epochs 1 --report page.html")
    assert (code, "page.html" in err) == (2, True)  # that of another command is not
    assert run("compare digits-lt:20 --methods naive --seeds 1 --epochs 1 --report methods.html")[0] == 0
    assert "naive" in Path("methods.html").read_text()
    assert run(f"measure digits-lt:20 {SHORT} --estimators ensemble,snapshot --report other.html")[0] == 2
