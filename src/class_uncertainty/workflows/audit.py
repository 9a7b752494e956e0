"""cu.audit(): what out-of-sample predictions of any framework say of each class. No training."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, Tensorlike, check, take
from class_uncertainty.data.class_names import notice_twins
from class_uncertainty.data.examples import label_conflicts, row_digests
from class_uncertainty.data.readers.folder import IMAGE_SUFFIXES
from class_uncertainty.data.readers.npz import Loaded, channels_first, read_arrays
from class_uncertainty.errors import InputError, nearest
from class_uncertainty.io import near
from class_uncertainty.measures import Stats
from class_uncertainty.measures.uncertainty import check_labels
from class_uncertainty.metrics import check_prior
from class_uncertainty.posthoc.adjustment import check_judged
from class_uncertainty.posthoc.class_audit import (
    AuditedClass,
    AuditFigures,
    AuditRecord,
    Confusion,
    Judged,
    confusions,
    record,
)
from class_uncertainty.posthoc.diagnosis import BY_COST, KINDS, NAMED, UNJUDGED, WITHOUT_COSTS, verdict_summary
from class_uncertainty.posthoc.gate import broken, parse_condition
from class_uncertainty.posthoc.goal import check_costs, read_costs
from class_uncertainty.posthoc.noise_model import LabelNoise, label_noise
from class_uncertainty.posthoc.prediction_files import read_probabilities
from class_uncertainty.posthoc.run_changes import RunChanges, read_record, run_changes
from class_uncertainty.posthoc.written_predictions import COLUMN, LABEL, PredictionTable, read_written
from class_uncertainty.text import amount_of, html_lines, listed, printable, to_frame

NO_LABELS = "no example has a label: an audit needs true classes, such as `truth` of cu.predict."


def left_out_note(number: int) -> str:
    """How many examples an audit leaves out, in a sentence."""
    return f"{amount_of(number, 'example has no label and is', 'examples have no label and are')} not judged."


def labelled_only(labels: Any, **of_examples: Any) -> tuple[dict[str, Any], int]:
    """What is given of each example, for those with a label alone, and how many others there are.

    The label "" stands for none, as in `Predicted.truth`.
    """
    given = {"labels": labels} | {name: values for name, values in of_examples.items() if values is not None}
    if labels is None:
        raise InputError(NO_LABELS)
    names = np.array([]) if hasattr(labels, "detach") else np.asarray(labels)
    unlabelled = int((names == "").sum()) if names.dtype.kind in "UO" and names.ndim == 1 else 0
    if not unlabelled:
        return given, 0
    if unlabelled == len(names):
        raise InputError(NO_LABELS)
    for name, values in given.items():
        if (shape := np.shape(values))[:1] != names.shape:
            raise InputError(f"there are {len(names)} labels, and {name} have the shape {shape}: give as many.")
    rows = np.flatnonzero(names != "")
    given.setdefault("names", [f"no. {i}" for i in range(len(names))])  # their numbers stay
    return {name: _at(values, rows) for name, values in given.items()}, unlabelled


def _at(values: Any, rows: Any) -> Any:
    return values[rows] if hasattr(values, "detach") else np.asarray(values)[rows]


def numbered(labels: Any, classes: Sequence[str], named: bool) -> Any:
    """Names of classes as their places; numbers as they are."""
    if hasattr(labels, "detach") or np.asarray(labels).dtype.kind not in "UO":
        return labels
    texts = [printable(name) for name in np.asarray(labels).ravel().tolist()]
    if not named:
        example = f", as {texts[0]!r}" if texts else ""
        raise InputError(f"labels are names{example}: give classes, their names in the order of probabilities.")
    places = {name: place for place, name in enumerate(classes)}
    if absent := [name for name in texts if name not in places]:
        near = nearest(absent[0], places)
        hint = f" (did you mean {near!r}?)" if near else ""
        raise InputError(f"label {absent[0]!r}{hint} is no class: the classes are {listed(classes, 2 * NAMED)}.")
    return np.array([places[name] for name in texts]).reshape(np.shape(labels))


FORMAT = 1  # of the document
CHECKED = 2 * 10**7  # probabilities: with more, labels are not checked, which would take minutes
NO_ERRORS = "No example is wrong, as with in-sample predictions, or with predictions in the place of labels: "
NO_ERRORS += "give the true labels, and predictions of examples that the model was not trained on."
NO_COUNTS = "Training counts were not given: those of the labels stand in for them."

Images = NDArray[np.uint8] | tuple[Path, ...]  # (N, channels, H, W), or files


@dataclass(frozen=True, eq=False)
class Audit:
    """What `cu.audit` returns. Errors are in percent, on the examples that were given.

    Attributes
    ----------
    record : AuditRecord
        Figures and classes, with what another audit needs to be compared with this one.
    confusions : tuple of Confusion
        The most frequent ones of each class, the largest shares first.
    notes : tuple of str
        What limits the audit.
    labels, guesses, p_label, p_guess : arrays (N,)
        Of each example its class, the predicted one, and the probabilities of both.
    noise : LabelNoise or None
        How likely each label is to be wrong; None where labels were not checked.
    names : tuple of str or None
        Of the examples.
    images : array (N, channels, H, W), tuple of Path, or None
        For the page.
    by_cost : bool
        Whether the decisions were made by costs: verdicts are then of the most probable classes, and `summary` says so.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> audit = cu.audit([0, 0, 1, 1], p, classes=["cat", "dog"])
    >>> audit.figures.error, [row.error for row in audit.classes]
    (25.0, [0.0, 50.0])
    """

    record: AuditRecord
    confusions: tuple[Confusion, ...]
    notes: tuple[str, ...]
    labels: NDArray[np.int64]
    guesses: NDArray[np.int64]
    p_label: NDArray[np.float64]
    p_guess: NDArray[np.float64]
    noise: LabelNoise | None = None
    names: tuple[str, ...] | None = None
    images: Images | None = None
    by_cost: bool = False

    @property
    def figures(self) -> AuditFigures:
        """All classes together."""
        return self.record.figures

    @property
    def classes(self) -> tuple[AuditedClass, ...]:
        """One row a class."""
        return self.record.classes

    @property
    def without_costs(self) -> str:
        """What stands beside each verdict where decisions were made by costs."""
        return WITHOUT_COSTS if self.by_cost else ""

    @cached_property
    def verdicts(self) -> tuple[AuditedClass, ...]:
        """The classes that are clearly worse than the others, the worst first."""
        worse = [row for row in self.classes if row.kind and row.kind not in UNJUDGED]
        return tuple(sorted(worse, key=lambda row: -(row.error or 0.0)))

    @property
    def all_confusions(self) -> int:
        """How many pairs of classes are confused; `confusions` has the most frequent ones of each class."""
        wrong = self.labels != self.guesses
        return len(np.unique(self.labels[wrong] * len(self.classes) + self.guesses[wrong]))

    @property
    def worst_first(self) -> list[AuditedClass]:
        """The classes by their errors; those without examples last."""
        return sorted(self.classes, key=lambda row: -1.0 if row.error is None else row.error, reverse=True)

    @cached_property
    def label_conflicts(self) -> list[tuple[int, ...]]:
        """Of each picture under several labels, of which all but one are wrong, the first example of each label."""
        return [] if self.images is None else label_conflicts(_picture_digests(self.images), self.labels.tolist())

    @property
    def unjudged(self) -> list[str]:
        """A sentence for each kind of classes that nothing is known to be wrong with, but that something is said of."""
        judged = [row for row in self.classes if row.is_judged]
        names = {kind: [row.name for row in judged if row.kind == kind] for kind in UNJUDGED}
        return [f"{KINDS[kind].capitalize()}: {listed(of_kind, NAMED)}." for kind, of_kind in names.items() if of_kind]

    @property
    def summary(self) -> str:
        """The verdict in a sentence; before it, what it is of where that is not the decisions."""
        worse = [(row.name, KINDS[row.kind]) for row in self.verdicts]
        unjudged = sum(not row.is_judged for row in self.classes)
        verdict = verdict_summary(worse, len(self.classes), self.figures.error, unjudged)
        return f"{BY_COST} {verdict}" if self.by_cost else verdict

    def __repr__(self) -> str:
        return f"Audit({self.figures.examples:,} examples, {len(self.classes):,} classes: {self.summary})"

    def name_of(self, i: int) -> str:
        """The name of an example, or its number."""
        return f"no. {i}" if self.names is None else printable(self.names[i])

    def document(self) -> dict[str, Any]:
        """What `cu audit --json` prints, and `--baseline` reads."""
        issues = [] if self.noise is None else self.noise.ranked.tolist()
        return {
            "audit": FORMAT,
            **asdict(self.record),
            "summary": self.summary,
            "confusions": [asdict(row) for row in self.confusions],
            "all_confusions": self.all_confusions,
            "label_issues": [self._issue(i) for i in issues],
            "label_conflicts": [self._conflict(places) for places in self.label_conflicts],
            "notes": list(self.notes),
        }

    def _issue(self, i: int) -> dict[str, Any]:
        assert self.noise is not None
        label, guess = (self.classes[c[i]].name for c in (self.labels, self.noise.guesses))
        numbers = {"index": i, "name": self.name_of(i), "label": label, "guess": guess}
        return numbers | {"p_wrong": float(self.noise.p_wrong[i])}

    def _conflict(self, places: tuple[int, ...]) -> dict[str, Any]:
        labels = [self.classes[self.labels[i]].name for i in places]
        return {"indices": list(places), "names": [self.name_of(i) for i in places], "labels": labels}

    def against(self, earlier: "Audit | str | Path") -> RunChanges:
        """What changed since an earlier audit, or its JSON file; paired where both are of the same examples."""
        check(Audit | Path, earlier=earlier)
        return run_changes(self.record, earlier.record if isinstance(earlier, Audit) else read_record(Path(earlier)))

    def broken(self, conditions: Sequence[str], earlier: "Audit | str | Path | None" = None) -> list[str]:
        """A sentence for each condition that holds, as `cu audit --fail-if` takes them: 'error[cat] > 30'."""
        conditions = take(list[str], conditions=conditions)
        parsed = [parse_condition(condition, has_baseline=earlier is not None) for condition in conditions]
        return broken(parsed, self.record, None if earlier is None else self.against(earlier))

    def to_frame(self) -> Any:
        """The classes as a DataFrame of pandas, one row a class."""
        return to_frame([asdict(row) for row in self.classes])

    def _repr_html_(self) -> str:
        return html_lines("audit_view.audit_lines", self)


def audit(
    labels: Tensorlike | None,
    probabilities: Tensorlike,
    classes: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    images: Sequence[str | Path] | Tensorlike | None = None,
    counts: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    decisions: Tensorlike | None = None,
    costs: ArrayLike | None = None,
    by_cost: bool = False,
    made_for: ArrayLike | None = None,
) -> Audit:
    """Show which classes predictions of any framework fail on, and why. Nothing is trained.

    Parameters
    ----------
    labels : array (N,)
        The true classes: whole numbers from 0 to C - 1, or names. What `cu.predict` returned has them as `truth`.
        Examples with the name "" have no label and are left out.
    probabilities : array (N, C)
        Of examples that the model was not trained on: of a test split, or out-of-fold.
    classes : list of str, optional
        Names, in the order of the columns of `probabilities`, by default those that a DataFrame has; needed where
        labels are names.
    names : list of str, optional
        Of the examples: files, or ids.
    images : array or list of paths, optional
        Pictures of the examples for the page: uint8 (N, H, W), (N, H, W, channels) or (N, channels, H, W), or files.
    counts : array (C,), optional
        Training examples of each class; by default those of the labels, as for out-of-fold predictions.
    prior : array (C,), optional
        How frequent the classes are where the model is used: ECE and NLL are under it, and the figures say what
        adjusting for it would change. Verdicts do not depend on it. By default ECE and NLL weigh all examples
        alike.
    decisions : array (N,), optional
        The predicted classes, as labels are given; by default the most probable ones. Errors, confusions, verdicts and
        what adjusting would change are of them; uncertainty and NLL are of the probabilities alone.
    costs : array (C, C), optional
        What it costs to predict the class of the column for an example of the class of the row. The figures then have
        the mean cost of the decisions.
    by_cost : bool
        Whether decisions were made by costs, not for the fewest errors: verdicts are then of the most probable classes.
    made_for : array (C,), optional
        The class frequencies that the probabilities hold for, such as `prior` of what `cu.predict` returned; ECE and
        NLL then weigh classes by it. By default they weigh all examples alike.

    Returns
    -------
    Audit

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], [900, 100])
    >>> p = np.clip(0.7 - 0.3 * (labels == 1) + 0.2 * rng.random(1000), 0, 1)  # leans to what is frequent
    >>> audit = cu.audit(labels, np.stack([p, 1 - p], axis=1), classes=["common", "rare"])
    >>> [(row.name, row.kind) for row in audit.verdicts]
    [('rare', 'imbalance')]
    """
    check(Tensorlike | None, labels=labels, decisions=decisions)
    check(Tensorlike, probabilities=probabilities)
    classes = take(list[str] | None, classes=classes)
    names = take(list[str] | None, names=names)
    check(list[Path] | Tensorlike | None, images=images)
    check(Array | None, counts=counts, prior=prior, costs=costs, made_for=made_for)
    check(bool, by_cost=by_cost)
    columns = list(getattr(probabilities, "columns", ()))
    if classes is None and columns and all(isinstance(name, str) for name in columns):
        classes = columns
    of_examples, unlabelled = labelled_only(
        labels, probabilities=probabilities, names=names, images=images, decisions=decisions
    )
    if unlabelled:
        of_classes: dict[str, Any] = {
            "classes": classes,
            "counts": counts,
            "prior": prior,
            "costs": costs,
            "made_for": made_for,
        }
        audited = audit(**of_examples, **of_classes, by_cost=by_cost)
        return replace(audited, notes=(left_out_note(unlabelled), *audited.notes))
    shape = tuple(getattr(probabilities, "shape", np.shape(probabilities)))
    if len(shape) == 1:
        advice = "give them of every class, (examples, classes), and predicted classes as decisions"
        raise InputError(f"probabilities have the shape {shape}, as labels have: {advice}.")
    number = shape[1] if len(shape) == 2 else 0
    class_names = _class_names(classes, number)
    notice_twins(class_names)
    p, numbers = check_judged(probabilities, numbered(labels, class_names, classes is not None))
    example_counts = np.bincount(numbers, minlength=number)
    training_counts = np.maximum(example_counts, 1) if counts is None else _counts(counts, number)
    checked_prior = None if prior is None else check_prior(prior, number)
    example_names = None if names is None else tuple(map(str, names))
    if example_names is not None and len(example_names) != len(p):
        raise InputError(f"there are {len(example_names)} names and {len(p)} examples: give one an example.")
    pictures = _pictures(images, len(p))
    noise = label_noise(p, numbers) if p.size <= CHECKED else None
    decided = None if decisions is None else _decided(decisions, p.shape, class_names, classes is not None)
    checked_costs = None if costs is None else check_costs(costs, number, class_names)
    checked_made_for = None if made_for is None else check_prior(made_for, number)
    judged = Judged(
        p,
        numbers,
        class_names,
        training_counts,
        checked_prior,
        noise,
        decided,
        checked_costs,
        by_cost,
        checked_made_for,
    )
    of_all, outcomes = record(judged, example_names), judged.outcomes
    if counts is None:  # training counts stand in as 1 where there are none
        of_all = replace(of_all, classes=tuple(replace(row, count=row.examples) for row in of_all.classes))
    return Audit(
        record=of_all,
        confusions=tuple(confusions(judged.decided, numbers, class_names)),
        notes=tuple(_notes(judged, example_counts, counts is not None, bool((outcomes.guesses != numbers).any()))),
        labels=numbers,
        guesses=outcomes.guesses,
        p_label=outcomes.p_label,
        p_guess=outcomes.p_guess,
        noise=noise,
        names=example_names,
        images=pictures,
        by_cost=by_cost,
    )


def _decided(decisions: Any, shape: tuple[int, ...], classes: Sequence[str], named: bool) -> NDArray[np.int64]:
    """(N,) places of classes."""
    try:
        return check_labels(numbered(decisions, classes, named), *shape)
    except InputError as error:
        raise InputError(f"decisions cannot be taken: {error}") from None


def _counts(counts: ArrayLike, number: int) -> NDArray:
    """(C,) whole numbers where they are."""
    given = Stats(counts).counts
    if len(given) != number:
        raise InputError(f"counts are of {len(given)} classes, and probabilities of {number}: give one a class.")
    whole = (given == np.rint(given)).all() and given.max() < 2**53
    return given.astype(np.int64) if whole else given


def _class_names(classes: Sequence[str] | None, number: int) -> list[str]:
    if classes is None:
        return [str(c) for c in range(number)]
    names = [printable(name) for name in classes]
    if number and len(names) != number:
        raise InputError(f"there are {len(names)} classes, and probabilities of {number}: give a name for each column.")
    if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
        raise InputError(f"class {repeated[0]!r} is given twice: each name must be there once.")
    return names


def _pictures(images: Any, examples: int) -> Images | None:
    """Pixels as (N, channels, H, W), or paths of files that exist."""
    if images is None:
        return None
    number = len(images) if np.ndim(images) else 0
    if number != examples:
        raise InputError(f"there are {number} images and {examples} examples: give one an example.")
    if all(isinstance(image, str | Path) for image in images):
        paths = tuple(map(Path, images))
        if missing := next((path for path in paths if not path.is_file()), None):
            raise InputError(f"image {missing} is not there: give paths from this folder, or whole ones.")
        return paths
    pixels = np.asarray(images.detach().cpu() if hasattr(images, "detach") else images)
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        given = f"have shape {pixels.shape} and type {pixels.dtype}"
        raise InputError(f"images {given}: give paths, or uint8 (N, H, W), (N, H, W, channels) or (N, channels, H, W).")
    return channels_first("images", pixels)


def _picture_digests(images: Images) -> list[bytes]:
    """A hash of each picture's pixels or, where pictures are files, of the bytes of the file."""
    if isinstance(images, tuple):
        return [hashlib.blake2b(path.read_bytes(), digest_size=16).digest() for path in images]
    return [digest.tobytes() for digest in row_digests(images)]


