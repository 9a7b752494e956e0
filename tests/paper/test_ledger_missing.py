"""What is missing is a function of the ledger: members, rates, then rows, each only when it can be trained."""

from dataclasses import replace

from ledgers import DATA, RAW, RECIPE, choosing, ledger, measurement, result

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.paper.experiments import (
    ENSEMBLE,
    RATES,
    REQUESTS,
    SIX_NAIVE,
    Measuring,
    Need,
    SixNaive,
    judge_of,
)
from class_uncertainty.paper.ledger import Ledger, Missing

JUDGE = judge_of(DATA)
PLAIN = Need(DATA, "cb-rs", (0.1,), 2)
TUNED = Need(DATA, "cb-rs", RATES, 2)
UNCERTAIN = Need(DATA, "ubrs", RATES, 2)


def missing(need: Need, made: Ledger, assume: bool = False) -> list[tuple[str, object]]:
    return [(one.data, one.item) for one in made.missing([need], assume)]


def test_rows_at_a_fixed_rate_lack_the_seeds_that_have_not_run():
    assert missing(PLAIN, Ledger(RECIPE)) == [(DATA, cu.Lane("cb-rs", seed, 0.1)) for seed in (0, 1)]
    assert missing(PLAIN, ledger([result("cb-rs", 5.0, seed=1)])) == [(DATA, cu.Lane("cb-rs", 0, 0.1))]
    assert missing(PLAIN, ledger([result("cb-rs", None, seed) for seed in (0, 1)])) == []  # diverged is an outcome
    other = ledger([result("cb-rs", 5.0, seed, lr=0.2) for seed in (0, 1)])
    assert len(missing(PLAIN, other)) == 2


def test_rates_come_before_rows():
    lanes = [(JUDGE, cu.Lane("cb-rs", 1000, lr)) for lr in RATES]
    assert missing(TUNED, Ledger(RECIPE)) == lanes
    some = ledger([], choosing("cb-rs", 9, 8, 7, 6)[:2])
    assert missing(TUNED, some) == lanes[2:]
    assert some.choice(TUNED) is None
    chosen = ledger([], choosing("cb-rs", 9.0, 7.0, 7.0, None))
    assert chosen.choice(TUNED).lr == 0.2
    assert missing(TUNED, chosen) == [(DATA, cu.Lane("cb-rs", seed, 0.2)) for seed in (0, 1)]


def test_measurements_come_before_rows_that_use_them():
    """Those of both data sets at once: a machine that goes away takes the weights of the members with it."""
    assert missing(UNCERTAIN, Ledger(RECIPE)) == [(JUDGE, ENSEMBLE), (DATA, ENSEMBLE)]
    measured = ledger([], choosing("ubrs", 9.0, 8.0, 5.0, 6.0))
    assert missing(UNCERTAIN, measured) == [(DATA, cu.Lane("ubrs", seed, 0.4)) for seed in (0, 1)]
    (first, _) = measured.missing([UNCERTAIN])
    assert first.stats is not None
    assert tuple(first.stats.uncertainty) == RAW["predictive"]
    unmeasured = ledger([], choosing("ubrs", 9.0, 8.0, 5.0, 6.0), measured=False)
    assert missing(UNCERTAIN, unmeasured) == [(JUDGE, ENSEMBLE), (DATA, ENSEMBLE)]


def test_another_score_is_another_row():
    """The uncertainties that a result used are part of what it is."""
    by_epistemic = Need(DATA, "ubrs", (0.1,), 1, score="epistemic")
    made = ledger([result("ubrs", 5.0)])
    assert missing(Need(DATA, "ubrs", (0.1,), 1), made) == []
    assert missing(by_epistemic, made) == [(DATA, cu.Lane("ubrs", 0, 0.1))]
    assert missing(by_epistemic, ledger([result("ubrs", 5.0, score="epistemic")])) == []


def test_a_plan_assumes_what_is_open():
    everything = missing(UNCERTAIN, Ledger(RECIPE), assume=True)
    lanes = [(JUDGE, cu.Lane("ubrs", 1000, lr)) for lr in RATES] + [(DATA, cu.Lane("ubrs", s, 0.7)) for s in (0, 1)]
    assert [one for one in everything if one not in lanes] == [(JUDGE, ENSEMBLE), (DATA, ENSEMBLE)]
    assert [one for one in lanes if one not in everything] == []


def test_a_plan_takes_no_row_at_a_fixed_rate_for_one_whose_rate_is_open():
    lanes = Ledger(RECIPE).missing([PLAIN, TUNED], assume=True)
    assert len([one for one in lanes if one.data == DATA]) == PLAIN.seeds + TUNED.seeds


def test_the_same_lane_by_other_uncertainties_is_missing_too():
    made = ledger([])
    others = [measurement(estimator=one.estimator, members=one.counted(RECIPE)) for one in REQUESTS.values()]
    made.add(made.data[DATA], [], others)
    needs = [Need(DATA, "ubrs", (0.1,), 1, request) for request in REQUESTS.values()]
    absent = made.missing(needs)
    assert [(one.item, one.request) for one in absent] == [(cu.Lane("ubrs", 0, 0.1), one) for one in REQUESTS.values()]


def test_measurements_and_six_networks_are_wanted_once():
    made = ledger([])
    assert made.missing([Measuring(DATA)]) == []
    assert made.missing([Measuring(DATA, EstimateRequest("duq"))]) == [Missing(DATA, EstimateRequest("duq"))]
    assert made.missing([SixNaive(DATA)] * 2) == [Missing(DATA, SixNaive(DATA))]
    six = replace(result("naive", 5.0), method=SIX_NAIVE)
    assert ledger([six]).missing([SixNaive(DATA)]) == []
    by_another_recipe = replace(six, recipe=replace(RECIPE, epochs=3))
    assert ledger([by_another_recipe]).missing([SixNaive(DATA)]) == [Missing(DATA, SixNaive(DATA))]


def test_what_is_missing_is_trained_at_explicit_rates():
    assert Missing(DATA, SixNaive(DATA)).lanes(RECIPE) == [cu.Lane("naive", seed, 0.1) for seed in range(6)]
    assert Missing(DATA, ENSEMBLE).lanes(RECIPE) == [cu.Lane("naive", seed, 0.1) for seed in range(5)]
    assert Missing(DATA, cu.Lane("cb", 1, 0.2)).lanes(RECIPE) == [cu.Lane("cb", 1, 0.2)]


def test_all_seeds_count_as_results():
    made = ledger([result("cb-rs", error, seed) for seed, error in ((4, 6.0), (0, 5.0))])
    assert [one.error for one in made.runs(PLAIN, made.choice(PLAIN))] == [5.0, 6.0]
    assert made.runs(TUNED, made.choice(TUNED)) == []  # no rate is chosen
