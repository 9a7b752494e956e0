"""Tables as features: numbers stay numbers, text becomes one feature per category ('city=Oslo')."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from reprlib import repr as brief
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.examples import Data, check_apart, row_digests
from class_uncertainty.data.finding import DataProblem, Finding
from class_uncertainty.data.table import LARGEST, Column, Table
from class_uncertainty.errors import InputError, nearest
from class_uncertainty.text import enumerated, in_list, listed

EXACT = 2**53  # up to which float64 holds every whole number
NUMBERLIKE = re.compile(r"[+-]?[\d.,_' ]*\d[\d.,_' ]*%?")  # 1,5 or 1_000 or 12 %: people mean different things by them
FEW = 3  # columns that a sentence says everything about

T = TypeVar("T")


class ColumnProblem(DataProblem):
    """A column cannot be used, and an option that names it helps: 'GIVEN: ADVICE.'"""

    def __init__(self, table: Table, name: str, given: str, advice: str, option: str) -> None:
        finding = Finding(
            "mixed-columns",
            given.removeprefix(f"{table.file}: "),
            advice.format(table.option(option, name)),
            number=1,
            examples=(name,),
        )
        super().__init__(f"{given}: {advice.format(table.advised(option, name))}.", {"drop": name}, (finding,))
        self.table = table
        self.name = name
        self.option = option


def of_columns(names: Iterable[str], take: Callable[[str], T]) -> dict[str, T]:
    """What `take` makes of each column; those that it refuses are refused together."""
    taken, problems = dict[str, T](), list[ColumnProblem]()
    for name in names:
        try:
            taken[name] = take(name)
        except ColumnProblem as problem:
            problems.append(problem)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        advice = [
            problems[0].table.advised(option, *(problem.name for problem in problems if problem.option == option))
            for option in dict.fromkeys(problem.option for problem in problems)
        ]
        file = problems[0].table.file
        findings = tuple(finding for problem in problems for finding in problem.findings)
        given = "; ".join(finding.sentence for finding in findings[:FEW])
        more = f"; and {len(problems) - FEW} more" if len(problems) > FEW else ""
        advised = f"correct them, or add {' and '.join(advice)}"
        sentence = f"{file}: {len(problems)} columns cannot be used ({given}{more}): {advised}."
        raise DataProblem(sentence, {"drop": ",".join(problem.name for problem in problems)}, findings)
    return taken


def numbers(tables: list[Table], name: str) -> list[NDArray[np.float64]] | None:
    """The column in each table, NaN where it is missing; None if it is text."""
    columns, files = [], {}  # files: the last one with numbers, and with text
    for table in tables:
        values = np.where(table.missing[name], np.nan, as_numbers(table.columns[name]))
        is_number = ~np.isnan(values)
        is_text = ~is_number & ~table.missing[name]
        _check_cells(table, name, values, is_text)
        if is_number.any() or is_text.any():
            files["numbers" if is_number.any() else "text"] = table.file
        columns.append(values)
    if len(files) == 2:
        given = f"column {name!r} is numbers in {files['numbers']} and text in {files['text']}"
        raise ColumnProblem(tables[0], name, given, "make them agree, or add {}", "categorical")
    return None if "text" in files else columns


def _check_cells(table: Table, name: str, values: NDArray[np.float64], is_text: NDArray[np.bool_]) -> None:
    """Refuse numbers mixed with text, too large, written oddly, or lost when rounded."""
    count, large, first_text = int((~np.isnan(values)).sum()), np.abs(values) > LARGEST, int(is_text.argmax())
    if is_text.any() and count:
        given = f"{table.at(name, first_text)}, and {count:,} {'number' if count == 1 else 'numbers'}"
        raise ColumnProblem(table, name, given, "correct it, or add {}", "categorical")
    if large.any():
        given, most = table.at(name, int(large.argmax())), f"numbers must be finite, and {LARGEST:.2g} at most"
        raise ColumnProblem(table, name, given, f"{most}; {{}} leaves it out", "drop")
    if is_text.any() and all(NUMBERLIKE.fullmatch(cell.strip()) for cell in table.columns[name][is_text]):
        advice = "write numbers as 1234.5, or add {} if these are names"
        raise ColumnProblem(table, name, table.at(name, first_text), advice, "categorical")
    _check_integers(table, name, values)


def _check_integers(table: Table, name: str, values: NDArray[np.float64]) -> None:
    """Compare whole numbers that float64 does not hold as they were written: as floats, all ids may be equal."""
    column, rows = table.columns[name], np.flatnonzero(~np.isnan(values))
    if column.dtype.kind == "f" or not len(rows) or np.abs(values[rows]).max() < EXACT:
        return
    whole = [int(exact(cell)) if isinstance(cell, str) else int(cell) for cell in column[rows]]
    lowest = min(whole)
    offsets = np.array([number - lowest for number in whole], dtype=float)[:, None]
    advice = f"drop it with {table.advised('drop', name)}, or add {table.option('categorical', name)}"
    check_apart([f"{table.file}: column {name!r}"], values[rows].astype(np.float32)[:, None], offsets, advice)


def as_numbers(column: NDArray) -> NDArray[np.float64]:
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


def exact(text: str) -> int | float:
    """A number as `_number` reads it, but exact where float64 is not."""
    number = _number(text)
    return int(Decimal(text.strip())) if EXACT <= abs(number) <= LARGEST else number


def texts(table: Table, name: str) -> NDArray[np.object_]:
    """The column as text; missing values are 'missing'."""
    return np.where(table.missing[name], "missing", as_texts(table.columns[name]))


def as_texts(column: NDArray) -> NDArray[np.object_]:
    """A column as text without blanks around it; 2.0 is '2'."""
    if column.dtype == object:
        return np.array([cell.strip() for cell in column], dtype=object)
    return np.array([text.removesuffix(".0") for text in (column + 0).astype(str).tolist()], dtype=object)  # + 0: no -0


ENOUGH = 20  # rows: with fewer, numbers may all differ by chance
WORDS = {"guid", "id", "index", "key", "nr", "number", "uuid"}  # that the names of identifiers end in
LISTED = 20  # columns that a sentence names


def _identifiers_found(table: Table, names: Sequence[str]) -> Finding:
    """Say which columns look like identifiers, and how to drop them.

    They stay features: a table may have a column whose values all differ and mean something.
    """
    have = "has" if len(names) == 1 else "have"
    return Finding(
        "id-columns",
        f"{listed(names, LISTED)} {have} a different value in every row",
        f"to drop identifiers, add {table.option('drop', *names)}",
        number=len(names),
        examples=tuple(names),
    )


def is_identifier(name: str, values: NDArray, rows: NDArray[np.int64], test: NDArray | None = None) -> bool:
    """Whether no value repeats, and they are text, or whole numbers that count the rows or are called an id.

    `rows` are the places of the values in the file, of which they may be a share. Numbers in any order may count the
    rows of training and test together.
    """
    if len(values) < ENOUGH:
        return False
    if values.dtype != object and not _may_number(name, values, rows, test):
        return False
    return _all_differ(values)


def _all_differ(values: NDArray) -> bool:
    return len(set(values.tolist())) == len(values)


def _may_number(name: str, values: NDArray, rows: NDArray[np.int64], test: NDArray | None) -> bool:
    words = re.findall(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*", name)
    is_called_so = bool(words) and words[-1].lower() in WORDS
    every = values if test is None else np.concatenate([values, test])
    counts_all = np.ptp(every) == len(every) - 1 and _all_differ(every)
    counts_rows = np.ptp(values) == len(values) - 1 or 0 in (np.ptp(values - rows), np.ptp(values + rows))
    return (is_called_so or bool(counts_rows or counts_all)) and bool((values == np.rint(values)).all())


MAX_CATEGORIES = 100  # of a column
LABEL = "label"  # the column of classes, unless another is named
MISSING_POLICIES = ("fill", "refuse", "drop")
LIKELY = (2, 100)  # values of a column that could be the label
NAMED = 8  # such columns in a sentence

Names = Sequence[str]  # of columns


def check_label(table: Table, label: str) -> None:
    """Refuse a column whose values mostly occur once: these are no classes."""
    if label in table.columns and tells_rows_apart(table.columns[label]):
        number = len(set(table.columns[label].tolist()))
        given = f"{table.file}: the label {label!r} has {number:,} different values in {len(table):,} rows"
        raise InputError(f"{given}, most of them once: name a column of classes{_likely_labels(table)}.")


def tells_rows_apart(column: NDArray) -> bool:
    """Whether there are many values, most of which occur once."""
    counts = list(Counter(column.tolist()).values())
    return len(counts) >= ENOUGH and 2 * counts.count(1) > len(counts)


def crowded_columns(train: Table, names: Names) -> dict[str, int]:
    """The columns of text with more categories than a network takes, and how many they have."""
    crowded = dict[str, int]()
    for name in names:
        if train.columns[name].dtype != object:
            continue
        cells = train.columns[name][~train.missing[name]].tolist()
        if not cells or not np.isnan(_number(cells[0])):  # before all cells of a column of numbers are gone through
            continue
        number = len(set(cells))
        if number > MAX_CATEGORIES and _are_texts(cells):
            crowded[name] = number
    return crowded


def _are_texts(cells: Sequence[str]) -> bool:
    """Whether no cell is a number, nor are all of them numbers that were written oddly."""
    if not np.isnan([_number(cell) for cell in cells]).all():
        return False
    return not all(NUMBERLIKE.fullmatch(cell.strip()) for cell in cells)


def crowded_found(train: Table, crowded: Mapping[str, int]) -> Finding:
    """Say which columns are left out for their many categories."""
    columns = enumerated([f"{in_list(name)} {number:,}" for name, number in crowded.items()], LISTED)
    return Finding(
        "id-columns",
        f"text columns of more than {MAX_CATEGORIES} values are left out ({columns})",
        f"{train.option('drop', *crowded)} confirms this",
        number=len(crowded),
        examples=tuple(crowded),
    )


def encode(
    train: Table,
    test: Table | None,
    *,
    label: str,
    group: str | None = None,
    categorical: Names = (),
    drop: Names = (),
    missing: str | None = None,
    noticed: list[Finding] | None = None,
) -> tuple[Data, Data | None]:
    """(train, test) with the features, categories and medians of `train`; a category new in `test` is all zeros.

    What a user should know of the columns goes into `noticed`.
    """
    noticed = [] if noticed is None else noticed
    tables = [train] if test is None else [train, test]
    names = feature_columns(tables, label, group, categorical, drop)
    classes, labels = label_codes(tables, label)
    as_written = _as_numbers(tables, names, categorical)
    masks = complete_rows(tables, names, missing)
    if missing is None and (gaps := _missing_found(tables, names)):
        noticed.append(gaps)
    kept, identifiers = train.file_rows(np.flatnonzero(masks[0])), list[str]()

    def encoded(name: str) -> tuple[Column, list[NDArray]]:
        columns: list[NDArray] = list(as_written[name] or (texts(table, name) for table in tables))
        values = [column[rows] for column, rows in zip(columns, masks, strict=True)]
        categories = tuple(sorted(set(values[0]))) if as_written[name] is None else None
        if categories and len(categories) > MAX_CATEGORIES:
            count = f"{len(categories):,} categories, and {MAX_CATEGORIES} are allowed"
            raise ColumnProblem(train, name, f"{train.file}: column {name!r} has {count}", "drop it with {}", "drop")
        if is_identifier(name, values[0], kept, *values[1:]):
            identifiers.append(name)
        median = float(np.nanmedian(values[0])) if categories is None else None
        column = Column(name=name, categories=categories, median=median, fills=missing in (None, "fill"))
        return column, [column.encoded(rows) for rows in values]

    encoding, blocks = zip(*of_columns(names, encoded).values(), strict=True)  # a block of each column and table
    if identifiers:
        noticed.append(_identifiers_found(train, identifiers))
    splits = [
        Data(
            np.hstack([block[i] for block in blocks]),
            labels[i][rows],
            classes,
            encoding=encoding,
            names=table.row_names(np.flatnonzero(rows)),
            label=label,
            groups=None if group is None else group_texts(table, group)[rows],
        )
        for i, (table, rows) in enumerate(zip(tables, masks, strict=True))
    ]
    return splits[0], splits[1] if test is not None else None


def _as_numbers(tables: list[Table], names: Names, categorical: Names) -> dict[str, list[NDArray[np.float64]] | None]:
    """Each column in each table; None if it is text."""
    return of_columns(names, lambda name: None if name in categorical else numbers(tables, name))


def digests(tables: list[Table], names: Names, categorical: Names) -> list[NDArray[np.void]]:
    """(N,) of each table: a hash of each row, equal if every feature is, in float32 as networks take it."""
    codes = []
    for name, columns in _as_numbers(tables, names, categorical).items():
        if columns is None:
            values: NDArray = np.concatenate([texts(table, name) for table in tables])
        else:
            values = np.concatenate(columns).astype(np.float32)
        codes.append(np.unique(values, return_inverse=True)[1])
    return np.split(row_digests(np.stack(codes, axis=1)), [len(tables[0])])


def features(table: Table, columns: Sequence[Column]) -> tuple[NDArray[np.float32], list[str], dict[int, str]]:
    """(n, features) of new rows, encoded as the training rows of a network were; other columns are ignored.

    And a sentence on each column with categories that training did not have, and one on each row that is left out: a
    value is missing in it, or no number.
    """
    blocks, notes, left_out = [], [], dict[int, str]()
    filled = []
    for column in columns:
        values, faults = _values(table, column)
        left_out = faults | left_out
        block = column.encoded(values)
        blocks.append(block)
        missing = int(table.missing[column.name].sum())
        if missing and column.fills:
            filled.append(f"{in_list(column.name)} {missing:,}")
        unseen = np.setdiff1d(np.flatnonzero(~block.any(axis=1)), list(faults))
        if column.categories is not None and len(unseen):
            first = f"the first is {brief(values[unseen[0]])} in {table.row_names(unseen[:1])[0]}"
            count = f"{len(unseen):,} of {len(values):,} rows"
            notes.append(f"{column.name}: {count} have a category that training did not have; {first}.")
    if filled:
        notes.append(f"Missing values were filled as in training ({enumerated(filled, NAMED)}).")
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
    needs = "missing values need a network that was trained with --missing fill (in Python missing='fill')"
    faults = {row: needs for row in np.flatnonzero(missing & (not column.fills)).tolist()}
    values: NDArray = texts(table, name) if column.categories is not None else as_numbers(table.columns[name])
    if column.categories is None:
        values = np.where(missing, np.nan, values)
        wrong = np.flatnonzero(~missing & ~(np.abs(values) <= LARGEST)).tolist()
        faults |= dict.fromkeys(wrong, "the network was trained on numbers such as 1234.5")
        values[wrong] = np.nan
    return values, {row: f"{table.at(name, row)}: {fault}." for row, fault in faults.items()}


def feature_columns(
    tables: Sequence[Table], label: str, group: str | None, categorical: Names = (), drop: Names = ()
) -> list[str]:
    """The columns of the first table that are features, if every table has exactly these."""
    train = tables[0]
    if label not in train.names:
        raise _no_label(label, train)
    _check_options(tables, label, {"categorical": categorical, "drop": drop})
    used = [[name for name in table.names if name not in drop] for table in tables]
    only = [sorted(set(names) - set(others)) for names, others in zip(used, used[::-1], strict=True)]
    if any(only):
        differing = [
            f"only {table.file} has {listed(extra, LISTED)}" for table, extra in zip(tables, only, strict=True) if extra
        ]
        raise InputError(f"{_files(tables)} must have the same columns: {'; '.join(differing)}.")
    check_roles(tables, label, group)
    used = [[name for name in names if name not in (label, group)] for names in used]
    for table, names in zip(tables, used, strict=True):
        of_columns(names, partial(_check_column, table, table is train))
    if not used[0]:
        usable = f"another column, of numbers or of at most {MAX_CATEGORIES} different texts"
        raise InputError(f"{train.file} has no features: beside the label {label!r} it needs {usable}.")
    return used[0]


def check_roles(tables: Sequence[Table], label: str, group: str | None) -> None:
    """Refuse a label or group that a table does not have, or whose type is neither numbers nor text."""
    roles = {"label": label} | ({} if group is None else {"group": group})
    for table in tables:
        for role, name in roles.items():
            if name not in table.names:
                raise _no_label(label, table) if role == "label" else no_column(role, name, table.file, table.names)
            if name in table.unusable:
                given = f"column {name!r} has type {table.unusable[name]}, not numbers or text"
                raise InputError(f"{table.file}: {given}: name another {role}.")
    if group == label:
        raise InputError(f"group {label!r} is the label of {tables[0].file}: name another column.")


def _check_column(table: Table, learns: bool, name: str) -> None:
    """Refuse one that holds neither numbers nor text, or nothing that a training table could teach."""
    if name in table.unusable:
        given = f"{table.file}: column {name!r} has type {table.unusable[name]}, not numbers or text"
        raise ColumnProblem(table, name, given, "drop it with {}", "drop")
    if learns and table.missing[name].all():
        given = f"{table.file}: column {name!r} is missing in every row"
        raise ColumnProblem(table, name, given, "drop it with {}", "drop")


def _check_options(tables: Sequence[Table], label: str, options: dict[str, Names]) -> None:
    """Refuse options that name the label, or a column that no table has."""
    columns = list(dict.fromkeys(name for table in tables for name in table.names if name != label))
    for option, names in options.items():
        role = tables[0].option(option)
        if label in names:
            raise InputError(
                f"{role} names {label!r}, the label of {tables[0].file}: give others, as {listed(columns, LISTED)}."
            )
        for name in names:
            if name not in columns:
                raise no_column(role, name, _files(tables), columns)


def _no_label(label: str, table: Table) -> InputError:
    if label == LABEL:
        return InputError(f"{table.file} has no column {label!r}: name the column of classes{_likely_labels(table)}.")
    return no_column("label", label, table.file, table.names)


def _likely_labels(table: Table) -> str:
    """' with --label churn (2 values), plan (3 values)': the columns that could be the label."""
    few, many = LIKELY
    values = {name: len(set(column[~table.missing[name]].tolist())) for name, column in table.columns.items()}
    likely = [name for name in values if few <= values[name] <= min(many, len(table) // 2)]
    if not likely:
        return f" with {table.advised('label', 'COLUMN')}; there are {listed(table.names, LISTED)}"
    fewest_first = [f"{in_list(name)} ({values[name]} values)" for name in sorted(likely, key=values.__getitem__)]
    option = "label=" if table.is_frame else "--label (in Python label=)"
    return f" with {option}; it could be {enumerated(fewest_first, NAMED)}"


def no_column(role: str, name: str, file: str, names: list[str]) -> InputError:
    hint = f"did you mean {near!r}? There" if (near := nearest(name, names)) else "there"
    return InputError(f"no column {name!r} in {file} for {role}: {hint} are {listed(names, LISTED)}.")


def _files(tables: Sequence[Table]) -> str:
    return " and ".join(dict.fromkeys(table.file for table in tables))


def label_codes(tables: Sequence[Table], label: str) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The class names, in order over all tables, and the labels of each table."""
    names = list[NDArray]()
    for table in tables:
        column = table.columns[label]
        # of text only blanks are missing: a class may be called 'None'
        blank = np.array([not cell.strip() for cell in column]) if column.dtype == object else table.missing[label]
        if blank.any():
            raise _blank(table, label, blank, "label")
        names.append(as_texts(column))
    classes = sorted({name for column in names for name in column})
    values = {name: exact(name) for name in classes}
    if not any(value != value for value in values.values()):  # no NaN: every name is a number
        classes.sort(key=values.__getitem__)
        for name, following in pairwise(classes):
            if values[name] == values[following]:
                raise InputError(f"{_files(tables)}: labels {name!r} and {following!r} are the same number.")
    index = {name: i for i, name in enumerate(classes)}
    return classes, [np.array([index[name] for name in column], dtype=np.int64) for column in names]


