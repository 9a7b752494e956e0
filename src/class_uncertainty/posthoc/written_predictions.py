"""The files that `cu predict` writes and `cu adjust` reads: predictions as CSV, and a JSON file that describes them.

The CSV file has a line for each example: its name, kept columns, its label if there are any, the class that is decided
on by the probabilities beside it, its probability, its expected cost where costs decide, and the probabilities of all
classes, p(CLASS). The JSON file beside it has the prior that they are for, and the rule that decides.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.io import (
    BlockCrcs,
    Bytes,
    blank_mark,
    check_ending,
    check_regular,
    check_replaceable,
    checksum,
    finite,
    parse_json,
    read_regular,
    signed,
    write_together,
)
from class_uncertainty.measures import Stats
from class_uncertainty.measures.uncertainty import check_rows
from class_uncertainty.metrics import check_prior
from class_uncertainty.posthoc.goal import check_costs
from class_uncertainty.posthoc.prediction_files import Predictions
from class_uncertainty.text import amount_of, listed, printable, read_faults

EXAMPLE, LABEL, CLASS, PROBABILITY, COST = "example", "label", "class", "probability", "cost"
COLUMN = re.compile(r"p\((.*)\)")
FORMULA = re.compile(r"'*[=+\-@]")  # how a cell begins that a spreadsheet would compute, or that looks guarded
GUARDED = re.compile(r"\A'(?='*[=+\-@])")  # how --excel-safe writes it
BLOCK = 1000  # lines that are written at a time
SEPARATORS = {";": "semicolons", "\t": "tabs"}  # that are no commas
SEEN = "The model was trained on these examples: errors on them say little about new ones."
NEGLIGIBLE = 1e-3  # of a sum of probabilities, as everywhere
MOST_ROUNDED = 0.5  # of a sum, however many classes there are

Columns = Mapping[str, Sequence[Any]]  # class -> cells


@dataclass(frozen=True, eq=False)
class PredictionTable:
    """What a CSV file of predictions holds."""

    names: Sequence[str]
    classes: tuple[str, ...]
    probabilities: NDArray  # (N, C)
    labels: Sequence[str]  # the classes that are decided on
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    truth: Sequence[str] | None = None
    columns: tuple[str, ...] = ()  # of the file that it was read from
    notes: tuple[str, ...] = ()  # what reading it changed
    costs: NDArray[np.float64] | None = None  # (N,) expected ones of the labels, where costs decide

    @property
    def header(self) -> list[str]:
        truth = [LABEL] if self.truth is not None else []
        columns = [f"p({printable(name)})" for name in self.classes]
        cost = [COST] if self.costs is not None else []
        return [EXAMPLE, *map(printable, self.kept), *truth, CLASS, PROBABILITY, *cost, *columns]

    def lines(self, excel_safe: bool = False) -> Iterator[bytes]:
        """The file in pieces. Cells are as a terminal would show them: a line of the file is an example."""
        show = _guarded if excel_safe else printable
        place_of = {name: place for place, name in enumerate(self.classes)}
        beside = [*self.kept.values(), *([self.truth] if self.truth is not None else [])]
        writer = csv.writer(text := io.StringIO(), lineterminator="\n")
        writer.writerow(map(show, self.header))
        for i, (name, label, row) in enumerate(zip(self.names, self.labels, self.probabilities.tolist(), strict=True)):
            cells = ["" if column[i] is None else show(column[i]) for column in beside]
            cost = [self.costs[i]] if self.costs is not None else []
            numbers = [f"{number:.6g}" for number in (row[place_of[label]], *cost, *row)]
            writer.writerow([show(name), *cells, show(label), *numbers])
            if i % BLOCK == BLOCK - 1:
                yield text.getvalue().encode()
                text.seek(0)
                text.truncate()
        yield text.getvalue().encode()


def _guarded(cell: Any) -> str:
    """The cell as text that no spreadsheet takes for a formula; a number stays one."""
    text = printable(cell)
    return f"'{text}" if FORMULA.match(text) and not _is_number(text) else text


def description_of(path: Path) -> Path:
    """The JSON file beside a CSV file."""
    return path.parent / f"{path.stem}.json"


def files_read(*sources: Path | None) -> list[Path]:
    """The files of predictions; beside tables there may be JSON files."""
    given = list(filter(None, sources))
    return [*given, *(description_of(path) for path in given if path.suffix.lower() in (".csv", ".parquet"))]


def check_places(path: Path, made_from: str, force: bool = False, read: Iterable[object] = ()) -> None:
    """Refuse to replace other files than these predictions; the JSON file has the mark of both."""
    check_ending(path, "predictions", (".csv", ""))
    description = description_of(path)
    check_replaceable(path, made_from, force, description, read)
    check_replaceable(description, made_from, force, read=read)


def check_kept(names: Iterable[str]) -> None:
    """Refuse to keep columns that would be read as the predictions."""
    for name in map(printable, names):
        if name in (EXAMPLE, CLASS, PROBABILITY, COST) or COLUMN.fullmatch(name):
            taken = f"{EXAMPLE}, {CLASS}, {PROBABILITY}, {COST} and p(CLASS) are columns of the predictions"
            raise InputError(f"column {name!r} cannot be kept: {taken}, so rename it.")


def write_predictions(
    path: Path, table: PredictionTable, about: dict[str, Any], excel_safe: bool = False, made_from: str = ""
) -> list[Path]:
    """Write both files, completely or not at all; `excel_safe` keeps spreadsheets from computing cells of text."""
    check_kept(table.kept)
    repeated = [name for name in table.header if table.header.count(name) > 1]
    if repeated:
        raise InputError(f"column {repeated[0]!r} cannot be kept: the predictions have one of that name.")
    description = description_of(path)
    about = {"predictions": path.name, "excel_safe": excel_safe, **finite(about), "mark": blank_mark(made_from)}
    crcs = BlockCrcs()

    def described() -> Iterator[Bytes]:
        """The JSON file, which has the checksum of the lines that were written before."""
        content = json.dumps(about | {"checksum": checksum(crcs.crcs)}, indent=2)
        yield signed(content.encode(), made_from)

    write_together({path: crcs.of(table.lines(excel_safe)), description: described()})
    return [path, description]


def read_written(path: Path) -> tuple[PredictionTable, Predictions]:
    """The file as it is, and its probabilities with what the JSON file beside it says of them.

    That names the counts, the prior and perhaps costs. Without it, probabilities are taken to be for classes as
    frequent as in training.
    """
    about = _read_description(path)
    table = _read_table(path, about.get("excel_safe") is True, about.get("costs") is not None)
    if about.get("seen") is True:
        table = replace(table, notes=(*table.notes, SEEN))
    try:
        p = check_rows(table.probabilities)
        counts = None if about.get("counts") is None else Stats(about["counts"]).counts
        if counts is not None and len(counts) != p.shape[1]:
            raise InputError(f"counts are of {len(counts)} classes, and probabilities of {p.shape[1]}.")
        prior = None
        if counts is not None and about.get("prior") is not None:
            prior = check_prior(about["prior"], p.shape[1])
        costs = None if about.get("costs") is None else check_costs(about["costs"], p.shape[1], table.classes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    places = {name: place for place, name in enumerate(table.classes)}
    for what, names in ((LABEL, {*(table.truth or ())} - {""}), (CLASS, {*table.labels})):
        if unknown := sorted(names - places.keys()):
            classes = listed(table.classes, len(table.classes))
            raise InputError(f"{path} has the {what} {unknown[0]!r}: its classes are {classes}.")
    labels = np.array([places.get(name, -1) for name in table.truth]) if table.truth and any(table.truth) else None
    decided = np.array([places[name] for name in table.labels])
    return table, Predictions(p, labels, counts, decided, costs, prior)


def _read_table(path: Path, excel_safe: bool, has_costs: bool) -> PredictionTable:
    columns, places = _parquet_columns(path) if path.suffix.lower() == ".parquet" else _csv_columns(path)
    classes = {match[1]: column for name, column in columns.items() if (match := COLUMN.fullmatch(name))}
    if len(classes) < 2 or not len(next(iter(classes.values()))):
        raise _no_predictions(path)
    p, notes = _unrounded(_numbers(path, classes, places), classes)
    headings = tuple(columns)
    kept = {name: column for name, column in columns.items() if not COLUMN.fullmatch(name)}
    if excel_safe:
        kept = {GUARDED.sub("", name): [GUARDED.sub("", cell) for cell in column] for name, column in kept.items()}
    truth = kept.pop(LABEL, None)
    names = kept.pop(EXAMPLE, [f"row {i}" for i in range(len(p))])
    kept.pop(PROBABILITY, None)
    if has_costs:
        kept.pop(COST, None)
    labels = kept.pop(CLASS, [list(classes)[c] for c in p.argmax(axis=1)])
    return PredictionTable(names, tuple(classes), p, labels, kept, truth, headings, tuple(notes))


def _numbers(path: Path, classes: Columns, places: Sequence[str]) -> NDArray[np.float64]:
    """(N, C) finite numbers; the first cell that is none is named by its place and column."""
    try:
        p = np.stack([np.asarray(column, dtype=np.float64) for column in classes.values()], axis=1)
    except (TypeError, ValueError):
        p = None
    if p is not None and np.isfinite(p).all():
        return p
    for i, place in enumerate(places):
        for name, column in classes.items():
            if not _is_number(column[i]):
                cell = "an empty cell" if column[i] in ("", None) else repr(printable(column[i]))
                raise InputError(f"{path}, {place}, column p({printable(name)}): {cell} is no number.")
    raise _no_predictions(path)


def _is_number(cell: Any) -> bool:
    try:
        return math.isfinite(float(cell))
    except (TypeError, ValueError):
        return False


def _unrounded(p: NDArray[np.float64], classes: Columns) -> tuple[NDArray[np.float64], list[str]]:
    """Rows of sum 1 where rounding to the decimals of a text explains that they have another, and a note on it."""
    off = np.abs(p.sum(axis=1) - 1)
    if off.max() <= NEGLIGIBLE or p.min() < 0 or p.max() > 1:
        return p, []
    cells = (cell for column in classes.values() for cell in column if isinstance(cell, str))
    decimals = max((-int(Decimal(cell.strip()).as_tuple().exponent) for cell in cells), default=0)
    if decimals < 1 or off.max() > min(p.shape[1] * 0.5 * 10.0**-decimals, MOST_ROUNDED) + 1e-9:
        return p, []
    rounded = f"Probabilities are rounded to {amount_of(decimals, 'decimal', 'decimals')}"
    return p / p.sum(axis=1, keepdims=True), [
        f"{rounded}, and rows sum to 1 only within {off.max():.2g}: they were divided by their sums."
    ]


def _no_predictions(path: Path) -> InputError:
    needs = "a line for each example, with columns p(CLASS) for two classes at least"
    return InputError(f"{path} is no file of predictions: it needs {needs}.")


def _csv_columns(path: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Columns of text, and the place of each row."""
    with read_faults(path, "cannot be read as CSV", (UnicodeDecodeError, csv.Error)):
        reader = csv.reader(io.StringIO(read_regular(path).decode("utf-8-sig"), newline=""))
        numbered = [(f"line {reader.line_num}", row) for row in reader if row]
    if not numbered:
        raise _no_predictions(path)
    (_, headings), *lines = numbered
    for separator, name in SEPARATORS.items():
        if len(headings) < 3 and separator in headings[0]:
            raise InputError(f"{path} has {name} between its columns: write it with commas, and decimals with points.")
    for place, row in lines:
        if len(row) != len(headings):
            cells = f"{place} has {amount_of(len(row), 'cell', 'cells')}, and the heading has {len(headings)}"
            raise InputError(f"{path} is no file of predictions: {cells}.")
    return {name: [row[c] for _, row in lines] for c, name in enumerate(headings)}, [place for place, _ in lines]


def _parquet_columns(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Columns of text and numbers, and the place of each row; what is missing is empty text, or no number."""
    import pyarrow.parquet

    with read_faults(path, "cannot be read as Parquet"):
        check_regular(path)
        table = pyarrow.parquet.read_table(path)
        columns = dict[str, Any]()
        for name in table.column_names:
            if COLUMN.fullmatch(name):
                columns[name] = table[name].to_numpy()
            else:
                columns[name] = ["" if cell is None else str(cell) for cell in table[name].to_pylist()]
        return columns, [f"row {i}" for i in range(table.num_rows)]


def _read_description(path: Path) -> dict[str, Any]:
    """What the JSON file says; {} where there is none."""
    place = description_of(path)
    if not place.is_file():
        return {}
    with read_faults(place, "is no description of predictions", (ValueError, UnicodeDecodeError)):
        about = parse_json(read_regular(place))
    return about if isinstance(about, dict) and about.get("predictions") == path.name else {}
