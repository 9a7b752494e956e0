"""Lanes on Ray: does a second node pay, and does the driver keep up?

    python benchmarks/ray_lanes.py speed [EPOCHS]    two nodes of one core each against one, the same comparison
    python benchmarks/ray_lanes.py driver            10,000 lanes that end at once: lanes a minute, and memory

Both need `pip install 'class-uncertainty[ray]'` and a quiet machine with two cores; the load is printed. The driver's
lanes are simulated: tasks return results without training.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import class_uncertainty as cu
from class_uncertainty.runs import ray_executor
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_evaluate
from class_uncertainty.runs.ray_task import StackEnded
from class_uncertainty.training.fit_result import LaneOutcome

DATASET = cu.load("digits-lt:20")
METHODS = ["naive", "cb-rs", "cb", "pb-rs", "focal", "balanced-softmax", "ldam", "crt"]
RECIPE = cu.Recipe("small-conv", epochs=200, batch=32)
SEEDS, LANES, WARM = 5, 10_000, 20


@contextmanager
def nodes(number: int, cores: int = 1) -> Iterator[None]:
    """A cluster of so many nodes, which this process is connected to."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cores, "include_dashboard": False})
    try:
        for _ in range(number - 1):
            cluster.add_node(num_cpus=cores)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def compare(folder: str, name: str, recipe: cu.Recipe, seeds: int) -> float:
    began = time.perf_counter()
    cu.compare(DATASET, METHODS, seeds, recipe=recipe, store=Path(folder) / f"{name}.sqlite", device="cpu", on="auto")
    return time.perf_counter() - began


def speed() -> None:
    """Seconds of the same comparison on one node and on two, and their ratio; starting workers is not counted."""
    seconds, recipe = {}, replace(RECIPE, epochs=int(sys.argv[2]) if sys.argv[2:] else RECIPE.epochs)
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 2):
            with nodes(number):
                compare(folder, f"warm-{number}", replace(RECIPE, epochs=2), 2)
                load = os.getloadavg()[0]
                seconds[number] = compare(folder, str(number), recipe, SEEDS)
                print(f"{number} of one core: {seconds[number]:.0f} s (load before {load:.1f})", flush=True)
    print(f"two nodes are {seconds[1] / seconds[2]:.2f} times as fast as one")


def driver() -> None:
    """Lanes a minute that a driver stores, and the most memory that it takes."""
    recipe, ended = replace(RECIPE, epochs=1), list[LaneOutcome]()
    cu.fit(DATASET.train, [cu.Lane("cb")], recipe=recipe, test=DATASET.test, device="cpu", done=ended.append)

    def simulated(*job: Any) -> StackEnded:
        """What `train_stack` returns, without training: the same for every lane."""
        results = [replace(ended[0].result, seed=lane.seed) for lane in job[4]]
        return StackEnded([replace(ended[0], place=place, result=result) for place, result in enumerate(results)])

    ray_executor.train_stack = simulated  # type: ignore[assignment]
    lanes = [cu.Lane("cb", seed) for seed in range(LANES)]
    with (
        tempfile.TemporaryDirectory() as folder,
        nodes(1, cores=2),
        open_context(DATASET, recipe, Path(folder) / "runs.sqlite", "cpu", on="auto") as context,
    ):
        load_or_evaluate(context, [cu.Lane("cb", LANES + seed) for seed in range(WARM)])
        load, began = os.getloadavg()[0], time.perf_counter()
        assert len(load_or_evaluate(context, lanes)) == LANES
        minutes = (time.perf_counter() - began) / 60
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    took = f"{LANES:,} lanes in {60 * minutes:.0f} s: {LANES / minutes:,.0f} a minute"
    print(f"{took}, {memory:.2f} GB (load before {load:.1f})")


if __name__ == "__main__":
    {"speed": speed, "driver": driver}[sys.argv[1] if sys.argv[1:] else "speed"]()
