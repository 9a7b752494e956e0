"""Tables as features: numbers stay numbers, text becomes one feature per category ('city=Oslo')."""

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from reprlib import repr as brief

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.dataset import Data, check_apart
from class_uncertainty.data.subsets import split_indices
from class_uncertainty.data.table import LARGEST, Column, Table
from class_uncertainty.errors import InputError, nearest
from class_uncertainty.text import printable

MAX_CATEGORIES = 100  # of a column
LABEL = "label"  # the column of classes, unless another is named
EXACT = 2**53  # up to which float64 holds every whole number
MISSING_POLICIES = ("refuse", "fill", "drop")  # the first is the default
NUMBERLIKE = re.compile(r"[+-]?[\d.,_' ]*\d[\d.,_' ]*%?")  # 1,5 or 1_000 or 12 %: people mean different things by them

Names = Sequence[str]  # of columns


def encode(
    train: Table, test: Table | None, *, label: str, categorical: Names = (), drop: Names = (), missing: str = "refuse"
) -> tuple[Data, Data | None]:
    """(train, test) with the features, categories and medians of `train`; a category new in `test` is all zeros."""
    tables = [train] if test is None else [train, test]
    names = _feature_columns(tables, label, categorical, drop)
    classes, labels = _labels(tables, label)
    numbers = {name: None if name in categorical else _numbers(tables, name) for name in names}
    masks = _complete_rows(tables, names, missing)
    encoding = list[Column]()
    blocks: list[list[NDArray]] = [[] for _ in tables]  # of each table, one per column
    for name, as_numbers in numbers.items():
        columns: list[NDArray] = list(as_numbers or (_texts(table, name) for table in tables))
        values = [column[rows] for column, rows in zip(columns, masks, strict=True)]
        categories = None if as_numbers else tuple(sorted(set(values[0])))
        if categories and len(categories) > MAX_CATEGORIES:
            count = f"{len(categories):,} categories, and {MAX_CATEGORIES} are allowed"
            raise InputError(f"{train.file}: column {name!r} has {count}: drop it with ?drop={name}.")
        median = float(np.nanmedian(values[0])) if as_numbers else None
        encoding.append(Column(name=name, categories=categories, median=median, fills=missing == "fill"))
        for block, column in zip(blocks, values, strict=True):
            block.append(encoding[-1].encoded(column))
    names_of_rows = [table.row_names(np.flatnonzero(rows)) for table, rows in zip(tables, masks, strict=True)]
    splits = [
        Data(np.hstack(block), y[rows], classes, encoding=encoding, names=names, label=label)
        for block, y, rows, names in zip(blocks, labels, masks, names_of_rows, strict=True)
    ]
    return splits[0], splits[1] if test is not None else None


def features(table: Table, columns: Sequence[Column]) -> tuple[NDArray[np.float32], list[str], dict[int, str]]:
    """(n, features) of new rows, encoded as the training rows of a network were; other columns are ignored.

    And a sentence on each column with categories that training did not have, and one on each row that is left out: a
    value is missing in it, or no number.
    """
    blocks, notes, left_out = [], [], dict[int, str]()
    for column in columns:
        values, faults = _values(table, column)
        left_out = faults | left_out
        block = column.encoded(values)
        blocks.append(block)
        unseen = np.setdiff1d(np.flatnonzero(~block.any(axis=1)), list(faults))
        if column.categories is not None and len(unseen):
            first = f"the first is {brief(values[unseen[0]])} in {table.row_names(unseen[:1])[0]}"
            count = f"{len(unseen):,} of {len(values):,} rows"
            notes.append(f"{column.name}: {count} have a category that training did not have; {first}.")
    readable = np.isin(np.arange(len(block)), list(left_out), invert=True)
    return np.hstack(blocks)[readable].astype(np.float32), notes, dict(sorted(left_out.items()))


def _values(table: Table, column: Column) -> tuple[NDArray, dict[int, str]]:
    """The column of new rows as numbers or texts, and why a network that was trained on `column` cannot take a row."""
    name = column.name
    if name in table.unusable:
        raise InputError(f"{table.file}: column {name!r} has type {table.unusable[name]}, and had another in training.")
    if name not in table.columns:
        raise no_column("the network", name, table.file, table.names)
    missing = table.missing[name]
    needs = "missing values need a network that was trained with ?missing=fill"
    faults = {row: needs for row in np.flatnonzero(missing & (not column.fills)).tolist()}
    values: NDArray = _texts(table, name) if column.categories is not None else _as_numbers(table.columns[name])
    if column.categories is None:
        values = np.where(missing, np.nan, values)
        wrong = np.flatnonzero(~missing & ~(np.abs(values) <= LARGEST)).tolist()
        faults |= dict.fromkeys(wrong, "the network was trained on numbers, as 1234.5")
        values[wrong] = np.nan
    return values, {row: f"{table.at(name, row)}: {fault}." for row, fault in faults.items()}


