"""Sections and fix reports with known numbers; the first class has a name that must be escaped."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax

from class_uncertainty.posthoc.diagnosis import Verdict
from class_uncertainty.posthoc.error_changes import price
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport, Rung, RungRow, Step
from class_uncertainty.runs.rows import ClassRow, MethodRow

NASTY = '<script>alert("x")&\'</script> größe 犬'


def class_row_examples(number: int, judged: bool = True, off: int = 2) -> tuple[ClassRow, ...]:
    """A long tail in which uncertainty ranks every class some places off."""
    tail = np.geomspace(500, 5, number)
    inverse, rank = 1 / tail, number - np.arange(number)
    hard = np.roll(inverse, off)
    return tuple(
        ClassRow(
            name=NASTY if c == 0 else f"class {c}",
            count=int(tail[c]),
            cardinality=float(inverse[c] / inverse.sum()),
            effective=float(inverse[c] / inverse.sum()),
            uncertainty=float(hard[c] / hard.sum()),
            raw=float(hard[c]),
            epistemic_share=float("nan") if c == 1 else 0.25,
            rank_cardinality=float(rank[c]),
            rank_effective=float(rank[c]),
            rank_uncertainty=float(np.roll(rank, off)[c]),
            error=float(c % 7) if judged else None,
        )
        for c in range(number)
    )


def method_row(
    name: str, error: float | None, deviation: float | None = 0.5, lr: float = 0.1, runs: int = 5, **others: Any
) -> MethodRow:
    scores = dict.fromkeys(("top1_error", "many", "medium", "few", "worst", "spread", "nll", "ece"), error)
    first = {"method": name, "lr": lr, "runs": runs, "error": error, "error_sd": deviation}
    blank = {"diverged": 0, "collapsed": 0, "gain": None, "naive_lr": lr, "counterpart": ""}
    blank |= {"aso": None, "aso_against": None, "aso_warning": None}
    return MethodRow(**(first | scores | blank | others))


NAIVE = method_row("naive", 10.0)
TESTED = {"counterpart": "cb-rs", "aso": 0.25, "aso_against": "cb-rs", "aso_warning": "2 scores a side are few"}
BETTER = method_row("ubrs", 8.0, gain=2.0, **TESTED)
WORSE = method_row("cb-rs", 10.056, gain=-0.056, medium=None)
LOST = method_row("dro", None, None, runs=0, diverged=5)


TWO_RATES = tuple(
    method_row(row.method, row.error, lr=lr, gain=row.gain) for row in (NAIVE, BETTER) for lr in (0.1, 0.01)
)
TWENTY = ["airplane", "automobile", *(f"object {c}" for c in range(8)), *map(str, range(10))]  # as those of SVCI-20

LONGEST = "balanced-softmax+autoaugment+cutout?rate=2&schedule=cosine&weight_decay=5e-4"
TAUGHT = LONGEST.replace("balanced-softmax", "naive")
GAINS = {"gain": 0.85, "gain_error": 0.21}
RUNGS = (
    Rung(
        2,
        5043,
        (
            RungRow("naive", 0.5, 20.0, 49.5, 0.7, 5.0, 0.6),
            RungRow("balanced-softmax", 0.5, 20.0, 45.1, 0.7, 0.6, 0.55, kept=True),
            RungRow("ldam-rw", reason="it diverged in epoch 3 at the learning rate 0.4"),
            RungRow(LONGEST, 1.0, 41.0, 44.5, 0.7, 0.0, 0.0, kept=True),
        ),
    ),
    Rung(
        5,
        12608,
        (
            RungRow("balanced-softmax", 5.0, 200.0, 43.2, 0.4, 1.9, 0.3),
            RungRow(LONGEST, 5.0, 205.0, 41.3, 0.4, 0.0, 0.0, kept=True),
        ),
    ),
)


def fix_report(number: int, seeds: int = 3, **others: Any) -> FixReport:
    """A long tail: the networks before lean towards frequent classes, those after do not. A student is kept."""
    rng = np.random.default_rng(0)
    labels, counts = np.repeat(np.arange(number), 20), np.geomspace(500, 5, number).astype(int)
    lean = np.log(counts / counts.mean())
    logits = rng.normal(0, 1, (2, seeds, len(labels), number)) + 2 * np.eye(number)[labels]
    p = [softmax(2 * (side + strength * lean), axis=-1) for side, strength in zip(logits, (1, 0), strict=True)]
    before, after = (evaluate_seeds(side, labels, counts) for side in p)
    wrong = [(side.argmax(axis=2) != labels).mean(axis=0) for side in p]
    sides = {"before": {"judged": before, "values": before.errors}, "after": {"judged": after, "values": after.errors}}
    ladder = (
        Step("naive", "naive?rate=4", 1, 464_154, 1.0, 38.0, 54.0, 0.5, -12.7, 0.61, **sides["before"]),
        Step("adjusted", "naive?rate=4", 1, 464_154, 6.5, 250.0, gain=-4.1, gain_error=0.5, **sides["after"]),
        Step("best single", LONGEST, 1, 464_154, 13.0, 520.0, 41.3, 0.4, **sides["after"]),
        Step("ensemble", LONGEST, 5, 2_320_770, 17.0, 680.0, gain=1.31, gain_error=0.2),
        Step("student", TAUGHT, 1, 464_154, 18.4, 7300.0, **GAINS, **sides["after"], kept=True),
    )
    about = {"goal": "mean", "aim": "class-mean error", "unit": "%", "method": LONGEST, "step": "student"}
    about |= {
        "why": "A student is kept: on 2,522 examples that no network of the trial saw, it gains 0.85 ± 0.21 points."
    }
    sizes = {"seeds": seeds, "tau": 1.0, "temperature": 1.457, "cost": 18.4, "allowed": 20.0}
    classes = {"classes": (NASTY, *(f"class {c}" for c in range(1, number))), "counts": tuple(map(int, counts))}
    judged = {"before": before, "after": after, "ladder": ladder, "rungs": RUNGS}
    details = {"findings": (Verdict("class 1", "scarce", "class 1: <b>bad</b>"),), "lr": 0.4, "note": "A note."}
    details |= {"price": price(wrong[0], wrong[1], labels, number)}
    return FixReport("digits", **(about | sizes | classes | judged | details | others))


TEN_CLASSES, HUNDRED_CLASSES = fix_report(10), fix_report(100)


def worsened(report: FixReport) -> FixReport:
    """Before and after have changed sides, on the ladder too."""
    naive, *others = report.ladder
    report = replace(report, price=None)  # as stored by earlier versions
    ladder = [replace(naive, values=report.after.errors, judged=report.after)]
    ladder += [replace(one, values=report.before.errors, judged=report.before) if one.values else one for one in others]
    return replace(report, before=report.after, after=report.before, ladder=tuple(ladder))
