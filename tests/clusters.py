"""Ray clusters of this machine for tests: nodes of one core each, and ways to break them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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


@contextlib.contextmanager
def head(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A head of two cores in processes of its own; its address for clients."""
    port = free_port()
    about = [f"--ray-client-server-port={port}", "--port=0", "--include-dashboard=false", f"--temp-dir={folder}"]
    command = [Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--num-cpus=2", *about]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        last = time.monotonic() + 60
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > last:
                raise RuntimeError(f"no head of Ray has started on port {port}: see {folder}")
            time.sleep(0.2)
        yield f"ray://127.0.0.1:{port}"
    finally:
        process.terminate()  # it ends the processes of the head
        process.wait()


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


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


def at_random_moments(
    work: Callable[[], Any], times: int, between: tuple[float, float], seed: int, happen: Callable[..., bool]
) -> tuple[Any, int]:
    """What work returns, and how often something happened meanwhile: so many times at most, in this thread.

    Ray starts nodes in the main thread alone, so the work is done in another.
    """
    rng, happened = np.random.default_rng(seed), 0
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        while happened < times and not working.done():
            time.sleep(rng.uniform(*between))
            happened += happen(rng)
        return working.result(), happened


def newest(folder: Path) -> float:
    """When a file of a folder was last written."""
    with contextlib.suppress(OSError):
        return max((file.stat().st_mtime for file in folder.iterdir()), default=0.0)
    return 0.0
