"""Notes on data, on what was trained and on what judged, for terminals and pages."""

from collections.abc import Sequence

from class_uncertainty.data import Dataset
from class_uncertainty.data.data_check import check_dataset
from class_uncertainty.data.folding import FOLDS
from class_uncertainty.data.spec import short_name
from class_uncertainty.estimation import Estimate
from class_uncertainty.runs.rows import IMPORTED, OLDER, MethodRow, knows_examples, shared_marks
from class_uncertainty.runs.significance import corrected_confidence
from class_uncertainty.text import amount_of
from class_uncertainty.training.network_size import NetworkSize

SAME_NETWORK = "± 0.00: every seed gives the same network, so there is no chance to test for."
MARKS = {
    IMPORTED: "added by 'cu results import', not trained for this store",
    OLDER: "trained before the method was revised; --retrain-older repeats the training",
}


def describe_data(dataset: Dataset) -> str:
    """'photos: 2,022 training and 505 test images, 6 classes of 110 to 475, features by efficientnet-lite0'."""
    train, test = dataset.train, dataset.test
    if train.is_images or train.embedding is not None:
        noun = "images"
    elif train.encoding:
        noun = "rows"
    else:
        noun = "examples"
    if test is None:
        size = f"{len(train):,} {noun}, judged by {FOLDS} folds"
    else:
        size = f"{len(train):,} training and {len(test):,} test {noun}"
    columns = f", {len(train.encoding):,} columns" if train.encoding else ""
    least, most = int(train.counts.min()), int(train.counts.max())
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    features = f", features by {train.embedding.backbone}" if train.embedding is not None else ""
    return f"{short_name(dataset.name)}: {size}{columns}, {len(dataset.classes):,} classes of {each}{features}"


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
        judged = f"{what} may be judged by a network that saw the original, so errors look too low"
    return f"There is no test split: errors come from {folds} stratified folds, and {judged}."


def describe_groups(dataset: Dataset, estimate: Estimate) -> str:
    """How the intervals of class errors treat groups; "" without groups."""
    if (dataset.test or dataset.train).groups is None:
        return ""
    if knows_examples(dataset, estimate):
        return "Intervals allow for groups whose examples err alike."
    return "Intervals count every group as one example of a class: their examples may err alike."


def describe_findings(dataset: Dataset) -> list[str]:
    """Problems in the data, without those that change little."""
    sentences = [str(finding) for finding in check_dataset(dataset).findings if not finding.is_minor]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]
