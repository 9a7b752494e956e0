"""The options that commands share, and how what is typed into them is read."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from class_uncertainty.errors import InputError

if TYPE_CHECKING:
    from class_uncertainty.estimation import Asked

DATA = Annotated[
    str,
    typer.Argument(
        help="What to train on, as 'cu datasets' lists it, e.g. digits-lt:20 or folder:PATH.", metavar="DATA", show_default=False
    ),
]
STORE = Annotated[Path, typer.Option("--store", help="SQLite file of results; what is in it is not trained again.")]
EPOCHS = Annotated[int | None, typer.Option("--epochs", help="Passes over the data; the recipe's own if not given.", show_default=False)]
MEMBERS = Annotated[int, typer.Option("--members", help="Networks, folds or snapshots that measure uncertainty.")]
ESTIMATOR = Annotated[str, typer.Option("--estimator", help="How uncertainty is measured: a name from 'cu estimators'.")]
SCORE = Annotated[
    str | None,
    typer.Option(
        "--score", help="What counts as uncertain: a score from 'cu estimators'; the estimator's own if not given.", show_default=False
    ),
]
LRS = Annotated[str | None, typer.Option("--lrs", help="Learning rates, the same for every method or estimator.", show_default=False)]
RECIPE = Annotated[
    str | None, typer.Option("--recipe", help="images, features, bag-of-tricks or ldam-drw; by the data if not given.", show_default=False)
]
BUDGET = Annotated[
    str | None,
    typer.Option(
        "--budget", help="Stop at an epoch's end after this time, as 90s, 25m or 1h30m; the same command goes on.", show_default=False
    ),
]
PROFILE = Annotated[Path | None, typer.Option("--profile", help="Write a trace of one epoch, for chrome://tracing.", show_default=False)]
SAVE = Annotated[Path | None, typer.Option("--save", help="Where to write PATH.safetensors and PATH.json.", show_default=False)]
RUNS = Path("runs.sqlite")
MOST_SEEDS = 1000
ROOT = Annotated[
    Path | None, typer.Option("--root", help="The data folder; CLASS_UNCERTAINTY_DATA if not given.", metavar="FOLDER", show_default=False)
]
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def asked_for(estimator: str, members: int, score: str | None, lr: float | None = None) -> "Asked":
    """The estimate to measure with, once it is known to have that score."""
    from class_uncertainty.estimation import Asked

    asked = Asked(estimator, members, lr=lr)
    asked.check_score(score)
    return asked


def read_seeds(seeds: str) -> list[int]:
    """How many, or which."""
    numbers = split("seed", seeds, int)
    if len(numbers) > 1 or "," in seeds:
        return numbers
    if not 1 <= numbers[0] <= MOST_SEEDS:
        raise InputError(f"--seeds is {seeds}: it must be how many, from 1 to {MOST_SEEDS:,}, or which, as in 0,1,2.")
    return list(range(numbers[0]))


def known_method(name: str) -> str:
    """The name of a method or a remedy, whose row is known."""
    from class_uncertainty.errors import unknown
    from class_uncertainty.methods import METHODS
    from class_uncertainty.remedies.table import REMEDIES

    row = re.split(r"[@+*]", name, maxsplit=1)[0]
    if row not in METHODS and row not in REMEDIES:
        raise unknown("method", row, [*REMEDIES, *METHODS])
    return name


def read_rates(lrs: str | None) -> list[float | None]:
    """None: the recipe's."""
    return split("learning rate", lrs, float) if lrs is not None else [None]


def split(kind: str, text: str, parse: Callable[[str], Any]) -> list[Any]:
    """'a,b' as a list in which nothing repeats."""
    values = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            value = parse(part)
        except InputError:
            raise
        except ValueError:
            raise InputError(f"{kind} {part!r} is not a {'whole ' if parse is int else ''}number.") from None
        if value in values:
            raise InputError(f"{kind} {part} is given twice: each must be there once.")
        values.append(value)
    if not values:
        raise InputError(f"no {kind} is given: there must be one at least.")
    return values
