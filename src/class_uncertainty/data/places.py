"""Places-LT: index files with a line 'path label' for each picture, and a folder that the paths start from."""

import gzip
import zlib
from pathlib import Path, PurePosixPath

from class_uncertainty.data.folder import Listed
from class_uncertainty.errors import InputError, blame_machine
from class_uncertainty.text import reason

CLASSES = 365


def find(root: Path, split: str) -> Path:
    """The index of a split: Places_LT_train.txt, or .txt.gz, in the data folder or in places_lt below it."""
    for folder in (root, root / "places_lt", root / "Places_LT"):
        for ending in (".txt", ".txt.gz"):
            if (file := folder / f"Places_LT_{split}{ending}").is_file():
                return file
    raise InputError(
        f"Places_LT_{split}.txt is not in {root}: it comes with the Places-LT index; --root or CLASS_UNCERTAINTY_DATA says where."
    )


def read_index(file: Path) -> tuple[list[str], list[int], dict[int, str]]:
    """Paths, labels, and label -> the name of its class, which is the path's folders without the first."""
    try:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as lines:
            found = [line.rstrip("\n").rpartition(" ") for line in lines]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        blame_machine(file, error)
        raise InputError(f"{file} cannot be read: {reason(error)}.") from error
    paths: list[str] = []
    labels: list[int] = []
    names: dict[int, str] = {}
    for number, (path, _, text) in enumerate(found, start=1):
        if not path or not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) >= CLASSES:
            raise InputError(f"{file}, line {number}, must be a path, a blank and a label from 0 to {CLASSES - 1}.")
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise InputError(f"{file}, line {number}: {path!r} leads out of the folder of pictures.")
        name = "/".join(pure.parts[1:-1]) or pure.parts[0]
        if names.setdefault(int(text), name) != name:
            raise InputError(f"{file}, line {number}: label {text} is {name!r} here and {names[int(text)]!r} before.")
        paths.append(path)
        labels.append(int(text))
    if not paths:
        raise InputError(f"{file} is empty.")
    return paths, labels, names


def listed(file: Path, pictures: Path) -> tuple[Listed, list[str]]:
    """The pictures of an index, every one of which must be there, and the classes in the order of their labels."""
    paths, labels, names = read_index(file)
    found = [(pictures / path, names[label]) for path, label in zip(paths, labels, strict=True)]
    missing = [picture for picture, _ in found if not picture.is_file()]
    if missing:
        raise InputError(f"{len(missing):,} of the {len(found):,} pictures in {file} are not there, first of them {missing[0]}.")
    return found, [names[label] for label in sorted(names)]
