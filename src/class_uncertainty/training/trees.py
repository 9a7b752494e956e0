"""Decision trees: a lane of a forest or of boosting trains in one go, by scikit-learn."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import Unfinished
from class_uncertainty.methods import plan
from class_uncertainty.metrics import TINY
from class_uncertainty.training.checkpoints import LaneState
from class_uncertainty.training.fit_result import BATCH
from class_uncertainty.training.lane import Epoch, Lane
from class_uncertainty.training.networks.stack import Stack, State, to_device
from class_uncertainty.training.networks.tree_heads import LARGEST
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.sampling import LaneSampler
from class_uncertainty.training.stage_context import StageContext

NUMBERS = 2**27  # numbers in the leaves of a forest while it is fitted: 1 GB
NEVER = -30.0  # the score of a class without examples

Floats = NDArray[np.float64]
Nodes = tuple[NDArray, NDArray, NDArray, NDArray, Floats]  # is a leaf, feature, threshold, children (M, 2), values


def fit_trees(recipe: Recipe, sampler: LaneSampler, inputs: NDArray, lr: float) -> State:
    """The state of the head that `recipe.network` names, for the examples and the method of a lane."""
    drawn, first, times = np.unique(sampler.indices, return_index=True, return_counts=True)
    labels = sampler.labels[first]
    weights = example_weights(sampler, labels, times)
    equal = np.allclose(weights, 1)  # without weights, bins and bootstraps take a fraction of the time
    return FITS[recipe.network](recipe, sampler, inputs[drawn], labels, None if equal else weights, lr)


def example_weights(sampler: LaneSampler, labels: NDArray[np.int64], times: NDArray[np.int64]) -> Floats:
    """(N,) of mean 1: what a method's sampling and weighting come to in expectation, alpha_c / N_c times weight_c."""
    knobs = plan(sampler.lane.value, sampler.stats, 0, 1)
    by_class = knobs.alpha / np.maximum(sampler.counts, 1) * knobs.weight
    weights = times * by_class[labels]
    return weights * (len(weights) / weights.sum())


