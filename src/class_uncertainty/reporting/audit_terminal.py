"""An audit for a terminal: the verdict first, then figures, classes, confusions, and what changed."""

from class_uncertainty.posthoc.class_audit import Taus
from class_uncertainty.posthoc.diagnosis import KINDS
from class_uncertainty.posthoc.error_changes import ErrorChange
from class_uncertainty.posthoc.run_changes import UNTESTED, ClassChange, RunChanges
from class_uncertainty.reporting.before_after import change_text
from class_uncertainty.reporting.terminal import print_fitting, say
from class_uncertainty.reporting.two_class_view import cost_sentence, two_class_sentence
from class_uncertainty.text import amount_of, decimal, enumerated, in_list, listed, number
from class_uncertainty.workflows.audit import Audit

MOST_VERDICTS, MOST_CLASSES, MOST_CONFUSIONS, NAMED = 10, 20, 5, 5
NOTES = {
    "prec. %": "Prec.: precision, the share of the predictions of the class that are right.",
    "unc. %": "Unc.: share of the uncertainty.",
    "adjusting": "Adjusting: by how many points adjusting for the counts alone would change the error.",
}


def print_audit(audit: Audit, all_classes: bool = False) -> None:
    """The verdict, the classes with the largest errors, the confusions that cost most, and notes."""
    say(audit.summary)
    for row in audit.verdicts[:MOST_VERDICTS]:
        say(f"{KINDS[row.kind].capitalize()}{audit.without_costs} – {row.verdict}.")
    if (more := len(audit.verdicts) - MOST_VERDICTS) > 0:
        say(f"{amount_of(more, 'more verdict', 'more verdicts')}: {_lists(more)}.")
    if audit.unjudged:
        say(*audit.unjudged)
    rows = audit.worst_first
    shown = rows if all_classes else rows[:MOST_CLASSES]
    lines = []
    for row in shown:
        error = ("–", "–") if row.error is None else (f"{row.error:.1f}", f"{row.low:.0f} to {row.high:.0f}")
        unsure = "–" if row.uncertainty is None else f"{100 * row.uncertainty:.1f}"
        taken = f"{row.taken_for} ({row.taken_share:.0f} %)" if row.taken_for else "–"
        change = "–" if row.change is None else decimal(row.change, 1, "+")
        numbers = (*error, number(row.precision), unsure, number(row.ece), taken, change, KINDS.get(row.kind, ""))
        lines.append((row.name, f"{row.count:,}", f"{row.examples:,}", *numbers))
    verdict = f"verdict{audit.without_costs}".replace(", ", ",\n")
    columns = (
        "class",
        "train",
        "test",
        "error %",
        "95 %",
        "prec. %",
        "unc. %",
        "ECE %",
        "taken for",
        "adjusting",
        verdict,
    )
    drop = ("unc. %", "train", "ECE %", "adjusting", "prec. %", "taken for", "95 %", "test")
    dropped = print_fitting(columns, lines, drop, words=("taken for", verdict))
    if hidden := len(rows) - len(shown):
        say(f"{hidden:,} of {len(rows):,} classes are not shown: --all-classes or --report lists them.")
    about = " ".join(note for column, note in NOTES.items() if column not in dropped)
    say(*filter(None, [about]), *figure_sentences(audit), *audit.notes)


def figure_sentences(audit: Audit) -> list[str]:
    """The figures of all classes together, and the confusions that cost most."""
    of = audit.figures
    errors = f"Class-mean error {of.error:.1f} % ({of.error_low:.1f} to {of.error_high:.1f})"
    overall = f"overall error {of.overall_error:.1f} % ({of.overall_error_low:.1f} to {of.overall_error_high:.1f})"
    calibration = f"ECE {of.ece:.1f} %, classwise {of.classwise_ece:.1f} %, NLL {of.nll:.3f} {of.weighing}"
    adjusted = ErrorChange(of.adjusted_change, of.adjusted_change_low, of.adjusted_change_high)
    change = adjusted_text(adjusted, of.adjusted_taus)
    would = f"Adjusting for the counts alone would change the class-mean error by {change}"
    sentences = [f"{errors}, {overall} of {of.examples:,} examples; {calibration}."]
    if of.two:
        sentences.append(two_class_sentence(of.two, audit.classes[of.two.positive].name))
    if of.mean_cost is not None:
        sentences.append(cost_sentence(of.mean_cost, of.least_cost, of.cost_name))
    sentences.append(f"{would}, cross-validated.")
    if of.prior_adjusted_change:
        change = adjusted_text(of.prior_adjusted_change, of.prior_adjusted_taus)
        for_both = f"adjusting for the counts and the prior would change that by {change}"
        sentences.append(f"Error under the prior {of.prior_error:.1f} %; {for_both}, cross-validated.")
    if audit.confusions:
        largest = audit.confusions[:MOST_CONFUSIONS]
        pairs = [f"{in_list(row.label)} as {in_list(row.prediction)} ({row.share:.0f} %)" for row in largest]
        sentences.append(f"Largest confusions: {', '.join(pairs)}.")
    if of.label_issues:
        some = amount_of(of.label_issues, "label is", "labels are")
        sentences.append(f"{some} more likely wrong than right: {_lists(of.label_issues)}.")
    return sentences


def _lists(number: int) -> str:
    return f"--report and --json list {'it' if number == 1 else 'them'}"


def adjusted_text(change: ErrorChange, taus: Taus) -> str:
    """'-13.5 points (-17.4 to -9.3), τ 0.8 to 0.85': what adjusting changes, and by which strengths, if by any."""
    ends = dict.fromkeys(f"{tau:g}" for tau in (min(taus), max(taus))) if taus else ()
    return ", τ ".join(filter(None, [change_text(change), " to ".join(ends)]))


def print_changes(changes: RunChanges) -> None:
    say(*change_sentences(changes))


def change_sentences(changes: RunChanges) -> list[str]:
    """What got better and what worse against the baseline."""
    same = "on the same examples" if changes.named else "on examples with the same labels in the same order"
    same = same if changes.paired else "on other examples"
    mean, overall = change_text(changes.error), change_text(changes.overall_error)
    sentences = [f"Against the baseline, {same}: class-mean error {mean}, overall error {overall}."]
    for word, rows in (("worse", changes.worse), ("better", changes.better)):
        named = enumerated([_class_text(row) for row in rows], NAMED)
        clearly = f"{len(rows):,} class{' got' if len(rows) == 1 else 'es got'} clearly {word}"
        sentences.append(f"{clearly}: {named}." if rows else f"No class got clearly {word}.")
    untested = [f"{words} {_side(changes, name, 0)} to {_side(changes, name, 1)}" for name, words in UNTESTED.items()]
    sentences.append(f"Without an interval: {', '.join(untested)}.")
    for words, names in (("New classes", changes.new), ("Classes that are gone", changes.gone)):
        sentences += [f"{words}: {listed(names, NAMED)}."] if names else []
    return sentences


def _class_text(row: ClassChange) -> str:
    return f"{in_list(row.name)} ({row.before:.1f} to {row.after:.1f} %)"


def _side(changes: RunChanges, name: str, side: int) -> str:
    return f"{changes.figures[name][side]:.{3 if name == 'nll' else 1}f}"
