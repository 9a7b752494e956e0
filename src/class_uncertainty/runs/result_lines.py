"""Results as JSON lines, to exchange between stores and to keep under version control: no weights, no probabilities."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from class_uncertainty.checks import check_least, check_number, shortly
from class_uncertainty.data.dataset import folds_fingerprint
from class_uncertainty.data.spec import without_options
from class_uncertainty.errors import InputError, notice, unknown
from class_uncertainty.io import REPLACE, SQLITE, check_record, finite, from_document, near, parse_json, read_regular
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.store import (
    UNREADABLE,
    Store,
    StoredDataset,
    dataset_row,
    document_row,
    parse_measurement,
    parse_result,
    result_row,
)
from class_uncertainty.text import LONGEST, amount_of, reason
from class_uncertainty.training import Result
from class_uncertainty.training.keys import ENGINE
from class_uncertainty.training.recipe import check_lr

KINDS = ("data", "result", "measurement")
ROUNDED = 1e-6  # percent by which an error may miss the mean of its class errors
MOST = 1e12  # of any other number of a result
ONE_OBJECT = "each line must be one JSON object, as 'cu results export' writes it"


class ResultLine(NamedTuple):
    """One line of a file: a data set, or a value with its key and the fingerprint of its data set."""

    value: StoredDataset | Result | Measurement
    key: str
    data: str

    @property
    def row(self) -> tuple[str, dict[str, Any]]:
        """A row of a store, with its table."""
        match self.value:
            case StoredDataset():
                return "data", dataset_row(self.value)
            case Result():
                return "results", result_row(self.key, self.data, replace(self.value, imported=True))
            case _:
                return "measurements", document_row(self.key, self.data, replace(self.value, imported=True))


def export_lines(store: Store, names: Sequence[str] = ()) -> Iterator[str]:
    """What a store has, in an order that does not depend on when it was trained.

    `names` are of data sets; one without options stands for all data sets that differ from it in options alone. Of data
    that changed under their name, results of the last version are exported: no store takes in two under one name. Nor
    does any take in results of another training engine.
    """
    stored = sorted(store.data(), key=lambda data: data.name)  # of one name, the last one at the end
    for name in names:
        if not any(_is_called(data.name, name) for data in stored):
            raise unknown("data", name, dict.fromkeys(data.name for data in stored))
    if names:
        stored = [data for data in stored if any(_is_called(data.name, name) for name in names)]
    only, is_empty = [data.fingerprint for data in stored] if names else None, True
    listed = {data.fingerprint for data in stored}
    for name in dict.fromkeys(data.name for data in stored):
        versions = [_lines_of(store, data, listed) for data in reversed(stored) if data.name == name]
        last, *older = list(filter(None, versions)) or [[]]
        yield from last
        is_empty &= not last
        if older:
            results = amount_of(sum(len(lines) - 1 for lines in older), "result", "results")
            notice(f"{store.path}: left out {results} of {name!r} from before the data changed.")
    if is_empty:
        store.check_engine(only)
    if others := store.of_other_engines(only):
        results = amount_of(len(others), "result", "results")
        notice(f"{store.path}: left out {results} of another training engine than this version's, {ENGINE}.")


def _lines_of(store: Store, data: StoredDataset, listed: set[str]) -> list[str]:
    """The lines of one data set, its own first; none where it has no results.

    Results of folds, which choose learning rates where there is a test split, go with it, unless they are `listed`: the
    training split that they are of may be that of several data sets.
    """
    measured = _measurements(store, data.fingerprint)
    results = {data.fingerprint: store.by_key("results", data.fingerprint)}
    if (by_folds := folds_fingerprint(data.fingerprint)) not in listed:
        results[by_folds] = store.by_key("results", by_folds)
        listed.add(by_folds)
    lines = [_line("data", asdict(data))]
    for key in sorted(measured, key=lambda key: (measured[key].estimator, measured[key].lr, key)):
        lines.append(_line("measurement", _document(key, data.fingerprint, measured[key])))
    for fingerprint, by_key in results.items():
        for key, result in sorted(by_key.items(), key=lambda item: _order(*item)):
            lines.append(_line("result", _document(key, fingerprint, result)))
    return lines if len(lines) > 1 else []


def _is_called(name: str, given: str) -> bool:
    return given in (name, without_options(name))


def _measurements(store: Store, data: str) -> dict[str, Measurement]:
    """Those of estimates, whose keys they have, and those that came without one."""
    estimates = {key: Measurement.of(one) for key, one in store.by_key("estimates", data).items() if one.results}
    return estimates | store.by_key("measurements", data)


def _order(key: str, result: Result) -> tuple[Any, ...]:
    return result.method, result.lr, result.seed, result.fold or (), key


def _document(key: str, data: str, value: Result | Measurement) -> dict[str, Any]:
    document = asdict(value)
    del document["imported"]  # whoever imports this file marks what is in it
    return {"key": key, "engine": ENGINE, "data": data, "document": document}


def _line(kind: str, fields: dict[str, Any]) -> str:
    """In ASCII: a name may have characters that no encoding has."""
    return json.dumps(finite({"kind": kind, **fields})) + "\n"


def read_lines(path: Path) -> list[ResultLine]:
    """The lines of a file; one that cannot be read is refused with its number, and so is a file without any."""
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist{near(path)}: give a file that 'cu results export' wrote.")
    lines, content = [], read_regular(path)
    if content.startswith(SQLITE):
        raise InputError(
            f"{path} is a store: 'cu results export FILE.jsonl --store {path}' writes what can be imported."
        )
    for number, text in enumerate(content.splitlines(), 1):
        if text.strip():
            try:
                lines.append(_parse(text))
            except UNREADABLE as error:
                why = f"it lacks the field {error}" if isinstance(error, KeyError) else reason(error)
                raise InputError(f"{path}, line {number}, is no result of this package: {why}.") from None
    if not lines:
        raise InputError(f"{path} is empty: give a file that 'cu results export' wrote.")
    return lines


def check_export(path: Path, lines: Sequence[str]) -> None:
    """Refuse to replace a file with a line that is not among the new ones as it is."""
    if not path.exists():
        return
    lost = set(read_regular(path).splitlines()) - {line.rstrip("\n").encode() for line in lines}
    if lost:
        amount = amount_of(len(lost), "line", "lines")
        raise InputError(f"{path} has {amount} that this store does not export: {REPLACE}.")


def _parse(text: bytes) -> ResultLine:
    try:
        line = parse_json(text)
    except ValueError:
        raise ValueError(f"it cannot be read as JSON; {ONE_OBJECT}") from None
    if not isinstance(line, dict):
        raise ValueError(f"it is {type(line).__name__}; {ONE_OBJECT}")
    if (kind := line["kind"]) not in KINDS:
        raise ValueError(f"its kind is {shortly(kind)}, not one of {', '.join(KINDS)}")
    if kind == "data":
        stored = from_document(StoredDataset, {name: value for name, value in line.items() if name != "kind"})
        check_record(stored)
        _check_texts(fingerprint=stored.fingerprint, name=stored.name)
        for count in stored.counts:
            check_least("a count", count, 1)
        return ResultLine(stored, stored.fingerprint, stored.fingerprint)
    if (engine := line["engine"]) != ENGINE:
        raise ValueError(f"it is of training engine {shortly(engine)}, and this version has {ENGINE}")
    parse = parse_result if kind == "result" else parse_measurement
    value = parse(line["document"])
    check_record(value)
    _check_numbers(value)
    method = value.method if isinstance(value, Result) else ""
    _check_texts(key=line["key"], data=line["data"], method=method, network=value.recipe.network)
    return ResultLine(value, line["key"], line["data"])


def _check_numbers(value: Result | Measurement) -> None:
    """Refuse what no training gives. Errors of classes without test examples are NaN."""
    check_lr(value.lr)
    check_least("seed", value.seed, 0)
    amounts = {"cost": value.cost}
    errors = [error for error in value.class_errors or [0.0] if not math.isnan(error)]
    if not errors:
        raise ValueError("class_errors has no number")
    percentages = [("class_errors", error) for error in errors]
    if isinstance(value, Measurement):
        check_least("members", value.members, 1)
        for score, vector in value.raw.items():
            for mean in vector:
                check_number(score, mean, f"a number of at most {MOST:g}", lambda number: abs(number) <= MOST)
    else:
        check_least("folds", value.folds, 0)
        amounts["seconds"] = value.seconds
        if value.diverged is None:
            check_number("loss", value.loss, f"a number of at most {MOST:g}", lambda number: abs(number) <= MOST)
        for name in ("diverged", "parameters"):
            if getattr(value, name) is not None:
                check_least(name, getattr(value, name), 0)
        if scores := value.scores:
            amounts |= {"nll": scores.nll, "spread": scores.spread}
            shown = ("top1_error", "many", "medium", "few", "worst", "ece", "prior_error")
            percentages += [(name, getattr(scores, name)) for name in shown if getattr(scores, name) is not None]
    for name, amount in amounts.items():
        check_number(name, amount, f"a number from 0 to {MOST:g}", lambda number: 0 <= number <= MOST)
    for name, percentage in percentages:
        check_number(name, percentage, "a number from 0 to 100", lambda number: 0 <= number <= 100 + ROUNDED)


def _check_texts(**texts: Any) -> None:
    """Refuse what a column of a store cannot hold."""
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > LONGEST:
            raise ValueError(f"{name} is {shortly(text)}: it must be text of {LONGEST:,} characters at most")
        text.encode()


def checked_rows(lines: Sequence[ResultLine], place: str, store: Store) -> list[tuple[str, dict[str, Any]]]:
    """The row of each line, with its table. Refuses lines that do not go together, or not with the store."""
    stored = store.data()
    both = f"{place} with {store.path}" if stored else place
    by_name, by_fingerprint = ({getattr(data, field): data for data in stored} for field in ("name", "fingerprint"))
    for line in lines:
        if isinstance(line.value, StoredDataset) and line.data not in by_fingerprint:
            check_same_data(by_name.get(line.value.name), line.value, both)
            by_name[line.value.name] = by_fingerprint[line.data] = line.value
    by_judge = {folds_fingerprint(fingerprint): data for fingerprint, data in by_fingerprint.items()} | by_fingerprint
    for line in lines:
        if line.data not in by_judge:
            raise InputError(f"{place} has results of the data {line.data}, and no line that names them.")
        _check_classes(line, by_judge[line.data], place)
    try:
        return [line.row for line in lines]
    except RecursionError:
        raise InputError(f"{place} has a line that is nested too deeply.") from None


def check_same_data(stored: StoredDataset | None, given: StoredDataset, place: str) -> None:
    """Refuse other data under a name that is taken."""
    if stored and stored.fingerprint != given.fingerprint:
        prints = f"{stored.fingerprint} and {given.fingerprint}"
        raise InputError(f"{place} has two data sets called {given.name!r}, {prints}: keep their results apart.")


class Imported(NamedTuple):
    """What an import did, in results and measurements."""

    added: int
    differing: int  # lines with other numbers than those that are stored under their keys


def import_lines(store: Store, lines: Sequence[ResultLine], place: str) -> Imported:
    """Add to a store what it lacks, all of it or nothing; what it has stays."""
    checked = checked_rows(lines, place, store)
    present = {table: store.keys(table) for table in ("data", "results", "measurements")}
    present["measurements"] |= _estimated(store, lines)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for line, (table, row) in zip(lines, checked, strict=True):
        if line.key not in present[table]:
            rows.setdefault((table, line.key), row)
    store.add_rows((table, row) for (table, _), row in rows.items())
    return Imported(sum(table != "data" for table, _ in rows), _differing(store, lines))


def _differing(store: Store, lines: Sequence[ResultLine]) -> int:
    """How many lines have other numbers than the store has under their keys."""
    stored: dict[str, Result | Measurement] = {}
    for data in {line.data for line in lines}:
        stored |= store.by_key("results", data) | store.by_key("measurements", data)
    return sum(line.key in stored and _differ(_vectors(line.value), _vectors(stored[line.key])) for line in lines)


def _vectors(value: StoredDataset | Result | Measurement) -> dict[str, Any]:
    """(C,) each: what was measured, without seconds and what newer versions fill in."""
    match value:
        case StoredDataset():
            return {}
        case Result():
            return {"class errors": value.class_errors}
        case _:
            return {**value.raw}


def _differ(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether a vector of both has other values; classes without test examples are NaN, and diverged lanes None."""
    both = ((np.array(a[name], float), np.array(b[name], float)) for name in a.keys() & b.keys())
    return not all(np.array_equal(one, other, equal_nan=True) for one, other in both)


