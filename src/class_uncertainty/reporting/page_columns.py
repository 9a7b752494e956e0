"""The columns of the page's tables."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from class_uncertainty.reporting.ladder_view import MISSING, Cell, CellTable
from class_uncertainty.runs.rows import ClassRow, MethodRow, marked
from class_uncertainty.text import decimal


@dataclass(frozen=True)
class ReportColumn:
    """`heading` is trusted HTML, `key` the field to sort by, and `text` gives a row's cell."""

    heading: str
    key: str
    text: Callable[[Any], str]
    bar: bool = False  # whether the cell has a bar from the row's low to its high
    words: bool = False  # whether cells are words, not numbers

    def sort_value(self, row: Any) -> str:
        """What the page's script sorts by; "" for a missing value, which goes last."""
        value = getattr(row, self.key)
        return "" if _is_missing(value) else str(value)


@dataclass(frozen=True)
class CellColumn:
    """A column of a CellTable, with the interface of a ReportColumn."""

    heading: str
    key: str
    place: int
    words: bool

    def text(self, row: Sequence[Cell]) -> str:
        """With a true minus sign in numbers."""
        cell = row[self.place]
        return cell.text if isinstance(cell.order, str) else cell.text.replace("-", "−")

    def sort_value(self, row: Sequence[Cell]) -> str:
        order = row[self.place].order
        return "" if _is_missing(order) else str(order)


def cell_columns(table: CellTable) -> tuple[CellColumn, ...]:
    """The columns of a CellTable, whose headings are plain."""
    lines = [" ".join(heading.split()) for heading in table.columns]
    words = [all(isinstance(row[place].order, str) for row in table.rows) for place in range(len(lines))]
    headings = (escape(line[:1].upper() + line[1:]).replace(" %", "&nbsp;%") for line in lines)
    return tuple(CellColumn(heading, "cell", i, words[i]) for i, heading in enumerate(headings))


def mean_with_deviation(row: MethodRow) -> str:
    if _is_missing(row.error):
        return MISSING
    return f"{row.error:.2f}" if row.error_sd is None else f"{row.error:.2f} ± {row.error_sd:.2f}"


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _text(heading: str, key: str) -> ReportColumn:
    return ReportColumn(heading, key, lambda row: getattr(row, key), words=True)


def _number(heading: str, key: str, digits: int = 2, factor: float = 1, sign: bool = False) -> ReportColumn:
    """Numbers with a true minus sign, and a dash where there is none."""

    def text(row: Any) -> str:
        value = getattr(row, key)
        if _is_missing(value):
            return MISSING
        return decimal(factor * value, digits, "+" if sign else "").replace("-", "−")

    return ReportColumn(heading, key, text)


def _shortest(heading: str, key: str) -> ReportColumn:
    """Numbers with no more digits than they need."""
    return ReportColumn(heading, key, lambda row: f"{getattr(row, key):g}".replace("-", "−"))


def _disagreement(row: Any) -> str:
    return f"{row.disagreement:+g}".replace("-", "−") if row.disagreement else "0"


def _error_interval(row: ClassRow) -> str:
    return MISSING if row.low is None or row.high is None else f"{row.low:.0f} to {row.high:.0f}"


def _aso(row: MethodRow) -> str:
    return MISSING if row.aso is None else f"{row.aso:.2f} vs {row.aso_against}"


