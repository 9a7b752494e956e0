"""Ray clusters of this machine for tests: nodes of one core each, and ways to break them."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def two_nodes() -> Iterator[Any]:
    """A head and a second node, of one core each; this process is connected."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.second = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def workers() -> list[int]:
    """Processes that train a stack now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(b"ray::train_stack"):
                found.append(int(process.name))
    return found


def kill_worker(rng: np.random.Generator) -> bool:
    """Kill one that trains; whether there was any."""
    if training := workers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(rng.choice(training)), signal.SIGKILL)
            return True
    return False


@contextlib.contextmanager
def at_random_moments(
    times: int, between: tuple[float, float], seed: int, happen: Callable[..., bool]
) -> Iterator[Any]:
    """Let something happen so many times while the context is open; yields the moments at which it did."""
    rng, moments, stop = np.random.default_rng(seed), list[float](), threading.Event()

    def run() -> None:
        began = time.monotonic()
        while len(moments) < times and not stop.wait(rng.uniform(*between)):
            if happen(rng):
                moments.append(time.monotonic() - began)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield moments
    finally:
        stop.set()
        thread.join()
