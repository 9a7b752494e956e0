"""Rows of classes and of methods: plain numbers that follow from estimates and results."""

from dataclasses import replace

import numpy as np
import pytest
from example_results import make_estimate, make_result
from reporting.examples import class_row_examples
from scipy.stats import binomtest, rankdata, spearmanr

import class_uncertainty as cu
from class_uncertainty.metrics import Scores, evaluate
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.rows import class_rows, counterpart_of, marked, method_rows, shared_marks, spearman

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)


@pytest.fixture(scope="module")
def estimate(digits):
    return cu.estimate(digits, "ensemble", 2, RECIPE)


@pytest.fixture(scope="module")
def results(digits, estimate):
    lanes = [cu.Lane(name, seed) for name in ("naive", "cb-rs", "ubrs") for seed in (0, 1)]
    return cu.fit(digits.train, lanes, recipe=RECIPE, test=digits.test, stats=estimate.stats).results


def test_a_class_by_every_measure(digits, estimate):
    rows = class_rows(digits.classes, digits.train.counts.tolist(), estimate)
    inverse = 1 / digits.train.counts
    assert [row.name for row in rows] == list(digits.classes)
    assert [row.count for row in rows] == list(digits.train.counts)
    assert [row.cardinality for row in rows] == pytest.approx(inverse / inverse.sum())
    assert [row.uncertainty for row in rows] == pytest.approx(estimate.mu)
    assert [row.raw for row in rows] == pytest.approx(estimate.raw)
    assert sum(row.effective for row in rows) == pytest.approx(1)
    assert [row.rank_cardinality for row in rows] == list(rankdata(digits.train.counts))
    assert [row.rank_uncertainty for row in rows] == list(rankdata(-estimate.mu))
    assert [row.disagreement for row in rows] == list(rankdata(digits.train.counts) - rankdata(-estimate.mu))
    errors = np.mean([result.class_errors for result in estimate.results], axis=0)
    assert [row.error for row in rows] == pytest.approx(errors)
    assert all(0 <= row.epistemic_share <= 1 for row in rows)


@pytest.mark.parametrize("has_test", [True, False])
def test_a_measurement_has_the_intervals_of_its_estimate(has_test):
    examples = cu.Data(np.zeros((30, 2), np.float32), np.arange(30) % 3)
    dataset = cu.Dataset("toy", examples, examples if has_test else None)
    estimate = make_estimate(estimator="out-of-fold")
    rows = class_rows(dataset.classes, [10, 10, 10], Measurement.of(estimate), dataset)
    assert [row.examples for row in rows] == [10, 10, 10]
    intervals = [binomtest(wrong, 10).proportion_ci(0.95) for wrong in (0, 2, 4)]  # errors of 0, 20 and 40 %
    assert [row.low for row in rows] == pytest.approx([100 * ends.low for ends in intervals])
    assert [row.high for row in rows] == pytest.approx([100 * ends.high for ends in intervals])


def test_spearman_is_over_the_classes_with_an_error():
    rows = class_row_examples(10)
    errors = [row.error for row in rows]
    expected = spearmanr([row.uncertainty for row in rows], errors).statistic
    assert spearman(rows, "uncertainty") == pytest.approx(expected)
    unjudged = [replace(row, error=None) for row in rows]
    assert spearman([unjudged[0], *rows[1:]], "uncertainty") == spearman(rows[1:], "uncertainty")
    assert spearman(unjudged, "uncertainty") is None


def test_a_method_over_its_seeds(results, estimate):
    naive, cb_rs, ubrs = method_rows(results, estimate.cost)
    for i, row in enumerate((naive, cb_rs, ubrs)):
        errors = [result.error for result in results[2 * i : 2 * i + 2]]
        assert (row.runs, row.diverged) == (2, 0)
        assert (row.error, row.error_sd) == (pytest.approx(np.mean(errors)), pytest.approx(np.std(errors, ddof=1)))
        assert row.top1_error == pytest.approx(np.mean([result.top1_error for result in results[2 * i : 2 * i + 2]]))
    assert naive.gain is None
    assert ubrs.gain == pytest.approx(naive.error - ubrs.error)
    assert (cb_rs.counterpart, cb_rs.aso, ubrs.counterpart) == ("", None, "cb-rs")
    assert (cb_rs.aso_against, ubrs.aso_against) == (None, "cb-rs")
    assert 0 <= ubrs.aso <= 1
    assert (naive.cost, cb_rs.cost, ubrs.cost) == (1, 1, 1 + estimate.cost)


def test_seeds_of_one_error_are_no_twins_unless_their_losses_agree(results):
    first = results[0]
    alike = replace(first, seed=1)
    by_chance = replace(alike, scores=replace(first.scores, nll=first.scores.nll + 1e-6))
    (twins,), (others,) = method_rows([first, alike]), method_rows([first, by_chance])
    assert (twins.error_sd, twins.seedless) == (0, True)
    assert (others.error_sd, others.seedless) == (0, False)
    assert not method_rows([first])[0].seedless  # one run says nothing


