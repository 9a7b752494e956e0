"""How long ClassSampler takes to draw an epoch, as a multiple of NumPy's permutation of as many, in one run.

    python benchmarks/class_sampler.py [labels]

Each line is the median of five rounds, in which both are timed one after the other. `indices` is an epoch as Python's
numbers, as a DataLoader reads it.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import class_uncertainty as cu

LABELS = 10_000_000
ROUNDS = 5
MOST = 3.0  # permutations that drawing may take


def seconds(call: Callable[[], object]) -> float:
    since = time.perf_counter()
    call()
    return time.perf_counter() - since


def exhaust(sampler: cu.ClassSampler) -> None:
    for _ in sampler:
        pass


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else LABELS
    print(f"{number:,} labels; times in NumPy permutations of as many\n")
    print("| classes | alpha | draw | indices |\n| --- | --- | --- | --- |")
    slow = []
    for classes in (2, 10, 1000):
        rng = np.random.default_rng(0)
        share = 1 / np.arange(1, classes + 1)
        labels = rng.choice(classes, number, p=share / share.sum())
        for name, alpha in (("natural", None), ("equal", np.ones(classes))):
            sampler, ratios = cu.ClassSampler(labels, alpha), list[tuple[float, float]]()
            for epoch in range(ROUNDS):
                sampler.set_epoch(epoch)
                unit = seconds(partial(rng.permutation, number))
                ratios.append((seconds(sampler.order) / unit, seconds(partial(exhaust, sampler)) / unit))
            draw, indices = (statistics.median(column) for column in zip(*ratios, strict=True))
            print(f"| {classes:,} | {name} | {draw:.2f} | {indices:.2f} |", flush=True)
            slow += [f"{classes} classes, {name}: {draw:.2f}"] if draw > MOST else []
    sys.exit(f"slower than {MOST:g} permutations: {'; '.join(slow)}" if slow else 0)


if __name__ == "__main__":
    main()
