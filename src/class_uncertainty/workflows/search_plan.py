"""SearchPlan: what a number of trainings buys. A pure function of that number and of what the candidates cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from class_uncertainty.checks import check_number
from class_uncertainty.errors import InputError
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.training.recipe import POSITIVE, is_positive
from class_uncertainty.training.stages import FORWARD

TRAININGS: float = 20  # that a fix may spend unless told otherwise
HEAD_TRAININGS: float = 60  # of heads on full batches and of trees: all candidates are judged on all folds
EVERY = 1000  # finalists: more than there are candidates
TOGETHER = 5  # networks of a deployed ensemble
STUDENT_RATES = (1.0, 0.5)  # factors of the teachers' learning rate that students are tried at


@dataclass(frozen=True)
class SearchPlan:
    """How many candidates are judged on how many folds, and how many networks try an ensemble and a student.

    All candidates are judged on the first fold, the `finalists` on `folds` folds, and the best of them on `last_folds`.
    """

    candidates: int
    finalists: int
    folds: int
    last_folds: int
    members: int  # 0: neither an ensemble nor a student is tried
    ensemble: bool  # whether an ensemble may be deployed; then no student is tried
    kept: int = 1  # networks that are trained on all examples, where none is tried

    @property
    def rungs(self) -> list[tuple[int, int]]:
        """(candidates, folds) of each rung."""
        rungs = [(self.candidates, self.folds if self.finalists == self.candidates else 1)]
        for number, folds in ((self.finalists, self.folds), (1, self.last_folds)):
            rungs += [(number, folds)] if folds > rungs[-1][1] else []
        return rungs

    def cost(self, unit: float) -> float:
        """At most so many naive trainings, where a candidate costs `unit` of them."""
        search, before = 0, 0
        for number, folds in self.rungs:
            search, before = search + number * (folds - before), folds
        if not self.members:
            return unit * (search + self.kept)
        if self.ensemble:
            return unit * (search + self.members - 1 + TOGETHER)
        trial = self.members - 1 + student_cost(self.members, len(STUDENT_RATES))
        return unit * (search + trial + student_cost(FOLDS))


def student_cost(teachers: int, students: int = 1) -> float:
    """Of students in one stack, that ask their teachers together at every step, in trainings like the teachers'."""
    return students + teachers / FORWARD


# (finalists, their folds, folds of the best, members of the trial), from the most to the least telling
PLANS = (
    (3, FOLDS, FOLDS, TOGETHER),
    (2, FOLDS, FOLDS, 3),
    (2, 3, FOLDS, 3),
    (1, 1, FOLDS, 3),
    (EVERY, FOLDS, FOLDS, 0),
    (3, FOLDS, FOLDS, 0),
    (2, 3, FOLDS, 0),
    (1, 1, FOLDS, 0),
    (1, 1, 1, 0),
)


def plan_search(
    trainings: float, costs: Sequence[float], tries: bool, ensemble: bool, measuring: float = 0.0, kept: int = 1
) -> SearchPlan:
    """The most telling plan that these trainings pay for; if need be, without the first candidates of the list.

    `costs` are those of the candidates, in naive trainings. `tries` is whether an ensemble and a student may be tried.
    `measuring` is spent before the search, and `kept` networks are trained after it.
    """
    check_number("trainings", trainings, POSITIVE, is_positive)
    for number in range(len(costs), 0, -1):
        for finalists, folds, last_folds, members in PLANS:
            plan = SearchPlan(number, min(finalists, number), folds, last_folds, members, ensemble, min(kept, number))
            if (tries or not members) and measuring + plan.cost(max(costs[-number:])) <= trainings + 1e-9:
                return plan
    least = measuring + SearchPlan(1, 1, 1, 1, 0, ensemble).cost(costs[-1])
    share = f", of which {measuring:g} measure class uncertainties" if measuring else ""
    takes = f"judging one candidate and training it takes {least:.3g} at least{share}"
    raise InputError(f"trainings is {trainings:g}: {takes}.")