_CLASS, _COUNT = _text("Class", "name"), _number("Training examples", "count", 0)
CLASS_COLUMNS = (
    _CLASS,
    _COUNT,
    _number("Rarity, %", "cardinality", factor=100),
    _number("Effective rarity, %", "effective", factor=100),
    _number("Uncer&shy;tainty, %", "uncertainty", factor=100),
    _number("Mean uncer&shy;tainty", "raw", 3),
    _number("Disputed, %", "epistemic_share", 0, 100),
    _shortest("Rank by rarity", "rank_cardinality"),
    _shortest("Rank by effective rarity", "rank_effective"),
    _shortest("Rank by uncer&shy;tainty", "rank_uncertainty"),
    ReportColumn("Rank differ&shy;ence", "disagreement", _disagreement),
    _number("Error, %", "error", 1),
    ReportColumn("95&nbsp;% interval", "low", _error_interval),
    _number("Test examples", "examples", 0),
)
METHOD_COLUMNS = (
    ReportColumn("Method", "method", lambda row: marked(row.method, row.marks), words=True),
    _shortest("Learning rate", "lr"),
    ReportColumn("Class-mean error, %", "error", mean_with_deviation),
    _number("Gain", "gain", sign=True),
    _number("Overall error", "top1_error"),
    *(_number(key.capitalize(), key) for key in ("many", "medium", "few")),
    _number("Worst tenth", "worst"),
    _number("Spread", "spread"),
    _number("NLL", "nll", 3),
    _number("ECE", "ece"),
    ReportColumn("Trainings", "cost", lambda row: f"{row.cost:.3g}"),
    ReportColumn("ASO", "aso", _aso),
    *(_number(key.capitalize(), key, 0) for key in ("runs", "diverged")),
)
_BEFORE, _AFTER = _number("Before, %", "before", 1), _number("After, %", "after", 1)
_CHANGE = _number("Change", "change", 1, sign=True)
_P_LABEL, _P_GUESS = _number("p of the label, %", "p_label", 1, 100), _number("p of the guess, %", "p_guess", 1, 100)
_EXAMPLES = _number("Test examples", "examples", 0)
_INTERVAL = ReportColumn("95&nbsp;% interval", "before", lambda row: row.interval or MISSING)
_CHANGE_INTERVAL = ReportColumn(
    "95&nbsp;% interval", "change", lambda row: row.change_interval.replace("-", "−") or MISSING
)
_VERDICT = _text("What was wrong", "verdict")
CHANGE_COLUMNS = (_CLASS, _COUNT, _EXAMPLES, _BEFORE, _INTERVAL, _AFTER, _CHANGE, _CHANGE_INTERVAL, _VERDICT)
CONFUSION_COLUMNS = (_CLASS, _text("Predicted as", "predicted_as"), _BEFORE, _AFTER, _CHANGE)
LABEL_ISSUE_COLUMNS = (
    _text("Example", "name"),
    _text("Label", "label"),
    _P_LABEL,
    _text("Guess", "guess"),
    _P_GUESS,
    _number("Likely wrong, %", "p_wrong", 1, 100),
    _number("Votes", "votes", 0),
    _number("Nearest as labelled", "near_label", 0),
    _number("Nearest as guessed", "near_guess", 0),
)


def _range(row: Any) -> str:
    return MISSING if row.error is None else f"{row.low:.0f} to {row.high:.0f}"


def _taken_for(row: Any) -> str:
    return f"{row.taken_for} ({row.taken_share:.0f} %)" if row.taken_for else MISSING


def _signed_range(low: str, high: str) -> Callable[[Any], str]:
    def text(row: Any) -> str:
        bounds = (decimal(getattr(row, name), 1, "+").replace("-", "−") for name in (low, high))
        return MISSING if row.change is None else " to ".join(bounds)

    return text


_SHARE_INTERVAL = ReportColumn("95&nbsp;% interval", "low", lambda row: f"{row.low:.0f} to {row.high:.0f}")
AUDIT_COLUMNS = (
    _CLASS,
    _COUNT,
    _number("Examples", "examples", 0),
    ReportColumn("Error, %", "error", _number("", "error", 1).text, bar=True),
    ReportColumn("95&nbsp;% interval", "low", _range),
    _number("Precision, %", "precision", 1),
    _text("Verdict", "word"),
    _number("Uncer&shy;tainty, %", "uncertainty", 2, 100),
    _number("ECE, %", "ece", 2),
    ReportColumn("Taken for", "taken_share", _taken_for, words=True),
    _number("Adjusting", "change", 1, sign=True),
    ReportColumn("95&nbsp;% interval of adjusting", "change", _signed_range("change_low", "change_high")),
    _number("Suspect labels, %", "suspect", 1),
)
AUDIT_CONFUSION_COLUMNS = (
    _text("Class", "label"),
    _text("Predicted as", "prediction"),
    _number("Examples", "examples", 0),
    _number("Share, %", "share", 1),
    _SHARE_INTERVAL,
)
AUDIT_ISSUE_COLUMNS = (
    _text("Example", "name"),
    _text("Label", "label"),
    _text("Rather", "guess"),
    _number("Likely wrong, %", "p_wrong", 1, 100),
)
THRESHOLD_COLUMNS = (
    _number("Threshold", "probability", 3),
    _number("Precision, %", "precision", 1),
    _number("Recall, %", "recall", 1),
)
RUN_COLUMNS = (
    _CLASS,
    _number("Examples", "examples", 0),
    _BEFORE,
    _AFTER,
    _CHANGE,
    ReportColumn("95&nbsp;% interval", "change", _signed_range("low", "high")),
    _text("Clearly", "word"),
)
