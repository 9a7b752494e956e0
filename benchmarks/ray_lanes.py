"""Lanes on Ray: does a second node pay, and does the driver keep up?

    python benchmarks/ray_lanes.py speed [EPOCHS]    two nodes of one core each against one, the same comparison;
                                                     two processes against one without Ray; when stacks trained, where
    python benchmarks/ray_lanes.py driver            10,000 lanes that end at once: lanes a minute, and memory

Both need `pip install 'class-uncertainty[ray]'` and a quiet machine with two cores; the load is printed. The driver's
lanes are simulated: tasks return results without training.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import class_uncertainty as cu
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_evaluate
from class_uncertainty.runs.settings import Settings
from class_uncertainty.scale import ray_executor, ray_task
from class_uncertainty.scale.ray_task import Job, StackEnded
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
    cu.compare(
        DATASET,
        methods=METHODS,
        seeds=seeds,
        recipe=recipe,
        store=Path(folder) / f"{name}.sqlite",
        device="cpu",
        on="auto",
    )
    return time.perf_counter() - began


def speed() -> None:
    """Seconds of the same comparison on one node and on two, and their ratio; starting workers is not counted.

    The machine sets a limit to it: two processes of one thread, each with half of the lanes, against one, without Ray.
    """
    nodes_took, recipe = {}, replace(RECIPE, epochs=int(sys.argv[2]) if sys.argv[2:] else RECIPE.epochs)
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 2):
            with nodes(number):
                compare(folder, f"warm-{number}", replace(RECIPE, epochs=2), 2)
                log_stacks(log := Path(folder) / f"{number}.jsonl")
                load, began, used = os.getloadavg()[0], time.time(), time.process_time()
                nodes_took[number] = compare(folder, str(number), recipe, SEEDS)
                about = f"load before {load:.1f}, {time.process_time() - used:.1f} s of CPU for the driver"
                print(f"{number} of one core: {nodes_took[number]:.0f} s ({about})", flush=True)
                print_stacks(log, began)
    took = {number: plain_seconds(number, recipe) for number in (1, 2)}
    print(f"one process and two without Ray: {took[1]:.0f} and {took[2]:.0f} s, {took[1] / took[2]:.2f} times as fast")
    print(f"two nodes are {nodes_took[1] / nodes_took[2]:.2f} times as fast as one")


def log_stacks(log: Path) -> None:
    """Let every stack write a line: its node, its methods, when it began and ended, and its CPU time."""

    def logged(job: Job, train: Any, test: Any, teachers: Any, places: list[int], *rest: Any) -> StackEnded:
        import ray

        began, used = time.time(), time.process_time()
        ended = ray_task.train_stack(job, train, test, teachers, places, *rest)
        methods = sorted({job.fitted.lanes[place].name for place in places})
        node = ray.get_runtime_context().get_node_id()[:4]
        with log.open("a") as file:
            file.write(json.dumps([node, methods, began, time.time(), time.process_time() - used]) + "\n")
        return ended

    ray_executor.train_stack = logged  # type: ignore[assignment]


def print_stacks(log: Path, began: float) -> None:
    stacks = sorted(map(json.loads, log.read_text().splitlines()), key=lambda stack: stack[2])
    for node, methods, start, end, used in stacks:
        print(
            f"  node {node}: {start - began:5.1f} to {end - began:5.1f} s, {used:4.1f} s of CPU: {', '.join(methods)}"
        )


def plain_seconds(number: int, recipe: cu.Recipe) -> float:
    """Seconds in which so many processes of one thread train all lanes, each its share of the methods, without Ray."""
    spawned = get_context("spawn")
    start, ended = spawned.Barrier(number), spawned.Queue()
    shares = [METHODS[place::number] for place in range(number)]
    processes = [spawned.Process(target=train_share, args=(methods, recipe, start, ended)) for methods in shares]
    for process in processes:
        process.start()
    seconds = max(ended.get() for _ in processes)
    for process in processes:
        process.join()
    return seconds


def train_share(methods: list[str], recipe: cu.Recipe, start: Any, ended: Any) -> None:
    torch.set_num_threads(1)
    lanes = [cu.Lane(method, seed) for method in methods for seed in range(SEEDS)]
    cu.fit(DATASET.train, lanes, recipe=replace(recipe, epochs=1), test=DATASET.test, device="cpu")
    start.wait()
    began = time.perf_counter()
    cu.fit(DATASET.train, lanes, recipe=recipe, test=DATASET.test, device="cpu")
    ended.put(time.perf_counter() - began)


def driver() -> None:
    """Lanes a minute that a driver stores, and the most memory that it takes."""
    recipe, ended = replace(RECIPE, epochs=1), list[LaneOutcome]()
    cu.fit(DATASET.train, [cu.Lane("cb")], recipe=recipe, test=DATASET.test, device="cpu", done=ended.append)

    def simulated(job: Job, train: Any, test: Any, teachers: Any, places: list[int], *_: Any) -> StackEnded:
        """What `train_stack` returns, without training: the same for every lane."""
        results = {place: replace(ended[0].result, seed=job.fitted.lanes[place].seed) for place in places}
        return StackEnded([replace(ended[0], place=place, result=result) for place, result in results.items()])

    ray_executor.train_stack = simulated  # type: ignore[assignment]
    lanes = [cu.Lane("cb", seed) for seed in range(LANES)]
    with (
        tempfile.TemporaryDirectory() as folder,
        nodes(1, cores=2),
        open_context(
            DATASET, Settings(recipe=recipe, store=Path(folder) / "runs.sqlite", device="cpu", on="auto")
        ) as context,
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
