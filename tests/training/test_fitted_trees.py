"""Forests and boosted trees as networks: what scikit-learn predicts, by tensors alone."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import class_uncertainty as cu
from class_uncertainty.methods import plan
from class_uncertainty.training.model_files import save
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.sampling import LaneSampler
from class_uncertainty.training.trees import example_weights, fit_trees, rounded_down

FOREST = cu.Recipe("forest", epochs=1, batch=64, trees=12, leaf=2)
BOOSTING = cu.Recipe("boosting", epochs=1, batch=64, trees=12, leaf=5, leaves=8, lr=0.2, weight_decay=0.5)


def table(classes=3, rows=240, seed=0):
    """Unequal classes; the features have few values, so that thresholds lie between neighbours."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, 5)).astype(np.float32).round(1)
    score = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.3 * rng.normal(size=rows)
    return cu.Data(inputs, np.digitize(score, np.quantile(score, np.linspace(0.6, 1, classes)[:-1])))


def balanced(labels):
    return (len(labels) / len(np.unique(labels)) / np.bincount(labels))[labels]


def forest_reference(data, weights=None, seed=0, **options):
    """scikit-learn's forest, and one vote more for the class frequencies."""
    forest = RandomForestClassifier(FOREST.trees, min_samples_leaf=FOREST.leaf, random_state=seed, **options)
    p = forest.fit(data.inputs, data.labels, weights).predict_proba(data.inputs)
    frequencies = np.bincount(data.labels, weights) / (len(data) if weights is None else weights.sum())
    return (FOREST.trees * p + frequencies) / (FOREST.trees + 1)


def boosting_reference(data, weights=None):
    model = HistGradientBoostingClassifier(
        learning_rate=0.2, max_iter=12, max_leaf_nodes=8, min_samples_leaf=5, l2_regularization=0.5
    )
    return model.fit(data.inputs, data.labels, weights).predict_proba(data.inputs)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("recipe", "reference"), [(FOREST, forest_reference), (BOOSTING, boosting_reference)])
def test_probabilities_are_those_of_scikit_learn(classes, recipe, reference):
    data = table(classes)
    fitted = cu.fit(data, [cu.Lane("naive"), cu.Lane("cb-rs")], recipe=recipe)
    naive, weighted = fitted.probabilities(data)
    np.testing.assert_allclose(naive, reference(data), atol=2e-6)
    np.testing.assert_allclose(weighted, reference(data, balanced(data.labels)), atol=2e-6)
    assert fitted.results[0].diverged is None


@pytest.mark.parametrize("recipe", [FOREST, BOOSTING], ids=lambda recipe: recipe.network)
def test_a_plain_network_predicts_the_same_and_is_restored_without_pickle(recipe, tmp_path):
    data = table()
    fitted = cu.fit(data, [cu.Lane("ubrw")], recipe=recipe, stats=cu.Stats(data.counts, [0.2, 0.3, 0.5]))
    save(fitted.module(0), tmp_path / "model", about={})
    logits = cu.restore(tmp_path / "model")(torch.from_numpy(data.inputs))
    np.testing.assert_allclose(logits.softmax(dim=1).numpy(), fitted.probabilities(data)[0], atol=1e-6)


def test_lanes_do_not_depend_on_their_neighbours_and_seeds_draw_other_forests():
    data = table()
    lanes = [cu.Lane("naive", seed=seed, fold=(0, 5)) for seed in (0, 1, 2**40)]
    together = cu.fit(data, lanes, recipe=FOREST).probabilities(data)
    alone = cu.fit(data, lanes[1:2], recipe=FOREST).probabilities(data)
    np.testing.assert_array_equal(together[1], alone[0])
    assert not np.array_equal(together[0], together[1])
    boosted = cu.fit(data, lanes, recipe=BOOSTING).probabilities(data)
    np.testing.assert_array_equal(boosted[0], boosted[1])  # nothing is drawn


