"""`cu results export` and `cu results import`: results as JSON lines, to exchange between stores."""

from pathlib import Path
from typing import Annotated

from class_uncertainty.cli import options
from class_uncertainty.cli.options import Command, shared
from class_uncertainty.cli.start import start
from class_uncertainty.errors import InputError


@shared("store", "as_json")
def export(
    file: Annotated[Path, options.argument("The file to write.", "FILE.jsonl")],
    command: Command,
    data: Annotated[
        list[str] | None, options.optional("Only this data set, with all its options; may be given again.")
    ] = None,
    force: options.FORCE = False,
) -> None:
    """Write results of a store as JSON lines.

    cu results export mine.jsonl
    """
    with start(command, create=False) as running:
        from class_uncertainty.io import check_ending, check_writable, write_whole
        from class_uncertainty.runs.result_lines import check_export, export_lines

        check_ending(file, "export", (".jsonl", ".ndjson", ""))
        check_writable(file)
        lines = list(export_lines(running.store, data or ()))
        if not lines:
            of = f" of {' and '.join(data)}" if data else ""
            raise InputError(f"{command.store} has no results{of}: there is nothing to export.")
        if not force:
            check_export(file, lines)
        write_whole(file, "".join(lines).encode())
        running.say(f"wrote {len(lines):,} lines to {file}")
        running.answer({"file": str(file), "lines": len(lines)})


@shared("store", "as_json")
def import_(
    files: Annotated[list[Path], options.argument("What 'cu results export' wrote.", "FILE.jsonl...")], command: Command
) -> None:
    """Add results exported from another store.

    cu results import theirs.jsonl

    Results that are already stored are not added again.
    """
    from class_uncertainty.runs.result_lines import count_values, import_lines, read_lines

    lines = [line for file in files for line in read_lines(file)]
    with start(command) as running:
        added, differing = import_lines(running.store, lines, " and ".join(map(str, files)))
        values = count_values(lines)
        rest = "; the others were there" if added < values else ""
        if differing:
            rest += f", {differing:,} of them with other numbers: the stored ones were kept"
        running.say(f"added {added:,} of {values:,} results and measurements to {command.store}{rest}")
        running.answer({"store": str(command.store), "values": values, "added": added, "differing": differing})
