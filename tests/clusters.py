"""Ray clusters of this machine for tests: nodes of one core each, and ways to break them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np

LISTENS = "0A"  # the state of a socket that takes connections, in Linux's tables


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
        for one in [*descendants(process.pid), process.pid]:  # asked to end, it would let tasks train on for 30 seconds
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
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
    """Processes that train a stack now, of clusters that this process has started: others may use the machine."""
    return [one for one in descendants(os.getpid()) if _read(one, "cmdline").startswith("ray::train_stack")]


def descendants(process: int) -> list[int]:
    """The processes that a process has started, those that they have started, and so on."""
    children: dict[int, list[int]] = {}
    for child in Path("/proc").glob("[0-9]*"):
        if stat := _read(child.name, "stat"):
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(child.name))
    family = [process]
    for one in family:
        family += children.get(one, [])
    return family[1:]


def _read(process: int | str, file: str) -> str:
    """What Linux says of a process; "" where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/{file}").read_text(errors="replace")
    return ""


def listening(processes: list[int]) -> dict[str, int]:
    """How many sockets of these processes take connections, by the address of this machine that they listen on."""
    inodes = set()
    for process in processes:
        for file in Path(f"/proc/{process}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(file))
    addresses: Counter[str] = Counter()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *fields = line.split()
            if state == LISTENS and f"socket:[{fields[5]}]" in inodes:
                words = bytes.fromhex(local.partition(":")[0])
                address = ip_address(b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4)))
                addresses[str(getattr(address, "ipv4_mapped", None) or address)] += 1
    return dict(addresses)


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
    """When a checkpoint of a folder was last written."""
    with contextlib.suppress(OSError):
        return max((file.stat().st_mtime for file in folder.glob("*.safetensors")), default=0.0)
    return 0.0
