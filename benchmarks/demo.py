"""The demo on ten draws of its data: what `cu fix` gains, and weights by class uncertainty beside those by counts.

`python benchmarks/demo.py` prints a table, a row a draw. It takes about five minutes on two cores.
"""

import tempfile
from pathlib import Path

import numpy as np

import class_uncertainty as cu
from class_uncertainty.cli.demo_command import DATA, ESTIMATOR, METHODS, RATES

DRAWS = 10
COLUMNS = ("draw", "before", "`cu fix`", "change", "95 % interval", *METHODS.values())


def main() -> None:
    rows = []
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + "---|" * len(COLUMNS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for draw in range(DRAWS):
            row = measure(draw, Path(folder) / f"{draw}.sqlite")
            rows.append(row)
            print_row(str(draw), row)
    before, after, _, high = np.array([row[:4] for row in rows]).T
    clear = sum(high < 0)
    errors = np.array([row[4:] for row in rows])
    means = errors.mean(axis=0)
    print_row("mean", [before.mean(), after.mean(), float("nan"), float("nan"), *means])
    by_counts, by_uncertainty = errors[:, 1], errors[:, 2]
    gap = by_counts - by_uncertainty
    error = gap.std(ddof=1) / np.sqrt(DRAWS)
    print(f"\nThe gain of `cu fix` is clear on {clear} of {DRAWS} draws. Weights by uncertainty have an error that is")
    print(f"{gap.mean():.2f} ± {error:.2f} points (a standard error) below that of weights by counts.")


def measure(draw: int, store: Path) -> list[float]:
    """The class-mean error before and after a fix, the ends of the change's interval, and the errors of METHODS."""
    dataset = cu.load(DATA, seed=draw)
    fixed = cu.fix(dataset, store=store)
    prices = fixed.report.price
    assert prices is not None
    compared = cu.compare(dataset, methods=[*METHODS], lrs=RATES, choose_lr=True, estimator=ESTIMATOR, store=store)
    errors = {row.method: row.error for row in compared.rows}
    sides = [float(np.mean(side.errors)) for side in (fixed.before, fixed.after)]
    return [*sides, prices.mean.low, prices.mean.high, *(float(errors[method] or np.nan) for method in METHODS)]


def print_row(name: str, row: list[float]) -> None:
    before, after, low, high, *errors = row
    interval = "" if np.isnan(low) else f"{low:+.1f} to {high:+.1f}"
    cells = [
        name,
        f"{before:.1f}",
        f"{after:.1f}",
        f"{after - before:+.1f}",
        interval,
        *(f"{one:.1f}" for one in errors),
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
