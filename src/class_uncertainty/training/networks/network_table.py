"""NETWORKS: the bodies that a recipe can train, those that users register included, and how others are found."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import nn

from class_uncertainty.checks import check
from class_uncertainty.data.examples import Embedding
from class_uncertainty.data.spec import LITE0, names_backbone
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.training.networks.backbones import IMAGENET_SIDE, build
from class_uncertainty.training.networks.bodies import identity, mlp, resnet18, resnet32, resnet32x4, small_conv
from class_uncertainty.training.networks.custom_network import OwnNetwork, factory_code
from class_uncertainty.training.networks.layers import WIDEST
from class_uncertainty.training.networks.network_name import NetworkName, parse_network
from class_uncertainty.training.networks.preprocessing import checked_preprocessing
from class_uncertainty.training.networks.pretrained import Built, call_factory, find_factory, load_weights
from class_uncertainty.training.networks.user_code import trust, trusted_code
from class_uncertainty.training.recipe import Recipe

Shape = tuple[int, ...]  # of one input
STACKS = ("loop", "vmap")


@dataclass(frozen=True)
class Network:
    """A body and the number of its features.

    `width` lanes train as one stack on a CPU. It is a constant, as a convolution with another number of groups may
    give a lane other bits. On a GPU a stack has at most `widest`, and fewer where they do not fit.
    """

    about: str
    body: Callable[..., nn.Module]  # (shape, lanes)
    features: Callable[[Shape], int]
    images: bool | None  # None: whatever its factory takes
    width: int
    large: bool = False  # too large for a CPU to gain from stacking, and large enough to gain from compiling
    widest: int = WIDEST
    own: OwnNetwork | None = None  # of a user or of another package

    @property
    def size(self) -> int | None:
        """Pixels a side of the images that it takes; None where it takes those of the data."""
        return self.own.size if self.own else None


WIDE = 16  # lanes of a wide network: their activations take as much memory as those of WIDEST lanes of resnet32
NETWORKS: dict[str, Network] = {
    "resnet32": Network("ResNet-32 of the paper, for 32 x 32 images", resnet32, lambda shape: 64, True, 1, large=True),
    "resnet32x4": Network(
        "ResNet-32 with four times the channels, as GLMC and SURE have it",
        resnet32x4,
        lambda shape: 256,
        True,
        1,
        large=True,
        widest=WIDE,
    ),
    "resnet18": Network(
        "ResNet-18 with a 3 x 3 stem, for images of 32 to 64 pixels",
        resnet18,
        lambda shape: 512,
        True,
        1,
        large=True,
        widest=WIDE,
    ),
    "small-conv": Network("three small convolutions, for small images", small_conv, lambda shape: 32, True, width=5),
    "mlp": Network("one hidden layer of 64, for features and tables", mlp, lambda shape: 64, False, width=10),
    "linear": Network("a linear classifier of features", identity, lambda shape: shape[0], False, width=10),
    "forest": Network("a random forest, fitted by scikit-learn", identity, lambda shape: shape[0], False, width=1),
    "boosting": Network("boosted trees, fitted by scikit-learn", identity, lambda shape: shape[0], False, width=1),
}
BUILT_IN = tuple(NETWORKS)


def register_network(
    name: str, factory: Callable[[], Any], preprocess: Mapping[str, Any] | None = None, stack: str = "loop"
) -> None:
    """Let recipes train a network of yours under a name, as Recipe(name, ...) or `--network`.

    Parameters
    ----------
    name : str
        The name. A network that was registered under it before is replaced.
    factory : callable
        Takes nothing and returns a torch.nn.Module from images or features to features (B, D), or to maps (B, D, h, w),
        which are averaged. The package adds its own head.
    preprocess : dict, optional
        `size` in pixels, `mean` and `std` (one number a channel, for pixels from 0 to 1), as far as the network needs
        them; the data's own size and statistics where they are not given.
    stack : str
        How lanes train on a GPU: "loop", one after the other, or "vmap", together. vmap cannot stack networks that
        draw random numbers or branch on their data. On a CPU they always train one after the other.

    Returns
    -------
    None

    Examples
    --------
    >>> from torch import nn
    >>> cu.register_network("two-layers", lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16)))
    >>> data = cu.Data([[0.1] * 64, [0.3] * 64, [0.2] * 64, [0.5] * 64], ["cat", "dog", "cat", "dog"])
    >>> fitted = cu.fit(data, [cu.Lane("naive")], recipe=cu.Recipe("two-layers", epochs=1, batch=4))
    >>> fitted.module(0).head
    Linear(in_features=16, out_features=2, bias=True)
    """
    check(str, name=name, stack=stack)
    check(Callable, factory=factory)
    check(dict | None, preprocess=preprocess)
    if name in BUILT_IN or name == LITE0:
        raise InputError(f"network {name!r} is the package's own: register yours under another name.")
    if not name or not name.isprintable() or set(name) & set(":?&=,/ "):
        raise InputError(f"{name!r} cannot name a network: it must have no blank, colon, slash, '?', '&', '=' or ','.")
    if stack not in STACKS:
        raise unknown("stack", stack, STACKS)
    given = checked_preprocessing(f"network {name!r}", preprocess or {})

    def make(pretrained: bool) -> Built:
        module, returned = call_factory(f"the factory of network {name!r}", factory)
        return module, given or returned, factory_code(factory, module)

    own = OwnNetwork(name, make, stack, is_factory=True)
    own.built  # noqa: B018  # refuses a factory that does not work
    NETWORKS[name] = _row(own, "registered here")


def find_network(name: str) -> Network:
    """The row of that name, or one for a network of timm, Transformers or a user's file."""
    if name in NETWORKS:
        return NETWORKS[name]
    parsed = parse_network("network", name, NETWORKS)
    return _row_of(parsed, _identity(parsed))


