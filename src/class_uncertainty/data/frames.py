"""DataFrames of pandas, polars and Arrow as tables; none of these libraries is imported unless a frame is given."""

from dataclasses import replace
from numbers import Number
from typing import Any

from class_uncertainty.data.table import Table, from_arrow
from class_uncertainty.text import read_faults

FRAME = "the DataFrame"  # in messages, as a file has its name


def table_of(frame: Any, name: str = FRAME) -> Table:
    """The columns of a frame, as those of a Parquet file that it was written to; an index is left out."""
    import pyarrow

    with read_faults(name, "cannot be read"):
        if hasattr(frame, "iloc"):  # of pandas
            return _table_of_pandas(frame, name)
        if hasattr(frame, "__arrow_c_stream__"):
            return from_arrow(name, pyarrow.table(frame), is_frame=True)
        import pyarrow.interchange

        return from_arrow(name, pyarrow.interchange.from_dataframe(frame), is_frame=True)


def _table_of_pandas(frame: Any, name: str) -> Table:
    """Column by column, since one that Arrow does not take may be dropped."""
    import pyarrow

    names, columns = [str(label) for label in frame.columns], [_arrow(frame.iloc[:, i]) for i in range(frame.shape[1])]
    other = [label for label, column in zip(names, columns, strict=True) if column is None]
    arrays = [pyarrow.nulls(len(frame)) if column is None else column for column in columns]
    table = from_arrow(name, pyarrow.table(arrays, names=names), is_frame=True)
    usable = {label: column for label, column in table.columns.items() if label not in other}
    return replace(table, columns=usable, unusable=table.unusable | dict.fromkeys(other, "object"))


def _arrow(column: Any) -> Any:
    """A column of pandas for Arrow; numbers among text become text, as in a CSV file. None for other objects."""
    import pyarrow

    try:
        return pyarrow.array(column, from_pandas=True)
    except (pyarrow.ArrowNotImplementedError, OverflowError):  # such as complex numbers, and whole ones beyond 64 bits
        return None
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        cells, missing = column.to_numpy(dtype=object), column.isna().to_numpy(dtype=bool)
        if not all(isinstance(cell, str | Number) for cell in cells[~missing]):
            return None
        return pyarrow.array([None if null else str(cell) for cell, null in zip(cells, missing, strict=True)])
