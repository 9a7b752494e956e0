"""What `cu measure` prints: the order of the classes, what is listed of many, and what is not said where it would be
nonsense."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from example_results import make_result
from reporting.examples import class_row_examples

import class_uncertainty as cu
from class_uncertainty.reporting.glossary import explained
from class_uncertainty.reporting.measure_view import estimator_lines, measure_lines
from class_uncertainty.reporting.terminal import Verbosity
from class_uncertainty.runs.rows import ClassRow
from class_uncertainty.workflows.measure import EstimatorComparison, EstimatorRow, Measured

QUIET, NORMAL, VERBOSE = Verbosity
IMAGES = np.arange(24, dtype=np.uint8).reshape(6, 1, 2, 2)
LABELS = [0, 1, 0, 1, 0, 1]
SPLIT = cu.Dataset("x", cu.Data(IMAGES, LABELS), cu.Data(IMAGES + 100, LABELS))
FOLDS = cu.Dataset("x", cu.Data(IMAGES, LABELS))


def rows_of(number: int) -> list[ClassRow]:
    """Intervals of 4 points around errors of which the classes with more uncertainty have more."""
    rows = []
    for c, row in enumerate(class_row_examples(number)):
        error = round(100 * row.uncertainty, 1)
        rows.append(replace(row, name=f"c{c}", error=error, low=max(error - 2, 0), high=error + 2, examples=40))
    return rows


def measured(
    rows: Sequence[ClassRow], dataset: cu.Dataset = SPLIT, estimator: str = "ensemble", method: str = "naive"
) -> Measured:
    """The value of `cu.measure` with these rows, by two networks. Their probabilities are all 0.5."""
    labels = dataset.train.labels
    recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    results = [make_result(cu.Lane(method, seed), recipe=recipe) for seed in (0, 1)]
    p = np.full((2, len(labels), 2), 0.5, np.float32)
    return Measured(dataset, cu.Estimate(estimator, p, labels, tuple(results)), tuple(rows))


def cells(lines: Sequence[str], name: str) -> list[str]:
    """The cells of the first line that begins with this name, which is cut off."""
    line = next(line for line in lines if line.startswith(f"  {name}  "))
    return line.removeprefix(f"  {name}").split()


def test_the_most_uncertain_class_comes_first():
    rows = rows_of(10)
    lines = measure_lines(measured(rows), NORMAL, 80)
    names = {row.name: row for row in rows}
    listed = [names[line.split()[0]] for line in lines if line.startswith("  c") and " to " in line]
    assert len(listed) == 10
    assert [row.uncertainty for row in listed] == sorted((row.uncertainty for row in listed), reverse=True)
    row = rows[2]
    shares = [f"{row.count}", f"{100 * row.uncertainty:.1f}"]
    assert cells(lines, "c2") == [*shares, "8", "->", "10", f"{row.error:.1f}", "0", "to", f"{row.high:.0f}"]


def test_ten_classes_fit_into_170_words_and_80_columns():
    lines = measure_lines(measured(rows_of(10)), NORMAL, 80)
    assert len(" ".join(lines).split()) <= 170
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 20


@pytest.mark.parametrize(("verbosity", "listed"), [(NORMAL, 10), (VERBOSE, 40)])
def test_of_many_classes_the_most_uncertain_are_listed(verbosity, listed):
    lines = measure_lines(measured(rows_of(40)), verbosity, 80)
    assert len([line for line in lines if line.startswith("  c") and " to " in line]) == listed
    assert ("--verbose" in " ".join(lines)) == (verbosity == NORMAL)


def test_ranks_are_shown_where_they_are_two_apart():
    rows = [replace(row, rank_uncertainty=row.rank_cardinality + 1) for row in rows_of(10)]
    assert "->" not in " ".join(measure_lines(measured(rows), NORMAL, 80))


def test_equal_counts_have_no_ranks_and_no_class_is_harder_than_its_count():
    rows = [replace(row, count=30, cardinality=0.1, rank_cardinality=5.5) for row in rows_of(10)]
    text = " ".join(measure_lines(measured(rows), NORMAL, 80))
    for word in ("->", "rarity", "nan", "arder"):
        assert word not in text
    assert "uncertainty 1.00" in text


@pytest.mark.parametrize("number", [2, 3, 10])
def test_without_errors_nothing_is_said_of_them(number):
    rows = [replace(row, error=None, low=None, high=None) for row in rows_of(number)]
    lines = measure_lines(measured(rows, estimator="probabilities:p.npy"), NORMAL, 80)
    assert "rror" not in " ".join(lines)
    assert lines[-1] != ""
    assert measure_lines(measured(rows, estimator="probabilities:p.npy"), QUIET, 80) == []


def test_the_last_block_alone_ends_the_whole_output():
    whole = measure_lines(measured(rows_of(10)), NORMAL, 80)
    last = measure_lines(measured(rows_of(10)), QUIET, 80)
    assert whole[-len(last) :] == last
    assert whole[-len(last) - 1] == ""


def test_harder_and_easier_classes_are_named():
    last = " ".join(measure_lines(measured(rows_of(10)), QUIET, 80))
    assert "arder" in last
    assert " c0" in last  # the most frequent one, whose error is among the largest
    assert "asier" in last


def test_networks_of_another_method_are_named():
    """Uncertainty tells of the method then: no class is called harder."""
    name = "ensemble:power-rs:q=-1"
    last = " ".join(measure_lines(measured(rows_of(10), estimator=name, method="power-rs:q=-1"), QUIET, 80))
    assert "power-rs:q=-1" in last
    assert "arder" not in last


def test_folds_are_named_as_evidence():
    lines = measure_lines(measured(rows_of(10), FOLDS), VERBOSE, 80)
    assert "5 folds" in lines[0]


def test_long_names_are_folded_and_whole():
    name = "a class with a name that is much longer than there is room for beside its numbers"
    rows = [replace(row, name=name) if c == 3 else row for c, row in enumerate(rows_of(10))]
    for width in (80, 100):
        lines = measure_lines(measured(rows), NORMAL, width)
        assert max(map(len, lines)) <= width
        first = next(i for i, line in enumerate(lines) if line.startswith("  a class "))
        column = next(line for line in lines if line.startswith("  class ")).index("train") - 2
        end = next(i for i in range(first + 1, len(lines)) if len(lines[i]) > column or not lines[i])
        folded = "".join(line[2:column].ljust(column - 2) for line in lines[first:end])
        assert "".join(folded.split()) == "".join(name.split())


def ranked(order: int, width: float = 2.0, classes: int = 10) -> list[ClassRow]:
    """Classes whose errors rise; uncertainty rises with them, or falls where the order is -1."""
    return [
        replace(row, uncertainty=float((c * order) % 11), error=5.0 * c, low=5 * c - width, high=5 * c + width)
        for c, row in enumerate(class_row_examples(classes), 1)
    ]


@pytest.mark.parametrize(
    ("rows", "estimator", "is_advised"),
    [
        (ranked(-1), "ensemble", True),
        (ranked(-1), "online", True),
        (ranked(1), "ensemble", False),
        (ranked(-1, width=30.0), "ensemble", False),
        (ranked(-1, classes=9), "ensemble", False),
        (ranked(-1), "out-of-fold", False),
        (ranked(-1), "probabilities:p.npy", False),
    ],
)
def test_unseen_examples_are_advised_where_uncertainty_ranks_poorly(rows, estimator, is_advised):
    last = " ".join(measure_lines(measured(rows, estimator=estimator), QUIET, 80))
    assert ("--estimator out-of-fold" in last) == is_advised


def test_copies_are_named_before_another_estimator():
    """Folds do not help against them. Rows of a table may be alike by chance."""
    pixels = np.zeros((5, 1, 2, 2), np.uint8)
    pixels[3:] = 1
    copied = cu.Dataset("x", cu.Data(pixels, [0, 1, 0, 1, 0]))
    last = " ".join(measure_lines(measured(ranked(-1), copied), QUIET, 80))
    assert "cu check" in last
    assert "--estimator" not in last
    table = cu.Dataset("x", cu.Data(pixels.reshape(5, 4).astype(float), [0, 1, 0, 1, 0]))
    assert "repeat" not in " ".join(measure_lines(measured(ranked(-1), table), QUIET, 80))


@pytest.mark.parametrize("verbosity", [NORMAL, VERBOSE])
def test_every_column_is_explained(verbosity):
    lines = measure_lines(measured(rows_of(10)), verbosity, 80)
    for heading in (line for line in lines if line.startswith("  class") and "->" not in line and "%" in line):
        for column in filter(None, heading.split("  ")[2:]):
            assert len(explained([column])) > 2, column


COMPARED = EstimatorComparison(
    SPLIT,
    2,
    (
        EstimatorRow("out-of-fold", "least-confidence", 0.1, 5.0, 0.123456, -0.5, None, 0.75),
        EstimatorRow("cardinality", "1 / N", None, 0.0, 0.5, None, 0.25, None),
    ),
    ("wild: the member of seed 2 diverged in epoch 1",),
    folds=0,
)


def test_estimators_are_a_short_table():
    lines = estimator_lines(COMPARED, NORMAL, 80)
    row = next(line.split() for line in lines if "out-of-fold" in line)
    assert row == ["out-of-fold", "least-confidence", "5", "0.123", "-"]
    assert "wild" in lines[-1]
    assert len(lines) <= 8
    verbose = [line.split()[2:] for line in estimator_lines(COMPARED, VERBOSE, 80) if "least-confidence" in line]
    assert verbose == [["0.1", "5", "0.123", "-"], ["-0.500", "0.750"]]
