"""Data sets from DataFrames, with the options that CSV files have as keywords, and from arrays."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import Array, Frame, check, check_least, is_frame, take
from class_uncertainty.data.class_names import factorise
from class_uncertainty.data.dataset import Dataset, LeftOut, notice_reading
from class_uncertainty.data.examples import Data
from class_uncertainty.data.finding import Finding, notice_findings
from class_uncertainty.data.frames import table_of
from class_uncertainty.data.spec import Spec
from class_uncertainty.data.splits import REPEATS_POLICIES
from class_uncertainty.data.table import Table
from class_uncertainty.data.table_splits import TableOptions, encode_splits
from class_uncertainty.data.tabular import EXACT, LABEL, MISSING_POLICIES, tells_rows_apart
from class_uncertainty.errors import InputError, unknown

TEST_FRAME = "the test DataFrame"


def dataset_of(frame: Any, seed: int, test: Any = None, **columns: Any) -> Dataset:
    """`load` for a frame: `test` is a share or another frame; the name of the data set has all options."""
    shares = test is not None and not is_frame(test)
    table = table_options(**columns, share=test if shares else None, seed=seed)
    options = {option: value for option, value in columns.items() if value} | ({"test": test} if shares else {})
    query = {option: ",".join(several(value)) for option, value in options.items()}
    test_table = table_of(test, TEST_FRAME) if is_frame(test) else None
    return _encoded(str(Spec("frame", options=query)), table_of(frame), test_table, table)


def dataset_from(data: Any, y: Any = None, label: str | None = None, is_told: bool = True) -> Dataset:
    """What a workflow was given, as a data set: a Dataset, Data, a DataFrame with its label, or examples and labels.

    What was noticed of a DataFrame or of labels is logged where `is_told` is true.
    """
    check(Dataset | Data | Frame | Array, data=data)
    check(Array | None, y=y)
    check(str | None, label=label)
    if isinstance(data, Dataset | Data):
        if y is not None or label is not None:
            given = "label" if y is None else "y"
            raise InputError(f"{given} is given, and {type(data).__name__} has labels of its own: leave it out.")
        return data if isinstance(data, Dataset) else Dataset("data", data)
    if y is not None and label is not None:
        raise InputError(f"label is {label!r}, and y has labels too: give one of them.")
    if is_frame(data):
        dataset = dataset_of(data, 0, label=label) if y is None else _frame_with_labels(data, y)
    elif y is None:
        raise InputError("data is an array, and has no labels: give them as y, one for each example.")
    else:
        codes, classes = factorise(_label_values(y))
        dataset = Dataset("data", Data(data, codes, classes))
    if is_told:
        notice_reading(dataset)
    return dataset


def _frame_with_labels(frame: Any, y: Any) -> Dataset:
    table = table_of(frame)
    values = _label_values(y)
    if len(values) != len(table):
        raise InputError(f"there are {len(table):,} rows and {len(values):,} labels in y: give as many.")
    name = str(getattr(y, "name", None) or "y")
    if name in table.names:
        raise InputError(f"{table.file} has the column {name!r}, as y is called: leave it out, or rename y.")
    labels = values.astype(object) if values.dtype.kind == "U" else values
    labelled = replace(
        table, columns=table.columns | {name: labels}, missing=table.missing | {name: np.zeros(len(values), dtype=bool)}
    )
    return _encoded(str(Spec("frame", options={"label": name})), labelled, None, table_options(name))


def _label_values(y: Any) -> NDArray:
    """(N,) names, or whole numbers."""
    values = np.asarray(y)
    if values.dtype == object:
        values = np.array(values.tolist())
    if values.ndim != 1:
        raise InputError(f"y has the shape {values.shape}: give one label for each example.")
    if values.dtype.kind == "b":
        return values.astype(str)
    if values.dtype.kind == "f":
        is_whole = (values == np.rint(values)) & (np.abs(values) < EXACT)  # NaN is not
        for example in np.flatnonzero(~is_whole):
            raise InputError(f"y is {values[example]:g} for example {example}: labels are names or whole numbers.")
        values = values.astype(np.int64)
    if tells_rows_apart(values):
        number = len(np.unique(values))
        raise InputError(f"y has {number:,} different values in {len(values):,} examples: labels name few classes.")
    return values


def _encoded(name: str, train: Table, test: Table | None, options: TableOptions) -> Dataset:
    left_out = list[LeftOut]()
    noticed = list[Finding]()
    splits = encode_splits(train, test, options, left_out, noticed)
    return Dataset(name, *splits, tuple(left_out), noticed=tuple(noticed))


def data_of(frame: Any, **columns: Any) -> Data:
    """`Data.from_frame`."""
    noticed = list[Finding]()
    data, _ = encode_splits(table_of(frame), None, table_options(**columns), [], noticed)
    notice_findings(noticed)
    return data


def table_options(
    label: str | int | None = None,
    group: str | int | None = None,
    categorical: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: str | None = None,
    repeats: str | None = None,
    min: int | None = None,
    **others: Any,
) -> TableOptions:
    """Options of tables from keywords."""
    check(str | int | None, label=label, group=group)
    categorical = take(str | list[str], categorical=categorical)
    drop = take(str | list[str], drop=drop)
    check(str | None, missing=missing, repeats=repeats)
    if missing is not None and missing not in MISSING_POLICIES:
        raise unknown("missing", missing, MISSING_POLICIES)
    if repeats is not None and repeats not in REPEATS_POLICIES:
        raise unknown("repeats", repeats, REPEATS_POLICIES)
    if min is not None:
        check_least("min", min, 1)
    return TableOptions(
        label=LABEL if label is None else str(label),
        group=None if group is None else str(group),
        categorical=several(categorical),
        drop=several(drop),
        missing=missing,
        drops_repeats=repeats == "drop",
        least=min or 0,
        **others,
    )


def several(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
