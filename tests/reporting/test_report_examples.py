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
from class_uncertainty.reporting.page_examples import PAGE_BYTES, ROW_BYTES, Room, page_data
from class_uncertainty.reporting.report_examples import report_examples

LABELS = np.repeat(np.arange(10), 4)


def predicted(rng: np.random.Generator, members: int = 1) -> np.ndarray:
    return rng.dirichlet(np.ones(10), (members, len(LABELS)))


@pytest.fixture
def dataset(rng):
    images = rng.integers(0, 256, (len(LABELS), 1, 8, 8), dtype=np.uint8)
    train = cu.Data(images, LABELS, TEN_CLASSES.classes, names=[f"train/{i}.png" for i in range(len(LABELS))])
    return cu.Dataset("pets", train, replace(train, names=np.array([f"test/{i}.png" for i in range(len(LABELS))])))


def test_those_that_the_fix_was_judged_on_come_first(rng, dataset):
    p = predicted(rng)
    report = replace(TEN_CLASSES, predictions=JudgedPredictions.of(Outcomes.of(p[0], LABELS)))
    report = replace(report, findings=(Verdict("class 3", "hard", "class 3: hard"), Verdict("class 4", "", "")))
    estimates = [cu.Estimate("ensemble", predicted(rng), LABELS)]
    examples = report_examples(dataset, estimates, report)
    assert examples
    assert np.array_equal(examples.outcomes.guesses, p[0].argmax(axis=1))
    assert examples.texts == {3: "class 3: hard."}
    assert "test examples" in examples.about
    assert examples.name_of(5) == "test/5.png"
    folds = report_examples(replace(dataset, test=None), estimates, report)
    assert folds
    assert "training examples" in folds.about
    assert folds.name_of(5) == "train/5.png"


def test_otherwise_those_that_networks_had_not_seen(rng, dataset):
    seen, unseen = (cu.Estimate(name, predicted(rng, 3), LABELS) for name in ("ensemble", "out-of-fold"))
    for report in (None, TEN_CLASSES):  # a report of an earlier version holds no predictions
        by_fold = report_examples(dataset, [unseen, seen], report)
        assert by_fold
        assert np.array_equal(by_fold.outcomes.guesses, unseen.probabilities.mean(axis=0).argmax(axis=1))
        assert "never saw" in by_fold.about
    by_member = report_examples(dataset, [seen], None)
    assert by_member
    assert np.array_equal(by_member.outcomes.guesses, seen.probabilities.mean(axis=0).argmax(axis=1))
    assert "may have been trained on them" in by_member.about
    assert report_examples(dataset, [], None) is None


def test_files_without_room_are_linked(rng, dataset, tmp_path):
    here = replace(dataset, folder=tmp_path / "some pets")
    examples = report_examples(here, [cu.Estimate("ensemble", predicted(rng), LABELS)], None)
    assert examples
    data = page_data(examples, tmp_path / "pages", Room(pictures=7))
    assert len(data["thumbs"]) == 7
    for *_, name, thumb, link in data["examples"]:
        assert link == ("" if thumb >= 0 else f"../some%20pets/{name}")


def test_as_many_examples_as_their_names_and_links_have_room(rng, dataset, tmp_path):
    here = replace(dataset, folder=tmp_path / "pets")
    examples = report_examples(here, [cu.Estimate("ensemble", predicted(rng), LABELS)], None)
    assert examples
    everything = page_data(examples, tmp_path, Room(pictures=2))["examples"]
    sizes = [len(json.dumps(name)) + len(link) for *_, name, _, link in everything]
    for number in (0, 5, len(sizes)):
        for spare, shown in ((0, number), (-1, number - 1)):
            if shown >= 0:
                room = Room(pictures=2, name_bytes=sum(sizes[:number]) + spare)
                assert page_data(examples, tmp_path, room)["examples"] == everything[:shown]


def test_room_is_left_beside_other_pictures_and_shared():
    room = Room(pictures=10, picture_bytes=100, name_bytes=40, examples=30)
    assert room.beside(["x" * 30, "y" * 10], 1000) == Room(8, 100, 40, 30)
    needed = 100 + 40 + 30 * ROW_BYTES
    assert room.beside(["x" * 30], PAGE_BYTES - 30 - needed // 2) == Room(9, 50, 20, 15)
    assert room.beside(["x" * 30] * 11, PAGE_BYTES) == Room(0, 0, 0, 0)
    assert room.shared(2) == Room(5, 50, 20, 15)
