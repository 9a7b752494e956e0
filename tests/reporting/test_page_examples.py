"""The examples of a report: those that the fix was judged on, else of an estimate, and linked where they are files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from reporting.examples import TEN_CLASSES

import class_uncertainty as cu
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.diagnosis import Verdict
from class_uncertainty.posthoc.fix_report import JudgedPredictions
from class_uncertainty.reporting import page_examples
from class_uncertainty.reporting.page_examples import PAGE_BYTES, estimate_examples, fix_examples, page_data

LABELS = np.repeat(np.arange(10), 4)


def predicted(rng: np.random.Generator, members: int = 1) -> np.ndarray:
    return rng.dirichlet(np.ones(10), (members, len(LABELS)))


@pytest.fixture
def dataset(rng):
    images = rng.integers(0, 256, (len(LABELS), 1, 8, 8), dtype=np.uint8)
    train = cu.Data(images, LABELS, TEN_CLASSES.classes, names=[f"train/{i}.png" for i in range(len(LABELS))])
    return cu.Dataset("pets", train, replace(train, names=np.array([f"test/{i}.png" for i in range(len(LABELS))])))


def test_those_that_the_fix_was_judged_on(rng, dataset):
    p = predicted(rng)
    report = replace(TEN_CLASSES, predictions=JudgedPredictions.of(Outcomes.of(p[0], LABELS)))
    report = replace(report, findings=(Verdict("class 3", "hard", "class 3: hard"), Verdict("class 4", "", "")))
    examples = fix_examples(report, dataset)
    assert examples
    assert np.array_equal(examples.outcomes.guesses, p[0].argmax(axis=1))
    assert examples.texts == {3: "class 3: hard."}
    assert "test examples" in examples.about
    assert examples.name_of(5) == "test/5.png"
    folds = fix_examples(report, replace(dataset, test=None))
    assert folds
    assert "training examples" in folds.about
    assert folds.name_of(5) == "train/5.png"
    assert fix_examples(TEN_CLASSES, dataset) is None  # a report of an earlier version holds no predictions


def test_those_of_an_estimate_are_of_its_mean(rng, dataset):
    for name, words in (("out-of-fold", "never saw"), ("ensemble", "may have been trained on them")):
        estimate = cu.Estimate(name, predicted(rng, 3), LABELS)
        examples = estimate_examples(estimate, dataset)
        assert np.array_equal(examples.outcomes.guesses, estimate.probabilities.mean(axis=0).argmax(axis=1))
        assert words in examples.about


def test_files_without_room_are_linked(rng, dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(page_examples, "PICTURES", 7)
    here = replace(dataset, folder=tmp_path / "some pets")
    data = page_data(estimate_examples(cu.Estimate("ensemble", predicted(rng), LABELS), here), tmp_path / "pages")
    assert len(data["thumbs"]) == 7
    for *_, name, thumb, link in data["examples"]:
        assert link == ("" if thumb >= 0 else f"../some%20pets/{name}")


def test_less_room_holds_fewer_examples_and_less_text(rng, dataset, tmp_path):
    here = replace(dataset, folder=tmp_path / "pets")
    examples = estimate_examples(cu.Estimate("ensemble", predicted(rng), LABELS), here)
    sizes = []
    for room in (PAGE_BYTES, PAGE_BYTES // 1000, PAGE_BYTES // 4000, 0):
        data = page_data(examples, tmp_path, room)
        rows = len(json.dumps(data["examples"])) + len(json.dumps(data["thumbs"]))
        sizes.append(rows)
        assert rows <= max(room, 4)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[2] > sizes[3]
