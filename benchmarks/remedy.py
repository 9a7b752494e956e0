"""Remedies, taken apart.

    make bench-remedy                                   the cost of a student
    python benchmarks/remedy.py small                   four small data sets, judged by folds
    python benchmarks/remedy.py DATA [--root FOLDER]    one with a test split, as cifar100-lt:50

With DATA, members that saw everything and out-of-fold ones are trained, and then, together, students that differ in one
thing from the first row; --rows "first,T 1" takes some. Finished networks stay in a store; --budget 9m stops cleanly,
and the same command goes on.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.utils import Bunch

import class_uncertainty as cu
from class_uncertainty.estimation import Estimate, EstimateRequest
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc import combined
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_fit
from class_uncertainty.runs.settings import Settings
from class_uncertainty.text import seconds
from class_uncertainty.training import default_recipe
from class_uncertainty.training.fit import default_device
from class_uncertainty.training.folds import judged_examples, judged_folds, judged_labels
from class_uncertainty.training.lane import Epoch
from class_uncertainty.workflows.choose import choose_adjustments
from class_uncertainty.workflows.evaluate_remedies import naive_lanes

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
    data: str,
    root: Path | None,
    store: Path,
    seeds: int,
    recipe_name: str,
    epochs: int | None,
    budget: float | None,
    rows: list[str],
) -> None:
    dataset = cu.load(data, root=root)
    recipe = default_recipe(dataset.train, recipe_name, epochs=epochs)
    test = dataset.test
    assert test is not None
    members = [cu.Lane("naive", seed, RATE) for seed in range(MOST)]
    members += [cu.Lane("naive", 0, RATE, fold=(k, FOLDS)) for k in range(FOLDS)]
    students = {
        name: [cu.Lane("naive", s, recipe.lr, teaching=replace(FIRST, **fields)) for s in range(seeds)]
        for name, fields in TAUGHT.items()
    }
    students |= {
        f"learning rate {lr:g}": [cu.Lane("naive", s, lr, teaching=FIRST) for s in range(seeds)] for lr in RATES
    }
    students["mixup"] = [cu.Lane("naive+mixup", s, recipe.lr, teaching=FIRST) for s in range(seeds)]
    if unknown := [row for row in rows if row not in students]:
        raise SystemExit(f"no row {unknown[0]!r}: there are {', '.join(students)}")
    students = {name: students[name] for name in rows or students}

    def error(p: np.ndarray) -> float:
        return evaluate(p, test.labels, dataset.train.counts).error

    taus = (0.0, 0.5, 1.0, 1.25, 1.5)
    with open_context(dataset, Settings(recipe=recipe, store=store, budget=budget)) as context:
        teachers = load_or_fit(context, members)
        p = teachers.probabilities(test)
        for name, p_group in (("one", p[:1]), ("five", p[:5]), ("eight", p[:MOST]), ("out-of-fold", p[MOST:])):
            for mean in ("geometric", "arithmetic"):
                p_mean = combined(p_group, mean)
                errors = [error(cu.adjust(p_mean, dataset.train.counts, tau)) for tau in taus]
                at = ", ".join(f"{tau:g}" for tau in taus)
                print(f"{name}, {mean}: error at tau {at}: {', '.join(f'{e:.2f}' for e in errors)}", flush=True)
        lanes = [lane for seeds_of_row in students.values() for lane in seeds_of_row]
        taught = load_or_fit(context, lanes, teachers=teachers)
        errors = [error(p_student) for p_student in taught.probabilities(test)]
        for i, name in enumerate(students):
            of_row = errors[i * seeds : (i + 1) * seeds]
            spread = f" ± {np.std(of_row, ddof=1):.2f}" if seeds > 1 else ""
            print(f"{name}: {np.mean(of_row):.2f}{spread}", flush=True)


def small(folder: Path) -> None:
    """Students by folds, in shares of the naive class-mean error.

    Teachers learn at four times the recipe's learning rate. There are three seeds.
    """
    sets = {name: dataset.train for name, dataset in small_sets().items()}
    kinds = [(lr, t, hard) for lr in (1, 4) for t in (1.0, 2.0, 4.0) for hard in (0.0, 0.3)]
    columns = ", ".join(f"{lr} {t:g} {hard:g}" for lr, t, hard in kinds)
    print(f"times the recipe's rate, T, hard: naive error, then each of {columns}")
    for name, data in sets.items():
        dataset, recipe = cu.Dataset(name, data), default_recipe(data)
        teacher_lr, folds = 4 * recipe.lr, judged_folds(dataset)
        p_naive, p_taught = [], []
        with open_context(
            dataset, Settings(recipe=recipe, store=folder / f"{name.replace(':', '-')}.sqlite")
        ) as context:
            (estimate,) = load_or_estimate(context, [EstimateRequest("out-of-fold", 5, lr=teacher_lr)])
            assert isinstance(estimate, Estimate)
            choices = choose_adjustments(context, teacher_lr, estimate, folds)
            for fold in folds:
                judged = judged_examples(dataset, fold)
                teachings = [
                    (lr, cu.Teaching(tau=choices[fold].tau, temperature=t, hard=hard)) for lr, t, hard in kinds
                ]
                students = [
                    cu.Lane("naive", seed, lr * recipe.lr, fold, teaching=teaching)
                    for lr, teaching in teachings
                    for seed in range(3)
                ]
                teachers = load_or_fit(context, naive_lanes(range(5), teacher_lr, fold))
                p_naive.append(teachers.probabilities(judged)[:3])
                p_taught.append(load_or_fit(context, students, teachers=teachers).probabilities(judged))
        labels = judged_labels(dataset)
        naive, taught = (
            np.array([evaluate(p, labels, data.counts).error for p in np.concatenate(parts, axis=1)])
            for parts in (p_naive, p_taught)
        )
        shares = taught.reshape(-1, 3).mean(axis=1) / naive.mean()
        print(f"{name}: {naive.mean():.2f}; {', '.join(f'{share:.2f}' for share in shares)}", flush=True)


def small_sets() -> dict[str, cu.Dataset]:
    """Digits with a test split; wine and breast cancer without one."""
    wine, cancer = load_wine(), load_breast_cancer()
    cuts = {"wine": _cut(wine, (59, 20, 8)), "breast cancer": _cut(cancer, (20, 357))}
    digits = {name: cu.load(name) for name in ("digits-lt:20", "digits-lt:50")}
    return digits | {name: cu.Dataset(name, data) for name, data in cuts.items()}


def _cut(bunch: Bunch, sizes: tuple[int, ...]) -> cu.Data:
    kept = np.concatenate([np.flatnonzero(bunch.target == c)[:size] for c, size in enumerate(sizes)])
    return cu.Data(bunch.data[kept].astype(np.float32), bunch.target[kept], tuple(bunch.target_names))


def cost(students: int = 8, teachers: int = 5, rounds: int = 3) -> None:
    """How many plain epochs a student's takes: the fastest of each, all stacks added up."""
    rng = np.random.default_rng(0)
    on_gpu: list[tuple[str, tuple[int, ...], int, int]] = (
        [("resnet32", (3, 32, 32), 12800, 128)] if default_device() != "cpu" else []
    )
    for network, shape, count, batch in on_gpu or [("small-conv", (1, 8, 8), 1280, 32), ("mlp", (64,), 1280, 32)]:
        inputs = rng.integers(0, 256, (count, *shape)).astype(np.uint8 if len(shape) > 1 else np.float32)
        data = cu.Data(inputs, np.arange(count) % 10)
        recipe = cu.Recipe(network, epochs=3, batch=batch, crop=int(len(shape) > 1))
        members = cu.fit(data, [cu.Lane("naive", seed) for seed in range(teachers)], recipe=recipe)
        plain = [cu.Lane("naive", seed) for seed in range(students)]
        fastest = {"plain": float("inf"), "taught": float("inf")}
        for _ in range(rounds):
            for name, lanes in (
                ("plain", plain),
                ("taught", [replace(lane, teaching=cu.Teaching()) for lane in plain]),
            ):
                epochs = [0.0] * recipe.epochs

                def progress(news: Epoch, epochs: list[float] = epochs) -> None:
                    epochs[news.epoch] += news.seconds  # of one stack of several

                cu.fit(data, lanes, recipe=recipe, teachers=members, progress=progress)
                fastest[name] = min(fastest[name], *epochs)
        ratio = fastest["taught"] / fastest["plain"]
        print(f"{network}: {students} students of {teachers} teachers take {ratio:.2f} x plain lanes")


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
    args = parser.parse_args()
    if args.data is None:
        cost()
        return
    if args.data == "small":
        with tempfile.TemporaryDirectory() as folder:
            small(Path(folder))
        return
    try:
        rows = [row.strip() for row in args.rows.split(",") if row.strip()]
        ablation(args.data, args.root, args.store, args.seeds, args.recipe, args.epochs, seconds(args.budget), rows)
    except cu.Unfinished as error:
        print(f"{error}; the same command goes on")


if __name__ == "__main__":
    main()
