"""What the page and the charts show of one data set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from class_uncertainty.data import SOURCES, Dataset
from class_uncertainty.estimation import Estimate
from class_uncertainty.runs.rows import IMPORTED, OLDER, MethodRow, knows_examples, shared_marks
from class_uncertainty.runs.significance import corrected_confidence
from class_uncertainty.text import amount_of, enumerated, in_list
from class_uncertainty.training.network_size import NetworkSize

if TYPE_CHECKING:
    pass

FEW = 3  # duplicates that a sentence names
LEAVES_OUT = "?repeats=drop leaves copies out"
SAME_NETWORK = "± 0.00: every seed gives the same network, so there is no chance to test for."
MARKS = {
    IMPORTED: "added by 'cu results import', not trained for this store",
    OLDER: "trained before the method was revised; --retrain-older repeats the training",
}


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


def takes_repeats(dataset: Dataset) -> bool:
    """Whether the data are images of a source that can leave copies out."""
    source = SOURCES.get(dataset.name.partition(":")[0])
    return dataset.train.is_images and source is not None and "repeats" in source.options


def describe_repeats(dataset: Dataset) -> str:
    """What copies among the training images do to uncertainty; "" without any."""
    train = dataset.train
    if not train.is_images or not (copies := train.repeats):  # rows of a table may be alike by chance
        return ""
    verb = "repeats" if copies == 1 else "repeat"
    advice = LEAVES_OUT if takes_repeats(dataset) else "Leave the copies out"
    repeated = f"{copies:,} of {len(train):,} training images {verb} another"
    return f"{repeated}, and networks are surest of what they see often. {advice}."


def describe_duplicates(dataset: Dataset) -> str:
    """A warning that networks may have seen what they are judged on; "" without duplicates."""
    number, train, test = dataset.duplicates, dataset.train, dataset.test
    if not number:
        return ""
    drop = f"; {LEAVES_OUT}" if takes_repeats(dataset) else ""
    verb = "is" if number == 1 else "are"
    named = enumerated([" = ".join(map(in_list, pair)) for pair in dataset.duplicate_names(FEW)], FEW, number)
    if test is not None:
        identical = f"{number:,} of the {len(test):,} test examples {verb} identical to a training example ({named})"
        return f"{identical}{drop}."
    repeat = "repeats" if number == 1 else "repeat"
    identical = f"{number:,} of the {len(train):,} examples {repeat} another ({named})"
    if train.groups is not None:
        return f"{identical}, of another group: folds may leak into each other{drop}."
    return f"{identical}: folds may leak into each other{drop or ', unless ?group= keeps copies together'}."
