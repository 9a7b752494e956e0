"""Labels that cover nothing, and ticks that are few."""

import pytest

from class_uncertainty.reporting.chart_style import MOST_LABELS, centred_heights, free_labels, log_ticks, spread_heights

LABELS = [f"class {i}" for i in range(25)]


def test_labels_with_room_are_placed_in_order_up_to_the_limit():
    column = [(0.5, i / 25) for i in range(25)]
    assert list(free_labels(LABELS, column, range(25), height=380)) == list(range(MOST_LABELS))
    assert list(free_labels(LABELS, column, reversed(range(25)), height=380)) == list(range(24, 4, -1))


def test_labels_keep_clear_of_dots_and_of_each_other():
    assert free_labels(LABELS, [(0.5, 0.5)] * 25, range(25), height=230) == {}
    near = [(0.5, 0.5), (0.5, 0.55), (0.5, 0.6)]  # labels of neighbours on one side would touch
    assert free_labels(LABELS[:3], near, range(3), height=230) == {0: False, 1: True, 2: False}
    assert free_labels(LABELS[:3], near, range(3), height=380) == {0: False, 1: False, 2: False}


def test_labels_stay_inside_the_chart():
    assert free_labels(LABELS[:2], [(0.1, 0.2), (0.9, 0.8)], range(2), height=230) == {0: False, 1: True}
    assert free_labels(LABELS[:2], [(0.1, 0.2), (0.2, 0.2)], range(2), height=230) == {1: False}


def test_heights_move_only_where_they_must():
    assert spread_heights([90.0, 50.0, 49.0, 0.0, 0.0], 3.5) == pytest.approx([90.0, 50.0, 46.5, 3.5, 0.0])
    assert spread_heights([], 3.5) == []


def test_heights_that_are_too_close_stay_around_their_middle():
    assert centred_heights([0.5] * 3, 0.1) == pytest.approx([0.6, 0.5, 0.4])
    assert centred_heights([0.9, 0.5, 0.5, 0.1], 0.1) == pytest.approx([0.9, 0.55, 0.45, 0.1])
    assert centred_heights([1.0, 1.0, 0.0, 0.0], 0.1) == pytest.approx([1.0, 0.9, 0.1, 0.0])
    assert centred_heights([], 0.1) == []


@pytest.mark.parametrize(
    ("domain", "ticks"),
    [
        ((0.015, 0.3), [0.02, 0.05, 0.1, 0.2]),
        ((0.0015, 0.9), [0.003, 0.01, 0.03, 0.1, 0.3]),
        ((1e-6, 1.0), [10.0**k for k in range(-6, 1)]),
    ],
    ids=["1, 2, 5", "1, 3", "decades"],
)
def test_ticks_are_at_most_seven(domain, ticks):
    assert log_ticks(*domain) == pytest.approx(ticks)
