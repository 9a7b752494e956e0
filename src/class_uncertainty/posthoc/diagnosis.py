"""Which classes are wrong, and why: a verdict on each class, as far as the test examples allow one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.measures.uncertainty import check_labels, check_rows_or_members
from class_uncertainty.posthoc import intervals
from class_uncertainty.posthoc.adjustment import adjust
from class_uncertainty.posthoc.intervals import HANDFUL, LEVEL, design_effects, design_effects_of_rest, level_of_all
from class_uncertainty.text import amount_of, decimal, enumerated, in_list

APART = 5.0  # percentage points by which a class must be worse than the others to be spoken of,
APART_SHARE = 0.5  # and how much of their error: where all classes are hard, a training shifts their borders
SCARCE = 0.5  # of the median count: a class with no more is rare
MAJORITY = 0.5  # of a class's excess or errors: what explains as much is the reason
MOSTLY = 0.5  # of the classes: where more cannot be judged, that is the verdict
WIDE = 40.0  # percentage points: a wider interval says nothing
NEAR = 15.0  # percentage points above the others: a rare class is easy where its whole interval stays below that,
EASY = 50.0  # and its error below so many percent: however hard the others are, most of its examples are right
NOTHING_WRONG = (
    f"No class is clearly worse than the others (by {APART:.0f} points or more, and by half of their error)."
)
BY_COST = "Errors are of decisions by costs. Verdicts leave costs out: they, and the errors in them, are of the most "
BY_COST += "probable classes, as costs may want a class to be worse than the others."
WITHOUT_COSTS = ", without costs"  # beside each verdict then
KINDS = {  # of verdicts; "" is said of a class with which nothing is wrong
    "imbalance": "imbalance",
    "hard": "hard",
    "confused": "confused",
    "noise": "label noise",
    "scarce": "few examples",
    "threshold": "wrong threshold",
    "unclear": "cause unclear",
    "unknown": "too few test examples",
    "easy": "rare but easy",
}
NAMED = 5  # classes in a sentence
OF_EXAMPLES = ("error", "low", "high", "adjusted", "change", "change_low", "change_high", "rival_share", "suspect")
UNJUDGED = ("unknown", "easy")  # kinds of classes with which nothing is known to be wrong

Vector = NDArray[np.float64]  # (C,)


@dataclass(frozen=True)
class ClassEvidence:
    """What is known of one class. Shares are in percent, changes in percentage points, intervals at 95 %."""

    count: int  # training examples
    examples: int  # test examples
    error: float
    low: float  # the error's interval, by Clopper and Pearson
    high: float
    others: float  # error of all other test examples
    adjusted: float  # error once the probabilities are adjusted for the counts, and nothing else
    change: float  # by that
    change_low: float  # its paired interval, by Bonett and Price
    change_high: float
    rival: str  # the class that most of its errors go to, once adjusted, where that is significant; else ""
    rival_share: float  # of its examples that are predicted as the class which most errors go to
    suspect: float  # of its labels that look wrong

    @property
    def excess(self) -> float:
        return self.error - self.others


@dataclass(frozen=True)
class Verdict:
    """What the evidence says of one class. Reports of earlier versions hold no evidence, and other kinds."""

    label: str
    kind: str  # a key of KINDS, or "" where nothing is wrong
    text: str  # one sentence; "" where nothing is wrong
    evidence: ClassEvidence | None = None


@dataclass(frozen=True, eq=False)
class Tally:
    """Predictions counted by class, means over the seeds."""

    wrong: Vector  # (N,) share of the seeds that are wrong
    by_class: Vector  # (C,) errors
    confusion: NDArray[np.float64]  # (C, C) examples of the row's class that are predicted as the column's
    examples: NDArray[np.int64]  # (C,)

    @classmethod
    def of(cls, p: NDArray[np.float64], labels: NDArray[np.int64]) -> "Tally":
        """Of probabilities (S, N, C)."""
        classes, guesses = p.shape[2], p.argmax(axis=2)
        pairs = np.bincount((labels * classes + guesses).ravel(), minlength=classes**2)
        confusion = pairs.reshape(classes, classes) / len(p)
        by_class = confusion.sum(axis=1) - confusion.diagonal()
        wrong, examples = guesses != labels, np.bincount(labels, minlength=classes)
        return cls(wrong.mean(axis=0), by_class, confusion, examples)

    @property
    def errors(self) -> Vector:
        """(C,) in percent; 0 for a class without examples."""
        return 100 * self.by_class / np.maximum(self.examples, 1)

    @property
    def others(self) -> Vector:
        """(C,) error of all examples of other classes, in percent."""
        rest = self.examples.sum() - self.examples
        return 100 * (self.by_class.sum() - self.by_class) / np.maximum(rest, 1)

    def is_worse(
        self, level: float, effects: Vector, rest_effects: Vector, share: float = APART_SHARE
    ) -> NDArray[np.bool_]:
        """(C,) whether a class is APART from the others and that is no chance, for any class, at the level."""
        p = intervals.holm(intervals.worse_than_rest(self.by_class, self.examples, effects, rest_effects))
        return (self.errors >= self.others + np.maximum(APART, share * self.others)) & (p <= level)

    def is_near(self, level: float, effects: Vector) -> NDArray[np.bool_]:
        """(C,) whether a class is hardly worse than the others, and not because it is favoured.

        A decision that favours a class trades misses for false alarms. Where there are more of these, at equally
        frequent classes, half of the difference is counted as misses again, and no longer as errors of the others.
        """
        errors = self.confusion * ~np.eye(len(self.examples), dtype=bool)
        alarms = (errors / np.maximum(self.examples, 1)[:, None]).sum(axis=0)
        back = np.maximum(alarms - self.errors / 100, 0) / 2
        missed = np.minimum(self.errors / 100 + back, 1)
        taken = 100 * errors.sum(axis=0) / np.maximum(self.examples.sum() - self.examples, 1)
        others = self.others - taken * back / np.maximum(alarms, 1e-9)
        low, high = intervals.share_interval(missed * self.examples / effects, self.examples / effects, level)
        return (low <= others) & (high <= others + NEAR) & (100 * missed < EASY)


def diagnose(
    labels: ArrayLike,
    probabilities: Any,
    counts: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    adjusted: Any = None,
    suspect: ArrayLike | None = None,
    groups: NDArray[np.int64] | None = None,
    level: float = LEVEL,
) -> tuple[Verdict, ...]:
    """A verdict on each class, from predictions for examples that the model did not see.

    A class is worse where its error is APART points and APART_SHARE above that of all other examples and Fisher's exact
    test says so. Corrected by Holm over all classes, chance alone gives any such verdict with a probability of at most
    `level`. The reason is *imbalance* where adjusting for the counts alone helps, by its interval, and takes away
    at least half of that excess, or all that is significant of it. What stays is *noise* where at least half of it is
    suspect labels, *confused* where most errors go to one class, significantly, and otherwise *scarce* in a rare class
    and *hard* in others. The cause is *unclear* where the adjustment neither helps nor leaves an excess that is
    significant. A class is *unknown* where its interval is wider than WIDE points, unless all of it is APART from the
    others. A rare class is *easy* where the interval begins no higher than the others' error and ends within NEAR
    points of it, and the error is below EASY. Misses that a class is only spared because it is favoured count as well.

    Parameters
    ----------
    labels : array (N,)
        Classes of the examples, from 0.
    probabilities : array (N, C) or (S, N, C)
        Of one model, or of S models that differ in their seeds: then an example counts by its mean over them.
    counts : array (C,)
        Training examples of each class.
    classes : sequence of str, optional
        Their names.
    adjusted : array, optional
        The probabilities after adjustment for the counts; by default `adjust(probabilities, counts)`.
    suspect : array (C,), optional
        Percent of each class's labels that look wrong, as `cu.label_noise` says.
    groups : array (N,), optional
        What each example belongs to, from 0. Examples of a group may err alike: all counts that tests and intervals see
        are divided by a design effect.
    level : float
        Of the tests and of 1 - confidence of the intervals.

    Returns
    -------
    tuple of Verdict
        One a class, in their order.

    Examples
    --------
    >>> labels = np.repeat([0, 1], [900, 100])
    >>> p = np.where(np.arange(1000) % 2, 0.9, 0.7)  # of class 0: all are predicted as class 0
    >>> p[labels == 1] -= 0.2
    >>> [verdict.kind for verdict in diagnose(labels, np.stack([p, 1 - p], axis=1), [900, 100])]
    ['', 'imbalance']
    """
    p = check_rows_or_members(probabilities)
    number = p.shape[2]
    labels = check_labels(labels, p.shape[1], number)
    names = [str(c) for c in range(number)] if classes is None else list(classes)
    given = {"classes": names, "counts": counts, "suspect": suspect}
    for what, values in given.items():
        if values is not None and np.shape(values) != (number,):
            raise InputError(f"{what} have the shape {np.shape(values)}: give one for each of {number} classes.")
    if adjusted is not None and np.shape(adjusted) != np.shape(probabilities):
        raise InputError(f"adjusted have the shape {np.shape(adjusted)}, probabilities {np.shape(probabilities)}.")
    q = adjust(p, counts) if adjusted is None else np.asarray(adjusted).reshape(p.shape)
    before, after = (Tally.of(side, labels) for side in (p, q))
    better, worse = intervals.changed(before.wrong, after.wrong, labels, number)
    of_change = design_effects(after.wrong - before.wrong, labels, number, groups, level)
    of_errors = [design_effects(side.wrong, labels, number, groups, level) for side in (before, after)]
    columns = _columns(before, after, better / of_change, worse / of_change, of_errors[0], of_change, level)
    columns |= {"count": np.asarray(counts), "suspect": np.zeros(number) if suspect is None else np.asarray(suspect)}
    rivals, rows = _rivals(after, of_errors[1], level), list[ClassEvidence]()
    for c in range(number):
        numbers = {name: values[c].item() for name, values in columns.items()}
        rows.append(ClassEvidence(**numbers, rival=names[rivals[c]] if rivals[c] >= 0 else ""))
    helped = columns["change_high"] < 0
    rare, near = is_rare(columns["count"]), before.is_near(level, of_errors[0])
    is_worse, stays = (
        side.is_worse(level, effects, design_effects_of_rest(side.wrong, labels, number, groups, level), share)
        for side, effects, share in zip((before, after), of_errors, (APART_SHARE, 0.0), strict=True)
    )
    tests = np.stack([is_worse, stays, helped, rare, near], axis=1).tolist()
    kinds = [_kind(row, *tested) for row, tested in zip(rows, tests, strict=True)]
    kinds = _of_two(kinds) if number == 2 else kinds
    is_moved = (before.confusion != after.confusion).any(axis=1).tolist()
    together = intervals.share_interval(
        before.by_class / of_errors[0], before.examples / of_errors[0], level_of_all(before.examples, level)
    )
    ends = np.stack(together, axis=1).tolist()
    texts = [_text(*of_class, level) for of_class in zip(names, rows, kinds, ends, is_moved, strict=True)]
    blank: dict[str, Any] = dict.fromkeys(OF_EXAMPLES, np.nan)
    shown = [row if row.examples else replace(row, **blank) for row in rows]
    return tuple(Verdict(*of_class) for of_class in zip(names, kinds, texts, shown, strict=True))


def spoken(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Those that say something, the worst class first; verdicts without evidence as they stand."""

    def place(verdict: Verdict) -> tuple[bool, float]:
        error = verdict.evidence.error if verdict.evidence else 0.0
        return verdict.kind in UNJUDGED, -float(np.nan_to_num(error))

    return sorted((verdict for verdict in verdicts if verdict.text), key=place)


