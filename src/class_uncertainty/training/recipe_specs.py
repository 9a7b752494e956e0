"""Recipes by name, with changes: 'bag-of-tricks?schedule=cosine&average=0.25'; without a name, of the data's recipe."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_type_hints

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.training.recipe import RECIPES, Recipe

TRUTHS = {"true": True, "false": False}
NO_DROPS = "none"
NO_MORE: Mapping[str, type] = MappingProxyType({})


def _drops(text: str) -> tuple[float, ...]:
    return () if text == NO_DROPS else tuple(map(float, text.split("/")))


# how the value of a field is read, by its type, and what is allowed
READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    str: (str, "text"),
    int: (int, "a whole number"),
    float: (float, "a number"),
    bool: (TRUTHS.__getitem__, "true or false"),
    tuple[float, ...]: (_drops, f"shares of the epochs such as 0.8/0.9, or {NO_DROPS!r}"),
}


def split_changes(spec: str, more: Mapping[str, type] = NO_MORE) -> tuple[str, dict[str, Any]]:
    """The name before '?', and the changes of a recipe after it; no '?', no changes."""
    name, mark, changes = spec.partition("?")
    return name, parse_changes(changes, more) if mark else {}


def parse_changes(text: str, more: Mapping[str, type] = NO_MORE) -> dict[str, Any]:
    """'schedule=cosine&drops=0.8/0.9' as fields of a recipe with their values; `more` fields have these types."""
    kinds, changes = get_type_hints(Recipe) | dict(more), dict[str, Any]()
    for pair in text.split("&"):
        field, mark, value = pair.partition("=")
        if not mark or not value:
            raise InputError(f"{pair!r} changes no field of a recipe: write FIELD=VALUE, as in 'schedule=cosine'.")
        if field not in kinds:
            raise unknown("field of a recipe", field, kinds)
        if field in changes:
            raise InputError(f"{field} is given twice in {text!r}: give it once.")
        read, allowed = READERS[kinds[field]]
        try:
            changes[field] = read(value)
        except (ValueError, KeyError):
            raise InputError(f"{field} is {value!r}: it must be {allowed}.") from None
    of_recipe = {field: value for field, value in changes.items() if field not in more}
    dataclasses.replace(next(iter(RECIPES.values())), **of_recipe)  # refuses values that no recipe has
    return changes


def parse_recipe(spec: str) -> tuple[str | None, dict[str, Any]]:
    """The name of a recipe, None where the data's own is meant, and its changes."""
    name, changes = split_changes(spec)
    if name and name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    if not name and not changes:
        raise InputError(f"no recipe is given: there are {', '.join(RECIPES)}.")
    return name or None, changes
