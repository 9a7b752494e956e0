"""NodeChoice: room on nodes, and which are avoided."""

from types import SimpleNamespace

import pytest

from class_uncertainty.runs.node_choice import NodeChoice


def choice(**cores: int) -> NodeChoice:
    alive = [SimpleNamespace(id=node, resources={"CPU": float(number)}) for node, number in cores.items()]
    return NodeChoice(lambda: alive, {"CPU": 2.0})


def test_nodes_without_room_do_not_count():
    nodes = choice(a=5, b=1, c=2)
    assert nodes.able == {"a": 2, "c": 1}
    assert nodes.slots == 3
    assert nodes.pick([0], {}) == ""


def test_a_node_that_a_lane_failed_on_is_avoided_while_there_is_another():
    nodes = choice(a=2, b=2)
    nodes.failures = {7: "a"}
    assert nodes.pick([7, 8], {}) == "b"
    assert nodes.pick([8], {}) == ""
    nodes.failures = {7: "a", 8: "b"}
    assert nodes.pick([7, 8], {}) == ""


def test_a_node_that_refuses_is_avoided_by_all_lanes_even_where_they_have_failed():
    nodes = choice(a=2, b=2)
    nodes.refusals["a"] = "it has no torch"
    assert nodes.slots == 1
    assert nodes.pick([0], {}) == "b"
    nodes.failures = {0: "b"}
    assert nodes.pick([0], {}) == "b"
    assert not nodes.all_refuse
    nodes.refusals["b"] = "it has no torch"
    assert nodes.all_refuse


@pytest.mark.parametrize(("busy", "picked"), [({}, "b"), ({"b": 1}, "c"), ({"b": 1, "c": 1}, "c"), ({"c": 1}, "b")])
def test_stacks_spread_over_the_nodes_that_are_left(busy, picked):
    nodes = choice(a=2, b=2, c=4)
    nodes.refusals["a"] = "it has no torch"
    assert nodes.pick([0], busy) == picked


def test_nodes_that_all_leave_are_waited_for(notices):
    alive = [SimpleNamespace(id="a", resources={"CPU": 2.0})]
    nodes = NodeChoice(lambda: alive, {"CPU": 2.0})
    alive.clear()
    nodes.look()
    assert nodes.slots == 1  # a second has not passed
    nodes.looked -= 1
    nodes.look()
    assert nodes.slots == 0
    assert not nodes.all_refuse
    assert notices == ["no node of the cluster can train now: waiting for one that comes."]
