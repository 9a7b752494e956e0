"""Data sets from DataFrames, with the options that CSV files have as keywords."""

from collections.abc import Sequence
from typing import Any

from class_uncertainty.checks import check, check_least, is_frame, take
from class_uncertainty.data.class_names import notice_twins
from class_uncertainty.data.dataset import Dataset, LeftOut
from class_uncertainty.data.examples import Data
from class_uncertainty.data.frames import table_of
from class_uncertainty.data.spec import Spec
from class_uncertainty.data.splits import REPEATS_POLICIES
from class_uncertainty.data.table_splits import TableOptions, encode_splits
from class_uncertainty.data.tabular import LABEL, MISSING_POLICIES
from class_uncertainty.errors import unknown

TEST_FRAME = "the test DataFrame"


def dataset_of(frame: Any, seed: int, test: Any = None, **columns: Any) -> Dataset:
    """`load` for a frame: `test` is a share or another frame; the name of the data set has all options."""
    shares = test is not None and not is_frame(test)
    table = table_options(**columns, share=test if shares else None, seed=seed)
    options = {option: value for option, value in columns.items() if value} | ({"test": test} if shares else {})
    query = {option: ",".join(several(value)) for option, value in options.items()}
    left_out = list[LeftOut]()
    train, test_table = table_of(frame), table_of(test, TEST_FRAME) if is_frame(test) else None
    splits = encode_splits(train, test_table, table, left_out)
    notice_twins(splits[0].classes)
    return Dataset(str(Spec("frame", options=query)), *splits, tuple(left_out))


def data_of(frame: Any, **columns: Any) -> Data:
    """`Data.from_frame`."""
    return encode_splits(table_of(frame), None, table_options(**columns), [])[0]


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
