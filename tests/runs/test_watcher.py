"""What a workflow tells: stages and rows know what they are of, and a plain Watcher lets all of it pass."""

from types import SimpleNamespace

import pytest

from class_uncertainty.runs.watcher import Decided, RowTrained, Stage, Watcher


@pytest.mark.parametrize("together", [(), (5,), (4, 2, 1)])
def test_a_stage_counts_the_networks_of_all_its_stacks(together):
    assert Stage("rung 1", "candidates", together).networks == sum(together)


def test_a_row_is_known_by_its_method_and_rate():
    first, second = (SimpleNamespace(method="cb-rs", lr=lr, seed=seed) for lr, seed in ((0.1, 0), (0.2, 1)))
    assert RowTrained((first,), False).row == ("cb-rs", 0.1)
    assert RowTrained((second, first), True).row == ("cb-rs", 0.2)  # all of a row are alike: the first says it
    assert RowTrained((first,), True) != RowTrained((first,), True)  # results are not compared


def test_a_watcher_trains_nothing_and_says_nothing(capsys):
    def measure(networks, recipe):
        pytest.fail("nobody asked for the time")

    watcher = Watcher()
    watcher.ahead([Stage("rung 1", "candidates", (5,))], 3, "cpu", measure)
    watcher.begin("rung 1")
    with watcher("training", 5, 3) as progress:
        assert progress is None  # no epochs are reported
    watcher.tell(Decided("One is kept."))
    watcher.close()
    assert capsys.readouterr() == ("", "")
