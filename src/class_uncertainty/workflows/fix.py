"""cu.fix(): from data to the best network that a number of trainings buys, with what was wrong and what has changed.

The order is: candidates, out-of-fold evidence, an ensemble and a student on trial, a choice, the networks, evaluation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any, Unpack

from class_uncertainty.checks import check, take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.specs import place_of
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import EstimateRequest, read_by
from class_uncertainty.io import origin, same_file
from class_uncertainty.methods import named
from class_uncertainty.metrics import prior_weights
from class_uncertainty.posthoc.diagnosis import KINDS
from class_uncertainty.posthoc.evaluation import Evaluation
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.goal import check_judgeable, parse_goal
from class_uncertainty.posthoc.ladder import DEPLOYS, ENSEMBLE, NAIVE
from class_uncertainty.posthoc.priors import measured_prior
from class_uncertainty.runs.comparison_checks import check_seeds
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate
from class_uncertainty.runs.settings import Settings, Shared, lists_shared
from class_uncertainty.runs.watcher import Decided
from class_uncertainty.text import html_table, number, to_frame
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.candidate import Candidate, default_candidates, find_candidates
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.folds import FOLDS, judged_folds, judged_labels
from class_uncertainty.training.model_files import check_embeds, check_savable
from class_uncertainty.training.model_files import save as save_model
from class_uncertainty.training.network_size import NetworkSize, parameters
from class_uncertainty.training.networks.classifier import Deployed
from class_uncertainty.training.purpose import Purpose
from class_uncertainty.training.saved_model import files_of
from class_uncertainty.workflows.choose_rates import judged_by_folds
from class_uncertainty.workflows.choose_step import Choice, choose_step
from class_uncertainty.workflows.fall_back import fall_back
from class_uncertainty.workflows.fitted_model import Model
from class_uncertainty.workflows.ladder_networks import train_ladder
from class_uncertainty.workflows.mixture import Mixture, mix
from class_uncertainty.workflows.model_card import judged_about
from class_uncertainty.workflows.report_fix import Spent, report_fix
from class_uncertainty.workflows.search import search, unit_cost
from class_uncertainty.workflows.search_plan import HEAD_TRAININGS, STUDENT_RATES, TRAININGS, plan_search
from class_uncertainty.workflows.trial import TELLING, Trial, try_steps

SEEDS = 3  # of networks before and after; of a table, other examples would change more than other seeds
MEASURING = EstimateRequest("out-of-fold", FOLDS)  # of class uncertainties, where a candidate uses them


@dataclass(frozen=True, eq=False)
class Fix:
    """What `cu.fix` returns: a better network in the place of the naive one.

    Attributes
    ----------
    module : torch.nn.Module
        The network, or the ensemble, with its preprocessing: raw inputs in, logits out. Its softmax is calibrated for
        classes that are about as frequent as the goal says; `purpose.prior` is what was measured.
    model : Model
        The same with scikit-learn's `predict_proba`, for DataFrames and arrays. Its probabilities are for the goal;
        those of `cu.predict(fixed, examples)` are for classes as frequent as in training, or another prior.
    report : FixReport
        What was wrong, what was done and what has changed.
    choice : Choice
        What was chosen without test data.
    network : NetworkSize
        The network that was trained, and its parameters.
    files : tuple of Path
        What `save` wrote.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=4, batch=32)
    >>> fixed = cu.fix(cu.load("digits-lt:20"), recipe=recipe, candidates=["naive"], trainings=2, seeds=1)
    >>> fixed.choice.candidate.name, fixed.choice.step
    ('naive', 'adjusted')
    """

    module: Deployed
    report: FixReport
    choice: Choice
    network: NetworkSize
    files: tuple[Path, ...] = ()

    @property
    def model(self) -> Model:
        """The same with `predict_proba` and `predict`: rows of a DataFrame, or arrays, in; probabilities out."""
        return Model(self.module)

    @property
    def before(self) -> Evaluation:
        """Of naive networks."""
        return self.report.before

    @property
    def after(self) -> Evaluation:
        """Of the step that is kept."""
        return self.report.after

    def __repr__(self) -> str:
        return f"Fix({self.report.data}: {self.report.in_short}, {self.network})"

    def document(self) -> dict[str, Any]:
        """What `cu fix --json` prints: the report without its pictures and predictions."""
        document = asdict(self.report) | asdict(self.network)
        del document["predictions"]
        for issue in document["label_issues"]:
            del issue["picture"]
        return document

    def to_frame(self) -> Any:
        """The classes before and after as a DataFrame of pandas, one row a class. Errors are in percent."""
        return to_frame(self._classes())

    def _repr_html_(self) -> str:
        wrong = f"what was wrong{self.report.without_costs}"
        columns = ("class", "train", "before %", "after %", "change", "95 %", wrong)
        cells = []
        for row in sorted(self._classes(), key=lambda row: (isnan(row["change"]), row["change"])):
            errors = (number(row["before"]), number(row["after"]), number(row["change"], 1, "+"))
            bounds = "–" if row["change_low"] is None else f"{row['change_low']:+.1f} to {row['change_high']:+.1f}"
            cells.append((row["name"], f"{row['count']:,}", *errors, bounds, KINDS.get(row["kind"], "")))
        title = ". ".join(filter(None, [f"{self.report.data}: {self.report.aim} before and after", self.report.basis]))
        return html_table(title, columns, cells, [self.report.why])

    def _classes(self) -> list[dict[str, Any]]:
        report, kinds = self.report, {verdict.label: verdict.kind for verdict in self.report.findings}
        rows = []
        for c, name in enumerate(report.classes):
            before, after = float(report.before.means[c]), float(report.after.means[c])
            numbers = {"before": before, "after": after, "change": after - before}
            bounds = report.price.classes[c] if report.price and not isnan(before) else None
            ends = {"change_low": bounds.low if bounds else None, "change_high": bounds.high if bounds else None}
            rows.append({"name": name, "count": report.counts[c], **numbers, **ends, "kind": kinds.get(name, "")})
        return rows


@lists_shared
def fix(
    dataset: Dataset | Data,
    recipe: Recipe | None = None,
    *,
    candidates: Sequence[str | Candidate] | None = None,
    goal: str = "mean",
    deploy: str | None = None,
    trainings: float | None = None,
    seeds: int | None = None,
    save: str | Path | None = None,
    embed_weights: bool = False,
    force: bool = False,
    label_issues: bool | None = None,
    **settings: Unpack[Shared],
) -> Fix:
    """Train the best network that a number of trainings buys, chosen on examples that the choosing networks never saw.

    Candidates are judged out-of-fold, adjusted for the counts, and dropped early. The best of them, an ensemble of it
    and a student of that ensemble are the steps to choose from. For accuracy and costs, the naive network is kept where
    the choice is worse on folds that it was not chosen on. Before and after are judged on the test split, or by folds
    without one. Nothing is chosen on a test split. Without one, whether several kinds are averaged is decided on the
    same folds, and so are the finalists.

    Parameters
    ----------
    dataset : Dataset or Data
        What to train on.
    recipe : Recipe, optional
        How to train; by default the one for images or for features.
    candidates : list of str or Candidate, optional
        What to choose from, as METHOD?field=value; '+NAME' and '-NAME' change `cu list candidates`.
    goal : str
        What is best: "mean" (class-mean error), "worst" (error of the worst tenth of the classes), "accuracy" (error
        where classes are as frequent as in training), "cost:FILE.csv" (a matrix of costs) or "prior:FILE".
    deploy : str
        "one" network, or an "ensemble" where that is better; by default one, and of tables an ensemble, which averages
        models of several kinds.
    trainings : float, optional
        What may be spent, in trainings of one naive network; by default 20, or 60 for tables and with the recipe
        "embeddings". Repeats for the ± are not counted.
    seeds : int, optional
        Networks before and after, for the ±; by default 3, and 1 for tables. The network of seed 0 is kept.
    save : path, optional
        Write the network to PATH.safetensors and PATH.json, which `cu.restore` reads.
    embed_weights : bool
        Whether the saved files hold the weights of the backbone too, where features come from one.
    force : bool
        Whether `save` may replace a model of other data or options.
    label_issues : bool, optional
        Whether to look for wrong labels; by default for images alone, since labels of tables are often facts.
    store, device, budget, progress, profile, on
        As for `cu.measure`.

    Returns
    -------
    Fix

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=4, batch=32)
    >>> fixed = cu.fix(cu.load("digits-lt:20"), recipe=recipe, candidates=["naive"], trainings=2, seeds=1)
    >>> len(fixed.after.errors), fixed.report.cost
    (1, 2.0)
    """
    candidates = take(list[str | Candidate] | None, candidates=candidates)
    check(str, goal=goal)
    check(str | None, deploy=deploy)
    trainings = take(float | None, trainings=trainings)
    seeds = take(int | None, seeds=seeds)
    check(Path | None, save=save)
    check(bool | None, label_issues=label_issues)
    if deploy not in (None, *DEPLOYS):
        raise unknown("deploy", str(deploy), DEPLOYS)
    check_seeds(SEEDS if seeds is None else seeds, alternative="")
    with open_context(dataset, Settings.of(fix, settings, recipe)) as context:
        check_embeds(context.train, embed_weights)
        train, is_table = context.train, context.recipe.is_trees
        deploy = deploy or (ENSEMBLE if is_table else DEPLOYS[0])
        seeds = (1 if is_table else SEEDS) if seeds is None else seeds
        aim = parse_goal(goal, train.classes, train.counts)
        check_judgeable(train.counts, train.classes, aim)
        prior_weights(judged_labels(context.dataset), aim.prior)  # refuses a prior of 0 for all that judge
        check_fit(train, [Lane("naive")], context.recipe, None, None)
        if candidates is None:
            rows = default_candidates(train, context.recipe)
        else:
            rows = find_candidates(candidates, train, context.recipe)
        if trainings is None:
            trainings = HEAD_TRAININGS if context.recipe.is_fitted else TRAININGS
        asked = (context.recipe, [row.name for row in rows], goal, deploy, trainings, seeds)
        place = place_of(context.dataset.name, otherwise=context.dataset.fingerprint)
        made_from = origin(context.dataset.name, place, *asked)
        if save:
            if any(same_file(file, goal.partition(":")[2]) for file in files_of(save)):
                raise InputError(f"save is {save}, and goal {goal!r} is read from there: give another name.")
            check_savable(save, made_from, force)
        costs = [unit_cost(context, row) for row in rows]
        measuring = float(len(MEASURING.lanes)) if any(map(uses_uncertainty, rows)) else 0.0
        why_not = _untried(context, deploy)
        kinds = len({row.recipe(context.recipe).network for row in rows})
        kept = kinds if is_table and deploy == ENSEMBLE else 1
        plan = plan_search(trainings, costs, not why_not, deploy == ENSEMBLE, measuring, kept)
        rows = rows[len(rows) - plan.candidates :]
        stats = read_by(load_or_estimate(context, [MEASURING])[0], None).stats if measuring else None
        choosing = judged_by_folds(context)  # what chooses is no result
        searched = search(choosing, rows, plan, aim, stats)
        folds = dict.fromkeys([None, *judged_folds(context.dataset)])
        trial: Trial | Mixture | str = why_not or f"{trainings:g} trainings do not pay for it"
        if plan.members and (why_not := _alone(searched.best.networks.recipe)):
            trial = why_not
        elif plan.members:
            rates = () if plan.ensemble else STUDENT_RATES
            trial = try_steps(choosing, searched.best, plan.members, rates, aim, stats)
        elif kept > 1:
            trial = mix(searched, aim)
        choices = {fold: choose_step(choosing, searched, trial, aim, deploy, fold) for fold in folds}
        if aim.weighs_by_frequency:
            choices = fall_back(choosing, searched, trial, choices, aim, deploy)
        context.tell(Decided(choices[None].why))
        networks = train_ladder(context, searched, choices, plan, seeds, stats, aim)
        doubts_labels = train.shows_pictures if label_issues is None else label_issues
        spent = Spent(trainings, measuring)
        report = report_fix(context, searched, trial, choices, networks, aim, seeds, spent, doubts_labels)
        module = networks.module(choices[None], aim)
        unseen = searched.of(choices[None].candidate)
        if isinstance(trial, Mixture) and choices[None].parts:
            p, labels = trial.p, trial.labels
        elif is_table or unseen.networks.recipe.is_trees:  # trees know their own examples by heart
            p, labels = unseen.p if choices[None].step == NAIVE else unseen.adjusted, unseen.labels
        else:
            p, labels = networks.probabilities(choices[None], train), train.labels
        prior = measured_prior(p, labels, aim.prior)
        module.purpose = Purpose.of(train.counts, prior, goal=goal, method=choices[None].trained_by, label=train.label)
        module.about = _about(context, choices[None], report) | {"made_from": made_from}
        files = save_model(module, save, module.about, embed_weights) if save else ()
        names = list(dict.fromkeys(row.recipe(context.recipe).network for row in choices[None].candidates))
        count = parameters(names[0], train.shape, len(train.classes)) if len(names) == 1 else None
        size = NetworkSize(" + ".join(names), count)
        return Fix(module, report, choices[None], size, tuple(files))


def _untried(context: Context, deploy: str) -> str:
    """Why neither an ensemble nor a student is tried; "" where they may be."""
    if why_not := _alone(context.recipe):
        return why_not
    small = len(context.train) // FOLDS < TELLING and deploy != "ensemble"
    return f"a fold has fewer than {TELLING} examples" if small else ""


def _alone(recipe: Recipe) -> str:
    """Why models of this recipe are neither averaged with each other nor taught to one; "" where they may be."""
    if recipe.is_trees:
        return "several models of one kind gain too little"
    return "heads that train to convergence differ too little to gain from each other" if recipe.full_batch else ""


def uses_uncertainty(candidate: Candidate) -> bool:
    return named(candidate.method).uses_uncertainty


def _about(context: Context, choice: Choice, report: FixReport) -> dict[str, Any]:
    """What stands beside the weights."""
    about: dict[str, Any] = {"data": report.data, "columns": context.train.columns, "goal": report.goal}
    about |= {"candidate": choice.trained_by, "step": report.step, "errors": report.after.errors}
    about |= {"tau": list(choice.taus) if choice.parts else report.tau}  # of several kinds of models each has its own
    errors = report.after.means.tolist(), report.cost, report.before.means.tolist()
    judged = judged_about(context.dataset, *errors, report.price.after if report.price else ())
    by_goal = {step.name: fmean(step.values) for step in report.ladder if step.values}
    return about | {"judged": judged | {"values": [by_goal["naive"], by_goal[report.step]]}}  # before and after
