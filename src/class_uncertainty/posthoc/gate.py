"""Conditions on an audit, as a CI job gives them: 'worst_class_error > 40', 'error[cat] > 30', 'worse_classes > 0'."""

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.posthoc.class_audit import AuditRecord
from class_uncertainty.posthoc.evaluation import FIGURES as TWO_CLASS_FIGURES
from class_uncertainty.posthoc.run_changes import RunChanges
from class_uncertainty.text import decimal

CONDITION = re.compile(
    r"""\s*(?P<figure>\w+)\s*(?:\[(?P<quote>['"]?)(?P<label>.*)(?P=quote)\])?"""
    r"""\s*(?P<sign>>=|<=|>|<)\s*(?P<limit>[+-]?(?:\d+\.?\d*|\.\d+))\s*%?\s*""",
    re.DOTALL,
)
COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
# docs/audit.md says what each figure is
FIGURES = (
    "error", "error_low", "overall_error", "overall_error_low", "worst_class_error", "worst_tenth", "ece",
    "classwise_ece", "nll", "label_issues", "examples", *TWO_CLASS_FIGURES, "mean_cost", "error[CLASS]",
    "error_low[CLASS]", "precision[CLASS]", "ece[CLASS]", "suspect[CLASS]", "examples[CLASS]",
)  # fmt: skip
CHANGES = (
    "change[CLASS]", "change_low[CLASS]", "error_change", "error_change_low", "overall_error_change", "ece_change",
    "worse_classes", "better_classes", "gone_classes",
)  # fmt: skip
NEEDS = dict.fromkeys(TWO_CLASS_FIGURES, "two classes, and examples of both")
NEEDS |= dict.fromkeys(("label_issues", "suspect[CLASS]"), "labels that were checked")
NEEDS |= dict.fromkeys(CHANGES, "examples of the class in both runs")
NEEDS |= {"mean_cost": "costs", "precision[CLASS]": "examples that are predicted as the class"}


@dataclass(frozen=True)
class Condition:
    """What must not hold: a figure, perhaps of one class, above or below a number."""

    text: str
    figure: str  # one of FIGURES or CHANGES
    label: str | None
    sign: str
    limit: float


def parse_condition(text: str, has_baseline: bool) -> Condition:
    """'NAME > NUMBER' or 'NAME[CLASS] > NUMBER', with >, >=, < or <=; quotes around the class are optional."""
    match = CONDITION.fullmatch(text)
    if not match:
        form = f"write NAME > NUMBER or NAME[CLASS] > NUMBER, with {', '.join(COMPARE)}, as in 'ece > 10'"
        raise InputError(f"condition {text!r} cannot be read: {form}.")
    label = match["label"]
    figure = match["figure"] if label is None else f"{match['figure']}[CLASS]"
    if figure not in FIGURES + CHANGES:
        raise unknown("figure of a condition", figure, FIGURES + CHANGES)
    if figure in CHANGES and not has_baseline:
        advice = "give an earlier audit (--baseline, in Python earlier=)"
        raise InputError(f"condition {text!r} is about a change: {advice}.")
    return Condition(" ".join(text.split()), figure, label, match["sign"], float(match["limit"]))


def broken(conditions: Sequence[Condition], record: AuditRecord, changes: RunChanges | None = None) -> list[str]:
    """One sentence for each condition that holds, and so breaks the gate."""
    values = figures_of(record, changes)
    classes = [row.name for row in record.classes]
    lines = []
    for condition in conditions:
        if condition.label is not None and condition.label not in classes:
            raise InputError(f"condition {condition.text!r}: {unknown('class', condition.label, classes)}")
        name = condition.figure.replace("[CLASS]", f"[{condition.label}]")
        value = values.get(name)
        if value is None:
            needs = NEEDS.get(condition.figure, "examples of the class")
            raise InputError(f"condition {condition.text!r} cannot be judged: it needs {needs}.")
        if COMPARE[condition.sign](value, condition.limit):
            worst = f" ({record.figures.worst_class})" if name == "worst_class_error" else ""
            lines.append(f"{condition.text}: {name} is {decimal(value, 3).rstrip('0').rstrip('.')}{worst}.")
    return lines


def figures_of(record: AuditRecord, changes: RunChanges | None) -> dict[str, float | None]:
    """Every figure by its name, 'error[cat]' for one of a class; None where there is nothing to tell it from."""
    values = {figure: record.figures.value(figure) for figure in FIGURES if "[" not in figure}
    for row in record.classes:
        for figure in ("error", "precision", "ece", "suspect", "examples"):
            values[f"{figure}[{row.name}]"] = getattr(row, figure)
        values[f"error_low[{row.name}]"] = row.low if row.examples else None
    if changes:
        for change in changes.classes:
            values[f"change[{change.name}]"] = change.change
            values[f"change_low[{change.name}]"] = change.low
        ece_before, ece_after = changes.figures["ece"]
        values |= {
            "error_change": changes.error.change,
            "error_change_low": changes.error.low,
            "overall_error_change": changes.overall_error.change,
            "ece_change": ece_after - ece_before,
            "worse_classes": len(changes.worse),
            "better_classes": len(changes.better),
            "gone_classes": len(changes.gone),
        }
    return values
