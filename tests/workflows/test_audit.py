"""cu.audit: the input contract, notes, notebooks and DataFrames."""

import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import torch
from audits import CLASSES, COUNTS, audited, predictions
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.posthoc.diagnosis import BY_COST
from class_uncertainty.posthoc.written_predictions import PredictionTable, write_predictions
from class_uncertainty.reporting.audit_page import audit_page
from class_uncertainty.reporting.audit_view import audit_lines
from class_uncertainty.reporting.terminal import Verbosity
from class_uncertainty.workflows import audit as audit_module
from class_uncertainty.workflows.audit import audit_file


def test_labels_may_be_numbers_names_or_tensors():
    labels, p = predictions()
    names = [CLASSES[c] for c in labels]
    expected = audited().document()
    for given in (names, np.array(names), np.array(names, dtype=object), torch.tensor(labels), labels.astype(np.uint8)):
        assert cu.audit(given, p, CLASSES, counts=COUNTS).document() == expected
    assert cu.audit(labels, p, CLASSES, counts=np.array(COUNTS, float)).document() == expected
    tensor = cu.audit(labels, torch.tensor(p), CLASSES, counts=COUNTS)
    assert tensor.figures.error == audited().figures.error


def test_examples_without_a_label_are_left_out_and_counted():
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
def test_bad_input_is_refused_in_one_sentence(change, parts):
    labels, p = predictions()
    given = {"labels": labels, "probabilities": p, "classes": CLASSES, "counts": COUNTS} | change
    with refused(*parts):
        cu.audit(**given)


def test_predictions_without_errors_are_said_to_look_like_in_sample_ones():
    labels = np.repeat(np.arange(3), 20)
    audit = cu.audit(labels, np.eye(3)[labels] * 0.97 + 0.01)
    assert audit.figures.overall_error == 0
    assert any("in-sample" in note for note in audit.notes)
    assert audit.confusions == ()
    assert not any("In-sample" in note for note in audited().notes)


def test_labels_stand_in_for_counts_that_are_not_given():
    labels, p = predictions()
    audit = cu.audit(labels, p)
    assert [row.count for row in audit.classes] == [100] * 4
    assert any("Training counts were not given" in note for note in audit.notes)
    assert [row.change for row in audit.classes] == [0.0] * 4  # equal counts adjust nothing


def test_many_probabilities_leave_labels_unchecked(monkeypatch):
    monkeypatch.setattr(audit_module, "CHECKED", 100)
    labels, p = predictions()
    audit = cu.audit(labels, p, CLASSES, counts=COUNTS)
    assert (audit.noise, audit.figures.label_issues, audit.classes[0].suspect) == (None, None, None)
    assert any("Labels were not checked" in note for note in audit.notes)
    with refused("cannot be judged", "labels that were checked"):
        audit.broken(["label_issues > 3"])


def test_wrong_labels_are_found():
    labels = np.repeat(np.arange(3), 60)
    p = np.full((180, 3), 0.00005)
    p[np.arange(180), labels] = 0.9999
    labels[7] = 2
    document = cu.audit(labels, p, names=[f"file {i}" for i in range(180)]).document()
    assert [(issue["name"], issue["label"], issue["guess"]) for issue in document["label_issues"]] == [
        ("file 7", "2", "0")
    ]
    assert document["figures"]["label_issues"] == 1


def test_the_prior_weighs_the_calibration_and_the_error():
    labels, p = predictions()
    prior = np.array([0.7, 0.1, 0.1, 0.1])
    audit = cu.audit(labels, p, CLASSES, counts=COUNTS, prior=prior)
    errors = np.array([row.error for row in audit.classes])
    assert audit.figures.prior_error == pytest.approx(prior @ errors)
    assert audited().figures.prior_error is None


