"""What `cu compare` prints: the methods, the lowest error first, and whether their gains are clear."""

from collections.abc import Sequence

from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.reporting.measure_view import judged_on
from class_uncertainty.reporting.section import (
    SAME_NETWORK,
    describe_collapsed,
    describe_folds,
    describe_marks,
    describe_network,
    describe_tests,
)
from class_uncertainty.reporting.terminal import (
    MISSING,
    Verbosity,
    cells_in_order,
    figure,
    in_blocks,
    span,
    table_lines,
)
from class_uncertainty.runs.comparison import chosen_where
from class_uncertainty.runs.rows import MethodRow, marked, shared_marks
from class_uncertainty.text import amount_of, enumerated
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.workflows.compare import Comparison

NAMED = 5  # methods in a sentence
TOLD = 5  # seeds from which on more of them are not advised


def compare_lines(comparison: Comparison, verbosity: Verbosity, width: int) -> list[str]:
    """The leaderboard, then the best method and whether its gain is more than noise."""
    rows = comparison.rows
    answer = [conclusion(rows)]
    if verbosity == Verbosity.QUIET:
        return in_blocks([answer], width)
    title = [f"Errors {judged_on(comparison.dataset)}:"]
    blocks = [title, leaderboard(rows, width), runs_lost(rows)]
    if verbosity == Verbosity.VERBOSE:
        blocks += [groups_table(comparison, width), tests_table(rows, width), notes(comparison)]
    return in_blocks([*blocks, answer], width)


def sorted_by_error(rows: Sequence[MethodRow]) -> list[MethodRow]:
    """The rows with the lowest errors first, those without any last."""
    return sorted(rows, key=lambda row: float("inf") if row.error is None else row.error)


def leaderboard(rows: Sequence[MethodRow], width: int) -> list[str]:
    """A line for each method and, where there are several, each learning rate."""
    marks = shared_marks([row.marks for row in rows])
    has_rates = len({row.lr for row in rows if row.has_rate}) > 1
    has_chance = any(row.compared_low is not None for row in rows)
    table = []
    for row in sorted_by_error(rows):
        deviation = "" if row.error_sd is None or row.seedless else f" ± {row.error_sd:.2f}"
        gain = figure(row.compared_gain, 2, "+")
        if has_chance:
            gain += f" {verdict(row):<5}"
        cells = {
            "method": marked(row.method, row.marks, marks),
            "lr": f"{row.lr:g}" if has_rates and row.has_rate else MISSING,
            "class mean %": figure(row.error, 2) + deviation,
            "gain": gain if row.compared_with else "",
            "gain over": row.compared_with or "",
            "trainings": f"{row.cost:.3g}",
        }
        table.append(cells)
    return table_lines(*cells_in_order(table), width, words=["gain over"])


def verdict(row: MethodRow) -> str:
    """'clear', 'noise', or '' if the seeds cannot tell."""
    if row.is_clear is None:
        return ""
    return "clear" if row.is_clear else "noise"


def conclusion(rows: Sequence[MethodRow]) -> str:
    """Which method has the lowest error, and which gains are clear, in one sentence."""
    judged = [row for row in sorted_by_error(rows) if row.error is not None]
    if not judged:
        return "Every training diverged: try a lower learning rate (--lrs)."
    best = judged[0]
    if len(judged) == 1:
        return f"{best.method} has a class-mean error of {figure(best.error, 2)} %."
    lowest = f"{best.method} has the lowest error, {figure(best.error, 2)} %"
    compared = [row for row in judged if row.compared_gain is not None]
    tested = [row for row in compared if row.is_clear is not None]
    if not compared:
        return f"{lowest}."
    if not tested and all(row.seedless for row in compared):
        return f"{lowest}; every seed gives the same networks, so no gain can be tested."
    more = f": --seeds {TOLD} may show more" if min(row.runs for row in tested or compared) < TOLD else ""
    if not tested:
        return f"{lowest}; the seeds do not tell a gain from noise{more}."
    clear = [row for row in tested if row.is_clear]
    if not clear:
        return f"{lowest}; no gain is clear{more}."
    phrases = []
    for word, sign in (("better", 1), ("worse", -1)):
        names = [f"{row.method} than {row.compared_with}" for row in clear if sign * (row.compared_gain or 0) > 0]
        if names:
            phrases.append(f"clearly {word}: {enumerated(names, NAMED)}")
    return f"{lowest}; {'; '.join(phrases)}."


def runs_lost(rows: Sequence[MethodRow]) -> list[str]:
    """Runs that diverged, and runs that predict one class only."""
    lost = [f"{row.method}: {row.diverged} of {row.runs + row.diverged} runs diverged." for row in rows if row.diverged]
    return lost + [f"{row.method}: {describe_collapsed(row.collapsed, row.runs)}" for row in rows if row.collapsed]


