"""What `cu audit` prints: the worst classes first, what cannot be judged in one line, the verdict last."""

from dataclasses import replace

import numpy as np
import pytest
from audits import CLASSES, COUNTS, audited, predictions
from scipy.stats import beta

import class_uncertainty as cu
from class_uncertainty.reporting.audit_view import audit_lines
from class_uncertainty.reporting.glossary import explained
from class_uncertainty.reporting.terminal import Verbosity

QUIET, NORMAL, VERBOSE = Verbosity


def many_classes(each: int, classes: int = 30) -> cu.Audit:
    """Predictions of which about a third is wrong, in every class."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), each)
    p = rng.dirichlet(np.full(classes, 0.5), len(labels))
    p[np.arange(len(labels)), labels] += 0.4
    return cu.audit(labels, p / p.sum(axis=1, keepdims=True), [f"c{c}" for c in range(classes)])


def test_the_worst_class_comes_first_and_the_verdict_last():
    audit = audited(1, sharpness=1.5)
    lines = audit_lines(audit, NORMAL, 80)
    names = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in CLASSES]
    assert names == [row.name for row in audit.worst_first]
    assert " ".join(lines).endswith(audit.summary)
    assert " ".join(audit_lines(audit, QUIET, 80)) == audit.summary
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80


def test_intervals_are_corrected_as_the_verdicts_are():
    """Clopper and Pearson's, at 0.05 / 4 for four classes."""
    audit = audited(1, sharpness=1.5)
    lines = audit_lines(audit, NORMAL, 80)
    for row in audit.classes:
        wrong = round(row.error * row.examples / 100)
        low = 100 * beta.ppf(0.05 / 8, wrong, row.examples - wrong + 1)
        high = 100 * beta.ppf(1 - 0.05 / 8, wrong + 1, row.examples - wrong)
        assert (row.low_together, row.high_together) == pytest.approx((low, high))
        line = next(line for line in lines if line.startswith(f"  {row.name} "))
        assert f" {low:.0f} to {high:.0f} " in line
        if row.verdict and row.kind != "easy":
            assert f"interval {low:.0f} to {high:.0f} %" in row.verdict


@pytest.mark.parametrize(("verbosity", "listed"), [(NORMAL, 8), (VERBOSE, 30)])
def test_of_many_classes_the_worst_are_listed(verbosity, listed):
    lines = audit_lines(many_classes(20), verbosity, 80)
    table = lines[: lines.index("", lines.index("") + 1)]
    assert len([line for line in table if line.startswith("  c") and " to " in line]) == listed
    assert ("22 more classes" in " ".join(lines)) == (verbosity == NORMAL)
    assert verbosity == VERBOSE or len(lines) <= 23


def test_most_classes_without_a_handful_of_examples_are_the_verdict():
    audit = many_classes(9)
    lines = audit_lines(audit, NORMAL, 80)
    assert "30 classes have fewer than 10 examples, not judged: " in " ".join(lines)
    assert "30 of 30 classes have fewer than 10 examples" in audit.summary
    assert " ".join(lines).endswith(audit.summary)
    judged = many_classes(60)
    assert "judged" not in " ".join(audit_lines(judged, NORMAL, 80))


def test_a_class_with_a_handful_is_judged_however_wide_its_interval():
    """Of four classes of 11 to 40 examples, the table and the summary leave out the same ones: none."""
    labels = np.repeat(np.arange(4), [40, 20, 12, 11])
    p = np.eye(4)[(labels + np.arange(len(labels)) % 2) % 4] * 0.8 + 0.05
    audit = cu.audit(labels, p)
    assert [row.kind for row in audit.classes].count("unknown") == 3
    assert "fewer than" not in " ".join(audit_lines(audit, NORMAL, 80))
    few = cu.audit(labels[:-2], p[:-2])  # nine of the last class
    lines = audit_lines(few, NORMAL, 80)
    assert "1 class has fewer than 10 examples, not judged: 3." in " ".join(lines)
    assert not any(line.startswith("  3 ") for line in lines)


