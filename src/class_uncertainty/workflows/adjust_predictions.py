"""cu.adjust_predictions(): saved predictions of a model of any framework, corrected for unequal class counts."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, check
from class_uncertainty.errors import InputError, notice
from class_uncertainty.io import check_replaceable, origin, same_file, signed_archive, write_whole
from class_uncertainty.metrics import Scores, decide
from class_uncertainty.posthoc.adjustment import Adjustment, check_tau
from class_uncertainty.posthoc.calibration import fit_adjustment
from class_uncertainty.posthoc.prediction_files import Predictions, read_predictions
from class_uncertainty.posthoc.priors import GIVEN, Prior, find_prior
from class_uncertainty.posthoc.written_predictions import (
    PredictionTable,
    check_places,
    files_read,
    read_written,
    write_predictions,
)
from class_uncertainty.text import amount_of
from class_uncertainty.workflows.predict import LEAST_COST, MOST_PROBABLE, GivenLabels


@dataclass(frozen=True, eq=False)
class AdjustedPredictions:
    """What `cu.adjust_predictions` returns.

    Attributes
    ----------
    probabilities : array (N, C)
        The adjusted probabilities.
    adjustment : Adjustment
        What was chosen: tau, bias and temperature, for a prior.
    changed : int
        Predictions whose class has changed.
    before, after : Scores or None
        How good the predictions with labels are, or the unseen ones where none has any: before by the column `class` of
        a .csv file, or by the most probable classes, after by the classes that follow from the adjusted probabilities.
    judged_on : Path or None
        The file that `before` and `after` are of.
    absent : tuple of int
        Classes without unseen examples, which the choice ignores.
    unseen : int
        Number of unseen examples used to choose.
    has_class_bias : bool
        Whether a bias beyond tau log N was fitted.
    file : Path or None
        The file that was written.
    files : tuple of Path
        That, and the JSON file beside a .csv file.
    rule : str
        How a class follows from its probabilities.

    Examples
    --------
    >>> np.save("p.npy", np.array([[0.6, 0.4], [0.9, 0.1]]))
    >>> cu.adjust_predictions("p.npy", counts=[90, 10]).probabilities.argmax(axis=1)
    array([1, 0])
    """

    probabilities: NDArray
    adjustment: Adjustment
    changed: int
    before: Scores | None
    after: Scores | None
    judged_on: Path | None
    absent: tuple[int, ...]
    unseen: int
    has_class_bias: bool
    file: Path | None
    files: tuple[Path, ...] = ()
    rule: str = MOST_PROBABLE

    def __repr__(self) -> str:
        changed = amount_of(self.changed, "prediction changes", "predictions change")
        return f"AdjustedPredictions({len(self.probabilities):,} examples: {changed}, {self.adjustment!r})"

    def document(self) -> dict[str, Any]:
        """What `cu adjust --json` prints."""
        fitted = {name: np.asarray(value).tolist() for name, value in asdict(self.adjustment).items()}
        return {
            "file": str(self.file) if self.file else None,
            "examples": len(self.probabilities),
            "changed": self.changed,
            "rule": self.rule,
            "judged on": str(self.judged_on) if self.judged_on else None,
            **fitted,
            "before": asdict(self.before) if self.before else None,
            "after": asdict(self.after) if self.after else None,
        }


def adjust_predictions(
    predictions: str | Path,
    counts: ArrayLike | None = None,
    *,
    unseen: str | Path | None = None,
    tau: float | Literal["auto"] | None = None,
    bias: bool = False,
    prior: Prior = "equal",
    out: str | Path | None = None,
    excel_safe: bool = False,
    force: bool = False,
) -> AdjustedPredictions:
    """Correct saved predictions for unequal class counts: p_c / N_c ** tau, renormalised.

    Parameters
    ----------
    predictions : path
        A .npz file with probabilities or logits and perhaps labels and counts, a .npy file of probabilities, or a .csv
        file that `cu predict` wrote. Members (T, N, C) are averaged geometrically.
    counts : array (C,), optional
        Training examples of each class; by default the array `counts` of a file, or what `cu predict` wrote beside it.
    unseen : path, optional
        Predictions with labels, of examples that the model was not trained on: what is chosen is chosen on these.
    tau : float or "auto", optional
        How far to correct; by default "auto" with `unseen`, and 1 without.
    bias : bool
        Whether to fit one number a class around tau log N; needs `unseen`.
    prior : array (C,), "equal" or "train"
        How frequent the classes are where the model is used.
    out : path, optional
        A .npz file to write; for predictions in a .csv file also a .csv file, with the same columns.
    excel_safe : bool
        Whether to put an apostrophe before text in a .csv file that a spreadsheet takes for a formula.
    force : bool
        Whether to replace predictions of other files or options at this path.

    Returns
    -------
    AdjustedPredictions

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "test.npz"
    >>> np.savez(file, probabilities=[[0.6, 0.4], [0.9, 0.1]], labels=[1, 0])
    >>> adjusted = cu.adjust_predictions(file, counts=[90, 10])
    >>> adjusted.changed, adjusted.before.error, adjusted.after.error
    (1, 50.0, 0.0)
    """
    check(Path, predictions=predictions)
    check(Array | None, counts=counts)
    check(Path | None, unseen=unseen, out=out)
    if tau is not None:
        check_tau(tau, or_auto=True)
    check(bool, bias=bias, excel_safe=excel_safe)
    check(str | Array, prior=prior)
    source, other_source = Path(predictions), Path(unseen) if unseen else None
    target = Path(out) if out else None
    _check_places(source, other_source, target)
    if excel_safe and (target is None or target.suffix != ".csv"):
        raise InputError("excel_safe is for predictions that are written as .csv: leave it out.")
    made_from = adjusted_from(source, counts, other_source, tau, bias, prior, excel_safe)
    if target:
        check_target(target, made_from, force, files_read(source, other_source))
    if other_source is None and (bias or tau == "auto"):
        option = "a bias" if bias else "tau 'auto'"
        need = "give unseen, a .npz file with probabilities and labels"
        raise InputError(f"{option} needs examples that the model has not seen: {need}.")
    (table, given), other = _read(source), _read(other_source)[1] if other_source else None
    class_counts = _counts(counts, given, other)
    fitted_prior = find_prior(prior, class_counts)
    if other is None:
        adjustment = Adjustment.of(class_counts, 1.0 if tau is None or tau == "auto" else tau, fitted_prior)
    elif other.labels is None:
        raise InputError(f"{unseen} has no array called labels: nothing can be chosen on examples without them.")
    else:
        rows, strength = other.labels >= 0, "auto" if tau is None else tau
        p, labels = other.for_training[rows], other.labels[rows]
        adjustment = fit_adjustment(p, labels, class_counts, tau=strength, prior=fitted_prior, bias=bias)
    adjusted = adjustment(given.for_training)
    decisions = decide(adjusted, given.costs)
    judged, judged_on = (given, source) if given.labels is not None else (other, other_source)
    before, after = _before_after(judged, adjustment, class_counts)
    files: tuple[Path, ...] = ()
    if target and table and target.suffix == ".csv":
        rewritten, about = _rewritten(table, given, adjusted, adjustment.prior, class_counts)
        files = tuple(write_predictions(target, rewritten, about, excel_safe, made_from))
    elif target:
        write_whole(target, signed_archive(_packed(adjusted, given.labels, adjustment), made_from))
        files = (target,)
    labels_seen = [] if other is None or other.labels is None else [c for c in other.labels.tolist() if c >= 0]
    return AdjustedPredictions(
        probabilities=adjusted,
        adjustment=adjustment,
        changed=int((decisions != given.decisions).sum()),
        before=before,
        after=after,
        judged_on=judged_on,
        absent=tuple(sorted(set(range(len(class_counts))) - set(labels_seen))) if other else (),
        unseen=len(labels_seen),
        has_class_bias=bool((adjustment.bias != Adjustment.of(class_counts, adjustment.tau).bias).any()),
        file=target,
        files=files,
        rule=MOST_PROBABLE if given.costs is None else LEAST_COST,
    )


def adjusted_from(source: Path, counts: ArrayLike | None, unseen: Path | None, *options: object) -> str:
    """The origin of adjusted predictions: their file, and how they are adjusted."""
    given = None if counts is None else np.asarray(counts).tolist()
    return origin(source, source.resolve(), given, unseen and unseen.resolve(), *options)


def check_target(target: Path, made_from: str, force: bool = False, read: Iterable[object] = ()) -> None:
    """Refuse to replace other predictions than these."""
    check_path = check_places if target.suffix == ".csv" else check_replaceable
    check_path(target, made_from, force, read=read)


def _read(path: Path) -> tuple[PredictionTable | None, Predictions]:
    """The predictions and, of a .csv file, all its columns."""
    if path.suffix.lower() != ".csv":
        return None, read_predictions(path)
    table, predictions = read_written(path)
    for note in table.notes:
        notice(f"{path}: {note}")
    return table, predictions


def _rewritten(
    table: PredictionTable, given: Predictions, adjusted: NDArray, prior: NDArray, counts: NDArray
) -> tuple[PredictionTable, dict[str, Any]]:
    """The same columns with other probabilities and the classes that follow from them, and what they stand for."""
    labels = [table.classes[c] for c in decide(adjusted, given.costs)]
    rule = MOST_PROBABLE if given.costs is None else LEAST_COST
    about = {
        "classes": list(table.classes),
        "counts": counts.tolist(),
        "prior": prior.tolist(),
        "rule": rule,
        "costs": None if given.costs is None else given.costs.tolist(),
        "meaning": [f"The class is {rule}, for {GIVEN}."],
    }
    costs = None if given.costs is None else (adjusted @ given.costs).min(axis=1)
    return replace(table, probabilities=adjusted, labels=labels, costs=costs), about


def _check_places(source: Path, unseen: Path | None, target: Path | None) -> None:
    """Nothing is judged by what it was chosen on, and the name says the format."""
    if unseen and same_file(source, unseen):
        raise InputError(
            f"unseen is {unseen}, the predictions themselves: nothing may be chosen on what it is judged by."
        )
    allowed = (".npz", ".csv") if source.suffix.lower() == ".csv" else (".npz",)
    if target and target.suffix not in allowed:
        raise InputError(f"out is {target}: its name must end in {' or '.join(allowed)}.")


def _counts(counts: ArrayLike | None, given: Predictions, other: Predictions | None) -> NDArray:
    """As given, or from the first file that has them."""
    if counts is not None:
        return np.asarray(counts)
    file_counts = next((file.counts for file in (given, other) if file is not None and file.counts is not None), None)
    if file_counts is None:
        raise InputError("the number of training examples of each class is not known: give counts, as in 500,60,7.")
    return file_counts


def _before_after(
    judged: Predictions | None, adjustment: Adjustment, counts: NDArray
) -> tuple[Scores | None, Scores | None]:
    if judged is None or judged.labels is None:
        return None, None
    p, truth = judged.for_training, GivenLabels(judged.labels, "labels", ())  # by class alone
    q = adjustment(p)
    before = truth.scores(p, judged.decisions, counts, adjustment.prior)
    return before, truth.scores(q, decide(q, judged.costs), counts, adjustment.prior)


def _packed(adjusted: NDArray, labels: NDArray | None, adjustment: Adjustment) -> bytes:
    """A .npz file that reads like the predictions, with what was chosen in it."""
    arrays: dict[str, Any] = {"tau": adjustment.tau, "temperature": adjustment.temperature}
    arrays |= {"bias": adjustment.bias, "prior": adjustment.prior, "probabilities": adjusted}
    arrays |= {} if labels is None or (labels < 0).any() else {"labels": labels}
    np.savez(packed := BytesIO(), **arrays)
    return packed.getvalue()
