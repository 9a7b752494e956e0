"""What `cu measure` prints: the classes by their uncertainty and its rank correlations, or estimators side by side."""

from collections.abc import Sequence

from class_uncertainty.data import Dataset
from class_uncertainty.estimation import members_method
from class_uncertainty.estimation.estimators import SAVED
from class_uncertainty.reporting.section import describe_folds, describe_groups, describe_marks, describe_network
from class_uncertainty.reporting.terminal import Verbosity, cells_in_order, figure, in_blocks, span, table_lines
from class_uncertainty.runs.rows import RANKS_APART, ClassRow, harder_and_easier, spearman
from class_uncertainty.text import amount_of, listed
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.workflows.measure import EstimatorComparison, Measured

MOST = 20  # classes that are all listed; of more
LISTED = 10  # the most uncertain ones are
NAMED = 5  # classes in a sentence
MEANINGFUL = 10  # classes that a rank correlation needs to say much
POOR = 0.5  # a rank correlation below which a measure says little about the errors
RANKED = {"uncertainty": "uncertainty", "rarity": "cardinality"}  # measures in words, and their fields
SHARES = RANKED | {"effective number": "effective"}


def measure_lines(measured: Measured, verbosity: Verbosity, width: int) -> list[str]:
    """The classes by their uncertainty; last, which are harder than their counts say, and what ranks the errors."""
    answer = [
        *hardness(measured.rows, measured.estimate.estimator),
        *rank_correlations(measured, verbosity),
        *advice(measured),
    ]
    if verbosity == Verbosity.QUIET:
        return in_blocks([answer], width)
    rows = sorted(measured.rows, key=lambda row: (row.rank_uncertainty, -row.uncertainty))
    shown = rows
    if len(rows) > MOST and verbosity == Verbosity.NORMAL:
        shown = rows[:LISTED]
    classes = class_table(shown, width)
    if len(shown) < len(rows):
        classes.append(f"  {len(rows) - len(shown):,} more classes are less uncertain (--verbose)")
    blocks = [evidence(measured), classes]
    if verbosity == Verbosity.VERBOSE:
        blocks += [measures_table(rows, width), notes(measured)]
    return in_blocks([*blocks, answer], width)


def evidence(measured: Measured) -> list[str]:
    """What measured the uncertainty, and where the errors come from."""
    estimate = measured.estimate
    networks = amount_of(estimate.members, f"{estimate.judged}network", f"{estimate.judged}networks")
    if estimate.estimator.partition(":")[0] == SAVED:
        networks = estimate.estimator
    text = f"Uncertainty of {networks}"
    if any(row.error is not None for row in measured.rows):
        text += f", errors {judged_on(measured.dataset)}"
    return [f"{text}:"]


def judged_on(dataset: Dataset) -> str:
    """'on the test examples' or 'of 5 folds': where errors come from."""
    return f"of {FOLDS} folds" if dataset.test is None else "on the test examples"


def class_table(rows: Sequence[ClassRow], width: int) -> list[str]:
    """A line for each class; its ranks stand there where they are RANKS_APART."""
    is_ranked = len({row.count for row in rows}) > 1
    table = []
    for row in rows:
        ranks = ""
        if is_ranked and abs(row.disagreement) >= RANKS_APART:
            ranks = f"{row.rank_cardinality:g} -> {row.rank_uncertainty:g}"
        cells = {
            "class": row.name,
            "train": f"{row.count:,}",
            "uncertainty %": figure(100 * row.uncertainty),
            "rank": ranks,
            "error %": figure(row.error),
            "95 % interval": span(row.low, row.high),
        }
        table.append(cells)
    return table_lines(*cells_in_order(table), width)


def measures_table(rows: Sequence[ClassRow], width: int) -> list[str]:
    """All measures of each class, and its rank by rarity, by the effective number of examples, by uncertainty."""
    table = []
    for row in rows:
        disputed = None if row.epistemic_share is None else 100 * row.epistemic_share
        cells = {
            "class": row.name,
            "test": "-" if row.examples is None else f"{row.examples:,}",
            "rarity %": figure(100 * row.cardinality),
            "effective %": figure(100 * row.effective),
            "disputed %": figure(disputed, 0),
            "rank by each": f"{row.rank_cardinality:g}, {row.rank_effective:g}, {row.rank_uncertainty:g}",
        }
        table.append(cells)
    return table_lines(*cells_in_order(table), width)