def nothing_wrong(error: float) -> str:
    """Why no class is spoken of, by the class-mean error: none can be APART_SHARE above one of two thirds."""
    if error * (1 + APART_SHARE) < 100:
        return NOTHING_WRONG
    return f"No class can stand out at a class-mean error of {error:.0f} %: the model has learnt too little."


def verdict_summary(worse: Sequence[tuple[str, str]], classes: int, error: float, unjudged: int = 0) -> str:
    """All verdicts in a sentence: of so many classes, those that are clearly worse, with what each is in words.

    Where none is, it says first whether most classes are `unjudged`, with fewer than a HANDFUL of examples.
    """
    if not worse and unjudged > MOSTLY * classes:
        few = f"{unjudged:,} of {classes:,} classes have fewer than {HANDFUL} examples"
        return f"{few} and are not judged; no other is clearly worse."
    if not worse:
        return nothing_wrong(error)
    named = enumerated([f"{in_list(name)} ({kind})" for name, kind in worse], NAMED)
    number = f"{len(worse):,} of {classes:,} classes {'is' if len(worse) == 1 else 'are'}"
    return f"{number} clearly worse than the others: {named}."


def _columns(
    before: Tally, after: Tally, better: Vector, worse: Vector, effects: Vector, of_change: Vector, level: float
) -> dict[str, NDArray]:
    """The numbers of ClassEvidence that come from predictions, (C,) each."""
    low, high = intervals.share_interval(before.by_class / effects, before.examples / effects, level)
    change_low, change_high = intervals.change_interval(better, worse, before.examples / of_change, level)
    errors = after.confusion * ~np.eye(len(low), dtype=bool)
    return {
        "examples": before.examples,
        "error": before.errors,
        "low": low,
        "high": high,
        "others": before.others,
        "adjusted": after.errors,
        "change": after.errors - before.errors,
        "change_low": change_low,
        "change_high": change_high,
        "rival_share": 100 * errors.max(axis=1) / np.maximum(after.examples, 1),
    }