@lru_cache(maxsize=16)
def _row_of(name: NetworkName, identity: bytes) -> Network:
    given_size = {"size": name.size} if name.size else {}
    if not name.is_code:
        defaults = {"size": IMAGENET_SIDE, "mean": Embedding.mean, "std": Embedding.std}

        def make(pretrained: bool) -> Built:
            module, given, code = build(name, pretrained)
            return module, defaults | given | given_size, code

        return _row(OwnNetwork(name.text, make, is_replayable=name.source == LITE0), "pretrained")
    call, code = find_factory(Path(name.source), name.argument)

    def from_own_file(pretrained: bool) -> Built:
        module, given = call_factory(f"{name.argument}() of {name.source}", call)
        if pretrained and name.weights:
            load_weights(module, name.weights)
        return module, given | given_size, code

    return _row(OwnNetwork(name.text, from_own_file, is_factory=not name.weights), "of a file")


def _identity(name: NetworkName) -> bytes:
    """What tells whether a user's file, a folder or a file of weights is still the one that was read."""
    code = trusted_code(Path(name.source), name.argument) if name.is_code else b""
    files: list[Path] = []
    if name.source == "hf" and Path(name.argument).is_dir():
        files = sorted(Path(name.argument).iterdir())
    if name.weights:
        files.append(name.weights)
    stats = [(str(file), file.stat()) for file in files if file.is_file()]
    return code + repr([(path, stat.st_size, stat.st_mtime_ns, stat.st_ino) for path, stat in stats]).encode()


def _row(own: OwnNetwork, about: str) -> Network:
    widest = WIDE if own.stack == "vmap" else 1
    return Network(about, own.body, own.features, None, width=1, widest=widest, own=own)


def sealed(recipe: Recipe) -> Recipe:
    """The recipe with the fingerprint of its network, where that is not the package's own: keys then tell it apart.

    The user names the network by it, unless it was sealed before.
    """
    if not recipe.fingerprint:
        trust(recipe.network)
    return sealed_as_named(recipe)


def sealed_as_named(recipe: Recipe) -> Recipe:
    """Likewise, where the user named the network before."""
    own = find_network(recipe.network).own
    if recipe.pretrained and not own:
        advice = "leave out --pretrained (in Python pretrained=True), or give another network"
        raise InputError(f"network {recipe.network!r} has no pretrained weights: {advice}.")
    names_weights = names_backbone(recipe.network) and parse_network("network", recipe.network).weights
    if names_weights and not recipe.pretrained:
        advice = "give --pretrained (in Python pretrained=True), which starts from them"
        raise InputError(f"network {recipe.network!r} names weights: {advice}.")
    fingerprint = own.fingerprint(recipe.pretrained) if own else ""
    if recipe.fingerprint not in ("", fingerprint):
        both = f"its fingerprint is {fingerprint or 'none'}, and the recipe has {recipe.fingerprint}"
        raise InputError(f"network {recipe.network!r} is not the one of the recipe: {both}.")
    return dataclasses.replace(recipe, fingerprint=fingerprint)
