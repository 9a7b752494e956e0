"""Arrays of numbers in MATLAB 5 files, as SVHN comes in. SciPy reads more of them, and a damaged one ends its process."""

import math
import struct
import zlib
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
LARGEST = 2**30  # bytes of one array; the largest original has 225 million
Element = tuple[int, memoryview]  # what it is, and its content


def read_arrays(content: bytes, names: Collection[str]) -> dict[str, NDArray]:
    """Those of the names that are there; what is wrong with the file is a ValueError or a zlib.error."""
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
            parts = _elements(body)
            _, (_, shape), (_, name) = next(parts), next(parts), next(parts)
            if (text := bytes(name).decode("latin1")) in names:
                arrays[text] = _array(np.frombuffer(shape, "<i4").tolist(), next(parts))
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
    """One after the other, padded to 8 bytes unless they are compressed; those of up to 4 bytes lie in their tag."""
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