def count_values(lines: Sequence[ResultLine]) -> int:
    """How many lines are results or measurements."""
    return sum(not isinstance(line.value, StoredDataset) for line in lines)


def _estimated(store: Store, lines: Sequence[ResultLine]) -> set[str]:
    """The keys of measurements that estimates of the store give to the last bit.

    Another one is added: on some devices a training cannot be repeated exactly, and the results that come with it used
    its numbers.
    """
    measured = {line.key: line for line in lines if isinstance(line.value, Measurement)}
    estimates = {key: store.get_estimate(key) for key in measured.keys() & store.keys("estimates")}
    return {
        key
        for key, estimate in estimates.items()
        if estimate and finite(asdict(Measurement.of(estimate))) == finite(asdict(measured[key].value))
    }


def _check_classes(line: ResultLine, data: StoredDataset, place: str) -> None:
    """Refuse vectors over other classes than those of their data, and an error that does not follow from them."""
    match line.value:
        case StoredDataset():
            vectors: list[Any] = [line.value.classes, line.value.counts]
        case Result():
            vectors = [line.value.class_errors]
        case _:
            vectors = [*line.value.raw.values(), line.value.class_errors]
    for vector in vectors:
        if vector is not None and len(vector) != len(data.classes):
            classes = f"{len(vector):,} classes on {data.name!r}, which has {len(data.classes):,}"
            raise InputError(f"{place} has a line with numbers of {classes}.")
    if isinstance(line.value, Result) and (scores := line.value.scores):
        mean = float(np.nanmean(scores.class_errors))
        if not math.isclose(mean, scores.error, abs_tol=ROUNDED):
            numbers = f"an error of {scores.error:.2f} %, and class errors whose mean is {mean:.2f} %"
            raise InputError(f"{place} has a line with {numbers}: it is damaged.")
