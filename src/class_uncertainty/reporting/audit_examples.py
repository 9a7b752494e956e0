"""The examples that an audit's page holds: errors of every class, with pictures of the most telling ones."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.images import SIDE, common_size, decode
from class_uncertainty.posthoc.label_issues import thumbnail
from class_uncertainty.workflows.audit import Audit

MOST, LEAST = 20_000, 5  # examples in all, and of each class, at least that many errors
OF_CLASS = 24  # examples of a class at most
RIGHT = 4  # right ones of a class, where it has fewer errors
OF_PAIR = 2  # of a confusion, before others
PICTURES = 300
PICTURE_BYTES = 2_500_000  # of all pictures: the page stays below 5 MB
NAME_BYTES = 1_000_000  # of all names and links
PIXELS = 128  # of a picture's side


def page_examples(audit: Audit, folder: Path) -> dict[str, Any]:
    """What the page's script reads: classes, examples as rows, and pictures as data URLs.

    A row is (label, guess, p of the label, p of the guess, p that the label is wrong, name, picture, link). Files
    whose pictures are not in the page are linked from its folder.
    """
    chosen = _chosen(audit)
    pictures = _pictures(audit, chosen)
    places = {i: place for place, i in enumerate(pictures)}
    rows, size = [], 0
    for i in chosen.tolist():
        link = _link(audit, i, folder) if i not in places else ""
        name = audit.name_of(i)
        size += len(name) + len(link)
        if size > NAME_BYTES:
            break
        numbers = (round(float(values[i]), 4) for values in (audit.p_label, audit.p_guess))
        doubt = None if audit.noise is None else round(float(audit.noise.p_wrong[i]), 4)
        rows.append([int(audit.labels[i]), int(audit.guesses[i]), *numbers, doubt, name, places.get(i, -1), link])
    texts = {str(c): f"{row.verdict}." for c, row in enumerate(audit.classes) if row.verdict}
    names = [row.name for row in audit.classes]
    thumbs = list(pictures.values())
    return {"classes": names, "texts": texts, "examples": rows, "totals": _totals(audit), "thumbs": thumbs}


def _totals(audit: Audit) -> list[list[int]]:
    """Of each class all examples that are wrong, right, and of other classes but predicted as it."""
    number, wrong = len(audit.classes), audit.guesses != audit.labels
    groups = (audit.labels[wrong], audit.labels[~wrong], audit.guesses[wrong])
    counts = np.stack([np.bincount(group, minlength=number) for group in groups], axis=1)
    return [list(map(int, row)) for row in counts]


def _chosen(audit: Audit) -> NDArray[np.int64]:
    """Examples by how telling they are: the first of each class, the worst class first, then the second ones.

    Of a class first the surest errors of each confusion, then other errors, then right ones that are least sure.
    """
    wrong, classes = audit.guesses != audit.labels, len(audit.classes)
    pair_rank = _rank(audit.labels * classes + audit.guesses, -audit.p_guess)
    sureness = np.where(wrong, -audit.p_guess, audit.p_guess)
    telling = np.lexsort((sureness, np.where(wrong, pair_rank >= OF_PAIR, 2)))
    order = np.empty(len(telling))
    order[telling] = np.arange(len(telling))
    rank = _rank(audit.labels, order)
    most = max(LEAST, min(OF_CLASS, MOST // classes))
    kept = np.flatnonzero((rank < most) & (wrong | (rank < RIGHT)))
    errors = np.array([row.error or 0.0 for row in audit.classes])
    return kept[np.lexsort((-errors[audit.labels[kept]], rank[kept]))]


def _rank(groups: NDArray[np.int64], keys: NDArray[Any]) -> NDArray[np.int64]:
    """(N,) the place of each example within its group, by keys (N,)."""
    order = np.lexsort((keys, groups))
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.r_[starts, len(groups)]))
    return rank


def _pictures(audit: Audit, chosen: NDArray[np.int64]) -> dict[int, str]:
    """Index -> data URL of the first PICTURES examples, as far as PICTURE_BYTES allow."""
    first, pictures, size = chosen[:PICTURES].tolist(), dict[int, str](), 0
    for i, pixels in _pixels(audit, first):
        url = thumbnail(pixels, PIXELS)
        size += len(url)
        if size > PICTURE_BYTES:
            break
        pictures[i] = url
    return pictures


def _pixels(audit: Audit, chosen: Sequence[int]) -> list[tuple[int, NDArray[np.uint8]]]:
    """(index, pixels) of examples; files that cannot be read as images are left out, and linked all the same."""
    if audit.images is None or not chosen:
        return []
    if isinstance(audit.images, np.ndarray):
        return [(i, audit.images[i]) for i in chosen]
    sources = [(audit.images[i].read_bytes, str(audit.images[i])) for i in chosen]
    size, skipped = common_size(sources), dict[int, str]()
    size = (PIXELS, PIXELS) if size == (SIDE, SIDE) else size
    decoded = [pixels for batch in decode(sources, size, 3, skipped) for pixels in batch]
    return list(zip([i for place, i in enumerate(chosen) if place not in skipped], decoded, strict=True))


def _link(audit: Audit, i: int, folder: Path) -> str:
    """The address of an example's file from the page; "" where it has none."""
    if audit.images is None or isinstance(audit.images, np.ndarray):
        return ""
    try:
        path = os.path.relpath(audit.images[i], folder)
    except ValueError:  # on another drive
        return audit.images[i].resolve().as_uri()
    return quote(Path(path).as_posix())
