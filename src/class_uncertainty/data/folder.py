"""A folder of pictures, one subfolder a class; splits as folders train/ and test/, or in a file."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from class_uncertainty.data.cache import Decoding
from class_uncertainty.data.images import Named, decode, own_size
from class_uncertainty.data.labels import in_order, split_of
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.files import read_regular
from class_uncertainty.text import reason

IGNORED = ("thumbs.db", "desktop.ini")  # and whatever starts with a dot: written by file browsers, not by people

PICTURES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}

Listed = list[tuple[Path, str]]  # pictures and their classes


def find(place: Path, split_file: Path | None = None) -> dict[str, Listed]:
    """Split -> pictures with their class names."""
    if not place.is_dir():
        raise InputError(f"{place} is not a folder: give one with a subfolder for each class.")
    folders = _folders(place)
    splits = {split: name for name in folders if (split := split_of(name)) and _folders(place / name)}  # one that holds pictures is a class
    if split_file is not None:
        return _by_file(_classes(place, folders), place, split_file)
    if splits and "train" not in splits:
        judge = next(iter(splits.values()))
        raise InputError(f"{place / judge} has folders of classes, and no folder for training has: there must be train/CLASS beside it.")
    if not splits:
        return {"train": _classes(place, folders)}
    if strange := sorted(set(folders) - set(splits.values())):
        raise InputError(f"{place} has a folder for training and {strange[0]!r} beside it: there may be train, test and validation only.")
    return {split: _classes(place / name, _folders(place / name)) for split, name in splits.items()}


def _folders(place: Path) -> list[str]:
    return [name for name in sorted(os.listdir(place)) if (place / name).is_dir() and not name.startswith(".")]


def _classes(place: Path, names: list[str]) -> Listed:
    listed = [(file, name) for name in in_order(names) for file in files(place / name)]
    loose = [entry for entry in sorted(os.listdir(place)) if not (place / entry).is_dir() and not _ignored(entry)]
    for entry in loose:
        _check_file(place / entry)
    if stray := next((entry for entry in loose if listed and Path(entry).suffix.lower() in PICTURES), None):
        raise InputError(f"{place / stray} lies beside the folders of the classes: put it into one of them, or away.")
    if loose and not listed:
        raise InputError(f"{place} holds files ({loose[0]!r}) and no subfolder with pictures: each class needs one.")
    filled = {label for _, label in listed}
    empty = next((name for name in names if name not in filled), None)
    if empty is not None or not listed:
        raise InputError(f"{place / (empty or '')} holds no pictures: each class is a subfolder with pictures in it.")
    return listed


def files(folder: Path) -> Iterator[Path]:
    """Every file in a folder and in those below it, in order."""
    for entry in entries(folder):
        _check_file(entry)
        yield entry


def entries(folder: Path) -> Iterator[Path]:
    """The same, and whatever else is there; folders may be deeper than Python can recurse."""
    waiting: list[tuple[Path, frozenset[tuple[int, int]]]] = [(folder, frozenset())]  # each with the folders that hold it
    while waiting:
        entry, above = waiting.pop()
        try:
            if not entry.is_dir():
                yield entry
                continue
            stat, names = entry.stat(), sorted(os.listdir(entry), reverse=True)
        except OSError as error:
            raise MachineFault(f"{entry} could not be read: {error.strerror}.") from error
        if (identity := (stat.st_dev, stat.st_ino)) in above:
            raise InputError(f"{entry} is a link back to a folder that holds it: remove the loop.")
        holding = above | {identity}
        waiting += [(entry / name, holding) for name in names if not _ignored(name)]


def _check_file(entry: Path) -> None:
    if not entry.is_file():
        raise InputError(f"{entry} is no file that can be read: a broken link, a link to itself, or a device.")


def _ignored(name: str) -> bool:
    return name.startswith(".") or name.lower() in IGNORED


def _by_file(listed: Listed, place: Path, split_file: Path) -> dict[str, Listed]:
    """A CSV file with a line PATH,SPLIT for each picture; every picture must be in it, and every line be a picture."""
    try:
        text = io.StringIO(read_regular(split_file).decode("utf-8-sig"), newline="")
        lines = [(reader.line_num, line) for reader in [csv.reader(text)] for line in reader if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{split_file} cannot be read as CSV: {reason(error)}.") from error
    if lines and [cell.strip().lower() for cell in lines[0][1]] == ["path", "split"]:
        lines = lines[1:]
    by_path = {os.path.normpath(file): (file, label) for file, label in listed}
    found: dict[str, Listed] = {}
    for number, line in lines:
        split = split_of(line[1].strip()) if len(line) == 2 else None
        if split is None:
            raise InputError(f"{split_file}, line {number}, must be PATH,SPLIT where the split is train, test or validation.")
        picture = by_path.pop(os.path.normpath(place / line[0]), None)
        if picture is None:
            raise InputError(f"{split_file}, line {number}: {line[0]!r} is no picture in {place}, or is there twice.")
        found.setdefault(split, []).append(picture)
    if by_path:
        raise InputError(f"{split_file} says nothing of {len(by_path)} pictures, first of them {next(iter(by_path))}.")
    if "train" not in found:
        raise InputError(f"{split_file} has no line with the split train.")
    return found


def decoding(listed: Listed, size: tuple[int, int] | None, channels: int, classes: Sequence[str] | None = None) -> Decoding:
    """The pictures of one split; its classes in order where none are given."""
    classes = classes or in_order({label for _, label in listed})
    position = {name: i for i, name in enumerate(classes)}
    labels = np.array([position[label] for _, label in listed], dtype=np.int64)
    pictures: list[Named] = [(file.read_bytes, str(file)) for file, _ in listed]
    size = size or own_size(pictures[0])
    return Decoding(labels, classes, (channels, *size), decode(pictures, size, channels))
