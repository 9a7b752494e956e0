"""Training examples whose labels are probably wrong, by networks that never saw them."""

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, missing
from class_uncertainty.measures.uncertainty import check_labels, check_rows_or_members
from class_uncertainty.posthoc.noise_model import label_noise
from class_uncertainty.text import printable

NEAREST = 20
CHEAP = 10**12  # products: about twenty seconds on two cores
ROWS = 1000  # examples compared at a time


def neighbour_counts(
    inputs: NDArray, labels: NDArray[np.int64], classes: int, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64] | None:
    """(N, C) how many of its NEAREST other examples have each label; None where that is not cheap.

    The nearest have the largest cosine of their features or pixels, standardised. Those of an example's group do not
    count: a patient's images share a wrong label.
    """
    x = inputs.reshape(len(inputs), -1)
    if len(x) ** 2 * x.shape[1] > CHEAP or len(x) <= NEAREST:
        return None
    deviation = x.std(axis=0, dtype=np.float32)
    x = (x - x.mean(axis=0, dtype=np.float32)) / np.where(deviation > 0, deviation, 1)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    groups = np.arange(len(x)) if groups is None else groups
    counts = np.zeros((len(x), classes), dtype=np.int64)
    for start in range(0, len(x), ROWS):
        rows = np.arange(start, min(start + ROWS, len(x)))
        cosines = x[rows] @ x.T
        cosines[groups[rows, None] == groups] = -np.inf
        nearest = np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST]
        np.add.at(counts, (rows[:, None], labels[nearest]), np.isfinite(np.take_along_axis(cosines, nearest, axis=1)))
    return counts


def neighbour_shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N, C) probabilities from counts, half an example added to each class."""
    shares = counts + 0.5
    return shares / shares.sum(axis=1, keepdims=True)


SHOWN = 24  # issues with a picture
SMALL = 84  # pixels: a narrower image is kept exactly, and enlarged without smoothing
THUMBNAIL = 320  # pixels a side at most: twice what the page shows, for dense screens, and its full size on a click


@dataclass(frozen=True)
class LabelIssue:
    """A training example whose label is probably wrong. The probabilities do not consider its label."""

    index: int  # among the training examples
    label: str
    guess: str
    p_label: float
    p_guess: float
    picture: str  # an image as a data URL; "" for features, and for all but the clearest
    name: str = ""  # where the example comes from: a file or a line; its number where that is not known
    p_wrong: float = 1.0  # that the label is wrong
    votes: int = 0  # networks that predict the guess rather than the label
    near_label: int | None = None  # nearest examples with this label; None where they were not looked for
    near_guess: int | None = None  # nearest examples that are labelled as guessed

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"no. {self.index}")


def label_issues(unseen: Any, labels: ArrayLike, train: Data) -> list[LabelIssue]:
    """Training examples whose label is more likely wrong than right, the clearest first.

    Probabilities are (N, C) or (T, N, C), by networks that never saw the examples. Nearest neighbours are a second
    source where they are cheap. SHOWN issues have a picture.
    """
    p = check_rows_or_members(unseen)
    labels = check_labels(labels, *p.shape[1:])
    if len(labels) != len(train) or p.shape[2] != len(train.classes):
        expected = f"there are {len(train)} training examples of {len(train.classes)} classes"
        raise InputError(f"probabilities have shape {p.shape}: {expected}.")
    near = neighbour_counts(train.inputs, labels, p.shape[2], train.group_codes)
    noise = label_noise(p, labels, () if near is None else (neighbour_shares(near),))
    ranked, guesses = noise.ranked, noise.guesses
    return [
        LabelIssue(
            index=int(i),
            label=train.classes[labels[i]],
            guess=train.classes[guesses[i]],
            p_label=float(noise.probabilities[i, labels[i]]),
            p_guess=float(noise.probabilities[i, guesses[i]]),
            picture=_picture(train, int(i)) if place < SHOWN else "",
            name="" if train.names is None else printable(str(train.names[i])),
            p_wrong=float(noise.p_wrong[i]),
            votes=int((p[:, i, guesses[i]] > p[:, i, labels[i]]).sum()),
            near_label=None if near is None else int(near[i, labels[i]]),
            near_guess=None if near is None else int(near[i, guesses[i]]),
        )
        for place, i in enumerate(ranked)
    ]


def _picture(train: Data, i: int) -> str:
    pixels = train.picture(i)
    return "" if pixels is None else thumbnail(pixels)


def thumbnail(pixels: NDArray[Any], side: int = THUMBNAIL) -> str:
    """(channels, H, W) in a data URL, at most so many pixels a side: small images as PNG, photographs as JPEG.

    One or two channels show as grey, of more than three the first three.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise missing("Pillow", needed_by="the report's pictures need") from None
    shown = pixels[:3].transpose(1, 2, 0) if len(pixels) >= 3 else pixels[0]
    image = Image.fromarray(np.ascontiguousarray(shown, dtype=np.uint8))
    image.thumbnail((side, side))
    stream, form = io.BytesIO(), "PNG" if image.width < SMALL else "JPEG"
    image.save(stream, form, optimize=True)
    return f"data:image/{form.lower()};base64,{base64.b64encode(stream.getvalue()).decode()}"
