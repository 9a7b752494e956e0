"""What was wrong before and is after: errors, confusions and calibration of both sides, labels that look wrong, classes in plain words."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.measures.scores import check_labels, check_probabilities
from class_uncertainty.metrics import evaluate, reliability, surprise
from class_uncertainty.remedies.adjust import adjust, check_prior
from class_uncertainty.text import printable

THUMBNAIL = 160  # pixels a side at most: twice what the page shows, for dense screens

# When a class is spoken of, and how.
APART = 5.0  # percent points that a class is worse than the better quarter at least
SCARCE = 0.5  # of the median count: a class with no more has few examples
MOST = 0.5  # of a class's errors: more than that say where they go


@dataclass(frozen=True)
class Bin:
    """Of a reliability diagram: how much of all examples it holds, their mean confidence, and how many of them are right, from 0 to 1."""

    share: float
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Side:
    """Before or after: errors in percent of each seed, what classes are called, and calibration over all seeds."""

    errors: tuple[float, ...]  # (S,) class means
    class_errors: tuple[tuple[float, ...], ...]  # (S, C)
    worst: tuple[float, ...]  # (S,) mean error of the worst tenth of the classes
    confusion: tuple[tuple[float, ...], ...]  # (C, C) percent of the row's examples that are called the column, mean over the seeds
    bins: tuple[Bin, ...]  # those that hold anything
    ece: float  # percent
    nll: float  # nats

    @property
    def means(self) -> NDArray[np.float64]:
        """(C,) class errors, mean over the seeds."""
        return np.mean(self.class_errors, axis=0)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Side":
        """Of what dataclasses.asdict made of it."""
        flat = {name: tuple(document[name]) for name in ("errors", "worst")}
        rows = {name: tuple(map(tuple, document[name])) for name in ("class_errors", "confusion")}
        return cls(**(document | flat | rows | {"bins": tuple(Bin(**each) for each in document["bins"])}))


@dataclass(frozen=True)
class Suspect:
    """A training example whose label is probably wrong, by networks that never saw it; probabilities are adjusted for the counts."""

    index: int  # among the training examples
    label: str
    guess: str
    p_label: float
    p_guess: float
    picture: str  # a PNG inside an address, "" of features
    name: str = ""  # where it comes from: a file, a line; its number where that is not known

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"no. {self.index}")


@dataclass(frozen=True)
class Finding:
    """One sentence on one class: 'few', 'hard' or 'confused'; 'even', of no class, where there is nothing to find."""

    label: str
    kind: str
    text: str


@dataclass(frozen=True)
class Mended:
    """A data set's classifier before and after a remedy."""

    data: str
    method: str  # 'distil'
    seeds: int  # trainings of each side
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    tau: float
    temperature: float  # T, that students are taught at
    cost: float  # in trainings of one network
    teachers: str  # in words
    before: Side
    after: Side
    findings: tuple[Finding, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    witnesses: int | None = None  # networks that must all take a suspect for the same other class
    note: str = ""
    kind: str = ""  # of recipe and device
    cooling: float | None = None  # what the kept network's logits are divided by
    lr: float | None = None  # of the teachers

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Mended":
        """Of what dataclasses.asdict made of it, and JSON of that."""
        parts = {
            "classes": tuple(document["classes"]),
            "counts": tuple(document["counts"]),
            "before": Side.from_document(document["before"]),
            "after": Side.from_document(document["after"]),
            "findings": tuple(Finding(**each) for each in document["findings"]),
            "suspects": tuple(Suspect(**each) for each in document["suspects"]),
        }
        return cls(**(document | parts))


def side(probabilities: Any, labels: ArrayLike, counts: ArrayLike, prior: ArrayLike | None = None) -> Side:
    """Probabilities (S, N, C) of unseen examples by each seed, labels (N,), training counts (C,) -> Side.

    In bins, ECE and NLL an example weighs prior_y / n_y: by default every class alike, however many of its examples are judged.
    """
    p = check_probabilities(probabilities)
    seeds, examples, classes = p.shape
    labels = check_labels(labels, examples, classes)
    judged = np.bincount(labels, minlength=classes)
    if not judged.all():
        raise InputError(f"class {np.flatnonzero(judged == 0)[0]} has no examples to be judged by: its error is not defined.")
    if np.shape(counts) != (classes,):
        raise InputError(f"counts have the shape {np.shape(counts)}: there must be one for each of {classes} classes.")
    scores = [evaluate(each, labels, counts) for each in p]
    weights = np.tile((check_prior(prior, classes) / judged)[labels], seeds) / seeds
    called, own = p.argmax(axis=2), p[:, np.arange(examples), labels]  # (S, N)
    confusion = np.bincount((labels * classes + called).ravel(), minlength=classes**2).reshape(classes, classes)
    bins = reliability(p.max(axis=2).ravel(), (called == labels).ravel(), weights)  # (at most BINS, 3)
    return Side(
        errors=tuple(each.class_mean_error for each in scores),
        class_errors=tuple(each.class_errors for each in scores),
        worst=tuple(each.worst for each in scores),
        confusion=tuple(tuple(map(float, row)) for row in 100 * confusion / (seeds * judged[:, None])),
        bins=tuple(Bin(*map(float, each)) for each in bins),
        ece=100 * float(bins[:, 0] @ np.abs(bins[:, 2] - bins[:, 1])),
        nll=float(weights @ surprise(own).ravel()),
    )


def suspects(unseen: Any, labels: ArrayLike, train: Data, most: int = 24) -> list[Suspect]:
    """Training examples that networks which never saw them agree to be of another class, the clearest first.

    Probabilities (N, C) or (T, N, C), adjusted for the counts; t_c is the mean p_c of the examples labelled c, as in confident learning.
    Suspect: every member's first guess is g, p_g >= t_g, p_label < t_label, and g is likelier than the label without the adjustment too.
    Where that is half of a class or more, the networks do not know the class, and nothing is said of its labels.
    """
    p = check_probabilities(np.asarray(unseen)[None] if np.ndim(unseen) == 2 else unseen)
    labels = check_labels(labels, *p.shape[1:])
    if len(labels) != len(train) or p.shape[2] != len(train.classes):
        raise InputError(f"probabilities have shape {p.shape}: there are {len(train)} training examples of {len(train.classes)} classes.")
    plain, p, rows = p.mean(axis=0), adjust(p, train.counts), np.arange(len(labels))  # (N, C), (T, N, C), (N,)
    guesses, mean = p.argmax(axis=2), p.mean(axis=0)  # (T, N), (N, C)
    counts, guess = np.bincount(labels, minlength=p.shape[2]), guesses[0]
    p_label, p_guess = mean[rows, labels], mean[rows, guess]
    usual = np.bincount(labels, weights=p_label, minlength=p.shape[2]) / np.maximum(counts, 1)  # t
    found = (
        (guesses == guess).all(axis=0) & (p_guess >= usual[guess]) & (p_label < usual[labels]) & (plain[rows, guess] > plain[rows, labels])
    )
    found &= (2 * np.bincount(labels, weights=found, minlength=p.shape[2]) < counts)[labels]
    ordered = sorted(np.flatnonzero(found), key=lambda i: p_label[i] - p_guess[i])[:most]
    return [
        Suspect(
            index=int(i),
            label=train.classes[labels[i]],
            guess=train.classes[guess[i]],
            p_label=float(p_label[i]),
            p_guess=float(p_guess[i]),
            picture=thumbnail(train.inputs[i]) if train.is_images else "",
            name="" if train.names is None else printable(str(train.names[i])),
        )
        for i in ordered
    ]


def thumbnail(pixels: NDArray[Any]) -> str:
    """(channels, H, W) -> a PNG inside an address; one or two channels show as grey, more than three as the first three."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise InputError("the report's pictures need Pillow, which is not installed: run 'pip install pillow'.") from None
    shown = pixels[:3].transpose(1, 2, 0) if len(pixels) >= 3 else pixels[0]
    image = Image.fromarray(np.ascontiguousarray(shown, dtype=np.uint8))
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def findings(
    classes: Sequence[str], counts: ArrayLike, class_errors: ArrayLike, confusion: ArrayLike, uncertainty: ArrayLike, most: int = 5
) -> list[Finding]:
    """A sentence on each class that is much worse than the better quarter, the worst first; of equals the most uncertain.

    Much worse: by APART points. Counts, class errors in percent and raw class uncertainties (C,), confusion (C, C) in percent.
    """
    number = len(classes)
    known = {"counts": counts, "class errors": class_errors, "uncertainty": uncertainty, "confusion": confusion}
    for name, values in known.items():
        shape = (number, number) if name == "confusion" else (number,)
        if np.shape(values) != shape or not number or not np.isfinite(np.asarray(values, dtype=np.float64)).all():
            raise InputError(f"{name} must be finite numbers of the shape {shape}, for {number} classes.")
    n, errors, unsure, called = (np.asarray(values, dtype=np.float64) for values in known.values())
    apart = errors >= np.percentile(errors, 25) + APART
    worst = [int(c) for c in np.lexsort((-unsure, -errors)) if apart[c]][:most]
    found = [Finding(classes[c], *_finding(c, classes, n, errors, called, unsure[c] < np.median(unsure))) for c in worst]
    return found or [Finding("", "even", f"No class is much worse than the others: {errors.min():.0f} to {errors.max():.0f} % are wrong.")]


def _finding(c: int, classes: Sequence[str], n: NDArray, errors: NDArray, called: NDArray, sure: bool) -> tuple[str, str]:
    """(kind, sentence). Few: a scarce class whose errors go to classes with more; confused: most errors go to one class; else hard."""
    wrong = called[c] * (np.arange(len(n)) != c)
    scarce, first = n[c] <= SCARCE * np.median(n), int(wrong.argmax())
    lost = f"{classes[c]}: {errors[c]:.0f} % wrong"
    examples = f"{n[c]:,.0f} example{'' if n[c] == 1 else 's'}"
    if scarce and wrong[n > n[c]].sum() > MOST * wrong.sum():
        usual = f"the other class has {n.max():,.0f}" if len(n) == 2 else f"the median class has {np.median(n):,.0f}"
        return "few", f"{lost}, with {examples}; {usual}"
    if len(n) > 2 and wrong[first] > MOST * wrong.sum():  # of two classes there is but one other
        return "confused", f"{lost}; {wrong[first]:.0f} % are called {classes[first]}"
    if scarce:
        return "hard", f"{lost}, with {examples}; most of its errors go to classes that have no more"
    spite, known = "in spite of" if n[c] >= np.median(n) else "with", " that the networks are sure of" if sure else ""
    return "hard", f"{lost} {spite} {examples}{known}"


def costly(confusion: ArrayLike, classes: Sequence[str], most: int = 8) -> list[tuple[str, str, float]]:
    """(label, what it is called, percent of the class): the confusions that cost the class-mean error most, 1 / C of that each."""
    called = np.array(confusion, dtype=np.float64)
    if called.shape != (len(classes), len(classes)):
        raise InputError(f"confusion has shape {called.shape}: it needs a row and a column for each of {len(classes)} classes.")
    np.fill_diagonal(called, 0.0)
    order = np.argsort(-called, axis=None, kind="stable")[:most]
    pairs = [(int(i // len(classes)), int(i % len(classes))) for i in order]
    return [(classes[c], classes[k], float(called[c, k])) for c, k in pairs if called[c, k] > 0]
