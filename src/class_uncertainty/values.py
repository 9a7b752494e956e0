"""Values of users: what they are, and how they read in a sentence."""

import re
from reprlib import Repr
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.text import printable

WIDTH = 60  # characters of a value in a sentence


def shortly(value: object) -> str:
    """A value on one short line, without memory addresses."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and type {printable(value.dtype)}"
    if is_frame(value):
        return f"a DataFrame of {type(value).__module__.partition('.')[0]}"
    if isinstance(value, type):
        return f"the class {printable(value.__qualname__)}"
    limits = Repr()
    limits.maxstring = limits.maxlong = WIDTH
    limits.maxother = 10**4  # cut below, once addresses are removed
    try:
        text = re.sub(r" at 0x[0-9A-Fa-f]+", "", limits.repr(value))
    except Exception:  # a failing repr, or a number of too many digits
        text = f"<{type(value).__name__}>"
    text = printable(" ".join(text.split()))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def span(numbers: NDArray[np.float64]) -> str:
    """'0.1 to 0.9', or '1' where all are alike."""
    low, high = f"{numbers.min():.3g}", f"{numbers.max():.3g}"
    return low if low == high else f"{low} to {high}"


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame, of pandas, polars or Arrow: it has columns, and hands them to other libraries."""
    kind = type(value)
    return hasattr(kind, "columns") and any(hasattr(kind, way) for way in ("__arrow_c_stream__", "__dataframe__"))


def is_pandas(frame: Any) -> bool:
    return hasattr(frame, "iloc")
