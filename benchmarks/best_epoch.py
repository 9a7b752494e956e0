"""What choosing the epoch on test images gains: published code often reports the best epoch, this package the last.

    python benchmarks/best_epoch.py cifar10-lt:100 --methods dro+autoaugment+cutout,2s-cam-rs --root DATA

Every epoch of a method's last stage is evaluated on the test images: of DRO-LT, those of its head. The lowest of these
errors is what a choice on them would report; nothing else in this package computes it.
"""

import argparse
from pathlib import Path

import numpy as np

import class_uncertainty as cu
from class_uncertainty.metrics import evaluate
from class_uncertainty.training import stage_runner
from class_uncertainty.training.recipe import default_recipe
from class_uncertainty.training.stack_training import StackTraining

SEEDS = 3


def errors_by_epoch(dataset: cu.Dataset, lanes: list[cu.Lane], recipe: cu.Recipe) -> list[list[float]]:
    """Class-mean test errors of each lane after each epoch of its last stage."""
    assert dataset.test
    test, errors = dataset.test, [list[float]() for _ in lanes]

    class Evaluated(StackTraining):
        def _take_snapshots(self, epoch: int) -> None:
            super()._take_snapshots(epoch)
            if self.context.any_last(self.places):
                batches = self.context.fitted.batches(self.stack, self.lanes, test)
                probabilities = np.concatenate([batch for _, batch in batches], axis=1)
                for place, p in zip(self.places, probabilities, strict=False):
                    errors[place].append(evaluate(p, test.labels, dataset.train.counts).error)

    stage_runner.StackTraining = Evaluated  # type: ignore[misc]
    try:
        cu.fit(dataset.train, lanes, recipe=recipe, test=test)
    finally:
        stage_runner.StackTraining = StackTraining  # type: ignore[misc]
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--methods", required=True, help="names, separated by commas")
    parser.add_argument("--root", type=Path, help="the data folder")
    parser.add_argument("--recipe", default="bag-of-tricks")
    given = parser.parse_args()
    dataset = cu.load(given.data, root=given.root)
    recipe = default_recipe(dataset.train, given.recipe)
    print("| method | last epoch | best epoch on test images | n |\n|---|---|---|---|")
    for method in given.methods.split(","):
        errors = errors_by_epoch(dataset, [cu.Lane(method, seed) for seed in range(SEEDS)], recipe)
        pairs = np.array([(lane[-1], min(lane)) for lane in errors])
        last, best = (f"{mean:.2f} ± {sd:.2f}" for mean, sd in zip(pairs.mean(0), pairs.std(0, ddof=1), strict=True))
        print(f"| `{method}` | {last} | {best} | {SEEDS} |", flush=True)


if __name__ == "__main__":
    main()
