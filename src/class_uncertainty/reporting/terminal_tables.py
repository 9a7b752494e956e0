"""What the workflows return, as tables and sentences for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from class_uncertainty.data import Dataset
from class_uncertainty.estimation import members_method
from class_uncertainty.estimation.estimators import SAVED
from class_uncertainty.reporting.column_notes import CLASS_NOTES, ESTIMATOR_NOTES, METHOD_NOTES, notes_on
from class_uncertainty.reporting.section import (
    SAME_NETWORK,
    describe_collapsed,
    describe_folds,
    describe_groups,
    describe_marks,
    describe_network,
    describe_rates,
    describe_tests,
)
from class_uncertainty.reporting.terminal import print_fitting, say
from class_uncertainty.runs.comparison import chosen_where
from class_uncertainty.runs.rows import (
    RANKS_APART,
    ClassRow,
    MethodRow,
    harder_and_easier,
    marked,
    shared_marks,
    spearman,
)
from class_uncertainty.text import decimal
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.workflows.compare import Comparison
from class_uncertainty.workflows.measure import EstimatorComparison, Measured

if TYPE_CHECKING:
    pass

MEANINGFUL = 10  # classes that a rank correlation needs to say much
POOR = 0.5  # a rank correlation below which a measure says little about the errors
MOST_FINDINGS = 10
LISTED = 5  # classes or label issues in one list


def print_measured(measured: Measured) -> None:
    """The classes, how the measures correlate with the errors, and where the measures disagree."""
    rows, judged = measured.rows, measured.estimate.judged
    print_classes(rows, judged)
    say(*correlations(rows, judged), *ranking_advice(measured))
    if (method := members_method(measured.estimate.estimator)) == "naive":
        say(*disagreements(rows))
    else:  # which may favour classes
        say(f"Uncertainty is that of networks trained by {method}, not naively: it tells of the method too.")
    say(*describe_network(measured.network), *describe_marks([measured.marks]))
    if measured.folds:
        say(describe_folds(measured.folds, measured.dataset))
    if groups := describe_groups(measured.dataset, measured.estimate):
        say(groups)


def print_comparison(comparison: Comparison) -> None:
    """The methods, and what the columns mean."""
    folds, estimate, strengths = comparison.folds, comparison.estimate, comparison.strengths
    dropped = print_methods(comparison.rows, len(comparison.dataset.classes))
    say(*footnotes(comparison.rows, folds, dropped, comparison.dataset), *describe_network(comparison.network))
    if chosen := comparison.chosen:
        data, number = comparison.chosen_on, f"{comparison.choosing_trainings} trainings"
        if data is None:
            number = f"{len(chosen[0].errors)} rates × {FOLDS} folds = {number}"
        names, where = ", ".join(choice.method for choice in chosen), chosen_where(data.name if data else None)
        say(f"Learning rates: chosen {where}, {number} each of {names}, not counted above.")
        at_edge = [choice.method for choice in chosen if choice.lr in (min(choice.errors), max(choice.errors))]
        if at_edge:
            say(f"At the edge of the rates that were tried: {', '.join(at_edge)}. Rates beyond it may be better.")
    if estimate:
        by_import = ", and imported" if comparison.uncertainty_imported else ""
        say(f"Uncertainty was measured by {estimate.estimator}, score {estimate.score}{by_import}.")
    if strengths:
        by_fold = "; each fold's was chosen on the others" if folds and set(strengths.values()) != {1.0} else ""
        has_rate = any(row.has_rate for row in comparison.rows)
        chosen_at = ", ".join(
            f"{tau:g} at the learning rate {lr:g}" if has_rate else f"{tau:g}" for lr, tau in strengths.items()
        )
        say(f"Strength of the adjustment for the counts (τ): {chosen_at}{by_fold}.")
        judged = comparison.dataset.test or comparison.dataset.train
        if len(set(judged.counts)) > 1:
            say("NLL and ECE weigh all judged examples alike, while rows with τ assume equally frequent classes.")


def print_estimator_comparison(comparison: EstimatorComparison) -> None:
    """What each estimator costs, and how its class uncertainties correlate with others and with the errors."""
    columns = ("estimator", "score", "lr", "trainings", "ρ ensemble", "ens. beyond N", "ρ error", "err. beyond N")
    lines = []
    for row in comparison.rows:
        correlations = (row.ensemble, row.ensemble_beyond, row.error, row.error_beyond)
        lr = "–" if row.lr is None else f"{row.lr:g}"
        lines.append((row.estimator, row.score, lr, f"{row.cost:g}", *(_number(rho, 3) for rho in correlations)))
    drop = ("ens. beyond N", "lr", "score", "ρ ensemble", "err. beyond N", "trainings")
    say(
        *notes_on(ESTIMATOR_NOTES, print_fitting(columns, lines, drop)),
        *(f"Not shown: {sentence}." for sentence in comparison.diverged),
        *describe_network(comparison.network),
    )
    if comparison.folds:
        say(describe_folds(comparison.folds, comparison.dataset))


def print_classes(rows: Sequence[ClassRow], judged: str = "naive ") -> None:
    """Every class by every measure."""
    error = f"{judged}error %"
    measures, ranks = ("rarity", "effective", "uncertainty"), ("rank rarity", "rank eff.", "rank unc.")
    lines = []
    for row in rows:
        shares = (f"{share:.4f}" for share in (row.cardinality, row.effective, row.uncertainty))
        epistemic = "–" if row.epistemic_share is None else f"{row.epistemic_share:.0%}"
        places = (f"{rank:g}" for rank in (row.rank_cardinality, row.rank_effective, row.rank_uncertainty))
        interval = "–" if row.low is None or row.high is None else f"{row.low:.0f} to {row.high:.0f}"
        test = "–" if row.examples is None else f"{row.examples:,}"
        errors = (_number(row.error, 1), interval, test)
        lines.append((row.name, f"{row.count:,}", *shares, epistemic, *places, *errors))
    columns: tuple[str, ...] = ("class", "train", *measures, "disputed", *ranks, error, "95 %", "test")
    drop = ("rank eff.", "effective", "disputed", "test", "95 %", "rank rarity", "rarity", "rank unc.", error)
    say(" ".join(notes_on(CLASS_NOTES, print_fitting(columns, lines, drop))))


def disagreements(rows: Sequence[ClassRow]) -> list[str]:
    """The classes that are harder or easier than their counts suggest, one line each, or why there are none."""
    if len({row.count for row in rows}) == 1:
        return ["All classes have equally many examples, so rarity does not tell them apart."]
    if len(rows) < 3:
        return []
    if not any(row.disagreement for row in rows):
        return ["Rarity and uncertainty rank the classes alike."]
    if all(abs(row.disagreement) < RANKS_APART for row in rows):
        return ["Rarity and uncertainty rank the classes alike, apart from neighbouring ranks."]
    kinds = [(kind, row) for kind, agreeing in harder_and_easier(rows).items() for row in agreeing]
    if not kinds:
        return ["Where uncertainty and rarity rank a class two places or more apart, its error does not clearly agree."]
    lines = ["Uncertainty and error agree that"]
    for kind, row in kinds[:LISTED]:
        ranks = f"rank {row.rank_cardinality:g} by rarity, {row.rank_uncertainty:g} by uncertainty"
        lines.append(f"  {row.name} is {kind} than its {row.count} examples suggest ({ranks})")
    return lines + ([f"  and {len(kinds) - LISTED} more, which the report shows"] if len(kinds) > LISTED else [])


def correlations(rows: Sequence[ClassRow], judged: str = "naive ") -> list[str]:
    """Spearman's rho of each measure with the class errors, in words; nothing where none is defined, or two classes."""
    names = {"cardinality": "rarity", "effective": "effective", "uncertainty": "uncertainty"}
    rhos = {name: spearman(rows, measure) for measure, name in names.items()} if len(rows) > 2 else {}
    defined = ", ".join(f"{name} {decimal(rho, 2)}" for name, rho in rhos.items() if rho is not None)
    few = f" ({len(rows)} classes are few for it)" if len(rows) < MEANINGFUL else ""
    return [f"Rank correlation (Spearman's ρ) with the {judged}class errors: {defined}{few}."] if defined else []


