"""Values that no public call takes: of wrong types, out of range, and objects that fail when they are looked at."""

import datetime
import decimal
import fractions
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import torch
from hypothesis import strategies as st

import class_uncertainty as cu


class Hostile:
    """Nothing that anyone asks of it works."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("no array")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None


def nested() -> list:
    inside: list = []
    inside.append(inside)
    return inside


PLAIN: list[Any] = [
    *(None, "", "x", "naive", "a\nb\x1b[31m", "\0", "\ud800", "x" * 300),
    *(b"x", bytearray(b"x"), memoryview(b"ab"), Path("x")),
    *(True, False, -1, 0, 1, 2, 2**31, 2**62, 2**63, -(2**63), 10**400, -(10**400), 10**5000),
    *(0.5, 1.0, -0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf"), 1 + 2j),
    *(fractions.Fraction(1, 2), decimal.Decimal("0.5"), datetime.date(2000, 1, 1)),
    *(object(), ..., types.SimpleNamespace(train=1)),
    *((), (0.5,), (0, 2), (1, 2, 3), ("a", "b"), (None,), frozenset({1}), range(3), range(0)),
    *(int, dict, cu.Data, print),
    *([], {}, {1, 2}, {"a": 1}, Hostile(), nested(), lambda *_: 1),
    *([1, 2], [0.5, 0.5], ["a", "b"], [[1], [1, 2]], [None], [10**400, 1]),
    *(np.int64(-1), np.uint8(1), np.float32("nan"), np.float16(0.5), np.longdouble(2), np.bool_(True), np.str_("x")),
    *(np.datetime64("2000"), np.complex64(1), np.array(3.0), np.array(None), np.array([1, None, "a"], dtype=object)),
    *(np.zeros(shape) for shape in (0, 2, 3, (0, 2), (2, 0), (2, 3), (1, 2, 3), (2, 0, 2), (1, 1, 1, 1), (1,) * 8)),
    *(np.ones(3, dtype) for dtype in ("?", "i1", "u8", "f2", "f8", "c8", "U3", "S3", "V4", "M8[s]", "m8[s]", "O")),
    *(np.full(3, fill) for fill in (np.nan, np.inf, -1, 1e300, 2**62, 10**12)),
    *(pandas.DataFrame(), pandas.DataFrame({"a": [1, "x", None], "b": [object()] * 3}), pandas.Series([1, 2])),
    *(pandas.DataFrame({"age": [1.0, 2.0], "label": ["x", "y"]}), pyarrow.table({"age": [1], "label": ["x"]})),
    *(np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), torch.ones(3), torch.ones(2, 2, requires_grad=True)),
    torch.full((1, 2, 3), 1 / 3, dtype=torch.bfloat16),
]
GENERATORS = st.sampled_from([lambda: iter([1]), lambda: (i for i in range(2))]).map(lambda make: make())
WRONG = (
    st.sampled_from(PLAIN)
    | GENERATORS
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.integers() | st.floats() | st.text(max_size=3))
)
