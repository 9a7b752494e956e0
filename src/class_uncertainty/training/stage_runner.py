"""StageRunner: trains the stacks of one stage, and evaluates the lanes whose last stage it is."""

import time
from dataclasses import asdict, replace

import numpy as np

from class_uncertainty.measures import digest
from class_uncertainty.metrics import Outcomes, score
from class_uncertainty.training.checkpoints import LaneState
from class_uncertainty.training.fit_result import LaneOutcome
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.lane import Lane, Result, describe
from class_uncertainty.training.network_size import own_parameters
from class_uncertainty.training.networks.stack import Stack
from class_uncertainty.training.stack_training import StackTraining
from class_uncertainty.training.stage_context import StageContext
from class_uncertainty.training.stages import lane_cost
from class_uncertainty.training.trees import TreeTraining

PROBED = 64  # training examples that show whether a lane diverged, where there is nothing to evaluate it on

Ended = tuple[int, LaneOutcome | LaneState]  # a place, and the lane after its last stage or before its next


class StageRunner(StageContext):
    """One stage of one fit(): `run` takes any of its stacks."""

    def run(self, places: list[int], started: list[LaneState]) -> list[Ended]:
        """Train one stack of lanes that are equally far; `started` is empty where they begin.

        At the end of the stage it is evaluated; at the end of epochs that lanes share, they are held.
        """
        train = TreeTraining if self.fitted.recipe.is_trees else StackTraining
        training = train(self, places, started)
        states = training.run()
        if self.until < self.stage.recipe.epochs:
            for place, state in zip(places, states, strict=True):
                self.held.update(self.shared(place, state))
            return []
        began = time.perf_counter()
        lanes = [self.lane(place) for place in places]
        finite, outcomes = self._evaluate(training.stack, lanes, last=self.any_last(places))
        seconds = (time.perf_counter() - began) / len(places)
        ended: list[Ended] = []
        for place, state, fine, outcome in zip(places, states, finite, outcomes, strict=True):
            diverged = state.diverged
            if diverged is None and not (fine and all(value.isfinite().all() for value in state.state.values())):
                diverged = self.stage.before + self.stage.recipe.epochs - 1  # by its very last step
            state = replace(state, diverged=diverged, seconds=state.seconds + seconds, momenta={})
            for member, lane in self.shared(place, state).items():
                ended.append((member, self._outcome(member, lane, outcome) if self.is_last(member) else lane))
        return ended

    def _evaluate(self, stack: Stack, lanes: list[Lane], last: bool) -> tuple[list[bool], list[Outcomes | None]]:
        """Whether the probabilities of each lane are finite, and its outcomes on the test split, or on its fold."""
        test, train = self.options.test if last else None, self.train
        every = np.arange(len(train))
        left_out = [np.isin(every, fold_indices(train, lane.fold)) if lane.fold else None for lane in lanes]
        folds = [unseen for unseen in left_out if unseen is not None]
        kept = np.flatnonzero(np.logical_or.reduce(folds)) if folds else every[:PROBED]
        probed, left_out = train.take(kept), [None if unseen is None else unseen[kept] for unseen in left_out]
        finite, parts = [True] * len(lanes), [list[Outcomes]() for _ in lanes]
        for rows, batch in self.fitted.batches(stack, lanes, test or probed):
            for i, p in enumerate(batch):
                finite[i] = finite[i] and bool(np.isfinite(p).all())
                if test:
                    parts[i].append(Outcomes.of(p, test.labels[rows]))
                elif self.options.test is None and (unseen := left_out[i]) is not None:
                    parts[i].append(Outcomes.of(p[unseen[rows]], probed.labels[rows][unseen[rows]]))
        return finite, [Outcomes.joined(outcomes) if outcomes else None for outcomes in parts]

    def _outcome(self, place: int, state: LaneState, outcomes: Outcomes | None) -> LaneOutcome:
        lane, recipe = self.fitted.lanes[place], self.fitted.recipe
        uncertainty = self.options.stats.uncertainty if self.options.stats and lane.value.uses_uncertainty else None
        result = Result(
            method=lane.name,
            seed=lane.seed,
            lr=lane.rate(recipe),
            fold=lane.fold,
            scores=score(outcomes, self.train.counts)
            if self.options.test and outcomes and state.diverged is None
            else None,
            diverged=state.diverged,
            loss=state.loss,
            seconds=state.seconds,
            plan=describe(lane.value) | (asdict(lane.teaching) if lane.teaching else {}),
            recipe=recipe,
            data=self.train.fingerprint,
            uncertainty="" if uncertainty is None else digest(uncertainty),
            device=self.fitted.device,
            cost=lane_cost(lane, recipe, self.train, len(self.options.teachers.lanes) if self.options.teachers else 0),
            parameters=own_parameters(recipe.network, self.train.shape, len(self.train.classes)),
        )
        return LaneOutcome(place, self.keys[place], state, result, outcomes if self.options.test is None else None)
