"""What out-of-sample predictions say of each class: errors, uncertainty, calibration, confusions and verdicts."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.io import checksum
from class_uncertainty.measures.uncertainty import predictive
from class_uncertainty.metrics import (
    Outcomes,
    calibration_error,
    check_prior,
    decide,
    mean_cost,
    precisions_by_class,
    prior_weights,
    score,
)
from class_uncertainty.posthoc import intervals
from class_uncertainty.posthoc.calibration import cross_fitted
from class_uncertainty.posthoc.diagnosis import UNJUDGED, Tally, diagnose
from class_uncertainty.posthoc.error_changes import ErrorChange, Price, change_of_mean, price
from class_uncertainty.posthoc.evaluation import FIGURES as TWO_CLASS_FIGURES
from class_uncertainty.posthoc.evaluation import TwoClasses, two_classes
from class_uncertainty.posthoc.goal import Goal, adjusts
from class_uncertainty.posthoc.noise_model import LabelNoise
from class_uncertainty.posthoc.priors import at_prior, find_prior

CONFUSIONS = 5  # of a class, at most

Labels = NDArray[np.int64]  # (N,)
Probabilities = NDArray[np.float64]  # (N, C)
Taus = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class AuditedClass:
    """One class. Errors, shares and ECE are in percent, changes in points; None where there is nothing to tell from."""

    name: str
    count: int  # training examples
    examples: int  # that were judged
    error: float | None
    low: float  # of the error's 95 % interval, by Clopper and Pearson
    high: float
    uncertainty: float | None  # mu^U: its share of the classes' mean entropies, of 1
    raw: float | None  # mean entropy of its examples, in nats
    ece: float | None  # classwise: of its probability, over all examples; None without examples of the class
    taken_for: str  # the class that most of its errors go to; "" without errors
    taken_share: float  # of its examples that do
    suspect: float | None  # of its labels that look wrong; None where labels were not checked
    adjusted: float | None  # error once adjusted for the counts alone, cross-validated
    change: float | None  # by that
    change_low: float  # its paired 95 % interval
    change_high: float
    kind: str  # of the verdict, a key of KINDS; "" where nothing is wrong
    verdict: str  # one sentence
    precision: float | None = None  # of the predictions of the class; None in audits of earlier versions
    # of the error's interval that holds for all judged classes at once, as verdicts do; None without examples
    low_together: float | None = None
    high_together: float | None = None

    @property
    def is_judged(self) -> bool:
        """Whether there is a handful of examples; a class that is clearly worse needs none."""
        return self.examples >= intervals.HANDFUL or self.kind not in ("", *UNJUDGED)


@dataclass(frozen=True, kw_only=True)
class AuditFigures:
    """All classes together. Errors and ECE are in percent, changes in points, NLL in nats."""

    examples: int
    error: float  # mean of the class errors
    error_low: float  # of its 95 % interval
    error_high: float
    overall_error: float
    overall_error_low: float
    overall_error_high: float
    worst_class: str
    worst_class_error: float
    worst_tenth: float
    ece: float
    classwise_ece: float  # mean over the classes with examples
    nll: float
    prior_error: float | None  # where classes are as frequent as the prior says; None without one
    label_issues: int | None  # labels that are more likely wrong than right; None where they were not checked
    adjusted_error: float  # class-mean error, once adjusted for the counts alone, cross-validated
    adjusted_change: float
    adjusted_change_low: float
    adjusted_change_high: float
    prior_adjusted_error: float | None = (
        None  # prior_error, once adjusted for the counts and the prior, cross-validated
    )
    prior_adjusted_change: ErrorChange | None = None
    adjusted_taus: Taus = ()  # of the adjustment for the counts, one a fifth; none where there is nothing to adjust
    prior_adjusted_taus: Taus = ()
    two: TwoClasses | None = None  # of two classes
    mean_cost: float | None = None  # of an example, by its decision; under the prior, if any; None without costs
    least_cost: float | None = None  # the same by decisions for the least expected cost, where that is lower
    by_prior: bool = False  # whether ECE and NLL weigh classes by the prior that the probabilities hold for

    def __repr__(self) -> str:
        errors = f"class-mean error {self.error:.1f} %, overall {self.overall_error:.1f} %"
        return f"AuditFigures({self.examples:,} examples: {errors}, ECE {self.ece:.1f} %, NLL {self.nll:.3f})"

    @property
    def weighing(self) -> str:
        """What ECE and NLL are means over."""
        if self.prior_error is None and not self.by_prior:
            return "with all examples weighed alike"
        return "with classes weighed by the prior"

    @property
    def cost_name(self) -> str:
        """What the mean cost is called."""
        return f"Mean cost of an example{'' if self.prior_error is None else ' under the prior'}"

    def value(self, name: str) -> float | None:
        """A figure by its name, those of two classes included; None where there is nothing to tell it from."""
        figure = getattr(self.two, name, None) if name in TWO_CLASS_FIGURES else getattr(self, name)
        return None if figure is None else float(figure)


@dataclass(frozen=True)
class Confusion:
    """Examples of a class that are predicted as another."""

    label: str
    prediction: str
    examples: int
    share: float  # of the class, in percent
    low: float  # of its 95 % interval
    high: float


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """What an audit keeps for later ones to be compared with."""

    figures: AuditFigures
    classes: tuple[AuditedClass, ...]
    fingerprint: str  # of the examples: their labels and names
    named: bool  # whether they have names: equal labels alone may be of other examples
    wrong: str  # which examples are wrong, class by class, as bits in base64

    def __post_init__(self) -> None:
        names = [row.name for row in self.classes]
        if len(names) != len(set(names)) or sum(row.examples for row in self.classes) != self.figures.examples:
            raise InputError("classes repeat, or their examples do not add up.")
        for row in self.classes:
            if row.examples < 0 or (row.examples > 0) != (row.error is not None and 0 <= row.error <= 100):
                raise InputError(f"class {row.name!r} has {row.examples} examples and the error {row.error}.")
        packed = base64.b64decode(self.wrong, validate=True)
        if len(packed) != -(-self.figures.examples // 8):
            raise InputError(f"there are outcomes of about {8 * len(packed)} of {self.figures.examples} examples.")

    def __repr__(self) -> str:
        return f"AuditRecord({len(self.classes):,} classes, {self.figures!r})"

    @property
    def outcomes(self) -> NDArray[np.float64]:
        """(N,) 1 where an example is wrong, the examples of the first class first."""
        bits = np.unpackbits(np.frombuffer(base64.b64decode(self.wrong), dtype=np.uint8))
        return bits[: self.figures.examples].astype(np.float64)

    @property
    def labels(self) -> Labels:
        """(N,) in the same order."""
        return np.repeat(np.arange(len(self.classes)), [row.examples for row in self.classes])


@dataclass(frozen=True, eq=False)
class Judged:
    """Predictions to be judged, and what is known of their classes."""

    p: Probabilities
    labels: Labels
    classes: Sequence[str]
    counts: NDArray
    prior: NDArray[np.float64] | None
    noise: LabelNoise | None  # None where labels are not checked
    decisions: Labels | None = None  # the predicted classes, where they are not the most probable ones
    costs: NDArray[np.float64] | None = None  # (C, C) of predicting the class of the column for the class of the row
    by_cost: bool = False  # whether decisions were made by costs: verdicts are then of the most probable classes
    made_for: NDArray[np.float64] | None = None  # the prior that p holds for, where examples are not drawn by it

    @property
    def calibrated_for(self) -> NDArray[np.float64] | None:
        """The prior that ECE and NLL weigh classes by; None where examples are weighed as they are."""
        return self.made_for if self.prior is None else self.prior

    @cached_property
    def for_training(self) -> Probabilities:
        """The probabilities for classes as frequent as in training, which is what adjusting begins with."""
        if self.made_for is None:
            return self.p
        return at_prior(self.p, self.made_for, find_prior("train", self.counts))

    @cached_property
    def decided(self) -> Probabilities:
        """What errors are counted by: the probabilities, or 1 for the class of the decision."""
        return self.p if self.decisions is None else np.eye(len(self.classes))[self.decisions]

    @cached_property
    def outcomes(self) -> Outcomes:
        rows, guesses = np.arange(len(self.p)), self.decided.argmax(axis=1)
        return Outcomes(self.labels, guesses, self.p[rows, self.labels], self.p[rows, guesses])

    def adjusted(self, prior: NDArray[np.float64] | None = None) -> tuple[Probabilities, Taus]:
        """Adjusted for the counts alone, each fifth by what was fitted to the others. It may cost most of an audit.

        With a prior (C,), for that as well. A temperature changes no decision where classes are equally frequent.
        """
        goal = Goal("mean" if prior is None else "prior", check_prior(prior, len(self.classes)))
        if not adjusts(self.counts, goal):
            return self.decided, ()
        return cross_fitted(self.for_training, self.labels, self.counts, goal, temperature=prior is not None)

    def prior_change(self) -> tuple[ErrorChange | None, Taus]:
        """What adjusting for the counts and the prior does to the error under it; None without one."""
        if self.prior is None:
            return None, ()
        weights = intervals.sum_by_class(prior_weights(self.labels, self.prior), self.labels, len(self.classes))
        adjusted, taus = self.adjusted(self.prior)
        return change_of_mean(self.price_of(adjusted).classes, weights), taus

    def mean_cost(self, guesses: Labels) -> float | None:
        """Of an example, by predicted classes (N,); under the prior where there is one. None without costs."""
        weights = None if self.prior is None else prior_weights(self.labels, self.prior)
        return None if self.costs is None else mean_cost(guesses, self.labels, self.costs, weights)

    def least_cost(self) -> float | None:
        """The same by decisions for the least expected cost, which under a prior is that of probabilities under it."""
        if self.costs is None:
            return None
        p = self.p
        if self.prior is not None:
            p = at_prior(self.for_training, find_prior("train", self.counts), self.prior)
        return self.mean_cost(decide(p, self.costs))

    def price_of(self, q: Probabilities) -> Price:
        """What deciding by q instead does to the errors."""
        before, after = ((p.argmax(axis=1) != self.labels).astype(np.float64) for p in (self.decided, q))
        return price(before, after, self.labels, len(self.classes))


def record(judged: Judged, names: Sequence[str] | None = None) -> AuditRecord:
    """The audit of predictions; names of the examples tell whether another audit is of the same ones."""
    p, labels, number = judged.p, judged.labels, len(judged.classes)
    q, taus = judged.adjusted()
    tally = Tally.of(judged.decided[None], labels)
    wrong, changes = judged.decided.argmax(axis=1) != labels, judged.price_of(q)
    suspect, issues = None, None
    if judged.noise is not None:
        flagged = np.bincount(labels, weights=judged.noise.is_issue, minlength=number)
        suspect, issues = 100 * flagged / np.maximum(tally.examples, 1), int(flagged.sum())
    diagnosed = partial(diagnose, labels, counts=judged.counts, classes=judged.classes, suspect=suspect)
    verdicts = causes = diagnosed(judged.decided, adjusted=q)
    if judged.by_cost:
        causes = diagnosed(p, adjusted=p if q is judged.decided else q)
    entropies = intervals.sum_by_class(predictive(p[None]), labels, number) / np.maximum(tally.examples, 1)
    weights = None if judged.made_for is None else prior_weights(labels, judged.made_for)
    eces = [
        calibration_error(p[:, c], labels == c, weights=weights) if tally.examples[c] else None for c in range(number)
    ]
    classwise = float(np.mean([ece for ece in eces if ece is not None]))
    precisions = precisions_by_class(judged.outcomes.guesses, labels, number)
    together = intervals.share_interval(tally.by_class, tally.examples, intervals.level_of_all(tally.examples))
    rows = []
    for c, (verdict, cause, change) in enumerate(zip(verdicts, causes, changes.classes, strict=True)):
        evidence, present = verdict.evidence, bool(tally.examples[c])
        assert evidence is not None
        rival, share = _taken_for(tally, c)
        row = AuditedClass(
            name=judged.classes[c],
            count=int(judged.counts[c]),
            examples=evidence.examples,
            error=evidence.error if present else None,
            low=evidence.low,
            high=evidence.high,
            uncertainty=float(entropies[c] / (entropies.sum() or 1)) if present else None,
            raw=float(entropies[c]) if present else None,
            ece=eces[c],
            taken_for=judged.classes[rival] if rival >= 0 else "",
            taken_share=share if present else np.nan,
            suspect=float(suspect[c]) if suspect is not None and present else None,
            adjusted=evidence.adjusted if present else None,
            change=change.change if present else None,
            change_low=change.low,
            change_high=change.high,
            kind=cause.kind,
            verdict=cause.text,
            precision=None if np.isnan(precisions[c]) else float(precisions[c]),
            low_together=float(together[0][c]) if present else None,
            high_together=float(together[1][c]) if present else None,
        )
        rows.append(row)
    figures = _figures(judged, tally, classwise, issues, changes.mean, taus)
    packed = base64.b64encode(np.packbits(wrong[np.argsort(labels, kind="stable")]).tobytes()).decode()
    identity = checksum(labels.tobytes(), *judged.classes, *(names or ()))
    return AuditRecord(
        figures=figures, classes=tuple(rows), fingerprint=identity, named=names is not None, wrong=packed
    )


def _taken_for(tally: Tally, c: int) -> tuple[int, float]:
    """(the class that most errors of class c go to, percent of its examples that do); (-1, 0) without errors."""
    errors = tally.confusion[c].copy()
    errors[c] = 0
    rival = int(errors.argmax())
    return (rival, 100 * float(errors[rival] / tally.examples[c])) if errors[rival] else (-1, 0.0)


def _figures(
    judged: Judged, tally: Tally, classwise: float, issues: int | None, adjusted: ErrorChange, taus: Taus
) -> AuditFigures:
    scores = score(judged.outcomes, judged.counts, judged.calibrated_for)
    by_prior, prior_taus = judged.prior_change()
    cost, least = judged.mean_cost(judged.outcomes.guesses), judged.least_cost()
    decisions = None if judged.decisions is None else judged.decisions[None]
    present = tally.examples > 0
    errors, examples = tally.by_class[present], tally.examples[present]
    places = np.flatnonzero(present)
    worst = int(places[(errors / examples).argmax()])
    low, high = intervals.mean_interval(errors, examples)
    overall_low, overall_high = intervals.share_interval(errors.sum(), examples.sum())
    return AuditFigures(
        examples=len(judged.labels),
        error=scores.error,
        error_low=low,
        error_high=high,
        overall_error=scores.top1_error,
        overall_error_low=float(overall_low),
        overall_error_high=float(overall_high),
        worst_class=judged.classes[worst],
        worst_class_error=float(tally.errors[worst]),
        worst_tenth=scores.worst,
        ece=scores.ece,
        classwise_ece=classwise,
        nll=scores.nll,
        prior_error=None if judged.prior is None else scores.prior_error,
        label_issues=issues,
        adjusted_error=scores.error + adjusted.change,
        adjusted_change=adjusted.change,
        adjusted_change_low=adjusted.low,
        adjusted_change_high=adjusted.high,
        prior_adjusted_error=None if by_prior is None else (scores.prior_error or 0.0) + by_prior.change,
        prior_adjusted_change=by_prior,
        adjusted_taus=taus,
        prior_adjusted_taus=prior_taus,
        two=two_classes(judged.p[None], judged.labels, judged.counts, decisions=decisions),
        mean_cost=cost,
        least_cost=least if least is not None and cost is not None and least < cost else None,
        by_prior=judged.made_for is not None,
    )


def confusions(p: Probabilities, labels: Labels, classes: Sequence[str], most: int = CONFUSIONS) -> list[Confusion]:
    """The `most` frequent confusions of each class, those with the largest shares first."""
    tally = Tally.of(p[None], labels)
    errors = tally.confusion * ~np.eye(len(classes), dtype=bool)
    rows, columns = np.nonzero(errors)
    ranks = np.argsort(np.argsort(-errors, axis=1, kind="stable"), axis=1)  # (C, C), 0 is the most frequent
    kept = ranks[rows, columns] < most
    rows, columns = rows[kept], columns[kept]
    numbers, wholes = errors[rows, columns], tally.examples[rows]
    low, high = intervals.share_interval(numbers, wholes)
    shares = 100 * numbers / wholes
    return [
        Confusion(
            classes[rows[i]], classes[columns[i]], int(numbers[i]), float(shares[i]), float(low[i]), float(high[i])
        )
        for i in np.lexsort((columns, rows, -numbers, -shares))
    ]
