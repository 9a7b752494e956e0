"""What the workflows return, as tables and sentences for a terminal."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting import ladder_view
from class_uncertainty.reporting.before_after import changes, improved, key_figures
from class_uncertainty.reporting.label_issue_view import summary
from class_uncertainty.reporting.section import describe_folds, describe_network, describe_rates, describe_tests
from class_uncertainty.reporting.terminal import print_fitting, say
from class_uncertainty.runs.rows import ClassRow, MethodRow, spearman
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.workflows.compare import Comparison
from class_uncertainty.workflows.compare_estimators import EstimatorComparison
from class_uncertainty.workflows.measure import Measured

if TYPE_CHECKING:
    from class_uncertainty.workflows.fix import Fix

MEANINGFUL = 10  # classes that a rank correlation needs to say much
LISTED = 5  # classes or label issues in one list


def print_measured(measured: Measured) -> None:
    """The classes, how the measures correlate with the errors, and where the measures disagree."""
    rows, judged = measured.rows, measured.estimate.judged
    print_classes(rows, judged)
    say(*correlations(rows, judged), *disagreements(rows), *describe_network(measured.network))
    if measured.folds:
        say(describe_folds(measured.folds))


def print_comparison(comparison: Comparison) -> None:
    """The methods, and what the columns mean."""
    folds, estimate, strengths = comparison.folds, comparison.estimate, comparison.strengths
    print_methods(comparison.rows)
    say(*footnotes(comparison.rows, folds), *describe_network(comparison.network))
    if chosen := comparison.chosen:
        number = f"{len(chosen[0].errors)} rates × {FOLDS} folds = {comparison.choosing_trainings} trainings"
        names = ", ".join(choice.method for choice in chosen)
        say(f"Learning rates: chosen by folds of the training split, {number} each of {names}; cost leaves them out.")
        at_edge = [choice.method for choice in chosen if choice.lr in (min(choice.errors), max(choice.errors))]
        if at_edge:
            say(f"At the edge of the rates that were tried: {', '.join(at_edge)}. Rates beyond it may be better.")
    if estimate:
        say(f"Uncertainty: {estimate.estimator}, by {estimate.score}.")
    if strengths:
        by_fold = "; each fold's was chosen on the others" if folds and set(strengths.values()) != {1.0} else ""
        say(f"τ: {', '.join(f'{tau:g} at the learning rate {lr:g}' for lr, tau in strengths.items())}{by_fold}.")
        judged = comparison.dataset.test or comparison.dataset.train
        if len(set(judged.counts)) > 1:
            say("NLL and ECE weigh all judged examples alike, while rows with τ assume equally frequent classes.")


def print_estimator_comparison(comparison: EstimatorComparison) -> None:
    """What each estimator costs, and how its class uncertainties correlate with others and with the errors."""
    columns = ("estimator", "score", "lr", "cost", "ρ ensemble", "ens. beyond N", "ρ error", "err. beyond N")
    lines = []
    for row in comparison.rows:
        correlations = (row.ensemble, row.ensemble_beyond, row.error, row.error_beyond)
        lr = "–" if row.lr is None else f"{row.lr:g}"
        lines.append((row.estimator, row.score, lr, f"{row.cost:g}", *(_number(rho, 3) for rho in correlations)))
    print_fitting(columns, lines, drop=("ens. beyond N", "lr", "score", "ρ ensemble", "err. beyond N", "cost"))
    say(
        "Cost: in trainings of one network.",
        "ρ: Spearman's correlation of the class uncertainties with the ensemble's, and with the naive class errors.",
        "Beyond N: the same after the ranks of the counts are regressed out.",
        *(f"Not shown: {sentence}." for sentence in comparison.diverged),
        *describe_network(comparison.network),
    )
    if comparison.folds:
        say(describe_folds(comparison.folds))


def print_fix(fixed: "Fix") -> None:
    """What each step bought, what was wrong, what changed, what it cost, and labels worth a look."""
    report = fixed.report
    print_ladder(report)
    if report.findings:
        say(*(finding.text for finding in report.findings))
    print_changes(report)
    if not improved(report):
        options = f"{shlex.quote(report.data)} --lr {report.lr:g} --save MODEL, with the same --recipe and --epochs"
        say(f"The {report.aim} did not fall: keep a naive network (cu train {options}), or see 'cu compare'.")
    cost = f"Cost: {report.cost:.3g} of {report.allowed:.3g} trainings of one naive network, without repeats for the ±."
    sentences = (report.note, ladder_view.kept_sentence(report), cost, ladder_view.judged_sentence(report))
    say(" ".join(filter(None, sentences)))
    say(ladder_view.NOTE, *describe_network(fixed.network))
    if labels := summary(report):
        say(labels)
    if issues := report.label_issues:
        first = ", ".join(f"{issue.name} ({issue.label}: {issue.guess}?)" for issue in issues[:LISTED])
        more = f", and {len(issues) - LISTED} more in the report" if len(issues) > LISTED else ""
        say(f"Labels worth a look: {first}{more}.")


def print_ladder(report: FixReport) -> None:
    """Why a step was kept, and the steps. Where how they train has no room in the table, it stands below."""
    if report.why:
        say(report.why)
    if not report.ladder:
        return
    ladder, how = ladder_view.ladder_table(report), [ladder_view.HOW]
    dropped = print_fitting(ladder.columns, ladder.texts, ladder_view.DROPPED_FIRST, words=how, unnamed=how)
    if ladder_view.HOW in dropped:
        say(ladder_view.trained_by(report))


def print_changes(report: FixReport) -> None:
    """The classes that improved most, those with findings that did not change, those that got worse, and the means."""
    rows = sorted(changes(report), key=lambda row: row.change)
    improved, worse = [row for row in rows if row.change < 0], [row for row in rows if row.change > 0]
    named = {finding.label for finding in report.findings}
    unchanged = [row for row in rows if row.change == 0 and row.name in named]
    listed = (*improved[:LISTED], *unchanged, *worse[-LISTED:])
    lines = [
        (row.name, f"{row.count}", f"{row.before:.1f}", f"{row.after:.1f}", f"{row.change:+.1f}") for row in listed
    ]
    lines += [(what, "", before, after, "") for what, before, after in key_figures(report)]
    print_fitting(("class", "examples", "before %", "after %", "change"), lines, drop=("examples", "change"))


def print_classes(rows: Sequence[ClassRow], judged: str = "naive ") -> None:
    """Every class by every measure."""
    error = f"{judged}error %"
    measures, ranks = ("μ^C", "effective", "μ^U"), ("rank C", "rank eff.", "rank U")
    lines = []
    for row in rows:
        shares = (f"{share:.4f}" for share in (row.cardinality, row.effective, row.uncertainty))
        epistemic = "–" if row.epistemic_share is None else f"{row.epistemic_share:.0%}"
        places = (f"{rank:g}" for rank in (row.rank_cardinality, row.rank_effective, row.rank_uncertainty))
        lines.append((row.name, str(row.count), *shares, epistemic, *places, _number(row.error, 1)))
    columns = ("class", "examples", *measures, "epistemic share", *ranks, error)
    print_fitting(columns, lines, drop=("rank eff.", "effective", "epistemic share", "rank C", "μ^C", error, "rank U"))


def disagreements(rows: Sequence[ClassRow]) -> list[str]:
    """The classes that cardinality and uncertainty rank most differently, one line each, or why there are none."""
    if len({row.count for row in rows}) == 1:
        return ["All classes have equally many examples, so cardinality does not tell them apart."]
    disputed = sorted((row for row in rows if row.disagreement), key=lambda row: -abs(row.disagreement))
    if not disputed:
        return ["Cardinality and uncertainty rank the classes alike."]
    lines = ["Cardinality and uncertainty disagree most on"]
    for row in disputed[:LISTED]:
        kind = "harder" if row.disagreement > 0 else "easier"
        ranks = f"rank {row.rank_cardinality:g} by cardinality, {row.rank_uncertainty:g} by uncertainty"
        lines.append(f"  {row.name}: {kind} than its {row.count} examples suggest ({ranks})")
    return lines


def correlations(rows: Sequence[ClassRow], judged: str = "naive ") -> list[str]:
    """Spearman's rho of each measure with the class errors, in words; nothing where none is defined."""
    rhos = {measure: spearman(rows, measure) for measure in ("cardinality", "effective", "uncertainty")}
    defined = ", ".join(f"{measure} {rho:.2f}" for measure, rho in rhos.items() if rho is not None)
    few = f" ({len(rows)} classes are few for it)" if len(rows) < MEANINGFUL else ""
    return [f"Spearman's ρ with the {judged}class errors: {defined}{few}"] if defined else []