def test_a_notebook_shows_the_worst_class_first_and_names_are_text():
    labels, p = predictions()
    html = cu.audit(labels, p, ["<cat>", "dog", "fox", "yak"], counts=COUNTS)._repr_html_()
    assert "&lt;cat&gt;" in html
    assert "<cat>" not in html
    assert html.index("yak ") < html.index("dog ")
    assert "imbalance" in html


def test_the_frame_has_a_row_a_class():
    frame = audited().to_frame()
    assert list(frame["name"]) == list(CLASSES)
    assert list(frame["error"]) == [row.error for row in audited().classes]


def test_a_missing_pandas_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("to_frame() needs pandas", "pip install pandas"):
        audited().to_frame()


@pytest.mark.parametrize("shape", [(8, 9), (8, 9, 3), (3, 8, 9)])
def test_pictures_come_in_any_usual_order(shape):
    labels, p = predictions()
    images = np.zeros((len(labels), *shape), dtype=np.uint8)
    kept = cu.audit(labels, p, images=images).images
    assert isinstance(kept, np.ndarray)
    assert kept.shape[2:] == (8, 9)


def test_paths_of_pictures_must_exist(tmp_path):
    labels, p = predictions()
    (tmp_path / "a.png").write_bytes(b"x")
    assert cu.audit(labels, p, images=[tmp_path / "a.png"] * len(labels)).images == (tmp_path / "a.png",) * len(labels)


NAMES = [f"row {i}" for i in range(400)]


@pytest.fixture
def files(tmp_path):
    labels, p = predictions()
    np.savez(tmp_path / "p.npz", probabilities=p, labels=labels, classes=CLASSES, counts=COUNTS, names=NAMES)
    truth = [CLASSES[c] for c in labels]
    table = PredictionTable(NAMES, CLASSES, p, [CLASSES[c] for c in p.argmax(axis=1)], truth=truth)
    write_predictions(tmp_path / "p.csv", table, {"counts": COUNTS})
    columns = {f"p({name})": p[:, c] for c, name in enumerate(CLASSES)} | {"label": truth, "example": NAMES}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "p.parquet")
    return {kind: tmp_path / f"p.{kind}" for kind in ("npz", "csv", "parquet")}


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_every_format_gives_the_same_audit(files, kind):
    audit = audit_file(files[kind], counts=COUNTS)
    assert audit.names == tuple(NAMES)
    for row, expected in zip(audit.classes, audited().classes, strict=True):
        assert (row.name, row.count, row.error, row.kind) == (
            expected.name,
            expected.count,
            expected.error,
            expected.kind,
        )
        assert row.ece == pytest.approx(expected.ece, rel=1e-3)  # a CSV file has six digits


def test_logits_and_names_as_labels_are_taken(tmp_path):
    labels, p = predictions()
    np.savez(tmp_path / "z.npz", logits=np.log(p) + 3, labels=[CLASSES[c] for c in labels], classes=CLASSES)
    assert audit_file(tmp_path / "z.npz", counts=COUNTS).figures.error == audited().figures.error


def test_examples_without_a_label_are_counted_and_left_out(tmp_path):
    (tmp_path / "p.csv").write_text("label,class,p(a),p(b)\na,b,0.9,0.1\n,a,0.9,0.1\nb,b,0.2,0.8\n")
    audit = audit_file(tmp_path / "p.csv")
    assert audit.figures.examples == 2
    assert any("1 example has no label and is not judged" in note for note in audit.notes)
    assert "1 example has a more probable class" in audit.notes[0]
    assert "NLL describe the probabilities, ECE those of the decided classes." in audit.notes[0]


