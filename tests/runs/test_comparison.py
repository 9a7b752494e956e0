"""What a comparison is refused for."""

import pytest
from refusals import refused

from class_uncertainty.runs.comparison import (
    CHOOSING_SEED,
    MAX_SEEDS,
    RateChoice,
    best_rate,
    check_against,
    check_choosing,
    check_seeds,
)


def test_seeds_are_a_number_or_a_list():
    assert check_seeds(3) == [0, 1, 2]
    assert check_seeds([7, 2]) == [7, 2]
    assert len(check_seeds(MAX_SEEDS)) == MAX_SEEDS
    with refused("seed 2 ", "twice"):
        check_seeds([2, 2])


@pytest.mark.parametrize("seeds", [0, -1, MAX_SEEDS + 1])
def test_too_few_and_too_many_seeds(seeds):
    with refused(f"seeds is {seeds}", "from 1 to 1,000, or a list of seeds"):
        check_seeds(seeds)
    with refused("from 1 to 1,000."):
        check_seeds(seeds, alternative="")


def test_a_row_to_test_against_is_compared():
    check_against("naive", ["naive", "cb-rs"])
    check_against("counterpart", ["cb-rs"])
    with refused("unknown row to test against 'ubr'", "did you mean 'ubrs'?"):
        check_against("ubr", ["ubrs"])


def test_rates_are_chosen_from_two_by_networks_that_are_not_judged():
    check_choosing([0.1, 0.2], [0, 1])
    for lrs, given in ((None, "no learning rates are given"), ([0.1], "one learning rate is given")):
        with refused(given, "two at least"):
            check_choosing(lrs, [0])
    with refused(f"seed {CHOOSING_SEED} is that of the networks that choose"):
        check_choosing([0.1, 0.2], [0, CHOOSING_SEED])


@pytest.mark.parametrize(
    ("errors", "lr"),
    [
        ({0.4: 20.0, 0.1: 30.0}, 0.4),
        ({0.4: 20.0, 0.1: 20.0, 0.2: 20.0}, 0.1),
        ({0.1: None, 0.4: 99.0}, 0.4),
        ({0.4: None, 0.1: None, 0.2: None}, 0.1),
    ],
    ids=["lowest error", "a tie", "diverged", "all diverged"],
)
def test_the_best_rate(errors, lr):
    assert best_rate(errors) == lr
    assert RateChoice.of("ldam", errors) == RateChoice("ldam", lr, errors)
