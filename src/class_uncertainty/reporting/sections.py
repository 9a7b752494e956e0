"""From the store to sections: one for each data set and recipe that results are stored of."""

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset, load
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import digest
from class_uncertainty.reporting.tables import ClassRow, Gallery, Picture, Section, class_rows, method_rows
from class_uncertainty.results import Known, Store
from class_uncertainty.training import Result

WORST, EACH = 3, 8  # classes in the gallery, pictures of each kind


def sections(store: Store, only: str | None = None, read: Callable[[str], Dataset] = load) -> list[Section]:
    """All that is stored, or only of the data set named `only`. `read` loads a data set again, for its pictures."""
    known = store.data()
    found = [section for data in known if only in (None, data.name) for section in _of_data(store, data, read)]
    if not found:
        names = ", ".join(data.name for data in known) or "nothing"
        raise InputError(f"store {store.path} has no results{f' of {only!r}' if only else ''}: it holds {names}.")
    return found


def _of_data(store: Store, data: Known, read: Callable[[str], Dataset]) -> list[Section]:
    results = [result for result in store.results(data.fingerprint) if result.fold is None]
    estimates = {estimate.results[0].recipe: estimate for estimate in store.estimates(data.fingerprint)}  # the last of each recipe
    recipes = list(dict.fromkeys(result.recipe for result in results))
    same_name = [other.fingerprint for other in store.data() if other.name == data.name]
    found = []
    for recipe in recipes:
        section = _section(data, [r for r in results if r.recipe == recipe], estimates.get(recipe), read)
        differences = [f" {data.fingerprint[:8]}"] if len(same_name) > 1 else []
        differences += [f" {field} {value}" for field, value in asdict(recipe).items() if any(getattr(r, field) != value for r in recipes)]
        found.append(replace(section, name=",".join([data.name, *differences])))
    return found


def _section(data: Known, results: list[Result], estimate: Estimate | None, read: Callable[[str], Dataset]) -> Section:
    measured_by = digest(estimate.raw) if estimate else ""
    shown = [result for result in results if result.uncertainty in ("", measured_by)]
    notes = [f"{len(results) - len(shown)} results used another estimate and are not shown."] if len(shown) < len(results) else []
    rows, galleries = [], []
    if estimate:
        rows = class_rows(data.classes, data.counts, estimate)
        try:
            dataset = read(data.name)
            if dataset.fingerprint == data.fingerprint:
                galleries = _galleries(dataset.train, estimate, rows)
            else:
                notes.append("The data have changed since they were measured, so no pictures are shown.")
        except InputError as error:
            notes.append(f"The data could not be read again, so no pictures are shown ({error}).")
    return Section(
        name=data.name,
        classes=tuple(rows),
        methods=tuple(method_rows(_compared(shown))),
        members=len(estimate.probabilities) if estimate else 0,
        galleries=tuple(galleries),
        note=" ".join(notes),
    )


def _compared(results: list[Result]) -> list[Result]:
    """Without the naive lanes that only served to measure: where methods are compared, naive keeps the seeds that they have."""
    seeds = {result.seed for result in results if result.method != "naive"}
    return [result for result in results if result.method != "naive" or not seeds or result.seed in seeds]


def _galleries(train: Data, estimate: Estimate, rows: list[ClassRow]) -> list[Gallery]:
    """The worst classes by error, or by uncertainty where no error is known."""
    if not train.is_images:
        return []
    badness = [row.uncertainty if row.error is None else row.error for row in rows]
    guesses = estimate.probabilities.mean(axis=0).argmax(axis=1)

    def pictures(indices: NDArray[np.int64]) -> tuple[Picture, ...]:
        return tuple(
            Picture(train.classes[train.labels[i]], train.classes[guesses[i]], float(estimate.uncertainty[i]), train.inputs[i])
            for i in indices
        )

    galleries = []
    for c in np.argsort(badness)[::-1][:WORST]:
        members = np.flatnonzero(train.labels == c)
        ordered = members[np.argsort(estimate.uncertainty[members], kind="stable")]
        half = min(EACH, len(ordered) // 2)  # no picture is shown as both
        galleries.append(Gallery(train.classes[c], pictures(ordered[::-1][:half]), pictures(ordered[:half])))
    return galleries
