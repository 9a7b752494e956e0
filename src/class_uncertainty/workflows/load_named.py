"""Data by their full names: 'folder:photos by efficientnet-lite0' is the photographs as features of that backbone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from class_uncertainty.data import SOURCES, Dataset
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.finding import DataProblem, Finding
from class_uncertainty.data.images import shorter_side
from class_uncertainty.data.readers import folder, parquet
from class_uncertainty.data.sources import SIDES, NamedData, parse_name, read_data
from class_uncertainty.data.spec import BY, LITE0, DataSpec, read_options
from class_uncertainty.errors import InputError
from class_uncertainty.training.embed import embed_dataset
from class_uncertainty.training.networks.backbones import find_backbone
from class_uncertainty.training.networks.network_name import BACKBONE, parse_network
from class_uncertainty.training.networks.user_code import trust

PIXELS = "none"  # the --backbone of those who want to train from pixels
LARGE = 96  # pixels of the shorter side from which images are photographs
SAMPLE = 200  # photographs whose sizes are looked at


def load_named(name: str | NamedData, *, root: str | Path | None = None, progress: Progress | None = None) -> Dataset:
    """cu.load and, where the name ends in ' by BACKBONE', cu.embed."""
    named = parse_name(name, root) if isinstance(name, str) else name
    spec = replace(named.spec, progress=progress)
    if not named.backbone:
        return read_data(spec)
    network = find_backbone(named.backbone)
    return embed_dataset(read_data(_sized(spec, network.embedding.size)), network, named.name, progress)


def load_to_check(
    data: str, root: str | Path | None = None, progress: Progress | None = None
) -> tuple[Dataset, list[Finding], int | None]:
    """The data as `cu fix` would read them, without what cannot be used; what that was; and the side of a backbone.

    Photographs are read as large as the backbone takes them, and do not pass through it.
    """
    named = with_backbone(data, None, None, False, root)
    spec = replace(named.spec, progress=progress)
    side = None
    if named.backbone:
        trust(named.backbone)
        side = find_backbone(named.backbone).embedding.size
        spec = _sized(spec, side)
    found = list[Finding]()
    readable = spec
    while True:
        try:
            return replace(read_data(readable), name=str(named.spec)), found, side
        except DataProblem as problem:
            found += problem.findings
            relieved = _relieved(readable, problem.relief)
            if relieved is None:
                raise
            readable = relieved


def _relieved(spec: DataSpec, relief: Mapping[str, str | None]) -> DataSpec | None:
    """The data with other options; None where the source has none of them, or they change nothing."""
    rows = SOURCES[spec.name].options
    options = dict(spec.options)
    for option, value in relief.items():
        if value is None:
            column = options.pop(option)
            if "drop" in rows:  # else the column would become a feature
                options["drop"] = _joined(options, column)
        elif option == "drop":
            options["drop"] = _joined(options, value)
        elif option == "min" and option in rows:
            options["min"] = str(max(int(value), int(options.get("min", 0))))
        elif option in rows:
            options[option] = value
    if options == spec.options:
        return None
    readers = {key: option.read for key, option in rows.items()}
    return replace(spec, options=options, values=read_options(repr(spec.name), options, readers))


def _joined(options: Mapping[str, str], columns: str) -> str:
    """The columns to leave out, and these."""
    names = [*filter(None, options.get("drop", "").split(",")), *columns.split(",")]
    return ",".join(dict.fromkeys(names))


def with_backbone(
    data: str, backbone: str | None, views: int | None, pixels: bool, root: str | Path | None = None
) -> NamedData:
    """The data by their full name: photographs become features of LITE0 where the user named no backbone.

    `pixels` is whether the user asked for something that trains from pixels.
    """
    if views is not None:
        if backbone is None or backbone == PIXELS:
            raise InputError(f"--views is {views}, and no backbone is given: name one by --backbone.")
        backbone = f"{backbone}{'&' if '?' in backbone else '?'}views={views}"
    if backbone not in (None, PIXELS):
        parse_network(BACKBONE, backbone)  # refuses what is none
        return parse_name(f"{data}{BY}{backbone}", root)
    named = parse_name(data, root)
    side = None if pixels or named.backbone or backbone == PIXELS else _photograph_side(named.spec)
    if side is None or side < LARGE:
        return named
    return replace(named, name=f"{data}{BY}{LITE0}", backbone=LITE0)


def _photograph_side(spec: DataSpec) -> float | None:
    """The median shorter side of the images in a folder; None where data are none, or their size is given."""
    if spec.name != "folder" or "size" in spec.options or not spec.path.is_dir():
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


def _sized(spec: DataSpec, size: int) -> DataSpec:
    """Photographs are decoded at the backbone's resolution, smaller images of a folder at their own."""
    if "size" in spec.options or "size" not in SOURCES[spec.name].options:
        return spec
    if spec.name == "parquet" and not _holds_images(spec):
        return spec
    side = int(min(size, _photograph_side(spec) or size))
    least, most = SIDES
    wanted = min(max(side, least), most)
    return replace(spec, options={**spec.options, "size": str(wanted)}, values={**spec.values, "size": wanted})


def _holds_images(spec: DataSpec) -> bool:
    files = [file for files in parquet.find(spec.path).values() for file in files]
    return parquet.image_column(files, spec.options.get("image")) is not None
