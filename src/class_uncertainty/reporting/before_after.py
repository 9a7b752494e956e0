"""A change with its interval, in words."""

from class_uncertainty.posthoc.error_changes import ErrorChange
from class_uncertainty.text import decimal


def change_text(change: ErrorChange, unit: str = " points", digits: int = 1) -> str:
    """'-2.6 points (-7.1 to +2.0: not clear)'."""
    unclear = "" if change.is_clear else ": not clear"
    return f"{decimal(change.change, digits, '+')}{unit} ({interval_text(change, digits)}{unclear})"


def interval_text(change: ErrorChange, digits: int = 1) -> str:
    """'-7.1 to +2.0'."""
    return f"{decimal(change.low, digits, '+')} to {decimal(change.high, digits, '+')}"
