"""From the store to sections: one for each data set and recipe with stored results."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset, load
from class_uncertainty.data.sources import shape_of
from class_uncertainty.data.spec import argument_of
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import SCORES, digest
from class_uncertainty.measures.uncertainty import mean_guess
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.chosen_rates import chosen_rates
from class_uncertainty.reporting.report_examples import report_examples
from class_uncertainty.reporting.section import (
    Gallery,
    GalleryImage,
    Section,
    describe_findings,
    describe_folds,
    describe_groups,
    describe_marks,
    kept_size,
)
from class_uncertainty.runs import Store, StoredDataset
from class_uncertainty.runs.comparison import chosen_where
from class_uncertainty.runs.measurement import Measurement, class_vector
from class_uncertainty.runs.rows import ClassRow, class_rows, method_rows
from class_uncertainty.training import Recipe, Result
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.keys import kind_of
from class_uncertainty.training.network_size import NetworkSize

WORST_CLASSES, IMAGES = 3, 8  # of the gallery: classes, and images of each kind

Read = Callable[[str], Dataset]


def sections(store: Store, only: str | None = None, read: Read = load, estimator: str | None = None) -> list[Section]:
    """Everything that is stored, the newest data first, or only the data set named `only`.

    `read` loads the data again for its images. Where estimates by `estimator` are stored, one of them is shown.
    """
    stored = store.data()
    if not stored and store.networks:
        advice = "run the command that made them again, which trains nothing"
        raise InputError(f"store {store.path} has lost the row that names the data of its results: {advice}.")
    names = [data.name for data in stored]
    if only is not None and only not in names:  # the same data may be stored under another name
        of_path = [name for name in dict.fromkeys(names) if argument_of(name) == only.rstrip(os.sep)]
        if len(of_path) == 1:
            only = of_path[0]
        else:
            with suppress(InputError):
                fingerprint = read(only).fingerprint
                only = next((data.name for data in stored if data.fingerprint == fingerprint), only)
    shown, versions = list[Section](), list[str]()  # versions: names of the data shown, stored again when they changed
    estimators = set[str]()  # that measured any of it
    for data in reversed(stored):
        groups = _groups(store, data) if only in (None, data.name) else []
        dataset, problem = None, ""
        if any(estimates or fixes for _, _, estimates, fixes, _ in groups):
            try:
                dataset = read(data.name)
            except InputError as error:
                problem = str(error)
        newer = versions.count(data.name)
        age = "" if not newer else ", before the data changed" if newer == 1 else f", {newer} changes ago"
        for place, group in enumerate(groups):
            section = _section(store, data, group, dataset, problem, estimator)
            estimators |= _estimators(group)
            note = " ".join(filter(None, [_beside_fix(groups, place), section.note]))
            shown.append(replace(section, name=section.name + age, note=note))
        versions += [data.name] * bool(groups)
    of = f" of {only!r}" if only else ""
    if not shown:
        store.check_engine([data.fingerprint for data in stored if only in (None, data.name)])
        wanted = f"finished results{of}"
        raise InputError(f"store {store.path} has no {wanted}; it knows of {', '.join(names) or 'nothing'}.")
    if estimator and estimator not in estimators:
        others = ", ".join(sorted(estimators)) or "none"
        raise InputError(f"store {store.path} has no estimate{of} by {estimator!r}; it has {others}.")
    return shown


Group = tuple[str, list[Result], list[Estimate], list[FixReport], list[Measurement]]


def _groups(store: Store, data: StoredDataset) -> list[Group]:
    """Name, results, estimates, fixes and measurements of each recipe and device, that of the newest fix first.

    Only what was trained alike is compared. A fix may have trained nothing by its recipe but folds of candidates.
    """
    results = [result for result in store.results(data.fingerprint) if result.fold is None]
    estimates, measurements = store.estimates(data.fingerprint), store.measurements(data.fingerprint)
    fix_reports = store.fix_reports(data.fingerprint)
    newest = {report.kind: place for place, report in enumerate(fix_reports)}  # the last of each kind
    measuring = [(estimate, _kind(estimate.results[0]) if estimate.results else None) for estimate in estimates]
    trained = [*map(_kind, results), *(kind for _, kind in measuring if kind), *map(_kind, measurements)]
    kinds = {kind_of(*kind): kind for kind in dict.fromkeys(trained)}
    settings = {key: asdict(recipe) | {"device": device} for key, (recipe, device) in kinds.items()}
    for key in kinds.keys() & newest.keys():
        settings[key]["network"] = _kept_networks(fix_reports[newest[key]], kinds[key][0])
    groups = []
    for key in sorted(dict.fromkeys([*kinds, *newest]), key=lambda key: -newest.get(key, -1)):
        kind = kinds.get(key)
        group = (
            ", ".join([data.name, *_differing(key, settings, newest)]),
            [result for result in results if _kind(result) == kind],
            [estimate for estimate, measured_by in measuring if measured_by in (kind, None)],
            [report for report in fix_reports if report.kind == key],
            [one for one in measurements if _kind(one) == kind],
        )
        groups.append(group)
    return groups


def _estimators(group: Group) -> set[str]:
    _, _, estimates, _, measurements = group
    return {one.estimator for one in estimates} | {one.estimator for one in measurements}


def _kept_networks(report: FixReport, recipe: Recipe) -> str:
    """The networks of what a fix by that recipe keeps, 'linear + forest'."""
    candidates = [Candidate(name) for name in report.candidate.split(" + ")]
    return " + ".join(dict.fromkeys(candidate.recipe(recipe).network for candidate in candidates))


def _older_fixes(fixes: Sequence[FixReport]) -> str:
    """The goals of the fixes in whose place the last one is shown; "" where there is none."""
    goals = dict.fromkeys(report.goal for report in fixes if report != fixes[-1])
    if not goals:
        return ""
    return f"Older fixes are left out: goal {', '.join(goals)}. The same 'cu fix' shows one again, and trains nothing."


def _beside_fix(groups: Sequence[Group], place: int) -> str:
    """What a section is to the fix that stands first; "" for that one, and where nothing was fixed."""
    (*_, newest, _), (*_, fixes, _) = groups[0], groups[place]
    if not place or not newest:
        return ""
    differing = "by another recipe or on another device"
    return f"An older fix, {differing}." if fixes else f"Not the fix above: trained {differing}."


def _differing(key: str, settings: Mapping[str, dict[str, Any]], fixed: Collection[str]) -> list[str]:
    """What tells a recipe and device from others: the network, which comes with it, or else the fields that differ."""
    if key not in settings:
        return []
    networks = {setting["network"] for setting in settings.values()}
    if len(networks) == len(settings) and len({*settings, *fixed}) > 1:
        return [f"network {settings[key]['network']}"]
    others = settings.values()
    return [f"{field} {value}" for field, value in settings[key].items() if any(one[field] != value for one in others)]


def _kind(trained: Result | Measurement) -> tuple[Recipe, str]:
    return trained.recipe, trained.device


def _section(
    store: Store, data: StoredDataset, group: Group, dataset: Dataset | None, problem: str, estimator: str | None
) -> Section:
    """With the images of `dataset`; None where the data could not be read again, for that `problem`."""
    name, results, estimates, fixes, _ = group
    fix_report = fixes[-1] if fixes else None
    shown_by = _shown_estimate(group, estimator)
    estimate = shown_by if isinstance(shown_by, Estimate) else None  # of a measurement, only class vectors are stored
    measured_by, cost = (digest(class_vector(shown_by)), shown_by.cost) if shown_by else ("", 0.0)
    shown = [result for result in results if result.uncertainty in ("", measured_by)]
    folds, hidden = max((result.folds for result in results), default=0), len(results) - len(shown)
    unchanged = dataset is not None and dataset.fingerprint == data.fingerprint
    notes = [describe_folds(folds, dataset if unchanged else None)] if folds else []
    notes += filter(None, [_older_fixes(fixes)])
    if hidden:
        others = sorted(_estimators(group) - {shown_by.estimator if shown_by else ""})
        choice = f" Choose one by --estimator {' or '.join(others)}." if others else ""
        notes.append(f"Results not shown, since they used another estimate or score: {hidden}.{choice}")
    compared = _compared(shown)
    rates, chosen_on = chosen_rates(store, data, shown, measured_by)
    rows = method_rows(compared, cost, chosen=rates)
    notes += describe_marks([row.marks for row in rows])
    if isinstance(shown_by, Measurement) and shown_by.imported:
        notes.append("Class uncertainties were added by 'cu results import'.")
    if at_chosen := [row.method for row in rows if rates.get(row.method) == row.lr]:
        notes.append(f"Learning rates of {', '.join(at_chosen)}: chosen {chosen_where(chosen_on)}.")
    shape = dataset.train.shape if dataset and unchanged else shape_of(data.name)
    network = NetworkSize.of_results(results, shape, len(data.classes))
    if results and fix_report and (step := fix_report.kept_step):
        network = kept_size(step, _kept_networks(fix_report, results[0].recipe))
    left_out = len(shown) - len(compared)
    section = Section(name, (), tuple(rows), 0, fix_report=fix_report, network=network, naive_left_out=left_out)
    if shown_by:
        classes = tuple(class_rows(data.classes, data.counts, shown_by, dataset if unchanged else None))
        section = replace(section, classes=classes, members=shown_by.members)
        section = replace(section, estimator=shown_by.estimator, score=shown_by.score)
    if estimate:
        galleries: tuple[Gallery, ...] = ()
        if dataset is None:
            notes.append(f"The data could not be read again, so no images are shown ({problem}).")
        elif not unchanged:
            notes.append("The data have changed since they were measured, so no images are shown.")
        else:
            has_pictures = dataset.train.picture(0) is not None
            galleries = tuple(galleries_of(dataset.train, estimate, section.classes)) if has_pictures else ()
            notes += filter(None, [describe_groups(dataset, estimate)])
        section = replace(section, galleries=galleries)
    if dataset and unchanged:
        notes += describe_findings(dataset)
        section = replace(section, examples=report_examples(dataset, estimates, fix_report))
    return replace(section, note=" ".join(notes))


def _shown_estimate(group: Group, estimator: str | None) -> Estimate | Measurement | None:
    """What methods used last; else the estimate that the fix was chosen on, an ensemble, or the newest.

    Of those by the estimator that is asked for, if there are any; else, where nothing was fixed, by the recipe's usual
    one, if there are any.
    """
    _, results, estimates, fixes, measurements = group
    both: list[Estimate | Measurement] = [*reversed(estimates), *reversed(measurements)]
    trained: list[Result | Measurement] = [*results, *measurements]
    usual = trained[0].recipe.measured_by if trained and not fixes else None
    named = ([measured for measured in both if measured.estimator == name] for name in (estimator, usual))
    both = next(filter(None, named), both)

    @cache  # an estimate of many examples takes a while
    def digest_by(place: int, score: str) -> str:
        return digest(class_vector(both[place].using(score)))

    for used in dict.fromkeys(result.uncertainty for result in reversed(results) if result.uncertainty):
        for place, measured in enumerate(both):
            others = (*SCORES, *measured.extra_scores) if isinstance(measured, Estimate) else measured.raw
            for score in dict.fromkeys((measured.score, *others)):
                if digest_by(place, score) == used:
                    return measured.using(score)
    lr = fixes[-1].lr if fixes else None

    def preference(measured: Estimate | Measurement) -> tuple[bool, int]:
        results = measured.results if isinstance(measured, Estimate) else ()
        if measured.estimator == "out-of-fold" and any(result.lr == lr for result in results):
            return True, 2
        return isinstance(measured, Estimate), int(measured.estimator == "ensemble")

    return max(both, key=preference, default=None)


def _compared(results: list[Result]) -> list[Result]:
    """Without the naive lanes that only measured: beside other methods, naive keeps the seeds that they have."""
    seeds = {result.seed for result in results if result.method != "naive"}
    return [result for result in results if result.method != "naive" or not seeds or result.seed in seeds]


def galleries_of(train: Data, estimate: Estimate, rows: Sequence[ClassRow]) -> list[Gallery]:
    """Images of the worst classes by error, or by uncertainty where no error is known."""
    has_errors = any(row.error is not None for row in rows)
    badness = [row.error or 0.0 if has_errors else row.uncertainty for row in rows]
    guesses, uncertainty = mean_guess(estimate.probabilities), estimate.uncertainty

    def images(indices: NDArray[np.int64]) -> tuple[GalleryImage, ...]:
        shown = ((i, train.picture(i)) for i in indices)
        return tuple(
            GalleryImage(train.classes[guesses[i]], float(uncertainty[i]), pixels)
            for i, pixels in shown
            if pixels is not None
        )

    galleries = []
    for c in np.argsort(badness)[::-1][:WORST_CLASSES]:
        members = np.flatnonzero(train.labels == c)
        ordered = members[np.argsort(uncertainty[members], kind="stable")]
        number = min(IMAGES, len(ordered) // 2)  # so that no image is shown as both
        galleries.append(Gallery(train.classes[c], images(ordered[::-1][:number]), images(ordered[:number])))
    return galleries
