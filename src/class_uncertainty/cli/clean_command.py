"""`cu clean`: removes the cache of inputs, old checkpoints, and what stores that are gone have left."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from class_uncertainty.cli import options
from class_uncertainty.errors import InputError

OLDER = "Remove checkpoints, and what is cached, that were last written so many days ago."
DAY = 86400  # seconds


def clean(
    folder: Annotated[Path, typer.Argument(help="The folder of the stores.")] = Path(),
    cache: Annotated[bool, typer.Option("--cache", help="Remove all decoded images and features.")] = False,
    older_than: Annotated[float | None, options.positive("--older-than", OLDER)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    as_json: options.JSON = False,
) -> None:
    """Remove checkpoints and caches that are no longer needed.

    cu clean
    cu clean --cache --older-than 30

    Asks first. Never removes stores, your files, or files that another process uses.
    """
    from rich.filesize import decimal

    from class_uncertainty.reporting import terminal
    from class_uncertainty.runs.housekeeping import find_beside_stores, find_cached, remove

    selected = []
    for item in (*find_beside_stores(folder), *find_cached()):
        is_old = older_than is not None and item.age >= older_than * DAY
        if item.is_left_behind or is_old or (cache and item.store is None):
            selected.append(item)

    if selected and not as_json:
        terminal.say(*(f"{item.path}: {decimal(item.size)}" for item in selected))
    if selected and not yes:
        if as_json or not sys.stdin.isatty() or not sys.stderr.isatty():
            raise InputError("there is no terminal to ask at, so nothing was removed; --yes removes without asking.")
        typer.confirm(f"Remove these {len(selected):,}?", abort=True, err=True)

    removed = []
    refusals = []
    for item in selected:
        refusal = remove(item)
        if refusal:
            refusals.append(refusal)
        else:
            removed.append(item)

    if as_json:
        documents = [{"path": str(item.path), "bytes": item.size} for item in removed]
        terminal.print_json({"removed": documents, "left_alone": refusals})
    else:
        total = decimal(sum(item.size for item in removed))
        told = f"Removed {len(removed):,}, {total}." if removed else "Nothing was removed."
        terminal.say(told, *(f"Left alone: {refusal}." for refusal in refusals))
