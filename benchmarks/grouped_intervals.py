"""How often 95 % intervals of class errors hold the truth where examples of a group err alike.

    python benchmarks/grouped_intervals.py

Groups of unequal size have error rates of their own, from a Beta distribution whose intraclass correlation is rho.
"independent" are the exact intervals that take examples as independent, "groups" those of counts that are divided by
design effects, as reports show them where data are read with ?group=.
"""

import numpy as np

from class_uncertainty.posthoc.intervals import design_effects, share_interval

CLASSES, ROUNDS = 3, 600


def covered(groups: int, size: int, rate: float, rho: float, rng: np.random.Generator) -> tuple[float, ...]:
    """Percent of the intervals that hold the rate: independent, groups."""
    hits = np.zeros(2)
    for _ in range(ROUNDS):
        sizes = rng.poisson(size - 1, (CLASSES, groups)) + 1
        spread = (1 - rho) / rho if rho else 1e9
        rates = rng.beta(rate * spread, (1 - rate) * spread, (CLASSES, groups))
        labels, codes = (np.repeat(index.ravel(), sizes.ravel()) for index in np.indices(sizes.shape))
        wrong = (rng.random(len(labels)) < np.repeat(rates.ravel(), sizes.ravel())).astype(float)
        errors, examples = np.bincount(labels, wrong), np.bincount(labels)
        for i, effects in enumerate((np.ones(CLASSES), design_effects(wrong, labels, CLASSES, codes))):
            low, high = share_interval(errors / effects, examples / effects)
            hits[i] += ((low <= 100 * rate) & (100 * rate <= high)).mean()
    return tuple(100 * hits / ROUNDS)


def main() -> None:
    rng = np.random.default_rng(0)
    print("| groups | mean size | error rate | rho | independent, % | groups, % |\n|--:|--:|--:|--:|--:|--:|")
    for groups in (10, 30, 200):
        for size, rate in ((5, 0.03), (5, 0.2), (20, 0.2), (20, 0.5)):
            for rho in (0.0, 0.2, 0.6):
                independent, of_groups = covered(groups, size, rate, rho, rng)
                print(f"| {groups} | {size} | {rate:g} | {rho:g} | {independent:.1f} | {of_groups:.1f} |", flush=True)


if __name__ == "__main__":
    main()
