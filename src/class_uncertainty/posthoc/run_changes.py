"""Run against run: what changed from an earlier audit, and whether other examples could have made it look so."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.io import check_record, from_document, near, parse_json, read_regular
from class_uncertainty.posthoc import intervals
from class_uncertainty.posthoc.class_audit import AuditedClass, AuditRecord
from class_uncertainty.posthoc.error_changes import ErrorChange, price
from class_uncertainty.posthoc.intervals import HANDFUL, LEVEL, level_of_all
from class_uncertainty.text import decimal, listed, read_faults

UNTESTED = {"ece": "ECE", "classwise_ece": "classwise ECE", "nll": "NLL"}  # figures without an interval of the change


@dataclass(frozen=True)
class ClassChange:
    """A class in both runs. Errors are in percent, the change in points with its 95 % interval.

    The ends `together` are those of intervals that hold for all judged classes at once.
    """

    name: str
    before: float
    after: float
    change: float
    low: float
    high: float
    low_together: float
    high_together: float
    examples: int  # of the later run

    @property
    def is_clear(self) -> bool:
        """Whether a judged class changes by more than chance, with all classes tested."""
        holds_zero = self.low_together <= 0 <= self.high_together
        return self.examples >= HANDFUL and not holds_zero


@dataclass(frozen=True)
class RunChanges:
    """What changed from an earlier audit to this one."""

    paired: bool  # whether both are of the same examples, as far as labels and names tell
    named: bool  # whether names tell
    error: ErrorChange  # of the class-mean error, over the classes of both runs
    overall_error: ErrorChange
    figures: dict[str, tuple[float, float]]  # before and after, of those without intervals
    classes: tuple[ClassChange, ...]  # in both runs, the one that got worse most first
    new: tuple[str, ...]  # classes of this run alone
    gone: tuple[str, ...]

    def __repr__(self) -> str:
        change = f"class-mean error {decimal(self.error.change, 1, '+')} points"
        clear = f"{len(self.worse)} clearly worse, {len(self.better)} clearly better"
        return f"RunChanges({len(self.classes):,} classes: {change}, {clear})"

    @property
    def worse(self) -> list[ClassChange]:
        """Classes that clearly got worse: with all classes tested, chance names any with 5 % at most."""
        return [row for row in self.classes if row.is_clear and row.change > 0]

    @property
    def better(self) -> list[ClassChange]:
        return [row for row in reversed(self.classes) if row.is_clear and row.change < 0]

    def document(self) -> dict[str, Any]:
        """What `cu audit --baseline` adds to the JSON document."""
        names = {"worse": [row.name for row in self.worse], "better": [row.name for row in self.better]}
        return asdict(self) | names


def read_record(path: Path) -> AuditRecord:
    """The record of an audit that `cu audit --save` or `--json` wrote."""
    if not path.exists():
        raise InputError(f"{path} does not exist{near(path)}: give the JSON file that 'cu audit --save' wrote.")
    if path.suffix.lower() in (".npz", ".csv", ".parquet"):
        audit = f"'cu audit {path} --save {path.stem}-audit.json' writes one"
        raise InputError(f"{path} is a file of predictions, and a baseline is an audit of them: {audit}.")
    with read_faults(path, "is no audit that 'cu audit --save' wrote"):
        document = parse_json(read_regular(path))
        if not isinstance(document, dict) or "audit" not in document:
            raise InputError(f"{path} is no audit that 'cu audit --save' wrote: it is other JSON.")
        if absent := [name for name in AuditRecord.__dataclass_fields__ if name not in document]:
            raise InputError(f"{path} lacks {listed(absent, 2)}, which audits of this version have: write it again.")
        fields = {name: document[name] for name in AuditRecord.__dataclass_fields__}
        try:
            record = from_document(AuditRecord, fields)
            check_record(record)
        except InputError as error:
            raise InputError(f"{path} is no audit that 'cu audit --save' wrote: {error}") from None
    return record


def run_changes(now: AuditRecord, earlier: AuditRecord) -> RunChanges:
    """Changes with intervals: paired where both audits are of the same examples, and otherwise of different ones."""
    before, after = ({row.name: row for row in side.classes if row.examples} for side in (earlier, now))
    names = [name for name in after if name in before]
    if not names:
        raise InputError("the two audits have no class with examples in common: nothing can be compared.")
    paired = now.fingerprint == earlier.fingerprint
    rows, old = ([side[name] for name in names] for side in (after, before))
    if paired:
        mean, overall, by_class, together = _paired(now, earlier)
    else:
        mean, overall, by_class, together = _unpaired(_counts(rows), _counts(old))
    changes = [
        ClassChange(
            row.name,
            one.error or 0.0,
            row.error or 0.0,
            **asdict(change),
            low_together=of_all.low,
            high_together=of_all.high,
            examples=row.examples,
        )
        for row, one, change, of_all in zip(rows, old, by_class, together, strict=True)
    ]
    figures = {name: (getattr(earlier.figures, name), getattr(now.figures, name)) for name in UNTESTED}
    new, gone = (tuple(name for name in one if name not in other) for one, other in ((after, before), (before, after)))
    rows_by_change = tuple(sorted(changes, key=lambda row: -row.change))
    return RunChanges(paired, now.named and earlier.named, mean, overall, figures, rows_by_change, new, gone)


Counts = tuple[NDArray[np.float64], NDArray[np.float64]]  # (C,) wrong examples, and examples
# of the mean, overall, of the classes, and of the classes with intervals that hold for all of them at once
Changes = tuple[ErrorChange, ErrorChange, Sequence[ErrorChange], Sequence[ErrorChange]]


def _paired(now: AuditRecord, earlier: AuditRecord) -> Changes:
    """Of the same examples; classes without any are left out."""
    labels, number = now.labels, len(now.classes)
    changes = price(earlier.outcomes, now.outcomes, labels, number)
    present = np.flatnonzero(changes.examples)
    by_class = [changes.classes[c] for c in present]
    return changes.mean, changes.overall, by_class, [changes.together[c] for c in present]


def _unpaired(rows: Counts, old: Counts) -> Changes:
    """Of different examples of the same classes."""
    errors, errors_before = (100 * wrong / examples for wrong, examples in (rows, old))

    def changes(level: float) -> list[ErrorChange]:
        low, high = intervals.difference_interval(*rows, *old, level)
        return [ErrorChange(*map(float, numbers)) for numbers in zip(errors - errors_before, low, high, strict=True)]

    mean = float(np.mean(errors - errors_before))
    reach = math.hypot(*(intervals.mean_reach(*side) for side in (rows, old)))
    sums = [float(values.sum()) for values in (*rows, *old)]
    overall = 100 * (sums[0] / sums[1] - sums[2] / sums[3])
    overall_low, overall_high = map(float, intervals.difference_interval(*sums))
    means = ErrorChange(mean, mean - reach, mean + reach), ErrorChange(overall, overall_low, overall_high)
    return *means, changes(LEVEL), changes(level_of_all(rows[1]))


def _counts(rows: Sequence[AuditedClass]) -> Counts:
    examples = np.array([row.examples for row in rows], dtype=np.float64)
    return np.rint(np.array([row.error for row in rows], dtype=np.float64) * examples / 100), examples
