"""Places-LT: index files with a line 'path label' for each image, and a folder that the paths start from."""

import gzip
import zlib
from pathlib import Path, PurePosixPath

from class_uncertainty.data.readers.folder import LabelledFiles
from class_uncertainty.errors import InputError
from class_uncertainty.text import read_faults

CLASSES = 365


def find(root: Path, split: str) -> Path:
    """The index of a split: Places_LT_train.txt, or .txt.gz, in the data folder or in places_lt below it."""
    for folder in (root, root / "places_lt", root / "Places_LT"):
        for ending in (".txt", ".txt.gz"):
            if (file := folder / f"Places_LT_{split}{ending}").is_file():
                return file
    advice = "it comes with the Places-LT index; --root (in Python root=) or CLASS_UNCERTAINTY_DATA names the folder"
    raise InputError(f"Places_LT_{split}.txt is not in {root}: {advice}.")


def read_index(file: Path) -> tuple[list[str], list[int], dict[int, str]]:
    """Paths, labels, and the class name of each label: the folders of its paths without the first."""
    opened = gzip.open if file.suffix == ".gz" else open
    faults = (OSError, EOFError, UnicodeDecodeError, zlib.error)
    with read_faults(file, "cannot be read", faults), opened(file, "rt", encoding="utf-8") as lines:
        entries = [line.rstrip("\n").rpartition(" ") for line in lines]
    paths, labels, names = list[str](), list[int](), dict[int, str]()
    for number, (path, _, label) in enumerate(entries, start=1):
        where = f"{file}, line {number}"
        if not path or not (label.isascii() and label.isdigit() and len(label) < 10) or int(label) >= CLASSES:
            raise InputError(f"{where}, must be a path, a blank and a label from 0 to {CLASSES - 1}.")
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise InputError(f"{where}: {path!r} leads out of the folder of images.")
        name = "/".join(pure.parts[1:-1]) or pure.parts[0]
        if names.setdefault(int(label), name) != name:
            raise InputError(f"{where}: label {label} is {name!r} here and {names[int(label)]!r} before.")
        paths.append(path)
        labels.append(int(label))
    if not paths:
        raise InputError(f"{file} is empty.")
    return paths, labels, names


def labelled_files(file: Path, images: Path) -> tuple[LabelledFiles, list[str]]:
    """The images of an index, all of which must exist, and the classes in the order of their labels."""
    paths, labels, names = read_index(file)
    labelled = [(images / path, names[label]) for path, label in zip(paths, labels, strict=True)]
    if missing := [image for image, _ in labelled if not image.is_file()]:
        raise InputError(f"{len(missing):,} of the {len(labelled):,} images in {file} do not exist, as {missing[0]}.")
    return labelled, [names[label] for label in sorted(names)]
