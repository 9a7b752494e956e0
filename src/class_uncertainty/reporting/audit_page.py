"""An audit as one HTML file: the verdict first, definitions last, and the examples of every class within it."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from class_uncertainty.checks import check
from class_uncertainty.io import origin
from class_uncertainty.posthoc.class_audit import CONFUSIONS
from class_uncertainty.posthoc.diagnosis import BY_COST, KINDS
from class_uncertainty.posthoc.error_changes import ErrorChange
from class_uncertainty.posthoc.run_changes import RunChanges
from class_uncertainty.reporting import chart_style, page_columns
from class_uncertainty.reporting.audit_examples import audit_examples
from class_uncertainty.reporting.audit_view import adjusted_text, change_sentences
from class_uncertainty.reporting.glossary import GLOSSARY
from class_uncertainty.reporting.html_page import AT_ONCE, check_place, load_template, write_marked
from class_uncertainty.reporting.page_examples import links_files, opening, page_data
from class_uncertainty.reporting.two_class_view import named_figures
from class_uncertainty.workflows.audit import Audit

MOST_FINDINGS = 12
MOST_CONFUSIONS = 500
MOST_ISSUES = 500
TERMS = ["Adjusting, adjusted for the counts", "Class mean, class-mean error", "ECE", "Interval, 95 %", "NLL"]
TERMS += ["Overall, overall error"]
TERMS += ["Precision, recall, F1", "Uncertainty (μ^U)", "Worst tenth", *(word.capitalize() for word in KINDS.values())]
TWO_CLASS_TERMS = ["AUC, average precision", "Threshold"]

__all__ = ["Gate", "check_place", "render", "write", "write_page"]


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
        Another audit, or the JSON file of one, to show what got better and what worse since.
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
    write_marked(path, render(audit, path.parent, changes, gate), made_from)
    return path


def render(
    audit: Audit,
    folder: Path,
    changes: RunChanges | None = None,
    gate: Gate = Gate(),  # noqa: B008
) -> str:
    """The page, with links from the folder that it will be in."""
    data = page_data(audit_examples(audit), folder)
    view = _view(audit) | {"gate": gate, "changes": _run_view(audit, changes), "data": data}
    view["linked"] = links_files(data)
    values = {"style": chart_style, "columns": page_columns, "at_once": AT_ONCE, "methods": {}}
    return load_template("audit.html").render(view=view, **values)


def _view(audit: Audit) -> dict[str, Any]:
    """What the template shows of the audit itself."""
    places = {row.name: str(c) for c, row in enumerate(audit.classes)}
    rows = audit.worst_first
    issues = audit.document()["label_issues"]
    wrong = int((audit.labels != audit.guesses).sum())
    shown, two = audit.verdicts[:MOST_FINDINGS], audit.figures.two
    terms = [*TERMS, *(TWO_CLASS_TERMS if two else ())]
    return {
        "examples": f"{audit.figures.examples:,}",
        "facts": [(f"{len(rows):,}", "classes"), (f"{audit.figures.examples:,}", "examples"), (f"{wrong:,}", "wrong")],
        "summary": audit.summary,
        "findings": [
            (f"{KINDS[row.kind]}{audit.without_costs}", f"{row.verdict}.", places[row.name], row.name) for row in shown
        ],
        "more_findings": len(audit.verdicts) - len(shown),
        "basis": BY_COST if audit.by_cost else "",
        "notes": (*audit.unjudged, *audit.notes),
        "figures": _figures(audit),
        "classes": [opening(row, places[row.name], word=KINDS.get(row.kind, "")) for row in rows],
        "confusions": [
            opening(row, f"{places[row.label]}-{places[row.prediction]}", number=row.examples)
            for row in audit.confusions[:MOST_CONFUSIONS]
        ],
        "all_confusions": audit.all_confusions,
        "of_class": CONFUSIONS,
        "issues": [SimpleNamespace(**issue) for issue in issues[:MOST_ISSUES]],
        "all_issues": len(issues),
        "two": two,
        "positive": audit.classes[two.positive].name if two else "",
        "terms": {term: GLOSSARY[term] for term in sorted(terms, key=str.casefold)},
    }


def _run_view(audit: Audit, changes: RunChanges | None) -> dict[str, Any] | None:
    if changes is None:
        return None
    words = {row.name: word for word, rows in (("worse", changes.worse), ("better", changes.better)) for row in rows}
    places = {row.name: str(c) for c, row in enumerate(audit.classes)}
    rows = [opening(row, places[row.name], word=words.get(row.name, "")) for row in changes.classes]
    return {"sentences": change_sentences(changes), "paired": changes.paired, "rows": rows}


def _figures(audit: Audit) -> list[tuple[str, str, str]]:
    """(what, number, what stands beside it)."""
    of = audit.figures
    adjusted = ErrorChange(of.adjusted_change, of.adjusted_change_low, of.adjusted_change_high)
    figures = [
        ("Class-mean error", f"{of.error:.1f} %", f"{of.error_low:.1f} to {of.error_high:.1f}"),
        ("Overall error", f"{of.overall_error:.1f} %", f"{of.overall_error_low:.1f} to {of.overall_error_high:.1f}"),
        ("Worst class", f"{of.worst_class_error:.1f} %", of.worst_class),
        ("ECE", f"{of.ece:.1f} %", f"classwise {of.classwise_ece:.2f} %"),
        ("NLL", f"{of.nll:.3f}", f"nats, {of.weighing}"),
        (
            "Class-mean error, adjusted for the counts",
            f"{of.adjusted_error:.1f} %",
            adjusted_text(adjusted, of.adjusted_taus),
        ),
    ]
    if len(audit.classes) > 2:
        figures.insert(3, ("Worst tenth of the classes", f"{of.worst_tenth:.1f} %", ""))
    if of.two:
        named = named_figures(of.two, audit.classes[of.two.positive].name)
        figures += [(f"{words[0].upper()}{words[1:]}", f"{number} %", "") for words, number in named]
    if of.mean_cost is not None:
        lower = "" if of.least_cost is None else f"{of.least_cost:.4g} by decisions for the least expected cost"
        figures.append((of.cost_name, f"{of.mean_cost:.4g}", lower))
    if of.prior_error is not None:
        figures.append(("Error under the prior", f"{of.prior_error:.1f} %", ""))
    if of.prior_adjusted_change:
        what = "Error under the prior, adjusted for the counts and the prior"
        change = adjusted_text(of.prior_adjusted_change, of.prior_adjusted_taus)
        figures.append((what, f"{of.prior_adjusted_error:.1f} %", change))
    if of.label_issues is not None:
        figures.append(("Labels worth a look", f"{of.label_issues:,}", ""))
    return figures
