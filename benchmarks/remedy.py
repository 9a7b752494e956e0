"""Remedies, taken apart: `make bench-remedy` for the cost of a student, `python benchmarks/remedy.py small` for four small data sets by
folds, `python benchmarks/remedy.py DATA [--root FOLDER]` for one with a test split.

With DATA (cifar100-lt:50, say) members that saw everything and out-of-fold ones are trained, then students that differ in one thing from
the first row, all of them together; --rows "first,T 1" takes some. What is done stays in a store; --budget 9m stops cleanly, and the same
command goes on.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.utils import Bunch

import class_uncertainty as cu
from class_uncertainty.estimation import Asked, read_by
from class_uncertainty.metrics import evaluate
from class_uncertainty.remedies import combined
from class_uncertainty.results import Store
from class_uncertainty.results.runs import measured, trained
from class_uncertainty.results.ward import Ward
from class_uncertainty.text import seconds
from class_uncertainty.training import default_recipe
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.job import Epoch
from class_uncertainty.training.loop import default_device

RATE, FOLDS, MOST = 0.4, 5, 8  # of the teachers, chosen out-of-fold; out-of-fold members; members that saw everything
FIRST = cu.Teaching(tau=1.45, temperature=2.0, teachers=tuple(range(5)))  # as `cu fix` chooses, at the recipe's rate
UNSEEN = tuple(range(MOST, MOST + FOLDS))
TAUGHT: dict[str, dict] = {
    "first": {},
    **{f"tau {tau:g}": {"tau": tau} for tau in (0.0, 0.5, 1.0, 1.25, 1.5)},
    **{f"T {t:g}": {"temperature": t} for t in (1.0, 3.0, 4.0)},
    **{f"{n} teachers": {"teachers": tuple(range(n))} for n in (1, 2, 3, 8)},
    **{f"hard {hard:g}": {"hard": hard} for hard in (0.1, 0.3, 0.5)},
    "arithmetic tau 1": {"mean": "arithmetic", "tau": 1.0},
    "out-of-fold teachers": {"teachers": UNSEEN},
    "unseen teachers": {"teachers": UNSEEN, "unseen": True},
    "unseen teachers hard 0.3": {"teachers": UNSEEN, "unseen": True, "hard": 0.3},
}
RATES = (0.05, 0.2, RATE)  # of students, beside the recipe's


def ablation(
    data: str, root: Path | None, store: Path, seeds: int, recipe_name: str, epochs: int | None, budget: float | None, rows: list[str]
) -> None:
    dataset = cu.load(data, root=root)
    recipe = default_recipe(dataset.train, recipe_name, epochs=epochs)
    test = dataset.test
    assert test is not None
    members = [cu.Lane("naive", seed, RATE) for seed in range(MOST)]
    members += [cu.Lane("naive", 0, RATE, fold=(k, FOLDS)) for k in range(FOLDS)]
    students = {
        name: [cu.Lane("naive", s, recipe.lr, teaching=replace(FIRST, **fields)) for s in range(seeds)] for name, fields in TAUGHT.items()
    }
    students |= {f"learning rate {lr:g}": [cu.Lane("naive", s, lr, teaching=FIRST) for s in range(seeds)] for lr in RATES}
    students["mixup"] = [cu.Lane("naive+mixup", s, recipe.lr, teaching=FIRST) for s in range(seeds)]
    if unknown := [row for row in rows if row not in students]:
        raise SystemExit(f"no row {unknown[0]!r}: there are {', '.join(students)}")
    students = {name: students[name] for name in rows or students}
    deadline = time.monotonic() + budget if budget else None

    def left() -> float | None:
        return deadline and max(deadline - time.monotonic(), 1e-3)

    def error(p: np.ndarray) -> float:
        return evaluate(p, test.labels, dataset.train.counts).class_mean_error

    with Store(store) as kept:
        running = Checkpoints(f"{store}.running")
        teachers = trained(kept, dataset, members, recipe, checkpoints=running, budget=left())
        p = teachers.probabilities(test)
        for name, some in (("one", p[:1]), ("five", p[:5]), ("eight", p[:MOST]), ("out-of-fold", p[MOST:])):
            for mean in ("geometric", "arithmetic"):
                said = [error(cu.adjust(combined(some, mean), dataset.train.counts, tau)) for tau in (0.0, 0.5, 1.0, 1.25, 1.5)]
                print(f"{name}, {mean}: error at tau 0, 0.5, 1, 1.25, 1.5: {', '.join(f'{e:.2f}' for e in said)}", flush=True)
        lanes = [lane for some in students.values() for lane in some]
        taught = trained(kept, dataset, lanes, recipe, teachers=teachers, checkpoints=running, budget=left())
        errors = [error(said) for said in taught.probabilities(test)]
        for i, name in enumerate(students):
            mine = errors[i * seeds : (i + 1) * seeds]
            print(f"{name}: {np.mean(mine):.2f}" + (f" ± {np.std(mine, ddof=1):.2f}" if seeds > 1 else ""), flush=True)


def small(folder: Path) -> None:
    """Students by folds, in shares of the naive class-mean error: teachers at four times the recipe's learning rate, three seeds."""
    wine, cancer = load_wine(), load_breast_cancer()
    sets = {f"digits-lt:{ratio}": cu.load(f"digits-lt:{ratio}").train for ratio in (20, 50)}
    sets |= {"wine": _cut(wine, (59, 20, 8)), "breast cancer": _cut(cancer, (20, 357))}
    kinds = [(lr, t, hard) for lr in (1, 4) for t in (1.0, 2.0, 4.0) for hard in (0.0, 0.3)]
    print("times the recipe's rate, T, hard: naive error, then each of " + ", ".join(f"{lr} {t:g} {hard:g}" for lr, t, hard in kinds))
    for name, data in sets.items():
        dataset, recipe = cu.Dataset(name, data), default_recipe(data)
        with Store(folder / f"{name.replace(':', '-')}.sqlite") as kept:
            (found,) = measured(kept, dataset, recipe, [Asked("out-of-fold", 5, lr=4 * recipe.lr)])
            ward = Ward(kept, dataset, recipe, lr=4 * recipe.lr, estimate=read_by(found, None))
            said: dict[str, list[np.ndarray]] = {"naive": [], "taught": []}
            for fold in ward.folds:
                members = [replace(lane, fold=fold) for lane in ward.naive(range(5))]
                tau = ward.adjustment(fold).tau
                students = [
                    cu.Lane("naive", s, lr * recipe.lr, fold, teaching=cu.Teaching(tau=tau, temperature=t, hard=hard))
                    for lr, t, hard in kinds
                    for s in range(3)
                ]
                said["naive"].append(ward.fit(members[:3]).probabilities(ward.judged(fold)))
                said["taught"].append(ward.fit(students, members).probabilities(ward.judged(fold)))
            errors = {
                name: [evaluate(p, ward.labels, data.counts).class_mean_error for p in np.concatenate(parts, axis=1)]
                for name, parts in said.items()
            }
            naive, taught = np.mean(errors["naive"]), errors["taught"]
            print(
                f"{name}: {naive:.2f}; " + ", ".join(f"{np.mean(taught[i : i + 3]) / naive:.2f}" for i in range(0, len(taught), 3)),
                flush=True,
            )


