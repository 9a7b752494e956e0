"""cu.adjust_predictions(): saved predictions of any framework, corrected for unequal class counts."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax

import class_uncertainty as cu
from class_uncertainty.metrics import Scores, evaluate
from class_uncertainty.posthoc.written_predictions import PredictionTable, write_predictions

COUNTS = np.array([500, 60, 7])
EQUAL = np.full(3, 1 / 3)


@pytest.fixture
def files(tmp_path, rng, monkeypatch):
    """test.npz and val.npz in the folder, and what is in them."""
    monkeypatch.chdir(tmp_path)
    arrays = {}
    for name, examples in (("test", 150), ("val", 200)):
        labels = np.concatenate([np.arange(3), rng.choice(3, examples - 3, p=COUNTS / COUNTS.sum())])
        z = 3 * (rng.normal(0, 1, (examples, 3)) + 1.5 * np.eye(3)[labels]) + np.log(COUNTS)
        arrays |= {name: softmax(z, axis=1), f"{name}_labels": labels}
        np.savez(f"{name}.npz", probabilities=arrays[name], labels=labels)
    return arrays


def numbers(scores: Scores) -> list[float]:
    """Every score, whose last bits depend on how often a prior was renormalised."""
    return [*scores.class_errors, *(value for value in vars(scores).values() if isinstance(value, float))]


def test_without_unseen_examples_tau_is_1_or_as_given(files):
    for tau in (None, 0.4):
        adjusted = cu.adjust_predictions("test.npz", COUNTS, tau=tau)
        expected = cu.adjust(files["test"], COUNTS, 1 if tau is None else tau)
        np.testing.assert_allclose(adjusted.probabilities, expected, rtol=1e-12)
        assert adjusted.changed == (expected.argmax(axis=1) != files["test"].argmax(axis=1)).sum() > 0
        assert (adjusted.unseen, adjusted.absent, adjusted.has_class_bias, adjusted.file) == (0, (), False, None)
    assert sorted(path.name for path in Path().iterdir()) == ["test.npz", "val.npz"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("prior", ["equal", "train", (0.2, 0.3, 0.5)])
def test_it_is_chosen_on_unseen_examples_and_judged_under_the_prior(files, bias, prior):
    vector = {"equal": EQUAL, "train": COUNTS / COUNTS.sum()}.get(prior, prior)
    fitted = cu.fit_adjustment(files["val"], files["val_labels"], COUNTS, prior=vector, bias=bias)
    adjusted = cu.adjust_predictions(Path("test.npz"), COUNTS, unseen="val.npz", bias=bias, prior=prior)
    np.testing.assert_allclose(adjusted.probabilities, fitted(files["test"]), rtol=1e-12)
    assert (adjusted.unseen, adjusted.judged_on) == (200, Path("test.npz"))
    for scores, p in ((adjusted.before, files["test"]), (adjusted.after, fitted(files["test"]))):
        assert numbers(scores) == pytest.approx(numbers(evaluate(p, files["test_labels"], COUNTS, fitted.prior)))
    assert adjusted.has_class_bias == (bias and not np.allclose(fitted.bias, fitted.tau * np.log(COUNTS)))


def test_without_labels_the_unseen_examples_are_judged(files):
    np.save("test.npy", files["test"])
    adjusted = cu.adjust_predictions("test.npy", COUNTS, unseen="val.npz")
    assert adjusted.judged_on == Path("val.npz")
    expected = evaluate(files["val"], files["val_labels"], COUNTS, EQUAL)
    assert numbers(adjusted.before) == pytest.approx(numbers(expected))
    alone = cu.adjust_predictions("test.npy", COUNTS)
    assert (alone.before, alone.after, alone.judged_on) == (None, None, None)


def test_counts_may_be_in_either_file(files):
    np.savez("counted.npz", probabilities=files["val"], labels=files["val_labels"], counts=COUNTS)
    given, read = (
        cu.adjust_predictions("test.npz", counts, unseen="counted.npz", tau=1.0) for counts in (COUNTS, None)
    )
    assert np.array_equal(given.probabilities, read.probabilities)
    other = cu.adjust_predictions("test.npz", [1, 1, 1], unseen="counted.npz", tau=1.0)
    assert not np.array_equal(other.probabilities, read.probabilities)
    with refused("counts", "500,60,7"):
        cu.adjust_predictions("test.npz")


def test_classes_without_unseen_examples_are_named(files):
    common = files["val_labels"] == 0
    np.savez("common.npz", probabilities=files["val"][common], labels=files["val_labels"][common])
    assert cu.adjust_predictions("test.npz", COUNTS, unseen="common.npz").absent == (1, 2)
    assert cu.adjust_predictions("test.npz", COUNTS, unseen="val.npz").absent == ()


def test_what_is_written_can_be_adjusted_back(files):
    adjusted = cu.adjust_predictions("test.npz", COUNTS, out="adjusted.npz")
    with np.load("adjusted.npz") as written:
        assert np.array_equal(written["probabilities"], adjusted.probabilities)
        assert np.array_equal(written["labels"], files["test_labels"])
        for field in dataclasses.fields(adjusted.adjustment):
            assert np.array_equal(written[field.name], getattr(adjusted.adjustment, field.name))
    back = cu.adjust_predictions("adjusted.npz", [1, 1, 1], prior=COUNTS / COUNTS.sum(), out="adjusted-back.npz")
    np.testing.assert_allclose(back.probabilities, files["test"], atol=1e-12)
    assert cu.adjust_predictions("test.npz", COUNTS, out="adjusted.npz").file == Path("adjusted.npz")  # over its own


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"bias": True}, ["a bias", "unseen"]),
        ({"tau": "auto"}, ["'auto'", "unseen"]),
        ({"unseen": "test.npz"}, ["test.npz"]),
        ({"unseen": "plain.npy"}, ["plain.npy", "labels"]),
        ({"out": "test.npz"}, ["test.npz", "read"]),
        ({"unseen": "val.npz", "out": "val.npz"}, ["val.npz", "read"]),
        ({"out": "out.csv"}, ["out.csv", ".npz"]),
        ({"out": "other.npz"}, ["other.npz"]),
        ({"tau": -1.0}, ["tau is -1.0"]),
        ({"counts": [500, 60]}, ["2 classes", "(150, 3)"]),
        ({"prior": [0.5, 0.5, 0.5]}, ["prior", "3 probabilities"]),
    ],
)
def test_refusals_write_nothing(files, options, parts):
    np.save("plain.npy", files["val"])
    np.savez("other.npz", mine=np.ones(3))
    before = {path: path.read_bytes() for path in Path().iterdir()}
    with refused(*parts):
        cu.adjust_predictions("test.npz", **{"counts": COUNTS} | options)
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize("unlabelled", [0, 40])
def test_before_is_what_the_file_decides(files, unlabelled):
    """As `cu predict` scores it: by the column `class`, on the rows that have a label."""
    p, labels = files["test"], files["test_labels"]
    decided = p[:, ::-1].argmax(axis=1)
    truth = [""] * unlabelled + [str(c) for c in labels[unlabelled:]]
    table = PredictionTable(list(map(str, range(150))), ("0", "1", "2"), p, [str(c) for c in decided], {}, truth)
    write_predictions(Path("p.csv"), table, {"counts": COUNTS.tolist(), "prior": (COUNTS / COUNTS.sum()).tolist()})
    adjusted, rows = cu.adjust_predictions("p.csv", out="a.npz"), slice(unlabelled, None)
    assert adjusted.before is not None
    assert adjusted.before.top1_error == pytest.approx(100 * (decided != labels)[rows].mean())
    expected = evaluate(cu.adjust(p, COUNTS), labels, COUNTS, EQUAL) if not unlabelled else None
    after = cu.adjust(p, COUNTS).argmax(axis=1)
    assert adjusted.after.top1_error == pytest.approx(100 * (after != labels)[rows].mean())
    assert expected is None or numbers(adjusted.after) == pytest.approx(numbers(expected), rel=1e-4)
    assert adjusted.changed == (after != decided).sum()
    with np.load("a.npz") as written:
        assert ("labels" in written.files) == (unlabelled == 0)
    chosen = cu.adjust_predictions("test.npz", COUNTS, unseen="p.csv")
    assert chosen.unseen == 150 - unlabelled
    assert chosen.adjustment.tau == cu.fit_adjustment(p[rows], labels[rows], COUNTS).tau


def test_rounded_probabilities_are_adjusted_with_a_notice(tmp_path, caplog):
    (tmp_path / "p.csv").write_text("p(a),p(b),p(c)\n0.33,0.33,0.33\n0.10,0.20,0.70\n")
    adjusted = cu.adjust_predictions(tmp_path / "p.csv", counts=[1, 1, 1])
    np.testing.assert_allclose(adjusted.probabilities[0], 1 / 3)
    assert "rounded to 2 decimals" in caplog.text