def split_off(table: Table, label: str, share: float, seed: int) -> tuple[Table, Table]:
    """(train, test), split before anything is learnt from a column: medians and categories come from training rows."""
    if label not in table.names:
        raise _no_label(label, table)
    _check_usable(table, [label], label)
    classes, (labels,) = _labels([table], label)
    kept, held = split_indices(Data(np.zeros((len(labels), 1)), labels, classes), share, seed)
    return table.take(kept), table.take(held)


def _feature_columns(tables: list[Table], label: str, categorical: Names, drop: Names) -> list[str]:
    """The columns of the first table that are features, if every table has exactly these."""
    train = tables[0]
    if label not in train.names:
        raise _no_label(label, train)
    _check_options(tables, label, {"?categorical": categorical, "?drop": drop})
    used = [[name for name in table.names if name not in drop] for table in tables]
    only = [sorted(set(names) - set(others)) for names, others in zip(used, used[::-1], strict=True)]
    if any(only):
        differing = [
            f"only {table.file} has {_listed(extra)}" for table, extra in zip(tables, only, strict=True) if extra
        ]
        raise InputError(f"{_files(tables)} must have the same columns: {'; '.join(differing)}.")
    for table, names in zip(tables, used, strict=True):
        _check_usable(table, names, label)
    names = [name for name in used[0] if name != label]
    if not names:
        raise InputError(f"{train.file} has no features: beside the label {label!r} it needs another column.")
    if empty := next((name for name in names if train.missing[name].all()), None):
        raise InputError(f"{train.file}: column {empty!r} is missing in every row: drop it with ?drop={empty}.")
    return names


def _check_usable(table: Table, names: list[str], label: str) -> None:
    for name in names:
        if name in table.unusable:
            advice = "name another label" if name == label else f"drop it with ?drop={name}"
            kind = table.unusable[name]
            raise InputError(f"{table.file}: column {name!r} has type {kind}, not numbers or text: {advice}.")


def _check_options(tables: list[Table], label: str, options: dict[str, Names]) -> None:
    """Refuse options that name the label, or a column that no table has."""
    columns = list(dict.fromkeys(name for table in tables for name in table.names if name != label))
    for option, names in options.items():
        if label in names:
            raise InputError(
                f"{option} names {label!r}, the label of {tables[0].file}: give others, as {_listed(columns)}."
            )
        for name in names:
            if name not in columns:
                raise no_column(option, name, _files(tables), columns)


def _no_label(label: str, table: Table) -> InputError:
    if label == LABEL:
        names = _listed(table.names)
        return InputError(f"{table.file} has no column {label!r}: name it with ?label=COLUMN, one of {names}.")
    return no_column("label", label, table.file, table.names)


def no_column(role: str, name: str, file: str, names: list[str]) -> InputError:
    hint = f"did you mean {near!r}? There" if (near := nearest(name, names)) else "there"
    return InputError(f"no column {name!r} in {file} for {role}: {hint} are {_listed(names)}.")


