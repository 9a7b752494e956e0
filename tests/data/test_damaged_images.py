"""Images that are too large, cut, damaged or out of reach are refused by name."""

import struct
import warnings
import zlib

import numpy as np
import pytest
from data.encoded_images import NAME, READ, SMALL, encoded, one, smooth
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from class_uncertainty.data.images import BATCH, decode, default_size
from class_uncertainty.errors import InputError, MachineFault


def claims(width, height):
    """A PNG file that is whole but for its pixels, which are far fewer than it says."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "ask",
    [one, lambda content: default_size((lambda: content, NAME)) and one(content)],
    ids=["decode", "own size first"],
)
@pytest.mark.parametrize("size", [(60_000, 60_000), (12_000, 12_000), (9000, 9000), (8193, 8192), (2**26 + 1, 1)])
def test_a_small_file_that_claims_to_be_huge(size, ask):
    """Refused before memory is taken, without a word from Pillow."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with refused(READ, "pixels"):
            ask(claims(*size))
    assert [str(warning.message) for warning in told] == []


def test_the_largest_picture_that_is_allowed():
    with refused(READ, "truncated"):
        one(claims(8192, 8192))


WHOLE = {
    "PNG": encoded(smooth(40, 50), "PNG"),
    "JPEG": encoded(smooth(40, 50), "JPEG"),
    "WebP": encoded(smooth(40, 50), "WEBP"),
    "lossless WebP": encoded(smooth(40, 50), "WEBP", lossless=True),
    "BMP": encoded(smooth(40, 50), "BMP"),
    "GIF": encoded(smooth(40, 50), "GIF"),
    "TIFF": encoded(smooth(40, 50), "TIFF"),
    "PPM": encoded(smooth(40, 50), "PPM"),
}


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("kind", WHOLE)
def test_a_cut_file_is_refused_by_name(kind, share):
    content = WHOLE[kind]
    with refused(READ):
        one(content[: int(len(content) * share)], (8, 8))


NONE_OF = "its format is none of BMP, GIF, JPEG,"
NOTHING = {
    "text": (b"not a picture, at all\nreally\n", NONE_OF),
    "zeros": (bytes(5000), NONE_OF),
    "noise": (np.random.default_rng(1).bytes(5000), NONE_OF),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'></svg>", NONE_OF),
    "empty": (b"", "the file is empty."),
}


@pytest.mark.parametrize("ask", [one, lambda content: default_size((lambda: content, NAME))], ids=["decode", "size"])
@pytest.mark.parametrize(("content", "told"), NOTHING.values(), ids=NOTHING)
def test_what_is_no_picture_is_refused_by_name(content, told, ask):
    with refused(READ + told):
        ask(content)


def complaint(content):
    """Of what cannot be read; of anything else, just how one would begin."""
    try:
        one(content, (8, 8))  # which checks the shape
    except InputError as error:
        return str(error)
    return READ


@pytest.mark.parametrize("kind", WHOLE)
def test_noise_after_the_first_bytes(kind):
    """Pillow may take it for a picture; then it has the right shape."""
    content = WHOLE[kind][:16] + np.random.default_rng(2).bytes(2000)
    assert complaint(content).startswith(READ)


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(WHOLE)),
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=12),
    st.floats(0.1, 1),
)
def test_a_damaged_file_gives_pixels_or_is_refused_by_name(kind, changes, share):
    content = bytearray(WHOLE[kind])
    for place, change in changes:
        content[int(place**3 * (len(content) - 1))] ^= change  # more often near the start, where the headers are
    content = bytes(content[: int(len(content) * share)])
    assert complaint(content).startswith(READ)
    assert "\n" not in complaint(content)


def gone():
    raise FileNotFoundError(2, "No such file or directory", "x")


def without_bytes():
    raise ValueError("there are no bytes")


def in_two_lines():
    raise OSError("it is gone.\nReally.")


@pytest.mark.parametrize("read", [gone, without_bytes, in_two_lines, lambda: None, lambda: 5])
@pytest.mark.parametrize("at", [0, 1, BATCH - 1, BATCH, BATCH + 1])
def test_bytes_that_cannot_be_had_are_refused_by_name(at, read):
    pictures = [(lambda: SMALL[0], f"picture {i}") for i in range(BATCH + 2)]
    pictures[at] = (read, NAME)
    with refused(READ):
        list(decode(pictures, (2, 2), 3))


def test_a_disk_that_fails_is_no_fault_of_the_picture():
    def failing():
        raise OSError(5, "Input/output error")

    for read in (lambda: default_size((failing, NAME)), lambda: list(decode([(failing, NAME)], (2, 2), 3))):
        with pytest.raises(MachineFault, match=f"{NAME} could not be read: Input/output error"):
            read()


def test_the_reading_of_default_size_is_refused_by_name():
    with refused(READ, "No such file or directory"):
        default_size((gone, NAME))


def test_a_lack_of_memory_is_no_fault_of_the_picture():
    def too_much():
        raise MemoryError

    with pytest.raises(MemoryError):
        list(decode([(lambda: SMALL[0], "first"), (too_much, NAME)], (2, 2), 3))
