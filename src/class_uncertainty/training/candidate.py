"""CANDIDATES: ways to train one network that `cu fix` chooses between, from the simple to the elaborate."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from class_uncertainty.checks import check_distinct, check_fields
from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.methods import named
from class_uncertainty.text import short
from class_uncertainty.training.folds import Fold
from class_uncertainty.training.lane import Lane, Teaching
from class_uncertainty.training.recipe import RECIPES, Recipe, check_lr, default_recipe, split_changes

COLOURS = 3  # channels


@dataclass(frozen=True)
class Candidate:
    """A way to train one network: a method, and what it changes in the recipe, or another recipe.

    Parameters
    ----------
    name : str
        METHOD?field=value&field=value: a method as `cu list methods` names it, then fields of the recipe. `rate` is a
        factor of the recipe's learning rate, and `recipe` names the recipe where it is not the one of all candidates.
    data : str
        What it is for: a key of SUITS, such as "any", "colour images", or "tables", whose recipe is "forest".

    Attributes
    ----------
    method : str
    rate : float
    changes : dict
        Fields of the recipe other than the learning rate.
    kind : str
        The recipe that it names; "" where that is the one of all candidates.

    Examples
    --------
    >>> candidate = cu.Candidate("balanced-softmax+mixup?rate=4&schedule=cosine")
    >>> candidate.method, candidate.rate, candidate.changes
    ('balanced-softmax+mixup', 4.0, {'schedule': 'cosine'})
    """

    name: str
    data: str = field(default="any", compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.data not in SUITS:
            raise unknown("data", self.data, SUITS)
        named(self.method)
        check_lr(self.rate)
        if "lr" in self.fields and "rate" in self.fields:
            raise InputError(f"{self.name!r} gives both lr and rate: one of them is enough.")
        if self.kind and self.kind not in RECIPES:
            raise unknown("recipe", self.kind, RECIPES)
        if "network" in self.fields:
            raise InputError(f"{self.name!r} changes the network: name another recipe, as in 'naive?recipe=forest'.")

    @cached_property
    def _parts(self) -> tuple[str, dict[str, Any]]:
        return split_changes("candidate", self.name, rate=float, recipe=str)

    @property
    def method(self) -> str:
        return self._parts[0]

    @property
    def fields(self) -> dict[str, Any]:
        """What stands behind the question mark."""
        return self._parts[1]

    @property
    def rate(self) -> float:
        """A factor of the recipe's learning rate."""
        return float(self.fields.get("rate", 1.0))

    @property
    def changes(self) -> dict[str, Any]:
        return {name: value for name, value in self.fields.items() if name not in ("rate", "lr", "recipe")}

    @property
    def kind(self) -> str:
        return str(self.fields.get("recipe", ""))

    @property
    def usual_tau(self) -> float:
        """The adjustment that its networks need: 1 where the method ignores the counts, 0 where it acts on them."""
        return 0.0 if any(stage.knobs for stage in named(self.method).stages) else 1.0

    @property
    def is_naive(self) -> bool:
        """Whether it is the naive method by the recipe, or one that it names, at any learning rate."""
        return self.method == "naive" and not self.changes

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe, or the one that it names, with what the candidate changes."""
        return dataclasses.replace(RECIPES.get(self.kind, recipe), **self.changes)

    def lr(self, recipe: Recipe) -> float:
        return float(self.fields.get("lr", self.rate * RECIPES.get(self.kind, recipe).lr))

    def lane(self, recipe: Recipe, seed: int, fold: Fold = None, teaching: Teaching | None = None) -> Lane:
        """One training of the candidate where the recipe without its changes is given."""
        return Lane(self.method, seed, self.lr(recipe), fold, teaching=teaching)

    def student(self, factor: float) -> "Candidate":
        """How a student of its networks trains: by their recipe at a factor of their rate, on plain images.

        Plain: cropped and mirrored as the recipe says, however strongly its teachers' images were augmented.
        """
        rate = {"lr": factor * self.fields["lr"]} if "lr" in self.fields else {"rate": factor * self.rate}
        fields = self.fields | rate
        return Candidate(f"naive?{'&'.join(f'{name}={_typed(value)}' for name, value in fields.items())}")

    def suits(self, data: Data, recipe: Recipe | None = None) -> bool:
        """Whether it is for these data and the recipe, by default theirs."""
        return SUITS[self.data](data, recipe or default_recipe(data))


def _typed(value: Any) -> str:
    """A field's value as it is typed behind the question mark."""
    if isinstance(value, tuple):
        return "/".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else short(value) if isinstance(value, float) else str(value)


