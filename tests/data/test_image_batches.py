"""Batches of images, in order and in threads; JPEG; no other program."""

import io
import os
import threading
import time
import warnings

import numpy as np
import pytest
from data.encoded_images import COLOUR, SMALL, encoded, small, smooth
from PIL import Image
from refusals import refused

from class_uncertainty.data import images as module
from class_uncertainty.data.images import BATCH, decode, default_size, jpeg

# Batches.


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