def ranking_advice(measured: Measured) -> list[str]:
    """What to do where uncertainty ranks the classes poorly although some errors clearly differ."""
    rows, estimator = measured.rows, measured.estimate.estimator
    rho = spearman(rows, "uncertainty") if len(rows) >= MEANINGFUL else None
    lows, highs = ([end for row in rows if (end := getattr(row, name)) is not None] for name in ("low", "high"))
    if rho is None or rho >= POOR or not lows or max(lows) <= min(highs):
        return []
    poor = f"Uncertainty says little about the class errors (ρ below {POOR})"
    if measured.dataset.train.is_images and measured.dataset.train.repeats:
        return [f"{poor}: networks are surest of images that repeat, which 'cu check' lists."]
    if estimator.partition(":")[0] in ("out-of-fold", SAVED):  # what made a file nobody knows
        return []
    return [f"{poor}: networks know what they were trained on. --estimator out-of-fold asks about unseen examples."]


def print_methods(rows: Sequence[MethodRow], classes: int | None = None) -> list[str]:
    """Means over the seeds, one row for each method and learning rate; the columns that had no room.

    Two classes have no worst tenth.
    """
    groups, calibration = ("overall", "many", "medium", "few", "worst 10th"), ("NLL", "ECE")
    lines, shared = [], shared_marks([row.marks for row in rows])
    for row in rows:
        runs = f"{row.runs} ({row.diverged} diverged)" if row.diverged else str(row.runs)
        deviation = "" if row.error_sd is None else f" ± {row.error_sd:.2f}"
        gain = "" if row.gain is None else decimal(row.gain, 2, "+")
        errors = (_number(value, 1) for value in (row.top1_error, row.many, row.medium, row.few, row.worst))
        aso = "" if row.aso is None else f"{row.aso:.2f} vs {row.aso_against}"
        lr = f"{row.lr:g}" if row.has_rate else ""
        first = (marked(row.method, row.marks, shared), lr, runs, _number(row.error, 2) + deviation, gain)
        lines.append((*first, *errors, _number(row.nll, 3), _number(row.ece, 1), f"{row.cost:.3g}", aso))
    columns = ("method", "lr", "runs", "error %", "gain", *groups, *calibration, "trainings", "ASO")
    drop = (*calibration, "medium", "many", "overall", "worst 10th", "few", "trainings", "runs", "ASO", "gain", "lr")
    return print_fitting(columns, lines, drop, hidden=("worst 10th",) if classes == 2 else ())


