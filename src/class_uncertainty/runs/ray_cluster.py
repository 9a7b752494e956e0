"""A Ray cluster: connecting to it, what its nodes have, and whether they run the same versions as this process."""

import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Ray reads these when it is imported: where something answers that may be a busy head, a client tries for 25 seconds
os.environ.setdefault("RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S", "5")
os.environ.setdefault("RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S", "10")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from class_uncertainty import __version__
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.runs.place import AUTO, LOCAL
from class_uncertainty.text import reason

PATIENCE = 10  # seconds in which a cluster must answer
STARTING = 120  # seconds in which a node must have started a process and imported torch
# what a task raises whose node has just gone
LEAVING = (ray.exceptions.NodeDiedError, ray.exceptions.TaskUnschedulableError, ray.exceptions.WorkerCrashedError)
HEAD = "node:__internal_head__"  # a resource that the head node alone has


@dataclass(frozen=True)
class Node:
    """A node that is alive."""

    id: str
    name: str
    resources: dict[str, float]


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to, and the device that lanes train on there."""

    device: str

    def nodes(self) -> list[Node]:
        """Those that are alive now."""
        alive = [node for node in ray.nodes() if node["Alive"]]
        return [Node(node["NodeID"], node["NodeManagerHostname"], node["Resources"]) for node in alive]

    def name_of(self, node: str) -> str:
        """The host name of a node, dead or alive."""
        names = {row["NodeID"]: f"{row['NodeManagerHostname']} ({row['NodeID'][:8]})" for row in ray.nodes()}
        return names.get(node, node[:8])


@contextmanager
def open_cluster(on: str, device: str | None) -> Iterator[Cluster]:
    """Connect to a cluster, or start a local one that ends with the context. One that is connected is used as it is."""
    started = not ray.is_initialized()
    if started:
        _connect(on)
    try:
        cluster = Cluster(_device(on, device))
        if on != LOCAL:
            check_versions(cluster)
        yield cluster
    finally:
        if started:
            ray.shutdown()


def _connect(on: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if on == LOCAL:
        ray.init("local", include_dashboard=False, **quiet)
        return
    if on != AUTO:
        _check_answers(on)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the sentence below says it
            ray.init(on, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        if on == AUTO and isinstance(error, ConnectionError):
            advice = "start one by 'ray start --head', or give --on ray"
            raise InputError(f"--on is 'auto', and no Ray cluster runs here: {advice}.") from error
        # Ray's client says no more than this where a head is too busy to answer, or wants a token
        timed_out = "connection timeout" in str(error)
        why = "its head is too busy, or asks for authentication" if timed_out else reason(error)
        raise MachineFault(f"the Ray cluster at {on} cannot be used: {why}.") from error


def _check_answers(on: str) -> None:
    """Refuse an address at which nothing listens."""
    host, _, port = on.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except OSError as error:
        why = "nothing answered in ten seconds" if isinstance(error, TimeoutError) else error.strerror or reason(error)
        raise MachineFault(f"there is no Ray cluster at {on}: {why}.") from error


def _device(on: str, device: str | None) -> str:
    """'cuda' where the cluster has GPUs, unless 'cpu' is given."""
    gpus = ray.cluster_resources().get("GPU", 0)
    if device == "cuda" and not gpus:
        raise InputError(f"device is 'cuda', and the cluster of --on {on} has no GPUs: give 'cpu', or add nodes.")
    if device not in (None, "cpu", "cuda"):
        raise InputError(f"device is {device!r}: on a Ray cluster it is 'cpu' or 'cuda'.")
    return device or ("cuda" if gpus else "cpu")


def check_versions(cluster: Cluster) -> None:
    """Refuse nodes with another version of this package or of torch, by name."""
    nodes = cluster.nodes()
    probe = ray.remote(num_cpus=0, max_retries=0)(_probe())
    answers = [probe.options(scheduling_strategy=on_node(node.id, soft=False)).remote() for node in nodes]
    for node, answer in zip(nodes, answers, strict=True):
        try:
            theirs = ray.get(answer, timeout=STARTING)
        except ray.exceptions.GetTimeoutError as error:
            raise MachineFault(f"node {node.name} of the cluster did not answer in {STARTING} s.") from error
        except LEAVING:
            continue  # every task compares versions again
        except ray.exceptions.RayError as error:
            raise MachineFault(f"node {node.name} of the cluster does not work: {reason(error)}.") from error
        check_same_versions(node.name, theirs, versions())


def on_node(node: str, soft: bool) -> NodeAffinitySchedulingStrategy:
    """Run a task on that node; where it is gone, on another one if `soft`."""
    return NodeAffinitySchedulingStrategy(node, soft=soft)


def versions() -> dict[str, str]:
    """What must be the same everywhere for the same bits."""
    import torch

    return {"class-uncertainty": __version__, "torch": torch.__version__}


def check_same_versions(node: str, theirs: dict[str, str], ours: dict[str, str]) -> None:
    """Refuse a node with other versions than the driver has; "" is a package that is not installed."""
    for package, version in ours.items():
        if theirs[package] != version:
            given = f"{package} {theirs[package]}" if theirs[package] else f"no {package}"
            raise InputError(f"node {node} has {given}, and the driver {version}: install the same version on both.")


def _probe() -> Any:
    """A function that travels with its code: it runs where this package may be missing, or an older one."""

    def installed() -> dict[str, str]:
        from importlib import import_module

        found = {}
        for package, module in (("class-uncertainty", "class_uncertainty"), ("torch", "torch")):
            try:
                found[package] = str(import_module(module).__version__)
            except ImportError:
                found[package] = ""
        return found

    return installed
