"""Encoded images (PNG, JPEG, WebP and others that Pillow reads) as uint8 arrays of one size."""

import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.finding import DataProblem
from class_uncertainty.errors import InputError, blame_machine
from class_uncertainty.text import enumerated, reason

if TYPE_CHECKING:
    from PIL.Image import Image

PIXELS = 2**26  # of one image at most: a small file can claim a huge one
SIDE = 64  # larger images are downscaled to SIDE×SIDE unless a size is given
BATCH = 256
FEW = 3  # images that cannot be read and are named
UNREADABLE = "cannot be read as an image"
LARGE = 2**14  # bytes of an encoded image from which threads pay: for small ones Pillow mostly holds the interpreter
FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP")  # Pillow starts programs for others
ORIENTATION = 0x0112  # the EXIF tag
NOTES_ORIENTATION = {"exif", "Raw profile type exif", "XML:com.adobe.xmp", "xmp"}  # looking it up elsewhere takes time

ImageSource = tuple[Callable[[], bytes], str]  # how to read an image's bytes, and its name in a message


def default_size(first: ImageSource) -> tuple[int, int]:
    """(H, W) of the first image if it is small, else SIDE twice."""
    with _opened(first) as image:
        width, height = image.size
        if max(width, height) > SIDE:
            return SIDE, SIDE
        sideways = image.getexif().get(ORIENTATION, 1) >= 5
        return (width, height) if sideways else (height, width)


def common_size(images: Iterable[ImageSource]) -> tuple[int, int]:
    """The default size by the first image that can be read; others are left to `decode`."""
    for source in images:
        with suppress(InputError):
            return default_size(source)
    return SIDE, SIDE


def shorter_side(source: ImageSource) -> int:
    """In pixels; of the file only its header is decoded."""
    with _opened(source) as image:
        return min(image.size)


@contextmanager
def _opened(source: ImageSource) -> Iterator["Image"]:
    read, name = source
    with _image_faults(name), _bombs_refused(), _open(read(), []) as image:
        yield image


def decode(
    images: Iterable[ImageSource],
    size: tuple[int, int],
    channels: int,
    skipped: dict[int, str] | None = None,
    advice: str = "",
) -> Iterator[NDArray[np.uint8]]:
    """Batches (n, channels, H, W) in order. Other sizes are scaled and cropped at the centre, not stretched.

    Images that cannot be read are refused in one sentence, with the option that would leave them out as `advice`, or
    left out where `skipped` is given: the place and the reason of each go there.
    """
    unreadable = dict[int, str]() if skipped is None else skipped
    # the format of the last image, which is tried first: Pillow tries one after the other
    likely: list[str] = []

    def decode_one(numbered: tuple[int, ImageSource]) -> NDArray[np.uint8] | None:
        place, (read, name) = numbered
        try:
            with _image_faults(name), _open(read(), likely) as image:
                likely[:] = [image.format] if image.format in FORMATS else []  # Pillow may call a phone's JPEG MPO
                return np.asarray(_fit(image, size, channels)).reshape(*size, channels)
        except InputError as error:
            unreadable[place] = str(error)
            return None

    remaining = iter(enumerate(images))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while batch := list(islice(remaining, BATCH)):
            in_threads = False
            with suppress(Exception):  # an image that cannot be read is refused below, by its name
                in_threads = len(batch[0][1][0]()) >= LARGE
            with _bombs_refused():
                decoded = list(pool.map(decode_one, batch) if in_threads else map(decode_one, batch))
            if readable := [pixels for pixels in decoded if pixels is not None]:
                yield np.ascontiguousarray(np.stack(readable).transpose(0, 3, 1, 2))
    if skipped is None and unreadable:
        sentence = _all_unreadable([unreadable[place] for place in sorted(unreadable)], advice)
        raise DataProblem(sentence, {"skip": "unreadable"})


def _all_unreadable(sentences: list[str], advice: str) -> str:
    """One sentence on all images that cannot be read, from a sentence on each."""
    helps = f"; {advice} leaves out what cannot be read." if advice else "."
    if len(sentences) == 1:
        return sentences[0].removesuffix(".") + helps
    named = [f"{sentence.removesuffix('.').replace(f' {UNREADABLE}: ', ' (', 1)})" for sentence in sentences]
    return f"{len(named):,} files cannot be read as images: {enumerated(named, FEW)}{helps}"


@contextmanager
def _bombs_refused() -> Iterator[None]:
    from PIL import Image

    with warnings.catch_warnings(action="ignore"):  # about odd metadata, which is not used
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


@contextmanager
def _image_faults(name: str) -> Iterator[None]:
    """Turn any error of Pillow's readers, which raise nearly anything on a damaged file, into one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if not isinstance(error, PermissionError):
            blame_machine(name, error)
        why = reason(error)
        if "DecompressionBomb" in type(error).__name__:
            why = f"it has more than the {PIXELS:,} pixels that are allowed"
        if "cannot identify image file" in why:
            why = f"its format is none of {', '.join(FORMATS)}"
        raise InputError(f"{name} {UNREADABLE}: {why}.") from error


def _open(content: bytes, likely: list[str]) -> "Image":
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise ValueError("the file is empty")
    if likely:
        with suppress(UnidentifiedImageError):
            return Image.open(io.BytesIO(content), formats=likely)
    return Image.open(io.BytesIO(content), formats=FORMATS)


def _fit(image: "Image", size: tuple[int, int], channels: int) -> "Image":
    from PIL import Image, ImageOps

    if image.width * image.height > PIXELS:
        raise ValueError(f"it has {image.width} x {image.height} pixels, and {PIXELS:,} are allowed")
    height, width = size
    image.draft(None, (2 * width, 2 * height))  # a large JPEG is decoded at a half, a quarter or an eighth
    noted = image.info.keys() & NOTES_ORIENTATION or image.format == "TIFF"
    if noted and image.getexif().get(ORIENTATION, 1) != 1:  # a camera held upright
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        image = _eight_bits(image)
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    mode = {1: "L", 3: "RGB"}[channels]
    if image.mode != mode:
        image = image.convert(mode)
    return image if image.size == (width, height) else ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC)


def _eight_bits(image: "Image") -> "Image":
    """Grey values of 16 bits scaled to 8: Pillow would cut them off at 255."""
    from PIL import Image

    values = np.asarray(image)
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= 2**16:
        raise ValueError(f"its values are {values.dtype} from {values.min():g} to {values.max():g}, not 8 or 16 bits")
    return Image.fromarray((values // 256).astype(np.uint8))


def jpeg(batches: Iterable[NDArray[np.uint8]], quality: int) -> Iterator[NDArray[np.uint8]]:
    """Batches (n, 3, H, W) after a round trip through JPEG with halved colour resolution."""
    from PIL import Image

    def round_trip(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling="4:2:0")
        return np.asarray(Image.open(file))

    for batch in batches:
        yield np.stack([round_trip(pixels) for pixels in batch.transpose(0, 2, 3, 1)]).transpose(0, 3, 1, 2)
