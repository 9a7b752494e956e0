"""TreeTraining: a lane of decision trees, which trains in one go."""

import time

import numpy as np

from class_uncertainty.data import Data
from class_uncertainty.errors import Unfinished
from class_uncertainty.metrics import TINY
from class_uncertainty.training.checkpoints import LaneState
from class_uncertainty.training.fit_result import BATCH
from class_uncertainty.training.fitted_trees import fit_trees
from class_uncertainty.training.lane import Epoch, Lane
from class_uncertainty.training.networks.stack import Stack, State, to_device
from class_uncertainty.training.sampling import LaneSampler
from class_uncertainty.training.stage_context import StageContext


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
