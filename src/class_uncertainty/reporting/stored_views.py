"""What is stored of each data set, recipe and device, and the page that shows it."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from class_uncertainty.data import Dataset, load
from class_uncertainty.data.sources import shape_of
from class_uncertainty.data.spec import argument_of
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import SCORES, digest
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.chosen_rates import chosen_rates
from class_uncertainty.reporting.fix_page import fix_page
from class_uncertainty.reporting.fix_view import view_fix
from class_uncertainty.reporting.page import Page
from class_uncertainty.reporting.page_examples import PageExamples, estimate_examples, fix_examples
from class_uncertainty.reporting.result_pages import class_page, method_page
from class_uncertainty.reporting.section import (
    describe_findings,
    describe_folds,
    describe_groups,
    describe_marks,
    describe_network,
)
from class_uncertainty.runs import Store, StoredDataset
from class_uncertainty.runs.comparison import chosen_where
from class_uncertainty.runs.measurement import Measurement, class_vector
from class_uncertainty.runs.rows import ClassRow, MethodRow, class_rows, method_rows
from class_uncertainty.training import Recipe, Result
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.keys import kind_of
from class_uncertainty.training.network_size import NetworkSize

Read = Callable[[str], Dataset]


@dataclass(frozen=True)
class Group:
    """What was trained alike, on one data set, by one recipe and on one device."""

    name: str
    results: Sequence[Result]
    estimates: Sequence[Estimate]
    fixes: Sequence[FixReport]
    measurements: Sequence[Measurement]

    @property
    def estimators(self) -> set[str]:
        return {one.estimator for one in self.estimates} | {one.estimator for one in self.measurements}


@dataclass(frozen=True)
class Stored:
    """What is shown of a group: its newest fix, its classes and its methods, as far as there are any."""

    name: str
    fix_report: FixReport | None
    classes: tuple[ClassRow, ...]
    methods: tuple[MethodRow, ...]
    measured: Estimate | Measurement | None  # what the classes are rows of
    dataset: Dataset | None  # None where the data could not be read again, or have changed
    examples: PageExamples | None
    notes: Sequence[str]  # on everything
    method_notes: Sequence[str]

    @property
    def page(self) -> Page:
        """The fix, the classes or the methods, with what else there is folded."""
        pages = list[Page]()
        if self.fix_report:
            pages.append(fix_page(view_fix(self.fix_report, self.dataset), self.examples))
        if self.measured:
            pages.append(class_page(self.name, self.classes, self.measured, self.examples))
        if len(self.methods) > 1 or not pages:  # a fix alone has trained naive networks
            pages.append(method_page(self.name, self.methods, self.method_notes))
        first, *others = pages
        blocks = [*first.blocks]
        for other in others:
            blocks += other.folded(f"Also stored: {other.blocks[0].heading.lower()}")
        notes = [*self.notes, *first.notes]
        if self.measured and len(pages) == 1:
            notes += self.method_notes
        return replace(first, title=self.name, notes=notes, blocks=blocks)


def stored_results(
    store: Store, only: str | None = None, read: Read = load, estimator: str | None = None
) -> list[Stored]:
    """Everything that is stored, the newest data first, or only the data set named `only`.

    `read` loads the data again for their examples. Where estimates by `estimator` are stored, one of them is shown.
    """
    stored = store.data()
    if not stored and store.networks:
        advice = "repeat the command that made them; it trains nothing again"
        raise InputError(f"store {store.path} has lost the row that names the data of its results: {advice}.")
    names = [data.name for data in stored]
    if only is not None:
        only = _stored_name(only, stored, read)
    shown = list[Stored]()
    versions = list[str]()  # names of the data shown, stored again when they changed
    estimators = set[str]()
    for data in reversed(stored):
        groups = _groups(store, data) if only in (None, data.name) else []
        dataset = None
        problem = ""
        if any(group.estimates or group.fixes for group in groups):
            try:
                dataset = read(data.name)
            except InputError as error:
                problem = f"The data could not be read again, so no examples are shown ({error})."
        if dataset and dataset.fingerprint != data.fingerprint:
            dataset = None
            problem = "The data have changed since, so no examples are shown."
        for place, group in enumerate(groups):
            one = _stored(store, data, group, dataset, estimator)
            estimators |= group.estimators
            notes = filter(None, [_beside_fix(groups, place), problem, *one.notes])
            shown.append(replace(one, name=one.name + _age(versions.count(data.name)), notes=[*notes]))
        versions += [data.name] * bool(groups)
    of = f" of {only!r}" if only else ""
    if not shown:
        store.check_engine([data.fingerprint for data in stored if only in (None, data.name)])
        known = ", ".join(names) or "nothing"
        raise InputError(f"store {store.path} has no finished results{of}; it has data of {known}.")
    if estimator and estimator not in estimators:
        others = ", ".join(sorted(estimators)) or "none"
        raise InputError(f"store {store.path} has no estimate{of} by {estimator!r}; it has {others}.")
    return shown


def _stored_name(only: str, stored: Sequence[StoredDataset], read: Read) -> str:
    """The name under which the same data may be stored: with the same path or, once they are read, as the same data."""
    names = [data.name for data in stored]
    if only in names:
        return only
    of_path = [name for name in dict.fromkeys(names) if argument_of(name) == only.rstrip(os.sep)]
    if len(of_path) == 1:
        return of_path[0]
    with suppress(InputError):
        fingerprint = read(only).fingerprint
        return next((data.name for data in stored if data.fingerprint == fingerprint), only)
    return only


def _age(newer: int) -> str:
    """What stands behind the name of data that were stored again later."""
    if newer == 0:
        return ""
    return ", before the data changed" if newer == 1 else f", {newer} changes ago"


def _groups(store: Store, data: StoredDataset) -> list[Group]:
    """What was trained alike, that of the newest fix first.

    Only what was trained alike is compared. A fix may have trained nothing by its recipe but folds of candidates.
    """
    results = [result for result in store.results(data.fingerprint) if result.fold is None]
    estimates = store.estimates(data.fingerprint)
    measurements = store.measurements(data.fingerprint)
    fixes = store.fix_reports(data.fingerprint)
    newest = {report.kind: place for place, report in enumerate(fixes)}  # the last of each kind
    measuring = [(estimate, _kind(estimate.results[0]) if estimate.results else None) for estimate in estimates]
    trained = [*map(_kind, results), *(kind for _, kind in measuring if kind), *map(_kind, measurements)]
    kinds = {kind_of(*kind): kind for kind in dict.fromkeys(trained)}
    settings = {key: asdict(recipe) | {"device": device} for key, (recipe, device) in kinds.items()}
    for key in kinds.keys() & newest.keys():
        settings[key]["network"] = _kept_networks(fixes[newest[key]], kinds[key][0])
    groups = []
    for key in sorted(dict.fromkeys([*kinds, *newest]), key=lambda key: -newest.get(key, -1)):
        kind = kinds.get(key)
        group = Group(
            name=", ".join([data.name, *_differing(key, settings, newest)]),
            results=[result for result in results if _kind(result) == kind],
            estimates=[estimate for estimate, by in measuring if by in (kind, None)],
            fixes=[report for report in fixes if report.kind == key],
            measurements=[one for one in measurements if _kind(one) == kind],
        )
        groups.append(group)
    return groups


def _kind(trained: Result | Measurement) -> tuple[Recipe, str]:
    return trained.recipe, trained.device


def _kept_networks(report: FixReport, recipe: Recipe) -> str:
    """The networks of what a fix by that recipe keeps, 'linear + forest'."""
    candidates = [Candidate(name) for name in report.candidate.split(" + ")]
    return " + ".join(dict.fromkeys(candidate.recipe(recipe).network for candidate in candidates))


def _differing(key: str, settings: Mapping[str, dict[str, Any]], fixed: Collection[str]) -> list[str]:
    """What tells a recipe and device from others: the network, which comes with it, or else the fields that differ."""
    if key not in settings:
        return []
    networks = {setting["network"] for setting in settings.values()}
    if len(networks) == len(settings) and len({*settings, *fixed}) > 1:
        return [f"network {settings[key]['network']}"]
    others = settings.values()
    return [f"{field} {value}" for field, value in settings[key].items() if any(one[field] != value for one in others)]


def _beside_fix(groups: Sequence[Group], place: int) -> str:
    """What a group is to the fix that stands first; "" for that one, and where nothing was fixed."""
    if place == 0 or not groups[0].fixes:
        return ""
    differing = "by another recipe or on another device"
    return f"An older fix, {differing}." if groups[place].fixes else f"Not the fix above: trained {differing}."


def _older_fixes(fixes: Sequence[FixReport]) -> str:
    """The goals of the fixes in whose place the last one is shown; "" where there is none."""
    goals = dict.fromkeys(report.goal for report in fixes if report != fixes[-1])
    if not goals:
        return ""
    return f"Older fixes are left out: goal {', '.join(goals)}. Repeat a 'cu fix' to show it; nothing is trained."


def _stored(store: Store, data: StoredDataset, group: Group, dataset: Dataset | None, estimator: str | None) -> Stored:
    """The newest fix of a group, with the estimate and the results that belong together."""
    measured = _shown_estimate(group, estimator)
    digits = digest(class_vector(measured)) if measured else ""
    shown = [result for result in group.results if result.uncertainty in ("", digits)]
    compared = _compared(shown)
    rates, chosen_on = chosen_rates(store, data, shown, digits)
    methods = method_rows(compared, measured.cost if measured else 0.0, chosen=rates)
    classes = class_rows(data.classes, data.counts, measured, dataset) if measured else []
    shape = dataset.train.shape if dataset else shape_of(data.name)
    method_notes = describe_network(NetworkSize.of_results(group.results, shape, len(data.classes)))
    if len(shown) > len(compared):
        left_out = len(shown) - len(compared)
        method_notes.append(f"Runs of naive not shown, since no other method has their seeds: {left_out}.")
    notes = [_older_fixes(group.fixes), *describe_marks([row.marks for row in methods])]
    at_chosen = [row.method for row in methods if rates.get(row.method) == row.lr]
    if at_chosen:
        notes.append(f"Learning rates of {', '.join(at_chosen)}: chosen {chosen_where(chosen_on)}.")
    hidden = len(group.results) - len(shown)
    if hidden:
        others = sorted(group.estimators - {measured.estimator if measured else ""})
        choice = f" Choose one with --estimator {' or '.join(others)}." if others else ""
        notes.append(f"Results not shown, since they used another estimate or score: {hidden}.{choice}")
    if isinstance(measured, Measurement) and measured.imported:
        notes.append("Class uncertainties were added by 'cu results import'.")
    folds = max((result.folds for result in group.results), default=0)
    if folds:
        notes.append(describe_folds(folds, dataset))
    if dataset:
        notes += describe_findings(dataset)
    if dataset and isinstance(measured, Estimate):
        notes.append(describe_groups(dataset, measured))
    return Stored(
        name=group.name,
        fix_report=group.fixes[-1] if group.fixes else None,
        classes=tuple(classes),
        methods=tuple(methods),
        measured=measured,
        dataset=dataset,
        examples=_examples(group, dataset),
        notes=notes,
        method_notes=method_notes,
    )


def _examples(group: Group, dataset: Dataset | None) -> PageExamples | None:
    """Of the newest fix, or of an estimate: out-of-fold if there is such a one, and the newest of several."""
    if dataset is None:
        return None
    examples = fix_examples(group.fixes[-1], dataset) if group.fixes else None
    if examples is None and group.estimates:
        estimate = max(reversed(group.estimates), key=lambda one: one.estimator == "out-of-fold")
        examples = estimate_examples(estimate, dataset)
    return examples


def _compared(results: Sequence[Result]) -> list[Result]:
    """Without the naive lanes that only measured: beside other methods, naive keeps the seeds that they have."""
    seeds = {result.seed for result in results if result.method != "naive"}
    return [result for result in results if result.method != "naive" or not seeds or result.seed in seeds]


def _shown_estimate(group: Group, estimator: str | None) -> Estimate | Measurement | None:
    """What methods used last; else, beside a fix, an out-of-fold estimate, or an ensemble, or the newest.

    Of those by the estimator that is asked for, if there are any; else, where nothing was fixed, by the recipe's usual
    one, if there are any.
    """
    both: list[Estimate | Measurement] = [*reversed(group.estimates), *reversed(group.measurements)]
    trained: list[Result | Measurement] = [*group.results, *group.measurements]
    usual = trained[0].recipe.measured_by if trained and not group.fixes else None
    named = ([measured for measured in both if measured.estimator == name] for name in (estimator, usual))
    both = next(filter(None, named), both)

    @cache  # an estimate of many examples takes a while
    def digest_by(place: int, score: str) -> str:
        return digest(class_vector(both[place].using(score)))

    for used in dict.fromkeys(result.uncertainty for result in reversed(group.results) if result.uncertainty):
        for place, measured in enumerate(both):
            others = (*SCORES, *measured.extra_scores) if isinstance(measured, Estimate) else measured.raw
            for score in dict.fromkeys((measured.score, *others)):
                if digest_by(place, score) == used:
                    return measured.using(score)
    preferred = "out-of-fold" if group.fixes else "ensemble"
    return max(both, key=lambda one: (isinstance(one, Estimate), one.estimator == preferred), default=None)
