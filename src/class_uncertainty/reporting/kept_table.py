"""What is kept on disk as a table: kinds, contents, sizes, ages, and paths as a user would type them."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from class_uncertainty.reporting.terminal import print_fitting, say
from class_uncertainty.runs.housekeeping import Kept

LISTED = 30  # rows
UNITS = ("bytes", "kB", "MB", "GB", "TB")


def print_kept(kept: Sequence[Kept]) -> None:
    """The largest of each kind, and how much all of it takes."""
    rows = []
    for one in kept[:LISTED]:
        about = f"{one.about}, in use" if one.in_use else one.about
        rows.append((typed(one.path), one.kind, about, size_text(one.size), age_text(one.age)))
    columns = ("path", "kind", "contents", "size", "written")
    print_fitting(columns, rows, drop=("written", "kind"), words=("kind", "contents"))
    if rest := kept[LISTED:]:
        say(f"And {len(rest):,} more, {total_text(rest)}: --json lists all.")
    say(f"{total_text(kept)} in all.")


def total_text(kept: Sequence[Kept]) -> str:
    return size_text(sum(one.size for one in kept))


def typed(path: Path) -> str:
    """The path from the current folder where it is inside it, otherwise from the home folder, quoted where need be."""
    place = path.absolute()
    if place.is_relative_to(Path.cwd()):
        return shlex.quote(str(place.relative_to(Path.cwd())))
    if place.is_relative_to(Path.home()):
        return f"~/{shlex.quote(str(place.relative_to(Path.home())))}"
    return shlex.quote(str(place))


def size_text(size: int) -> str:
    """'0 bytes', '512 bytes', '3.4 MB', '12 GB': powers of 1,000."""
    number, unit = float(size), 0
    while number >= 999.5 and unit + 1 < len(UNITS):
        number, unit = number / 1000, unit + 1
    digits = 1 if unit and number < 9.95 else 0
    return f"{number:.{digits}f} {UNITS[unit]}"


def age_text(seconds: float) -> str:
    """'just now', '5 minutes ago', '3 hours ago', '12 days ago'."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if number := int(seconds // length):
            return f"{number:,} {unit}{'' if number == 1 else 's'} ago"
    return "just now"
