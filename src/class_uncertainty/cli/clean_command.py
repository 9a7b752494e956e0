"""`cu clean`: what class-uncertainty keeps on disk, and its removal."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from class_uncertainty.cli import options
from class_uncertainty.errors import InputError

SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def clean(
    folder: Annotated[Path, typer.Argument(help="The folder whose stores and checkpoints are meant.")] = Path(),
    cache: Annotated[bool, typer.Option("--cache", help="Remove decoded images and features.")] = False,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Remove trainings under way.")] = False,
    stores: Annotated[
        bool, typer.Option("--stores", help="Remove stores: all results and networks, and their checkpoints.")
    ] = False,
    older_than: Annotated[
        str | None, options.optional("Only what was last written so long ago: 12h, 30d or 2w.", "AGE")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    as_json: options.JSON = False,
) -> None:
    """Show what caches, checkpoints and stores take, and remove what is asked for.

    Without **--cache**, **--checkpoints** or **--stores** nothing is removed. The cache is one for all folders
    (CLASS_UNCERTAINTY_CACHE); what is in it is decoded or computed again when it is needed. Without its checkpoints a
    training that was stopped begins anew. Results in a store are lost with it: 'cu results export' writes them to a
    file. Only files that class-uncertainty made are removed, and none that another process works with.
    """
    age = _seconds(older_than)
    from class_uncertainty.reporting import terminal
    from class_uncertainty.reporting.kept_table import print_kept, total_text
    from class_uncertainty.runs.housekeeping import CACHE, CHECKPOINTS, KINDS, STORES, find_kept, remove

    wanted = {CACHE: cache, CHECKPOINTS: checkpoints or stores, STORES: stores}
    chosen = [kind for kind in KINDS if wanted[kind]]
    kept = [one for one in find_kept(folder, chosen or KINDS) if one.age >= age]
    removable, removed = [one for one in kept if chosen and not one.in_use], []
    refused = [one.in_use for one in kept if chosen and one.in_use]
    if not as_json:
        print_kept(kept)
    if removable and not yes:
        _ask(f"Remove {len(removable):,} of them, {total_text(removable)}?", as_json)
    for one in removable:
        if reason := remove(one):
            refused.append(reason)
        else:
            removed.append(one)
    if as_json:
        about = [
            {"kind": one.kind, "path": str(one.path), "about": one.about, "bytes": one.size, "seconds": one.age}
            | {"in_use": one.in_use, "removed": one in removed}
            for one in kept
        ]
        terminal.print_json({"kept": about, "left_alone": refused})
    elif chosen:
        left = (f"Left alone: {reason}." for reason in refused)
        terminal.say(f"Removed {len(removed):,}, {total_text(removed)}.", *left)
    elif kept:
        terminal.say("cu clean --cache, --checkpoints or --stores removes them; --older-than 30d keeps newer ones.")


def _ask(question: str, as_json: bool) -> None:
    """End the command unless the user agrees; refuse where nobody can be asked."""
    if as_json or not sys.stdin.isatty() or not sys.stderr.isatty():
        raise InputError("nobody can be asked here, so nothing is removed: --yes removes without asking.")
    typer.confirm(question, abort=True, err=True)


def _seconds(age: str | None) -> float:
    """Of '12h', '30d' or '2w'."""
    if age is None:
        return 0.0
    fields = re.fullmatch(r"(\d{1,6})([mhdw])", age.strip(), re.ASCII)
    if not fields:
        raise InputError(f"--older-than is {age!r}: write minutes, hours, days or weeks, as in 90m, 12h, 30d or 2w.")
    return int(fields[1]) * SECONDS[fields[2]]
