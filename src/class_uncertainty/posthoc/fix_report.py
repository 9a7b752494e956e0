"""FixReport: a data set's classifier before and after a remedy, as one value that a store can keep."""

from dataclasses import dataclass

from class_uncertainty.posthoc.diagnosis import Finding
from class_uncertainty.posthoc.evaluation import Evaluation
from class_uncertainty.posthoc.label_issues import LabelIssue


@dataclass(frozen=True)
class FixReport:
    """What was wrong, what was done and what has changed."""

    data: str
    method: str  # 'distil'
    seeds: int  # trainings before, and after
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    tau: float
    temperature: float  # T, at which students are taught
    cost: float  # in trainings of one network
    teachers: str  # in words
    before: Evaluation
    after: Evaluation
    findings: tuple[Finding, ...] = ()
    label_issues: tuple[LabelIssue, ...] = ()
    witnesses: int | None = None  # networks that must all predict the same other class for a label issue
    note: str = ""
    kind: str = ""  # of recipe and device
    cooling: float | None = None  # what the kept network's logits are divided by
    lr: float | None = None  # of the teachers
