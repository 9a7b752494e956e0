"""Recipe: every constant of a training that does not depend on the method."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

from class_uncertainty.checks import check, check_field, check_fields, check_least, check_number
from class_uncertainty.data import Data
from class_uncertainty.data.spec import Reader, parse_options, read_options, read_text, reader
from class_uncertainty.errors import InputError, unknown

MAX_EPOCHS = 10**9
SCHEDULES = ("drops", "cosine")
OPTIMIZERS = ("sgd", "adamw", "lbfgs")
TREES = ("forest", "boosting")  # networks that scikit-learn fits
STEPS = ("network", "epochs", "batch", "optimizer", "schedule")  # fields that trees have no use for
# the smallest whole numbers that fields may have
LEAST = {"epochs": 1, "batch": 1, "crop": 0, "warmup": 0, "trees": 0, "leaf": 1, "leaves": 0}
POSITIVE = "a finite number above 0"
is_positive: Callable[[float], bool] = lambda value: 0 < value < math.inf  # noqa: E731
from_zero: Callable[[float], bool] = lambda value: 0 <= value < math.inf  # noqa: E731
check_lr = partial(check_number, "learning rate", allowed=POSITIVE, fine=is_positive)  # refuses a learning rate


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum, a warm-up, and a learning rate that drops at shares of the epochs or falls as a cosine.

    Parameters
    ----------
    network : str
        The network to train, a key of NETWORKS: "resnet32", "resnet32x4", "resnet18", "small-conv", "mlp", "linear",
        "forest" or "boosting"; one that `cu.register_network` has registered; or "efficientnet-lite0", "timm:NAME",
        "hf:FOLDER" or "PATH.py:FACTORY".
    epochs : int
        Passes over the training examples.
    batch : int
        Examples of a step.
    lr : float
        Learning rate after the warm-up. A lane may have its own.
    momentum, nesterov
        Momentum of SGD, and whether it is Nesterov's.
    weight_decay : float
        L2 penalty on every parameter.
    warmup, warmup_from
        Epochs in which the learning rate rises linearly, and the share of it at which they start.
    drops, drop
        Shares of the epochs at which the learning rate drops, and the factor of each drop.
    drop_last : bool
        Whether the last incomplete batch of an epoch is left out.
    crop : int
        Pixels of zero border for random crops; 0 for none.
    flip : bool
        Whether images are mirrored at random.
    schedule : str
        "drops", or "cosine": the learning rate falls by 0.5 (1 + cos(pi epoch / epochs)) and `drops` are not used.
        Later stages of a method that name their own drops keep them.
    average : float
        Share of the epochs, at the end, over which weights are averaged; 0 for none. The mean of the weights at the
        ends of these epochs replaces those of the last one, and batch statistics are computed anew for it, over one
        pass. Of several stages only the last one averages.
    optimizer : str
        "sgd"; "adamw", whose first beta is `momentum`, and whose decay is decoupled and spares biases and norms; or
        "lbfgs", which takes full batches, for the heads of the network "linear".
    pretrained : bool
        Whether the body starts from pretrained weights. Otherwise the seed of a lane initialises it.
    head_rate : float
        Learning rate of the head, as a factor of the body's.
    layer_decay : float
        Factor of the learning rate from one layer to the layer before it, from the head to the stem. Layers are the
        items of the network's outermost lists of modules.
    accumulate : int
        Parts of a batch that pass through the network one after the other, where it is too large for the memory.
    resized_crop : float
        Least share of an image that random crops show, scaled to the size that the network takes; 0 for none.
    jitter : float
        Largest change of brightness, contrast and saturation, from 0 to 1.
    trees : int
        Trees of the network "forest", rounds of "boosting"; 0 for others.
    leaf, leaves : int
        The fewest examples of a leaf, and the most leaves of a tree; 0 for any number.
    synchronised : bool
        Without effect, and always True: processes no longer share a batch.
    fingerprint : str
        Of the code and the weights of a network that is not the package's own. Training fills it in.

    Notes
    -----
    With "lbfgs" linear heads start at zero and train to convergence: logistic regression. An epoch is one trial step on
    all examples, `epochs` the most of them, and `batch` the examples that are in work at a time. The objective is the
    mean loss + weight_decay / 2 |W|^2, biases left out: weight_decay = 1 / (C N) of scikit-learn's LogisticRegression
    for N examples of standardised features. Learning rate, momentum and schedule have no meaning.

    Trees are fitted by scikit-learn in one go, which is one epoch. Boosting takes `lr` as its shrinkage and
    `weight_decay` as its L2 penalty; the other fields have no meaning for trees.

    Examples
    --------
    >>> recipe = cu.Recipe("mlp", epochs=10, batch=32, drops=(0.5,), warmup=0)
    >>> [round(recipe.factor(epoch), 3) for epoch in (0, 4, 5)]
    [1.0, 1.0, 0.1]
    """

    network: str
    epochs: int
    batch: int
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 2e-4
    warmup: int = 5
    warmup_from: float = 1 / 3
    drops: tuple[float, ...] = (0.8, 0.9)
    drop: float = 0.1
    drop_last: bool = True
    crop: int = 0
    flip: bool = False
    schedule: str = "drops"
    average: float = 0.0
    optimizer: str = "sgd"
    pretrained: bool = False
    head_rate: float = 1.0
    layer_decay: float = 1.0
    accumulate: int = 1
    resized_crop: float = 0.0
    jitter: float = 0.0
    trees: int = 0
    leaf: int = 1
    leaves: int = 0
    synchronised: bool = True  # kept, since stored results have it and keys hash it
    fingerprint: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        for field, least in LEAST.items():
            check_least(field, getattr(self, field), least)
        check_field(self, "epochs", f"a whole number from 1 to {MAX_EPOCHS:,}", lambda epochs: epochs <= MAX_EPOCHS)
        for field in ("momentum", "weight_decay", "warmup_from", "drop"):
            check_field(self, field, "a finite number from 0", from_zero)
        if not all(0 < share <= 1 for share in self.drops):
            raise InputError(f"drops is {self.drops}: it must be shares of the epochs above 0, and 1 at most.")
        check_lr(self.lr)
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        if self.optimizer not in OPTIMIZERS:
            raise unknown("optimizer", self.optimizer, OPTIMIZERS)
        for field in ("average", "resized_crop", "jitter"):
            check_field(self, field, "a share from 0 to 1", lambda share: 0 <= share <= 1)
        check_field(self, "head_rate", "a finite number above 0", lambda rate: 0 < rate < math.inf)
        check_field(self, "layer_decay", "a number above 0, and 1 at most", lambda decay: 0 < decay <= 1)
        check_field(self, "accumulate", f"a divisor of the batch, {self.batch}", lambda n: n > 0 and not self.batch % n)

    def factor(self, epoch: int) -> float:
        """The factor on the learning rate in `epoch` (from 0)."""
        warm = min((epoch + 1) / self.warmup, 1.0) if self.warmup else 1.0
        rising = self.warmup_from + (1 - self.warmup_from) * warm
        if self.schedule == "cosine":
            return rising * 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))
        return rising * self.drop ** sum(epoch >= start for start in self.dropped)

    def cut(self, epochs: int) -> "Recipe":
        """The same training up to that epoch, before weights are averaged. A cosine is a whole one in fewer epochs."""
        check(int, epochs=epochs)
        drops = tuple(epoch / epochs for epoch in self.dropped if epoch < epochs)
        return dataclasses.replace(self, epochs=epochs, drops=drops, average=0.0)

    def before_drop(self) -> "Recipe":
        """The same training up to the first drop of the learning rate; the whole of it where there is none."""
        return self.cut(min(self.dropped)) if self.dropped else self

    @property
    def full_batch(self) -> bool:
        """Whether a step takes all examples."""
        return self.optimizer == "lbfgs"

    @property
    def has_rate(self) -> bool:
        """Whether a learning rate changes anything: not for forests, nor for heads that train to convergence."""
        return not self.full_batch and self.network != "forest"

    @property
    def is_trees(self) -> bool:
        """Whether scikit-learn fits it, in one go."""
        return self.network in TREES

    @property
    def noun(self) -> str:
        """What it trains, as a word: trees are not called networks."""
        return "model" if self.is_trees else "network"

    @property
    def is_fitted(self) -> bool:
        """Whether lanes are fitted one by one, with nothing left to train: heads on full batches, and trees."""
        return self.optimizer == "lbfgs" or self.network in TREES

    @property
    def measured_by(self) -> str:
        """The usual estimator of uncertainty. Heads on full batches are all the same, and trees know their examples."""
        return "out-of-fold" if self.is_fitted else "ensemble"

    @property
    def dropped(self) -> list[int]:
        """The epochs, from 0, in which the learning rate drops; never the first, and none of a cosine."""
        return [max(1, round(share * self.epochs)) for share in self.drops] if self.schedule == "drops" else []

    @property
    def part(self) -> int:
        """Examples that pass through the network at a time."""
        return self.batch // self.accumulate

    @property
    def averaged(self) -> int:
        """The number of epochs, at the end, over which weights are averaged."""
        return max(1, round(self.average * self.epochs)) if self.average else 0

    def cycle_ends(self, cycles: int) -> list[int]:
        """After how many epochs each cycle ends; a cycle has one epoch at least."""
        cycles = min(cycles, self.epochs)
        return [round((i + 1) * self.epochs / cycles) for i in range(cycles)]


