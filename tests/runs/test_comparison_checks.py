"""What a comparison is refused for."""

import pytest
from refusals import refused

from class_uncertainty.runs.comparison_checks import MAX_SEEDS, check_against, check_choosing, check_seeds
from class_uncertainty.runs.rate_choice import CHOOSING_SEED


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
