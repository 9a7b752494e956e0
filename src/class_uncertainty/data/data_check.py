"""check(): problems in data, found before anything is trained."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.class_names import twins_found
from class_uncertainty.data.dataset import Dataset, LeftOut, unjudged_found
from class_uncertainty.data.examples import Data, label_conflicts
from class_uncertainty.data.finding import KINDS, Finding
from class_uncertainty.data.frame_sources import dataset_from
from class_uncertainty.data.sources import SOURCES
from class_uncertainty.text import amount_of, enumerated, in_list, listed, to_frame

FEWEST = 5  # test examples, below which an error of a class says little
NOTICEABLE = 0.01  # share of copies among training images from which other commands report them
NAMED = 5  # classes or columns in a sentence
KIND_OF = {"?skip": "unreadable", "?min": "rare-classes"}  # of what an option leaves out


@dataclass(frozen=True, eq=False)
class Check:
    """What `cu.check` returns.

    Attributes
    ----------
    dataset : Dataset
        What was checked.
    findings : tuple of Finding
        What is wrong, the worst first.

    Examples
    --------
    >>> data = cu.Data([[1.0, 3.0], [1.0, 3.0], [2.0, 3.0], [4.0, 3.0]], ["cat", "dog", "cat", "dog"])
    >>> [finding.kind for finding in cu.check(data).findings]
    ['two-labels', 'few-test', 'constant-columns']
    """

    dataset: Dataset
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        return f"Check({self.dataset!r}, {amount_of(len(self.findings), 'finding', 'findings')})"

    def document(self) -> dict[str, Any]:
        """What `cu check --json` prints."""
        return {
            "data": self.dataset.name,
            "fingerprint": self.dataset.fingerprint,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def to_frame(self) -> Any:
        """The findings as a DataFrame of pandas."""
        return to_frame([asdict(finding) for finding in self.findings])


def check(data: Any, y: Any = None, *, label: str | None = None) -> Check:
    """Find problems in data, without training: copies, conflicting labels, classes that cannot be judged, columns.

    Parameters
    ----------
    data : Dataset, Data, DataFrame or array
        What to check; arrays are images or features.
    y : array, optional
        The labels of an array or a DataFrame, numbers or names.
    label : str, optional
        The column of a DataFrame that has the labels, 'label' by default.

    Returns
    -------
    Check

    Examples
    --------
    >>> X = np.array([[1.0], [1.0], [2.0], [3.0]])
    >>> print(cu.check(X, ["cat", "dog", "cat", "dog"]).findings[0].sentence)
    1 example carries two labels
    """
    return check_dataset(dataset_from(data, y, label, is_told=False))


def check_dataset(dataset: Dataset, found: Sequence[Finding] = (), side: int | None = None) -> Check:
    """The findings of a data set, with those `found` as it was read, for a backbone that takes images of that side."""
    findings = [
        *found,
        *dataset.noticed,
        *map(_left_out_found, dataset.left_out),
        *_copies_found(dataset),
        unjudged_found(dataset),
        _few_found(dataset),
        _constant_found(dataset.train),
        twins_found(dataset.classes),
        _small_images_found(dataset.train, side),
    ]
    order = list(KINDS)
    present = [finding for finding in findings if finding is not None]
    return Check(dataset, tuple(sorted(present, key=lambda finding: order.index(finding.kind))))


def notes(check: Check, data_name: str, most: int = 3) -> list[str]:
    """The findings that other commands print, a line each, and the command that shows all."""
    findings = [finding for finding in check.findings if not finding.is_minor]
    if not findings:
        return []
    lines = [f"! {finding}" for finding in findings[:most]]
    more = f"{len(findings) - most} more; " if len(findings) > most else ""
    return [*lines, f"  {more}for details: cu check {quote(data_name)}"]


def _left_out_found(part: LeftOut) -> Finding:
    kind = KIND_OF.get(part.option.partition("=")[0], "left-out")
    if kind == "unreadable":
        sentence = f"{part.number:,} of {part.of:,} {part.what} cannot be read"
        named = f" ({enumerated(part.names, NAMED, part.number)})"
        advice = f"{part.option} leaves them out"
    else:
        sentence = f"{part.number:,} of {part.of:,} {part.what} left out"
        named = f" ({enumerated(part.names, NAMED, part.number)})" if part.names else ""
        advice = f"requested by {part.option}"
    return Finding(kind, sentence + named, advice, part.number, part.names)


def _copies_found(dataset: Dataset) -> list[Finding]:
    """Copies under two labels, of test examples among training examples, and within the training split.

    Each counts once: what occurs with two labels is in none of the others.
    """
    train, test = dataset.train, dataset.test
    splits = [train] if test is None else [train, test]
    digests = np.concatenate([split.digests for split in splits])
    labels = np.concatenate([split.labels for split in splits])
    _, first, content = np.unique(digests, return_index=True, return_inverse=True)
    original = first[content]  # (N,) the first example of the same content, of training where there is one
    pairs = np.unique(content * len(dataset.classes) + labels)  # (content, label) pairs that occur
    has_two_labels = (np.bincount(pairs // len(dataset.classes)) > 1)[content]
    places = np.arange(len(content))
    is_plain_copy = (original != places) & ~has_two_labels
    is_test = places >= len(train)
    findings = [
        _two_labels_found(dataset, np.flatnonzero(has_two_labels), content, labels),
        _test_copies_found(dataset, np.flatnonzero(is_plain_copy & is_test & (original < len(train))), original),
        _train_copies_found(dataset, np.flatnonzero(is_plain_copy & ~is_test), original),
    ]
    return [finding for finding in findings if finding is not None]


def _two_labels_found(dataset: Dataset, places: NDArray, content: NDArray, labels: NDArray) -> Finding | None:
    if not len(places):
        return None
    names = [f"{_name_at(dataset, place)} ({in_list(dataset.classes[labels[place]])})" for place in places.tolist()]
    conflicts = label_conflicts(content[places].tolist(), labels[places].tolist())
    examples = tuple(" = ".join(names[i] for i in alike) for alike in conflicts)
    sentence = amount_of(len(examples), f"{_noun(dataset)} carries two labels", f"{_noun(dataset)}s carry two labels")
    advice = "correct the labels"
    if not dataset.train.shows_pictures:
        advice = "no model can tell these apart, so check the labels"
    return Finding("two-labels", sentence, advice, len(examples), examples)


def _test_copies_found(dataset: Dataset, copies: NDArray, original: NDArray) -> Finding | None:
    if not len(copies):
        return None
    noun = amount_of(len(copies), f"test {_noun(dataset)} repeats", f"test {_noun(dataset)}s repeat")
    examples = _pairs(dataset, copies, original)
    return Finding("test-copies", f"{noun} a training {_noun(dataset)}", _advice(dataset), len(copies), examples)


def _train_copies_found(dataset: Dataset, copies: NDArray, original: NDArray) -> Finding | None:
    if not len(copies):
        return None
    train = dataset.train
    sentence = amount_of(len(copies), f"training {_noun(dataset)} repeats", f"training {_noun(dataset)}s repeat")
    sentence += " another"
    if dataset.test is not None:
        # rows of a table may be alike by chance
        is_minor = not train.shows_pictures or len(copies) < NOTICEABLE * len(train)
    elif train.group_codes is None:
        is_minor = False
        sentence += ", and folds may separate them"
    else:
        is_minor = bool((train.group_codes[copies] == train.group_codes[original[copies]]).all())
    examples = _pairs(dataset, copies, original)
    return Finding("copies", sentence, _advice(dataset), len(copies), examples, is_minor)


def _pairs(dataset: Dataset, copies: NDArray, original: NDArray) -> tuple[str, ...]:
    pairs = zip(copies.tolist(), original[copies].tolist(), strict=True)
    return tuple(f"{_name_at(dataset, copy)} = {_name_at(dataset, first)}" for copy, first in pairs)


def _name_at(dataset: Dataset, place: int) -> str:
    """Where the example comes from, of those of training and then those of test."""
    train, test = dataset.train, dataset.test
    if test is None or place < len(train):
        return in_list(train.name_of(place))
    name = in_list(test.name_of(place - len(train)))
    is_path = dataset.folder is not None
    return name if is_path else f"test {name}"


def _noun(dataset: Dataset) -> str:
    if dataset.train.shows_pictures:
        return "image"
    return "example" if dataset.train.label is None else "row"


def _advice(dataset: Dataset) -> str:
    """How copies are left out."""
    chance = "" if dataset.train.shows_pictures else "they may be alike by chance; "
    source = SOURCES.get(dataset.name.partition(":")[0])
    if dataset.folder is not None or (source is not None and "repeats" in source.options):
        return f"{chance}?repeats=drop leaves copies out"
    if dataset.name.startswith("frame"):
        return f"{chance}load(frame, repeats='drop') leaves copies out"
    return f"{chance}leave copies out"


def _few_found(dataset: Dataset) -> Finding | None:
    judge = dataset.test or dataset.train
    few = np.flatnonzero((judge.counts > 0) & (judge.counts < FEWEST))
    if not len(few):
        return None
    have = amount_of(len(few), "class has", "classes have")
    kind = "examples" if dataset.test is None else "test examples"
    named = tuple(f"{in_list(dataset.classes[c])} ({judge.counts[c]})" for c in few)
    sentence = f"{have} fewer than {FEWEST} {kind}, {enumerated(named, NAMED)}"
    return Finding("few-test", sentence, "add examples for reliable errors", len(few), named)


def _constant_found(train: Data) -> Finding | None:
    """Columns of a table, or features, that have one value in all training examples."""
    if train.shows_pictures:
        return None
    is_constant = train.inputs.min(axis=0) == train.inputs.max(axis=0)
    columns: Sequence[str] = train.columns or [f"feature {i}" for i in range(train.shape[0])]
    if train.encoding is not None:
        columns = [column.name for column in train.encoding for _ in column.features]
    names = tuple(columns[i] for i in np.flatnonzero(is_constant).tolist())
    if not names:
        return None
    have = "has" if len(names) == 1 else "have"
    advice = "nothing can be learnt from them"
    if train.encoding is not None:
        advice = f"--drop {quote(','.join(names))} (in Python drop=) leaves them out"
    sentence = f"{listed(names, NAMED)} {have} one value in all training examples"
    return Finding("constant-columns", sentence, advice, len(names), names, is_minor=True)


def _small_images_found(train: Data, side: int | None) -> Finding | None:
    """Images that a backbone enlarges."""
    height, width = train.shape[1:] if train.is_images else (0, 0)
    if train.embedding is not None:
        side = train.embedding.size
        height, width = train.embedding.images
    shorter = min(height, width)
    if side is None or not 0 < shorter < side:
        return None
    sentence = f"images have {shorter} pixels on the shorter side, and the backbone takes {side}"
    return Finding("small-images", sentence, "use larger images, or compare with --backbone none", len(train))
