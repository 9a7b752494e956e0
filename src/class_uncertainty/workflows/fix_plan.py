"""FixPlan: what a fix settles before anything trains."""

from collections.abc import Sequence
from dataclasses import dataclass

from class_uncertainty.checks import check_number
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.sources import place_of
from class_uncertainty.data.spec import paths_named
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.io import origin
from class_uncertainty.methods import named
from class_uncertainty.metrics import prior_weights
from class_uncertainty.posthoc.fix_report import DEPLOYS, ENSEMBLE
from class_uncertainty.posthoc.goal import Goal, check_judgeable, parse_goal
from class_uncertainty.runs.comparison import check_seeds
from class_uncertainty.training.candidate import Candidate, default_candidates, find_candidates
from class_uncertainty.training.folds import FOLDS, judged_labels
from class_uncertainty.training.recipe import POSITIVE, Recipe, is_positive
from class_uncertainty.training.stages import FORWARD, lane_cost, naive_passes

TRAININGS: float = 20  # that a fix may spend unless told otherwise
HEAD_TRAININGS: float = 60  # of heads on full batches and of trees: all candidates are judged on all folds
SEEDS = 3  # of networks before and after; of a table, other examples would change more than other seeds
MIN_FOLD_EXAMPLES = 250  # of a trial: with fewer, no gain of a few points would be clear
MEASURING = EstimateRequest("out-of-fold", FOLDS)  # of class uncertainties, where a candidate uses them
EVERY = 1000  # finalists: more than there are candidates
ENSEMBLE_SIZE = 5  # networks of a deployed ensemble
STUDENT_RATES = (1.0, 0.5)  # factors of the teachers' learning rate that students are tried at


@dataclass(frozen=True, eq=False)
class FixPlan:
    """What is compared, for which goal, and at what cost."""

    candidates: tuple[Candidate, ...]  # that are judged
    goal: Goal
    deploy: str  # one of DEPLOYS
    seeds: int  # networks before and after, for the ±
    trainings: float  # that may be spent
    measuring: float  # of them, on class uncertainties; 0 where no candidate uses them
    search: "SearchPlan"
    why_no_trial: str  # why neither an ensemble nor a student is tried; "" where they are
    averages_kinds: bool  # whether the best models of several kinds are averaged
    checks_labels: bool  # whether label issues are looked for
    made_from: str  # the origin of what is saved


def check_deploy(deploy: str | None) -> None:
    """Refuse something to deploy that there is not."""
    if deploy not in (None, *DEPLOYS):
        raise unknown("deploy", str(deploy), DEPLOYS)


def check_request(deploy: str | None, seeds: int | None) -> None:
    """Refuse, before a store is opened, what is wrong for any data."""
    check_deploy(deploy)
    if seeds is not None:
        check_seeds(seeds, alternative="")


def plan_fix(
    dataset: Dataset,
    recipe: Recipe,
    candidates: Sequence[str | Candidate] | None,
    goal: str,
    deploy: str | None,
    trainings: float | None,
    seeds: int | None,
    label_issues: bool | None,
    embed_weights: bool,
) -> FixPlan:
    """Settle what was left open, refuse what does not suit the data, and share out the trainings."""
    train, is_table = dataset.train, recipe.is_trees
    if deploy is None:
        deploy = ENSEMBLE if is_table else DEPLOYS[0]
    if seeds is None:
        seeds = 1 if is_table else SEEDS
    if trainings is None:
        trainings = HEAD_TRAININGS if recipe.is_fitted else TRAININGS
    aim = parse_goal(goal, train.classes, train.counts)
    check_judgeable(train.counts, train.classes, aim)
    prior_weights(judged_labels(dataset), aim.prior)  # refuses a prior of 0 for all that judge
    rows = default_candidates(train, recipe)
    if candidates is not None:
        rows = find_candidates(candidates, train, recipe)
    made_of = (place_of(dataset), recipe, [row.name for row in rows], goal, paths_named(goal))
    made_from = origin(dataset.name, *made_of, deploy, trainings, seeds, label_issues, embed_weights)

    uses_uncertainty = any(named(row.method).uses_uncertainty for row in rows)
    measuring = float(len(MEASURING.lanes)) if uses_uncertainty else 0.0
    why_no_trial = _why_no_trial(train, recipe, deploy)
    kinds = len({row.recipe(recipe).network for row in rows})
    kept = kinds if is_table and deploy == ENSEMBLE else 1
    costs = [unit_cost(train, recipe, row) for row in rows]
    search = plan_search(trainings, costs, not why_no_trial, deploy == ENSEMBLE, measuring, kept)
    if not search.members and not why_no_trial:
        why_no_trial = f"{trainings:g} trainings do not pay for it"
    return FixPlan(
        candidates=tuple(rows[len(rows) - search.candidates :]),
        goal=aim,
        deploy=deploy,
        seeds=seeds,
        trainings=trainings,
        measuring=measuring,
        search=search,
        why_no_trial=why_no_trial,
        averages_kinds=kept > 1,
        checks_labels=train.shows_pictures if label_issues is None else label_issues,
        made_from=made_from,
    )


def _why_no_trial(train: Data, recipe: Recipe, deploy: str) -> str:
    """Why neither an ensemble nor a student is tried; "" where they may be."""
    if why := why_no_ensemble(recipe):
        return why
    if len(train) // FOLDS < MIN_FOLD_EXAMPLES and deploy != ENSEMBLE:
        return f"a fold has fewer than {MIN_FOLD_EXAMPLES} examples"
    return ""


def why_no_ensemble(recipe: Recipe) -> str:
    """Why models of this recipe are neither averaged with each other nor taught to one; "" where they may be."""
    if recipe.is_trees:
        return "several models of one kind gain too little"
    if recipe.full_batch:
        return "heads that train to convergence differ too little to gain from each other"
    return ""


def unit_cost(train: Data, recipe: Recipe, candidate: Candidate) -> float:
    """Of one training of a candidate, in naive trainings by the recipe as it is; a training of another kind is one."""
    own = candidate.recipe(recipe)
    cost = lane_cost(candidate.lane(recipe, 0), own, train)
    if own.network != recipe.network:
        return cost
    return naive_passes(own, train) / naive_passes(recipe, train) * cost


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
            return unit * (search + self.members - 1 + ENSEMBLE_SIZE)
        trial = self.members - 1 + student_cost(self.members, len(STUDENT_RATES))
        return unit * (search + trial + student_cost(FOLDS))


def student_cost(teachers: int, students: int = 1) -> float:
    """Of students in one stack, that ask their teachers together at every step, in trainings like the teachers'."""
    return students + teachers / FORWARD


# (finalists, their folds, folds of the best, members of the trial), from the most to the least telling
PLANS = (
    (3, FOLDS, FOLDS, ENSEMBLE_SIZE),
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