def _has_colours(data: Data) -> bool:
    return data.is_images and data.shape[0] == COLOURS


SUITS: dict[str, Callable[[Data, Recipe], bool]] = {
    "any": lambda data, recipe: True,
    "any network": lambda data, recipe: not recipe.is_trees,
    "images or features": lambda data, recipe: not recipe.is_fitted,
    "colour images": lambda data, recipe: _has_colours(data),
    "grey images or features": lambda data, recipe: not _has_colours(data) and not recipe.is_fitted,
    "embeddings": lambda data, recipe: recipe.full_batch,
    "tables": lambda data, recipe: recipe.is_trees,
}
COSINE = "rate=2&schedule=cosine&weight_decay=5e-4&average=0.3"
# from the simple to the elaborate: of equals the first is kept, and few trainings try only the last
CANDIDATES: dict[str, Candidate] = {
    candidate.name: candidate
    for candidate in (
        Candidate("naive", "any network"),
        Candidate("naive?rate=4", "grey images or features"),
        Candidate("balanced-softmax", "grey images or features"),
        Candidate("ldam-rw", "any network"),
        Candidate("balanced-softmax?rate=4", "grey images or features"),
        Candidate(f"balanced-softmax?{COSINE}", "images or features"),
        Candidate(f"naive+autoaugment+cutout?{COSINE}", "colour images"),
        Candidate(f"balanced-softmax+autoaugment+cutout?{COSINE}", "colour images"),
        *(Candidate(f"cb-rs?weight_decay={decay}", "embeddings") for decay in ("0.1", "1")),
        *(Candidate(f"naive?weight_decay={decay}", "embeddings") for decay in ("0.001", "0.1", "0.3", "1")),
        Candidate("naive?recipe=logistic", "tables"),
        Candidate("naive?recipe=logistic&weight_decay=0.001", "tables"),
        Candidate("cb-rs?recipe=logistic", "tables"),
        Candidate("naive?recipe=forest", "tables"),
        Candidate("cb-rs?recipe=forest", "tables"),
        Candidate("naive?recipe=boosting", "tables"),
        Candidate("naive?recipe=boosting&trees=50&leaves=8", "tables"),
    )
}


def default_candidates(data: Data, recipe: Recipe | None = None) -> list[Candidate]:
    """The rows of CANDIDATES that suit the data and the recipe, by default theirs."""
    return [candidate for candidate in CANDIDATES.values() if candidate.suits(data, recipe)]


def find_candidates(given: Sequence[str | Candidate], data: Data, recipe: Recipe | None = None) -> list[Candidate]:
    """The candidates of these names; '+NAME' and '-NAME' add to the rows that suit the data, or remove one."""
    names = [row.name if isinstance(row, Candidate) else row for row in given]
    if not any(name[:1] in ("+", "-") for name in names):
        candidates = [Candidate(name) for name in names]
    else:
        candidates = _changed(names, default_candidates(data, recipe))
    check_distinct("candidate", [candidate.name for candidate in candidates])
    return candidates


def _changed(names: Iterable[str], candidates: list[Candidate]) -> list[Candidate]:
    for name in names:
        sign, rest = name[:1], name[1:]
        if sign not in ("+", "-"):
            raise InputError(f"candidate {name!r} has no sign, and others have: '+' adds a row and '-' removes one.")
        if sign == "+":
            candidates = [*candidates, Candidate(rest)]
        elif rest not in (present := [candidate.name for candidate in candidates]):
            raise unknown("candidate to remove", rest, present)
        else:
            candidates = [candidate for candidate in candidates if candidate.name != rest]
    if not candidates:
        raise InputError("no candidate is left: remove fewer.")
    return candidates
