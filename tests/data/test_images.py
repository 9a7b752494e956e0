"""Images: the pixels are those that Pillow reads, in any format; an unreadable image is refused by name."""

import io

import numpy as np
import pytest
from data.encoded_images import COLOUR, NAME, READ, H, W, encoded, one, smooth
from PIL import Image, ImageOps
from refusals import refused

from class_uncertainty.data.images import SIDE, decode, default_size

GREY = COLOUR[:, :, 0]


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
