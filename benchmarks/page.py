"""How much later pages of 1,000 classes are ready than pages of ten: in Chromium, in turn, in one run.

Ready: parsed, its tables set up, and laid out. Run from the repository's root: python benchmarks/page.py
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from browser import run_in
from reporting.examples import fix_report  # type: ignore[import-not-found]

import class_uncertainty as cu
from class_uncertainty.reporting.fix_page import fix_page
from class_uncertainty.reporting.fix_view import view_fix
from class_uncertainty.reporting.page import write
from class_uncertainty.reporting.page_examples import estimate_examples
from class_uncertainty.reporting.result_pages import class_page
from class_uncertainty.runs.rows import class_rows

ROUNDS = 11
EXAMPLES = {10: 500, 1000: 10}  # of each class
READY = "document.body.offsetHeight; answer(performance.now());"
MOST_BYTES, MOST_TIMES = 5_000_000, 3.0


def predictions(classes: int) -> tuple[cu.Data, NDArray[np.float64]]:
    """Images of 32 x 32 pixels, and what a long-tailed classifier says of them."""
    rng, counts = np.random.default_rng(0), np.geomspace(1000, 10, classes)
    labels = np.repeat(np.arange(classes), EXAMPLES[classes])
    leaning = np.log(counts / counts.sum()) + 7 * np.eye(classes, dtype=np.float32)[labels]
    p = softmax(2 * rng.normal(size=(len(labels), classes)) + leaning, axis=1)
    images = rng.integers(0, 256, (len(labels), 3, 32, 32), dtype=np.uint8)
    names = [f"photographs/{i:06d}.png" for i in range(len(labels))]
    return cu.Data(images, labels, [f"class {c}" for c in range(classes)], names=names), p


def write_audit(classes: int, path: Path) -> None:
    data, p = predictions(classes)
    counts, names = np.geomspace(1000, 10, classes).astype(int), [data.name_of(i) for i in range(len(data))]
    cu.write_page(cu.audit(data.labels, p, data.classes, names, data.inputs, counts), path)


def write_report(classes: int, path: Path) -> None:
    """What an estimate and a fix of the same data are shown as."""
    data, p = predictions(classes)
    dataset, report = cu.Dataset("photographs", data), fix_report(classes, seeds=1, classes=data.classes)
    estimate = cu.Estimate("out-of-fold", p[None].astype(np.float32), data.labels)
    rows = tuple(class_rows(data.classes, report.counts, estimate, dataset))
    rows = tuple(replace(row, error=error) for row, error in zip(rows, report.before.class_errors[0], strict=True))
    examples = estimate_examples(estimate, dataset)
    measured = class_page(dataset.name, rows, estimate, examples)
    page = fix_page(view_fix(report, dataset), examples)
    write([replace(page, blocks=[*page.blocks, *measured.folded("Also stored: classes")])], path)


def compare(kind: str, write: Callable[[int, Path], None]) -> bool:
    """Whether the page of many classes is small and fast enough."""
    with tempfile.TemporaryDirectory() as folder:
        pages = {classes: Path(folder) / f"{classes}.html" for classes in EXAMPLES}
        for classes, page in pages.items():
            write(classes, page)
        times: dict[int, list[float]] = {classes: [] for classes in pages}
        for classes in [*pages] * (ROUNDS + 1):
            times[classes].append(run_in(pages[classes], READY))
        sizes = {classes: page.stat().st_size for classes, page in pages.items()}
    few, many = (median(of_page[1:]) for of_page in times.values())  # the first ones load the program
    for classes, ready in zip(times, (few, many), strict=True):
        print(f"{kind}, {classes:>5} classes: {sizes[classes] / 1e6:.2f} MB, ready after {ready:.0f} ms")
    print(f"{kind}: ratio {many / few:.2f} (at most {MOST_TIMES:g}), median of {ROUNDS} rounds in turn")
    return many <= MOST_TIMES * few and sizes[1000] <= MOST_BYTES


def main() -> None:
    passed = [compare(kind, write) for kind, write in {"audit": write_audit, "report": write_report}.items()]
    if not all(passed):
        sys.exit("a page of 1,000 classes is too slow or too large.")


if __name__ == "__main__":
    main()
