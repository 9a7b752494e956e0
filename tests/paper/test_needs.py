"""What is missing is a function of the ledger: members, rates, then rows, each only when it can be trained."""

from dataclasses import replace

import pytest
from ledgers import DATA, RAW, RECIPE, TABLE, choosing, ledger, measurement, result

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.needs import (
    ENSEMBLE,
    REQUESTS,
    SIX_NAIVE,
    Lookup,
    Measuring,
    Missing,
    Need,
    SixNaive,
    need_of,
)
from class_uncertainty.paper.paper_table import RATES, judge_of

JUDGE = judge_of(DATA)
PLAIN = Need(DATA, "cb-rs", (0.1,), 2)
TUNED = Need(DATA, "cb-rs", RATES, 2)
UNCERTAIN = Need(DATA, "ubrs", RATES, 2)


def missing(need: Need, made: Ledger, assume: bool = False) -> list[tuple[str, object]]:
    return [(one.data, one.item) for one in Lookup(made, RECIPE).missing([need], assume)]


@pytest.mark.parametrize(
    ("row", "protocol", "rates"), [(0, "paper", (0.1,)), (2, "paper", RATES), (0, "equal", RATES), (2, "equal", RATES)]
)
def test_what_a_cell_needs(row: int, protocol: str, rates: tuple[float, ...]) -> None:
    cell = TABLE.cells()[row]
    assert need_of(cell, protocol, 2, 0.1) == Need(DATA, cell.method, rates, 2)


@pytest.mark.parametrize(("estimator", "score"), [("duq", ""), ("ensemble", "epistemic")])
def test_a_cell_needs_the_estimator_and_the_score_of_its_row(estimator: str, score: str) -> None:
    row = replace(TABLE.rows[2], estimator=estimator, score=score)
    (cell,) = replace(TABLE, rows=(row,)).cells()
    assert need_of(cell, "paper", 2, 0.1) == Need(DATA, "ubrs", RATES, 2, REQUESTS[estimator], score)


def test_rows_at_a_fixed_rate_lack_the_seeds_that_have_not_run() -> None:
    assert missing(PLAIN, Ledger()) == [(DATA, cu.Lane("cb-rs", seed, 0.1)) for seed in (0, 1)]
    assert missing(PLAIN, ledger([result("cb-rs", 5.0, seed=1)])) == [(DATA, cu.Lane("cb-rs", 0, 0.1))]
    assert missing(PLAIN, ledger([result("cb-rs", None, seed) for seed in (0, 1)])) == []  # diverged is an outcome
    other = ledger([result("cb-rs", 5.0, seed, lr=0.2) for seed in (0, 1)])
    assert len(missing(PLAIN, other)) == 2


def test_rates_come_before_rows() -> None:
    lanes = [(JUDGE, cu.Lane("cb-rs", 1000, lr)) for lr in RATES]
    assert missing(TUNED, Ledger()) == lanes
    some = ledger([], choosing("cb-rs", 9, 8, 7, 6)[:2])
    assert missing(TUNED, some) == lanes[2:]
    assert Lookup(some, RECIPE).choice(TUNED) is None
    chosen = ledger([], choosing("cb-rs", 9.0, 7.0, 7.0, None))
    assert Lookup(chosen, RECIPE).choice(TUNED).lr == 0.2
    assert missing(TUNED, chosen) == [(DATA, cu.Lane("cb-rs", seed, 0.2)) for seed in (0, 1)]


def test_measurements_come_before_rows_that_use_them() -> None:
    """Those of both data sets at once: a machine that goes away takes the weights of the members with it."""
    assert missing(UNCERTAIN, Ledger()) == [(JUDGE, ENSEMBLE), (DATA, ENSEMBLE)]
    measured = ledger([], choosing("ubrs", 9.0, 8.0, 5.0, 6.0))
    assert missing(UNCERTAIN, measured) == [(DATA, cu.Lane("ubrs", seed, 0.4)) for seed in (0, 1)]
    (first, _) = Lookup(measured, RECIPE).missing([UNCERTAIN])
    assert first.measured.raw == RAW
    unmeasured = ledger([], choosing("ubrs", 9.0, 8.0, 5.0, 6.0), measured=False)
    assert missing(UNCERTAIN, unmeasured) == [(JUDGE, ENSEMBLE), (DATA, ENSEMBLE)]


def test_another_score_is_another_row() -> None:
    """The uncertainties that a result used are part of what it is."""
    by_epistemic = Need(DATA, "ubrs", (0.1,), 1, score="epistemic")
    made = ledger([result("ubrs", 5.0)])
    assert missing(Need(DATA, "ubrs", (0.1,), 1), made) == []
    assert missing(by_epistemic, made) == [(DATA, cu.Lane("ubrs", 0, 0.1))]
    assert missing(by_epistemic, ledger([result("ubrs", 5.0, score="epistemic")])) == []


def test_a_plan_assumes_what_is_open() -> None:
    everything = missing(UNCERTAIN, Ledger(), assume=True)
    lanes = [(JUDGE, cu.Lane("ubrs", 1000, lr)) for lr in RATES] + [(DATA, cu.Lane("ubrs", s, 0.7)) for s in (0, 1)]
    assert [one for one in everything if one not in lanes] == [(JUDGE, ENSEMBLE), (DATA, ENSEMBLE)]
    assert [one for one in lanes if one not in everything] == []


def test_a_plan_takes_no_row_at_a_fixed_rate_for_one_whose_rate_is_open() -> None:
    lanes = Lookup(Ledger(), RECIPE).missing([PLAIN, TUNED], assume=True)
    assert len([one for one in lanes if one.data == DATA]) == PLAIN.seeds + TUNED.seeds


def test_the_same_lane_by_other_uncertainties_is_missing_too() -> None:
    made = ledger([])
    others = [measurement(estimator=one.estimator, members=one.counted(RECIPE)) for one in REQUESTS.values()]
    made.add(made.data[DATA].fingerprint, [], others)
    needs = [Need(DATA, "ubrs", (0.1,), 1, request) for request in REQUESTS.values()]
    absent = Lookup(made, RECIPE).missing(needs)
    assert [(one.item, one.request) for one in absent] == [(cu.Lane("ubrs", 0, 0.1), one) for one in REQUESTS.values()]


def test_measurements_and_six_networks_are_wanted_once() -> None:
    lookup = Lookup(ledger([]), RECIPE)
    assert lookup.missing([Measuring(DATA)]) == []
    assert lookup.missing([Measuring(DATA, EstimateRequest("duq"))]) == [Missing(DATA, EstimateRequest("duq"))]
    assert lookup.missing([SixNaive(DATA)] * 2) == [Missing(DATA, SixNaive(DATA))]
    six = ledger([])
    six.add(six.data[DATA].fingerprint, [cu.Result(**vars(result("naive", 5.0)) | {"method": SIX_NAIVE})])
    assert Lookup(six, RECIPE).missing([SixNaive(DATA)]) == []
    assert Lookup(six, replace(RECIPE, epochs=3)).missing([SixNaive(DATA)]) == [Missing(DATA, SixNaive(DATA))]


def test_all_seeds_count_as_results() -> None:
    made = ledger([result("cb-rs", error, seed) for seed, error in ((4, 6.0), (0, 5.0))])
    lookup = Lookup(made, RECIPE)
    assert [one.error for one in lookup.results(PLAIN, lookup.choice(PLAIN))] == [5.0, 6.0]
    assert lookup.results(TUNED, lookup.choice(TUNED)) == []  # no rate is chosen
