"""SVHN, cropped digits, from train_32x32.mat and test_32x32.mat, which are MATLAB 5 files.

The reader of that format is our own: on a damaged file, SciPy's may crash the process.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.cache import Decoding
from class_uncertainty.errors import InputError
from class_uncertainty.io import read_regular
from class_uncertainty.text import reason

DIGITS = tuple("0123456789")
MATRIX, COMPRESSED = 14, 15  # types of elements
NUMBERS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
LARGEST = 2**30  # bytes of one array; the largest original has 225 million
Element = tuple[int, memoryview]  # its type, and its content


def find(root: Path, split: str) -> Path | None:
    """The original file of a split, if it is there."""
    file = root / f"{split}_32x32.mat"
    return file if file.is_file() else None


def decoding(file: Path) -> Decoding:
    """The images of a file: X (32, 32, 3, N) and y (N, 1), where 10 stands for the digit 0."""
    try:
        arrays = _read_matlab(read_regular(file))
        pixels, labels = arrays["X"], arrays["y"].ravel()
    except (ValueError, KeyError, StopIteration, zlib.error) as error:
        raise InputError(f"{file} is damaged or not the original ({type(error).__name__}: {reason(error)}).") from error
    if pixels.dtype != np.uint8 or pixels.shape != (32, 32, 3, *labels.shape) or labels.dtype.kind not in "iuf":
        raise InputError(f"{file} holds X {pixels.shape} {pixels.dtype} and y {labels.shape}: it is not the original.")
    for row in np.flatnonzero(~np.isin(labels, np.arange(1, 11))):
        raise InputError(f"{file} has the label {labels[row]} in row {row}: labels run from 1 to 10.")
    return Decoding(labels.astype(np.int64) % 10, DIGITS, (3, 32, 32), iter([pixels.transpose(3, 2, 0, 1)]))


def _read_matlab(content: bytes) -> dict[str, NDArray]:
    """The arrays X and y; a damaged file raises ValueError, StopIteration or zlib.error."""
    if content[124:128] != b"\x00\x01IM":
        raise ValueError("it is no MATLAB 5 file")
    arrays = {}
    for kind, body in _elements(memoryview(content)[128:]):
        if kind == COMPRESSED:
            unpacker = zlib.decompressobj()
            unpacked = unpacker.decompress(body, LARGEST)
            if not unpacker.eof:
                raise ValueError("an array is cut off, or too large")
            kind, body = next(_elements(memoryview(unpacked)), (0, body))
        if kind == MATRIX:
            elements = _elements(body)
            _, (_, shape), (_, name) = next(elements), next(elements), next(elements)
            if (text := bytes(name).decode("latin1")) in ("X", "y"):
                arrays[text] = _array(np.frombuffer(shape, "<i4").tolist(), next(elements))
    return arrays


def _array(shape: list[int], numbers: Element) -> NDArray:
    kind, body = numbers
    if kind not in NUMBERS:
        raise ValueError(f"an array has values of the type {kind}")
    values = np.frombuffer(body, NUMBERS[kind])
    if min(shape, default=0) < 0 or math.prod(shape) != len(values):
        raise ValueError(f"an array claims the shape {shape}, and has {len(values):,} values")
    return values.reshape(shape, order="F")


def _elements(content: memoryview) -> Iterator[Element]:
    """Each element in turn: padded to 8 bytes unless compressed; up to 4 bytes lie in the tag itself."""
    at = 0
    while at < len(content):
        if at + 8 > len(content):
            raise ValueError("it is cut off")
        kind, size = struct.unpack_from("<II", content, at)
        start = at + 8
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + size > len(content):
            raise ValueError("it is cut off")
        yield kind, content[start : start + size]
        at = start + size if kind == COMPRESSED else start + size + -(start + size - at) % 8
