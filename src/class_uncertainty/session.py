"""What the commands share: an open store, progress on stderr, text or JSON on stdout, and a Ctrl-C that loses nothing."""

import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from class_uncertainty.data import Dataset, load
from class_uncertainty.errors import InputError, Unfinished, memory_faults
from class_uncertainty.estimation import Asked, Diverged, Estimate, read_by
from class_uncertainty.files import check_writable, make_folder
from class_uncertainty.limits import check_address_space
from class_uncertainty.measures import SCORES
from class_uncertainty.remedies.diagnosis import Mended
from class_uncertainty.remedies.table import remedy_named
from class_uncertainty.reporting import live, terminal
from class_uncertainty.reporting.comparison import EstimatorRow, estimator_rows
from class_uncertainty.reporting.tables import class_rows, duplicated, judged, method_rows, spearman
from class_uncertainty.results import Store
from class_uncertainty.text import tell
from class_uncertainty.training import Lane, Recipe, Result, default_recipe

if TYPE_CHECKING:
    from class_uncertainty.training.checkpoints import Checkpoints

TRACE = re.compile(rb'\s*\{\s*"schemaVersion"')  # how a trace begins


class Session:
    """One command's work on one store."""

    def __init__(
        self, store: Store, as_json: bool, root: Path | None = None, budget: float | None = None, profile: Path | None = None
    ) -> None:
        self.store, self.as_json, self.root, self.profile = store, as_json, root, profile
        self.deadline = None if budget is None else time.monotonic() + budget
        self.pace = live.Pace()

    @cached_property
    def checkpoints(self) -> "Checkpoints":
        from class_uncertainty.training.checkpoints import Checkpoints

        return Checkpoints(self.store.path.with_name(self.store.path.name + ".running"))

    @property
    def fit_options(self) -> dict[str, Any]:
        """Where running lanes are kept, how many seconds are left, and where a trace goes."""
        left = None if self.deadline is None else max(self.deadline - time.monotonic(), 1e-3)
        return {"checkpoints": self.checkpoints, "budget": left, "profile": self.profile}

    def say(self, *lines: str) -> None:
        """For people; silent where one JSON document is asked for."""
        if not self.as_json:
            terminal.say(*lines)

    def answer(self, document: dict[str, Any]) -> None:
        """For programs; silent where people read."""
        if self.as_json:
            terminal.print_json(document)

    def load(self, data: str) -> Dataset:
        with terminal.progress_bars("images") as progress:
            return load(data, root=self.root, progress=lambda what, done, total: progress(f"decoding {what}", done, total))

    def prepare(self, data: str, epochs: int | None, recipe_name: str | None = None) -> tuple[Dataset, Recipe]:
        dataset = self.load(data)
        if note := duplicated(dataset):
            self.say(note)
        recipe = default_recipe(dataset.train, recipe_name, epochs=epochs)
        self.store.add_data(dataset)
        return dataset, recipe

    def measure(self, dataset: Dataset, recipe: Recipe, asked: Asked, score: str | None = None) -> Estimate:
        """The estimate, from the store or trained now."""
        (found,) = self.measure_all(dataset, recipe, [asked])
        return read_by(found, score)

    def measure_all(self, dataset: Dataset, recipe: Recipe, asked: Sequence[Asked]) -> list[Estimate | Diverged]:
        from class_uncertainty.results.runs import measured, unmeasured

        with live.watch("measuring", unmeasured(self.store, dataset, recipe, asked), recipe.epochs, self.pace) as progress:
            return measured(self.store, dataset, recipe, asked, progress=progress, **self.fit_options)

    def compare_estimators(
        self, dataset: Dataset, recipe: Recipe, names: Sequence[str], members: int, lrs: Sequence[float | None]
    ) -> dict[str, Any]:
        """Estimators beside the ensemble, for each learning rate. They have other seeds: no network is compared with itself."""
        wanted = [_scored(name) for name in names]
        if "ensemble" not in names:
            wanted.insert(0, ("ensemble", ""))
        others = dict.fromkeys(name for name, _ in wanted if name != "ensemble")
        asked = {(name, lr): Asked(name, members, members, lr) for lr in lrs for name in others}
        asked |= {("ensemble", lr): Asked("ensemble", members, 0, lr) for lr in lrs}
        chosen = [(name, score or asked[name, lrs[0]].row.natural) for name, score in wanted]
        if twice := next((pair for i, pair in enumerate(chosen) if pair in chosen[:i]), None):
            raise InputError(f"estimator {twice[0]} is given twice by {twice[1]}: each must be there once.")
        for name, score in chosen:
            asked[name, lrs[0]].check_score(score)
        found = dict(zip(asked, self.measure_all(dataset, recipe, list(asked.values())), strict=True))
        rows: list[EstimatorRow] = []
        lost: list[str] = []
        for lr in lrs:
            known = [(found[name, lr], score) for name, score in chosen]
            lost += [f"{each} at the learning rate {lr or recipe.lr:g}" for each, _ in known if isinstance(each, Diverged)]
            if isinstance(ensemble := found["ensemble", lr], Estimate):
                some = [each.using(score) for each, score in known if isinstance(each, Estimate)]
                rows += estimator_rows(some, ensemble, dataset.train.counts.astype(float))
        if not rows:
            raise InputError(f"{lost[0]}, and there is nothing to compare with: lower it.")
        if not self.as_json:
            terminal.print_estimators(rows)
        self.say(
            "Cost: in trainings of one network. ρ: Spearman's, of class uncertainties with the ensemble's, and with the naive class errors."
        )
        self.say("Beyond N: of what is left of the ranks once those of the counts are taken out.")
        for sentence in dict.fromkeys(lost):
            self.say(f"Not shown: {sentence}.")
        folds = max((result.folds for each in found.values() if isinstance(each, Estimate) for result in each.results), default=0)
        if folds:
            self.say(judged(folds))
        about: dict[str, Any] = {"data": dataset.name, "fingerprint": dataset.fingerprint, "members": members, "folds": folds}
        about["diverged"] = list(dict.fromkeys(lost))
        return about | {"estimators": [asdict(row) for row in rows]}

    def compare(self, dataset: Dataset, recipe: Recipe, found: Estimate | None, lanes: Sequence[Lane]) -> list[Result]:
        """Every lane's result, from the store or trained now."""
        from class_uncertainty.results.runs import missing, networks, run

        stats = found.stats if found else None
        todo = networks(dataset) * len(missing(self.store, dataset, lanes, recipe, stats))
        with live.watch("training", todo, recipe.epochs, self.pace) as progress:
            return run(self.store, dataset, lanes, recipe, stats, progress=progress, **self.fit_options)

    def remedies(
        self,
        dataset: Dataset,
        recipe: Recipe,
        names: Sequence[str],
        seeds: Sequence[int],
        rates: Sequence[float | None],
        asked: Asked,
        found: Estimate | None,
    ) -> list[Result]:
        """Every remedy's results at every learning rate. tau is chosen where the estimator leaves examples out, and else 1."""
        from class_uncertainty.results.remedied import remedied
        from class_uncertainty.results.ward import Ward

        adjusts = any(row.adjusts for name in names if (row := remedy_named(name)))
        results: list[Result] = []
        for lr in rates:
            unseen = self.measure(dataset, recipe, replace(asked, lr=lr)) if adjusts and asked.estimator == "out-of-fold" else None
            ward = Ward(
                self.store, dataset, recipe, asked.members, lr, unseen, found.stats if found else None, lambda: self._watched(recipe)
            )
            results += [result for name in names for result in remedied(ward, name, seeds)]
        return results

    def _watched(self, recipe: Recipe) -> dict[str, Any]:
        """fit_options, and a live table for each stage of several."""
        return self.fit_options | {"watch": lambda lanes, what: live.watch(f"training {what}", lanes, recipe.epochs, self.pace)}

    def equal_cost(self, results: Sequence[Result], found: Estimate | None) -> list[str]:
        """Ensembles of as many networks of each cheap method as the dearest row costs, by their names."""
        rows = method_rows(results, found.cost if found else 0.0)
        dearest, names = max(row.cost for row in rows), []
        for row in rows:
            remedy = remedy_named(row.method)
            if remedy and remedy.together != 1:  # several networks already
                continue
            own = remedy.trainings(0) if remedy else next(result.cost for result in results if result.method == row.method)
            number = int((dearest - (row.cost - own)) / own + 1e-9)
            if number > 1:
                names.append(f"{row.method}*{number}")
        return [name for name in dict.fromkeys(names) if name not in {row.method for row in rows}]

    def fix(
        self, dataset: Dataset, recipe: Recipe, members: int, seeds: int, rates: Sequence[float] | None, save: Path | None
    ) -> tuple[Mended, dict[str, Any], list[Path]]:
        """What was wrong, what was done and what has changed, also as a document; and the files written. Nothing is said yet."""
        from class_uncertainty.results.fixing import fix
        from class_uncertainty.training import saving

        found = fix(dataset, members, recipe, lrs=rates, seeds=seeds, store=self.store, **self._watched(recipe))
        about = {
            "data": dataset.name,
            "columns": dataset.train.columns,
            "lr": found.lr,
            "tau": found.tau,
            "T": found.mended.temperature,
            "errors": found.after.errors,
        }
        files = list(saving.save(found.module, save, about)) if save else []
        document = asdict(found.mended)
        document["suspects"] = [{name: value for name, value in each.items() if name != "picture"} for each in document["suspects"]]
        return found.mended, document, files

    def show_fix(self, mended: Mended) -> None:
        from class_uncertainty.reporting.mended import lines, witnesses

        self.say(*lines(mended))
        if np.mean(mended.after.errors) >= np.mean(mended.before.errors):
            naive = f"cu train {shlex.quote(mended.data)} --lr {mended.lr:g} --save MODEL, with the same --recipe and --epochs"
            self.say(
                f"The class-mean error is no lower than before: keep a naive network ({naive}), or a method that 'cu compare' finds better."
            )
        chosen = f"τ = {mended.tau:g}, T = {mended.temperature:g}"
        self.say(f"{mended.note} {chosen}. Cost: {mended.cost:.3g} naive trainings for the one network; the ± took more.")
        if mended.suspects:
            first = ", ".join(f"{each.name} ({each.label}: {each.guess}?)" for each in mended.suspects[:5])
            more = f", and {len(mended.suspects[5:])} more in the report" if mended.suspects[5:] else ""
            self.say(f"Labels to look at, of examples that {witnesses(mended)}: {first}{more}.")

    def show_measure(self, dataset: Dataset, found: Estimate) -> dict[str, Any]:
        rows = class_rows(dataset.classes, dataset.train.counts.tolist(), found)
        if not self.as_json:
            terminal.print_classes(rows, found.judged)
        if rho := terminal.correlations(rows, found.judged):
            self.say(rho)
        lines = terminal.disagreements(rows)
        if lines:
            self.say("Cardinality and uncertainty disagree most on", *(f"  {line}" for line in lines))
        elif len({row.count for row in rows}) > 1:
            self.say("Cardinality and uncertainty rank alike.")
        else:
            self.say("All classes have equally many examples, so cardinality tells none of them apart.")
        folds = max((result.folds for result in found.results), default=0)
        if folds:
            self.say(judged(folds))
        return {
            "data": dataset.name,
            "fingerprint": dataset.fingerprint,
            "folds": folds,
            "duplicates": dataset.duplicates,
            "estimator": found.estimator,
            "score": found.score,
            "cost": found.cost,
            "members": len(found.probabilities),
            "classes": [asdict(row) | {"disagreement": row.disagreement} for row in rows],
            "spearman": {measure: spearman(rows, measure) for measure in ("cardinality", "effective", "uncertainty")},
        }

    def show_comparison(self, dataset: Dataset, results: Sequence[Result], found: Estimate | None = None) -> dict[str, Any]:
        rows = method_rows(results, found.cost if found else 0.0)
        if not self.as_json:
            terminal.print_methods(rows)
        folds = max((result.folds for result in results), default=0)
        self.say(*terminal.footnotes(rows, folds))
        if found:
            self.say(f"Uncertainty: {found.estimator}, by {found.score}.")
        strengths = {result.lr: result.plan["tau"] for result in results if "networks" in result.plan and "tau" in result.plan}
        if strengths:
            own = "; each fold's was chosen on the others" if folds and set(strengths.values()) != {1.0} else ""
            self.say(f"τ: {', '.join(f'{tau:g} at the learning rate {lr:g}' for lr, tau in strengths.items())}{own}.")
            if len(set((dataset.test or dataset.train).counts)) > 1:
                self.say("NLL, ECE: of the judged examples as they come, whereas rows with τ are for classes that are equally frequent.")
        about = {"data": dataset.name, "fingerprint": dataset.fingerprint, "folds": folds, "duplicates": dataset.duplicates}
        about |= {"estimator": found.estimator if found else None, "score": found.score if found else None}
        return about | {"methods": [asdict(row) for row in rows]}

    def check_savable(self, save: Path, page: Path | None = None) -> None:
        """Also that the page is none of the files."""
        from class_uncertainty.training.saving import check_savable, files_of

        check_savable(save)
        if page and page.resolve() in [file.resolve() for file in files_of(save)]:
            raise InputError(f"--report is {page}, which --save {save} writes: give it another name.")

    def train(self, dataset: Dataset, recipe: Recipe, found: Estimate | None, lane: Lane, save: Path | None) -> tuple[Result, list[Path]]:
        """One lane, trained anew whatever the store has -> (its result, the files written)."""
        from class_uncertainty.results.runs import forget, train
        from class_uncertainty.training import saving

        with live.watch(f"training {lane.name}", 1, recipe.epochs, self.pace) as progress:
            fitted = train(self.store, dataset, [lane], recipe, found.stats if found else None, progress=progress, **self.fit_options)
        if fitted.results[0].diverged is not None:
            raise InputError(f"{lane.name} diverged in epoch {fitted.results[0].diverged}: lower --lr; nothing was saved.")
        result = fitted.results[0] if dataset.test else self.compare(dataset, recipe, found, [lane])[0]
        about = {"data": dataset.name, "columns": dataset.train.columns, "result": asdict(result)}
        files = list(saving.save(fitted.module(0), save, about)) if save else []
        forget(self.checkpoints, dataset, [lane], recipe, found.stats if found else None)
        return result, files

    def report(self, data: str | None, out: Path, figures: Path | None = None) -> list[Path]:
        """The files written: the page, and the charts if a folder is given for them."""
        from class_uncertainty.reporting import report
        from class_uncertainty.reporting.sections import sections

        report.check_place(out)
        if figures:
            make_folder(figures)
        return report.write(sections(self.store, data, self.load), out, figures)


