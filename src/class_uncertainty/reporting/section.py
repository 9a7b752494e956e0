"""What the page and the charts show of one data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Dataset
from class_uncertainty.data.data_check import check_dataset
from class_uncertainty.estimation import Estimate
from class_uncertainty.posthoc.fix_report import FixReport, Step
from class_uncertainty.posthoc.label_issues import thumbnail
from class_uncertainty.reporting.page_examples import PageExamples
from class_uncertainty.reporting.report_examples import report_examples
from class_uncertainty.runs.rows import IMPORTED, OLDER, ClassRow, MethodRow, knows_examples, shared_marks
from class_uncertainty.runs.significance import corrected_confidence
from class_uncertainty.text import amount_of
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.training.network_size import NOTHING_TRAINED, NetworkSize

if TYPE_CHECKING:
    from class_uncertainty.workflows.fix import Fix

SAME_NETWORK = "± 0.00: every seed gives the same network, so there is no chance to test for."
MARKS = {
    IMPORTED: "added by 'cu results import', not trained for this store",
    OLDER: "trained before the method was revised; --retrain-older repeats the training",
}


@dataclass(frozen=True)
class GalleryImage:
    """A training image that the networks are most, or least, uncertain about."""

    guess: str  # the members' mean prediction
    uncertainty: float
    pixels: NDArray[np.uint8]  # (channels, H, W)

    @cached_property
    def picture(self) -> str:
        """A data URL."""
        return thumbnail(self.pixels)


@dataclass(frozen=True)
class Gallery:
    """Images of one of the worst classes."""

    label: str
    most: tuple[GalleryImage, ...]
    least: tuple[GalleryImage, ...]


@dataclass(frozen=True)
class Section:
    """What is shown of one data set and recipe: a fix, or all that is stored."""

    name: str
    classes: tuple[ClassRow, ...]
    methods: tuple[MethodRow, ...]
    members: int  # networks of the estimate, 0 without one
    galleries: tuple[Gallery, ...] = ()
    note: str = ""  # how it was judged, and what is missing
    estimator: str = "ensemble"
    score: str = "predictive"
    fix_report: FixReport | None = None
    network: NetworkSize = NOTHING_TRAINED
    examples: PageExamples | None = None  # None where the data could not be read again
    naive_left_out: int = 0  # naive runs that are stored and in no row, since no other method has their seeds

    @property
    def pictures(self) -> list[str]:
        """Those that the page shows without being asked."""
        images = [image for gallery in self.galleries for image in (*gallery.most, *gallery.least)]
        issues = self.fix_report.label_issues if self.fix_report else ()
        return [image.picture for image in images] + [issue.picture for issue in issues if issue.picture]

    @property
    def unit(self) -> str:
        """The unit of the uncertainties."""
        return " nats" if self.score in ("predictive", "aleatoric", "epistemic") else ""


def fix_section(fixed: "Fix") -> Section:
    """What the page of a fix shows, all of it from the fix."""
    dataset, report = fixed.dataset, fixed.report
    kept = report.kept_step
    assert kept is not None
    notes = describe_findings(dataset)
    if dataset.test is None:
        notes.insert(0, describe_folds(FOLDS, dataset))
    return Section(
        dataset.name,
        classes=(),
        methods=(),
        members=0,
        note=" ".join(notes),
        fix_report=report,
        network=kept_size(kept, fixed.network.network or ""),
        examples=report_examples(dataset, (), report),
    )


def kept_size(step: Step, networks: str) -> NetworkSize:
    """The networks of the step that a fix keeps, with the parameters of all of them."""
    is_of_one_kind = "+" not in networks
    several = f"{step.networks} × " if step.networks > 1 and is_of_one_kind else ""
    return NetworkSize(several + networks, step.parameters)


def describe_collapsed(collapsed: int, runs: int) -> str:
    """Of runs whose errors are in the mean."""
    predict, count = ("predicts", "counts") if collapsed == 1 else ("predict", "count")
    return f"{collapsed} of {runs} runs {predict} one class only, and {count} in the mean."


def describe_marks(marks: Sequence[Sequence[str]]) -> list[str]:
    """What the marks of all rows mean; no line for one that no row has."""
    lines = []
    for mark, meaning in MARKS.items():
        if mark in shared_marks(marks):
            lines.append(f"All of these results were {meaning}.")
        elif any(mark in own for of_row in marks for own in of_row):
            lines.append(f"{mark.capitalize()}: {meaning}.")
    return lines


def describe_network(*sizes: NetworkSize) -> list[str]:
    """What was trained, and how large it is: no line where nothing was trained."""
    named = dict.fromkeys(str(size) for size in sizes if size.network)
    return [f"Network: {'; '.join(named)}."] if named else []


def describe_rates(rows: Sequence[MethodRow]) -> str:
    """Which naive runs the gains are against; "" where no learning rate tells them apart."""
    if not any(row.has_rate for row in rows):
        return ""
    alike = all(row.naive_lr in (row.lr, None) for row in rows)
    return ", at the same learning rate" if alike else ", each at its own learning rate"


def describe_tests(rows: Sequence[MethodRow]) -> str:
    """How many rows are tested, and how the confidence is corrected for that; "" where none is."""
    tests = sum(row.aso is not None for row in rows)
    if not tests:
        return ""
    confidence = f"{corrected_confidence(tests):.4g}"
    if tests == 1:
        return f"1 test at confidence {confidence}"
    return f"{tests} tests at confidence 1 - 0.05 / {tests} = {confidence} (Bonferroni)"


def describe_folds(folds: int, dataset: Dataset | None = None) -> str:
    """Where errors come from without a test split; of a data set that is known, whether copies may be in two folds."""
    judged = "each example is judged by a network that never saw it"
    if dataset is not None and (copies := dataset.duplicates):
        what = amount_of(copies, "copy of an example", "copies of examples")
        judged = f"{what} may be judged by a network that saw the original, so that errors look too low"
    return f"There is no test split: errors come from {folds} stratified folds, and {judged}."


def describe_groups(dataset: Dataset, estimate: Estimate) -> str:
    """How the intervals of class errors treat groups; "" without groups."""
    if (dataset.test or dataset.train).groups is None:
        return ""
    if knows_examples(dataset, estimate):
        return "Intervals allow for groups whose examples err alike."
    return "Intervals count every group as one example of a class: their examples may err alike."


def describe_findings(dataset: Dataset) -> list[str]:
    """What is wrong with the data, but for what changes little."""
    sentences = [str(finding) for finding in check_dataset(dataset).findings if not finding.is_minor]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]
