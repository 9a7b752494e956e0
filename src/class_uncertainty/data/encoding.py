"""Tables as features: numbers stay numbers, text becomes one feature a category ('city=Oslo')."""

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from itertools import pairwise
from reprlib import repr as brief

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.columns import LARGEST, Column
from class_uncertainty.data.core import Data, check_apart
from class_uncertainty.data.shaping import held_share
from class_uncertainty.data.tables import Table
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.text import printable

MOST = 100  # categories of a column
LABEL = "label"  # the column of classes, unless another is named
EXACT = 2**53  # up to which float64 holds every whole number
WAYS = ("refuse", "fill", "drop")
NUMBERLIKE = re.compile(r"[+-]?[\d.,_' ]*\d[\d.,_' ]*%?")  # 1,5 and 1_000 and 12 %: what people mean by them differs


def encode(
    train: Table, test: Table | None, *, label: str, categorical: Sequence[str] = (), drop: Sequence[str] = (), missing: str = "refuse"
) -> tuple[Data, Data | None]:
    """(train, test) with the features, categories and medians of `train`; a category that only `test` has is zero everywhere."""
    if missing not in WAYS:
        raise unknown("way with missing values", missing, WAYS)
    tables = [train] if test is None else [train, test]
    features = _features(tables, label, categorical, drop)
    classes, labels = _labels(tables, label)
    numbers = {name: None if name in categorical else _numbers(tables, name) for name in features}
    kept = _kept(tables, features, missing)
    encoding: list[Column] = []
    parts: list[list[NDArray]] = []  # of each column, one for each table
    for name, found in numbers.items():
        given: list[NDArray] = list(found or (_texts(table, name) for table in tables))
        values = [each[rows] for each, rows in zip(given, kept, strict=True)]
        categories = None if found else tuple(sorted(set(values[0])))
        if categories and len(categories) > MOST:
            told = f"column {name!r} has {len(categories):,} categories, and may have {MOST}"
            raise InputError(f"{train.file}: {told}: drop it with ?drop={name}.")
        median = float(np.nanmedian(values[0])) if found else None
        encoding.append(Column(name=name, categories=categories, median=median, fills=missing == "fill"))
        parts.append([encoding[-1].encoded(each) for each in values])
    inputs = [np.hstack(blocks) for blocks in zip(*parts, strict=True)]
    data = [
        Data(x, y[rows], classes, encoding=encoding, names=table.called(np.flatnonzero(rows)))
        for table, x, y, rows in zip(tables, inputs, labels, kept, strict=True)
    ]
    return data[0], data[1] if test is not None else None


def features(table: Table, columns: Sequence[Column]) -> tuple[NDArray[np.float32], list[str]]:
    """(N, features) of rows that a network is asked about, made as those it was trained on were; other columns are not looked at.

    And a sentence on each column that has categories which training had not.
    """
    parts, notes = [], []
    for column in columns:
        name = column.name
        if name not in table.columns:
            if name in table.unusable:
                raise InputError(f"{table.file}: column {name!r} has type {table.unusable[name]}: the network was trained on other values.")
            raise _no_column("the network", name, table.file, table.names)
        missing = table.missing[name]
        if missing.any() and not column.fills:
            told = f"{table.at(name, int(missing.argmax()))}: missing values ({int(missing.sum()):,} in this column)"
            raise InputError(f"{told} can be filled only by a network that was trained with ?missing=fill.")
        if column.categories is None:
            values = np.where(missing, np.nan, _as_numbers(table.columns[name]))
            if (wrong := ~missing & ~(np.abs(values) <= LARGEST)).any():
                raise InputError(f"{table.at(name, int(wrong.argmax()))}: the network was trained on numbers, written as 1234.5.")
        else:
            values = _texts(table, name)
        parts.append(column.encoded(values))
        if column.categories is not None and len(new := np.flatnonzero(~parts[-1].any(axis=1))):
            first = f"first of them {brief(values[new[0]])} in {table.called(new[:1])[0]}"
            notes.append(f"{name}: {len(new):,} of {len(values):,} rows have a category that training had not, {first}.")
    return np.hstack(parts).astype(np.float32), notes


