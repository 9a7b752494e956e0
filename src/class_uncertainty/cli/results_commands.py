"""`cu results export` and `cu results import`: results as JSON lines, to exchange between stores."""

from pathlib import Path
from typing import Annotated

from class_uncertainty.cli import options
from class_uncertainty.errors import InputError


def export(
    file: Annotated[Path, options.argument("The file to write.", "FILE.jsonl")],
    data: Annotated[
        list[str] | None, options.optional("Only this data set, with all its options; may be given again.")
    ] = None,
    force: options.FORCE = False,
    store: options.STORE = options.RUNS,
    as_json: options.JSON = False,
) -> None:
    """Write what a store has as JSON lines: errors by class, and the class uncertainties of every estimate.

    Results of the folds that chose learning rates go with their data set. Weights and probabilities stay behind.
    """
    from class_uncertainty.cli.running import running
    from class_uncertainty.io import check_ending, check_writable, write_whole
    from class_uncertainty.runs.result_lines import check_export, export_lines

    with running(store, as_json, create=False) as now:
        check_ending(file, "export", (".jsonl", ".ndjson", ""))
        check_writable(file)
        lines = list(export_lines(now.store, data or ()))
        if not lines:
            of = f" of {' and '.join(data)}" if data else ""
            raise InputError(f"{store} has no results{of}: there is nothing to export.")
        if not force:
            check_export(file, lines)
        write_whole(file, "".join(lines).encode())
        now.say(f"wrote {len(lines):,} lines to {file}")
        now.answer({"file": str(file), "lines": len(lines)})


def import_(
    files: Annotated[list[Path], options.argument("What 'cu results export' wrote.", "FILE.jsonl...")],
    store: options.STORE = options.RUNS,
    as_json: options.JSON = False,
) -> None:
    """Add results that another store has exported; what is here already is not added twice.

    All lines of all files are read before anything is written.
    """
    from class_uncertainty.cli.running import running
    from class_uncertainty.runs.result_lines import count_values, import_lines, read_lines

    lines, place = [line for file in files for line in read_lines(file)], " and ".join(map(str, files))
    with running(store, as_json) as now:
        added, differing = import_lines(now.store, lines, place)
        values = count_values(lines)
        rest = "; the others were there" if added < values else ""
        if differing:
            rest += f", {differing:,} of them with other numbers: the stored ones were kept"
        now.say(f"added {added:,} of {values:,} results and measurements to {now.store.path}{rest}")
        now.answer({"store": str(now.store.path), "values": values, "added": added, "differing": differing})
