"""Tables and sentences for a terminal: what they hold, and what a narrow one drops."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reporting.examples import BETTER, FULL, LOST, NAIVE, class_row_examples
from reporting.printed_lines import RESNET, in_one_line, line_of

import class_uncertainty as cu
from class_uncertainty.reporting import terminal_tables
from class_uncertainty.runs.rows import ClassRow
from class_uncertainty.training.network_size import NOTHING_TRAINED, NetworkSize
from class_uncertainty.workflows.measure import EstimatorComparison, EstimatorRow

LONGEST = EstimatorRow("out-of-fold", "least-confidence", 0.1, 5.0, 0.123456, -0.5, None, 0.75)


# Classes


NO_GROUPS = cu.Dataset("x", cu.Data(np.eye(4), [0, 1, 0, 1]))


def measured(rows: Any, folds: int = 0, network: NetworkSize = RESNET, estimator: str = "ensemble") -> Any:
    estimate = SimpleNamespace(judged="naive ", estimator=estimator)
    about = {"estimate": estimate, "dataset": NO_GROUPS, "folds": folds, "network": network, "marks": ()}
    return SimpleNamespace(rows=rows, **about)


def test_every_table_names_the_network_and_its_parameters(printed):
    """As far as they are known: of probabilities from a file no network is."""
    assert "Network: resnet32, 0.46 M parameters." in printed(terminal_tables.print_measured, measured(FULL.classes))
    unknown = printed(terminal_tables.print_measured, measured(FULL.classes, network=NetworkSize("resnet32")))
    assert "Network: resnet32." in unknown
    assert "Network" not in printed(terminal_tables.print_measured, measured(FULL.classes, network=NOTHING_TRAINED))
    named = replace(COMPARISON, network=RESNET)
    assert "Network: resnet32, 0.46 M parameters." in printed(terminal_tables.print_estimator_comparison, named)
    about = {"rows": FULL.methods, "folds": 0, "estimate": None, "strengths": {}, "chosen": ()}
    about["dataset"] = SimpleNamespace(classes="abc")
    comparison = SimpleNamespace(**about, network=RESNET)
    assert "Network: resnet32, 0.46 M parameters." in printed(terminal_tables.print_comparison, comparison)


@pytest.mark.parametrize(("has_rate", "strength"), [(True, "0.7 at the learning rate 0.1."), (False, "0.7.")])
def test_a_strength_names_the_learning_rate_where_there_is_one(printed, has_rate, strength):
    rows = [replace(row, has_rate=has_rate) for row in FULL.methods]
    about = {"rows": rows, "folds": 0, "estimate": None, "strengths": {0.1: 0.7}, "chosen": (), "network": RESNET}
    judged = SimpleNamespace(classes="abc", train=NO_GROUPS.train, test=None)
    out = in_one_line(printed(terminal_tables.print_comparison, SimpleNamespace(**about, dataset=judged)))
    assert f"adjustment for the counts (τ): {strength}" in out


def test_classes_by_every_measure(printed):
    out = printed(terminal_tables.print_measured, measured(FULL.classes, folds=5), width=200)
    row = FULL.classes[2]
    shares = [f"{share:.4f}" for share in (row.cardinality, row.effective, row.uncertainty)]
    assert line_of(out, "class 2") == ["class", "2", "179", *shares, "25%", "8", "8", "10", "2.0"]
    assert "5 stratified folds" in out
    assert "class 2 is easier than its 179 examples" in out
    assert "harder" not in out  # the class that uncertainty ranks so has no errors
    assert out.count("by rarity") == 4
    with_intervals = [replace(row, examples=40, low=1.0, high=13.0) for row in FULL.classes]
    out = printed(terminal_tables.print_measured, measured(with_intervals))
    assert line_of(out, "class 2")[-5:] == ["2.0", "1", "to", "13", "40"]
    assert "its error does not clearly agree" in out
    two = printed(terminal_tables.print_measured, measured(class_row_examples(2)))
    assert not [word for word in ("Spearman", "harder", "easier") if word in two]


def test_one_rank_apart_says_nothing(printed):
    near = [replace(row, rank_uncertainty=row.rank_cardinality + 1) for row in FULL.classes]
    out = printed(terminal_tables.print_measured, measured(near))
    assert "easier" not in out
    assert "rank the classes alike, apart from neighbouring ranks." in in_one_line(out)


def test_every_table_says_that_folds_share_copies(printed):
    copied = cu.Dataset("x", cu.Data(np.ones((4, 1)), [0, 1, 0, 1]))
    about = {"rows": FULL.methods, "folds": 5, "estimate": None, "strengths": {}, "chosen": (), "network": RESNET}
    compared = SimpleNamespace(**about, dataset=copied)
    for show, value in (
        (
            terminal_tables.print_measured,
            SimpleNamespace(**vars(measured(FULL.classes, folds=5)) | {"dataset": copied}),
        ),
        (terminal_tables.print_comparison, compared),
        (terminal_tables.print_estimator_comparison, replace(COMPARISON, folds=5, dataset=copied)),
    ):
        out = in_one_line(printed(show, value))
        assert "3 copies of examples" in out
        assert "never saw it" not in out


def test_few_classes_and_no_errors(printed):
    assert "4 classes are few" in printed(terminal_tables.print_measured, measured(class_row_examples(4)))
    assert "Spearman" not in printed(terminal_tables.print_measured, measured(class_row_examples(4, judged=False)))


def ranked(order: int, width: float = 2.0, classes: int = 10) -> list[ClassRow]:
    """Classes whose errors rise; uncertainty rises with them, or falls where the order is -1."""
    return [
        replace(row, uncertainty=float((c * order) % 11), error=5.0 * c, low=5 * c - width, high=5 * c + width)
        for c, row in enumerate(class_row_examples(classes), 1)
    ]


def test_uncertainty_that_ranks_classes_poorly_is_said_to(printed):
    """Where some errors clearly differ, of ten classes or more, and of networks that have seen the examples."""

    def advised(rows: list[ClassRow], estimator: str = "ensemble") -> bool:
        out = printed(terminal_tables.print_measured, measured(rows, estimator=estimator))
        return "--estimator out-of-fold" in in_one_line(out)

    assert advised(ranked(-1))
    assert advised(ranked(-1), estimator="online")
    assert not advised(ranked(1))
    assert not advised(ranked(-1, width=30.0))
    assert not advised(ranked(-1, classes=9))
    assert not advised(ranked(-1), estimator="out-of-fold")
    assert not advised(ranked(-1), estimator="probabilities:p.npy")


@pytest.mark.parametrize("estimator", ["ensemble", "out-of-fold"])
def test_images_that_repeat_are_named_first(printed, estimator):
    """Folds do not help against them. Rows of a table may be alike by chance."""
    images = np.zeros((5, 1, 2, 2), np.uint8)
    images[3:] = 1
    about = measured(ranked(-1), estimator=estimator)
    about.dataset = cu.Dataset("x", cu.Data(images, [0, 1, 0, 1, 0]))
    out = in_one_line(printed(terminal_tables.print_measured, about))
    assert "images that repeat" in out
    assert "--estimator" not in out
    about.dataset = cu.Dataset("x", cu.Data(images.reshape(5, 4).astype(float), [0, 1, 0, 1, 0]))
    assert "repeat" not in in_one_line(printed(terminal_tables.print_measured, about))


def test_classes_that_no_measure_disputes(printed):
    alike = [replace(row, rank_uncertainty=row.rank_cardinality) for row in FULL.classes]
    assert "rank the classes alike" in printed(terminal_tables.print_measured, measured(alike))
    equal = [replace(row, count=7) for row in FULL.classes]
    assert "equally many examples" in printed(terminal_tables.print_measured, measured(equal))


# Methods


def test_methods_and_footnotes(printed):
    out = printed(terminal_tables.print_methods, FULL.methods)
    assert line_of(out, "cb-rs")[:8] == ["cb-rs", "0.1", "5", "10.06", "±", "0.50", "-0.06", "10.1"]
    assert line_of(out, "ubrs")[-4:] == ["1", "0.25", "vs", "cb-rs"]
    assert line_of(out, "dro")[:6] == ["dro", "0.1", "0", "(5", "diverged)", "–"]
    notes = terminal_tables.footnotes(FULL.methods, folds=5)
    for fact in ("gain: naive's error less", "± standard deviation", "5 stratified folds", "ε_min", "2 scores a side"):
        assert len([note for note in notes if fact in note]) == 1
    plain = " ".join(terminal_tables.footnotes([replace(NAIVE, error_sd=None)], folds=0))
    assert not [fact for fact in ("gain", "±", "folds", "ASO") if fact in plain]


def test_a_column_without_a_value_is_not_shown_and_not_spoken_of(printed):
    """Beside others that have one, a missing value is a dash."""
    dropped: list[str] = []
    rows = [replace(NAIVE, few=None), replace(LOST, few=None)]
    out = printed(lambda: dropped.extend(terminal_tables.print_methods(rows)), width=200)
    assert sorted(dropped) == ["ASO", "few", "gain"]
    assert "few" not in out
    assert "medium" in out
    assert "–" in line_of(out, "dro")


def test_forests_have_no_learning_rate(printed):
    rows = [replace(row, has_rate=False) for row in (NAIVE, BETTER)]
    assert "lr" not in printed(terminal_tables.print_methods, rows, width=200)
    notes = terminal_tables.footnotes(rows, folds=0)
    assert "gain: naive's error less the method's." in notes[0]


def test_collapsed_runs_have_a_note():
    notes = terminal_tables.footnotes([NAIVE, replace(BETTER, collapsed=2)], folds=0)
    assert [note for note in notes if "one class" in note] == [
        "ubrs: 2 of 5 runs predict one class only, and count in the mean."
    ]


def test_no_note_is_on_the_worst_tenth_of_two_classes(printed):
    dropped: list[str] = []
    out = printed(lambda: dropped.extend(terminal_tables.print_methods(FULL.methods, 2)))
    assert "worst 10th" not in out
    assert "Worst 10th: of the classes." in terminal_tables.footnotes(FULL.methods, 5)
    assert "Worst 10th: of the classes." not in terminal_tables.footnotes(FULL.methods, 5, dropped)


@pytest.mark.parametrize("seedless", [True, False])
def test_only_rows_without_chance_are_called_the_same_network(seedless):
    """Two networks may have the same error by chance."""
    notes = terminal_tables.footnotes([replace(NAIVE, error_sd=0.0, seedless=seedless)], folds=0)
    assert any("the same network" in note for note in notes) == seedless


def test_footnotes_count_the_tests_and_say_which_naive_the_gains_are_over():
    """1 - 0.05 / 2 = 0.975."""
    tested = replace(BETTER, method="ubrw", aso_against="naive")
    notes = " ".join(terminal_tables.footnotes([NAIVE, BETTER, tested], folds=0))
    assert "2 tests at confidence 1 - 0.05 / 2 = 0.975" in notes
    assert "at the same learning rate" in notes
    own = " ".join(terminal_tables.footnotes([replace(NAIVE, lr=0.4), replace(BETTER, naive_lr=0.4)], folds=0))
    assert "each at its own learning rate" in own
    assert "1 test at confidence 0.95" in own


def test_a_narrow_terminal_keeps_the_learning_rate_longer_than_the_trainings(printed):
    dropped = {}
    for width in range(30, 161, 5):
        out = in_one_line(printed(terminal_tables.print_methods, (NAIVE, LOST), width=width))
        dropped[width] = out.partition("No room for ")[2].partition(":")[0].split(", ")
    assert dropped[160] == [""]
    assert any("trainings" in columns and "lr" not in columns for columns in dropped.values())
    assert not [columns for columns in dropped.values() if "lr" in columns and "trainings" not in columns]


# Estimators


def estimators(*rows: EstimatorRow) -> EstimatorComparison:
    return EstimatorComparison(NO_GROUPS, 5, rows, ("wild diverged",), 0)


COMPARISON = estimators(LONGEST, replace(LONGEST, estimator="cardinality", lr=None, cost=0.0))


def test_a_wide_terminal_shows_every_column_of_estimators(printed):
    out = printed(terminal_tables.print_estimator_comparison, COMPARISON, width=120)
    head = "estimator score lr trainings ρ ensemble ens. beyond N ρ error err. beyond N"
    assert in_one_line(out.splitlines()[1]) == head
    row = ["out-of-fold", "least-confidence", "0.1", "5", "0.123", "-0.500", "–", "0.750"]
    assert line_of(out, "out-of-fold") == row
    assert "No room" not in out
    assert "Not shown: wild diverged." in out


@pytest.mark.parametrize(
    ("width", "dropped", "cells"),
    [
        (92, "ens. beyond N", ["out-of-fold", "least-confidence", "0.1", "5", "0.123", "–", "0.750"]),
        (65, "ens. beyond N, lr, score", ["out-of-fold", "5", "0.123", "–", "0.750"]),
        (52, "ens. beyond N, lr, score, ρ ensemble", ["out-of-fold", "5", "–", "0.750"]),
        (35, "ens. beyond N, lr, score, ρ ensemble, err. beyond N", ["out-of-fold", "5", "–"]),
        (24, "ens. beyond N, lr, score, ρ ensemble, err. beyond N, trainings", ["out-of-fold", "–"]),
    ],
)
def test_a_narrow_terminal_drops_columns_of_estimators(printed, width, dropped, cells):
    out = printed(terminal_tables.print_estimator_comparison, COMPARISON, width=width)
    assert line_of(out, "out-of-fold") == cells
    assert f"No room for {dropped}:" in in_one_line(out)
    assert "…" not in out


def test_imported_rows_are_marked_and_told_once_where_all_are(printed):
    imported = replace(BETTER, marks=("imported",))
    out = in_one_line(printed(terminal_tables.print_methods, [NAIVE, imported], width=200))
    assert "ubrs (imported)" in out
    assert "naive (imported)" not in out
    assert "'cu results import'" in " ".join(terminal_tables.footnotes([NAIVE, imported], folds=0))
    both = [replace(NAIVE, marks=("imported",)), imported]
    assert "(imported)" not in printed(terminal_tables.print_methods, both, width=200)
    assert " ".join(terminal_tables.footnotes(both, folds=0)).count("'cu results import'") == 1
    assert "import" not in " ".join(terminal_tables.footnotes([NAIVE, BETTER], folds=0))
