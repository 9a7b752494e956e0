"""cu.fix(): from data to the best network that a number of trainings buys, with what was wrong and what has changed.

The order is: candidates, out-of-fold evidence, an ensemble and a student on trial, a choice, the networks, evaluation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Frame, check, take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.frame_sources import dataset_from
from class_uncertainty.estimation import read_by
from class_uncertainty.measures import Stats
from class_uncertainty.posthoc.evaluation import Evaluation
from class_uncertainty.posthoc.fix_report import NAIVE, FixReport
from class_uncertainty.posthoc.priors import measured_prior
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate
from class_uncertainty.runs.settings import Settings, Shared, lists_shared
from class_uncertainty.runs.watcher import Decided
from class_uncertainty.text import html_lines, to_frame
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.model_files import check_embeds
from class_uncertainty.training.model_files import save as save_model
from class_uncertainty.training.network_size import NetworkSize, parameters
from class_uncertainty.training.networks.classifier import Deployed
from class_uncertainty.training.purpose import Purpose
from class_uncertainty.workflows.alternatives import Alternatives, try_alternatives
from class_uncertainty.workflows.fix_choice import Choice, choose
from class_uncertainty.workflows.fix_evaluation import evaluate_fix
from class_uncertainty.workflows.fix_networks import FixNetworks, train_networks
from class_uncertainty.workflows.fix_plan import MEASURING, FixPlan, check_request, plan_fix
from class_uncertainty.workflows.ladder import judged_by_folds
from class_uncertainty.workflows.model import Model
from class_uncertainty.workflows.model_card import judged_about
from class_uncertainty.workflows.search import Search, search


@dataclass(frozen=True, eq=False)
class Fix:
    """What `cu.fix` returns: the kept model, and what changed against naive training.

    Attributes
    ----------
    dataset : Dataset
        What it was trained on.
    module : torch.nn.Module
        The network, or the ensemble, with its preprocessing: raw inputs in, logits out. Its softmax is calibrated for
        classes that are about as frequent as the goal says; `purpose.prior` is what was measured.
    model : Model
        The same with scikit-learn's `predict_proba`, for DataFrames and arrays. Its probabilities are for the goal, as
        those of `cu.predict(fixed, examples)` are where no other prior is given.
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

    dataset: Dataset
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
        return html_lines("fix_view.fixed_lines", self)

    def _classes(self) -> list[dict[str, Any]]:
        report, kinds = self.report, {verdict.label: verdict.kind for verdict in self.report.findings}
        rows = []
        for c, name in enumerate(report.classes):
            before, after = float(report.before.means[c]), float(report.after.means[c])
            numbers = {"before": before, "after": after, "change": after - before}
            bounds = report.price.together[c] if not isnan(before) else None
            ends = {"change_low": bounds.low if bounds else None, "change_high": bounds.high if bounds else None}
            rows.append({"name": name, "count": report.counts[c], **numbers, **ends, "kind": kinds.get(name, "")})
        return rows


