"""The examples that a page holds: errors of every class, with pictures of the most telling ones."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.images import SIDE, common_size, decode
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures.uncertainty import checked_blocks
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.diagnosis import spoken
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import thumbnail
from class_uncertainty.text import printable
from class_uncertainty.workflows.audit import Audit

MOST, LEAST = 20_000, 5  # examples in all, and of each class, at least that many errors
OF_CLASS = 24  # examples of a class at most
RIGHT = 4  # right ones of a class, where it has fewer errors
OF_PAIR = 2  # of a confusion, before others
PICTURES = 300
PAGE_BYTES = 4_800_000  # the page stays below 5 MB
PICTURE_BYTES = 2_500_000  # of all pictures
NAME_BYTES = 1_000_000  # of all names and links
ALL_BYTES = PICTURE_BYTES + NAME_BYTES + 60 * MOST  # with the numbers of each example
PIXELS = 128  # of a picture's side
BEFORE = "These are {}, as predicted before the fix by a network of the first seed that never saw them."
UNSEEN = "These are training examples, as predicted by networks that never saw them."
SEEN = "These are training examples, as predicted by networks that may have been trained on them."

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
        """Count the examples of a class that are predicted as another."""
        return int(((self.outcomes.labels == label) & (self.outcomes.guesses == guess)).sum())


def fix_examples(report: FixReport, dataset: Dataset) -> PageExamples | None:
    """Those that a fix was judged on, as predicted before it; None where the report does not keep predictions."""
    judged = dataset.test or dataset.train
    if report.predictions is None:
        return None
    places = {name: c for c, name in enumerate(judged.classes)}
    texts = {places[one.label]: f"{one.text}." for one in spoken(report.findings) if one.label in places}
    about = BEFORE.format("test examples" if dataset.test else "training examples")
    return _of_data(judged, dataset.folder, report.predictions.outcomes(judged.labels), about, texts)


def estimate_examples(estimate: Estimate, dataset: Dataset) -> PageExamples:
    """Training examples, as the mean of the estimate's members predicts them."""
    blocks = checked_blocks(estimate.probabilities)
    means = [Outcomes.of(block.mean(axis=0), estimate.labels[rows]) for rows, block in blocks]
    about = UNSEEN if estimate.estimator == "out-of-fold" else SEEN
    return _of_data(dataset.train, dataset.folder, Outcomes.joined(means), about, {})


def audit_examples(audit: Audit) -> PageExamples:
    """Those that an audit judges."""
    return PageExamples(
        classes=[row.name for row in audit.classes],
        outcomes=Outcomes(audit.labels, audit.guesses, audit.p_label, audit.p_guess),
        name_of=audit.name_of,
        pixels=lambda chosen: _audited_pixels(audit, chosen),
        file_of=lambda i: None if audit.images is None or isinstance(audit.images, np.ndarray) else audit.images[i],
        doubts=None if audit.noise is None else np.where(audit.noise.is_issue, audit.noise.p_wrong, 0.0),
        texts={c: f"{row.verdict}." for c, row in enumerate(audit.classes) if row.verdict},
    )


def _of_data(data: Data, folder: Path | None, outcomes: Outcomes, about: str, texts: Mapping[int, str]) -> PageExamples:
    names = data.names

    def pixels(chosen: Sequence[int]) -> Pixels:
        pictures = ((i, data.picture(i)) for i in chosen)
        return [(i, picture) for i, picture in pictures if picture is not None]

    return PageExamples(
        classes=data.classes,
        outcomes=outcomes,
        name_of=lambda i: printable(data.name_of(i)),
        pixels=pixels,
        file_of=lambda i: None if folder is None or names is None else folder / names[i],
        texts=texts,
        about=about,
    )


def _audited_pixels(audit: Audit, chosen: Sequence[int]) -> Pixels:
    """Of examples; files that cannot be read as images are left out, and linked all the same."""
    if audit.images is None or not chosen:
        return []
    if isinstance(audit.images, np.ndarray):
        return [(i, audit.images[i]) for i in chosen]
    sources = [(audit.images[i].read_bytes, str(audit.images[i])) for i in chosen]
    size = common_size(sources)
    if size == (SIDE, SIDE):
        size = (PIXELS, PIXELS)
    skipped = dict[int, str]()
    decoded = [pixels for batch in decode(sources, size, 3, skipped) for pixels in batch]
    readable = [i for place, i in enumerate(chosen) if place not in skipped]
    return list(zip(readable, decoded, strict=True))


def page_data(examples: PageExamples, folder: Path, room: int = PAGE_BYTES) -> dict[str, Any]:
    """What the page's script reads: classes, examples as rows, and pictures as data URLs, in so many bytes.

    A row is (label, guess, p of the label, p of the guess, p that the label is wrong, name, picture, link). Files
    whose pictures are not in the page are linked from its folder.
    """
    about: dict[str, Any] = {
        "classes": list(examples.classes),
        "texts": {str(c): text for c, text in examples.texts.items()},
        "about": examples.about,
        "totals": _totals(examples).tolist(),
    }
    left = max(0, room - len(json.dumps(about)))
    share = min(1.0, left / ALL_BYTES)
    chosen = _chosen(examples, int(share * MOST))
    pictures = _pictures(examples, chosen[: int(share * PICTURES)], int(share * PICTURE_BYTES))
    places = {i: place for place, i in enumerate(pictures)}
    outcomes = examples.outcomes
    rows = list[list[Any]]()
    size = 0
    for i in chosen.tolist():
        name = examples.name_of(i)
        link = "" if i in places else _link(examples.file_of(i), folder)
        size += len(json.dumps(name)) + len(link)  # as the page has it
        if size > share * NAME_BYTES:
            break
        p_label = round(float(outcomes.p_label[i]), 4)
        p_guess = round(float(outcomes.p_guess[i]), 4)
        doubt = None if examples.doubts is None else round(float(examples.doubts[i]), 4)
        label = int(outcomes.labels[i])
        guess = int(outcomes.guesses[i])
        rows.append([label, guess, p_label, p_guess, doubt, name, places.get(i, -1), link])
    return about | {"examples": rows, "thumbs": list(pictures.values())}


def _totals(examples: PageExamples) -> NDArray[np.int64]:
    """(C, 3) of each class all examples that are wrong, right, and of other classes but predicted as it."""
    number = len(examples.classes)
    wrong = examples.is_wrong
    labels = examples.outcomes.labels
    groups = (labels[wrong], labels[~wrong], examples.outcomes.guesses[wrong])
    return np.stack([np.bincount(group, minlength=number) for group in groups], axis=1)


def _chosen(examples: PageExamples, number: int) -> NDArray[np.int64]:
    """Examples by how telling they are: the first of each class, the worst class first, then the second ones.

    Of a class first the surest errors of each confusion, then other errors, then right ones that are least sure.
    """
    outcomes = examples.outcomes
    wrong = examples.is_wrong
    classes = len(examples.classes)
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


def _pictures(examples: PageExamples, chosen: NDArray[np.int64], room: int) -> dict[int, str]:
    """Index -> data URL of the first examples, as far as there is room."""
    pictures = dict[int, str]()
    size = 0
    for i, pixels in examples.pixels(chosen.tolist()):
        url = thumbnail(pixels, PIXELS)
        size += len(url)
        if size > room:
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