def test_of_two_classes_the_rarer_one_is_named_with_its_figures():
    labels, p = predictions()
    two = cu.audit(
        (labels > 1).astype(int), np.stack([p[:, :2].sum(1), p[:, 2:].sum(1)], axis=1), ["no", "yes"], counts=[700, 80]
    )
    text = audit_lines(two, NORMAL, 80)
    figures = two.figures.two
    assert figures is not None
    for word, value in (
        ("precision of yes", figures.precision),
        ("recall of yes", figures.recall),
        ("F1 of yes", figures.f1),
        ("average precision of yes", figures.average_precision),
    ):
        line = next(line for line in text if line.startswith(f"  {word}"))
        assert line.split()[-1] == f"{value:.1f}"
    assert "threshold" not in " ".join(text)


def test_copies_under_two_labels_come_before_labels_that_look_wrong():
    labels, p = predictions()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(labels), 4, 4), dtype=np.uint8)
    cat, yak = (int(np.flatnonzero(labels == c)[0]) for c in (0, 3))
    images[yak] = images[cat]
    names = [f"{i}.png" for i in range(len(labels))]
    audit = cu.audit(labels, p, CLASSES, names, images, counts=COUNTS)
    assert audit.label_conflicts == [tuple(sorted((cat, yak)))]
    assert audit.document()["label_conflicts"][0]["labels"] in (["cat", "yak"], ["yak", "cat"])
    text = " ".join(audit_lines(audit, NORMAL, 80))
    assert f"{cat}.png (cat)" in text
    assert f"{yak}.png (yak)" in text
    figures = replace(audit.record.figures, label_issues=2)
    both = " ".join(audit_lines(replace(audit, record=replace(audit.record, figures=figures)), NORMAL, 80))
    assert both.index("1 image has") < both.index("2 labels are")


def test_copies_of_files_under_two_labels(tmp_path):
    for name, content in (("a.png", b"x"), ("b.png", b"x"), ("c.png", b"y"), ("d.png", b"x")):
        (tmp_path / name).write_bytes(content)
    p = np.tile([0.6, 0.4], (4, 1))
    images = [tmp_path / name for name in ("a.png", "b.png", "c.png", "d.png")]
    assert cu.audit([0, 1, 1, 0], p, images=images).label_conflicts == [(0, 1)]
    assert cu.audit([0, 0, 1, 0], p, images=images).label_conflicts == []
    three = cu.audit([0, 1, 1, 2], np.full((4, 3), 1 / 3), images=images)
    assert three.label_conflicts == [(0, 1, 3)]
    sentence = " ".join(audit_lines(three, NORMAL, 80))
    assert "1 image has two labels: no. 0 (0) = no. 1 (1) = no. 3 (2)." in sentence


def test_a_baseline_says_what_clearly_got_better():
    now, before = audited(1, sharpness=5.0), audited(0, sharpness=1.5)
    changes = now.against(before)
    text = " ".join(audit_lines(now, QUIET, 80, changes))
    for row in changes.better:
        assert f"{row.name} ({row.before:.1f} to {row.after:.1f} %)" in text
    assert "clear" in text
    assert text.endswith(now.summary)
    assert "NLL" not in text


@pytest.mark.parametrize("width", [80, 100])
def test_long_names_are_folded(width):
    names = [f"a class of a name that is long enough to be folded, number {c}" for c in range(4)]
    labels, p = predictions(1, sharpness=1.5)
    lines = audit_lines(cu.audit(labels, p, names, counts=COUNTS), NORMAL, width)
    table = lines[lines.index("") + 1 :]
    assert max(map(len, table)) <= width
    text = " ".join(" ".join(table).split())
    assert names[0] not in text
    assert "folded" in text


@pytest.mark.parametrize("verbosity", [NORMAL, VERBOSE])
def test_every_column_is_explained(verbosity):
    lines = audit_lines(audited(1, sharpness=1.5), verbosity, 80)
    for heading in (line for line in lines if line.startswith("  class ") and "%" in line and "mean" not in line):
        for column in filter(None, map(str.strip, heading.split("  ")[2:])):
            assert len(explained([column])) > 2, column