@lists_shared
def fix(
    data: Dataset | Data | Frame | ArrayLike,
    y: ArrayLike | None = None,
    *,
    label: str | None = None,
    recipe: Recipe | None = None,
    candidates: Sequence[str | Candidate] | None = None,
    goal: str = "mean",
    deploy: str | None = None,
    trainings: float | None = None,
    seeds: int | None = None,
    save: str | Path | None = None,
    embed_weights: bool = False,
    label_issues: bool | None = None,
    **settings: Unpack[Shared],
) -> Fix:
    """Compare training methods out-of-fold and keep the best model within a training budget.

    Candidates are judged out-of-fold, adjusted for the counts, and dropped early. The best of them, an ensemble of it
    and a student of that ensemble are the steps to choose from. For the goals "overall" and "cost", the naive network
    is kept where the choice is worse on folds that it was not chosen on. Before and after are judged on the test split,
    on which nothing is chosen. Without a test split, folds judge; the finalists, and whether several kinds are
    averaged, are then decided on the same folds.

    Parameters
    ----------
    data : Dataset, Data, DataFrame or array
        What to train on; arrays are images or features.
    y : array, optional
        The labels of an array or a DataFrame, numbers or names.
    label : str, optional
        The column of a DataFrame that has the labels, 'label' by default.
    recipe : Recipe, optional
        How to train; by default the one for images or for features.
    candidates : list of str or Candidate, optional
        What to choose from, such as METHOD?field=value; '+NAME' and '-NAME' change `cu list candidates`.
    goal : str
        What is best: "mean" (class-mean error), "worst" (error of the worst tenth of the classes), "overall" (error
        where classes are as frequent as in training), "cost:FILE.csv" (a matrix of costs) or "prior:FILE".
    deploy : str
        "one" network, or an "ensemble" where that is better; by default one, and of tables an ensemble, which averages
        models of several kinds.
    trainings : float, optional
        The training budget, in trainings of one naive network; by default 20, or 60 for tables and with the recipe
        "embeddings". Repeats for the ± are not counted.
    seeds : int, optional
        Networks before and after, for the ±; by default 3, and 1 for tables. The network of seed 0 is kept.
    save : path, optional
        Write the network to PATH.safetensors and PATH.json, which `cu.restore` reads.
    embed_weights : bool
        Whether the saved files hold the weights of the backbone too, where features come from one.
    label_issues : bool, optional
        Whether to look for wrong labels; by default only for images, since labels of tables are often facts.
    store, device, budget, progress, profile, force, on
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

    A DataFrame:

    >>> import pandas
    >>> frame = pandas.DataFrame({"age": range(40), "churned": ["no"] * 30 + ["yes"] * 10})
    >>> linear = cu.Recipe("linear", epochs=1, batch=8)
    >>> fixed = cu.fix(frame, label="churned", recipe=linear, candidates=["naive"], trainings=2, seeds=1)
    >>> fixed.model.predict(frame).shape
    (40,)
    """
    dataset = dataset_from(data, y, label)
    candidates = take(list[str | Candidate] | None, candidates=candidates)
    check(str, goal=goal)
    check(str | None, deploy=deploy)
    trainings = take(float | None, trainings=trainings)
    seeds = take(int | None, seeds=seeds)
    check(Path | None, save=save)
    check(bool | None, label_issues=label_issues)
    check_request(deploy, seeds)
    with open_context(dataset, Settings.of(fix, settings, recipe)) as context:
        check_fit(context.train, [Lane("naive")], context.recipe, None, None)
        asked = (candidates, goal, deploy, trainings, seeds, label_issues, embed_weights)
        plan = plan_fix(context.dataset, context.recipe, *asked)
        check_embeds(context.train, embed_weights)
        if save:
            context.check_savable(save, plan.made_from, plan.goal.name)

        stats = _measure_uncertainty(context, plan)
        choosing = judged_by_folds(context)  # what chooses is no result
        searched = search(choosing, plan, stats)
        alternatives = try_alternatives(choosing, searched, plan, stats)
        choices = choose(context.dataset, searched, alternatives, plan)
        context.tell(Decided(choices[None].why))
        networks = train_networks(context, searched, choices, plan, stats)

        prior = _softmax_prior(context, searched, alternatives, networks, plan)
        report = evaluate_fix(context, searched, alternatives, networks, plan, prior)
        module = _module(context, networks, plan, report, prior)
        files = save_model(module, save, module.about, embed_weights) if save else ()
        return Fix(context.dataset, module, report, networks.choice, _size(context, networks.choice), tuple(files))


def _measure_uncertainty(context: Context, plan: FixPlan) -> Stats | None:
    """The class uncertainties, where a candidate uses them."""
    if not plan.measuring:
        return None
    return read_by(load_or_estimate(context, [MEASURING])[0], None).stats


def _softmax_prior(
    context: Context, search: Search, alternatives: Alternatives, networks: FixNetworks, plan: FixPlan
) -> NDArray[np.float64]:
    """(C,) the prior that the probabilities of what is kept stand for: about that of the goal."""
    train, choice = context.train, networks.choice
    unseen = search.of(choice.candidate)
    if choice.parts:
        assert alternatives.average is not None
        p, labels = alternatives.average.p, alternatives.average.labels
    elif context.recipe.is_trees or unseen.networks.recipe.is_trees:  # trees know their own examples by heart
        p, labels = unseen.p if choice.step == NAIVE else unseen.adjusted, unseen.labels
    else:
        p, labels = networks.probabilities(train), train.labels
    return measured_prior(p, labels, plan.goal.prior)


def _module(
    context: Context, networks: FixNetworks, plan: FixPlan, report: FixReport, prior: NDArray[np.float64]
) -> Deployed:
    """What is deployed, with the prior that it stands for and how it was judged."""
    train, choice = context.train, networks.choice
    module = networks.module(plan.goal)
    module.purpose = Purpose.of(train.counts, prior, goal=plan.goal.name, method=choice.trained_by, label=train.label)
    module.about = _about(context, choice, report) | {"made_from": plan.made_from}
    return module


def _about(context: Context, choice: Choice, report: FixReport) -> dict[str, Any]:
    """What stands beside the weights."""
    intervals = report.price.after
    errors, errors_before = report.after.means.tolist(), report.before.means.tolist()
    judged = judged_about(context.dataset, errors, report.cost, errors_before, intervals)
    by_goal = {step.name: fmean(step.values) for step in report.ladder if step.values}
    return {
        "data": report.data,
        "columns": context.train.columns,
        "goal": report.goal,
        "candidate": choice.trained_by,
        "step": report.step,
        "errors": report.after.errors,
        "tau": list(choice.taus) if choice.parts else report.tau,  # of several kinds of models each has its own
        "judged": judged | {"values": [by_goal[NAIVE], by_goal[report.step]]},  # before and after
    }


def _size(context: Context, choice: Choice) -> NetworkSize:
    """What was trained, and its parameters where it is of one kind."""
    train = context.train
    names = list(dict.fromkeys(candidate.recipe(context.recipe).network for candidate in choice.candidates))
    count = parameters(names[0], train.shape, len(train.classes)) if len(names) == 1 else None
    return NetworkSize(" + ".join(names), count)
