"""The ladder: trained networks are adjusted for the counts, averaged or taught to one, and judged on unseen examples.

`cu compare` shows its steps as rows beside the methods, and `cu fix` keeps the best of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.measures import Stats
from class_uncertainty.posthoc.adjustment import Adjustment, combined
from class_uncertainty.posthoc.remedies import Remedy
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_fit
from class_uncertainty.training import Lane, Recipe, Teaching
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import Fold, judged_examples, judged_folds

Network = tuple[Candidate, int, Fold]  # how it trains, its seed, and the fold that it leaves out
Networks = dict[Candidate, Fit]
Predictions = dict[tuple[str, int], NDArray[np.float64]]  # (n, C) by the name of a row and its seed


@dataclass(frozen=True, eq=False)
class Part:
    """One model of an average of several kinds: how it trains, and how its probabilities are corrected."""

    candidate: Candidate
    adjustment: Adjustment


@dataclass(frozen=True, eq=False)
class Tuning:
    """How the steps are made where one fold is judged, chosen without it; the fold None stands for the test split."""

    candidate: Candidate  # of the networks that are adjusted, averaged, or teach
    adjustment: Adjustment
    teaching: Teaching = field(default_factory=Teaching)  # what a student learns
    student: Candidate | None = None  # how a student trains
    cooling: float = 1.0  # what a student's logits are divided by
    parts: tuple[Part, ...] = ()  # models of several kinds, which are averaged in place of the candidate's

    @property
    def candidates(self) -> list[Candidate]:
        """What the networks train by: the candidate, and what it is averaged with."""
        return list(dict.fromkeys([self.candidate, *(part.candidate for part in self.parts)]))

    @property
    def learner(self) -> Candidate:
        """How a student trains, where one is taught."""
        assert self.student is not None
        return self.student

    @property
    def tau(self) -> float:
        """How far the candidate's probabilities are corrected for the counts."""
        return self.adjustment.tau

    @property
    def cooled(self) -> Adjustment:
        """The adjustment of a student, which has learnt adjusted probabilities: only its temperature is corrected."""
        return replace(self.adjustment, bias=np.zeros_like(self.adjustment.bias), temperature=self.cooling)

    def averaged(self, members: Sequence[NDArray[np.float64]], remedy: Remedy) -> NDArray[np.float64]:
        """The probabilities of a remedy (n, C) from those of its networks, (n, C) each."""
        mean = combined(np.stack(members), remedy.mean) if remedy.mean else members[0]
        return self.adjustment(mean) if remedy.adjusts else mean


@dataclass(frozen=True, eq=False)
class Row:
    """One step: a remedy, and the networks that it is made of, for each judged fold and each seed."""

    name: str
    remedy: Remedy
    tunings: Mapping[Fold, Tuning]
    members: Mapping[int, Sequence[int]]  # by the seed of the row: the seeds of the networks that are averaged


def context_for(context: Context, candidate: Candidate) -> Context:
    """The context in which a candidate trains."""
    return replace(context, recipe=candidate.recipe(context.recipe))


def judged_by_folds(context: Context) -> Context:
    """The same context, judged by folds of the training split in place of the test split.

    The store does not list its data set, so that no report shows the choosing networks as results.
    """
    return replace(context, dataset=Dataset(context.dataset.name, context.train))


def fit_networks(
    context: Context, networks: Iterable[Network], stats: Stats | None, what: str = "networks"
) -> Networks:
    """The networks of each candidate, in the order given; candidates of one recipe train together."""
    lanes_by_recipe: dict[Recipe, dict[Candidate, list[Lane]]] = {}
    for candidate, seed, fold in dict.fromkeys(networks):
        lanes = lanes_by_recipe.setdefault(candidate.recipe(context.recipe), {})
        lanes.setdefault(candidate, []).append(candidate.lane(context.recipe, seed, fold))
    fits: Networks = {}
    for recipe, lanes in lanes_by_recipe.items():
        distinct = list(dict.fromkeys(lane for of_candidate in lanes.values() for lane in of_candidate))
        fitted = load_or_fit(replace(context, recipe=recipe), distinct, stats, what=what)
        fits |= {candidate: fitted.pick(of_candidate) for candidate, of_candidate in lanes.items()}
    return fits


def leaving_out(fitted: Fit, fold: Fold, seeds: Iterable[int]) -> Fit:
    """The networks of these seeds that left the fold out."""
    places = {lane.seed: place for place, lane in enumerate(fitted.lanes) if lane.fold == fold}
    return fitted.take([places[seed] for seed in seeds])


def teach(
    context: Context, tunings: Sequence[Tuning], seeds: Sequence[int], fold: Fold, teachers: Fit, what: str = "students"
) -> Fit:
    """Students of each tuning and seed, taught by networks that left the same fold out.

    Tunings differ in how much is learnt, or at which rate, but not in the recipe.
    """
    lanes = [tuning.learner.lane(context.recipe, seed, fold, tuning.teaching) for tuning in tunings for seed in seeds]
    return load_or_fit(context_for(context, tunings[0].learner), lanes, teachers=teachers, what=what)


def climb(dataset: Dataset, rows: Sequence[Row], networks: Networks, students: Mapping[Fold, Fit]) -> Predictions:
    """What each row predicts for the test split, or fold after fold, each by what was chosen without it."""
    parts: dict[tuple[str, int], list[NDArray[np.float64]]] = {}
    for fold in judged_folds(dataset):
        judged = judged_examples(dataset, fold)
        answers: dict[Candidate, dict[int, NDArray[np.float64]]] = {}
        for candidate, seeds in _asked(rows, fold).items():
            fitted = leaving_out(networks[candidate], fold, sorted(seeds))
            answers[candidate] = probabilities_by_seed(fitted, judged)
        taught = probabilities_by_seed(students[fold], judged) if fold in students else {}
        for row in rows:
            tuning = row.tunings[fold]
            for seed, members in row.members.items():
                if row.remedy.distils:
                    p = tuning.cooled(taught[seed])
                elif tuning.parts:
                    p = combined([part.adjustment(answers[part.candidate][seed]) for part in tuning.parts])
                else:
                    p = tuning.averaged([answers[tuning.candidate][member] for member in members], row.remedy)
                parts.setdefault((row.name, seed), []).append(p)
    return {key: np.concatenate(p_folds) for key, p_folds in parts.items()}


def probabilities_by_seed(fitted: Fit, data: Data) -> dict[int, NDArray[np.float64]]:
    """(N, C) by the seed of each network."""
    p = fitted.probabilities(data).astype(np.float64)
    return {lane.seed: p_lane for lane, p_lane in zip(fitted.lanes, p, strict=True)}


def _asked(rows: Sequence[Row], fold: Fold) -> dict[Candidate, set[int]]:
    """The networks that rows are made of where a fold is judged: their seeds, by how they train."""
    asked: dict[Candidate, set[int]] = {}
    for row in rows:
        if row.remedy.distils:  # its students answer
            continue
        for candidate in row.tunings[fold].candidates:
            asked.setdefault(candidate, set()).update(*row.members.values())
    return asked