def test_one_run_has_no_deviation_and_no_gain_without_naive(results):
    (row,) = method_rows(results[2:3])
    assert (row.runs, row.error_sd, row.gain, row.aso) == (1, None, None, None)


def runs(method: str, lr: float, *errors: float | None) -> list[cu.Result]:
    """Results of one method, one a seed; None diverged."""
    scores = [None if error is None else score(error) for error in errors]
    about = {"method": method, "lr": lr, "fold": None, "loss": 1.0, "seconds": 1.0, "plan": {}, "recipe": RECIPE}
    about |= {"data": "", "uncertainty": "", "device": "cpu"}
    return [
        cu.Result(**about, seed=seed, scores=values, diverged=None if values else 0)
        for seed, values in enumerate(scores)
    ]


def score(error: float) -> Scores:
    """Of a hundred examples of each of two classes, the same number of them wrong."""
    wrong = np.tile(np.arange(100) < error, 2)
    labels = np.repeat([0, 1], 100)
    return evaluate(np.eye(2)[np.where(wrong, 1 - labels, labels)] * 0.8 + 0.1, labels, [100, 100])


NAIVE = (20.0, 21.0, 22.0, 23.0, 24.0)
OTHERS = {
    "cb-rs": (19.0, 21.0, 20.0, 24.0, 22.0),
    "ubrs": (18.0, 22.0, 19.0, 21.0, 24.0),
    "cb": (17.0, 23.0, 20.0, 19.0),
}


def test_the_confidence_is_corrected_for_the_number_of_tests():
    """Bonferroni: 1 - 0.05 / 3 where three rows are tested, and 1 - 0.05 where one is."""
    results = runs("naive", 0.1, *NAIVE) + [result for name in OTHERS for result in runs(name, 0.1, *OTHERS[name])]
    naive, *others = method_rows(results, against="naive")
    assert (naive.aso, naive.aso_against) == (None, None)
    for row in others:
        assert row.aso == pytest.approx(cu.aso(OTHERS[row.method], NAIVE, confidence=1 - 0.05 / 3))
        assert row.aso != pytest.approx(cu.aso(OTHERS[row.method], NAIVE))
        assert (row.aso_against, row.aso_warning is None) == ("naive", row.method != "cb")
    (tested,) = [row for row in method_rows(results) if row.aso is not None]
    assert (tested.method, tested.aso_against) == ("ubrs", "cb-rs")
    assert tested.aso == pytest.approx(cu.aso(OTHERS["ubrs"], OTHERS["cb-rs"]))


def test_a_row_without_a_result_is_no_test():
    results = runs("naive", 0.1, *NAIVE) + runs("cb-rs", 0.1, *OTHERS["cb-rs"]) + runs("ubrs", 0.1, None, None)
    rows = {row.method: row for row in method_rows(results, against="naive")}
    assert rows["cb-rs"].aso == pytest.approx(cu.aso(OTHERS["cb-rs"], NAIVE))
    assert (rows["ubrs"].aso, rows["ubrs"].aso_against, rows["ubrs"].gain) == (None, None, None)


def test_seeds_that_change_nothing_are_no_test():
    """Repeats of the same number would make any difference significant."""
    same = [*runs("cb-rs", 0.1, 5.0, 5.0, 5.0), *runs("ubrs", 0.1, 4.0, 4.0, 4.0)]
    assert [row.aso for row in method_rows(same)] == [None, None]
    differing = [*runs("cb-rs", 0.1, 5.0, 5.1, 5.2), *runs("ubrs", 0.1, 4.0, 4.0, 4.0)]
    assert [row.aso is None for row in method_rows(differing)] == [True, False]


def test_rows_at_different_rates_are_compared():
    """With a row's only learning rate, if it has none in common; not with one of several."""
    results = runs("naive", 0.4, *NAIVE) + runs("cb-rs", 0.2, *OTHERS["cb-rs"]) + runs("ubrs", 0.1, *OTHERS["ubrs"])
    _, cb_rs, ubrs = method_rows(results)
    assert ubrs.aso == pytest.approx(cu.aso(OTHERS["ubrs"], OTHERS["cb-rs"]))
    assert ubrs.gain == pytest.approx(np.mean(NAIVE) - np.mean(OTHERS["ubrs"]))
    assert (cb_rs.naive_lr, ubrs.naive_lr) == (0.4, 0.4)
    several = method_rows(results + runs("cb-rs", 0.4, 30.0) + runs("naive", 0.2, 30.0, 30.0))
    rows = {(row.method, row.lr): row for row in several}
    assert (rows["ubrs", 0.1].aso, rows["ubrs", 0.1].gain, rows["ubrs", 0.1].naive_lr) == (None, None, None)
    assert (rows["cb-rs", 0.2].naive_lr, rows["cb-rs", 0.4].naive_lr) == (0.2, 0.4)


