"""Images as files of every format."""

import io

import numpy as np
from PIL import Image

from class_uncertainty.data.images import BATCH, decode

NAME = "holiday/1.png"
READ = f"{NAME} cannot be read as an image: "
H, W = 6, 9
COLOUR = np.random.default_rng(20231114).integers(0, 256, (H, W, 3), dtype=np.uint8)


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


def small(i):
    return np.random.default_rng(i).integers(0, 256, (2, 2, 3), dtype=np.uint8)


SMALL = [b"P6 2 2 255\n" + small(i).tobytes() for i in range(2 * BATCH + 1)]
