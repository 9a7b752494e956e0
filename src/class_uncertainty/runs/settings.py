"""Settings: how a workflow trains, and where it keeps what it trained. They are checked before torch is imported."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, get_type_hints

from class_uncertainty.checks import check
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.runs.store import Store
from class_uncertainty.runs.watcher import Shown
from class_uncertainty.scale.targets import Shard, check_target
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.recipe import Recipe

if TYPE_CHECKING:
    from class_uncertainty.training.fit import Executor

F = TypeVar("F", bound=Callable[..., Any])


class Shared(TypedDict, total=False):
    """What every workflow takes beside its own arguments and a recipe, as `**settings: Unpack[Shared]`."""

    store: Store | str | Path | None
    device: str | None
    budget: float | Deadline | None
    progress: Shown
    profile: str | Path | None
    force: bool
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
    force: bool = False  # whether files may be replaced that the same call did not write
    on: "str | Executor | None" = None
    shard: str | None = None  # of the rows, if others train the rest
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
        return cls(recipe=recipe, shard=shard, retrain_older=retrain_older, **shared)

    def __post_init__(self) -> None:
        """Refuse what is wrong for any data."""
        check(Recipe | None, recipe=self.recipe)
        check(Store | Path | None, store=self.store)
        check(str | None, device=self.device)
        check(float | Deadline | None, budget=self.budget)
        check(Callable | bool | None, progress=self.progress)
        check(Path | None, profile=self.profile)
        check(bool, force=self.force)
        if not (hasattr(self.on, "train") and hasattr(self.on, "device")):  # an Executor, which needs torch
            check(str | None, on=self.on)
        check(bool, retrain_older=self.retrain_older)
        if self.store is None and self.budget is not None:
            raise InputError(
                "a budget is given and no store: give one, or what has been trained is lost when it is spent."
            )
        if isinstance(self.on, str):
            check_target(self.on, self.profile is not None, self.device)
        Shard.parse(self.shard)


def lists_shared(workflow: F) -> F:
    """Let the signature of a workflow list the keywords of Shared, for `help` and notebooks."""
    written = signature(workflow)
    own = [row for row in written.parameters.values() if row.kind is not Parameter.VAR_KEYWORD]
    defaults = Settings()
    shared = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(defaults, name), annotation=hint)
        for name, hint in HINTS.items()
    ]
    workflow.__signature__ = written.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return workflow
