"""The options that commands share, and how what is typed into them is read.

The file that a command is for is --out. Others are named after what they hold: --save for a model or an audit,
--report for a page, --profile, --store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from class_uncertainty.checks import check_distinct
from class_uncertainty.data.examples import VIEWS as VIEWS_RANGE
from class_uncertainty.data.spec import with_options
from class_uncertainty.errors import InputError
from class_uncertainty.estimation.estimators import MAX_MEMBERS
from class_uncertainty.runs.comparison import MAX_SEEDS, check_seeds
from class_uncertainty.text import tell
from class_uncertainty.training.recipe import MAX_EPOCHS, POSITIVE, check_lr, is_positive

N = TypeVar("N", int, float)


def optional(about: str, metavar: str | None = None, *names: str) -> Any:
    """An option without a default worth showing, by the parameter's name or others."""
    return typer.Option(*names, help=about, metavar=metavar, show_default=False)


def whole(option: str, about: str, least: int, most: int, shown: bool = False) -> Any:
    """An option that is a whole number from the least to the most."""
    allowed = f"a whole number from {least} to {most:,}"
    return _numeric(option, int, about, allowed, lambda number: least <= number <= most, shown)


def positive(option: str, about: str) -> Any:
    """An option that is a finite number above 0."""
    return _numeric(option, float, about, POSITIVE, is_positive)


def _numeric(
    option: str, kind: type[N], about: str, allowed: str, fine: Callable[[N], bool], shown: bool = False
) -> Any:
    """An option that is a number; anything else, and one that is not fine, ends the command with one sentence."""

    def read(text: str) -> N:
        try:
            number, given = kind(text), text
        except ValueError:
            number, given = None, repr(text)
        if number is not None and fine(number):
            return number
        tell(f"{option} is {given}: it must be {allowed}.")
        raise typer.Exit(2)  # typer would put words of its own around an InputError

    return typer.Option(help=about, metavar="NUMBER", show_default=shown, parser=read)


def elsewhere(*names: str, instead: str, **words: str) -> Any:
    """An option of other commands, which this one takes as part of another: it is refused, with what to write.

    That is `instead` and the value, or for a word what `words` says.
    """

    def refuse(text: str) -> None:
        tell(f"there is no {names[0]} here: write {words.get(text, instead + text)}.")
        raise typer.Exit(2)

    return typer.Option(*names, hidden=True, parser=refuse)


def argument(about: str, metavar: str) -> Any:
    return typer.Argument(help=about, metavar=metavar, show_default=False)


DATA = Annotated[
    str, argument("A folder of images, a .csv, .parquet or .npz file, or a name from 'cu list data'.", "DATA")
]
MEMBERS = Annotated[int, whole("--members", "Networks that measure uncertainty.", 1, MAX_MEMBERS, shown=True)]
ESTIMATOR = Annotated[
    str | None, optional("A name from 'cu list estimators'; by default ensemble, or out-of-fold for embeddings.")
]
SCORE = Annotated[str | None, optional("Formula for the uncertainty; by default the estimator's own.")]
LRS = Annotated[str | None, optional("Learning rates, the same for every method or estimator.")]
EXCEL_SAFE = Annotated[
    bool, typer.Option("--excel-safe", help="Put an apostrophe before CSV text that a spreadsheet would run.")
]
SAVE = Annotated[Path | None, optional("Write the model to PATH.safetensors and PATH.json.", "PATH")]
TRUST_CODE = Annotated[
    bool, typer.Option("--trust-code", help="Run the PATH.py that the model names, if it has not changed.")
]
PAGE = Annotated[Path | None, optional("An HTML page of the result.", "PAGE.html", "--report")]
EMBED_WEIGHTS = Annotated[bool, typer.Option("--embed-weights", help="Save the weights of the backbone too.")]
FORCE = Annotated[
    bool, typer.Option("--force", help="Replace files even if they were edited or written for something else.")
]
ROOT = Annotated[Path | None, optional("The data folder; by default CLASS_UNCERTAINTY_DATA.", "FOLDER")]
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
VERBOSE = Annotated[bool, typer.Option("--verbose", help="Also print how the result was found.")]
QUIET = Annotated[bool, typer.Option("--quiet", help="Print only the last block.")]
EXPLAIN = Annotated[bool, typer.Option("--explain", help="Define every column and word that was printed.")]


RUNS = Path("runs.sqlite")

# which of the shared options a command has
COLUMNS = ("label", "test", "group", "drop", "missing")
SAID = ("verbose", "quiet", "explain")
STORED = ("root", "store", "as_json")
TRAINING = (
    "epochs",
    "recipe",
    "backbone",
    "views",
    "network",
    "pretrained",
    "budget",
    "profile",
    "force",
    *SAID,
    *STORED,
)
PLACE = ("on", "device")
ROWS = ("shard", "retrain_older")


