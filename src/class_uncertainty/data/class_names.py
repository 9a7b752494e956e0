"""Class names from values, and splits from the names of files and folders."""

import re
from collections.abc import Iterable
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.finding import Finding
from class_uncertainty.errors import notice
from class_uncertainty.text import enumerated

NAMED = 3  # groups of twins in a sentence
_SPLIT = re.compile(r"(?:^|[^a-z])(train|training|test|testing|val|valid|validation)(?:[^a-z]|$)")
_UNSEEN = re.compile(  # what Unicode calls default-ignorable, and the blank pattern of Braille
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ESCAPE = re.compile(r"\\(?:[tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")  # of a character that cannot be printed


def in_order(names: Iterable[str]) -> list[str]:
    """Names that are all numbers by value, so that 2 comes before 10; others alphabetically."""
    names = sorted(names)  # nan, which may be a name, has no order
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def factorise(values: NDArray) -> tuple[NDArray[np.int64], list[str]]:
    """Values of any kind (N,) -> labels (N,) and class names in order."""
    distinct, inverse = np.unique(values, return_inverse=True)
    texts = [str(value) for value in distinct.tolist()]
    names = in_order(set(texts))
    position = {name: i for i, name in enumerate(names)}
    return np.array([position[text] for text in texts], dtype=np.int64)[inverse], names


def twins_found(names: Iterable[str]) -> Finding | None:
    """Name the classes whose names a reader would take for one another. They stay separate classes."""
    alike: dict[str, list[str]] = {}
    for name in names:
        text = _ESCAPE.sub(lambda escape: escape[0].encode().decode("unicode_escape"), name)
        folded = normalize("NFKC", normalize("NFKC", _UNSEEN.sub("", text)).casefold())
        seen = "".join(c for c in folded if not c.isspace() and category(c) != "Cf")
        alike.setdefault(seen, []).append(name)
    twins = tuple(" and ".join(map(_spelt_out, group)) for group in alike.values() if len(group) > 1)
    if not twins:
        return None
    differ = "differ only in case, spaces, invisible characters or Unicode form"
    advice = "they stay separate classes, so rename those with the same meaning"
    return Finding("twin-names", f"classes {enumerated(twins, NAMED)} {differ}", advice, len(twins), twins)


def notice_twins(names: Iterable[str]) -> None:
    """Log which class names a reader would take for one another."""
    if twins := twins_found(names):
        notice(str(twins))


def _spelt_out(name: str) -> str:
    """A name between quotes; accents that stand apart from their letters, and what nobody sees, as escapes."""
    return f"'{name}'" if normalize("NFC", _UNSEEN.sub("", name)) == name else ascii(name)


def split_of(name: str) -> str | None:
    """'train', 'test', 'validation' or None: the split that a file or folder of that name holds."""
    match = _SPLIT.search(name.lower())
    return {"tr": "train", "te": "test", "va": "validation"}[match[1][:2]] if match else None