def hold_out(table: Table, label: str, share: float, seed: int) -> tuple[Table, Table]:
    """(train, test), cut before anything is learnt of a column: medians and categories are those of the training rows."""
    if label not in table.names:
        raise _no_label(label, table)
    classes, (labels,) = _labels([table], label)
    kept, held = held_share(Data(np.zeros((len(labels), 1)), labels, classes), share, seed)
    return table.take(kept), table.take(held)


def _features(tables: list[Table], label: str, categorical: Sequence[str], drop: Sequence[str]) -> list[str]:
    """The columns of the first table that are features, if every table has them and nothing else."""
    train = tables[0]
    if label not in train.names:
        raise _no_label(label, train)
    known = list(dict.fromkeys(name for table in tables for name in table.names if name != label))
    for option, name in [("?categorical", name) for name in categorical] + [("?drop", name) for name in drop]:
        if name == label:
            raise InputError(f"{option} names {name!r}, which is the label of {train.file}: it takes columns such as {_some(known, 20)}.")
        if name not in known:
            raise _no_column(option, name, _files(tables), known)
    used = [[name for name in table.names if name not in drop] for table in tables]
    only = [sorted(set(mine) - set(other)) for mine, other in zip(used, used[::-1], strict=True)]
    if any(only):
        told = "; ".join(f"only {table.file} has {_some(names, 20)}" for table, names in zip(tables, only, strict=True) if names)
        raise InputError(f"{_files(tables)} must have the same columns: {told}.")
    for table in tables:
        for name in [name for name in table.unusable if name not in drop]:
            advice = "name another label" if name == label else f"drop it with ?drop={name}"
            told = f"column {name!r} has type {table.unusable[name]}"
            raise InputError(f"{table.file}: {told}: numbers, booleans and text can be used; {advice}.")
    features = [name for name in used[0] if name != label]
    if not features:
        raise InputError(f"{train.file} has no feature columns: besides the label {label!r} it needs at least one that is not dropped.")
    for name in features:
        if train.missing[name].all():
            raise InputError(f"{train.file}: column {name!r} is missing in every row: drop it with ?drop={name}.")
    return features


def _no_label(label: str, table: Table) -> InputError:
    if label == LABEL:
        return InputError(
            f"{table.file} has no column {label!r}: say which has the classes with ?label=COLUMN, of {_some(table.names, 20)}."
        )
    return _no_column("label", label, table.file, table.names)


def _no_column(role: str, name: str, file: str, names: list[str]) -> InputError:
    lower = {column.lower(): column for column in names}
    near = get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[near[0]]!r}? " if near else ""
    return InputError(f"no column {name!r} in {file} for {role}: {hint}There are {_some(names, 20)}.")


