"""cu.train(): one network."""

import numpy as np
import pytest
import torch
from refusals import refused
from watching import Watched

import class_uncertainty as cu
from class_uncertainty.runs import Store

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


def test_it_is_the_network_of_fit(digits):
    trained = cu.train(digits, "balanced-softmax", 3, 0.2, recipe=RECIPE)
    fitted = cu.fit(digits.train, [cu.Lane("balanced-softmax", 3, 0.2)], recipe=RECIPE, test=digits.test)
    assert trained.result.scores == fitted.results[0].scores
    assert (trained.estimate, trained.files, trained.dataset) == (None, (), digits)
    x = torch.from_numpy(digits.test.inputs)
    with torch.no_grad():
        assert torch.equal(trained.module(x), fitted.module(0)(x))


def test_uncertainty_is_measured_where_the_method_uses_it(digits):
    trained = cu.train(digits, "ubrw", estimator="out-of-fold", members=2, score="true-class", recipe=RECIPE)
    estimate = cu.estimate(digits, "out-of-fold", 2, RECIPE, score="true-class")
    assert np.array_equal(trained.estimate.mu, estimate.mu)
    (alone,) = cu.fit(digits.train, [cu.Lane("ubrw")], recipe=RECIPE, stats=estimate.stats, test=digits.test).results
    assert trained.result.scores == alone.scores


def test_it_always_trains_and_leaves_no_checkpoints(digits, tmp_path):
    watched = Watched()
    for _ in range(2):
        trained = cu.train(digits, recipe=RECIPE, store=tmp_path / "runs.sqlite", progress=watched)
        assert not (tmp_path / "runs.sqlite.running").exists()
    assert watched.trained == 2
    with Store(tmp_path / "runs.sqlite") as store:
        assert store.results(digits.fingerprint) == [trained.result]


def test_a_saved_network_is_restored(digits, tmp_path):
    trained = cu.train(digits, recipe=RECIPE, save=tmp_path / "deep" / "model")
    assert [file.name for file in trained.files] == ["model.safetensors", "model.json"]
    x = torch.from_numpy(digits.test.inputs)
    with torch.no_grad():
        assert torch.equal(cu.restore(tmp_path / "deep" / "model")(x), trained.module(x))


def test_a_network_that_could_not_be_saved_goes_on_from_its_checkpoint(digits, tmp_path, monkeypatch):
    """A checkpoint is removed once the network is kept, not before."""
    watched = Watched()

    def full(*_: object) -> None:
        raise cu.MachineFault("the disk is full.")

    call = {"recipe": RECIPE, "store": tmp_path / "runs.sqlite", "save": tmp_path / "model", "progress": watched}
    with monkeypatch.context() as patch:
        patch.setattr("class_uncertainty.workflows.train.save_model", full)
        with pytest.raises(cu.MachineFault):
            cu.train(digits, **call)
    cu.train(digits, **call)
    assert watched.trained == 1
    assert (tmp_path / "model.json").is_file()


def test_without_a_test_split_the_result_is_by_folds(digits):
    watched = Watched()
    trained = cu.train(digits.train, recipe=RECIPE, progress=watched)
    assert trained.result.folds == 5
    assert watched.lanes[0].fold is None  # the network that is kept has seen every example
    assert watched.announced == [1, 5]


def test_wrong_input_and_a_network_that_diverged(digits, tmp_path):
    with refused("'nave'", "'naive'"):
        cu.train(digits, "nave")
    with refused("seed is -1"):
        cu.train(digits, seed=-1)
    with refused("naive", "diverged in epoch 1", "learning rate"):
        cu.train(digits, lr=1e30, recipe=RECIPE, save=tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["naive", "cb-rs"])
def test_the_prior_of_trees_is_what_the_method_aims_at(method):
    """Trees know their training examples by heart, which would say the same of any prior."""
    rng, y = np.random.default_rng(0), np.repeat([0, 1], [90, 30])
    data = cu.Data(rng.normal(0, 1, (120, 3)) + y[:, None], y)
    trained = cu.train(data, method, recipe=cu.Recipe("forest", epochs=1, batch=64, trees=5))
    assert trained.module.purpose is not None
    assert trained.module.purpose.prior == pytest.approx([0.75, 0.25] if method == "naive" else [0.5, 0.5])
