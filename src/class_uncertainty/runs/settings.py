"""Settings: how a workflow trains, and where it keeps what it trained. They are checked before torch is imported."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, get_type_hints

from class_uncertainty.boundary import WRONG, kind_of
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.runs.place import check_place
from class_uncertainty.runs.shard import Shard
from class_uncertainty.runs.store import Store
from class_uncertainty.runs.watcher import Shown
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.values import shortly

if TYPE_CHECKING:
    from class_uncertainty.training.executor import Executor

F = TypeVar("F", bound=Callable[..., Any])


class Shared(TypedDict, total=False):
    """What every workflow takes beside its own arguments and a recipe, as `**settings: Unpack[Shared]`."""

    store: Store | str | Path | None
    device: str | None
    budget: float | Deadline | None
    progress: Shown
    profile: str | Path | None
    on: str | None


HINTS = get_type_hints(Shared)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a workflow trains, and where it keeps what it trained; for any data."""

    recipe: Recipe | None = None
    store: Store | str | Path | None = None
    device: str | None = None
    budget: float | Deadline | None = None
    progress: Shown = None
    profile: str | Path | None = None
    on: "str | Executor | None" = None
    shard: Shard | None = None  # of the rows, if others train the rest
    retrain_older: bool = False  # whether results of older revisions count as missing

    @classmethod
    def of(
        cls,
        workflow: Callable[..., Any],
        shared: Shared,
        recipe: Recipe | None,
        shard: str | None = None,
        retrain_older: bool = False,
    ) -> "Settings":
        """The settings of a call; a keyword that the workflow does not take is refused with the nearest."""
        call = f"{workflow.__name__}()"
        for name in shared:
            if name in Recipe.__dataclass_fields__:
                example = "recipe=Recipe('mlp', epochs=40, batch=32)"
                raise InputError(f"{call} has no argument {name!r}: it is part of recipe, as in {example}.")
            if name not in HINTS:
                raise unknown(f"argument of {call}", name, signature(workflow).parameters)
        return cls(recipe=recipe, shard=Shard.parse(shard), retrain_older=retrain_older, **shared)

    def __post_init__(self) -> None:
        """Refuse what is wrong for any data."""
        for name, hint in HINTS.items():
            value = getattr(self, name)
            is_executor = name == "on" and hasattr(value, "train")
            if kind_of(hint).take(value) is WRONG and not is_executor:
                raise InputError(f"{name} is {shortly(value)}: it must be {kind_of(hint).words}.")
        if self.store is None and self.budget is not None:
            raise InputError(
                "a budget is given and no store: give one, or what has been trained is lost when it is spent."
            )
        if isinstance(self.on, str):
            check_place(self.on, self.profile is not None, self.device)


def lists_shared(workflow: F) -> F:
    """Let the signature of a workflow list the keywords of Shared, for `help` and notebooks."""
    written = signature(workflow)
    own = [row for row in written.parameters.values() if row.kind is not Parameter.VAR_KEYWORD]
    shared = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint) for name, hint in HINTS.items()]
    workflow.__signature__ = written.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return workflow