def print_methods(rows: Sequence[MethodRow]) -> None:
    """Means over the seeds, one row for each method and learning rate."""
    groups, calibration = ("top-1", "many", "medium", "few", "worst 10th"), ("NLL", "ECE")
    lines = []
    for row in rows:
        runs = f"{row.runs} ({row.diverged} diverged)" if row.diverged else str(row.runs)
        deviation = "" if row.error_sd is None else f" ± {row.error_sd:.2f}"
        gain = "" if row.gain is None else f"{row.gain:+.2f}"
        errors = (_number(value, 1) for value in (row.top1_error, row.many, row.medium, row.few, row.worst))
        aso = "" if row.aso is None else f"{row.aso:.2f} vs {row.aso_against}"
        first = (row.method, f"{row.lr:g}", runs, _number(row.error, 2) + deviation, gain)
        lines.append((*first, *errors, _number(row.nll, 3), _number(row.ece, 1), f"{row.cost:.3g}", aso))
    columns = ("method", "lr", "runs", "error %", "gain", *groups, *calibration, "cost", "ASO")
    drop = (*calibration, "medium", "many", "top-1", "worst 10th", "few", "cost", "runs", "ASO", "gain", "lr")
    print_fitting(columns, lines, drop)


def footnotes(rows: Sequence[MethodRow], folds: int) -> list[str]:
    """What the columns of `print_methods` mean."""
    deviation = ", ± standard deviation over the seeds" if any(row.error_sd is not None for row in rows) else ""
    has_gain = any(row.gain is not None for row in rows)
    gain = f"; gain: naive's error less the method's, {describe_rates(rows)}" if has_gain else ""
    groups = f"classes with more than {MANY}, {FEW} to {MANY}, and fewer than {FEW} training examples"
    cost = "Cost: total trainings per deployed network, in units of one naive training."
    notes = [f"Error: mean of the class errors in percent{deviation}{gain}.", cost]
    notes += [f"Many, medium, few: {groups}; worst 10th: of the classes.", *([describe_folds(folds)] if folds else [])]
    if tests := describe_tests(rows):
        notes.append(f"ASO: ε_min against the row that is named; below 0.5, the method is better; {tests}.")
    if any(row.error_sd == 0 for row in rows):
        notes.append("± 0.00: every seed gives the same network, so there is no chance to test for.")
    warnings = {row.aso_warning for row in rows if row.aso_warning}
    return notes + [f"ASO: {warning}." for warning in sorted(warnings)]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
