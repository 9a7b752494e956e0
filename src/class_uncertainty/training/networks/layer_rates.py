"""How the learning rate differs from layer to layer: a factor for the head, and one for each layer before it."""

from collections.abc import Sequence
from itertools import takewhile

from class_uncertainty.training.recipe import Recipe

HEAD, BODY = "head.", "body."


def rate_factors(names: Sequence[str], recipe: Recipe) -> list[float]:
    """A factor of the learning rate for each parameter, by its name."""
    layers = layers_of([name for name in names if name.startswith(BODY)])
    before_head = {name: len(set(layers.values())) - place for name, place in layers.items()}
    factors = {name: recipe.layer_decay**number for name, number in before_head.items()}
    return [recipe.head_rate if name.startswith(HEAD) else factors.get(name, 1.0) for name in names]


def layers_of(names: Sequence[str]) -> dict[str, int]:
    """The layer of each parameter, counted from the stem, in the order of the names.

    A layer is an item of the outermost list of modules, as '3' in 'blocks.3.norm.weight', or what has a name of its own
    outside of such lists, as 'stem'.
    """
    paths = [name.split(".") for name in names]
    columns = zip(*(path[:-1] for path in paths), strict=False)
    shared = len(list(takewhile(lambda parts: len(set(parts)) == 1, columns)))
    if paths and shared and paths[0][shared - 1].isdecimal():
        shared -= 1  # a list of one item is a list all the same
    layers: dict[tuple[str, ...], int] = {}
    places = {}
    for name, path in zip(names, paths, strict=True):
        rest = path[shared:-1]
        number = next((i for i, part in enumerate(rest) if part.isdecimal()), 0)
        places[name] = layers.setdefault(tuple(rest[: number + 1]), len(layers))
    return places
