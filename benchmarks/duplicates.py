"""Both readings of the paper's IF2 on digits: do duplicates change class uncertainty as they change counts?

    python benchmarks/duplicates.py [digits-lt:20]

Duplicates favour the rarer classes: the frequency of a class is its count to the power of 1 - strength, up to a factor.
"Copies" repeats images, as `?duplicate=` does, so that epochs grow. "Draws" draws the rarer classes more often, in
epochs of the same length. Five networks each, trained anew. How far a measure has moved is half the sum of its absolute
changes.
"""

import sys

import numpy as np

import class_uncertainty as cu
from class_uncertainty.metrics import rank_correlation

STRENGTHS = (0.0, 0.3, 0.5, 0.7, 1.0)
MEMBERS = 5
READINGS = ("copies", "draws")


def measured(dataset: cu.Dataset, train: cu.Data, method: str) -> tuple[np.ndarray, float | None]:
    """Class uncertainties of the original images, and their rank correlation with the class errors."""
    fitted = cu.fit(train, [cu.Lane(method, seed) for seed in range(MEMBERS)], test=dataset.test)
    uncertainty = cu.class_uncertainty(fitted.probabilities(dataset.train), dataset.train.labels)
    errors = np.mean([result.class_errors or () for result in fitted.results], axis=0)
    return cu.normalise(uncertainty), rank_correlation(uncertainty, errors)


def moved(before: np.ndarray, after: np.ndarray) -> float:
    return 0.5 * float(np.abs(after - before).sum())


def main() -> None:
    dataset = cu.load(sys.argv[1] if len(sys.argv) > 1 else "digits-lt:20")
    plain = dataset.train
    cardinality, (uncertainty, _) = cu.normalise(1 / plain.counts), measured(dataset, plain, "naive")
    columns = [
        "strength",
        "μ^C moved",
        *(f"μ^U moved, {name}" for name in READINGS),
        *(f"ρ, {name}" for name in READINGS),
    ]
    print("|", " | ".join(columns), "|\n" + "|---" * len(columns) + "|")
    for strength in STRENGTHS:
        copied = cu.duplicate(plain, strength)
        pairs = [measured(dataset, copied, "naive"), measured(dataset, plain, f"power-rs:q={1 - strength:g}")]
        numbers = [moved(cardinality, cu.normalise(1 / copied.counts)), *(moved(uncertainty, mu) for mu, _ in pairs)]
        rhos = ["–" if rho is None else f"{rho:.2f}" for _, rho in pairs]
        print(f"| {strength:g} |", " | ".join([*(f"{number:.3f}" for number in numbers), *rhos]), "|", flush=True)


if __name__ == "__main__":
    main()
