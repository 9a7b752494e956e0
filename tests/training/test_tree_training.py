"""A lane of trees: trained in one go, resumed from a checkpoint of all of them, and reported as one epoch."""

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.errors import Unfinished
from class_uncertainty.measures import Stats
from class_uncertainty.training import trees
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import train_lanes
from class_uncertainty.training.stage_context import FitOptions

RECIPE = cu.Recipe("forest", epochs=1, batch=64, trees=5, leaf=2)
LANES = [cu.Lane("naive"), cu.Lane("cb-rs", 1)]


@pytest.fixture
def data(rng):
    inputs = rng.normal(size=(90, 4)).astype(np.float32)
    return cu.Data(inputs, np.digitize(inputs[:, 0], [0.3, 1.0]))


def trained(data, checkpoints=None, progress=None, deadline=None):
    fitted = cu.Fit.untrained(data, LANES, RECIPE, "cpu", None)
    options = FitOptions(Stats(data.counts), None, progress, checkpoints, 10, deadline or Deadline(), None, None)
    outcomes = [outcome for batch in train_lanes(fitted, data, options) for outcome in batch]
    return sorted(outcomes, key=lambda outcome: outcome.place)  # they come as they end


def test_progress_is_one_epoch_with_the_loss_and_the_error(data):
    epochs = []
    fitted = cu.fit(data, LANES, recipe=RECIPE)
    trained(data, progress=epochs.append)
    assert sorted(epoch.lanes[0].name for epoch in epochs) == ["cb-rs", "naive"]
    for epoch in epochs:
        (p,) = fitted.probabilities(data)[[LANES.index(epoch.lanes[0])]]
        assert (epoch.epoch, epoch.epochs) == (0, 1)
        assert epoch.loss[0] == pytest.approx(-np.log(p[np.arange(90), data.labels]).mean(), rel=1e-5)
        assert epoch.error[0] == pytest.approx(100 * np.mean(p.argmax(axis=1) != data.labels))
        assert epoch.speed == pytest.approx(90 / epoch.seconds)


def test_a_checkpoint_has_all_trees_and_nothing_is_fitted_again(data, tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    first = trained(data, checkpoints)
    assert len([*tmp_path.iterdir()]) == len(LANES)
    monkeypatch.setattr(trees, "fit_trees", lambda *_: pytest.fail("fitted again"))
    again = trained(data, checkpoints)
    for one, other in zip(first, again, strict=True):
        assert one.lane.state.keys() == other.lane.state.keys()
        for name, values in one.lane.state.items():  # thresholds of leaves may be NaN
            np.testing.assert_array_equal(values, other.lane.state[name])


def test_a_short_budget_trains_one_lane(data):
    epochs = []
    with pytest.raises(Unfinished):
        trained(data, progress=epochs.append, deadline=Deadline.after(1e-9))
    assert len(epochs) == 1