def _rivals(after: Tally, effects: Vector, level: float) -> NDArray[np.int64]:
    """(C,) the class that MAJORITY of a class's errors go to, significantly more than by chance; -1 for none.

    By chance every other class gets the same share; the level is divided by their number. Of two there is only one.
    """
    number = len(after.examples)
    errors = after.confusion * ~np.eye(number, dtype=bool)
    most, total = errors.max(axis=1), errors.sum(axis=1)
    chance = np.ones(number)
    if number > 2:
        chance = (number - 1) * intervals.at_least(most / effects, total / effects, 1 / (number - 1))
    return np.where((chance <= level) & (most > MAJORITY * total), errors.argmax(axis=1), -1)


def is_rare(counts: NDArray) -> NDArray[np.bool_]:
    """(C,) whether a class has few examples: of two beside the other class, of more beside the median one."""
    return counts <= SCARCE * (counts.max() if len(counts) == 2 else np.median(counts))


def _kind(row: ClassEvidence, is_worse: bool, stays: bool, helped: bool, rare: bool, near: bool) -> str:
    """Of a class that is worse than the others, stays so once adjusted, is helped by that, is rare, is near; or not."""
    if row.high - row.low > WIDE and (not is_worse or row.low < row.others + APART):
        return "unknown"
    if is_worse and helped and (not stays or -row.change >= MAJORITY * row.excess):
        return "imbalance"
    if is_worse and stays and row.suspect >= MAJORITY * row.excess:
        return "noise"
    if is_worse and stays:
        return "confused" if row.rival else "scarce" if rare else "hard"
    if is_worse:
        return "unclear"
    return "easy" if rare and near else ""


