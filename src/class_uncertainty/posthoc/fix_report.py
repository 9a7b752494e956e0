"""FixReport: a data set's classifier before and after a fix, as one value that a store can keep."""

from dataclasses import dataclass

from class_uncertainty.posthoc.diagnosis import Verdict
from class_uncertainty.posthoc.evaluation import Evaluation
from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.posthoc.ladder import Rung, Step
from class_uncertainty.posthoc.price import Price


@dataclass(frozen=True)
class FixReport:
    """What was wrong, what was done and what has changed."""

    data: str
    goal: str  # as it was given
    aim: str  # what is to be low, in words
    unit: str  # of the goal's values
    method: str  # the candidate that was kept
    step: str  # of the ladder that was kept
    why: str  # one sentence
    seeds: int  # trainings before, and after
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    tau: float
    temperature: float  # what the kept network's logits are divided by
    cost: float  # in trainings of one naive network
    allowed: float  # trainings
    before: Evaluation
    after: Evaluation
    ladder: tuple[Step, ...] = ()
    rungs: tuple[Rung, ...] = ()
    findings: tuple[Verdict, ...] = ()  # one a class; in reports of earlier versions of some classes
    label_issues: tuple[LabelIssue, ...] = ()
    witnesses: int | None = None  # networks that judge labels; None where labels were not checked
    note: str = ""
    kind: str = ""  # of recipe and device
    lr: float | None = None  # of the naive networks
    price: Price | None = None  # None in reports of earlier versions