def test_the_decisions_of_a_file_are_judged_and_not_its_most_probable_classes(tmp_path):
    """Of a file of another program, whose probabilities are for the training prior, and decisions for equal classes."""
    labels, p = predictions()
    decisions = (p / COUNTS).argmax(axis=1)
    names = [[CLASSES[c] for c in places] for places in (decisions, labels)]
    write_predictions(
        tmp_path / "p.csv", PredictionTable(NAMES, CLASSES, p, names[0], truth=names[1]), {"counts": COUNTS}
    )
    audit = audit_file(tmp_path / "p.csv")
    errors = [100 * np.mean(decisions[labels == c] != c) for c in range(len(CLASSES))]
    assert [row.error for row in audit.classes] == pytest.approx(errors)
    assert audit.figures.error == pytest.approx(np.mean(errors))
    assert audit.figures.error < audited().figures.error - 5  # of the most probable classes
    assert audit.figures.worst_class_error == pytest.approx(max(errors))
    assert abs(audit.figures.adjusted_change) < 2  # it is adjusted already
    assert audit.broken([f"error > {np.mean(errors) + 0.1}"]) == []
    confused = [np.sum((labels == 0) & (decisions == c)) for c in range(1, len(CLASSES))]
    assert [row.examples for row in audit.confusions if row.label == "cat"] == sorted(filter(None, confused))[::-1]
    assert audit.figures.nll == pytest.approx(-np.log(p[np.arange(400), labels]).mean(), rel=1e-4)
    assert audit.figures.nll == pytest.approx(audited().figures.nll, rel=1e-4)
    assert "decisions in the column class" in audit.notes[0]
    np.testing.assert_array_equal(audit.guesses, decisions)
    assert not any("another prior" in note for note in audit.notes)


