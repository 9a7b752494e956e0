"""What `cu compare` prints: a leaderboard, and which gains are more than the chance of the seeds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from example_results import SCORES, make_estimate, make_result
from scipy.stats import ttest_rel

import class_uncertainty as cu
from class_uncertainty.reporting.compare_view import compare_lines
from class_uncertainty.reporting.glossary import explained
from class_uncertainty.reporting.terminal import Verbosity
from class_uncertainty.runs.comparison import RateChoice
from class_uncertainty.workflows.compare import Comparison

QUIET, NORMAL, VERBOSE = Verbosity
LABELS = np.arange(6) % 3
SPLIT = cu.Dataset("x", cu.Data(np.eye(6), LABELS), cu.Data(np.eye(6) + 1, LABELS))
FOLDS = cu.Dataset("x", cu.Data(np.eye(6), LABELS))
ERRORS = {"naive": (10.0, 11.0, 12.5), "cb-rs": (8.0, 9.5, 10.5), "ubrs": (7.9, 9.6, 10.4), "dro": (30.0, 20.0, 25.0)}


def results_of(errors: dict[str, Sequence[float]], lr: float = 0.1, **changes: object) -> list[cu.Result]:
    results = []
    for method, of_seeds in errors.items():
        for seed, error in enumerate(of_seeds):
            scores = replace(SCORES, error=error, nll=error / 10)
            stats = cu.Stats((30, 20, 10), (0.1, 0.2, 0.3)) if method.startswith("ub") else None
            results.append(make_result(cu.Lane(method, seed, lr), stats, scores=scores, **changes))
    return results


def comparison(errors: dict[str, Sequence[float]] = ERRORS, dataset: cu.Dataset = SPLIT) -> Comparison:
    return Comparison(dataset, tuple(results_of(errors)), make_estimate())


def table(lines: Sequence[str]) -> list[list[str]]:
    """The cells of the first table, and its heading."""
    start = next(i for i, line in enumerate(lines) if line.startswith("  method"))
    end = next(i for i in range(start, len(lines)) if not lines[i])
    return [line.split() for line in lines[start:end]]


def test_the_lowest_error_comes_first():
    rows = table(compare_lines(comparison(), NORMAL, 80))
    assert [row[0] for row in rows] == ["method", "ubrs", "cb-rs", "naive", "dro"]
    assert rows[2] == ["cb-rs", "9.33", "+-", "1.26", "+1.83", "clear", "naive", "1"]
    assert rows[3] == ["naive", "11.17", "+-", "1.26", "1"]


def test_a_gain_is_over_the_counterpart_and_clear_by_a_paired_t_test_corrected_for_the_rows():
    rows = {row.method: row for row in comparison().rows}
    assert {name: row.compared_with for name, row in rows.items()} == {
        "naive": None,
        "cb-rs": "naive",
        "ubrs": "cb-rs",
        "dro": "naive",
    }
    for name, other in (("cb-rs", "naive"), ("ubrs", "cb-rs"), ("dro", "naive")):
        row = rows[name]
        test = ttest_rel(ERRORS[other], ERRORS[name])
        interval = test.confidence_interval(1 - 0.05 / 3)
        assert [row.compared_low, row.compared_high] == pytest.approx([interval.low, interval.high])
        assert row.is_clear == (test.pvalue < 0.05 / 3)
    assert [row.is_clear for row in rows.values()] == [None, True, False, False]
    assert rows["cb-rs"].compared_gain == pytest.approx(rows["cb-rs"].gain)


def test_the_last_sentence_names_what_is_clear():
    last = " ".join(compare_lines(comparison(), QUIET, 80))
    assert "ubrs has the lowest error, 9.30 %" in last
    assert "cb-rs than naive" in last
    assert "dro" not in last


@pytest.mark.parametrize(
    ("errors", "fact", "word"),
    [
        ({"naive": (10.0,), "cb-rs": (8.0,)}, "--seeds", ""),
        ({"naive": (10.0, 10.0), "cb-rs": (8.0, 8.0)}, "same networks", ""),
        ({"naive": (10.0, 12.0), "cb-rs": (12.0, 10.0)}, "--seeds", "noise"),
        ({"naive": (10.0, 12.0)}, "11.00", ""),
        ({"naive": (10.0, 12.0), "cb-rs": (8.0, 10.0)}, "seeds do not tell", ""),
        ({"naive": (10.3, 17.9), "cb-rs": (8.3, 15.9)}, "seeds do not tell", ""),
    ],
)
def test_what_seeds_do_not_tell_is_not_called_clear(errors, fact, word):
    lines = compare_lines(comparison(errors), NORMAL, 80)
    assert fact in " ".join(compare_lines(comparison(errors), QUIET, 80))
    assert "clear" not in " ".join(line for line in lines if line.startswith("  "))
    assert ("noise" in " ".join(lines[:-2])) == (word == "noise")


def test_one_common_seed_does_not_tell_and_is_not_called_the_same_network():
    """The second run of cb-rs diverged."""
    lost = make_result(cu.Lane("cb-rs", 1), scores=None, diverged=1, loss=float("nan"))
    results = (*results_of({"naive": (10.0, 11.0), "cb-rs": (8.0,)}), lost)
    last = " ".join(compare_lines(Comparison(SPLIT, results, None), QUIET, 80))
    assert "seeds do not tell" in last
    assert "same networks" not in last


def test_deterministic_methods_have_no_deviation():
    rows = table(compare_lines(comparison({"naive": (10.0, 10.0), "cb-rs": (8.0, 8.0)}), NORMAL, 80))
    assert rows[1:] == [["cb-rs", "8.00", "+2.00", "naive", "1"], ["naive", "10.00", "1"]]


def test_ten_methods_are_about_twenty_lines_of_80_columns():
    names = [
        "naive",
        "cb-rs",
        "ubrs",
        "pb-rs",
        "pb-ubrs",
        "cb",
        "ubrw-bot",
        "ldam-rw",
        "ubm-ldam-rw",
        "balanced-softmax",
    ]
    errors = {name: (30.0 - i, 31.0 - i, 32.5 - 2 * i) for i, name in enumerate(names)}
    lines = compare_lines(comparison(errors), NORMAL, 80)
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80


def test_learning_rates_tell_rows_apart_and_are_hidden_where_they_are_one():
    results = [*results_of(ERRORS), *results_of({"naive": (9.0, 9.5, 9.9)}, lr=0.4)]
    rows = table(compare_lines(Comparison(SPLIT, tuple(results), None), NORMAL, 80))
    assert [row[:2] for row in rows if row[0] == "naive"] == [["naive", "0.4"], ["naive", "0.1"]]
    assert "lr" not in table(compare_lines(comparison(), NORMAL, 80))[0]


def test_runs_that_diverged_are_counted():
    lost = [make_result(cu.Lane("cb", seed), scores=None, diverged=1, loss=float("nan")) for seed in range(3)]
    lines = compare_lines(Comparison(SPLIT, (*results_of(ERRORS), *lost), None), NORMAL, 80)
    assert table(lines)[-1] == ["cb", "-", "1"]
    assert "cb: 3 of 3 runs diverged." in lines


@pytest.mark.parametrize("width", [80, 100])
def test_verbose_adds_groups_tests_and_how_rates_were_chosen(width):
    full = replace(comparison(), chosen=(RateChoice("naive", 0.1, {0.1: 9.0, 0.4: 10.0}),))
    text = " ".join(compare_lines(full, VERBOSE, width))
    normal = " ".join(compare_lines(full, NORMAL, width))
    for fact in ("ASO", "NLL", "ECE", "few", "overall", "2 rates x 5 folds", "0.05 / 3", "predictive"):
        assert fact in text
        assert fact not in normal


def test_verbose_names_folds_and_the_strength_of_adjustments():
    plan = {"networks": 1, "tau": 0.7}
    adjusted = [replace(result, method="adjusted") for result in results_of({"naive": (8.0, 9.0)}, plan=plan)]
    results = [*results_of(ERRORS), *adjusted]
    text = " ".join(compare_lines(Comparison(FOLDS, tuple(results), None), VERBOSE, 80))
    assert "0.7 at the learning rate 0.1" in text
    assert "5 folds" in text


def test_imported_rows_are_marked_where_not_all_are():
    results = [*results_of({"naive": (10.0, 11.0)}), *results_of({"cb": (8.0, 9.5)}, imported=True)]
    first = table(compare_lines(Comparison(SPLIT, tuple(results), None), NORMAL, 80))[1]
    assert first[:2] == ["cb", "(imported)"]
    both = [replace(result, imported=True) for result in results]
    assert "(imported)" not in " ".join(compare_lines(Comparison(SPLIT, tuple(both), None), NORMAL, 80))


@pytest.mark.parametrize("verbosity", [NORMAL, VERBOSE])
def test_every_column_is_explained(verbosity):
    lines = compare_lines(comparison(), verbosity, 80)
    for heading in (line for line in lines if line.startswith("  method")):
        for column in filter(None, map(str.strip, heading.split("  "))):
            assert len(explained([column])) > 2, column
