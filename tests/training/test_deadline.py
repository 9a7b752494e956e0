"""Deadlines, by a clock that the tests turn."""

import math
import time

import pytest

import class_uncertainty as cu
from class_uncertainty.training.deadline import Deadline


def test_it_passes_after_its_seconds(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    deadline = Deadline.after(5)
    assert not deadline.passed
    now = 104.0
    assert not deadline.passed
    now = 105.0
    assert deadline.passed


def test_by_default_it_never_comes():
    assert not Deadline().passed
    assert Deadline().at == math.inf


def test_fit_takes_one_as_its_budget(digits):
    recipe = cu.Recipe("small-conv", epochs=2, batch=32)
    with pytest.raises(cu.Unfinished):
        cu.fit(digits.train, [cu.Lane("naive")], recipe=recipe, device="cpu", budget=Deadline(at=-math.inf))
    assert cu.fit(digits.train, [cu.Lane("naive")], recipe=recipe, device="cpu", budget=Deadline()).results