def _notes(judged: Judged, examples: NDArray[np.int64], counted: bool, has_errors: bool) -> list[str]:
    """What limits the audit."""
    notes = [] if has_errors else [NO_ERRORS]
    if not counted:
        notes.append(NO_COUNTS)
    if absent := [judged.classes[c] for c in np.flatnonzero(examples == 0).tolist()]:
        means = f"means are over {len(examples) - len(absent):,} of {len(examples):,} classes"
        notes.append(f"Without examples, and so without a verdict: {listed(absent, NAMED)}; {means}.")
    if judged.noise is None:
        notes.append(f"Labels were not checked: there are more than {CHECKED:,} probabilities.")
    return notes


ARRAYS = ("probabilities", "logits", "labels", "classes", "names", "images", "counts", "prior", "decisions", "costs")
ENDINGS = (".npz", ".csv", ".parquet")
IMAGE = "image"  # the column of a table that holds paths of pictures


def audit_file(path: Path, **given: Any) -> Audit:
    """The audit of a file; what is given, such as counts, stands in the place of what the file has.

    A .npz file has the arrays probabilities (or logits) and labels, and perhaps classes, names, images, counts,
    prior, decisions and costs. A .csv or .parquet file has a line for each example: columns label and p(CLASS), and
    perhaps example, image and class, the decision. Costs may be a CSV file.
    """
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            f"{path} has no known ending: predictions are in a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file."
        )
    if not path.exists():
        raise InputError(f"{path} does not exist{near(path)}: give a file of predictions with labels.")
    arguments, notes = (_from_arrays(path), []) if path.suffix.lower() == ".npz" else _from_table(path)
    arguments["by_cost"] = "costs" in arguments and "decisions" in arguments  # of the file: what the model decided by
    arguments |= {name: value for name, value in given.items() if value is not None}
    if isinstance(costs := arguments.get("costs"), Path):
        number = np.shape(arguments["probabilities"])[-1]
        arguments["costs"] = read_costs(costs, arguments.get("classes") or [str(c) for c in range(number)])
    try:
        audited = audit(**arguments)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return replace(audited, notes=(*notes, *audited.notes))