def _cut(bunch: Bunch, sizes: tuple[int, ...]) -> cu.Data:
    kept = np.concatenate([np.flatnonzero(bunch.target == c)[:size] for c, size in enumerate(sizes)])
    return cu.Data(bunch.data[kept].astype(np.float32), bunch.target[kept], tuple(bunch.target_names))


def cost(students: int = 8, teachers: int = 5, rounds: int = 3) -> None:
    """A student's epoch, with so many students and teachers, in plain ones: by the fastest of each, all stacks added up."""
    rng = np.random.default_rng(0)
    on_gpu: list[tuple[str, tuple[int, ...], int, int]] = [("resnet32", (3, 32, 32), 12800, 128)] if default_device() != "cpu" else []
    for network, shape, count, batch in on_gpu or [("small-conv", (1, 8, 8), 1280, 32), ("mlp", (64,), 1280, 32)]:
        inputs = rng.integers(0, 256, (count, *shape)).astype(np.uint8 if len(shape) > 1 else np.float32)
        data = cu.Data(inputs, np.arange(count) % 10)
        recipe = cu.Recipe(network, epochs=3, batch=batch, crop=int(len(shape) > 1))
        members = cu.fit(data, [cu.Lane("naive", seed) for seed in range(teachers)], recipe=recipe)
        plain = [cu.Lane("naive", seed) for seed in range(students)]
        fastest = {"plain": float("inf"), "taught": float("inf")}
        for _ in range(rounds):
            for name, lanes in (("plain", plain), ("taught", [replace(lane, teaching=cu.Teaching()) for lane in plain])):
                epochs = [0.0] * recipe.epochs

                def progress(news: Epoch, epochs: list[float] = epochs) -> None:
                    epochs[news.epoch] += news.seconds  # of one stack of several

                cu.fit(data, lanes, recipe=recipe, teachers=members, progress=progress)
                fastest[name] = min(fastest[name], *epochs)
        print(f"{network}: {students} students of {teachers} teachers take {fastest['taught'] / fastest['plain']:.2f} x plain lanes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="left out: only the cost of a student")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--store", type=Path, default=Path("remedy.sqlite"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", default="", help="of students, comma separated; all if not given")
    parser.add_argument("--recipe", default="bag-of-tricks")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--budget")
    asked = parser.parse_args()
    if asked.data is None:
        cost()
        return
    if asked.data == "small":
        with tempfile.TemporaryDirectory() as folder:
            small(Path(folder))
        return
    try:
        rows = [row.strip() for row in asked.rows.split(",") if row.strip()]
        ablation(asked.data, asked.root, asked.store, asked.seeds, asked.recipe, asked.epochs, seconds(asked.budget), rows)
    except cu.Unfinished as error:
        print(f"{error}; the same command goes on")


if __name__ == "__main__":
    main()