@dataclass(frozen=True, kw_only=True)
class Command:
    """The options that commands share, as they were typed; at their defaults where a command lacks them."""

    label: Annotated[str | None, optional("The column of classes of a table; by default label.", "COLUMN")] = None
    test: Annotated[
        str | None, optional("Test split: a file, or a share such as 0.2; by default five folds.", "FILE|SHARE")
    ] = None
    group: Annotated[
        str | None, optional("The column of groups, such as patients, that no split may divide.", "COLUMN")
    ] = None
    drop: Annotated[str | None, optional("Columns to leave out, such as id,name.", "COLUMNS")] = None
    missing: Annotated[
        str | None, optional("Missing values: fill (the default), drop (the row) or refuse.", "POLICY")
    ] = None
    epochs: Annotated[
        int | None, whole("--epochs", "Passes over the data; by default the recipe's.", 1, MAX_EPOCHS)
    ] = None
    recipe: Annotated[
        str | None,
        optional(
            "images, bag-of-tricks, ldam-drw, fine-tune, oltr, embeddings, features, forest, boosting or logistic, "
            "with changes such as ?schedule=cosine; by default the data's own."
        ),
    ] = None
    backbone: Annotated[
        str | None,
        optional(
            "Network that computes image features: efficientnet-lite0, timm:NAME, hf:FOLDER, PATH.py:FACTORY or none."
        ),
    ] = None
    views: Annotated[int | None, whole("--views", "Views of an image to average features over.", *VIEWS_RANGE)] = None
    network: Annotated[
        str | None, optional("A name from 'cu list networks', timm:NAME, hf:FOLDER or PATH.py:FACTORY.", "NAME")
    ] = None
    pretrained: Annotated[bool, typer.Option("--pretrained", help="Start from pretrained weights.")] = False
    budget: Annotated[str | None, optional("Stop after 90s, 25m or 1h30m; the same command resumes.", "TIME")] = None
    on: Annotated[
        str | None, optional("Train on Ray: ray (this machine), auto (its cluster) or ray://HOST:10001.", "PLACE")
    ] = None
    device: Annotated[str | None, optional("Device to train on; by default the fastest.", "cpu|cuda|mps")] = None
    shard: Annotated[
        str | None, optional("Train the i-th of n parts; 'cu results export' and 'import' join them.", "i/n")
    ] = None
    retrain_older: Annotated[
        bool, typer.Option("--retrain-older", help="Train results of older revisions of a method again.")
    ] = False
    profile: Annotated[Path | None, optional("Write a trace of one epoch, for chrome://tracing.", "FILE")] = None
    force: FORCE = False
    verbose: VERBOSE = False
    quiet: QUIET = False
    explain: EXPLAIN = False
    root: ROOT = None
    store: Annotated[
        Path, typer.Option(metavar="FILE", help="Store of results; stored results are not trained again.")
    ] = RUNS
    as_json: JSON = False


def shared(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the shared options of these names, behind its own, in the place of its parameter `command`."""

    def give(function: Callable[..., None]) -> Callable[..., None]:
        own = [option for option in signature(function).parameters.values() if option.name != "command"]
        given = [option for option in signature(Command).parameters.values() if option.name in names]

        @wraps(function)
        def call(**typed: Any) -> None:
            command = Command(**{name: typed.pop(name) for name in names})
            if COLUMNS[0] in names:
                given = {name: getattr(command, name) for name in COLUMNS if getattr(command, name) is not None}
                typed["data"] = with_options(typed["data"], given)
            function(command=command, **typed)

        call.__signature__ = Signature([*own, *given])  # type: ignore[attr-defined]
        return call

    return give


def check_estimate(estimator: str | None, members: int, score: str | None, lr: float | None = None) -> None:
    """Refuse, before any data are read, an estimator or a score that there is not."""
    from class_uncertainty.estimation import EstimateRequest

    EstimateRequest.usual(estimator, members, lr).check_score(score)


def check_fix(goal: str, deploy: str | None) -> None:
    """Refuse, before torch is imported, a goal that there is not, and something to deploy that there is not."""
    from class_uncertainty.posthoc.goal import check_goal
    from class_uncertainty.workflows.fix_plan import check_deploy

    check_goal(goal)
    check_deploy(deploy)


def check_method(name: str) -> str:
    """The name, once it is known to be a method's or a remedy's."""
    from class_uncertainty.errors import unknown
    from class_uncertainty.methods import METHODS, named, parse_name
    from class_uncertainty.posthoc.remedies import REMEDIES, find_remedy

    row = parse_name(name).row
    if row not in METHODS and row not in REMEDIES:
        raise unknown("method", row, [*REMEDIES, *METHODS], listing="'cu list methods' and 'cu list remedies' list all")
    if not find_remedy(name):
        named(name)
    return name


def read_seeds(seeds: str) -> list[int]:
    """How many, or which."""
    numbers = split("seed", seeds, int, f"how many, from 1 to {MAX_SEEDS:,}, or which, such as 0,1,2")
    return numbers if "," in seeds else check_seeds(numbers[0])


def read_rates(lrs: str | None) -> list[float] | None:
    """Learning rates; None stands for the recipe's."""
    if lrs is None:
        return None
    rates = split("learning rate", lrs, float, "one above 0, such as 0.1")
    for rate in rates:
        check_lr(rate)
    return rates


def read_candidates(names: str | None) -> list[str] | None:
    """Candidates, each with or without a sign; None stands for those that suit the data."""
    return None if names is None else split("candidate", names, check_candidate)


def check_candidate(name: str) -> str:
    """The name, once it is known to be a candidate's; '+' or '-' before it says whether to add or to remove it."""
    from class_uncertainty.training.candidate import Candidate

    Candidate(name[1:] if name[:1] in ("+", "-") else name)
    return name


def split(kind: str, text: str, parse: Callable[[str], Any], allowed: str = "") -> list[Any]:
    """'a,b' as a list in which nothing repeats; `allowed` says which numbers are, where it is one of numbers."""
    values = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            values.append(parse(part))
        except InputError:
            raise
        except ValueError:
            number = "whole number" if parse is int else "number"
            raise InputError(f"{kind} {part!r} is not a {number}: give {allowed}.") from None
    check_distinct(kind, values)
    return values
