"""Heads of frozen features: `cu compare` of ten methods and three seeds against thirty fits of scikit-learn.

Both train on the same standardised features, N x 1,280 of 20 classes, in one run. scikit-learn fits its
LogisticRegression (lbfgs, its defaults apart from C) once on every number of threads up to the machine's, and thirty
fits are taken to be thirty times the fastest: on a busy machine fewer threads are faster. The memory is the peak of
this process up to the end of `cu compare`, test split included.
"""

import argparse
import os
import resource
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import class_uncertainty as cu
from class_uncertainty.training.recipe import RECIPES

FEATURES, CLASSES, SEEDS, FITS, DIRECTIONS = 1280, 20, 3, 30, 100
METHODS = ["naive", "cb-rs", "cb", "focal", "cb-focal", "ldam", "balanced-softmax", "logit-adjust", "vs", "2s-cb-rs"]


def long_tailed(rows: int, seed: int) -> cu.Data:
    """Correlated features whose classes overlap, 20 times as many of the largest class as of the smallest."""
    rng, shared = np.random.default_rng(seed), np.random.default_rng(0)
    shares = 20.0 ** (-np.arange(CLASSES) / (CLASSES - 1))
    labels = rng.choice(CLASSES, rows, p=shares / shares.sum())
    means = shared.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    directions = shared.normal(size=(DIRECTIONS, FEATURES)).astype(np.float32)
    inputs = rng.standard_normal((rows, FEATURES), np.float32)
    for block in np.array_split(np.arange(rows), max(1, rows // 10_000)):
        inputs[block] += 0.2 * means[labels[block]]
        inputs[block] += 0.3 * rng.standard_normal((len(block), DIRECTIONS), np.float32) @ directions
    return cu.Data(inputs, labels, [f"class {c}" for c in range(CLASSES)])


def fastest_fit(train: cu.Data, penalty: float) -> float:
    """Seconds of a fit by scikit-learn, standardised before the clock starts."""
    inputs = (train.inputs - train.inputs.mean(axis=0)) / train.inputs.std(axis=0)
    seconds = []
    for threads in range(1, (os.cpu_count() or 1) + 1):
        with threadpool_limits(threads), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            began = time.perf_counter()
            fitted = LogisticRegression(C=1 / (penalty * len(train))).fit(inputs, train.labels)
            seconds.append(time.perf_counter() - began)
        print(f"  scikit-learn, {threads} threads: {seconds[-1]:.1f} s, {fitted.n_iter_[0]} iterations", flush=True)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="training examples (default: 100,000)")
    given = parser.parse_args()
    recipe = RECIPES["embeddings"]
    dataset = cu.Dataset("features", long_tailed(given.rows, 1), long_tailed(given.rows // 10, 2))
    began = time.perf_counter()
    comparison = cu.compare(dataset, methods=METHODS, seeds=SEEDS, recipe=recipe, device="cpu")
    ours = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kilobytes on Linux
    for row in comparison.rows:
        print(f"  {row.method:20} {row.error:5.2f} ± {row.error_sd or 0:.2f} %", flush=True)
    theirs = FITS * fastest_fit(dataset.train, recipe.weight_decay)
    print(f"{given.rows:,} x {FEATURES:,}: cu compare of {len(METHODS)} methods x {SEEDS} seeds {ours:.0f} s,")
    print(f"{FITS} fits {theirs:.0f} s: ratio {ours / theirs:.2f}; peak memory {memory:.1f} GiB")


if __name__ == "__main__":
    main()