def test_the_costs_that_a_model_decides_by_are_read_and_verdicts_are_not_of_what_they_make_worse(tmp_path):
    """Missing a rare example costs 9: the common class is often wrong on purpose, and nothing is wrong with that."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], [400, 200])
    rare = np.clip(rng.normal(0.25 + 0.5 * labels, 0.15), 0.01, 0.99)
    p, names = np.stack([1 - rare, rare], axis=1), np.array(["no", "yes"])
    decisions, costs = (rare > 0.1).astype(np.int64), np.array([[0.0, 1], [9, 0]])
    table = PredictionTable([f"n{i}" for i in range(600)], ("no", "yes"), p, names[decisions], truth=names[labels])
    write_predictions(tmp_path / "p.csv", table, {"counts": [400, 200], "costs": costs.tolist()})
    audit = audit_file(tmp_path / "p.csv")
    assert audit.figures.mean_cost == pytest.approx(costs[labels, decisions].mean())
    assert audit.classes[0].error == pytest.approx(100 * np.mean(decisions[labels == 0]))
    assert audit.classes[0].error > 50
    assert audit.verdicts == ()
    assert audit.summary.startswith(BY_COST)
    assert audit.document()["summary"] == audit.summary
    out = " ".join(audit_lines(audit, Verbosity.NORMAL, 80))
    assert BY_COST in out
    assert "verdict, without costs" in out
    page = audit_page(audit)
    assert BY_COST in page.blocks[0].text
    assert page.lead == audit.summary.removeprefix(f"{BY_COST} ")
    probable = cu.audit(labels, p, ["no", "yes"], counts=[400, 200])
    assert [row.verdict for row in audit.classes] == [row.verdict for row in probable.classes]
    arrays = {"labels": labels, "probabilities": p, "classes": names, "counts": [400, 200], "decisions": decisions}
    np.savez(tmp_path / "p.npz", costs=costs, **arrays)
    same = audit_file(tmp_path / "p.npz")
    assert [(row.error, row.kind, row.verdict) for row in same.classes] == [
        (row.error, row.kind, row.verdict) for row in audit.classes
    ]
    assert same.summary == audit.summary
    np.savez(tmp_path / "p.npz", **arrays)
    assert [row.name for row in audit_file(tmp_path / "p.npz").verdicts] == ["no"]
    assert BY_COST not in audit_file(tmp_path / "p.npz").summary
    assert audit.figures.two is not None
    assert audit.figures.two.threshold is None  # the lowest probability of a decision is not where it was made
    write_predictions(tmp_path / "p.csv", table, {"counts": [400, 200]})
    assert [row.name for row in audit_file(tmp_path / "p.csv").verdicts] == ["no"]  # these costs are what tells
    (tmp_path / "costs.csv").write_text(",yes,no\nyes,0,4\nno,1,0\n")
    given = audit_file(tmp_path / "p.csv", costs=tmp_path / "costs.csv")
    assert given.figures.mean_cost == pytest.approx(np.array([[0.0, 1], [4, 0]])[labels, decisions].mean())
    assert [row.name for row in given.verdicts] == ["no"]  # these costs need not be what it decided by


def test_probabilities_for_another_prior_are_judged_as_they_are_under_that_prior(tmp_path):
    """'cu predict --prior equal' divides by the frequencies of training, and decides by the result."""
    labels, p = predictions()
    equal = p / COUNTS / (p / COUNTS).sum(axis=1, keepdims=True)
    truth = [CLASSES[c] for c in labels]
    table = PredictionTable(NAMES, CLASSES, equal, [CLASSES[c] for c in equal.argmax(axis=1)], truth=truth)
    write_predictions(tmp_path / "p.csv", table, {"counts": COUNTS, "prior": [1 / len(CLASSES)] * len(CLASSES)})
    audit = audit_file(tmp_path / "p.csv")
    surprises = -np.log(equal[np.arange(len(labels)), labels])
    mean_of_classes = np.mean([surprises[labels == c].mean() for c in range(len(CLASSES))])
    assert audit.figures.nll == pytest.approx(mean_of_classes, rel=1e-4)
    wrong = equal.argmax(axis=1) != labels
    errors = [100 * wrong[labels == c].mean() for c in range(len(CLASSES))]
    assert [row.error for row in audit.classes] == pytest.approx(errors)
    assert audit.notes == ()
    assert abs(audit.figures.adjusted_change) < 2  # it is adjusted already


def test_with_equal_counts_there_is_nothing_to_adjust_decisions_for(tmp_path):
    (tmp_path / "p.csv").write_text("label,class,p(a),p(b)\n" + "a,b,0.9,0.1\nb,b,0.2,0.8\n" * 5)
    audit = audit_file(tmp_path / "p.csv")
    assert (audit.figures.error, audit.figures.adjusted_change) == (50.0, 0.0)


def test_a_file_without_labels_is_refused_by_its_own_columns(tmp_path):
    (tmp_path / "p.csv").write_text("id,Label,p(a),p(b)\n7,a,0.5,0.5\n")
    with refused("no column label", "id, Label, p(a), p(b)", "Rename 'Label'") as refusal:
        audit_file(tmp_path / "p.csv")
    assert "example" not in str(refusal.value)
    (tmp_path / "p.csv").write_text("label,p(a),p(b)\n,0.5,0.5\n")
    with refused("empty column label"):
        audit_file(tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("p.txt", "x", ["p.txt has no known ending", ".npz, .csv or .parquet"]),
        ("p.csv", "p(a),p(b)\n0.5,0.5\n", ["no column label"]),
        ("p.csv", "label,p(a),p(b)\nc,0.5,0.5\n", ["label 'c'", "a, b"]),
        ("p.csv", "label,p(a),p(b)\na,0.5,0.9\n", ["sum to 1.4"]),
        ("p.csv", "label,a,b\na,0.5,0.5\n", ["p(CLASS)"]),
        ("p.csv", "label,p(a),p(b)\na,0.9,0.1\n\na,x,0.9\n", ["line 4", "column p(a)", "'x' is no number"]),
        ("p.csv", "label,p(a),p(b)\na,0.5,\n", ["line 2", "column p(b)", "empty cell"]),
        ("p.csv", "label,p(a),p(b)\na,0.5,0.5\na,nan,1\n", ["line 3", "column p(a)", "'nan' is no number"]),
        ("p.csv", "label,p(a),p(b)\na,0.5,0.5,0\n", ["line 2", "4 cells", "heading has 3"]),
        ("p.csv", "label;p(a);p(b)\na;0,5;0,5\n", ["semicolons", "commas"]),
        ("p.csv", "label,p(a),p(b)\na,0.50,0.52\n", ["sum to 1.02"]),  # two decimals explain 0.01
        ("p.csv", "label,p(a),p(b)\na,0,0\n", ["sum to 0"]),
        ("p.csv", "label,p(a),p(b)\na,1.1,-0.1\nb,0.0,1.1\n", ["-0.1", "negative"]),
        ("p.parquet", "nothing", ["cannot be read as Parquet"]),
        ("p.npz", "nothing", ["p.npz"]),
    ],
)
def test_what_cannot_be_audited_is_refused(tmp_path, name, content, parts):
    (tmp_path / name).write_text(content)
    with refused(*parts):
        audit_file(tmp_path / name)


def test_arrays_without_labels_and_files_that_are_missing_are_refused(tmp_path):
    np.savez(tmp_path / "p.npz", probabilities=predictions()[1])
    with refused("no array called labels", "np.savez('p.npz'"):
        audit_file(tmp_path / "p.npz")
    (tmp_path / "p.npz").rename(tmp_path / "predicted.npz")
    with refused("does not exist", "did you mean", "predicted.npz"):
        audit_file(tmp_path / "predictd.npz")


@pytest.mark.parametrize("decimals", [2, 3])
def test_rounded_probabilities_are_taken_and_sum_to_one(tmp_path, decimals):
    labels, p = predictions()
    lines = [[CLASSES[c], *(f"{cell:.{decimals}f}" for cell in row)] for c, row in zip(labels, p, strict=True)]
    heading = ["label", *(f"p({name})" for name in CLASSES)]
    (tmp_path / "p.csv").write_text("\n".join(map(",".join, [heading, *lines])))
    audit = audit_file(tmp_path / "p.csv", counts=COUNTS)
    assert f"rounded to {decimals} decimals" in audit.notes[0]
    assert audit.figures.error == pytest.approx(audited().figures.error, abs=1)  # ties
    np.testing.assert_allclose(audit.p_guess, p.max(axis=1), atol=2 * 10.0**-decimals)


def test_an_empty_probability_of_a_parquet_file_is_named_by_its_row(tmp_path):
    columns = {"label": ["a", "b"], "p(a)": [0.5, None], "p(b)": [0.5, 0.5]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "p.parquet")
    with refused("row 1", "column p(a)", "no number"):
        audit_file(tmp_path / "p.parquet")


def test_pictures_are_found_beside_the_file(tmp_path):
    (tmp_path / "pictures").mkdir()
    for name in "ab":
        (tmp_path / "pictures" / f"{name}.png").write_bytes(b"x")
    lines = "label,image,p(x),p(y)\nx,pictures/a.png,0.9,0.1\ny,pictures/b.png,0.2,0.8\n"
    (tmp_path / "p.csv").write_text(lines)
    folder = tmp_path / "pictures"
    assert audit_file(tmp_path / "p.csv").images == (folder / "a.png", folder / "b.png")
    (tmp_path / "p.csv").write_text(lines.replace("b.png", "c.png"))
    with refused("c.png is not there"):
        audit_file(tmp_path / "p.csv")


def test_the_columns_of_a_frame_name_the_classes(rng):
    p, labels = rng.dirichlet(np.ones(3), 60), np.array(["rose", "red", "white"] * 20)
    frame = pandas.DataFrame(p, columns=["red", "rose", "white"])
    audited = cu.audit(pandas.Series(labels), frame)
    assert audited.document() == cu.audit(labels, p, classes=["red", "rose", "white"]).document()
    assert cu.audit([0, 1, 2] * 20, pandas.DataFrame(p)).document() == cu.audit([0, 1, 2] * 20, p).document()
