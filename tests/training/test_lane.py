"""Lanes and results as values."""

import copy
import dataclasses
import pickle

import pytest

import class_uncertainty as cu
from class_uncertainty.metrics import Scores
from class_uncertainty.training import describe

NAMES = ["naive", "cb", "ubrw@product^0.5+mixup", "2s-cam-rs"]


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_resolves_its_method_when_it_is_made(name, monkeypatch):
    """A later change of METHODS does not reach it; its name, equality and repr are those of what was given."""
    lane, same = cu.Lane(name, 3), cu.Lane(name, 3)
    value = lane.value
    monkeypatch.setitem(cu.METHODS, name.partition("@")[0], cu.Method("another"))
    assert lane.value is value
    assert lane.method == lane.name == name
    assert lane == same
    assert hash(lane) == hash(same)
    assert "value" not in repr(lane)


def test_a_method_is_its_own_value():
    method = cu.METHODS["cb"]
    assert cu.Lane(method).value is cu.Lane(method).method is method


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_is_pickled_and_copied(name):
    """Though the measures of its method are functions that cannot be pickled."""
    lane = cu.Lane(name, 5, 0.2, (1, 4), bootstrap=True)
    for same in (pickle.loads(pickle.dumps(lane)), copy.copy(lane), dataclasses.replace(lane)):
        assert same == lane
        assert describe(same.value) == describe(lane.value)


def test_a_result_gives_the_errors_of_its_scores():
    groups = {"many": 10.0, "medium": None, "few": 40.0, "worst": 40.0, "spread": 15.0, "nll": 0.5, "ece": 3.0}
    scores = Scores(error=25.0, top1_error=12.5, class_errors=(10.0, 40.0), **groups)
    lane = {"method": "naive", "seed": 0, "lr": 0.1, "fold": None, "data": "", "uncertainty": "", "device": "cpu"}
    course = {"diverged": None, "loss": 0.3, "seconds": 1.5, "plan": {}, "recipe": cu.Recipe("mlp", epochs=1, batch=2)}
    result = cu.Result(scores=scores, **lane, **course)
    assert (result.error, result.top1_error, result.class_errors) == (25.0, 12.5, (10.0, 40.0))
    assert not result.collapsed
    for errors, collapsed in (((100.0, 0.0, 100.0), True), ((100.0, 1.0, 100.0), False), ((0.0, 0.0, 100.0), False)):
        one = dataclasses.replace(result, scores=dataclasses.replace(scores, class_errors=errors))
        assert one.collapsed is collapsed
    gone = dataclasses.replace(result, scores=None)
    assert not gone.collapsed
    assert (gone.error, gone.top1_error, gone.class_errors) == (None, None, None)