def _from_arrays(path: Path) -> dict[str, Any]:
    arrays = read_arrays(path, lambda loaded: _named(path, loaded))
    if "labels" not in arrays:
        advice = f"save them with np.savez({path.name!r}, probabilities=p, labels=y)"
        raise InputError(f"{path} has no array called labels: {advice}.")
    arguments: dict[str, Any] = {"labels": arrays["labels"], "probabilities": read_probabilities(path, arrays)}
    for name in ("classes", "names"):
        if name in arrays:
            arguments[name] = [str(value) for value in arrays[name].ravel().tolist()]
    others = ("images", "counts", "prior", "decisions", "costs")
    return arguments | {name: arrays[name] for name in others if name in arrays}


def _named(path: Path, loaded: Loaded) -> dict[str, NDArray]:
    if not isinstance(loaded, NpzFile):
        raise InputError(f"{path} holds one array without a name: an audit needs probabilities and labels.")
    return {name: loaded[name] for name in ARRAYS if name in loaded.files}


def _from_table(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The arguments, and what is not judged."""
    table, predictions = read_written(path)
    if predictions.labels is None:
        raise _no_labels(path, table)
    rows = np.flatnonzero(predictions.labels >= 0)
    arguments: dict[str, Any] = {
        "labels": predictions.labels[rows],
        "probabilities": predictions.probabilities[rows],
        "classes": list(table.classes),
        "names": [table.names[i] for i in rows.tolist()],
        "images": _image_paths(path.parent, table, rows),
    }
    notes, other = (
        list(table.notes),
        int((predictions.decisions != predictions.probabilities.argmax(axis=1))[rows].sum()),
    )
    if len(rows) < len(predictions.labels):
        notes.append(left_out_note(len(predictions.labels) - len(rows)))
    if other:
        arguments["decisions"] = predictions.decisions[rows]
        few = amount_of(other, "example has a more probable class", "examples have a more probable class")
        decided = f"Errors are of the decisions in the column class: {few}, by the probabilities"
        notes.insert(0, f"{decided}. Uncertainty and NLL describe the probabilities, ECE those of the decided classes.")
    known = {"counts": predictions.counts, "costs": predictions.costs, "made_for": predictions.prior}
    return arguments | {name: values for name, values in known.items() if values is not None}, notes


def _no_labels(path: Path, table: PredictionTable) -> InputError:
    """What the file has in place of the column label."""
    if LABEL in table.columns:
        return InputError(f"{path} has an empty column label: an audit needs the class of each example.")
    close = nearest(LABEL, [name for name in table.columns if not COLUMN.fullmatch(name)])
    hint = f" Rename {printable(close)!r} if it is that." if close else ""
    return InputError(f"{path} has no column label, and an audit needs it: it has {listed(table.columns, 8)}.{hint}")


def _image_paths(folder: Path, table: PredictionTable, rows: NDArray[np.int64]) -> list[Path] | None:
    """The column image, or names that are all image files: from this folder, or from the file's."""
    column = table.kept.get(IMAGE, table.names)
    named = [Path(column[i]) for i in rows.tolist()]
    if IMAGE not in table.kept and not all(name.suffix.lower() in IMAGE_SUFFIXES for name in named):
        return None
    for base in (Path(), folder):
        if all((base / name).is_file() for name in named):
            return [base / name for name in named]
    return [folder / name for name in named] if IMAGE in table.kept else None
