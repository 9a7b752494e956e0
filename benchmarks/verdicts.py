"""Verdicts of the diagnosis against truth, on data that were made so that the truth is known.

    python benchmarks/verdicts.py [--seeds 5] [--first 100] [--models logistic,forest,network]

Every class is a Gaussian cloud. Out-of-fold probabilities of three kinds of models go into `diagnose`, with the wrong
labels that `cu.label_noise` sees in them. A data set is right where every class has the verdict that it was made for,
and no other class has one. Seeds below 100 served to set the constants of the rules: they do not count as evidence.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import class_uncertainty as cu
from class_uncertainty.posthoc.diagnosis import Verdict, diagnose
from class_uncertainty.training import default_recipe

DIMENSIONS = 10


@dataclass(frozen=True)
class Scene:
    """Centres (C, D) and counts (C,) of the clouds, the share of a class's labels that are wrong, and the truth."""

    centres: NDArray[np.float64]
    counts: tuple[int, ...]
    truth: dict[int, str]
    noise: float = 0.0  # of class 0: examples of other classes that are labelled so, as a share of its labels

    def draw(self, seed: int) -> cu.Data:
        rng = np.random.default_rng(seed)
        labels = np.repeat(np.arange(len(self.counts)), self.counts)
        inputs = self.centres[labels] + rng.normal(size=(len(labels), DIMENSIONS))
        wrong = round(self.noise / (1 - self.noise) * self.counts[0]) if self.noise else 0
        labels[rng.choice(np.flatnonzero(labels), wrong, replace=False)] = 0
        return cu.Data(inputs.astype(np.float32), labels, [str(c) for c in range(len(self.counts))])


def corners(classes: int, distance: float) -> NDArray[np.float64]:
    """Centres that are all equally far apart."""
    return np.eye(classes, DIMENSIONS) * distance / np.sqrt(2)


def hub(classes: int, distance: float) -> NDArray[np.float64]:
    """Class 0 between all others, which are so far from it."""
    return np.eye(classes, DIMENSIONS, k=-1) * distance


def pair(classes: int, distance: float, apart: float) -> NDArray[np.float64]:
    """Corners, with classes 0 and 1 close to each other."""
    centres = corners(classes, distance)
    centres[1] = centres[0]
    centres[1, -1] = apart
    return centres


SCENES = {
    "nothing wrong": Scene(corners(8, 4.5), (250,) * 8, {}),
    "nothing wrong, all classes hard": Scene(corners(8, 2.0), (250,) * 8, {}),
    "nothing wrong, two classes": Scene(corners(2, 2.0), (400, 400), {}),
    "rare but easy": Scene(corners(8, 7.0), (*(300,) * 7, 60), {7: "easy"}),
    "rare and lost to the counts": Scene(corners(8, 3.2), (*(600,) * 7, 60), {7: "imbalance"}),
    "two classes, one rare": Scene(corners(2, 2.0), (1200, 150), {1: "imbalance"}),
    "common but hard": Scene(hub(8, 2.5), (300, *(250,) * 7), {0: "hard"}),
    "a confused pair": Scene(pair(8, 4.5, 1.2), (250,) * 8, {0: "confused", 1: "confused"}),
    "wrong labels": Scene(corners(8, 4.5), (250,) * 8, {0: "noise"}, noise=0.2),
    "too few test examples": Scene(corners(8, 6.0), (*(250,) * 7, 6), {7: "unknown"}),
}


def of_scikit_learn(model: LogisticRegression | RandomForestClassifier) -> Callable[[cu.Data, int], NDArray]:
    def probabilities(data: cu.Data, seed: int) -> NDArray:
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        return cross_val_predict(model, data.inputs, data.labels, cv=folds, method="predict_proba")

    return probabilities


def of_network(data: cu.Data, seed: int) -> NDArray:
    recipe = default_recipe(data, epochs=20)
    return (
        cu.estimate(data, "out-of-fold", members=5, recipe=recipe, seed=seed)
        .probabilities.mean(axis=0)
        .astype(np.float64)
    )


MODELS = {
    "logistic": of_scikit_learn(LogisticRegression(max_iter=1000)),
    "forest": of_scikit_learn(RandomForestClassifier(100, min_samples_leaf=5, random_state=0)),
    "network": of_network,
}


def verdicts(scene: Scene, model: str, seed: int) -> tuple[Verdict, ...]:
    """Of one data set that is drawn from the scene."""
    data = scene.draw(seed)
    p = MODELS[model](data, seed)
    issues = cu.label_noise(p, data.labels).ranked
    suspect = 100 * np.bincount(data.labels[issues], minlength=len(data.classes)) / data.counts
    return diagnose(data.labels, p, data.counts, classes=data.classes, suspect=suspect)


def kinds(given: tuple[Verdict, ...]) -> dict[int, str]:
    return {c: verdict.kind for c, verdict in enumerate(given) if verdict.kind}


def main(seeds: int, first: int, models: list[str]) -> None:
    print(f"| data | truth | {' | '.join(models)} | other verdicts |")
    print("|---" * (len(models) + 3) + "|")
    right_in_all = 0
    for name, scene in SCENES.items():
        right, others = [], Counter[str]()
        for model in models:
            drawn = [kinds(verdicts(scene, model, seed)) for seed in range(first, first + seeds)]
            right.append(sum(one == scene.truth for one in drawn))
            for one in drawn:
                classes = one.keys() | scene.truth.keys()
                others.update(one.get(c, "none") for c in classes if one.get(c) != scene.truth.get(c))
        truth = ", ".join(f"{kind} ({c})" for c, kind in scene.truth.items()) or "no verdict"
        wrong = ", ".join(f"{kind} × {number}" for kind, number in others.items()) or "–"
        print(f"| {name} | {truth} | {' | '.join(f'{n} of {seeds}' for n in right)} | {wrong} |", flush=True)
        right_in_all += sum(right)
    total = seeds * len(models) * len(SCENES)
    print(f"\n{right_in_all} of {total} data sets are right: {100 * right_in_all / total:.1f} %.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--models", default=",".join(MODELS))
    arguments = parser.parse_args()
    main(arguments.seeds, arguments.first, arguments.models.split(","))
