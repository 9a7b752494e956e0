"""What is decoded, and how an entry is looked at."""

import importlib
import time

import numpy as np

module = importlib.import_module(
    "class_uncertainty.data.cache"
)  # by this way always the module, whatever the package calls so
cached, Decoding = module.cached, module.Decoding
PIXELS = np.random.default_rng(20231114).integers(0, 256, (7, 3, 4, 5), dtype=np.uint8)
LABELS = np.array([2, 0, 1, 1, 0, 2, 2])
CLASSES = ("cat", "dog\udce9", "fly\nswarm")
PRINTED = ("cat", "dog\\udce9", "fly\\nswarm")
OTHER = 255 - PIXELS


class Build:
    """Makes a Decoding in batches of three, and counts how often it was asked to."""

    def __init__(self, pixels=PIXELS):
        self.pixels, self.calls = pixels, 0

    def __call__(self):
        self.calls += 1
        return Decoding(
            LABELS, CLASSES, self.pixels.shape[1:], (self.pixels[i : i + 3] for i in range(0, len(LABELS), 3))
        )


def check(data, pixels=PIXELS):
    assert np.array_equal(data.inputs, pixels)
    assert data.inputs.dtype == np.uint8
    assert data.labels.tolist() == LABELS.tolist()
    assert data.classes == PRINTED


def entry(cache):
    (only,) = cache.iterdir()
    return only


def later(change, file):
    """Changes the file until its ctime says so: a file system's clock may tick every few milliseconds only."""
    before = file.stat()
    change(file, before)
    while file.stat().st_ctime_ns == before.st_ctime_ns:
        time.sleep(0.002)
        change(file, before)
