"""A folder of images, one subfolder per class; splits are the folders train/ and test/, or given by a file."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import filterfalse
from pathlib import Path

import numpy as np

from class_uncertainty.data.cache import Decoding
from class_uncertainty.data.class_names import in_order, split_of
from class_uncertainty.data.finding import DataProblem
from class_uncertainty.data.images import ImageSource, common_size, decode
from class_uncertainty.data.table import advised
from class_uncertainty.errors import InputError, notice
from class_uncertainty.io import disk_faults, read_regular
from class_uncertainty.text import listed, read_faults

IGNORED = ("thumbs.db", "desktop.ini")  # as is whatever starts with a dot: file browsers write these
IMAGE_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}

LabelledFiles = list[tuple[Path, str]]  # images and their classes


def find(place: Path, split_file: Path | None = None, empty: bool = False) -> dict[str, LabelledFiles]:
    """The images of each split, with their class names; folders without an image are refused unless they may be."""
    if not place.is_dir():
        raise InputError(f"{place} is not a folder: give one with a subfolder for each class.")
    folders = _folders(place)
    # a folder that holds images is a class, whatever its name
    splits = {split: name for name in folders if (split := split_of(name)) and _folders(place / name)}
    if split_file is not None:
        return _by_file(_classes(place, folders, empty), place, split_file)
    if not splits:
        return {"train": _classes(place, folders, empty)}
    if "train" not in splits:
        raise InputError(
            f"{place / min(splits.values())} has a folder per class, and train/CLASS is missing beside it."
        )
    if others := sorted(set(folders) - set(splits.values())):
        raise InputError(f"{place} holds {others[0]!r} beside the folder train: only test and validation may be there.")
    return {split: _classes(place / name, _folders(place / name), empty) for split, name in splits.items()}


def _folders(place: Path) -> list[str]:
    return [name for name in sorted(os.listdir(place)) if (place / name).is_dir() and not name.startswith(".")]


def _classes(place: Path, names: list[str], empty: bool) -> LabelledFiles:
    labelled = [(file, name) for name in in_order(names) for file in entries(place / name)]
    loose = [entry for entry in sorted(os.listdir(place)) if not (place / entry).is_dir() and not _ignored(entry)]
    for entry in loose:
        _check_file(place / entry)
    if stray := [entry for entry in loose if labelled and Path(entry).suffix.lower() in IMAGE_SUFFIXES]:
        others = f" (and so do {listed(stray[1:], 3)})" if stray[1:] else ""
        where = f"lies beside the folders of the classes{others}"
        raise InputError(f"{place / stray[0]} {where}: move it into one, or away.")
    if loose and not labelled:
        raise InputError(f"{place} holds files ({loose[0]!r}) and no subfolder with images: each class needs one.")
    _notice_folders_within(place, names, labelled)
    bare = sorted(set(names) - {label for _, label in labelled})
    if not labelled or (bare and not empty):
        others = f" (nor do {listed(bare[1:], 3)})" if bare[1:] else ""
        needed = "each class is a subfolder with some; ?min=2 leaves out classes with fewer than two"
        sentence = f"{place / (bare[0] if bare else '')} holds no images{others}: {needed}."
        raise DataProblem(sentence, {"min": "2"})
    return labelled


def _notice_folders_within(place: Path, names: list[str], labelled: LabelledFiles) -> None:
    """Say so where all classes consist of the same folders: these may be the classes."""
    if len(names) < 2 or any(file.parent == place / name for file, name in labelled):
        return
    if len(within := set.intersection(*(set(_folders(place / name)) for name in names))) > 1:
        folders, classes = listed(sorted(within), 3), listed(names, 3)
        advice = f"if those are the classes, give {place / names[0]}"
        notice(f"the classes of {place} are {classes}, and each has the folders {folders}: {advice}.")


def without_broken(labelled: LabelledFiles, skip: bool, advice: str) -> tuple[LabelledFiles, list[Path]]:
    """The regular files, and the other entries, which are refused unless they are skipped."""
    broken = [file for file, _ in labelled if not file.is_file()]
    if broken and not skip:
        others = f", and neither are {len(broken) - 1:,} others" if broken[1:] else ""
        sentence = f"{_no_file(broken[0])}{others}; {advice} leaves out what cannot be read."
        raise DataProblem(sentence, {"skip": "unreadable"})
    gone = set(broken)
    return [(file, label) for file, label in labelled if file not in gone], broken


def group_of(pattern: str) -> Callable[[str], str | None]:
    """What a path below the folder of a class belongs to: the part that matches, or that comes before a separator."""
    if "(" not in pattern:
        return lambda path: path.partition(pattern)[0] if pattern in path else None
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise InputError(f"group {pattern!r} is no regular expression: {error}.") from None
    if expression.groups != 1:
        count = f"{expression.groups} groups in parentheses"
        raise InputError(f"group {pattern!r} has {count}: give one, such as '([a-z]+)', or a separator, such as '_'.")
    return lambda path: match[1] if (match := expression.search(path)) else None


def groups(place: Path, labelled: LabelledFiles, pattern: str) -> list[str]:
    """The group of each image, by its path below the folder of its class."""
    find_group, names, unmatched = group_of(pattern), list[str](), list[str]()
    for file, label in labelled:
        parts = file.relative_to(place).parts
        path = "/".join(parts[parts.index(label) + 1 :])
        name = find_group(path)
        (unmatched if not name else names).append(name or path)
    if unmatched:
        count = f"{len(unmatched):,} of {len(labelled):,} paths have no group by {advised('group', pattern)}"
        raise InputError(f"{count}: {listed(unmatched, 3)}.")
    return names


def entries(folder: Path) -> Iterator[Path]:
    """All but folders in a folder and below it, in order, and links back to a folder that holds them.

    Folders may be nested deeper than Python recurses.
    """
    parents = {*folder.absolute().parents, *folder.resolve().parents}
    waiting = [(folder, frozenset(map(_identity, parents)))]  # with the folders above each
    while waiting:
        entry, above = waiting.pop()
        with disk_faults(f"{entry} could not be read"):
            if not entry.is_dir() or _identity(entry) in above:
                yield entry
                continue
            names = sorted(os.listdir(entry), reverse=True)
            holding = above | {_identity(entry)}
        waiting += [(entry / name, holding) for name in names if not _ignored(name)]


def entries_once(folder: Path) -> Iterator[Path]:
    """All but folders in a folder and below it; links to folders come last, so that each is read under its own name.

    A folder that was read before, that holds this one, or that cannot be listed, comes as it is.
    """
    read = set(map(_identity, folder.resolve().parents))
    waiting, links = [folder], list[Path]()
    while waiting or links:
        entry = waiting.pop() if waiting else links.pop()
        names = None
        with suppress(OSError):
            if os.path.isdir(entry) and _identity(entry) not in read:
                names = sorted(os.listdir(entry), reverse=True)
        if names is None:
            yield entry
            continue
        read.add(_identity(entry))
        for name in filterfalse(_ignored, names):
            place = entry / name
            is_link = os.path.islink(place) and os.path.isdir(place)
            (links if is_link else waiting).append(place)


def _identity(folder: Path) -> tuple[int, int]:
    stat = folder.stat()
    return stat.st_dev, stat.st_ino


def read_entry(entry: Path) -> bytes:
    """Read an entry that is a regular file. Others are refused before they are opened, since a pipe would block."""
    _check_file(entry)
    return entry.read_bytes()


def _check_file(entry: Path) -> None:
    if not os.path.isfile(entry):
        raise InputError(f"{_no_file(entry)}.")


def _no_file(entry: Path) -> str:
    """Say what an entry is that is not a regular file."""
    if os.path.islink(entry) and os.path.isdir(entry):
        kind = "a link to a folder that contains the link, or that is read under its own name"
    elif os.path.isdir(entry):
        kind = "a folder that cannot be listed"
    elif os.path.exists(entry):
        kind = "a pipe, a socket or a device"
    else:
        kind = "a broken link, or a link to itself"
    return f"{entry} is not a readable file: it is {kind}"


def _ignored(name: str) -> bool:
    return name.startswith(".") or name.lower() in IGNORED


def _by_file(labelled: LabelledFiles, place: Path, split_file: Path) -> dict[str, LabelledFiles]:
    """Splits by a CSV file of lines PATH,SPLIT: one line for every image, and no other lines."""
    with read_faults(split_file, "cannot be read as CSV", (UnicodeDecodeError, csv.Error)):
        reader = csv.reader(io.StringIO(read_regular(split_file).decode("utf-8-sig"), newline=""))
        lines = [(reader.line_num, line) for line in reader if line]
    if lines and [cell.strip().lower() for cell in lines[0][1]] == ["path", "split"]:
        lines = lines[1:]
    by_path = {os.path.normpath(file): (file, label) for file, label in labelled}
    splits = dict[str, LabelledFiles]()
    for number, line in lines:
        where = f"{split_file}, line {number}"
        split = split_of(line[1].strip()) if len(line) == 2 else None
        if split is None:
            raise InputError(f"{where}, must be PATH,SPLIT where the split is train, test or validation.")
        if (image := by_path.pop(os.path.normpath(place / line[0]), None)) is None:
            raise InputError(f"{where}: {line[0]!r} is not an image in {place}, or appears twice.")
        splits.setdefault(split, []).append(image)
    if by_path:
        raise InputError(f"{split_file} does not list {len(by_path)} images, the first is {next(iter(by_path))}.")
    if "train" not in splits:
        raise InputError(f"{split_file} has no line with the split train.")
    return splits


def decoding(
    labelled: LabelledFiles,
    size: tuple[int, int] | None,
    channels: int,
    classes: Sequence[str] | None = None,
    skipped: dict[int, str] | None = None,
    advice: str = "",
) -> Decoding:
    """The images of one split; its classes are the labels in order unless they are given."""
    classes = classes or in_order({label for _, label in labelled})
    index = {name: i for i, name in enumerate(classes)}
    labels = np.array([index[label] for _, label in labelled], dtype=np.int64)
    sources: list[ImageSource] = [(partial(read_entry, file), str(file)) for file, _ in labelled]
    size = size or common_size(sources)
    batches = decode(sources, size, channels, skipped, advice)
    return Decoding(labels, classes, (channels, *size), batches, skipped={} if skipped is None else skipped)
