"""Which single network, and which student, is best: rows judged on validation images, never on test images.

    python benchmarks/better_student.py "cifar100-lt:50?validation=50" --recipe bag-of-tricks [--root FOLDER]

A row is a method with changes of the recipe, as `cu fix --candidates` reads it. Students have a row of their own, after
the row that teaches them. Finished networks stay in a store; --budget 9m stops cleanly, and the same command goes on.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import class_uncertainty as cu
from class_uncertainty.errors import Unfinished
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc import combined
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_fit
from class_uncertainty.runs.settings import Settings
from class_uncertainty.text import seconds
from class_uncertainty.training import Recipe, default_recipe
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.recipe_specs import parse_recipe, split_changes

STRONG = "balanced-softmax+autoaugment+cutout"
COSINE = "schedule=cosine&weight_decay=5e-4"
TEACHERS = f"{STRONG}?lr=0.2&{COSINE}"
LONG = f"{COSINE}&epochs=400"
SINGLE: dict[str, tuple[str, ...]] = {  # rows of one part share a recipe, and so train together
    "cosine": (
        TEACHERS,
        f"{STRONG}?lr=0.1&{COSINE}",
        f"{STRONG}+mixup?lr=0.2&{COSINE}",
        f"balanced-softmax?lr=0.2&{COSINE}",
        f"naive+autoaugment+cutout?lr=0.2&{COSINE}",
    ),
    "drops": (
        *(f"{STRONG}?lr={lr}" for lr in (0.1, 0.2, 0.4)),
        "naive?lr=0.4",
        "balanced-softmax?lr=0.4",
        "ldam-rw?lr=0.1",
        "balanced-softmax+mixup?lr=0.4",
    ),
    "average": tuple(f"{STRONG}?lr={lr}&{COSINE}&average=0.3" for lr in (0.1, 0.2, 0.4)),
    "weak decay": tuple(f"{STRONG}?lr={lr}&schedule=cosine" for lr in (0.1, 0.4)),
    "long": (f"{STRONG}?lr=0.1&{LONG}&average=0.3", f"{STRONG}+mixup?lr=0.1&{LONG}&average=0.3"),
}
SEEDS = {TEACHERS: 5}
# does a quarter of the epochs order the rows as all of them do?
SHORT = tuple(f"{row}&epochs=50" for part in ("cosine", "drops", "average", "weak decay") for row in SINGLE[part])
STUDENTS: dict[str, tuple[tuple[str, dict], ...]] = {  # rows of one part see the same images: (row, changed teaching)
    "weak": (
        *((f"naive?lr={lr}&{COSINE}", {}) for lr in (0.05, 0.1, 0.2, 0.4)),
        (f"naive?lr=0.1&{COSINE}", {"temperature": 4.0}),
        (f"naive?lr=0.1&{COSINE}", {"hard": 0.2}),
    ),
    "strong": (
        *((f"naive+autoaugment+cutout?lr={lr}&{COSINE}", {}) for lr in (0.1, 0.2, 0.4)),
        (f"naive+autoaugment+cutout?lr=0.2&{COSINE}", {"temperature": 4.0}),
    ),
    "mixed": tuple((f"naive+mixup?lr={lr}&{COSINE}", {}) for lr in (0.1, 0.2)),
    "strong, drops": tuple((f"naive+autoaugment+cutout?lr={lr}", {}) for lr in (0.1, 0.2)),
    "strong, average": tuple((f"naive+autoaugment+cutout?lr={lr}&{COSINE}&average=0.3", {}) for lr in (0.1, 0.2)),
    "weak, patient": tuple((f"naive?lr={lr}&{LONG}", {}) for lr in (0.1, 0.2)),
    "strong, patient": tuple((f"naive+autoaugment+cutout?lr={lr}&{LONG}", {}) for lr in (0.1, 0.2)),
    "mixed, patient": tuple((f"naive+mixup?lr={lr}&{LONG}", {}) for lr in (0.1, 0.2)),
}
TAUS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


def at(context: Context, row: str) -> tuple[Context, str, float]:
    """The context, the method and the learning rate of a row."""
    method, fields = split_changes(row)
    lr = fields.pop("lr", context.recipe.lr)
    return replace(context, recipe=replace(context.recipe, **fields)), method, lr


def trained(context: Context, rows: Sequence[str]) -> dict[str, Fit]:
    """Every row's networks; rows of one recipe train together."""
    alike: dict[Recipe, list[str]] = {}
    for row in rows:
        alike.setdefault(at(context, row)[0].recipe, []).append(row)
    fits = {}
    for group in alike.values():
        lanes = {}
        for row in group:
            of_row, method, lr = at(context, row)
            lanes[row] = [cu.Lane(method, seed, lr) for seed in range(SEEDS.get(row, 1))]
        fitted = load_or_fit(of_row, [lane for lanes_of_row in lanes.values() for lane in lanes_of_row])
        for row in group:
            fits[row] = fitted.pick(lanes[row])
            tell(context, row, fits[row])
    return fits


def teach(context: Context, part: str) -> None:
    """Students that see the same images, by one recipe."""
    of_teachers, method, lr = at(context, TEACHERS)
    teachers = load_or_fit(of_teachers, [cu.Lane(method, seed, lr) for seed in range(SEEDS[TEACHERS])])
    lanes = []
    for row, fields in STUDENTS[part]:
        of_row, method, lr = at(context, row)
        lanes.append(cu.Lane(method, 0, lr, teaching=cu.Teaching(**({"tau": 0.0, "temperature": 2.0} | fields))))
    fitted = load_or_fit(of_row, lanes, teachers=teachers, what="students")
    for (row, fields), lane in zip(STUDENTS[part], lanes, strict=True):
        tell(context, f"student: {row}", fitted.pick([lane]), **fields)


def tell(context: Context, row: str, fitted: Fit, **more: object) -> None:
    """One line: the class-mean error by tau of each network, and of all together."""
    test, counts = context.dataset.test, context.train.counts
    assert test is not None
    if any(result.diverged is not None for result in fitted.results):
        print(json.dumps({"row": row, "diverged": True}), flush=True)
        return
    p = fitted.probabilities(test).astype(np.float64)
    errors = [
        [evaluate(cu.adjust(q, counts, tau), test.labels, counts).error for tau in TAUS] for q in (*p, combined(p))
    ]
    rounded = [[round(error, 2) for error in row_errors] for row_errors in errors]
    took = sum(result.seconds for result in fitted.results) / len(p)
    print(json.dumps({"row": row, "by tau": rounded, "seconds": round(took, 1), **more}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--recipe", default="bag-of-tricks")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--store", type=Path, default=Path("better.sqlite"))
    parser.add_argument("--budget", type=seconds)
    every = ";".join([*SINGLE, *STUDENTS, "short"])
    parser.add_argument("--parts", default=every, help=f"by default {every}")
    options = parser.parse_args()
    dataset = cu.load(options.data, root=options.root)
    name, changes = parse_recipe(options.recipe)
    recipe = default_recipe(dataset.train, name, **changes)
    deadline = Deadline.after(options.budget)
    print(json.dumps({"taus": TAUS, "classes": len(dataset.classes), "train": len(dataset.train)}))
    with open_context(dataset, Settings(recipe=recipe, store=options.store, budget=deadline)) as context:
        try:
            for part in options.parts.split(";"):
                if part in STUDENTS:
                    teach(context, part)
                else:
                    trained(context, SHORT if part == "short" else SINGLE[part])
        except Unfinished as unfinished:
            print(unfinished)


if __name__ == "__main__":
    main()
