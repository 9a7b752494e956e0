"""Images: the pixels are those that Pillow reads, in any format; an unreadable image is refused by name."""

import io
import os
import struct
import threading
import time
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from refusals import refused

from class_uncertainty.data import images as module
from class_uncertainty.data.images import BATCH, SIDE, decode, default_size, jpeg
from class_uncertainty.errors import InputError, MachineFault

NAME = "holiday/1.png"
READ = f"{NAME} cannot be read as an image: "
H, W = 6, 9
COLOUR = np.random.default_rng(20231114).integers(0, 256, (H, W, 3), dtype=np.uint8)
GREY = COLOUR[:, :, 0]


def encoded(image, kind, **options):
    file = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(file, kind, **options)
    return file.getvalue()


def one(content, size=(H, W), channels=3):
    """The pixels of one picture, (H, W, channels) as Pillow has them."""
    (batch,) = decode([(lambda: content, NAME)], size, channels)
    assert batch.dtype == np.uint8
    assert batch.shape == (1, channels, *size)
    assert batch.flags.c_contiguous
    return batch[0].transpose(1, 2, 0)


def smooth(height, width):
    """Waves of three colours: a picture that looks much the same at every size."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [np.sin(7 * x + 3 * y), np.cos(5 * x * y + 1), np.sin(9 * y - 2 * x)]
    return (np.stack(waves, axis=2) * 110 + 128).astype(np.uint8)


# Every format.


LOSSLESS = {
    "PNG": encoded(COLOUR, "PNG"),
    "PNG, optimised": encoded(COLOUR, "PNG", optimize=True),
    "WebP": encoded(COLOUR, "WEBP", lossless=True),
    "BMP": encoded(COLOUR, "BMP"),
    "TIFF": encoded(COLOUR, "TIFF"),
    "TIFF, compressed": encoded(COLOUR, "TIFF", compression="tiff_deflate"),
    "PPM": encoded(COLOUR, "PPM"),
    "TGA": encoded(COLOUR, "TGA"),
}


@pytest.mark.parametrize("kind", LOSSLESS)
def test_lossless_pictures_come_back_as_they_were(kind):
    assert np.array_equal(one(LOSSLESS[kind]), COLOUR)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP", "TIFF", "PPM"])
def test_grey_pictures_are_equal_in_all_channels(kind):
    content = encoded(GREY, kind, **({"lossless": True} if kind == "WEBP" else {}))
    assert np.array_equal(one(content), np.repeat(GREY[:, :, None], 3, axis=2))


PALETTE = Image.fromarray(COLOUR).quantize(16)
BITS = Image.fromarray(GREY > 100)
CONVERTED = {
    "palette PNG": encoded(PALETTE, "PNG"),
    "palette BMP": encoded(PALETTE, "BMP"),
    "GIF": encoded(PALETTE, "GIF"),
    "1-bit PNG": encoded(BITS, "PNG"),
    "1-bit TIFF": encoded(BITS, "TIFF"),
    "JPEG": encoded(COLOUR, "JPEG"),
    "grey JPEG": encoded(GREY, "JPEG"),
    "CMYK JPEG": encoded(Image.fromarray(COLOUR).convert("CMYK"), "JPEG"),
    "CMYK TIFF": encoded(Image.fromarray(COLOUR).convert("CMYK"), "TIFF"),
    "progressive JPEG": encoded(COLOUR, "JPEG", progressive=True),
    "lossy WebP": encoded(COLOUR, "WEBP", quality=50),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", CONVERTED)
def test_pixels_are_pillows_own(kind, channels):
    with Image.open(io.BytesIO(CONVERTED[kind])) as image:
        expected = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    assert np.array_equal(one(CONVERTED[kind], channels=channels), expected.reshape(H, W, channels))


def test_a_moving_picture_gives_its_first_frame():
    frames = [Image.fromarray(COLOUR).quantize(16), Image.fromarray(255 - COLOUR).quantize(16)]
    content = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert np.array_equal(one(content), np.asarray(frames[0].convert("RGB")))


def test_colours_become_grey_by_their_luma():
    luma = COLOUR @ np.array([0.299, 0.587, 0.114])
    assert np.abs(one(LOSSLESS["PNG"], channels=1)[:, :, 0] - luma).max() <= 1


def test_a_phones_jpeg_with_a_second_picture_in_it_and_those_after_it():
    """Pillow calls it MPO, and knows no reader of that name."""
    second = Image.fromarray(255 - COLOUR)
    content = encoded(COLOUR, "MPO", save_all=True, append_images=[second])
    with Image.open(io.BytesIO(content)) as image:
        assert image.format == "MPO"
        expected = np.asarray(image).transpose(2, 0, 1)
    (batch,) = decode([(lambda: content, NAME)] * 3, (H, W), 3)
    assert np.array_equal(batch, [expected] * 3)


@pytest.mark.parametrize("first", [*LOSSLESS, *CONVERTED])
def test_the_format_of_one_picture_says_nothing_of_the_next(first):
    kinds = LOSSLESS | CONVERTED
    alone = {
        kind: np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).transpose(2, 0, 1)
        for kind, content in kinds.items()
    }
    order = [kind for second in kinds for kind in (first, second)]
    (batch,) = decode([(lambda content=kinds[kind]: content, kind) for kind in order], (H, W), 3)
    assert [kind for kind, pixels in zip(order, batch, strict=True) if not np.array_equal(pixels, alone[kind])] == []


# Transparency.


ALPHA = np.linspace(0, 255, H * W).astype(np.uint8).reshape(H, W)


def on_white(colour, alpha):
    share = alpha[:, :, None] / 255
    return colour * share + 255 * (1 - share)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_what_is_transparent_is_white(kind):
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    pixels = one(encoded(np.dstack([COLOUR, ALPHA]), kind, **options))
    assert np.abs(pixels - on_white(COLOUR, ALPHA)).max() <= 1
    assert (pixels[ALPHA == 0] == 255).all()
    assert np.array_equal(pixels[ALPHA == 255], COLOUR[ALPHA == 255])


def test_grey_with_transparency():
    content = encoded(Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(ALPHA)]), "PNG")
    expected = on_white(GREY[:, :, None], ALPHA)
    assert np.abs(one(content, channels=1) - expected).max() <= 1
    assert np.abs(one(content) - expected).max() <= 1


@pytest.mark.parametrize(
    ("degrees", "apart"), [(b"\0" + b"\xff" * 15, 0), (bytes(range(0, 256, 16)), 1)], ids=["one colour", "degrees"]
)
def test_a_palette_with_transparency(degrees, apart):
    content = encoded(PALETTE, "PNG", transparency=degrees)
    expected = on_white(np.asarray(PALETTE.convert("RGB")), np.frombuffer(degrees, np.uint8)[np.asarray(PALETTE)])
    assert np.abs(one(content) - expected).max() <= apart


def test_a_transparent_grey():
    content = encoded(GREY, "PNG", transparency=int(GREY[2, 3]))
    assert np.array_equal(one(content, channels=1)[:, :, 0], np.where(GREY[2, 3] == GREY, 255, GREY))


# More than eight bits.


DEEP = np.linspace(0, 2**16 - 1, H * W).astype(np.uint16).reshape(H, W)


@pytest.mark.parametrize(("kind", "bits"), [("PNG", "u2"), ("TIFF", "u2"), ("TIFF", ">u2"), ("TIFF", "i4")])
def test_sixteen_bits_are_divided_not_cut_off(kind, bits):
    content = encoded(DEEP.astype(bits), kind)
    expected = np.array([value >> 8 for value in DEEP.flat]).reshape(H, W)
    assert np.array_equal(one(content, channels=1)[:, :, 0], expected)
    assert np.array_equal(one(content), np.repeat(expected[:, :, None], 3, axis=2))


TOO_DEEP = {
    "float": (np.linspace(0, 1, H * W, dtype=np.float32).reshape(H, W), "float32 from 0 to 1"),
    "not numbers": (np.full((H, W), np.nan, dtype=np.float32), "float32"),
    "negative": (DEEP.astype(np.int32) - 1, "int32 from -1 to 65534"),
    "large": (DEEP.astype(np.int32) + 1, "int32 from 1 to 65536"),
}


@pytest.mark.parametrize("kind", TOO_DEEP)
def test_values_of_other_kinds_are_refused(kind):
    values, told = TOO_DEEP[kind]
    with refused(READ, told, "8 or 16 bits"):
        one(encoded(values, "TIFF"))


# Orientation.


UPRIGHT = {  # what to do with the rows and columns as they are stored
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: a.transpose(1, 0, 2)[:, ::-1],
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: a.transpose(1, 0, 2)[::-1],
}


def held(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_orientation(orientation, kind):
    content = encoded(COLOUR, kind, exif=held(orientation), **({"lossless": True} if kind == "WEBP" else {}))
    with Image.open(io.BytesIO(encoded(COLOUR, kind))) as plain:  # the pixels as they are stored, lossy or not
        expected = UPRIGHT[orientation](np.asarray(plain) if kind == "JPEG" else COLOUR)
    assert np.array_equal(one(content, expected.shape[:2]), expected)


@pytest.mark.parametrize("orientation", [0, 9, 1000])
def test_an_orientation_that_does_not_exist_is_none(orientation):
    assert np.array_equal(one(encoded(COLOUR, "PNG", exif=held(orientation))), COLOUR)


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_default_size_is_of_the_picture_as_it_is_seen(orientation):
    content = encoded(COLOUR, "PNG", exif=held(orientation))
    assert default_size((lambda: content, NAME)) == UPRIGHT[orientation](COLOUR).shape[:2]


# Sizes.


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(4, 4), (6, 8), (3, 17), (40, 40), (7, 2), (1, 1)])
def test_another_size_is_pillows_own_fit(size, channels):
    expected = ImageOps.fit(
        Image.fromarray(COLOUR).convert("RGB" if channels == 3 else "L"), size[::-1], Image.Resampling.BICUBIC
    )
    assert np.array_equal(one(LOSSLESS["PNG"], size, channels), np.asarray(expected).reshape(*size, channels))


@pytest.mark.parametrize("tall", [False, True])
def test_the_middle_is_kept_and_nothing_is_stretched(tall):
    thirds = np.repeat(np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], dtype=np.uint8), 40, axis=1).repeat(
        40, axis=0
    )
    pixels = one(encoded(thirds.transpose(1, 0, 2) if tall else thirds, "PNG"), (10, 10))
    assert (pixels.argmax(axis=2) == 1).all()


@pytest.mark.parametrize(
    ("height", "width", "size"), [(900, 1200, (32, 32)), (1200, 900, (24, 48)), (700, 650, (64, 64))]
)
def test_a_large_jpeg_is_decoded_small(height, width, size):
    """And is nearly what it would be if it were decoded whole; not quite, or it was."""
    content = encoded(smooth(height, width), "JPEG", quality=95)
    with Image.open(io.BytesIO(content)) as image:
        whole = np.asarray(ImageOps.fit(image, size[::-1], Image.Resampling.BICUBIC)).astype(int)
    apart = np.abs(one(content, size) - whole)
    assert 0 < apart.mean() < 1.5
    assert apart.max() < 12


def test_a_tall_jpeg_keeps_its_detail_across():
    stripes = (
        np.where(np.arange(128) % 8 < 4, 50, 200).astype(np.uint8)[None, :, None].repeat(1024, axis=0).repeat(3, axis=2)
    )
    pixels = one(encoded(stripes, "JPEG", quality=95), (8, 64))
    assert np.ptp(pixels[4, 8:-8].astype(int), axis=0).min() > 120


@pytest.mark.parametrize("orientation", [3, 6])
def test_a_large_jpeg_that_is_turned(orientation):
    pixels = smooth(600, 1200)
    upright = np.ascontiguousarray(UPRIGHT[orientation](pixels))
    whole = np.asarray(ImageOps.fit(Image.fromarray(upright), (40, 20), Image.Resampling.BICUBIC)).astype(int)
    apart = np.abs(one(encoded(pixels, "JPEG", quality=95, exif=held(orientation)), (20, 40)) - whole)
    assert apart.mean() < 2


@pytest.mark.parametrize(
    ("size", "own"),
    [
        ((5, 9), (5, 9)),
        ((SIDE, SIDE), (SIDE, SIDE)),
        ((SIDE, 1), (SIDE, 1)),
        ((SIDE + 1, 3), (64, 64)),
        ((3, SIDE + 1), (64, 64)),
    ],
)
def test_default_size_is_the_first_pictures_up_to_64(size, own):
    assert default_size((lambda: encoded(np.zeros((*size, 3), dtype=np.uint8), "PNG"), NAME)) == own


# What cannot be read.


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


# Batches.


def small(i):
    return np.random.default_rng(i).integers(0, 256, (2, 2, 3), dtype=np.uint8)


SMALL = [b"P6 2 2 255\n" + small(i).tobytes() for i in range(2 * BATCH + 1)]


@pytest.mark.parametrize("large", [0, 2**14], ids=["threads", "one thread"])
@pytest.mark.parametrize("number", [0, 1, 2, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 2 * BATCH + 1])
def test_batches_are_in_order_and_complete(monkeypatch, number, large):
    monkeypatch.setattr(module, "LARGE", large)
    batches = list(decode([(lambda i=i: SMALL[i], str(i)) for i in range(number)], (2, 2), 3))
    assert [len(batch) for batch in batches] == [BATCH] * (number // BATCH) + [number % BATCH] * (number % BATCH > 0)
    pixels = np.concatenate([*batches, np.empty((0, 3, 2, 2), dtype=np.uint8)])
    assert np.array_equal(pixels, [small(i).transpose(2, 0, 1) for i in range(number)] or pixels)


def test_pictures_are_read_as_they_are_needed():
    """No more than a batch of them is in memory."""
    asked = []

    def pictures():
        for i in range(2 * BATCH):
            asked.append(i)
            yield (lambda: SMALL[0]), str(i)

    batches = decode(pictures(), (2, 2), 3)
    assert asked == []
    next(batches)
    assert len(asked) <= BATCH + 1


def test_threads_keep_the_order_and_large_pictures_have_them(monkeypatch):
    """The first of them are the slowest."""
    monkeypatch.setattr(module, "BATCH", 12)
    used = set()

    def read(i):
        used.add(threading.get_ident())
        time.sleep(0.01 if i % 12 < 3 else 0)
        return SMALL[i]

    for large in (len(SMALL[0]), len(SMALL[0]) + 1):
        used.clear()
        monkeypatch.setattr(module, "LARGE", large)
        pixels = np.concatenate(list(decode([(lambda i=i: read(i), str(i)) for i in range(30)], (2, 2), 3)))
        assert np.array_equal(pixels, [small(i).transpose(2, 0, 1) for i in range(30)])
        assert bool(used - {threading.get_ident()}) == (large == len(SMALL[0]))


def test_all_broken_pictures_are_named_in_order_in_threads_too(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)

    def late(i):
        time.sleep(0.02 if i == 2 else 0)
        return b"" if i in (2, 5) else SMALL[i]

    with refused("2 files cannot be read as images: picture 2 (the file is empty), picture 5 ("):
        list(decode([(lambda i=i: late(i), f"picture {i}") for i in range(9)], (2, 2), 3))


def test_pillows_warnings_are_as_they_were_between_and_after_batches():
    """Two that take turns are no exception: the filters belong to the whole process."""
    before = list(warnings.filters)
    pictures = [(lambda: SMALL[0], "x")] * (BATCH + 1)
    first, second = decode(pictures, (2, 2), 3), decode(pictures, (2, 2), 3)
    for batches in (first, second, first, second):
        next(batches)
    between = list(warnings.filters)
    for batches in (first, second):
        batches.close()
    after = list(warnings.filters)
    warnings.filters[:] = before  # whatever happened
    assert between == before
    assert after == before


# A JPEG round trip.


@pytest.mark.parametrize("quality", [95, 30])
def test_jpeg_is_a_file_of_pillows(quality):
    pictures = np.stack([smooth(16, 24), 255 - smooth(16, 24), np.resize(COLOUR, (16, 24, 3))])
    batches = [pictures[:2].transpose(0, 3, 1, 2), pictures[2:].transpose(0, 3, 1, 2)]
    given = [batch.copy() for batch in batches]
    back = list(jpeg(iter(batches), quality))
    assert [batch.shape for batch in back] == [(2, 3, 16, 24), (1, 3, 16, 24)]
    for picture, pixels in zip(pictures, np.concatenate(back), strict=True):
        with Image.open(io.BytesIO(encoded(picture, "JPEG", quality=quality, subsampling=2))) as image:  # 2 is 4:2:0
            assert np.array_equal(pixels.transpose(1, 2, 0), np.asarray(image))
        assert not np.array_equal(pixels.transpose(1, 2, 0), picture)
    assert all(np.array_equal(batch, copy) for batch, copy in zip(batches, given, strict=True))


def test_jpeg_halves_the_resolution_of_colours():
    """Stripes of one pixel, red and blue by turns, run together; at full resolution they would not."""
    stripes = np.where((np.arange(16) % 2)[:, None], [200, 0, 0], [0, 0, 200]).astype(np.uint8)[None].repeat(16, axis=0)
    with Image.open(io.BytesIO(encoded(stripes, "JPEG", quality=95, subsampling="4:4:4"))) as image:
        whole = np.abs(np.asarray(image).astype(int) - stripes).mean()
    halved = np.abs(
        next(jpeg([stripes.transpose(2, 0, 1)[None]], 95))[0].transpose(1, 2, 0).astype(int) - stripes
    ).mean()
    assert halved > 10 * whole


def test_no_other_program_is_started(tmp_path, monkeypatch):
    """Pillow would hand PostScript to Ghostscript."""
    ghostscript = tmp_path / "gs"
    ghostscript.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    with refused("drawing cannot be read as an image: its format is none of"):
        list(decode([(lambda: drawing, "drawing")], (8, 8), 3))
    with refused("drawing cannot be read as an image: its format is none of"):
        default_size((lambda: drawing, "drawing"))
    assert not (tmp_path / "started").exists()