@pytest.mark.parametrize("left", [[0, 2], [1]])
@pytest.mark.parametrize("recipe", [FOREST, BOOSTING], ids=lambda recipe: recipe.network)
def test_a_class_that_no_training_example_has_is_nearly_impossible(recipe, left):
    """A fold may hold all examples of a class, where groups stay together."""
    data = table()
    sampler = LaneSampler(cu.Lane("naive"), data, None, 0)
    sampler.indices = np.flatnonzero(np.isin(data.labels, left))
    sampler.labels, sampler.counts = data.labels[sampler.indices], np.where(np.isin(range(3), left), data.counts, 0)
    module = cu.fit(data, [cu.Lane("naive")], recipe=recipe).module(0)
    module.load_state_dict(module.state_dict() | fit_trees(recipe, sampler, data.inputs, recipe.lr))
    p = module(torch.from_numpy(data.inputs)).softmax(dim=1).numpy()
    np.testing.assert_allclose(p[:, left].sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("method", ["cb", "ubrw", "cb-rs"])
def test_examples_weigh_what_sampling_and_weighting_come_to(method):
    data, uncertainty = table(), [0.2, 0.3, 0.5]
    sampler = LaneSampler(cu.Lane(method), data, cu.Stats(data.counts, uncertainty), 0)
    knobs = plan(sampler.lane.value, sampler.stats, 0, 1)
    expected = np.array([knobs.alpha[c] / data.counts[c] * knobs.weight[c] for c in data.labels])
    assert np.ptp(expected) > 0
    weights = example_weights(sampler, data.labels, np.ones(len(data), int))
    np.testing.assert_allclose(weights, expected / expected.mean())


def test_examples_that_a_bootstrap_repeats_weigh_more():
    data = table()
    lane = cu.Lane("cb-rs", bootstrap=True)
    sampler = LaneSampler(lane, data, None, 0)
    drawn, times = np.unique(sampler.indices, return_counts=True)
    assert times.max() > 1
    weights = times / sampler.counts[data.labels[drawn]]
    model = HistGradientBoostingClassifier(
        learning_rate=0.2, max_iter=12, max_leaf_nodes=8, min_samples_leaf=5, l2_regularization=0.5
    )
    model.fit(data.inputs[drawn], data.labels[drawn], weights / weights.mean())
    fitted = cu.fit(data, [lane], recipe=BOOSTING)
    np.testing.assert_allclose(fitted.probabilities(data)[0], model.predict_proba(data.inputs), atol=2e-6)


def test_rounded_thresholds_send_every_float32_the_same_way():
    rng = np.random.default_rng(0)
    low = rng.normal(size=1000).astype(np.float32)
    high = np.nextafter(low, np.float32(np.inf))
    between = (low.astype(np.float64) + high) / 2
    thresholds = rounded_down(between)
    assert (low <= thresholds).all()
    assert (high > thresholds).all()


def test_out_of_fold_uncertainty_comes_from_a_forest():
    data = table()
    estimate = cu.estimate(data, "out-of-fold", recipe=FOREST)
    assert estimate.probabilities.shape == (1, 240, 3)
    assert estimate.mu.argmax() in (1, 2)  # the rare classes


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("ldam", "margins"),
        ("focal", "focal loss"),
        ("pb-rs", "a ramp over the epochs"),
        ("2s-cb-rs", "a ramp over the epochs"),
        ("naive+mixup", "mixup"),
        ("crt", "several stages"),
    ],
)
def test_methods_that_are_no_weights_are_refused_by_name(method, says):
    with pytest.raises(cu.InputError, match=f"{says}.*takes only weights of the examples"):
        cu.fit(table(), [cu.Lane(method)], recipe=FOREST)


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        (cu.Recipe("forest", epochs=1, batch=8), "trees is 0"),
        (cu.Recipe("forest", epochs=2, batch=8, trees=5), "fitted in one go"),
        (cu.Recipe("mlp", epochs=2, batch=8, trees=5), "trees is 5, and network 'mlp' has none"),
    ],
)
def test_recipes_that_are_no_trees_are_refused(recipe, says):
    with pytest.raises(cu.InputError, match=says):
        cu.fit(table(), [cu.Lane("naive")], recipe=recipe)


def test_boosting_refuses_more_classes_than_it_has_time_for():
    data = cu.Data(np.random.default_rng(0).normal(size=(404, 2)), np.arange(404) % 101)
    with pytest.raises(cu.InputError, match="for more than 100 choose 'forest'"):
        cu.fit(data, [cu.Lane("naive")], recipe=RECIPES["boosting"])


def test_forests_of_many_classes_are_pruned_to_fit_into_memory(monkeypatch):
    monkeypatch.setattr("class_uncertainty.training.trees.NUMBERS", 2 * FOREST.trees * 3 * 4)
    fitted = cu.fit(table(), [cu.Lane("naive")], recipe=FOREST)
    assert len(fitted.states[0]["head.values"]) <= 4 * FOREST.trees + 1
    np.testing.assert_allclose(fitted.probabilities(table())[0], forest_reference(table(), max_leaf_nodes=4), atol=2e-6)