def _fit_forest(
    recipe: Recipe, sampler: LaneSampler, inputs: NDArray, labels: NDArray[np.int64], weights: Floats | None, lr: float
) -> State:
    """Trees of bootstraps, and one more that asks nothing: the class frequencies. So no class is ever impossible."""
    from sklearn.ensemble import RandomForestClassifier

    classes = len(sampler.counts)
    most = max(2, min(recipe.leaves or len(labels), NUMBERS // (2 * recipe.trees * classes)))
    limit = most if len(labels) > most * recipe.leaf else None  # with a limit, trees grow more slowly
    seed = sampler.lane.seed % 2**32  # scikit-learn's have 32 bits
    forest = RandomForestClassifier(recipe.trees, min_samples_leaf=recipe.leaf, max_leaf_nodes=limit, random_state=seed)
    forest.fit(inputs, labels, weights)
    trees = [_forest_nodes(tree.tree_, forest.classes_, classes) for tree in forest.estimators_]
    return _packed([*trees, _stump(np.bincount(labels, weights, classes) / len(labels))])


def _forest_nodes(tree: Any, present: NDArray[np.int64], classes: int) -> Nodes:
    leaf = tree.children_left < 0
    values = np.zeros((int(leaf.sum()), classes))
    counted = tree.value[leaf, 0]
    values[:, present] = counted / counted.sum(axis=1, keepdims=True)
    return leaf, tree.feature, tree.threshold, np.stack([tree.children_left, tree.children_right], axis=1), values


def _fit_boosting(
    recipe: Recipe, sampler: LaneSampler, inputs: NDArray, labels: NDArray[np.int64], weights: Floats | None, lr: float
) -> State:
    """Trees that each add to the scores of one class. Of two classes, the first has the score 0."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    classes, present = len(sampler.counts), np.unique(labels)
    baseline = np.full(classes, NEVER)
    if len(present) == 1:
        baseline[present] = 0.0
        return _packed([_stump(np.zeros(1))]) | _targets([int(present[0])], baseline)
    model = HistGradientBoostingClassifier(
        learning_rate=lr,
        max_iter=recipe.trees,
        max_leaf_nodes=recipe.leaves or None,
        min_samples_leaf=recipe.leaf,
        l2_regularization=recipe.weight_decay,
        early_stopping=False,
        random_state=0,  # only draws what bins are made of, where there are more than 200,000 examples
    )
    with threadpool_limits(1, "openmp"):  # lanes train side by side
        model.fit(inputs, labels, weights)
    added = present[1:] if len(present) == 2 else present
    baseline[present] = 0.0
    baseline[added] = model._baseline_prediction.ravel()
    trees = [_boosting_nodes(tree.nodes) for of_round in model._predictors for tree in of_round]
    return _packed(trees) | _targets([int(c) for _ in model._predictors for c in added], baseline)


def _boosting_nodes(nodes: NDArray) -> Nodes:
    leaf = nodes["is_leaf"].astype(bool)
    children = np.stack([nodes["left"], nodes["right"]], axis=1).astype(np.int64)
    return leaf, nodes["feature_idx"], nodes["num_threshold"], children, nodes["value"][leaf][:, None]


def _stump(values: Floats) -> Nodes:
    """A tree that asks nothing."""
    return np.array([True]), np.zeros(1), np.zeros(1), np.zeros((1, 2), np.int64), values[None]


def _packed(trees: Sequence[Nodes]) -> State:
    """All trees as one list of nodes, the children of a node beside each other, and the values of all leaves.

    Nodes come with parents before their children. The children of the k-th node that asks stand at 2 k + 1 and 2 k + 2.
    """
    features, thresholds, below, values, roots = [], [], [], [], np.cumsum([0, *(len(tree[0]) for tree in trees)])
    for (leaf, feature, threshold, children, of_leaves), root in zip(trees, roots, strict=False):
        place, asking = np.zeros(len(leaf), np.int64), np.flatnonzero(~leaf)
        first = 2 * np.arange(len(asking)) + 1
        place[children[asking, 0]], place[children[asking, 1]] = first, first + 1
        order = np.argsort(place)
        to = np.where(leaf, place, 0)
        to[asking] = first
        features.append(np.where(leaf, 0, feature)[order])
        thresholds.append(np.where(leaf, LARGEST, threshold)[order])
        below.append((root + to)[order])
        values.append(of_leaves[np.cumsum(leaf)[order][leaf[order]] - 1])
    return {
        "head.roots": torch.tensor(roots[:-1], dtype=torch.int32),
        "head.feature": torch.tensor(np.concatenate(features), dtype=torch.int32),
        "head.threshold": torch.from_numpy(rounded_down(np.concatenate(thresholds))),
        "head.below": torch.tensor(np.concatenate(below), dtype=torch.int32),
        "head.values": torch.tensor(np.concatenate(values), dtype=torch.float32),
    }


def _targets(targets: Sequence[int], baseline: Floats) -> State:
    target = torch.tensor(targets, dtype=torch.int32)
    return {"head.target": target, "head.baseline": torch.tensor(baseline, dtype=torch.float32)}


def rounded_down(thresholds: Floats) -> NDArray[np.float32]:
    """The largest float32 that is not above: of float32 features, none is between the two."""
    nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)


FITS: dict[str, Callable[..., State]] = {"forest": _fit_forest, "boosting": _fit_boosting}


class TreeTraining:
    """One lane, as StackTraining has stacks of them. scikit-learn fits on the CPU, on one thread."""

    stack: Stack

    def __init__(self, context: StageContext, places: list[int], started: list[LaneState]) -> None:
        (self.place,), self.context, self.started = places, context, started

    def run(self) -> list[LaneState]:
        """Fit the trees. A checkpoint has all of them."""
        context = self.context
        if self.started:
            self.stack = self._stack(self.started[0].state)
            return self.started
        context.check_stop()
        if context.begun.is_set() and context.options.deadline.passed:  # a short budget still trains one lane
            raise Unfinished
        context.begun.set()
        began, lane, recipe = time.perf_counter(), context.lane(self.place), context.fitted.recipe
        sampler = LaneSampler(lane, context.train, context.options.stats, 0)
        state = fit_trees(recipe, sampler, context.train.inputs, lane.rate(recipe))
        self.stack = self._stack(state)
        seconds = time.perf_counter() - began
        loss, error = self._loss(lane, context.train.take(sampler.indices[:BATCH]))
        trained = LaneState(1, state, {}, None, loss, seconds)
        if context.options.checkpoints:
            context.options.checkpoints.save({context.key(self.place): trained})
        if context.options.progress:
            numbers, speed = ((loss,), (error,), (lane.rate(recipe),)), len(sampler.indices) / seconds
            context.options.progress(Epoch((context.fitted.lanes[self.place],), 0, 1, *numbers, seconds, speed))
        return [trained]

    def _stack(self, state: State) -> Stack:
        fitted = self.context.fitted
        stack = Stack(fitted.recipe, fitted.shape, fitted.classes, [self.context.lane(self.place)], [state])
        return to_device(stack, fitted.device)

    def _loss(self, lane: Lane, examples: Data) -> tuple[float, float]:
        """Of these training examples, and the error in percent: to walk all of them through all trees takes long."""
        ((_, (p,)),) = self.context.fitted.batches(self.stack, [lane], examples)
        of_label, wrong = p[np.arange(len(p)), examples.labels], p.argmax(axis=1) != examples.labels
        return float(-np.log(np.maximum(of_label, TINY)).mean()), float(100 * wrong.mean())
