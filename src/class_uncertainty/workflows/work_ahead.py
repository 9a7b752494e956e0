"""What the workflows are going to train, as stages that a Watcher can announce; never fewer networks than they will."""

from collections import Counter
from collections.abc import Iterable, Sequence

from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.posthoc.remedies import Remedy
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import members_left
from class_uncertainty.runs.watcher import Stage
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.folds import FOLDS, judged_folds
from class_uncertainty.training.recipe import Recipe
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
    rates = {request.lr for request in requests if request.lanes}
    judges = FOLDS * len(rates) if context.dataset.test is None else 0
    judged = f", {FOLDS} folds judge" if judges else ""
    who = f"{_count(lanes, context.recipe.noun)} measure{'s' * (lanes == 1)}"
    return Stage(MEASURING, f"{who} uncertainty{judged}", (lanes + judges,)).rest([members_left(context, requests)])


def comparison_stages(
    context: Context,
    methods: Sequence[str],
    remedies: Iterable[Remedy],
    seeds: int,
    rates: int,
    choose: int,
    members: int,
) -> list[Stage]:
    """`methods` at so many learning rates, or at one that was chosen by folds for so many methods; then remedies."""
    folds = len(judged_folds(context.dataset))
    choosing = Stage(
        CHOOSING, f"{_count(choose, 'method')} × {rates} rates × {FOLDS} folds choose", (choose * rates * FOLDS,)
    )
    at_rates = 1 if choose else rates
    factors = [_count(len(methods), "method"), _count(seeds, "seed")]
    factors += ([f"{at_rates} rates"] if at_rates > 1 else []) + ([f"{folds} folds"] if folds > 1 else [])
    compared = Stage(METHODS, " × ".join(factors), (len(methods) * seeds * at_rates * folds,))
    networks = Counter[tuple[str, bool]]()  # remedies share the networks of a method; students are trained apart
    for remedy in remedies:
        key, number = (remedy.method, False), (members if remedy.distils else (remedy.together or members) * seeds)
        networks[key] = max(networks[key], number)
        if remedy.distils:
            networks["student", True] = seeds
    number = sum(networks.values()) * at_rates * folds
    return [choosing, compared, Stage(REMEDIES, f"{_count(number, context.recipe.noun)} for remedies", (number,))]


def fix_stages(
    context: Context, plan: SearchPlan, candidates: Sequence[Candidate], costs: Sequence[float], seeds: int
) -> list[Stage]:
    """The rungs, the trial, and the networks before and after."""
    unit, stages, before, noun = sum(costs) / len(costs), list[Stage](), 0, context.recipe.noun
    for number, (judged, folds) in enumerate(plan.rungs, 1):
        who = _count(judged, "candidate") if number == 1 else f"the best {judged}" if judged > 1 else "the best"
        alike = Counter(candidate.recipe(context.recipe) for candidate in candidates)
        together = tuple(folds * rows for rows in alike.values()) if number == 1 else (judged * (folds - before),)
        kinds = tuple(_kind(recipe, context.recipe) for recipe in alike) if number == 1 else ()
        mixed = kinds if set(kinds) != {context.recipe} else ()
        stages.append(Stage(rung(number), f"{who} on {_count(folds, 'fold')}", together, unit, mixed))
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


def _kind(recipe: Recipe, usual: Recipe) -> Recipe:
    """How long a training takes goes by the recipe; a network of the usual one only takes more or fewer passes."""
    return usual if recipe.network == usual.network and not recipe.is_fitted else recipe


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
