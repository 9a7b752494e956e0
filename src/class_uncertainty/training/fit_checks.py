"""What fit() refuses before it trains."""

from collections.abc import Sequence

from class_uncertainty.data import Data, check_judge, check_trainable
from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats
from class_uncertainty.methods import Method
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.networks.bodies import identity
from class_uncertainty.training.networks.network_table import find_network

MOST_BOOSTED = 100  # classes


def check_fit(train: Data, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, test: Data | None) -> None:
    """Refuse data, lanes and recipes that do not go together."""
    check_trainable(train)
    if test is not None:
        check_judge(train, test)
    if not lanes:
        raise InputError("there are no lanes to train: give one at least.")
    _check_recipe(train, recipe)
    stats = Stats.of(train.counts, stats)
    for lane in lanes:
        _check_gather(lane)
        if recipe.is_trees:
            _check_trees(lane, recipe)
        if recipe.full_batch:
            _check_deterministic(lane, recipe)
        for method in lane.value.stages:
            _check_method(train, lane.name, method, stats)
            if recipe.full_batch:
                _check_full_batch(lane.name, method)
        if any(stage.pasted for stage in lane.value.then) and not train.is_images:
            raise InputError(f"method {lane.name!r} pastes parts of images, and the data are features.")
        if any(stage.pasted for stage in lane.value.then) and (custom := find_network(recipe.network).own):
            custom.check_maps(train.shape, lane.name)
        if any(stage.trains == "body" for stage in lane.value.then) and find_network(recipe.network).body is identity:
            raise InputError(
                f"method {lane.name!r} trains features, and network {recipe.network!r} has none: choose another recipe."
            )


def _check_recipe(train: Data, recipe: Recipe) -> None:
    network = find_network(recipe.network)
    network.features(train.shape)  # refuses inputs that a network of someone's own cannot take
    if network.images not in (None, train.is_images):
        takes, given = ("images", "features") if network.images else ("features", "images")
        raise InputError(f"network {recipe.network!r} takes {takes}, and the data are {given}: choose another recipe.")
    if not train.is_images and (recipe.crop or recipe.flip):
        raise InputError("the recipe crops or flips, and the data are features: crop must be 0 and flip False.")
    if not train.is_images and (recipe.resized_crop or recipe.jitter):
        raise InputError("the recipe crops or jitters, and the data are features: both shares must be 0.")
    if train.is_images and recipe.crop > min(train.shape[1:]):
        raise InputError(f"crop is {recipe.crop}, wider than the images: they are {train.shape[1]} x {train.shape[2]}.")
    if recipe.is_trees != bool(recipe.trees) or (recipe.is_trees and (recipe.epochs > 1 or recipe.optimizer != "sgd")):
        _refuse_trees(recipe)
    if recipe.network == "boosting" and len(train.classes) > MOST_BOOSTED:
        trees = f"a tree for each of the {len(train.classes):,} classes in every round"
        raise InputError(f"network 'boosting' would fit {trees}: for more than {MOST_BOOSTED} choose 'forest'.")
    if recipe.full_batch and network.body is not identity:
        needs = f"and network {recipe.network!r} has a body: it needs 'linear'"
        raise InputError(f"optimizer {recipe.optimizer!r} trains heads alone, {needs}.")
    if recipe.full_batch and recipe.average:
        raise InputError(f"optimizer {recipe.optimizer!r} converges, with nothing to average: average must be 0.")
    if not recipe.synchronised:
        raise InputError("synchronised is False, but processes no longer share a batch: it must be True.")
    if min(recipe.part, len(train)) < 2:
        parts = f" in {recipe.accumulate} parts" if recipe.accumulate > 1 else ""
        raise InputError(f"batch is {recipe.batch}{parts}: batch statistics need two examples at least.")