def _some(names: list[str], most: int) -> str:
    """'age, city and 4 more'"""
    return ", ".join(map(printable, names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _files(tables: list[Table]) -> str:
    return " and ".join(table.file for table in tables)


def _labels(tables: list[Table], label: str) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The class names, in order over all tables, and the labels of each table."""
    for table in tables:
        column = table.columns[label]
        blank = np.array([not cell.strip() for cell in column]) if column.dtype == object else table.missing[label]  # a class may be 'None'
        if blank.any():
            raise InputError(f"{table.at(label, int(blank.argmax()))}: it is the label, and every row needs one.")
    texts = [_texts(replace(table, missing={label: np.zeros(len(table.columns[label]), dtype=bool)}), label) for table in tables]
    classes = sorted({name for text in texts for name in text})
    numbers = {name: _exact(name) for name in classes}
    if all(number == number for number in numbers.values()):  # none is NaN
        classes.sort(key=numbers.__getitem__)
        for one, other in pairwise(classes):
            if numbers[one] == numbers[other]:
                raise InputError(f"{_files(tables)}: labels {one!r} and {other!r} are the same number: write it in one way.")
    index = {name: i for i, name in enumerate(classes)}
    return classes, [np.array([index[name] for name in text], dtype=np.int64) for text in texts]


def _numbers(tables: list[Table], name: str) -> list[NDArray[np.float64]] | None:
    """The column in each table, NaN where it is missing; None if it is text."""
    found, kinds = [], {}
    for table in tables:
        column, missing = table.columns[name], table.missing[name]
        values = np.where(missing, np.nan, _as_numbers(column))
        text, large, count = np.isnan(values) & ~missing, np.abs(values) > LARGEST, int((~np.isnan(values)).sum())
        if text.any() and count:
            those = "value that is a number" if count == 1 else "values that are numbers"
            raise InputError(f"{table.at(name, int(text.argmax()))}, and {count:,} {those}: mend it, or say ?categorical={name}.")
        if large.any():
            raise InputError(f"{table.at(name, int(large.argmax()))}: numbers must be finite, and {LARGEST:.2g} at most.")
        if text.any() and all(NUMBERLIKE.fullmatch(cell.strip()) for cell in column[text]):
            told = table.at(name, int(text.argmax()))
            raise InputError(f"{told}: write numbers as 1234.5, or say ?categorical={name} if these are names.")
        _check_whole(table, name, values)
        if text.any() or count:
            kinds["numbers" if count else "text"] = table.file
        found.append(values)
    if len(kinds) == 2:
        told = f"column {name!r} is numbers in {kinds['numbers']} and text in {kinds['text']}"
        raise InputError(f"{told}: make them agree, or say ?categorical={name}.")
    return None if "text" in kinds else found


def _check_whole(table: Table, name: str, values: NDArray[np.float64]) -> None:
    """Whole numbers that float64 does not hold are compared as they were written: as floats, those of an id may all be the same."""
    column, rows = table.columns[name], np.flatnonzero(~np.isnan(values))
    if column.dtype.kind == "f" or not len(rows) or np.abs(values[rows]).max() < EXACT:
        return
    exact = [int(_exact(cell)) if isinstance(cell, str) else int(cell) for cell in column[rows]]
    lowest = min(exact)
    offsets = np.array([number - lowest for number in exact], dtype=float)[:, None]
    advice = f"drop it with ?drop={name}, or say ?categorical={name}"
    check_apart([f"{table.file}: column {name!r}"], values[rows].astype(np.float32)[:, None], offsets, advice)


def _as_numbers(column: NDArray) -> NDArray[np.float64]:
    if column.dtype == object:
        return np.fromiter(map(_number, column), float, len(column))
    with np.errstate(invalid="ignore"):  # some NaN of float16 and float32 signal
        return column.astype(float)


def _number(text: str) -> float:
    """NaN for what is no number; Python's own reading would let '1_000' through."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def _exact(text: str) -> int | float:
    """A number as _number reads it, and to the unit where float64 is not."""
    number = _number(text)
    return int(Decimal(text.strip())) if EXACT <= abs(number) <= LARGEST else number


def _kept(tables: list[Table], features: list[str], way: str) -> list[NDArray[np.bool_]]:
    """The rows that stay in each table."""
    counts = {name: sum(int(table.missing[name].sum()) for table in tables) for name in features}
    told = _some([f"{name} {count:,}" for name, count in counts.items() if count], 10)
    if told and way == "refuse":
        ways = "?missing=fill puts in training medians and a category 'missing', ?missing=drop leaves those rows out"
        raise InputError(f"{_files(tables)}: values are missing ({told}): {ways}.")
    kept = [~np.any([table.missing[name] & (way == "drop") for name in features], axis=0) for table in tables]
    for table, rows in zip(tables, kept, strict=True):
        if not rows.any():
            raise InputError(f"{table.file}: every row has a missing value ({told}) and ?missing=drop leaves none: say ?missing=fill.")
    return kept


def _texts(table: Table, name: str) -> NDArray[np.object_]:
    """The column as text without blanks around it; 2.0 is '2', and what is missing is 'missing'."""
    column = table.columns[name]
    if column.dtype == object:
        texts = [cell.strip() for cell in column]
    else:
        texts = [text.removesuffix(".0") for text in (column + 0).astype(str).tolist()]  # + 0: there is no -0
    return np.where(table.missing[name], "missing", np.array(texts, dtype=object))