def group_texts(table: Table, group: str) -> NDArray[np.object_]:
    """The column of groups, if every row has one."""
    if (blank := table.missing[group]).any():
        raise _blank(table, group, blank, "group")
    return as_texts(table.columns[group])


def _blank(table: Table, name: str, blank: NDArray[np.bool_], role: str) -> InputError:
    rows = f", and in {int(blank.sum()) - 1:,} more rows" if blank.sum() > 1 else ""
    return InputError(f"{table.at(name, int(blank.argmax()))}{rows}: it is the {role}, and every row needs one.")


def complete_rows(tables: Sequence[Table], names: list[str], policy: str | None) -> list[NDArray[np.bool_]]:
    """(N,) of each table: the rows that stay."""
    incomplete = _incomplete(missing_counts(tables, names))
    if incomplete and policy == "refuse":
        fill = tables[0].advised("missing", "fill")
        drop = tables[0].option("missing", "drop")
        advice = f"{fill} uses training medians and a category 'missing', {drop} leaves those rows out"
        raise InputError(f"{_files(tables)}: values are missing ({incomplete}): {advice}.")
    masks = [~np.any([table.missing[name] & (policy == "drop") for name in names], axis=0) for table in tables]
    for table, rows in zip(tables, masks, strict=True):
        if not rows.any():
            fill = table.advised("missing", "fill")
            drop = table.option("missing", "drop")
            raise InputError(f"{table.file}: {drop} leaves no row ({incomplete} missing): use {fill}.")
    return masks