def _check_method(train: Data, name: str, method: Method, stats: Stats) -> None:
    for knob in method.knobs.values():
        knob.measure(stats)  # raises where it needs uncertainties that are not given
    for augmentation in method.augment:
        if augmentation in ("autoaugment", "cutout") and not train.is_images:
            raise InputError(f"method {name!r} has {augmentation}, which is for images, and the data are features.")
        if augmentation == "autoaugment" and (channels := train.shape[0]) not in (1, 3):
            raise InputError(f"method {name!r} has autoaugment, for 1 or 3 channels, and the images have {channels}.")


def _check_gather(lane: Lane) -> None:
    if lane.gather and lane.value.then:
        raise InputError(f"lane {lane.name!r} gathers {lane.gather}, and its method has several stages: give another.")
    if lane.gather == "snapshots" and not lane.value.cycles:
        raise InputError(f"lane {lane.name!r} gathers snapshots: its method must have cycles, as 'cyclic' has.")


def _refuse_trees(recipe: Recipe) -> None:
    """Trees are fitted in one go: there are some, in one epoch."""
    if not recipe.is_trees:
        raise InputError(f"trees is {recipe.trees}, and network {recipe.network!r} has none: it must be 0.")
    if not recipe.trees:
        raise InputError(f"trees is 0, and network {recipe.network!r} is made of them: give one at least.")
    given = f"epochs is {recipe.epochs} and optimizer {recipe.optimizer!r}"
    raise InputError(f"{given}: network {recipe.network!r} is fitted in one go, so that they must be 1 and 'sgd'.")


def _check_trees(lane: Lane, recipe: Recipe) -> None:
    """Trees take weights of examples: refuse what acts on logits, on steps or on epochs."""
    method = lane.value
    if recipe.network == "forest" and lane.lr not in (None, recipe.lr):
        raise _without_rate(lane, "a forest")
    reasons = {
        "teachers": lane.teaching,
        "several stages": method.then,
        "margins": method.margin,
        "a divisor of the logits": method.divisor,
        "focal loss": method.focal,
        f"a head {method.head!r}": method.head != "linear",
        "a loss of the features": method.level == "features",
        "dropout": method.dropout,
        "cycles of the learning rate": method.cycles,
        " and ".join(method.augment): method.augment,
        "a ramp over the epochs": not method.is_steady,
        f"to gather {lane.gather}": lane.gather,
    }
    if what := next((what for what, has in reasons.items() if has), None):
        takes = f"network {recipe.network!r} takes only weights of the examples"
        raise InputError(f"{lane.name!r} has {what}, and {takes}: choose another recipe.")


def _without_rate(lane: Lane, what: str) -> InputError:
    given = f"{lane.name!r} has the learning rate {lane.lr:g}, and {what} has none"
    networks = "for tables by the recipe 'features', for images with --backbone none"
    return InputError(f"{given}: leave the rate out, or train networks, {networks}.")


def _check_deterministic(lane: Lane, recipe: Recipe) -> None:
    """On full batches there is no learning rate, and nothing is gathered."""
    if lane.lr not in (None, recipe.lr):
        raise _without_rate(lane, "'lbfgs'")
    if lane.gather:
        raise InputError(
            f"lane {lane.name!r} gathers {lane.gather}, and 'lbfgs' takes no samples: give another recipe."
        )


def _check_full_batch(name: str, method: Method) -> None:
    """Refuse what is random, or acts on the learning rate or on features."""
    if method.level == "features":
        advice = "level must be 'logits'"
        raise InputError(f"method {name!r} has a loss of the features, and 'lbfgs' trains heads alone: {advice}.")
    reasons = {
        "distances to centroids that move from step to step": method.head == "rbf",
        "dropout": method.dropout,
        "cycles of the learning rate": method.cycles,
        " and ".join(method.augment): method.augment,
    }
    if what := next((what for what, has in reasons.items() if has), None):
        raise InputError(
            f"method {name!r} has {what}, and 'lbfgs' takes all examples as they are: choose another recipe."
        )
