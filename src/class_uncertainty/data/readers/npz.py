"""The one reader of .npy and .npz files, whoever wrote them: it unpickles nothing and trusts no claimed size.

Arrays become Data under the names x_train and y_train, or X and y, and optionally x_test and y_test.
"""

import io
import math
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from class_uncertainty.data.class_names import factorise
from class_uncertainty.data.dataset import align
from class_uncertainty.data.examples import Data
from class_uncertainty.errors import InputError
from class_uncertainty.io import SCRATCH, check_regular
from class_uncertainty.text import read_faults, reason

T = TypeVar("T")
Loaded = NDArray | NpzFile

DENSEST = 1100  # bytes that deflate makes of one, at most: a little over what its format allows
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}  # (3, 0) is for records with names


def read_arrays(path: str | Path, pick: Callable[[Loaded], T], advice: str = "give a .npy or .npz file") -> T:
    """What `pick` takes from a .npy or .npz file; a file that cannot be read is refused in one sentence.

    A large .npy file is mapped into memory, and may be larger than memory.
    """
    path = Path(path)
    failure = "is not a .npy or .npz file of numbers or text"
    # ignored are warnings about unusual headers, which NumPy reads all the same
    with read_faults(path, failure), warnings.catch_warnings(action="ignore"):
        if not path.exists():
            raise InputError(f"{path} does not exist: {advice}.")
        check_regular(path)
        with open(path, "rb") as file:
            _check_sizes(file)
            large = path.stat().st_size > SCRATCH and not zipfile.is_zipfile(file)
            file.seek(0)
            return pick(np.load(path if large else file, mmap_mode="c" if large else None, allow_pickle=False))


def arrays_in(content: bytes) -> dict[str, NDArray]:
    """The arrays of a .npz file in memory, by name; a damaged one is an InputError, which is a ValueError."""
    file = io.BytesIO(content)
    with read_faults("the archive of arrays", "is damaged"), warnings.catch_warnings(action="ignore"):
        _check_sizes(file)
        loaded = np.load(file, allow_pickle=False)
        return {name: loaded[name] for name in loaded.files}


def read_splits(path: Path, group: str | None = None) -> tuple[Data, Data | None]:
    """The training data, x_train and y_train or X and y, and the test data, x_test and y_test, if there are any.

    Groups are the array of that name, or those that end in _train and _test.
    """
    arrays = read_arrays(path, by_lower_case)
    x, y = ("x_train", "y_train") if "x_train" in arrays else ("x", "y")
    test_arrays = {"x_test", "y_test"} & arrays.keys()
    if not {x, y} <= arrays.keys() or len(test_arrays) == 1:
        needed = "x_train and y_train, or X and y, and perhaps x_test and y_test"
        raise InputError(f"{path} holds {', '.join(arrays) or 'nothing'}: it must hold {needed}.")
    train = _data(path, x, y, arrays, group and _array_name(path, arrays, group, "_train"))
    if not test_arrays:
        return train, None
    return align(train, _data(path, "x_test", "y_test", arrays, group and _array_name(path, arrays, f"{group}_test")))


def _array_name(path: Path, arrays: dict[str, NDArray], name: str, ending: str = "") -> str:
    """The array of that name in any case, with or without the ending."""
    for given in (name.lower(), name.lower() + ending):
        if given in arrays:
            return given
    raise InputError(f"{path} holds {', '.join(arrays)}: there is no array {name!r} of groups.")


def by_lower_case(loaded: Loaded) -> dict[str, NDArray]:
    """The arrays by their names in lower case; the array of a .npy file, which has no name, is x."""
    if isinstance(loaded, np.ndarray):
        return {"x": loaded}
    arrays = {name.lower(): loaded[name] for name in loaded.files}
    if len(arrays) < len(loaded.files):
        raise ValueError(f"names differ only in case ({', '.join(loaded.files)})")
    return arrays


def _data(path: Path, x: str, y: str, arrays: dict[str, NDArray], group: str | None) -> Data:
    inputs, values = arrays[x], arrays[y]
    if values.ndim == 2 and values.shape[1] == 1:  # as Keras has them
        values = values[:, 0]
    try:
        if values.ndim != 1 or values.dtype.kind not in "iuUSb":
            given = f"shape {values.shape} and type {values.dtype}"
            raise InputError(f"{y} has {given}: labels are whole numbers or text, one per example.")
        labels, classes = factorise(np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values)
        return Data(channels_first(x, inputs), labels, classes, groups=None if group is None else arrays[group])
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {y} holds text that is not UTF-8 ({error.reason} in {error.object!r}).") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, SystemError) as error:  # numbers in the place of characters
        raise InputError(f"{path}: {y} holds text that is not Unicode ({reason(error)}).") from None


def channels_first(x: str, inputs: NDArray) -> NDArray:
    """Images (N, H, W), (N, H, W, channels) or (N, channels, H, W) as the last of these; Data judges anything else."""
    if inputs.ndim in (3, 4) and inputs.dtype != np.uint8:
        raise InputError(f"{x} has shape {inputs.shape} and type {inputs.dtype}: images are uint8, from 0 to 255.")
    if inputs.ndim == 3:
        return inputs[:, None]
    if inputs.ndim == 4 and inputs.shape[3] in (1, 3, 4) and inputs.shape[1] not in (1, 3):
        return np.ascontiguousarray(inputs.transpose(0, 3, 1, 2))
    return inputs


def _check_sizes(file: IO[bytes]) -> None:
    """Refuse arrays that claim more bytes than the file can hold, before memory is allocated; rewind the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(len(npy.MAGIC_PREFIX))
    file.seek(0)
    if start == npy.MAGIC_PREFIX:
        _check_header(file, size)
    elif start.startswith(b"PK"):
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if member.compress_size > size or member.file_size > DENSEST * member.compress_size:
                    raise ValueError(f"{member.filename} claims {member.file_size:,} bytes, and the file has {size:,}")
                with archive.open(member) as content:
                    _check_header(content, member.file_size)
    else:
        raise ValueError("it starts like neither")
    file.seek(0)


def _check_header(content: IO[bytes], size: int) -> None:
    version = npy.read_magic(content)
    if version not in HEADERS:
        raise ValueError(f"its arrays have version {version}, and (1, 0) and (2, 0) are read")
    shape, _, dtype = HEADERS[version](content)
    if min(shape, default=0) < 0 or math.prod(shape) * max(dtype.itemsize, 1) > size:
        raise ValueError(f"an array claims the shape {shape} and type {dtype}, and there are {size:,} bytes")
