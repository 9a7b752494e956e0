"""What soundness costs: sealed checkpoints, verified pixels, and estimates larger than memory.

    make bench-integrity                     all three
    python benchmarks/integrity.py estimates 1000 115846      classes, rows

Checkpoints and pixels: with and without seals and syncs, in turns in one process; ratios of medians. Estimates:
`cu measure` and `cu report` in processes of their own, with the peak memory of each (Linux).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread
from unittest import mock

import numpy as np

import class_uncertainty as cu
from class_uncertainty.data import cache
from class_uncertainty.io import SEAL_LENGTH
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.fit import default_device

ROUNDS = 9
LIMIT = 4096  # megabytes for the estimates


class Unsealed(Checkpoints):
    """As they were before: no checksum, no sync, each file written and renamed by itself."""

    def save(self, lanes: Mapping[str, LaneState]) -> None:
        from safetensors.torch import save

        self.folder.mkdir(parents=True, exist_ok=True)
        for key, lane in lanes.items():
            parts = {"state": lane.state, "momentum": lane.momenta, "gathered": lane.gathered}
            tensors = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
            partial = self.folder / f"{key}.partial"
            partial.write_bytes(save(tensors, {"about": "{}"}))
            os.replace(partial, self.file(key))


def in_turns(first: Callable[[], None], second: Callable[[], None], rounds: int = ROUNDS) -> float:
    """How many times as long the first takes, by the median of the rounds."""
    ratios = []
    for _ in range(rounds + 1):
        times = []
        for work in (first, second):
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
        ratios.append(times[0] / times[1])
    return statistics.median(ratios[1:])  # the first warms up


def checkpoints(place: Path) -> None:
    """A training with its checkpoints, kept every 10 epochs as `cu` does; on a GPU of the paper's network."""
    device = default_device()
    if device == "cuda":
        rng = np.random.default_rng(0)
        train = cu.Data(rng.integers(0, 256, (10_000, 3, 32, 32)).astype(np.uint8), np.arange(10_000) % 100)
        recipe, lanes = (
            cu.Recipe("resnet32", epochs=20, batch=128, crop=4, flip=True),
            [cu.Lane(seed=seed) for seed in range(16)],
        )
    else:
        train = cu.load("digits-lt:20").train
        recipe, lanes = cu.Recipe("small-conv", epochs=40, batch=32, crop=1), [cu.Lane(seed=seed) for seed in range(16)]

    def training(kind: type[Checkpoints]) -> Callable[[], None]:
        def work() -> None:
            kept = kind(place / "running")
            fitted = cu.fit(train, lanes, recipe=recipe, checkpoints=kept)
            kept.remove(fitted.keys)

        return work

    ratio = in_turns(training(Checkpoints), training(Unsealed), ROUNDS if device == "cpu" else 3)
    trained = f"{len(lanes)} lanes of {recipe.network} on {device}, {recipe.epochs} epochs"
    print(f"{trained}: sealed checkpoints {ratio:.3f} x (limit 1.05)")


def pixels(place: Path) -> None:
    """Loading decoded images and training on them for one epoch, the least that a command does with them."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i in range(2000):
        file = place / "pictures" / str(i % 4) / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3)).astype(np.uint8)).save(file)
    os.environ["CLASS_UNCERTAINTY_CACHE"] = str(place / "cache")
    recipe = cu.Recipe("small-conv", epochs=1, batch=32, crop=1)

    def verified() -> None:
        cu.fit(cu.load(f"folder:{place / 'pictures'}").train, [cu.Lane()], recipe=recipe)

    def unverified() -> None:
        def mapped(path: Path, key: str) -> np.ndarray:
            return np.memmap(path, np.uint8, "c")[:-SEAL_LENGTH]

        with mock.patch.object(cache, "read_sealed", mapped):
            verified()

    ratio = in_turns(verified, unverified)
    print(f"2,000 images from the cache, one lane, one epoch: verified {ratio:.3f} x (limit 1.03)")


def estimates(place: Path, classes: int, rows: int) -> None:
    """Measure and report many classes, five members, features, no test split: folds judge."""
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.repeat(np.arange(classes), 2), rng.integers(0, classes, rows - 2 * classes)])
    np.savez(place / "many.npz", X=rng.normal(size=(rows, 16)).astype(np.float32) + labels[:, None] % 16, y=labels)
    member = rows * classes * 4 / 2**20
    for command in (["measure", "npz:many.npz", "--epochs", "1", "--members", "5", "--json"], ["report"]):
        began = time.perf_counter()
        with open(place / "out.txt", "w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "class_uncertainty.cli.app", *command], cwd=place, stdout=out
            )
            peak, anonymous = watched(process)
        took = f"{time.perf_counter() - began:.0f} s, at most {peak:,.0f} MB with mapped files (limit {LIMIT:,})"
        print(f"cu {command[0]}, {classes:,} classes x {rows:,} rows x 5 members: {took}, {anonymous:,.0f} MB without")
        print(f"One member's probabilities are {member:,.0f} MB")
        assert peak < LIMIT


def watched(process: "subprocess.Popen[bytes]") -> tuple[float, float]:
    """The most megabytes that a process has until it ends: with mapped files, and without."""
    most, ended = [0.0], Event()

    def look() -> None:
        while not ended.wait(0.02):
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                return
            most[0] = max(
                most[0],
                *(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("RssAnon")),
                0.0,
            )

    thread = Thread(target=look)
    thread.start()
    _, status, usage = os.wait4(process.pid, 0)
    ended.set()
    thread.join()
    assert status == 0, f"{process.args!r} ended with {status}"
    return usage.ru_maxrss / 1024, most[0]


def main(only: str = "", *numbers: str) -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        place = Path(folder).resolve()
        if only in ("", "checkpoints"):
            checkpoints(place)
        if only in ("", "pixels"):
            pixels(place)
        if only in ("", "estimates"):
            classes, rows = map(int, numbers or (1000, 115_846))
            estimates(place, classes, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