def _listed(names: list[str], most: int = 20) -> str:
    """'age, city and 4 more'"""
    return ", ".join(map(printable, names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _files(tables: list[Table]) -> str:
    return " and ".join(table.file for table in tables)


def _labels(tables: list[Table], label: str) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The class names, in order over all tables, and the labels of each table."""
    texts = []
    for table in tables:
        column = table.columns[label]
        # of text only blanks are missing: a class may be called 'None'
        blank = np.array([not cell.strip() for cell in column]) if column.dtype == object else table.missing[label]
        if blank.any():
            raise InputError(f"{table.at(label, int(blank.argmax()))}: it is the label, and every row needs one.")
        texts.append(as_texts(column))
    classes = sorted({name for text in texts for name in text})
    numbers = {name: _exact(name) for name in classes}
    if not any(number != number for number in numbers.values()):  # no NaN: every name is a number
        classes.sort(key=numbers.__getitem__)
        for name, following in pairwise(classes):
            if numbers[name] == numbers[following]:
                raise InputError(f"{_files(tables)}: labels {name!r} and {following!r} are the same number.")
    index = {name: i for i, name in enumerate(classes)}
    return classes, [np.array([index[name] for name in text], dtype=np.int64) for text in texts]


def _numbers(tables: list[Table], name: str) -> list[NDArray[np.float64]] | None:
    """The column in each table, NaN where it is missing; None if it is text."""
    columns, files = [], {}  # files: the last one with numbers, and with text
    for table in tables:
        values = np.where(table.missing[name], np.nan, _as_numbers(table.columns[name]))
        is_number = ~np.isnan(values)
        is_text = ~is_number & ~table.missing[name]
        _check_cells(table, name, values, is_text)
        if is_number.any() or is_text.any():
            files["numbers" if is_number.any() else "text"] = table.file
        columns.append(values)
    if len(files) == 2:
        kinds = f"numbers in {files['numbers']} and text in {files['text']}"
        raise InputError(f"column {name!r} is {kinds}: make them agree, or add ?categorical={name}.")
    return None if "text" in files else columns


def _check_cells(table: Table, name: str, values: NDArray[np.float64], is_text: NDArray[np.bool_]) -> None:
    """Refuse numbers mixed with text, too large, written oddly, or lost when rounded."""
    count, large = int((~np.isnan(values)).sum()), np.abs(values) > LARGEST
    first_text = table.at(name, int(is_text.argmax()))
    if is_text.any() and count:
        numbers = "number" if count == 1 else "numbers"
        raise InputError(f"{first_text}, and {count:,} {numbers}: correct it, or add ?categorical={name}.")
    if large.any():
        raise InputError(f"{table.at(name, int(large.argmax()))}: numbers must be finite, and {LARGEST:.2g} at most.")
    if is_text.any() and all(NUMBERLIKE.fullmatch(cell.strip()) for cell in table.columns[name][is_text]):
        raise InputError(f"{first_text}: write numbers as 1234.5, or add ?categorical={name} if these are names.")
    _check_integers(table, name, values)


def _check_integers(table: Table, name: str, values: NDArray[np.float64]) -> None:
    """Compare whole numbers that float64 does not hold as they were written: as floats, all ids may be equal."""
    column, rows = table.columns[name], np.flatnonzero(~np.isnan(values))
    if column.dtype.kind == "f" or not len(rows) or np.abs(values[rows]).max() < EXACT:
        return
    exact = [int(_exact(cell)) if isinstance(cell, str) else int(cell) for cell in column[rows]]
    lowest = min(exact)
    offsets = np.array([number - lowest for number in exact], dtype=float)[:, None]
    advice = f"drop it with ?drop={name}, or add ?categorical={name}"
    check_apart([f"{table.file}: column {name!r}"], values[rows].astype(np.float32)[:, None], offsets, advice)


def _as_numbers(column: NDArray) -> NDArray[np.float64]:
    if column.dtype == object:
        return np.fromiter(map(_number, column), float, len(column))
    with np.errstate(invalid="ignore"):  # some NaN of float16 and float32 signal
        return column.astype(float)


def _number(text: str) -> float:
    """NaN for text that is no number; float() alone would accept '1_000'."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def _exact(text: str) -> int | float:
    """A number as `_number` reads it, but exact where float64 is not."""
    number = _number(text)
    return int(Decimal(text.strip())) if EXACT <= abs(number) <= LARGEST else number


def _complete_rows(tables: list[Table], names: list[str], policy: str) -> list[NDArray[np.bool_]]:
    """(N,) of each table: the rows that stay under that policy on missing values."""
    counts = {name: sum(int(table.missing[name].sum()) for table in tables) for name in names}
    incomplete = _listed([f"{name} {count:,}" for name, count in counts.items() if count], 10)
    if incomplete and policy == "refuse":
        advice = "?missing=fill uses training medians and a category 'missing', ?missing=drop leaves those rows out"
        raise InputError(f"{_files(tables)}: values are missing ({incomplete}): {advice}.")
    masks = [~np.any([table.missing[name] & (policy == "drop") for name in names], axis=0) for table in tables]
    for table, rows in zip(tables, masks, strict=True):
        if not rows.any():
            raise InputError(f"{table.file}: ?missing=drop leaves no row ({incomplete} missing): use ?missing=fill.")
    return masks


def _texts(table: Table, name: str) -> NDArray[np.object_]:
    """The column as text; missing values are 'missing'."""
    return np.where(table.missing[name], "missing", as_texts(table.columns[name]))


def as_texts(column: NDArray) -> NDArray[np.object_]:
    """A column as text without blanks around it; 2.0 is '2'."""
    if column.dtype == object:
        return np.array([cell.strip() for cell in column], dtype=object)
    return np.array([text.removesuffix(".0") for text in (column + 0).astype(str).tolist()], dtype=object)  # + 0: no -0
