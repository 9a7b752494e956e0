"""What the workflows are going to train, as stages that a Watcher can announce; never fewer networks than they will."""

from collections.abc import Sequence
from dataclasses import replace

from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.posthoc.remedies import Remedy
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import members_left
from class_uncertainty.runs.rate_choice import CHOOSING_SEED
from class_uncertainty.runs.watcher import Rest, Stage
from class_uncertainty.training import Lane
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.folds import FOLDS, judged_folds
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.workflows.evaluate_remedies import RemedySetting, students_left
from class_uncertainty.workflows.search_plan import STUDENT_RATES, TOGETHER, SearchPlan, student_cost

MEASURING, CHOOSING, METHODS, REMEDIES, TRIAL, LADDER = (
    "measuring",
    "choosing",
    "methods",
    "remedies",
    "trial",
    "ladder",
)


def rung(number: int) -> str:
    """The name of a rung's stage; the first is 1."""
    return f"rung {number}"


def measuring_stage(context: Context, requests: Sequence[EstimateRequest]) -> Stage:
    """Members, and without a test split the folds that judge; what is stored or begun is known here already."""
    lanes = sum(len(request.lanes) for request in requests)
    judged = f", {FOLDS} folds judge" if lanes and context.dataset.test is None else ""
    who = f"{_count(lanes, context.recipe.noun)} measure{'s' * (lanes == 1)}"
    return Stage(MEASURING, f"{who} uncertainty{judged}", (lanes,)).rest(members_left(context, requests))


def comparison_stages(
    context: Context,
    methods: Sequence[str],
    remedies: Sequence[Remedy],
    seeds: Sequence[int],
    rates: Sequence[float | None],
    members: int,
    choosing: Context,
    choose: Sequence[str],
) -> list[Stage]:
    """`methods` at these learning rates, or at one that is chosen for each of `choose`; then remedies."""
    folds, at_rates = judged_folds(context.dataset), [None] if choose else rates
    judges = judged_folds(choosing.dataset)
    tried = [Lane(method, CHOOSING_SEED, lr, fold) for method in choose for lr in rates for fold in judges]
    tries = f"{_count(len(choose), 'method')} × {len(rates)} rates"
    tries += f" × {len(judges)} folds choose" if len(judges) > 1 else f" choose on {choosing.dataset.name}"
    compared = [Lane(name, seed, lr, fold) for name in methods for lr in at_rates for seed in seeds for fold in folds]
    factors = [_count(len(methods), "method"), _count(len(seeds), "seed")]
    factors += [f"{len(at_rates)} rates"] if len(at_rates) > 1 else []
    factors += [f"{len(folds)} folds"] if len(folds) > 1 else []
    rows = [(remedy, seed) for remedy in remedies for seed in seeds]

    def whole(lanes: Sequence[Lane]) -> Rest:
        """Methods at rates that are chosen later may share nothing."""
        left = [1.0] * len(lanes)
        return Rest.apart(left) if choose else context.rest(lanes, left)

    made = [whole(RemedySetting(context, members, lr, {}).lanes(rows)) for lr in at_rates]
    by_remedies = [part for networks in made for part in (networks, students_left(context, rows))]
    number = sum(len(part.shares) for part in by_remedies)
    return [
        _stage(CHOOSING, tries, [context.rest(tried, [1.0] * len(tried))]),
        _stage(METHODS, " × ".join(factors), [whole(compared)]),
        _stage(REMEDIES, f"{_count(number, context.recipe.noun)} for remedies", by_remedies),
    ]


def fix_stages(
    context: Context, plan: SearchPlan, candidates: Sequence[Candidate], costs: Sequence[float], seeds: int
) -> list[Stage]:
    """The rungs, the trial, and the networks before and after."""
    unit, stages, before, noun = sum(costs) / len(costs), list[Stage](), 0, context.recipe.noun
    for number, (judged, folds) in enumerate(plan.rungs, 1):
        who = _count(judged, "candidate") if number == 1 else f"the best {judged}" if judged > 1 else "the best"
        about = f"{who} on {_count(folds, 'fold')}"
        if number == 1:
            stages.append(_first_rung(context, about, candidates, folds, unit))
        else:  # of which candidates is not known: they may share nothing
            stages.append(Stage(rung(number), about, (judged * (folds - before),), unit))
        before = folds
    students = len(STUDENT_RATES) if plan.members and not plan.ensemble else 0
    if plan.members:
        trained = (plan.members - 1, students)
        cost = plan.members - 1 + (student_cost(plan.members, students) if students else 0)
        about = f"a trial of {_count(plan.members, noun)}" + (f" and {students} students" if students else "")
        stages.append(Stage(TRIAL, about, trained, unit * cost / sum(trained)))
    folds, kept = len(judged_folds(context.dataset)), TOGETHER if plan.ensemble and plan.members else 1
    judged = plan.last_folds if folds > 1 else 0  # networks that the rungs have left
    after = plan.kept * (max(kept, seeds) * folds + kept * (folds > 1) - judged)
    taught = seeds * folds + (1 + plan.members * folds) * (folds > 1) if students else 0
    about = f"{_count(seeds, noun)} before and after" + (f", each on {folds} folds" if folds > 1 else "")
    return [*stages, Stage(LADDER, about, (seeds * folds, after, taught), unit)]


def _first_rung(context: Context, about: str, candidates: Sequence[Candidate], folds: int, unit: float) -> Stage:
    """Candidates of one recipe train together."""
    by_recipe: dict[Recipe, dict[Lane, None]] = {}
    for candidate in candidates:
        lanes = [candidate.lane(context.recipe, 0, (k, FOLDS)) for k in range(folds)]
        by_recipe.setdefault(candidate.recipe(context.recipe), {}).update(dict.fromkeys(lanes))
    parts = [replace(context, recipe=alike).rest([*lanes], [1.0] * len(lanes)) for alike, lanes in by_recipe.items()]
    kinds = tuple(_kind(recipe, context.recipe) for recipe in by_recipe)
    return _stage(rung(1), about, parts, unit, kinds if set(kinds) != {context.recipe} else ())


def _stage(name: str, about: str, parts: Sequence[Rest], unit: float = 1.0, kinds: tuple[Recipe, ...] = ()) -> Stage:
    together, turns = tuple(len(part.shares) for part in parts), tuple(part.turns for part in parts)
    return Stage(name, about, together, unit, kinds, turns=turns)


def _kind(recipe: Recipe, usual: Recipe) -> Recipe:
    """How long a training takes goes by the recipe; a network of the usual one only takes more or fewer passes."""
    return usual if recipe.network == usual.network and not recipe.is_fitted else recipe


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