def _of_two(kinds: Sequence[str]) -> list[str]:
    """Of two classes, another threshold makes either of them the better one: then neither is hard, nor easy."""
    moved = ["threshold" if kind in ("hard", "scarce") else kind for kind in kinds]
    return ["" if kind == "easy" and "threshold" in moved else kind for kind in moved]


def _text(name: str, row: ClassEvidence, kind: str, ends: Sequence[float], is_moved: bool, level: float) -> str:
    """The verdict as one sentence; adjusting may move predictions and leave the error as it is.

    The error's interval has the `ends` that hold for all judged classes at once, as the verdicts do.
    """
    if not kind:
        return ""
    number = amount_of(row.examples, "example", "examples")
    interval = f"{100 * (1 - level):g} % interval {ends[0]:.0f} to {ends[1]:.0f} %"
    error = f"{name}: {row.error:.0f} % of {number} wrong ({interval})"
    worse, alone = f"{error}, of the others {row.others:.0f} %", "adjusting for the counts alone"
    trained = amount_of(row.count, "training example", "training examples")
    few = amount_of(row.count, "training example is little", "training examples are few")
    change_ends = (row.change_low, row.change_high)  # with decimals where one would look as if it were 0
    digits = next((digits for digits in (0, 1) if all(round(end, digits) for end in change_ends)), 2)
    change, low, high = (decimal(points, digits, "+") for points in (row.change, *change_ends))
    by = f"{change} {'point' if change in ('-1', '+1') else 'points'} ({low} to {high})"
    once = " once adjusted for the counts" if is_moved else ""
    stays = f" and leaves {row.adjusted:.0f} %" if row.adjusted > row.others + APART else ""
    unclear = "the cause is unclear" if row.change_low > 0 else "too few to say why"
    return {
        "imbalance": f"{worse}; {alone} changes that by {by}{stays}",
        "noise": f"{worse}; about {row.suspect:.0f} % of its labels look wrong",
        "confused": f"{worse}; {row.rival_share:.0f} % are taken for {row.rival}{once}",
        "hard": f"{worse}; {alone} leaves {row.adjusted:.0f} %",
        "scarce": f"{worse}; {alone} leaves {row.adjusted:.0f} %: {few} to learn it from, or it is hard",
        "threshold": f"{worse}; {alone} leaves {row.adjusted:.0f} %: another threshold trades these errors for others",
        "unclear": f"{worse}; {unclear}: {alone} changes that by {by}",
        "unknown": f"{error}: too few to say anything" if row.examples else f"{name}: no examples",
        "easy": f"{error}, with {trained}: easier than its count says",
    }[kind]


def costly(confusion: ArrayLike, classes: Sequence[str], most: int = 8) -> list[tuple[str, str, float]]:
    """(label, prediction, percent of the class): the confusions that cost the class-mean error most."""
    matrix, number = np.nan_to_num(np.array(confusion, dtype=np.float64)), len(classes)
    if matrix.shape != (number, number):
        raise InputError(
            f"confusion has shape {matrix.shape}: it needs a row and a column for each of {number} classes."
        )
    np.fill_diagonal(matrix, 0.0)
    pairs = [divmod(int(i), number) for i in np.argsort(-matrix, axis=None, kind="stable")[:most]]
    return [(classes[c], classes[k], float(matrix[c, k])) for c, k in pairs if matrix[c, k] > 0]
