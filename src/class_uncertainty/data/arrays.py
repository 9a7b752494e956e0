"""NumPy's own files, .npy and .npz, that anyone may have written."""

import math
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from class_uncertainty.errors import blame_machine
from class_uncertainty.files import SCRATCH, check_regular
from class_uncertainty.text import reason

DENSEST = 1100  # bytes that deflate makes of one, at most: a little over what its format allows
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}  # (3, 0) is for records with names


@contextmanager
def opened(path: Path) -> Iterator[NDArray | NpzFile]:
    """What np.load gives, which unpickles nothing here. Nothing is allocated that the file is too small to hold: that is a ValueError.

    A large .npy file is mapped into memory, and may be larger than it.
    """
    check_regular(path)
    with open(path, "rb") as file, warnings.catch_warnings():  # NumPy would leave a broken file open
        warnings.simplefilter("ignore")  # of how a header is written, which NumPy reads all the same
        size = os.fstat(file.fileno()).st_size
        try:
            _check_claims(file, size)
        except Exception as error:  # a header is a Python expression, and a damaged one raises nearly anything
            blame_machine(path, error)
            raise ValueError(reason(error)) from error
        file.seek(0)
        large = size > SCRATCH and not zipfile.is_zipfile(file)
        file.seek(0)
        loaded = np.load(path if large else file, mmap_mode="c" if large else None, allow_pickle=False)
        if not isinstance(loaded, np.ndarray | NpzFile):
            raise ValueError("it holds no array")
        yield loaded


def _check_claims(file: IO[bytes], size: int) -> None:
    """That every array has room in its file, by the sizes that the headers claim."""
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
                    if content.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                        content.seek(0)
                        _check_header(content, member.file_size)


def _check_header(content: IO[bytes], size: int) -> None:
    version = npy.read_magic(content)
    if version not in HEADERS:
        raise ValueError(f"its arrays have version {version}, and (1, 0) and (2, 0) are read")
    shape, _, dtype = HEADERS[version](content)
    if min(shape, default=0) < 0 or math.prod(shape) * max(dtype.itemsize, 1) > size:
        raise ValueError(f"an array claims the shape {shape} and type {dtype}, and there are {size:,} bytes")
