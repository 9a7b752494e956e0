"""Conditions on an audit, as a CI job gives them: 'worst_class_error > 40', 'error[cat] > 30', 'worse_classes > 0'."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from class_uncertainty.errors import InputError, nearest, unknown
from class_uncertainty.posthoc.class_audit import AuditRecord
from class_uncertainty.posthoc.run_changes import RunChanges
from class_uncertainty.posthoc.two_classes import FIGURES as TWO_CLASS_FIGURES
from class_uncertainty.text import decimal, listed

CONDITION = re.compile(r"\s*(\w+)\s*(?:\[(.*)\])?\s*(>=|<=|>|<)\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*%?\s*", re.DOTALL)
COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
FIGURES = {  # name -> what it is; a value of AuditFigures
    "error": "class-mean error, %",
    "error_low": "lower end of its 95 % interval",
    "overall_error": "error over all examples, %",
    "overall_error_low": "lower end of its 95 % interval",
    "worst_class_error": "error of the worst class, %",
    "worst_tenth": "mean error of the worst tenth of the classes, %",
    "ece": "expected calibration error, %",
    "classwise_ece": "mean of the classes' ECE, %",
    "nll": "negative log-likelihood, nats",
    "label_issues": "labels that are more likely wrong than right",
    "examples": "examples that were judged",
}
NEED_TWO, NEED_COSTS = "it needs two classes, and examples of both", "it needs costs"
SPECIAL_FIGURES = {  # name -> what it is, and why there is none where it is None
    **{figure: (f"of two classes, {word} of the rarer one, %", NEED_TWO) for figure, word in TWO_CLASS_FIGURES.items()},
    "mean_cost": ("mean cost of an example, by given costs", NEED_COSTS),
}
CLASS_FIGURES = {  # NAME[CLASS] -> what it is, and the field of AuditedClass
    "error": ("error of the class, %", "error"),
    "error_low": ("lower end of its 95 % interval", "low"),
    "precision": ("precision of the class, %", "precision"),
    "ece": ("its classwise ECE, %", "ece"),
    "suspect": ("labels of the class that look wrong, %", "suspect"),
    "examples": ("examples of the class", "examples"),
    "change": ("change of its error against the baseline, points", ""),
    "change_low": ("lower end of that change's 95 % interval", ""),
}
CHANGES = {  # of the whole run, against --baseline
    "error_change": "change of the class-mean error, points",
    "error_change_low": "lower end of its 95 % interval",
    "overall_error_change": "change of the overall error, points",
    "ece_change": "change of the ECE, points",
    "worse_classes": "classes that clearly got worse",
    "better_classes": "classes that clearly got better",
    "gone_classes": "classes of the baseline that have no examples any more",
}
LISTED = 12  # classes in a refusal
BASELINE = "--baseline, in Python earlier="


@dataclass(frozen=True)
class Condition:
    """What must not hold: a figure, perhaps of one class, above or below a number."""

    text: str
    figure: str
    label: str | None
    sign: str
    limit: float

    @property
    def needs_baseline(self) -> bool:
        return self.figure in CHANGES or self.figure in ("change", "change_low")


def parse_condition(text: str) -> Condition:
    """'NAME > NUMBER' or 'NAME[CLASS] > NUMBER', with >, >=, < or <=; quotes around the class are optional."""
    match = CONDITION.fullmatch(text)
    if not match:
        form = f"write NAME > NUMBER or NAME[CLASS] > NUMBER, with {', '.join(COMPARE)}, as in 'ece > 10'"
        raise InputError(f"condition {text!r} cannot be read: {form}.")
    figure, label, sign, limit = match.groups()
    of_runs = {**FIGURES, **SPECIAL_FIGURES}
    allowed = {**of_runs, **CHANGES} if label is None else CLASS_FIGURES
    if figure not in allowed and figure in (CLASS_FIGURES if label is None else of_runs):
        form = f"{figure}[CLASS]" if label is None else figure
        raise InputError(f"condition {text!r}: {figure} is written {form}, as in '{form} {sign} {limit}'.")
    if figure not in allowed:
        name = figure if label is None else f"{figure}[CLASS]"
        of_classes = [f"{one}[CLASS]" for one in CLASS_FIGURES]
        raise unknown("figure of a condition", name, [*of_runs, *of_classes, *CHANGES])
    if label and len(label) > 1 and label[0] == label[-1] and label[0] in "'\"":
        label = label[1:-1]
    return Condition(" ".join(text.split()), figure, label, sign, float(limit))


def parse_conditions(texts: Sequence[str], has_baseline: bool) -> list[Condition]:
    """All of them; those about changes need a baseline."""
    conditions = [parse_condition(text) for text in texts]
    for condition in conditions:
        if condition.needs_baseline and not has_baseline:
            raise InputError(f"condition {condition.text!r} is about a change: give an earlier audit ({BASELINE}).")
    return conditions


def broken(conditions: Sequence[Condition], record: AuditRecord, changes: RunChanges | None = None) -> list[str]:
    """One sentence for each condition that holds, and so breaks the gate."""
    lines = []
    for condition in conditions:
        value = value_of(condition, record, changes)
        if COMPARE[condition.sign](value, condition.limit):
            name = condition.figure if condition.label is None else f"{condition.figure}[{condition.label}]"
            worst = f" ({record.figures.worst_class})" if condition.figure == "worst_class_error" else ""
            lines.append(f"{condition.text}: {name} is {decimal(value, 3).rstrip('0').rstrip('.')}{worst}.")
    return lines


def value_of(condition: Condition, record: AuditRecord, changes: RunChanges | None) -> float:
    """What a condition compares; a class that is not there, or has nothing to tell from, is refused by name."""
    if condition.label is not None:
        return _class_value(condition, condition.label, record, changes)
    if condition.figure in CHANGES:
        return _change_value(condition, changes)
    value = record.figures.value(condition.figure)
    if value is None:
        _, why = SPECIAL_FIGURES.get(condition.figure, ("", "labels were not checked"))
        raise InputError(f"condition {condition.text!r} cannot be judged: {why}.")
    return value


def _class_value(condition: Condition, label: str, record: AuditRecord, changes: RunChanges | None) -> float:
    rows = {row.name: row for row in record.classes}
    if label not in rows:
        hint = f"did you mean {near!r}? The" if (near := nearest(label, rows)) else "the"
        classes = listed(list(rows), LISTED)
        raise InputError(f"condition {condition.text!r} names the class {label!r}: {hint} classes are {classes}.")
    if condition.needs_baseline:
        by_name = {row.name: row for row in _given(condition, changes).classes}
        if label not in by_name:
            raise InputError(f"condition {condition.text!r} cannot be judged: {label!r} is not in both runs.")
        change = by_name[label]
        return change.low if condition.figure == "change_low" else change.change
    value = getattr(rows[label], CLASS_FIGURES[condition.figure][1])
    if value is None or (condition.figure == "error_low" and not rows[label].examples):
        reasons = {"suspect": "labels were not checked", "precision": f"class {label!r} is never predicted"}
        why = reasons.get(condition.figure, f"class {label!r} has no examples")
        raise InputError(f"condition {condition.text!r} cannot be judged: {why}.")
    return float(value)


def _change_value(condition: Condition, changes: RunChanges | None) -> float:
    given = _given(condition, changes)
    before, after = given.figures["ece"]
    return float(
        {
            "error_change": given.error.change,
            "error_change_low": given.error.low,
            "overall_error_change": given.overall_error.change,
            "ece_change": after - before,
            "worse_classes": len(given.worse),
            "better_classes": len(given.better),
            "gone_classes": len(given.gone),
        }[condition.figure]
    )


def _given(condition: Condition, changes: RunChanges | None) -> RunChanges:
    if changes is None:
        raise InputError(f"condition {condition.text!r} is about a change: give an earlier audit ({BASELINE}).")
    return changes
