"""Files of predictions: .npz, .csv and .parquet say the same."""

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from audits import CLASSES, COUNTS, audited, predictions
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.posthoc.diagnosis import BY_COST
from class_uncertainty.posthoc.written_predictions import PredictionTable, write_predictions
from class_uncertainty.reporting.audit_page import render
from class_uncertainty.reporting.audit_terminal import print_audit
from class_uncertainty.workflows.audit_files import audit_file

NAMES = [f"row {i}" for i in range(400)]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    labels, p = predictions()
    np.savez(tmp_path / "p.npz", probabilities=p, labels=labels, classes=CLASSES, counts=COUNTS, names=NAMES)
    truth = [CLASSES[c] for c in labels]
    table = PredictionTable(NAMES, CLASSES, p, [CLASSES[c] for c in p.argmax(axis=1)], truth=truth)
    write_predictions(tmp_path / "p.csv", table, {"counts": COUNTS})
    columns = {f"p({name})": p[:, c] for c, name in enumerate(CLASSES)} | {"label": truth, "example": NAMES}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "p.parquet")
    return {kind: tmp_path / f"p.{kind}" for kind in ("npz", "csv", "parquet")}


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_every_format_gives_the_same_audit(files: dict[str, Path], kind: str) -> None:
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


def test_logits_and_names_as_labels_are_taken(tmp_path: Path) -> None:
    labels, p = predictions()
    np.savez(tmp_path / "z.npz", logits=np.log(p) + 3, labels=[CLASSES[c] for c in labels], classes=CLASSES)
    assert audit_file(tmp_path / "z.npz", counts=COUNTS).figures.error == audited().figures.error


def test_examples_without_a_label_are_counted_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("label,class,p(a),p(b)\na,b,0.9,0.1\n,a,0.9,0.1\nb,b,0.2,0.8\n")
    audit = audit_file(tmp_path / "p.csv")
    assert audit.figures.examples == 2
    assert any("1 example has no label and is not judged" in note for note in audit.notes)
    assert "1 example has a more probable class" in audit.notes[0]
    assert "NLL are of the probabilities, ECE of those of the decided classes." in audit.notes[0]


def test_the_decisions_of_a_file_are_judged_and_not_its_most_probable_classes(tmp_path: Path) -> None:
    """As 'cu predict' writes them: probabilities are for the training prior, decisions for equal classes."""
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
    assert "as frequent as in training" in audit.notes[0]
    np.testing.assert_array_equal(audit.guesses, decisions)
    assert not any("another prior" in note for note in audit.notes)


def test_the_costs_that_a_model_decides_by_are_read_and_verdicts_are_not_of_what_they_make_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    print_audit(audit)
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith(BY_COST)  # before verdicts and table
    assert out.index("verdict, ") < out.index("without costs")  # two lines of a heading
    page = render(audit, tmp_path)
    assert f'<p class="lead">{BY_COST}' in page
    assert BY_COST in page.partition("<h2>All classes</h2>")[2].partition("<table")[0]
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


def test_probabilities_for_another_prior_are_converted_and_that_is_said(tmp_path: Path) -> None:
    """'cu predict --prior equal' divides by the frequencies of training."""
    labels, p = predictions()
    equal = p / COUNTS / (p / COUNTS).sum(axis=1, keepdims=True)
    truth = [CLASSES[c] for c in labels]
    table = PredictionTable(NAMES, CLASSES, equal, [CLASSES[c] for c in equal.argmax(axis=1)], truth=truth)
    write_predictions(tmp_path / "p.csv", table, {"counts": COUNTS, "prior": [1 / len(CLASSES)] * len(CLASSES)})
    audit = audit_file(tmp_path / "p.csv")
    assert audit.figures.nll == pytest.approx(audited().figures.nll, rel=1e-4)
    assert any("are for another prior: they were converted to that of training" in note for note in audit.notes)


def test_with_equal_counts_there_is_nothing_to_adjust_decisions_for(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("label,class,p(a),p(b)\n" + "a,b,0.9,0.1\nb,b,0.2,0.8\n" * 5)
    audit = audit_file(tmp_path / "p.csv")
    assert (audit.figures.error, audit.figures.adjusted_change) == (50.0, 0.0)


def test_a_file_without_labels_is_refused_by_its_own_columns(tmp_path: Path) -> None:
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
def test_what_cannot_be_audited_is_refused(tmp_path: Path, name: str, content: str, parts: list[str]) -> None:
    (tmp_path / name).write_text(content)
    with refused(*parts):
        audit_file(tmp_path / name)


def test_arrays_without_labels_and_files_that_are_missing_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", probabilities=predictions()[1])
    with refused("no array called labels", "np.savez('p.npz'"):
        audit_file(tmp_path / "p.npz")
    (tmp_path / "p.npz").rename(tmp_path / "predicted.npz")
    with refused("does not exist", "did you mean", "predicted.npz"):
        audit_file(tmp_path / "predictd.npz")


@pytest.mark.parametrize("decimals", [2, 3])
def test_rounded_probabilities_are_taken_and_sum_to_one(tmp_path: Path, decimals: int) -> None:
    labels, p = predictions()
    lines = [[CLASSES[c], *(f"{cell:.{decimals}f}" for cell in row)] for c, row in zip(labels, p, strict=True)]
    heading = ["label", *(f"p({name})" for name in CLASSES)]
    (tmp_path / "p.csv").write_text("\n".join(map(",".join, [heading, *lines])))
    audit = audit_file(tmp_path / "p.csv", counts=COUNTS)
    assert f"rounded to {decimals} decimals" in audit.notes[0]
    assert audit.figures.error == pytest.approx(audited().figures.error, abs=1)  # ties
    np.testing.assert_allclose(audit.p_guess, p.max(axis=1), atol=2 * 10.0**-decimals)


def test_an_empty_probability_of_a_parquet_file_is_named_by_its_row(tmp_path: Path) -> None:
    columns = {"label": ["a", "b"], "p(a)": [0.5, None], "p(b)": [0.5, 0.5]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "p.parquet")
    with refused("row 1", "column p(a)", "no number"):
        audit_file(tmp_path / "p.parquet")


def test_pictures_are_found_beside_the_file(tmp_path: Path) -> None:
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