def hardness(rows: Sequence[ClassRow], estimator: str) -> list[str]:
    """Which classes are harder, and which easier, than their counts say."""
    method = members_method(estimator)
    if method != "naive":  # which may favour classes
        return [f"The networks were trained by {method}, not naively: uncertainty also reflects the method."]
    if len(rows) < 3 or all(row.error is None for row in rows):
        return []
    if len({row.count for row in rows}) == 1:
        return ["All classes have equally many training examples: only uncertainty tells them apart."]
    kinds = {kind: [row.name for row in agreeing] for kind, agreeing in harder_and_easier(rows).items() if agreeing}
    if not kinds:
        return ["By uncertainty and error, no class is clearly harder or easier than its count says."]
    phrases = [f"{kind.capitalize()} than the count says: {listed(names, NAMED)}." for kind, names in kinds.items()]
    return [" ".join(phrases)]


def rank_correlations(measured: Measured, verbosity: Verbosity) -> list[str]:
    """How well each measure ranks the class errors; nothing where no correlation is defined, or of two classes."""
    rows = measured.rows
    if len(rows) < 3:
        return []
    measures = SHARES if verbosity == Verbosity.VERBOSE else RANKED
    values = {name: spearman(rows, field) for name, field in measures.items()}
    known = [f"{name} {figure(value, 2)}" for name, value in values.items() if value is not None]
    if not known:
        return []
    few = f" (only {len(rows)} classes)" if len(rows) < MEANINGFUL else ""
    return [f"Rank correlation with the {measured.estimate.judged}class errors: {', '.join(known)}{few}."]


def advice(measured: Measured) -> list[str]:
    """What to do where uncertainty ranks the classes poorly although some errors clearly differ."""
    rows = measured.rows
    lows = [row.low for row in rows if row.low is not None]
    highs = [row.high for row in rows if row.high is not None]
    correlation = spearman(rows, "uncertainty") if len(rows) >= MEANINGFUL else None
    differ = bool(lows) and max(lows) > min(highs)
    if correlation is None or correlation >= POOR or not differ:
        return []
    poor = "Uncertainty says little about the class errors"
    train = measured.dataset.train
    if train.is_images and train.repeats:
        return [f"{poor}: networks are most certain about repeated images, which 'cu check' lists."]
    if measured.estimate.estimator.partition(":")[0] in ("out-of-fold", SAVED):  # what made a file nobody knows
        return []
    return [f"{poor}: networks know their training examples. --estimator out-of-fold uses unseen ones."]


def notes(measured: Measured) -> list[str]:
    """The network, the score, where results come from, and how folds and groups were treated."""
    estimate = measured.estimate
    lines = [f"Measured by {estimate.estimator}, score {estimate.score}."]
    lines += [*describe_network(measured.network), *describe_marks([measured.marks])]
    if measured.folds:
        lines.append(describe_folds(measured.folds, measured.dataset))
    groups = describe_groups(measured.dataset, estimate)
    return [*lines, groups] if groups else lines


def estimator_lines(comparison: EstimatorComparison, verbosity: Verbosity, width: int) -> list[str]:
    """What each estimator costs, and how its class uncertainties correlate with the ensemble's and with the errors."""
    is_verbose = verbosity == Verbosity.VERBOSE
    rates = {row.lr for row in comparison.rows if row.lr is not None}
    table = []
    for row in comparison.rows:
        cells = {
            "estimator": row.estimator,
            "score": row.score,
            "lr": "-" if row.lr is None else f"{row.lr:g}",
            "trainings": f"{row.cost:g}",
            "ensemble": figure(row.ensemble, 3),
            "error": figure(row.error, 3),
        }
        if len(rates) == 1 and not is_verbose:
            del cells["lr"]
        table.append(cells)
    title = "Rank correlation of class uncertainties with those of the ensemble, and with its class errors "
    title += f"{judged_on(comparison.dataset)}:"
    blocks = [[title], table_lines(*cells_in_order(table), width, words=["score"])]
    if is_verbose:
        blocks.append(beyond_counts(comparison, width))
    lines = [f"Not shown: {sentence}." for sentence in comparison.diverged]
    if is_verbose:
        lines += describe_network(comparison.network)
        if comparison.folds:
            lines.append(describe_folds(comparison.folds, comparison.dataset))
    return in_blocks([*blocks, lines], width)


def beyond_counts(comparison: EstimatorComparison, width: int) -> list[str]:
    """The correlations once the ranks of the counts are regressed out."""
    table = []
    for row in comparison.rows:
        cells = {
            "estimator": row.estimator,
            "score": row.score,
            "ensemble": figure(row.ensemble_beyond, 3),
            "error": figure(row.error_beyond, 3),
        }
        table.append(cells)
    heading = "The same with the ranks of the counts regressed out:"
    return [heading, *table_lines(*cells_in_order(table), width, words=["score"])]