def _scored(name: str) -> tuple[str, str]:
    """(estimator, score) of 'online=predictive'; the score is "" where none is said. A file's name may have an equals sign too."""
    estimator, equals, score = name.rpartition("=")
    if equals and not score:
        raise InputError(f"{name!r} names no score after its equals sign: give one, as in online=predictive.")
    return (estimator, score) if equals and (":" not in estimator or score in SCORES) else (name, "")


def _changed(profile: Path | None) -> int:
    """When a trace was last written; 0 where there is none. That one can be written is tried here."""
    if not profile:
        return 0
    check_writable(profile, TRACE, "trace")
    return profile.stat().st_mtime_ns if profile.exists() else 0


@contextmanager
def session(
    path: Path, as_json: bool, root: Path | None = None, create: bool = True, budget: float | None = None, profile: Path | None = None
) -> Iterator[Session]:
    """A Session that says, on Ctrl-C, short of memory or when its budget is spent, what is kept and how to go on."""
    check_address_space()
    if profile and profile.resolve() == path.resolve():
        raise InputError(f"--profile and --store are both {path}: give them different names.")
    before = _changed(profile)
    with Store(path, create) as store:

        def kept() -> str:
            results = sum(len(store.results(data.fingerprint)) for data in store.data())
            both = ", ".join(
                f"{number} {what}{'' if number == 1 else 's'}" for number, what in ((results, "result"), (store.networks, "network"))
            )
            return f"; {path} keeps what has finished ({both}), and the same command goes on from there"

        try:
            with memory_faults(kept):
                yield Session(store, as_json, root, budget, profile)
            if profile and _changed(profile) == before:
                tell(f"nothing was trained, so {profile} was not written.")
        except (KeyboardInterrupt, Unfinished) as end:
            stopped = isinstance(end, KeyboardInterrupt)
            tell(f"{'stopped' if stopped else end}{kept()}.", start="\n" if stopped else "")  # after the ^C that a terminal shows
            raise SystemExit(130 if stopped else 3) from None
