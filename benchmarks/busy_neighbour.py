"""Training beside a busy program: what idle threads that sleep, as class-uncertainty sets them, save.

    python benchmarks/busy_neighbour.py

Images are trained while one busy process runs for each core. Each row is a process of its own; the rows take turns, and
the fastest of their repetitions counts, since this machine may have other neighbours. "as it is" must take at most 1.3
times as long as with OMP_WAIT_POLICY=PASSIVE set by hand.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRAIN = """
import time
import numpy as np
import class_uncertainty as cu

rng = np.random.default_rng(0)
data = cu.Data(rng.integers(0, 256, (256, 3, 32, 32), dtype=np.uint8), np.arange(256) % 8)
lanes, recipe = [cu.Lane("naive", seed) for seed in range(5)], cu.Recipe("small-conv", epochs=1, batch=32, crop=1)
cu.fit(data.take(np.arange(32)), lanes, recipe=recipe, device="cpu")  # what only the first training does
began = time.perf_counter()
cu.fit(data, lanes, recipe=recipe, device="cpu")
print(time.perf_counter() - began)
"""
BUSY = "while True: pass"
HAND = "OMP_WAIT_POLICY=PASSIVE by hand"
ROWS = {  # what the environment has more, and what runs before the training
    "as it is": ({}, ""),
    HAND: ({"OMP_WAIT_POLICY": "PASSIVE"}, ""),
    "OMP_WAIT_POLICY=ACTIVE": ({"OMP_WAIT_POLICY": "ACTIVE"}, ""),
    "torch imported first": ({}, "import torch\n"),
    "torch imported first, one thread": ({"OMP_NUM_THREADS": "1"}, "import torch\n"),
}
MOST = 1.3  # times as long as by hand


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many programs that do nothing, as fast as they can."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def seconds(row: str) -> float:
    """Of one training in a process of its own."""
    more, before = ROWS[row]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    command = [sys.executable, "-c", before + TRAIN]
    return float(subprocess.run(command, env=environment | more, capture_output=True, text=True, check=True).stdout)


def compared(repeats: int, neighbours: int) -> dict[str, float]:
    """The fastest training of each row, in seconds; the rows take turns."""
    with busy(neighbours):
        times: dict[str, list[float]] = {row: [] for row in ROWS}
        for _ in range(repeats):
            for row, of_row in times.items():
                of_row.append(seconds(row))
    return {row: min(of_row) for row, of_row in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--neighbours", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    times = compared(options.repeats, options.neighbours)
    print(f"{options.neighbours} busy neighbours on {os.cpu_count()} cores, fastest of {options.repeats} turns")
    for row, taken in times.items():
        print(f"  {row:<34} {taken:6.2f} s   {taken / times[HAND]:5.2f} x")
    ratio = times["as it is"] / times[HAND]
    print(f"as it is: {ratio:.2f} times as long as by hand, at most {MOST} allowed")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    main()
