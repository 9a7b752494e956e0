"""From the store to sections: one for each data set and recipe that results are stored of."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset, load
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import SCORES, digest
from class_uncertainty.measures.scores import mean_guess
from class_uncertainty.remedies.diagnosis import Mended
from class_uncertainty.reporting.tables import ClassRow, Gallery, Picture, Section, class_rows, duplicated, judged, method_rows
from class_uncertainty.results import Known, Store
from class_uncertainty.training import Recipe, Result
from class_uncertainty.training.keys import kind_of

WORST, EACH = 3, 8  # classes in the gallery, pictures of each kind


def sections(store: Store, only: str | None = None, read: Callable[[str], Dataset] = load) -> list[Section]:
    """All that is stored, what was written last first, or only of the data set named `only`. `read` loads it again, for its pictures."""
    known = store.data()
    if only is not None and only not in [data.name for data in known]:  # the same data may be stored under another name
        with suppress(InputError):
            fingerprint = read(only).fingerprint
            only = next((data.name for data in known if data.fingerprint == fingerprint), only)
    found, shown = list[Section](), list[str]()
    for data in reversed(known):
        if only in (None, data.name) and (some := _of_data(store, data, read)):
            again = shown.count(data.name)
            older = "" if not again else ", before the data changed" if again == 1 else f", {again} changes ago"
            found += [replace(section, name=section.name + older) for section in some]
            shown.append(data.name)
    if not known and store.networks:
        told = f"store {store.path} has lost the row that says which data its results are of"
        raise InputError(f"{told}: run the command that made them again, which trains nothing and restores it.")
    if not found:
        names = ", ".join(data.name for data in known) or "nothing"
        raise InputError(f"store {store.path} has no finished results{f' of {only!r}' if only else ''}; it knows of {names}.")
    return found


def _of_data(store: Store, data: Known, read: Callable[[str], Dataset]) -> list[Section]:
    """A section for each recipe and device: only what was trained alike is compared."""
    results = [result for result in store.results(data.fingerprint) if result.fold is None]
    estimates = store.estimates(data.fingerprint)
    mended = {each.kind: each for each in store.mended(data.fingerprint)}  # the last of each
    kinds = list(dict.fromkeys(_kind(result) for result in results))
    words = [asdict(recipe) | {"device": device} for recipe, device in kinds]
    found = []
    for kind, mine in zip(kinds, words, strict=True):
        section = _section(
            data,
            [result for result in results if _kind(result) == kind],
            [estimate for estimate in estimates if not estimate.results or _kind(estimate.results[0]) == kind],
            mended.get(kind_of(*kind)),
            read,
        )
        apart = [f"{field} {value}" for field, value in mine.items() if any(other[field] != value for other in words)]
        found.append(replace(section, name=", ".join([data.name, *apart])))
    return found


def _kind(result: Result) -> tuple[Recipe, str]:
    return result.recipe, result.device


def _section(
    data: Known, results: list[Result], estimates: list[Estimate], mended: Mended | None, read: Callable[[str], Dataset]
) -> Section:
    """With the estimate that was used last; if none was used with what mending chose on, an ensemble, or else what was stored last."""

    def last(fits: Callable[[Estimate], bool]) -> Estimate | None:
        return next((each for each in reversed(estimates) if fits(each)), None)

    def chosen_on(each: Estimate) -> bool:
        return mended is not None and each.estimator == "out-of-fold" and any(result.lr == mended.lr for result in each.results)

    estimate = _used(results, estimates) or last(chosen_on) or last(lambda each: each.estimator == "ensemble") or last(lambda _: True)
    measured_by = digest(estimate.raw) if estimate else ""
    shown = [result for result in results if result.uncertainty in ("", measured_by)]
    folds = max((result.folds for result in results), default=0)
    notes = [judged(folds)] if folds else []
    if len(shown) < len(results):
        notes.append(f"{len(results) - len(shown)} results used another estimate and are not shown.")
    rows, galleries = [], []
    if estimate:
        rows = class_rows(data.classes, data.counts, estimate)
        try:
            dataset = read(data.name)
            if dataset.fingerprint == data.fingerprint:
                galleries = _galleries(dataset.train, estimate, rows)
                notes += filter(None, [duplicated(dataset)])
            else:
                notes.append("The data have changed since they were measured, so no pictures are shown.")
        except InputError as error:
            notes.append(f"The data could not be read again, so no pictures are shown ({error}).")
    return Section(
        name=data.name,
        classes=tuple(rows),
        methods=tuple(method_rows(_compared(shown), estimate.cost if estimate else 0.0)),
        members=len(estimate.probabilities) if estimate else 0,
        galleries=tuple(galleries),
        note=" ".join(notes),
        mended=mended,
        **({"estimator": estimate.estimator, "score": estimate.score} if estimate else {}),
    )


def _used(results: list[Result], estimates: list[Estimate]) -> Estimate | None:
    """The estimate, read by the score, that the last result with uncertainties was trained with."""
    last = next((result.uncertainty for result in reversed(results) if result.uncertainty), None)
    if last is None:
        return None
    read = (each.using(score) for each in reversed(estimates) for score in dict.fromkeys((each.score, *SCORES, *each.own)))
    return next((each for each in read if digest(each.raw) == last), None)


def _compared(results: list[Result]) -> list[Result]:
    """Without the naive lanes that only served to measure: where methods are compared, naive keeps the seeds that they have."""
    seeds = {result.seed for result in results if result.method != "naive"}
    return [result for result in results if result.method != "naive" or not seeds or result.seed in seeds]


def _galleries(train: Data, estimate: Estimate, rows: list[ClassRow]) -> list[Gallery]:
    """The worst classes by error, or by uncertainty where no error is known."""
    if not train.is_images:
        return []
    badness = [row.uncertainty if row.error is None else row.error for row in rows]
    guesses = mean_guess(estimate.probabilities)

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
