"""The examples that a page holds: errors of every class, with pictures of the most telling ones."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.label_issues import thumbnail

MOST, LEAST = 20_000, 5  # examples in all, and of each class, at least that many errors
OF_CLASS = 24  # examples of a class at most
RIGHT = 4  # right ones of a class, where it has fewer errors
OF_PAIR = 2  # of a confusion, before others
PICTURES = 300
PAGE_BYTES = 4_800_000  # the page stays below 5 MB with its words and style
PICTURE_BYTES = 2_500_000  # of all pictures
NAME_BYTES = 1_000_000  # of all names and links
ROW_BYTES = 60  # of an example's numbers
PIXELS = 128  # of a picture's side

Pixels = list[tuple[int, NDArray[np.uint8]]]  # index and (channels, H, W)


@dataclass(frozen=True, eq=False)
class PageExamples:
    """Predicted examples, from which a page takes those that tell most."""

    classes: Sequence[str]
    outcomes: Outcomes
    name_of: Callable[[int], str]
    pixels: Callable[[Sequence[int]], Pixels]  # of examples that have any, by their indices
    file_of: Callable[[int], Path | None]
    doubts: NDArray[np.float64] | None = None  # (N,) P that a label is wrong; 0 of those not listed
    texts: Mapping[int, str] = field(default_factory=dict)  # what is said of a class
    about: str = ""  # what these examples are, and who predicts them

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        return self.outcomes.guesses != self.outcomes.labels

    def confused(self, label: int, guess: int) -> int:
        """How many examples of a class are predicted as another."""
        return int(((self.outcomes.labels == label) & (self.outcomes.guesses == guess)).sum())


@dataclass(frozen=True)
class Room:
    """What a page has left for pictures and names."""

    pictures: int = PICTURES
    picture_bytes: int = PICTURE_BYTES
    name_bytes: int = NAME_BYTES
    examples: int = MOST

    def beside(self, pictures: Sequence[str], others: int) -> "Room":
        """What is left beside pictures that the page shows anyway, and so many other bytes."""
        left = max(0, PAGE_BYTES - others - sum(map(len, pictures)))
        share = min(1.0, left / (self.picture_bytes + self.name_bytes + ROW_BYTES * self.examples))
        room = {name: int(share * number) for name, number in asdict(self).items()}
        return Room(**room | {"pictures": max(0, self.pictures - len(pictures))})

    def shared(self, parts: int) -> "Room":
        return Room(**{name: number // parts for name, number in asdict(self).items()})


def opening(row: Any, opens: str, **more: Any) -> SimpleNamespace:
    """A row of a table whose first cell opens examples: of a class "3", of a confusion "3-5", or "" of none."""
    return SimpleNamespace(**asdict(row), opens=opens, **more)


def page_data(examples: PageExamples, folder: Path, room: Room = Room()) -> dict[str, Any]:  # noqa: B008
    """What the page's script reads: classes, examples as rows, and pictures as data URLs.

    A row is (label, guess, p of the label, p of the guess, p that the label is wrong, name, picture, link). Files
    whose pictures are not in the page are linked from its folder.
    """
    chosen, outcomes = _chosen(examples, room.examples), examples.outcomes
    pictures = _pictures(examples, chosen, room)
    places = {i: place for place, i in enumerate(pictures)}
    rows, size = [], 0
    for i in chosen.tolist():
        link = _link(examples.file_of(i), folder) if i not in places else ""
        name = examples.name_of(i)
        size += len(json.dumps(name)) + len(link)  # as the page has it
        if size > room.name_bytes:
            break
        numbers = (round(float(values[i]), 4) for values in (outcomes.p_label, outcomes.p_guess))
        doubt = None if examples.doubts is None else round(float(examples.doubts[i]), 4)
        rows.append([int(outcomes.labels[i]), int(outcomes.guesses[i]), *numbers, doubt, name, places.get(i, -1), link])
    texts = {str(c): text for c, text in examples.texts.items()}
    about = {"classes": list(examples.classes), "texts": texts, "about": examples.about}
    return about | {"examples": rows, "totals": _totals(examples).tolist(), "thumbs": list(pictures.values())}


def links_files(data: dict[str, Any]) -> bool:
    return any(row[-1] for row in data["examples"])


def _totals(examples: PageExamples) -> NDArray[np.int64]:
    """(C, 3) of each class all examples that are wrong, right, and of other classes but predicted as it."""
    number, wrong, labels = len(examples.classes), examples.is_wrong, examples.outcomes.labels
    groups = (labels[wrong], labels[~wrong], examples.outcomes.guesses[wrong])
    return np.stack([np.bincount(group, minlength=number) for group in groups], axis=1)


def _chosen(examples: PageExamples, number: int) -> NDArray[np.int64]:
    """Examples by how telling they are: the first of each class, the worst class first, then the second ones.

    Of a class first the surest errors of each confusion, then other errors, then right ones that are least sure.
    """
    outcomes, wrong, classes = examples.outcomes, examples.is_wrong, len(examples.classes)
    pair_rank = _rank(outcomes.labels * classes + outcomes.guesses, -outcomes.p_guess)
    sureness = np.where(wrong, -outcomes.p_guess, outcomes.p_guess)
    telling = np.lexsort((sureness, np.where(wrong, pair_rank >= OF_PAIR, 2)))
    order = np.empty(len(telling))
    order[telling] = np.arange(len(telling))
    rank = _rank(outcomes.labels, order)
    most = max(LEAST, min(OF_CLASS, number // classes))
    kept = np.flatnonzero((rank < most) & (wrong | (rank < RIGHT)))
    totals = _totals(examples)
    errors = totals[:, 0] / np.maximum(totals[:, :2].sum(axis=1), 1)
    return kept[np.lexsort((-errors[outcomes.labels[kept]], rank[kept]))]


def _rank(groups: NDArray[np.int64], keys: NDArray[Any]) -> NDArray[np.int64]:
    """(N,) the place of each example within its group, by keys (N,)."""
    order = np.lexsort((keys, groups))
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.r_[starts, len(groups)]))
    return rank


def _pictures(examples: PageExamples, chosen: NDArray[np.int64], room: Room) -> dict[int, str]:
    """Index -> data URL of the first examples, as far as there is room."""
    pictures, size = dict[int, str](), 0
    for i, pixels in examples.pixels(chosen[: room.pictures].tolist()):
        url = thumbnail(pixels, PIXELS)
        size += len(url)
        if size > room.picture_bytes:
            break
        pictures[i] = url
    return pictures


def _link(file: Path | None, folder: Path) -> str:
    """The address of an example's file from the page; "" where it has none."""
    if file is None:
        return ""
    try:
        path = os.path.relpath(file, folder)
    except ValueError:  # on another drive
        return file.resolve().as_uri()
    return quote(os.fsencode(Path(path).as_posix()))