def footnotes(
    rows: Sequence[MethodRow], folds: int, dropped: Sequence[str] = (), dataset: Dataset | None = None
) -> list[str]:
    """What the columns of `print_methods` mean, but for those that had no room."""
    deviation = ", ± standard deviation over the seeds" if any(row.error_sd is not None for row in rows) else ""
    has_gain = any(row.gain is not None for row in rows) and "gain" not in dropped
    gain = f"; gain: naive's error less the method's{describe_rates(rows)}" if has_gain else ""
    notes = [f"Error: mean of the class errors in percent{deviation}{gain}.", *notes_on(METHOD_NOTES, dropped)]
    notes += [describe_folds(folds, dataset)] if folds else []
    tested = [] if "ASO" in dropped else rows
    if tests := describe_tests(tested):
        notes.append(f"ASO: a test against the row that is named (ε_min); below 0.5, the method is better; {tests}.")
    if any(row.seedless for row in rows):
        notes.append(SAME_NETWORK)
    notes += describe_marks([row.marks for row in rows])
    notes += [f"{row.method}: {describe_collapsed(row.collapsed, row.runs)}" for row in rows if row.collapsed]
    warnings = {row.aso_warning for row in tested if row.aso_warning}
    return notes + [f"ASO: {warning}." for warning in sorted(warnings)]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else decimal(value, digits)
