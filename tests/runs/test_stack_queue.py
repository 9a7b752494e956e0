"""StackQueue: full stacks, equal shares at the end, and three tries without progress."""

import pytest

from class_uncertainty.runs.stack_queue import StackQueue


def drained(queue: StackQueue, slots: int) -> list[int]:
    sizes = []
    while stack := queue.next(slots):
        sizes.append(len(stack))
    return sizes


@pytest.mark.parametrize(
    ("lanes", "slots", "sizes"),
    [(640, 8, [40] * 16), (64, 1, [64]), (64, 64, [1] * 64), (65, 1, [33, 32]), (10, 4, [3, 3, 3, 1]), (1, 8, [1])],
)
def test_gpus_get_equal_shares(lanes, slots, sizes):
    """No GPU waits for the last stack of another."""
    assert drained(StackQueue([(list(range(lanes)), 64)], fixed=False), slots) == sizes


def test_groups_share_one_round():
    """Stacks of four lanes would be nine, and one of eight GPUs would train two of them."""
    groups = [(list(range(10)), 64), (list(range(10, 20)), 64), (list(range(20, 30)), 64)]
    assert drained(StackQueue(groups, fixed=False), 8) == [5] * 6


def test_groups_of_other_widths_share_two_rounds():
    """The first ten lanes are five stacks at least: eight in all take the four GPUs as long as six would."""
    groups = [(list(range(10)), 2), (list(range(10, 20)), 64)]
    assert drained(StackQueue(groups, fixed=False), 4) == [2] * 5 + [4, 4, 2]


def test_stacks_of_cpus_are_always_as_wide():
    assert drained(StackQueue([(list(range(12)), 5), ([12, 13], 5)], fixed=True), 4) == [5, 5, 2, 2]


def test_nodes_that_come_make_smaller_stacks():
    queue = StackQueue([(list(range(128)), 64)], fixed=False)
    assert len(queue.next(2)) == 64
    assert drained(queue, 4) == [16] * 4


def test_a_lane_that_gets_no_further_is_given_up_after_three_tries_the_last_alone():
    queue = StackQueue([([0, 1, 2], 5)], fixed=True)
    queue.failed(queue.next(1), "its process was killed", lambda place: 0)
    assert queue.waiting == 3
    queue.failed(queue.next(1), "its process was killed", lambda place: 10 if place else 0)
    assert queue.again == [[0], [1, 2]]
    queue.failed(queue.next(1), "its process was killed", lambda place: 0)
    assert queue.lost == {0: "its process was killed, 3 times"}
    assert queue.next(1) == [1, 2]
    assert queue.next(1) == []


def test_what_gets_further_each_time_is_never_given_up():
    queue = StackQueue([([0], 5)], fixed=True)
    for epoch in range(20):
        queue.failed(queue.next(1), "its node was lost", lambda place, epoch=epoch: epoch)
    assert not queue.lost


def test_the_failure_after_progress_counts_as_the_first_of_three():
    queue = StackQueue([([0], 5)], fixed=True)
    for epoch in (0, 10, 10):
        queue.failed(queue.next(1), "its node was lost", lambda place, epoch=epoch: epoch)
        assert not queue.lost
    queue.failed(queue.next(1), "its node was lost", lambda place: 10)
    assert queue.lost == {0: "its node was lost, 3 times"}


def test_no_lanes_given_back_hide_no_others():
    queue = StackQueue([([0], 5)], fixed=True)
    queue.give_back([])
    assert queue.next(1) == [0]
