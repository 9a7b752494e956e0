"""What `cu audit` prints: the classes, the worst first, figures of all of them, and last the verdict."""

from collections.abc import Sequence

from class_uncertainty.posthoc.class_audit import Taus
from class_uncertainty.posthoc.diagnosis import KINDS
from class_uncertainty.posthoc.error_changes import ErrorChange
from class_uncertainty.posthoc.evaluation import FIGURES
from class_uncertainty.posthoc.intervals import HANDFUL
from class_uncertainty.posthoc.run_changes import UNTESTED, ClassChange, RunChanges
from class_uncertainty.reporting.terminal import (
    MISSING,
    Verbosity,
    cells_in_order,
    figure,
    in_blocks,
    labelled_lines,
    span,
    table_lines,
)
from class_uncertainty.text import amount_of, decimal, enumerated, in_list, listed
from class_uncertainty.workflows.audit import Audit

MOST_CLASSES = 8
FIGURE_COLUMNS = ("all classes", "value", "95 % interval")
LISTED = 5  # confusions, labels and changed classes in a sentence


def audit_lines(
    audit: Audit, verbosity: Verbosity, width: int, changes: RunChanges | None = None, files: Sequence[object] = ()
) -> list[str]:
    """The classes, the figures, doubtful labels and their limits; then the changes and the verdict."""
    everything = verbosity == Verbosity.VERBOSE
    answer = [*(change_sentences(changes, everything) if changes else ()), audit.summary]
    if verbosity == Verbosity.QUIET:
        return in_blocks([answer], width)
    title = f"{amount_of(audit.figures.examples, 'example', 'examples')} of {len(audit.classes):,} classes"
    blocks = [
        [title],
        class_table(audit, everything, width),
        table_lines(FIGURE_COLUMNS, figure_rows(audit, everything), width),
    ]
    if everything:
        blocks += [details_table(audit, width), verdict_sentences(audit), confusion_sentences(audit)]
    wrote = labelled_lines("Wrote", ", ".join(map(str, files)), width) if files else []
    blocks += [label_sentences(audit), [f"! {note}" for note in audit.notes], wrote, answer]
    return in_blocks(blocks, width)


def class_table(audit: Audit, everything: bool, width: int) -> list[str]:
    """A line for each listed class, then how many classes are not listed.

    Intervals hold for all judged classes at once, as the verdicts do.
    """
    rows = audit.worst_first
    judged = [row for row in rows if row.is_judged]
    shown = rows if everything else judged[:MOST_CLASSES]
    verdict = f"verdict{audit.without_costs}"
    table = []
    for row in shown:
        taken_for = f"{row.taken_for} ({row.taken_share:.0f} %)" if row.taken_for else MISSING
        cells = {
            "class": row.name,
            "train": f"{row.count:,}",
            "test": f"{row.examples:,}",
            "error %": figure(row.error),
            "95 % interval": span(row.low_together, row.high_together),
            "taken for": taken_for,
            verdict: KINDS.get(row.kind, ""),
        }
        table.append(cells)
    lines = table_lines(*cells_in_order(table), width, words=["taken for", verdict]) if table else []
    if not everything and len(judged) > len(shown):
        more = amount_of(len(judged) - len(shown), "more class has a lower error", "more classes have lower errors")
        lines.append(f"  {more} (--verbose)")
    return lines + [f"  {sentence}" for sentence in not_judged(audit)]


def not_judged(audit: Audit) -> list[str]:
    """Which classes have too few examples, in a sentence; nothing where none has."""
    few = [row.name for row in audit.worst_first if not row.is_judged]
    verb = amount_of(len(few), "class has", "classes have")
    return [f"{verb} fewer than {HANDFUL} examples, not judged: {listed(few, LISTED)}."] if few else []


def figure_rows(audit: Audit, everything: bool) -> list[list[str]]:
    """Errors of all classes together, how well the rarer of two is found, calibration, and what adjusting changes."""
    of = audit.figures
    rows = [
        ["class mean %", figure(of.error), span(of.error_low, of.error_high, 1)],
        ["overall %", figure(of.overall_error), span(of.overall_error_low, of.overall_error_high, 1)],
    ]
    if of.two:
        name = audit.classes[of.two.positive].name
        for field, word in FIGURES.items():
            if field == "auc" and not everything:
                continue
            rows.append([f"{word} of {name} %", figure(getattr(of.two, field)), ""])
    if of.mean_cost is not None:
        rows.append([of.cost_name.lower(), f"{of.mean_cost:.4g}", ""])
    if of.least_cost is not None:
        rows.append(["mean cost by the least expected cost", f"{of.least_cost:.4g}", ""])
    if of.prior_error is not None:
        rows.append(["error under the prior %", figure(of.prior_error), ""])
    rows.append(["ECE %", figure(of.ece), ""])
    if everything:
        rows.append(["classwise ECE %", figure(of.classwise_ece, 2), ""])
        rows.append([f"NLL {of.weighing}", figure(of.nll, 3), ""])
    return rows + adjusting_rows(audit, everything)