def groups_table(comparison: Comparison, width: int) -> list[str]:
    """Errors by how many examples classes have, and calibration. Two classes have no worst tenth."""
    table = []
    for row in sorted_by_error(comparison.rows):
        cells = {
            "method": row.method,
            "lr": f"{row.lr:g}" if row.has_rate else MISSING,
            "runs": f"{row.runs}",
            "overall %": figure(row.top1_error),
            "many": figure(row.many),
            "medium": figure(row.medium),
            "few": figure(row.few),
            "worst tenth": MISSING if len(comparison.dataset.classes) == 2 else figure(row.worst),
            "NLL": figure(row.nll, 3),
            "ECE %": figure(row.ece),
        }
        table.append(cells)
    return table_lines(*cells_in_order(table), width)


def tests_table(rows: Sequence[MethodRow], width: int) -> list[str]:
    """The intervals of the gains, and the tests of almost stochastic order; nothing where there are none."""
    table = []
    for row in sorted_by_error(rows):
        cells = {
            "method": row.method,
            "gain": figure(row.compared_gain, 2, "+"),
            "gain over": row.compared_with or "",
            "95 % interval": span(row.compared_low, row.compared_high, 2, "+"),
            "ASO": MISSING if row.aso is None else f"{row.aso:.2f} vs {row.aso_against}",
        }
        if row.compared_with:
            table.append(cells)
    return table_lines(*cells_in_order(table), width, words=["gain over"]) if table else []


def notes(comparison: Comparison) -> list[str]:
    """How the rows were trained, judged and tested."""
    rows = comparison.rows
    lines = describe_network(comparison.network)
    if comparison.folds:
        lines.append(describe_folds(comparison.folds, comparison.dataset))
    lines.append(f"Many, medium, few: classes with over {MANY}, {FEW} to {MANY}, under {FEW} training examples.")
    tested = sum(row.is_clear is not None for row in rows)
    if tested:
        lines.append(f"Gains: paired t intervals over the seeds, at confidence 1 - 0.05 / {tested}.")
    tests = describe_tests(rows)
    if tests:
        lines.append(f"ASO: below 0.5, the method is better than the named row; {tests}.")
    lines += [f"ASO: {warning}." for warning in sorted({row.aso_warning for row in rows if row.aso_warning})]
    if any(row.seedless for row in rows):
        lines.append(SAME_NETWORK)
    lines += describe_marks([row.marks for row in rows])
    if comparison.estimate:
        imported = ", and imported" if comparison.uncertainty_imported else ""
        estimate = comparison.estimate
        lines.append(f"Uncertainty was measured by {estimate.estimator}, score {estimate.score}{imported}.")
    return [*lines, *rate_notes(comparison), *strength_notes(comparison)]


def rate_notes(comparison: Comparison) -> list[str]:
    """How learning rates were chosen; nothing where they were given."""
    chosen = comparison.chosen
    if not chosen:
        return []
    trainings = amount_of(comparison.choosing_trainings, "training", "trainings")
    data = comparison.chosen_on
    if data is None:
        trainings = f"{len(chosen[0].errors)} rates x {FOLDS} folds = {trainings}"
    names = ", ".join(choice.method for choice in chosen)
    where = chosen_where(data.name if data else None)
    lines = [f"Learning rates of {names}: chosen {where}, {trainings} each, not counted above."]
    at_edge = [choice.method for choice in chosen if choice.lr in (min(choice.errors), max(choice.errors))]
    if at_edge:
        lines.append(f"At the edge of the tried rates: {', '.join(at_edge)}. Rates beyond it may be better.")
    return lines


def strength_notes(comparison: Comparison) -> list[str]:
    """The strength of the adjustment for the counts; nothing if no row was adjusted."""
    strengths = comparison.strengths
    if not strengths:
        return []
    has_rate = any(row.has_rate for row in comparison.rows)
    taus = [f"{tau:g} at the learning rate {lr:g}" if has_rate else f"{tau:g}" for lr, tau in strengths.items()]
    text = f"Strength of the adjustment for the counts (tau): {', '.join(taus)}"
    if comparison.folds and set(strengths.values()) != {1.0}:
        text += "; each fold's was chosen on the others"
    judged = comparison.dataset.test or comparison.dataset.train
    if len(set(judged.counts)) == 1:
        return [f"{text}."]
    return [
        f"{text}.",
        "NLL and ECE weigh all judged examples alike, while rows with tau assume equally frequent classes.",
    ]