def missing_counts(tables: Sequence[Table], names: Names) -> dict[str, int]:
    """How many values are missing in each column that lacks any."""
    counts = {name: sum(int(table.missing[name].sum()) for table in tables) for name in names}
    return {name: count for name, count in counts.items() if count}


def _incomplete(counts: Mapping[str, int]) -> str:
    return enumerated([f"{in_list(name)} {count:,}" for name, count in counts.items()], 10)


def _missing_found(tables: Sequence[Table], names: Names) -> Finding | None:
    """Say how many values are missing in which columns, and what replaces them."""
    counts = missing_counts(tables, names)
    if not counts:
        return None
    drop = tables[0].option("missing", "drop")
    return Finding(
        "missing-values",
        f"values are missing ({_incomplete(counts)})",
        f"they are filled; {drop} leaves those rows out",
        number=sum(counts.values()),
        examples=tuple(counts),
    )


Cells = list[str | int | float | None]


def row_cells(table: Table, name: str, role: str) -> Cells:
    """The column as it was written: text, numbers, or None where a number is missing."""
    if name not in table.names:
        raise no_column(role, name, table.file, table.names)
    if name in table.unusable:
        kind = f"has type {table.unusable[name]}, not numbers or text"
        raise InputError(f"{table.file}: column {name!r} {kind}: name another {role}.")
    column = table.columns[name]
    if column.dtype == object:
        return column.tolist()
    return [None if missing else cell for cell, missing in zip(column.tolist(), table.missing[name], strict=True)]


def row_labels(table: Table, name: str) -> list[str]:
    """The column as names of classes, as training reads them; "" where there is none."""
    missing = [cell is None for cell in row_cells(table, name, "label")]
    return np.where(missing, "", as_texts(table.columns[name])).tolist()
