"""What `cu predict` and `cu adjust` print: what was predicted by which rule, how good it is, and the files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from class_uncertainty.posthoc.evaluation import FIGURES, threshold
from class_uncertainty.posthoc.priors import PRIORS
from class_uncertainty.reporting.terminal import (
    MISSING,
    Verbosity,
    cells_in_order,
    figure,
    in_blocks,
    labelled_lines,
    table_lines,
)
from class_uncertainty.text import amount_of, enumerated, in_list, listed
from class_uncertainty.workflows.adjust_predictions import AdjustedPredictions
from class_uncertainty.workflows.predict import Predicted

LISTED = 5  # classes in a sentence
UNSURE = 3  # examples that are named


def predict_lines(predicted: Predicted, verbosity: Verbosity, width: int, files: Sequence[object] = ()) -> list[str]:
    """How often each class was predicted, by which rule and prior, how good that is, and where it was written."""
    ending = labelled_lines("Wrote", ", ".join(map(str, files)), width) if files else []
    if verbosity == Verbosity.QUIET:
        return ending
    names = Counter(predicted.labels).most_common()
    found = enumerated([f"{in_list(name)} ({number:,})" for name, number in names], LISTED)
    lines = labelled_lines("Found", f"{amount_of(len(predicted.labels), 'example', 'examples')}: {found}", width)
    lines += labelled_lines("Rule", " ".join([*predicted.meaning, *_threshold(predicted)]), width)
    everything = verbosity == Verbosity.VERBOSE
    label = "Errors"
    for sentence in score_sentences(predicted, everything):
        lines += labelled_lines(label, sentence, width)
        label = ""
    lines += labelled_lines("Unsure", least_sure(predicted), width)
    for note in predicted.notes:
        lines += labelled_lines("!", note, width)
    if everything:
        lines = [*in_blocks([class_table(predicted, width)], width), "", *lines]
    return [*lines, *ending]


def _threshold(predicted: Predicted) -> list[str]:
    """From which probability on the rarer of two classes is predicted, where costs make that another than 0.5."""
    if predicted.costs is None or len(predicted.classes) != 2:
        return []
    counts = predicted.purpose.counts if predicted.purpose else (1, 1)
    rarer = 0 if counts[0] < counts[1] else 1
    probability = threshold(predicted.costs, rarer)
    if probability == 0.5:
        return []
    return [f"So {predicted.classes[rarer]} is predicted at a probability of {probability:.2g} or more."]


def score_sentences(predicted: Predicted, everything: bool = False) -> list[str]:
    """How good the predictions of labelled examples are; of two classes, how well the rarer one is found.

    ECE and NLL are for the prior of the probabilities.
    """
    scores = predicted.scores
    if scores is None or predicted.truth is None:
        return []
    labelled = sum(map(bool, predicted.truth))
    judged = sum(error == error for error in scores.class_errors)
    mean = f"class mean {figure(scores.error)} %"
    if judged < len(predicted.classes):
        mean += f" over {judged:,} of {len(predicted.classes):,} classes"
    calibration = f"ECE {figure(scores.ece)} %"
    if everything:
        calibration += f", NLL {figure(scores.nll, 3)}"
    errors = f"{mean}, overall {figure(scores.top1_error)} %, of {labelled:,} examples ({predicted.scored_by})"
    sentences = [f"{errors}; {calibration}"]
    two = predicted.two
    if two:
        shown = {field: word for field, word in FIGURES.items() if everything or field != "auc"}
        figures = [f"{word} {figure(getattr(two, field))} %" for field, word in shown.items()]
        sentences.append(f"{predicted.classes[two.positive]}: {', '.join(figures)}")
    if predicted.mean_cost is not None:
        sentences.append(f"mean cost of an example {predicted.mean_cost:.4g}")
    return sentences


def least_sure(predicted: Predicted) -> str:
    """The examples whose predictions have the lowest probabilities."""
    confidence = predicted.confidence
    least = confidence.argsort(kind="stable")[:UNSURE]
    return ", ".join(
        f"{in_list(predicted.names[i])} ({in_list(predicted.labels[i])} {confidence[i]:.2f})" for i in least
    )


def class_table(predicted: Predicted, width: int) -> list[str]:
    """How often each class was predicted and, where there are labels, its error and precision."""
    examples = len(predicted.labels)
    counts = Counter(predicted.labels)
    truth = Counter(predicted.truth or ())
    means = predicted.probabilities.mean(axis=0)
    table = []
    for c, name in enumerate(predicted.classes):
        cells = {
            "class": name,
            "predicted": f"{counts[name]:,}",
            "share %": figure(100 * counts[name] / examples),
            "mean p %": figure(100 * float(means[c])),
        }
        if predicted.scores and predicted.class_precisions:
            cells["test"] = f"{truth[name]:,}"
            cells["error %"] = figure(predicted.scores.class_errors[c])
            cells["precision %"] = figure(predicted.class_precisions[c])
        table.append(cells)
    return table_lines(*cells_in_order(table), width)


def adjust_lines(
    adjusted: AdjustedPredictions,
    verbosity: Verbosity,
    width: int,
    prior: str,
    unseen: Path | None = None,
    bias: bool = False,
) -> list[str]:
    """By what predictions were adjusted and for which prior, how good they were and are, and where they are now."""
    ending = labelled_lines("Wrote", ", ".join(map(str, adjusted.files)), width) if adjusted.files else []
    if verbosity == Verbosity.QUIET:
        return ending
    blocks = [_scores_table(adjusted, prior, verbosity == Verbosity.VERBOSE, width)]
    adjustment = adjusted.adjustment
    how = f"divided by the counts to the power of tau = {adjustment.tau:g}"
    if unseen:
        how += f", temperature {adjustment.temperature:.3g}, chosen on {adjusted.unseen:,} unseen examples"
    if adjusted.has_class_bias:
        how += ", with a fitted bias for each class"
    elif bias:
        how += ", without a bias for each class, since it did not help"
    purpose = PRIORS.get(prior, f"the prior {prior}")
    lines = labelled_lines("How", f"{how}; for {purpose}", width)
    if adjusted.before and adjusted.judged_on == unseen:
        lines += labelled_lines("!", "The predictions have no labels: errors are on the unseen examples", width)
    if adjusted.absent:
        classes = listed([str(c) for c in adjusted.absent], LISTED)
        lines += labelled_lines("!", f"Ignored by that choice, for lack of unseen examples: class {classes}", width)
    changed = f"{adjusted.changed:,} of {amount_of(len(adjusted.probabilities), 'prediction', 'predictions')}"
    lines += labelled_lines("Class", f"{adjusted.rule}; changed in {changed}", width)
    return in_blocks([*blocks, [*lines, *ending]], width)


def _scores_table(adjusted: AdjustedPredictions, prior: str, everything: bool, width: int) -> list[str]:
    """Errors and calibration before and after; nothing without labels. Two classes have no worst tenth."""
    before, after = adjusted.before, adjusted.after
    if before is None or after is None:
        return []
    rows = {"class mean %": (before.error, after.error, 1), "overall %": (before.top1_error, after.top1_error, 1)}
    if prior != "equal" and before.prior_error is not None and after.prior_error is not None:
        rows["error at that prior %"] = (before.prior_error, after.prior_error, 1)
    if everything and len(before.class_errors) > 2:
        rows["worst tenth %"] = (before.worst, after.worst, 1)
    rows["ECE at that prior %"] = (before.ece, after.ece, 1)
    if everything:
        rows["NLL at that prior"] = (before.nll, after.nll, 3)
    cells = []
    for name, (old, new, digits) in rows.items():
        change = MISSING if np.isnan(new - old) else figure(new - old, digits, "+")
        cells.append([name, figure(old, digits), figure(new, digits), change])
    return table_lines(["", "before", "after", "change"], cells, width)
