"""cu.train(): one network."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Unpack

from class_uncertainty.checks import check, take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.sources import place_of
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Estimate, EstimateRequest, read_by
from class_uncertainty.io import origin
from class_uncertainty.measures import Stats
from class_uncertainty.methods import Method
from class_uncertainty.methods.method import trained_prior
from class_uncertainty.posthoc.priors import measured_prior
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import fit_and_store, load_or_estimate, load_or_evaluate, stored_measurement
from class_uncertainty.runs.measurement import Measurement, class_vector
from class_uncertainty.runs.settings import Settings, Shared, lists_shared
from class_uncertainty.training import Lane, Recipe, Result
from class_uncertainty.training.model_files import check_embeds
from class_uncertainty.training.model_files import save as save_model
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.purpose import Purpose
from class_uncertainty.workflows.model_card import judged_about


@dataclass(frozen=True, eq=False)
class Trained:
    """What `cu.train` returns.

    Attributes
    ----------
    dataset : Dataset
        What the network was trained on.
    module : torch.nn.Module
        The network with its preprocessing: raw inputs in, logits out. `purpose.prior` is what its softmax stands for.
    result : Result
        How well it does on the test split, or by folds where there is none.
    estimate : Estimate, Measurement or None
        The class uncertainties that its method used; a Measurement where the store has only class vectors.
    files : tuple of Path
        What `save` wrote.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> trained = cu.train(cu.load("digits-lt:20"), recipe=recipe)
    >>> trained.result.method, trained.files
    ('naive', ())
    """

    dataset: Dataset
    module: Classifier
    result: Result
    estimate: Estimate | Measurement | None
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        error = "diverged" if self.result.error is None else f"class-mean error {self.result.error:.1f} %"
        return f"Trained({self.dataset!r}, {self.result.method}, {error})"


@lists_shared
def train(
    dataset: Dataset | Data,
    method: str | Method = "naive",
    seed: int = 0,
    lr: float | None = None,
    *,
    estimator: str | None = None,
    members: int = 5,
    score: str | None = None,
    save: str | Path | None = None,
    embed_weights: bool = False,
    recipe: Recipe | None = None,
    **settings: Unpack[Shared],
) -> Trained:
    """Train one network by a method, whatever a store has.

    Parameters
    ----------
    dataset : Dataset or Data
        What to train on.
    method : str or Method
        A key of METHODS, a longer name such as "cb:beta=0.9@product+mixup", or a Method.
    seed : int
        Of initialisation, order and augmentation.
    lr : float, optional
        The learning rate; by default the recipe's.
    estimator, members, score
        How uncertainty is measured where the method uses it, as for `cu.measure`.
    save : path, optional
        Write the network to PATH.safetensors and PATH.json, which `cu.restore` reads.
    embed_weights : bool
        Whether the saved files hold the weights of the backbone too, where features come from one.
    recipe, store, device, budget, progress, profile, force, on
        As for `cu.measure`.

    Returns
    -------
    Trained

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> trained = cu.train(cu.load("digits-lt:20"), "balanced-softmax", recipe=recipe)
    >>> len(trained.result.class_errors)
    10
    """
    members = take(int, members=members)
    check(Path | None, save=save)
    lane = Lane(method, seed, lr)
    with open_context(dataset, Settings.of(train, settings, recipe)) as context:
        request = EstimateRequest.usual(estimator, members, recipe=context.recipe)
        request.check_score(score)
        check_embeds(context.train, embed_weights)
        asked = (lane.name, lane.seed, lane.lr, context.recipe, estimator, members, score)
        made_from = origin(context.dataset.name, place_of(context.dataset), embed_weights, *asked)
        if save:
            context.check_savable(save, made_from)
        estimate: Estimate | Measurement | None = None
        if lane.value.uses_uncertainty:
            estimate = stored_measurement(context, request, score)
            estimate = estimate or read_by(load_or_estimate(context, [request])[0], score)
        stats = Stats(context.train.counts, class_vector(estimate)) if estimate else None
        fitted = fit_and_store(context, lane, stats)
        if lost := fitted.results[0].divergence:
            raise InputError(f"{lane.name} {lost}: lower the learning rate.")
        result = fitted.results[0] if context.dataset.test else load_or_evaluate(context, [lane], stats)[0]
        module, counts = fitted.module(0), context.train.counts
        aimed = trained_prior(lane.value, Stats.of(counts, stats), context.recipe.epochs)
        prior = aimed
        if not context.recipe.is_trees:  # which know their training examples by heart
            prior = measured_prior(fitted.probabilities(context.train)[0], context.train.labels, aimed)
        module.purpose = Purpose.of(counts, prior, method=lane.name, label=context.train.label)
        module.about = {"data": context.dataset.name, "columns": context.train.columns, "result": asdict(result)}
        module.about["made_from"] = made_from
        module.about["judged"] = judged_about(context.dataset, result.class_errors, result.cost)
        files = save_model(module, save, module.about, embed_weights) if save else ()
        context.drop_checkpoints([lane], stats)  # not before the network is kept
        return Trained(context.dataset, module, result, estimate, tuple(files))