def adjusting_rows(audit: Audit, everything: bool) -> list[list[str]]:
    """The cross-validated changes of errors by adjusting for the counts and for the prior."""
    of = audit.figures
    rows = []
    adjusted = ErrorChange(of.adjusted_change, of.adjusted_change_low, of.adjusted_change_high)
    changes = [("class mean by adjusting", adjusted, of.adjusted_taus)]
    if of.prior_adjusted_change:
        changes.append(("error under the prior by adjusting", of.prior_adjusted_change, of.prior_adjusted_taus))
    for name, change, taus in changes:
        rows.append([f"change of the {name}", decimal(change.change, 1, "+"), span(change.low, change.high, 1, "+")])
        if taus and everything:
            rows.append([f"tau for the {name}", _range(taus), ""])
    return rows


def details_table(audit: Audit, width: int) -> list[str]:
    """Precision, uncertainty and calibration of each class, and what adjusting for the counts changes."""
    table = []
    for row in audit.worst_first:
        uncertainty = None if row.uncertainty is None else 100 * row.uncertainty
        cells = {
            "class": row.name,
            "precision %": figure(row.precision),
            "uncertainty %": figure(uncertainty),
            "ECE %": figure(row.ece),
            "adjusting": figure(row.change, 1, "+"),
            "95 % interval": MISSING if row.change is None else span(row.change_low, row.change_high, 0, "+"),
        }
        table.append(cells)
    return table_lines(*cells_in_order(table), width)


def verdict_sentences(audit: Audit) -> list[str]:
    """A sentence for each class that is clearly worse, and the names of those that are not judged, or easy."""
    worse = [f"{KINDS[row.kind].capitalize()}{audit.without_costs}: {row.verdict}." for row in audit.verdicts]
    return [*worse, *audit.unjudged]


def confusion_sentences(audit: Audit) -> list[str]:
    """The confusions that cost most."""
    if not audit.confusions:
        return []
    pairs = [
        f"{in_list(row.label)} as {in_list(row.prediction)} ({row.share:.0f} %)" for row in audit.confusions[:LISTED]
    ]
    return [f"Largest confusions: {', '.join(pairs)}."]


def label_sentences(audit: Audit) -> list[str]:
    """Labels worth a look: copies under two labels first, then labels that are more likely wrong than right."""
    sentences = []
    copies = audit.label_conflicts
    if copies:
        alike = []
        for places in copies[:LISTED]:
            labels = [audit.classes[audit.labels[i]].name for i in places]
            named = [f"{in_list(audit.name_of(i))} ({in_list(label)})" for i, label in zip(places, labels, strict=True)]
            alike.append(" = ".join(named))
        number = amount_of(len(copies), "image has", "images have")
        sentences.append(f"{number} two labels: {enumerated(alike, LISTED, len(copies))}.")
    if audit.noise is None or not audit.figures.label_issues:
        return sentences
    issues = []
    for i in audit.noise.ranked[:LISTED].tolist():
        label, guess = (audit.classes[side[i]].name for side in (audit.labels, audit.noise.guesses))
        issues.append(f"{in_list(audit.name_of(i))} ({in_list(label)}: {in_list(guess)}?)")
    number = amount_of(audit.figures.label_issues, "label is", "labels are")
    shown = enumerated(issues, LISTED, audit.figures.label_issues)
    return [*sentences, f"{number} more likely wrong than right: {shown}."]


def changed_text(change: ErrorChange) -> str:
    """'-2.6 points (-7.1 to +2.0, noise)'."""
    verdict = "clear" if change.is_clear else "noise"
    return f"{decimal(change.change, 1, '+')} points ({span(change.low, change.high, 1, '+')}, {verdict})"


def _range(taus: Taus) -> str:
    """'0.8 to 0.85', or '1' where all are the same."""
    return " to ".join(dict.fromkeys(f"{tau:g}" for tau in (min(taus), max(taus))))


def change_sentences(changes: RunChanges, everything: bool = True) -> list[str]:
    """What got better and what worse against the baseline, and how `everything` else changed."""
    if not changes.paired:
        examples = "on other examples"
    elif changes.named:
        examples = "on the same examples"
    else:
        examples = "on examples with the same labels in the same order"
    mean = changed_text(changes.error)
    overall = changed_text(changes.overall_error)
    sentences = [f"Against the baseline, {examples}: class-mean error {mean}, overall error {overall}."]
    for word, rows in (("worse", changes.worse), ("better", changes.better)):
        if rows:
            named = enumerated([_class_text(row) for row in rows], LISTED)
            sentences.append(f"{amount_of(len(rows), 'class', 'classes')} got clearly {word}: {named}.")
        else:
            sentences.append(f"No class got clearly {word}.")
    untested = [f"{words} {_side(changes, name, 0)} to {_side(changes, name, 1)}" for name, words in UNTESTED.items()]
    if everything:
        sentences.append(f"Without an interval: {', '.join(untested)}.")
    for words, names in (("New classes", changes.new), ("Missing classes", changes.gone)):
        if names:
            sentences.append(f"{words}: {listed(names, LISTED)}.")
    return sentences


def _class_text(row: ClassChange) -> str:
    return f"{in_list(row.name)} ({row.before:.1f} to {row.after:.1f} %)"


def _side(changes: RunChanges, name: str, side: int) -> str:
    return f"{changes.figures[name][side]:.{3 if name == 'nll' else 1}f}"
