"""Training examples whose labels are probably wrong, by networks that never saw them."""

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.measures.scores import check_labels, check_probabilities
from class_uncertainty.posthoc.adjustment import adjust
from class_uncertainty.text import printable

SMALL = 84  # pixels: a narrower image is kept exactly, and enlarged without smoothing
THUMBNAIL = 320  # pixels a side at most: twice what the page shows, for dense screens, and its full size on a click


@dataclass(frozen=True)
class LabelIssue:
    """A training example whose label is probably wrong; the probabilities are adjusted for the counts."""

    index: int  # among the training examples
    label: str
    guess: str
    p_label: float
    p_guess: float
    picture: str  # a PNG as a data URL, "" for features
    name: str = ""  # where the example comes from: a file or a line; its number where that is not known

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"no. {self.index}")


def label_issues(unseen: Any, labels: ArrayLike, train: Data, most: int = 24) -> list[LabelIssue]:
    """Training examples that networks which never saw them agree to be of another class, the clearest first.

    Probabilities are (N, C) or (T, N, C). With p adjusted for the counts and t_c the mean p_c of the examples labelled
    c, as in confident learning, a label is an issue where every member predicts g, p_g >= t_g, p_label < t_label, and g
    is likelier than the label without the adjustment too. Where that holds for half of a class or more, the networks do
    not know the class, and none of its labels is listed.
    """
    p = check_probabilities(np.asarray(unseen)[None] if np.ndim(unseen) == 2 else unseen)
    labels = check_labels(labels, *p.shape[1:])
    if len(labels) != len(train) or p.shape[2] != len(train.classes):
        expected = f"there are {len(train)} training examples of {len(train.classes)} classes"
        raise InputError(f"probabilities have shape {p.shape}: {expected}.")
    unadjusted, p, rows = p.mean(axis=0), adjust(p, train.counts), np.arange(len(labels))  # (N, C), (T, N, C), (N,)
    guesses, mean = p.argmax(axis=2), p.mean(axis=0)  # (T, N), (N, C)
    counts, guess = np.bincount(labels, minlength=p.shape[2]), guesses[0]
    p_label, p_guess = mean[rows, labels], mean[rows, guess]
    thresholds = np.bincount(labels, weights=p_label, minlength=p.shape[2]) / np.maximum(counts, 1)  # t
    is_issue = (guesses == guess).all(axis=0) & (p_guess >= thresholds[guess]) & (p_label < thresholds[labels])
    is_issue &= unadjusted[rows, guess] > unadjusted[rows, labels]
    is_issue &= (2 * np.bincount(labels, weights=is_issue, minlength=p.shape[2]) < counts)[labels]
    clearest = sorted(np.flatnonzero(is_issue), key=lambda i: p_label[i] - p_guess[i])[:most]
    return [
        LabelIssue(
            index=int(i),
            label=train.classes[labels[i]],
            guess=train.classes[guess[i]],
            p_label=float(p_label[i]),
            p_guess=float(p_guess[i]),
            picture="" if (pixels := train.picture(int(i))) is None else thumbnail(pixels),
            name="" if train.names is None else printable(str(train.names[i])),
        )
        for i in clearest
    ]


def thumbnail(pixels: NDArray[Any]) -> str:
    """(channels, H, W) in a data URL: small images as PNG, photographs as JPEG.

    One or two channels show as grey, of more than three the first three.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise InputError(
            "the report's pictures need Pillow, which is not installed: run 'pip install pillow'."
        ) from None
    shown = pixels[:3].transpose(1, 2, 0) if len(pixels) >= 3 else pixels[0]
    image = Image.fromarray(np.ascontiguousarray(shown, dtype=np.uint8))
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    stream, form = io.BytesIO(), "PNG" if image.width < SMALL else "JPEG"
    image.save(stream, form, optimize=True)
    return f"data:image/{form.lower()};base64,{base64.b64encode(stream.getvalue()).decode()}"