_RESNET: dict[str, Any] = {"network": "resnet32", "epochs": 200, "batch": 128, "drop": 0.01, "crop": 4, "flip": True}
_FITTED: dict[str, Any] = {"batch": 1024, "warmup": 0, "drops": (), "drop_last": False}
_LOGISTIC: dict[str, Any] = _FITTED | {"network": "linear", "epochs": 200, "weight_decay": 0.01, "optimizer": "lbfgs"}
_TREES: dict[str, Any] = _FITTED | {"epochs": 1, "trees": 100}
RECIPES: dict[str, Recipe] = {
    "images": Recipe("small-conv", epochs=40, batch=32, crop=1),
    "features": Recipe("mlp", epochs=40, batch=32),
    "embeddings": Recipe(**_LOGISTIC),
    "logistic": Recipe(**_LOGISTIC),
    "forest": Recipe("forest", **_TREES, leaf=5),
    "boosting": Recipe("boosting", **_TREES, leaf=20, leaves=31, weight_decay=0),
    # Bag-of-Tricks steps its schedule before the epoch: the 160th and the 180th are the first with a lower rate
    "bag-of-tricks": Recipe(**_RESNET, drops=(159 / 200, 179 / 200)),
    "ldam-drw": Recipe(**_RESNET, nesterov=False, warmup_from=0, drop_last=False),
    "fine-tune": Recipe(
        "efficientnet-lite0",
        epochs=10,
        batch=32,
        lr=2e-4,
        head_rate=10,
        optimizer="adamw",
        weight_decay=0.05,
        schedule="cosine",
        warmup=1,
        warmup_from=0.1,
        resized_crop=0.25,
        flip=True,
        drop_last=False,
        pretrained=True,
    ),
    # OLTR's first stage on Places-LT: SGD at 0.001 for the body and 0.1 for the head, divided by 10 every 10 epochs
    "oltr": Recipe(
        "timm:resnet152",
        epochs=30,
        batch=128,
        lr=0.001,
        head_rate=100,
        nesterov=False,
        weight_decay=5e-4,
        warmup=0,
        drops=(1 / 3, 2 / 3),
        resized_crop=0.08,
        flip=True,
        jitter=0.4,
        drop_last=False,
        pretrained=True,
    ),
}


