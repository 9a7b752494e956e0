"""cu.audit: the input contract, notes, notebooks and DataFrames."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from audits import CLASSES, COUNTS, audited, predictions
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.workflows import audit as audit_module


def test_labels_may_be_numbers_names_or_tensors() -> None:
    labels, p = predictions()
    names = [CLASSES[c] for c in labels]
    expected = audited().document()
    for given in (names, np.array(names), np.array(names, dtype=object), torch.tensor(labels), labels.astype(np.uint8)):
        assert cu.audit(given, p, CLASSES, counts=COUNTS).document() == expected
    assert cu.audit(labels, p, CLASSES, counts=np.array(COUNTS, float)).document() == expected
    tensor = cu.audit(labels, torch.tensor(p), CLASSES, counts=COUNTS)
    assert tensor.figures.error == audited().figures.error


def test_examples_without_a_label_are_left_out_and_counted() -> None:
    labels, p = predictions()
    truth, decisions = [CLASSES[c] for c in labels], [CLASSES[c] for c in p.argmax(axis=1)]
    truth[::7] = [""] * len(truth[::7])
    rows = np.flatnonzero(np.arange(len(labels)) % 7)
    paths = [Path(__file__)] * len(truth)
    expected = cu.audit(labels[rows], p[rows], CLASSES, [f"no. {i}" for i in rows], counts=COUNTS)
    for given in (p, torch.tensor(p)):
        judged = cu.audit(truth, given, CLASSES, images=paths, counts=COUNTS, decisions=decisions)
        assert judged.record == expected.record
        assert judged.names == expected.names
        assert judged.notes == (f"{len(truth[::7])} examples have no label and are not judged.", *expected.notes)
        assert judged.images is not None
        assert len(judged.images) == len(rows)
    for nothing in (None, [""] * len(truth)):
        with refused("no example has a label"):
            cu.audit(nothing, p, CLASSES)
    for wrong in (p[1:], torch.tensor(p[1:]), 0.5):
        with refused(f"{len(truth)} labels, and probabilities have the shape {np.shape(wrong)}: give as many"):
            cu.audit(truth, wrong, CLASSES)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"probabilities": np.full((400, 4), 0.3)}, ["sum to 1.2", "softmax"]),
        ({"probabilities": np.full(400, 0.3)}, ["(400,)", "(examples, classes)"]),
        ({"probabilities": np.zeros((0, 3)), "classes": None}, ["the shape (0, 3)", "an example and two classes"]),
        ({"probabilities": np.full((400, 4), np.nan)}, ["probabilities of example 0 are not finite"]),
        ({"probabilities": np.full((400, 4), -0.25)}, ["probability of example 0, class 0 is -0.25"]),
        ({"labels": [0, 1]}, ["(2,)", "400 examples"]),
        ({"labels": np.full(400, 7)}, ["label of example 0 is 7", "0 to 3"]),
        ({"labels": ["cat"] * 399 + ["dgo"]}, ["label 'dgo'", "did you mean 'dog'?"]),
        ({"labels": ["cat"] * 400, "classes": None}, ["labels are names, as 'cat'", "give classes"]),
        ({"classes": ["cat", "dog"]}, ["2 classes", "4"]),
        ({"classes": ["cat", "dog", "cat", "yak"]}, ["'cat' is given twice"]),
        ({"counts": [1, 2]}, ["2 classes", "4"]),
        ({"prior": [0.5, 0.5]}, ["prior must be 4"]),
        ({"decisions": [0, 1]}, ["decisions cannot be taken", "(2,)", "400 examples"]),
        ({"decisions": ["dgo"] * 400}, ["decisions cannot be taken", "did you mean 'dog'?"]),
        ({"names": ["a"]}, ["1 names", "400 examples"]),
        ({"images": np.zeros((3, 8, 8), np.uint8)}, ["3 images", "400 examples"]),
        ({"images": np.zeros((400, 8, 8))}, ["uint8", "float64"]),
        ({"images": ["missing.png"] * 400}, ["missing.png is not there"]),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict, parts: list[str]) -> None:
    labels, p = predictions()
    given = {"labels": labels, "probabilities": p, "classes": CLASSES, "counts": COUNTS} | change
    with refused(*parts):
        cu.audit(**given)


def test_predictions_without_errors_are_said_to_look_like_in_sample_ones() -> None:
    labels = np.repeat(np.arange(3), 20)
    audit = cu.audit(labels, np.eye(3)[labels] * 0.97 + 0.01)
    assert audit.figures.overall_error == 0
    assert any("in-sample" in note for note in audit.notes)
    assert audit.confusions == ()
    assert not any("In-sample" in note for note in audited().notes)


def test_labels_stand_in_for_counts_that_are_not_given() -> None:
    labels, p = predictions()
    audit = cu.audit(labels, p)
    assert [row.count for row in audit.classes] == [100] * 4
    assert any("Training counts were not given" in note for note in audit.notes)
    assert [row.change for row in audit.classes] == [0.0] * 4  # equal counts adjust nothing


def test_many_probabilities_leave_labels_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "CHECKED", 100)
    labels, p = predictions()
    audit = cu.audit(labels, p, CLASSES, counts=COUNTS)
    assert (audit.noise, audit.figures.label_issues, audit.classes[0].suspect) == (None, None, None)
    assert any("Labels were not checked" in note for note in audit.notes)
    with refused("cannot be judged", "labels that were checked"):
        audit.broken(["label_issues > 3"])


def test_wrong_labels_are_found() -> None:
    labels = np.repeat(np.arange(3), 60)
    p = np.full((180, 3), 0.00005)
    p[np.arange(180), labels] = 0.9999
    labels[7] = 2
    document = cu.audit(labels, p, names=[f"file {i}" for i in range(180)]).document()
    assert [(issue["name"], issue["label"], issue["guess"]) for issue in document["label_issues"]] == [
        ("file 7", "2", "0")
    ]
    assert document["figures"]["label_issues"] == 1


def test_the_prior_weighs_the_calibration_and_the_error() -> None:
    labels, p = predictions()
    prior = np.array([0.7, 0.1, 0.1, 0.1])
    audit = cu.audit(labels, p, CLASSES, counts=COUNTS, prior=prior)
    errors = np.array([row.error for row in audit.classes])
    assert audit.figures.prior_error == pytest.approx(prior @ errors)
    assert audited().figures.prior_error is None


def test_a_notebook_shows_the_worst_class_first_and_names_are_text() -> None:
    labels, p = predictions()
    html = cu.audit(labels, p, ["<cat>", "dog", "fox", "yak"], counts=COUNTS)._repr_html_()
    assert "&lt;cat&gt;" in html
    assert "<cat>" not in html
    assert html.index("yak</td>") < html.index("dog</td>")
    assert "imbalance" in html


def test_the_frame_has_a_row_a_class() -> None:
    frame = audited().to_frame()
    assert list(frame["name"]) == list(CLASSES)
    assert list(frame["error"]) == [row.error for row in audited().classes]


def test_a_missing_pandas_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("to_frame() needs pandas", "pip install pandas"):
        audited().to_frame()


@pytest.mark.parametrize("shape", [(8, 9), (8, 9, 3), (3, 8, 9)])
def test_pictures_come_in_any_usual_order(shape: tuple[int, ...]) -> None:
    labels, p = predictions()
    images = np.zeros((len(labels), *shape), dtype=np.uint8)
    kept = cu.audit(labels, p, images=images).images
    assert isinstance(kept, np.ndarray)
    assert kept.shape[2:] == (8, 9)


def test_paths_of_pictures_must_exist(tmp_path: Path) -> None:
    labels, p = predictions()
    (tmp_path / "a.png").write_bytes(b"x")
    assert cu.audit(labels, p, images=[tmp_path / "a.png"] * len(labels)).images == (tmp_path / "a.png",) * len(labels)
