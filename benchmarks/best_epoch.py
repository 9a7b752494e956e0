"""What choosing epochs on test images gains: published code often reports the best epoch, this package the last.

    python benchmarks/best_epoch.py cifar10-lt:100 --methods dro+autoaugment+cutout,2s-cam-rs --root DATA

Every epoch of a method's last stage is evaluated on the test images: of DRO-LT, those of its head. The lowest of these
errors is what a choice on them would report. DRO-LT's released code also chooses the features that the head is trained
on: those of the epoch in which the nearest class centroid, by cosine, is most often right on the test images. These are
the centroids of the loss here, and there those of the training images without augmentation, after the epoch. The head
is then trained on the chosen features as well. Nothing else in this package computes such errors.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.metrics import evaluate
from class_uncertainty.training import stage_runner
from class_uncertainty.training.checkpoints import LaneState
from class_uncertainty.training.fit_result import as_tensor
from class_uncertainty.training.networks.stack import State
from class_uncertainty.training.recipe import default_recipe
from class_uncertainty.training.stack_training import StackTraining
from class_uncertainty.training.train_step import StepProgram

SEEDS = 3

Errors = list[list[float]]  # of each lane, after each epoch of its last stage


def wrong_by_centroid(features: Tensor, centroids: Tensor, labels: Tensor) -> Tensor:
    """How many features (lanes, B, D) are nearest, by cosine, to another centroid (lanes, C, D) than their own."""
    nearest = (F.normalize(features, dim=-1) @ F.normalize(centroids, dim=-1).mT).argmax(dim=-1)  # (lanes, B)
    return (nearest != labels).sum(dim=-1)


def centroid_errors(training: StackTraining, test: cu.Data) -> list[float]:
    """How often the nearest of the epoch's class centroids is another class's, in percent, by lane."""
    assert isinstance(training.program, StepProgram)
    fitted, centroids = training.context.fitted, training.program.centroids
    labels, inputs = torch.from_numpy(test.labels).to(fitted.device), as_tensor(test.inputs).to(fitted.device)
    wrong = torch.zeros(len(centroids), device=fitted.device)
    for rows, features in fitted._features(training.stack, inputs):
        by_lane = features.float().unflatten(1, (len(centroids), -1)).transpose(0, 1)
        wrong += wrong_by_centroid(by_lane, centroids, labels[rows])
    return (100 * wrong / len(test)).tolist()


def errors_by_epoch(
    dataset: cu.Dataset,
    lanes: Sequence[cu.Lane],
    recipe: cu.Recipe,
    features_errors: Callable[[StackTraining, cu.Data], list[float]] = centroid_errors,
) -> tuple[Errors, Errors]:
    """Class-mean test errors on the last features, and on those chosen on test images: empty where none are."""
    assert dataset.test
    test = dataset.test
    on_last: Errors = [[] for _ in lanes]
    on_chosen: Errors = [[] for _ in lanes]
    chosen = dict[int, tuple[float, State]]()  # the lowest error of nearest centroids and the weights then, by place

    class Evaluated(StackTraining):
        errors = on_last

        def run(self) -> list[LaneState]:
            states = super().run()
            if self.errors is on_last and chosen and self.context.any_last(self.places):
                before = {place: replace(self.context.before[place], state=chosen[place][1]) for place in self.places}
                OnChosen(replace(self.context, before=before), self.places, []).run()
            return states

        def _take_snapshots(self, epoch: int) -> None:
            super()._take_snapshots(epoch)
            if self.context.any_last(self.places):
                batches = self.context.fitted.batches(self.stack, self.lanes, test)
                probabilities = np.concatenate([batch for _, batch in batches], axis=1)
                for place, p in zip(self.places, probabilities, strict=False):
                    self.errors[place].append(evaluate(p, test.labels, dataset.train.counts).error)
            elif self.context.stage.trains == "body":
                for place, error, state in zip(
                    self.places, features_errors(self, test), self.stack.states(), strict=False
                ):
                    if place not in chosen or error < chosen[place][0]:
                        chosen[place] = error, state

    class OnChosen(Evaluated):
        errors = on_chosen

    stage_runner.StackTraining = Evaluated  # type: ignore[misc]
    try:
        cu.fit(dataset.train, lanes, recipe=recipe, test=test)
    finally:
        stage_runner.StackTraining = StackTraining  # type: ignore[misc]
    return on_last, on_chosen


def mean_and_deviation(errors: Sequence[float]) -> str:
    return f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--methods", required=True, help="names, separated by commas")
    parser.add_argument("--root", type=Path, help="the data folder")
    parser.add_argument("--recipe", default="bag-of-tricks")
    given = parser.parse_args()
    dataset = cu.load(given.data, root=given.root)
    recipe = default_recipe(dataset.train, given.recipe)
    print("| method | last epoch | best epoch | best epoch on chosen features | n |\n|---|---|---|---|---|")
    for method in given.methods.split(","):
        lanes = [cu.Lane(method, seed) for seed in range(SEEDS)]
        on_last, on_chosen = errors_by_epoch(dataset, lanes, recipe)
        columns = [[errors[-1] for errors in on_last], [min(errors) for errors in on_last]]
        columns += [[min(errors) for errors in on_chosen]] if all(on_chosen) else []
        cells = [mean_and_deviation(column) for column in columns] + ["–"] * (3 - len(columns))
        print(f"| `{method}` | {' | '.join(cells)} | {SEEDS} |", flush=True)


if __name__ == "__main__":
    main()