def default_recipe(data: Data, name: str | None = None, **changes: Any) -> Recipe:
    """The recipe of that name, or the one for images, embeddings, tables or features, with fields changed (None: not).

    Whoever changes the network or the epochs of a table's recipe means a network.
    """
    if name is not None and name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    usual = "images" if data.is_images else "embeddings" if data.embedding else "features"
    if data.encoding and not data.is_images and not any(changes.get(field) for field in STEPS):
        usual = "forest"  # a table
    recipe = RECIPES[name or usual]
    return dataclasses.replace(recipe, **{field: value for field, value in changes.items() if value is not None})


NO_DROPS = "none"


def _drops(text: str) -> tuple[float, ...]:
    return () if text == NO_DROPS else tuple(map(float, text.split("/")))


# how the text of a field is read, by its type
READERS: dict[Any, Reader] = {
    str: read_text,
    int: reader(int, "a whole number"),
    float: reader(float, "a number"),
    bool: reader({"true": True, "false": False}.__getitem__, "true or false"),
    tuple[float, ...]: reader(_drops, f"shares of the epochs such as 0.8/0.9, or {NO_DROPS!r}"),
}


def split_changes(kind: str, text: str, **more: type) -> tuple[str, dict[str, Any]]:
    """The name before '?', and the changes of a recipe after it: 'schedule=cosine&drops=0.8/0.9'.

    `more` fields than those of a recipe have these types.
    """
    name, mark, query = text.partition("?")  # the first one: the name of a network may have another
    if not mark:
        return name, {}
    types = get_type_hints(Recipe) | more
    readers = {field: READERS[types[field]] for field in types}
    changes = read_options("a recipe", parse_options(kind, text, query), readers)
    of_recipe = {field: value for field, value in changes.items() if field not in more}
    dataclasses.replace(next(iter(RECIPES.values())), **of_recipe)  # refuses values that no recipe has
    return name, changes


def parse_recipe(text: str) -> tuple[str | None, dict[str, Any]]:
    """The name of a recipe, None where the data's own is meant, and its changes: '?schedule=cosine&average=0.25'."""
    name, changes = split_changes("recipe", text)
    if name and name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    if not text:
        raise InputError(f"no recipe is given: there are {', '.join(RECIPES)}.")
    return name or None, changes
