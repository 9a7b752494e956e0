"""The examples of a section, for its page: those that a fix was judged on, or training examples."""

from collections.abc import Sequence

from class_uncertainty.data import Data, Dataset
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures.uncertainty import checked_blocks
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.diagnosis import spoken
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.page_examples import PageExamples, Pixels
from class_uncertainty.text import printable

BEFORE = "These are {}, as predicted before the fix by a network that never saw them, of the first seed."
UNSEEN = "These are training examples, as predicted by networks that never saw them."
SEEN = "These are training examples, as predicted by networks that may have been trained on them."


def report_examples(dataset: Dataset, estimates: Sequence[Estimate], report: FixReport | None) -> PageExamples | None:
    """As networks before the fix predict them; without one, as those of an estimate do. None without either."""
    if report and report.predictions:
        judged = dataset.test or dataset.train
        outcomes = report.predictions.outcomes(judged.labels)
        about = BEFORE.format("test examples" if dataset.test else "training examples")
    elif estimates:  # out-of-fold if there is such a one, and the newest of several
        judged = dataset.train
        estimate = max(reversed(estimates), key=lambda one: one.estimator == "out-of-fold")
        outcomes = _outcomes(estimate)
        about = UNSEEN if estimate.estimator == "out-of-fold" else SEEN
    else:
        return None
    places = {name: c for c, name in enumerate(judged.classes)}
    folder, names, told = dataset.folder, judged.names, spoken(report.findings if report else ())
    return PageExamples(
        classes=judged.classes,
        outcomes=outcomes,
        name_of=lambda i: printable(judged.name_of(i)),
        pixels=lambda chosen: _pixels(judged, chosen),
        file_of=lambda i: None if folder is None or names is None else folder / names[i],
        texts={places[finding.label]: f"{finding.text}." for finding in told if finding.label in places},
        about=about,
    )


def _outcomes(estimate: Estimate) -> Outcomes:
    """Of the members' mean prediction."""
    blocks = checked_blocks(estimate.probabilities)
    return Outcomes.joined([Outcomes.of(block.mean(axis=0), estimate.labels[rows]) for rows, block in blocks])


def _pixels(data: Data, chosen: Sequence[int]) -> Pixels:
    pictures = ((i, data.picture(i)) for i in chosen)
    return [(i, picture) for i, picture in pictures if picture is not None]
