"""What the callbacks of all frameworks carry."""

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.integrations.training_parts import TrainingParts
from class_uncertainty.training.streams import Grouped

LABELS = np.repeat([0, 1, 2], [40, 12, 4])


@pytest.mark.parametrize("method", ["naive", "cb-rs", "pb-rs", "balanced-softmax"])
def test_labels_are_grouped_once_and_draws_are_the_method_s(method, monkeypatch):
    grouped, group = [], Grouped.of.__func__
    monkeypatch.setattr(Grouped, "of", classmethod(lambda *given: grouped.append(given) or group(*given)))
    parts = TrainingParts(method, LABELS, None, epochs=3, seed=4)
    assert len(grouped) == 1
    by_draws = method.endswith("rs")
    expected = cu.ClassSampler.for_method(method if by_draws else "naive", LABELS, epochs=3, seed=4)
    for epoch in range(3):
        for sampler in (parts.sampler, expected):
            sampler.set_epoch(epoch)
        assert list(parts.sampler) == list(expected)
    assert parts.loss.schedule.method is cu.METHODS["naive" if by_draws else method]


def test_a_method_on_draws_and_loss_is_refused():
    both = cu.Method("both", alpha=cu.METHODS["cb-rs"].alpha, weight=cu.METHODS["cb"].weight)
    with refused("the method acts on the loss", "cu.Loss"):
        TrainingParts(both, LABELS, None, epochs=None, seed=0)