def test_rows_at_chosen_rates_are_compared_with_each_other():
    """Even where naive was trained at the same rate for another reason; rows at other rates are compared as ever."""
    results = runs("naive", 0.4, *NAIVE) + runs("naive", 0.1, 50.0, 51.0)
    results += runs("cb", 0.1, *OTHERS["cb"]) + runs("cb-rs", 0.1, *OTHERS["cb-rs"])
    rows = {(row.method, row.lr): row for row in method_rows(results, chosen={"naive": 0.4, "cb": 0.1})}
    assert rows["cb", 0.1].gain == pytest.approx(np.mean(NAIVE) - np.mean(OTHERS["cb"]))
    assert (rows["cb", 0.1].naive_lr, rows["cb-rs", 0.1].naive_lr) == (0.4, 0.1)


@pytest.mark.parametrize(
    ("method", "counterpart"),
    [
        ("ubrs", "cb-rs"),
        ("ubrs+mixup", "cb-rs+mixup"),
        ("ubrs@product", "cb-rs"),
        ("ubrw-focal@mix", "cb-focal"),
        ("pb-rs@uncertainty", "pb-rs"),
        ("pb-rs@uncertainty^0.5+mixup", "pb-rs+mixup"),
        ("naive", ""),
        ("cb-rs", ""),
        ("ubrs*5", ""),
        ("adjusted", ""),
        ("custom-1a2b3c", ""),
        ("ubrw-focal:gamma=1", "cb-focal:gamma=1"),
        ("ubrw-focal:gamma=1.50+mixup", "cb-focal:gamma=1.50+mixup"),
        ("ubm-ldam-cbrw:beta=0.9:tau=0.3", "ldam-rw:beta=0.9:tau=0.3"),
        ("ubm-dro:epsilon=2", "dro:epsilon=2"),
        ("ubrw-focal:gamma=1@mix:gamma=0.3", "cb-focal:gamma=1"),
        ("cb-focal:beta=0.9@uncertainty", "cb-focal:beta=0.9"),
    ],
)
def test_counterparts(method, counterpart):
    assert counterpart_of(method) == counterpart


def test_a_counterpart_drops_constants_that_it_does_not_take(monkeypatch):
    """No row of today has a constant that its counterpart lacks."""
    monkeypatch.setitem(cu.METHODS, "ubm-ldam-cbrw", replace(cu.METHODS["ubm-ldam-cbrw"], counterpart="ldam"))
    assert counterpart_of("ubm-ldam-cbrw:beta=0.9:tau=0.3") == "ldam:tau=0.3"
    monkeypatch.setitem(cu.METHODS, "ubrw-focal", replace(cu.METHODS["ubrw-focal"], counterpart="cb-rs"))
    assert counterpart_of("ubrw-focal:gamma=1") == "cb-rs"


def test_a_counterpart_may_have_other_constants_if_it_is_the_only_one():
    """`cb-focal:beta=0.99:gamma=1` is what `ubrw-focal:gamma=1` is compared with, if nothing is nearer."""
    ours, other = runs("ubrw-focal:gamma=1", 0.1, 10.0, 11.0), runs("cb-focal:beta=0.99:gamma=1", 0.1, 20.0, 21.0)
    assert method_rows([*ours, *other])[0].aso_against == "cb-focal:beta=0.99:gamma=1"
    nearer = runs("cb-focal:gamma=1", 0.1, 20.0, 21.0)
    assert method_rows([*ours, *other, *nearer])[0].aso_against == "cb-focal:gamma=1"
    another = runs("cb-focal:beta=0.9:gamma=1", 0.1, 20.0, 21.0)
    assert method_rows([*ours, *other, *another])[0].aso_against is None
    assert method_rows([*ours, *runs("cb-focal:gamma=1+mixup", 0.1, 20.0, 21.0)])[0].aso_against is None


def test_rows_of_imported_runs_are_marked():
    imported = [make_result(cu.Lane("naive", seed), imported=True) for seed in range(3)]
    here = [make_result(cu.Lane(name, seed)) for name in ("cb-rs", "ubrs") for seed in range(3)]
    naive, mixed, trained = method_rows([*imported, replace(here[0], imported=True), *here[1:]])
    assert (naive.marks, trained.marks) == (("imported",), ())
    assert mixed.marks == ("1 of 3 runs imported",)
    assert marked("cb-rs", mixed.marks) == "cb-rs (1 of 3 runs imported)"
    assert marked("naive", naive.marks, shared_marks([naive.marks, naive.marks])) == "naive"
    assert shared_marks([naive.marks, trained.marks]) == set()
