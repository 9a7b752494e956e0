"""The page of an audit: the verdict first, then the classes, then other findings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from class_uncertainty.checks import check
from class_uncertainty.io import origin
from class_uncertainty.posthoc.class_audit import CONFUSIONS
from class_uncertainty.posthoc.diagnosis import BY_COST, KINDS
from class_uncertainty.posthoc.run_changes import RunChanges
from class_uncertainty.reporting.audit_view import FIGURE_COLUMNS, change_sentences, figure_rows, not_judged
from class_uncertainty.reporting.charts import Chart, Row, row_chart
from class_uncertainty.reporting.page import (
    MISSING,
    Block,
    Cell,
    KeyNumber,
    Page,
    check_place,
    interval_cell,
    number_cell,
    render,
    table_of,
    text_cell,
    write_marked,
)
from class_uncertainty.reporting.page_examples import audit_examples
from class_uncertainty.reporting.result_pages import threshold_block
from class_uncertainty.text import amount_of
from class_uncertainty.workflows.audit import Audit

MOST_CONFUSIONS = 500
MOST_ISSUES = 500
ADJUSTING = (
    "Adjusting: the cross-validated change of the error, in points, by correcting for the training counts alone."
)
CHART = "Error of each class with its 95 % interval, the largest first. The dashed line is the mean of the classes."

__all__ = ["Gate", "audit_page", "check_place", "write", "write_page"]


@dataclass(frozen=True)
class Gate:
    """Conditions that were given, and sentences about those that hold."""

    conditions: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def write_page(
    audit: Audit, path: str | Path, earlier: Audit | str | Path | None = None, *, force: bool = False
) -> Path:
    """Write an audit as one HTML page, to open in any browser; no network is needed.

    Parameters
    ----------
    audit : Audit
        What `cu.audit` returned.
    path : path
        The file to write. Pictures that have no room in it are linked from its folder.
    earlier : Audit or path, optional
        An earlier audit, or the JSON file of one, to show what got better or worse since.
    force : bool
        Whether to replace a page of other labels, or any other file.

    Returns
    -------
    Path

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> cu.write_page(cu.audit([0, 0, 1, 1], p), "audit.html").name
    'audit.html'
    """
    check(Audit, audit=audit)
    check(Path, path=path)
    given = (audit.labels, audit.guesses, audit.p_label)
    made_from = origin("an audit", audit.names, *(values.tolist() for values in given))
    check_place(Path(path), made_from, force)
    return write(audit, Path(path), None if earlier is None else audit.against(earlier), made_from=made_from)


def write(
    audit: Audit,
    path: Path,
    changes: RunChanges | None = None,
    gate: Gate = Gate(),  # noqa: B008
    made_from: str = "",
) -> Path:
    """The same with what a command knows: changes from a baseline, a gate, and the file."""
    write_marked(path, render([audit_page(audit, changes, gate)], path.parent), made_from)
    return path


def audit_page(
    audit: Audit,
    changes: RunChanges | None = None,
    gate: Gate = Gate(),  # noqa: B008
) -> Page:
    """What the predictions of one model say of each class."""
    of = audit.figures
    places = {row.name: str(place) for place, row in enumerate(audit.classes)}
    wrong = int((audit.labels != audit.guesses).sum())
    blocks = [_class_block(audit, places)]
    if changes:
        blocks.insert(0, _change_block(changes, places))
    blocks += [_confusion_block(audit, places), _evidence_block(audit), _figure_block(audit)]
    if of.two:
        blocks.append(threshold_block(of.two, audit.classes[of.two.positive].name))
    if of.label_issues:
        blocks.append(_issue_block(audit))
    return Page(
        "Audit of predictions",
        f"{of.examples:,} examples of {amount_of(len(audit.classes), 'class', 'classes')}, {wrong:,} predicted wrongly",
        audit.summary.removeprefix(f"{BY_COST} "),
        _error_chart(audit),
        _key_numbers(audit),
        notes=[*_gate_notes(gate), *audit.unjudged, *audit.notes],
        blocks=blocks,
        examples=audit_examples(audit),
    )


def _gate_notes(gate: Gate) -> list[str]:
    if gate.broken:
        count = f"{len(gate.broken)} of {len(gate.conditions)} conditions hold"
        return [f"The gate is broken: {count}.", *gate.broken]
    if gate.conditions:
        return [f"The gate is passed; no condition holds: {'; '.join(gate.conditions)}."]
    return []


def _error_chart(audit: Audit) -> Chart | None:
    worse = {row.name for row in audit.verdicts}
    rows = []
    for row in audit.worst_first:
        if row.error is None or not row.is_judged:
            continue
        ends = {"low": row.low_together, "high": row.high_together}
        about = f"{row.error:.1f} % of {row.examples:,} examples"
        tone = "bad" if row.name in worse else ""
        rows.append(Row(row.name, row.error, f"{row.error:.1f}", **ends, tone=tone, about=about))
    if not rows:
        return None
    return row_chart("errors", rows, "error, %", CHART, reference=audit.figures.error)


def _key_numbers(audit: Audit) -> list[KeyNumber]:
    of = audit.figures
    return [
        KeyNumber("Class-mean error", f"{of.error:.1f} %", f"{of.error_low:.1f} to {of.error_high:.1f}"),
        KeyNumber(
            "Overall error", f"{of.overall_error:.1f} %", f"{of.overall_error_low:.1f} to {of.overall_error_high:.1f}"
        ),
        KeyNumber("Expected calibration error", f"{of.ece:.1f} %", of.weighing),
    ]


def _class_block(audit: Audit, places: Mapping[str, str]) -> Block:
    text = ["Choose a class to see its examples."]
    if audit.by_cost:
        text.append(BY_COST)
    text += not_judged(audit)
    rows = [
        {
            "Class": text_cell(row.name, places[row.name]),
            "Training examples": number_cell(row.count, 0),
            "Examples": number_cell(row.examples, 0),
            "Error, %": number_cell(row.error),
            "95 % interval": interval_cell(row.low_together, row.high_together),
            f"Verdict{audit.without_costs}": text_cell(KINDS[row.kind]) if row.kind else Cell(MISSING),
            "Taken for": text_cell(f"{row.taken_for} ({row.taken_share:.0f} %)") if row.taken_for else Cell(MISSING),
        }
        for row in audit.worst_first
    ]
    return Block("Classes", text, table=table_of(rows), is_folded=False)


def _evidence_block(audit: Audit) -> Block:
    """What else is known of each class."""
    rows = []
    for row in audit.worst_first:
        uncertainty = None if row.uncertainty is None else 100 * row.uncertainty
        interval = Cell(MISSING)
        if row.change is not None:
            interval = interval_cell(row.change_low, row.change_high, 1, "+")
        cells = {
            "Class": text_cell(row.name),
            "Precision, %": number_cell(row.precision),
            "Uncertainty, %": number_cell(uncertainty, 2),
            "ECE, %": number_cell(row.ece, 2),
            "Adjusting": number_cell(row.change, 1, "+"),
            "Its 95 % interval": interval,
            "Suspect labels, %": number_cell(row.suspect),
        }
        rows.append(cells)
    return Block("Precision, calibration and adjusting", [ADJUSTING], table=table_of(rows))


def _change_block(changes: RunChanges, places: Mapping[str, str]) -> Block:
    tones = {row.name: "bad" for row in changes.worse} | {row.name: "good" for row in changes.better}
    rows = [
        {
            "Class": text_cell(row.name, places[row.name]),
            "Examples": number_cell(row.examples, 0),
            "Before, %": number_cell(row.before),
            "After, %": number_cell(row.after),
            "Change": number_cell(row.change, 1, "+", tones.get(row.name, "")),
            "95 % interval": interval_cell(row.low_together, row.high_together, 1, "+"),
        }
        for row in changes.classes
    ]
    return Block("Against the baseline", change_sentences(changes), table=table_of(rows), is_folded=False)


def _confusion_block(audit: Audit, places: Mapping[str, str]) -> Block:
    shown = audit.confusions[:MOST_CONFUSIONS]
    text = "Percent of a class’s examples that are predicted as another class. Choose a confusion to see its examples."
    if len(shown) < audit.all_confusions:
        text += f" Shown are the {len(shown):,} largest of {audit.all_confusions:,}, at most {CONFUSIONS} per class."
    rows = [
        {
            "Class": text_cell(row.label, f"{places[row.label]}-{places[row.prediction]}-{row.examples}"),
            "Predicted as": text_cell(row.prediction),
            "Examples": number_cell(row.examples, 0),
            "Share, %": number_cell(row.share),
            "95 % interval": interval_cell(row.low, row.high),
        }
        for row in shown
    ]
    return Block("Confusions", [text if rows else "There are none."], table=table_of(rows))


def _issue_block(audit: Audit) -> Block:
    issues = audit.document()["label_issues"]
    text = "Labels that are more likely wrong than right, by the predictions alone. Check them before you change them."
    if len(issues) > MOST_ISSUES:
        text += f" Shown are the {MOST_ISSUES:,} likeliest of {len(issues):,}; 'cu audit --json' lists all."
    rows = [
        {
            "Example": text_cell(issue["name"]),
            "Label": text_cell(issue["label"]),
            "Likelier label": text_cell(issue["guess"]),
            "Likely wrong, %": number_cell(100 * issue["p_wrong"]),
        }
        for issue in issues[:MOST_ISSUES]
    ]
    return Block("Labels worth a look", [text], table=table_of(rows))


def _figure_block(audit: Audit) -> Block:
    rows = figure_rows(audit, everything=True)
    cells = [dict(zip(FIGURE_COLUMNS, map(Cell, row), strict=True)) for row in rows]
    return Block("All figures", table=table_of(cells))
