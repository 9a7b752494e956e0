"""Encoded pictures (PNG, JPEG, WebP, whatever Pillow reads) as uint8 arrays of one size."""

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

from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.text import reason

if TYPE_CHECKING:
    from PIL.Image import Image

PIXELS = 2**26  # of one picture: a small file can claim a huge one
SIDE = 64  # the size of pictures that come larger than this, where none is asked for
BATCH = 256
LARGE = 2**14  # bytes of an encoded picture from which threads pay: Pillow holds the interpreter for most of a small one

FORMATS = (
    "BMP",
    "GIF",
    "JPEG",
    "JPEG2000",
    "PNG",
    "PPM",
    "TGA",
    "TIFF",
    "WEBP",
)  # not all that Pillow reads: for some it starts other programs
EXIF = {"exif", "Raw profile type exif", "XML:com.adobe.xmp", "xmp"}  # where files note it; looking into those that do not takes time

Named = tuple[Callable[[], bytes], str]  # how to get a picture's bytes, and what it is called in a message


def own_size(first: Named) -> tuple[int, int]:
    """(H, W) of the first picture if it is small, SIDE twice if not: the size where none is asked for."""
    from PIL import Image

    read, name = first
    try:
        with _bombs_refused(), Image.open(io.BytesIO(read()), formats=FORMATS) as image:
            width, height = image.size
            if max(width, height) > SIDE:
                return SIDE, SIDE
            return (width, height) if image.getexif().get(0x0112, 1) >= 5 else (height, width)  # from 5 on, on its side
    except Exception as error:
        raise _unreadable(name, error) from error


def decode(pictures: Iterable[Named], size: tuple[int, int], channels: int) -> Iterator[NDArray[np.uint8]]:
    """Batches (n, channels, H, W) in order. A picture of another size keeps its middle: its shorter sides are cut to, never stretched."""

    known: list[str] = []  # the format of the last picture: the next one's too, as a rule, and Pillow tries one after the other

    def one(picture: Named) -> NDArray[np.uint8]:
        read, name = picture
        try:
            with _opened(read(), known) as image:
                known[:] = [image.format] if image.format in FORMATS else []  # a phone's JPEG may have become another format
                return np.asarray(_fitted(image, size, channels)).reshape(*size, channels)
        except MemoryError:
            raise
        except Exception as error:  # Pillow's readers raise nearly anything on a damaged file
            raise _unreadable(name, error) from error

    rest = iter(pictures)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while batch := list(islice(rest, BATCH)):
            side_by_side = False
            with suppress(Exception):  # a picture that cannot be read is refused below, by its name
                side_by_side = len(batch[0][0]()) >= LARGE
            with _bombs_refused():
                pixels = np.stack(list(pool.map(one, batch) if side_by_side else map(one, batch)))
            yield np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


@contextmanager
def _bombs_refused() -> Iterator[None]:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd metadata, which nobody asked for
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _opened(content: bytes, formats: list[str]) -> "Image":
    from PIL import Image, UnidentifiedImageError

    if formats:
        with suppress(UnidentifiedImageError):
            return Image.open(io.BytesIO(content), formats=formats)
    return Image.open(io.BytesIO(content), formats=FORMATS)


def _unreadable(name: str, error: Exception) -> InputError | MachineFault:
    if isinstance(error, InputError):
        return error
    if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):  # Pillow's own have no errno
        return MachineFault(f"{name} could not be read: {error.strerror}.")
    why = reason(error)
    if "DecompressionBomb" in type(error).__name__:
        why = f"it has more than the {PIXELS:,} pixels that are allowed"
    if "cannot identify image file" in why:
        why = f"no picture that is read here ({', '.join(FORMATS)})"
    return InputError(f"{name} cannot be read as an image: {why}.")


def _fitted(image: "Image", size: tuple[int, int], channels: int) -> "Image":
    from PIL import Image, ImageOps

    if image.width * image.height > PIXELS:
        raise ValueError(f"it has {image.width} x {image.height} pixels, and {PIXELS:,} are allowed")
    height, width = size
    image.draft(None, (2 * width, 2 * height))  # a large JPEG is decoded at a half, a quarter or an eighth
    if (image.info.keys() & EXIF or image.format == "TIFF") and image.getexif().get(0x0112, 1) != 1:  # a camera held upright
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
    """Pillow would cut 16-bit grey values off at 255."""
    from PIL import Image

    values = np.asarray(image)
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= 2**16:
        raise ValueError(f"its values are {values.dtype} from {values.min():g} to {values.max():g}, and 8 or 16 bits are allowed")
    return Image.fromarray((values // 256).astype(np.uint8))


def jpeg(batches: Iterable[NDArray[np.uint8]], quality: int) -> Iterator[NDArray[np.uint8]]:
    """Every picture (n, 3, H, W) as it comes back from a JPEG file with halved colour resolution."""
    from PIL import Image

    def round_trip(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling="4:2:0")
        return np.asarray(Image.open(file))

    for batch in batches:
        yield np.stack([round_trip(pixels) for pixels in batch.transpose(0, 2, 3, 1)]).transpose(0, 3, 1, 2)
