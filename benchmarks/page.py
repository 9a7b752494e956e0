"""How much later a page of 1,000 classes is ready than one of ten: both in Chromium, in turn, in one run.

Ready: parsed, its tables set up, and laid out. Run from the repository's root: python benchmarks/page.py
"""

import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from scipy.special import softmax

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from browser import run_in

import class_uncertainty as cu

ROUNDS = 11
EXAMPLES = {10: 500, 1000: 10}  # of each class
READY = "document.body.offsetHeight; answer(performance.now());"
MOST_BYTES, MOST_TIMES = 5_000_000, 3.0


def audited(classes: int) -> cu.Audit:
    """Predictions of a long-tailed classifier for images of 32 x 32 pixels."""
    rng, counts = np.random.default_rng(0), np.geomspace(1000, 10, classes)
    labels = np.repeat(np.arange(classes), EXAMPLES[classes])
    leaning = np.log(counts / counts.sum()) + 7 * np.eye(classes, dtype=np.float32)[labels]
    p = softmax(2 * rng.normal(size=(len(labels), classes)) + leaning, axis=1)
    images = rng.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
    names = [f"photographs/{i:06d}.png" for i in range(len(labels))]
    return cu.audit(labels, p, [f"class {c}" for c in range(classes)], names, images, counts.astype(int))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pages = {classes: cu.write_page(audited(classes), Path(folder) / f"{classes}.html") for classes in EXAMPLES}
        times: dict[int, list[float]] = {classes: [] for classes in pages}
        for classes in [*pages] * (ROUNDS + 1):
            times[classes].append(run_in(pages[classes], READY))
        sizes = {classes: page.stat().st_size for classes, page in pages.items()}
    few, many = (median(of_page[1:]) for of_page in times.values())  # the first ones load the program
    for classes in times:
        print(f"{classes:>5} classes: {sizes[classes] / 1e6:.2f} MB, ready after {median(times[classes][1:]):.0f} ms")
    print(f"ratio {many / few:.2f} (at most {MOST_TIMES:g}), median of {ROUNDS} rounds in turn")
    if many > MOST_TIMES * few or sizes[1000] > MOST_BYTES:
        sys.exit("the page of 1,000 classes is too slow or too large.")


if __name__ == "__main__":
    main()
