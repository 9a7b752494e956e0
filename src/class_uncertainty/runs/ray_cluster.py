"""A Ray cluster: connecting to it, what its nodes have, and whether they run the same versions as this process."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Ray's client reads these when it is imported, and tries three times: nine seconds in all, not thirty
os.environ.setdefault("RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S", "3")
os.environ.setdefault("RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S", "3")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from class_uncertainty import __version__
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.runs.place import AUTO, LOCAL
from class_uncertainty.text import reason

PATIENCE = 4  # seconds in which the head of a cluster must answer
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
        """'node gpu7 (3f2a91bc)', dead or alive."""
        names = {row["NodeID"]: f"node {row['NodeManagerHostname']} ({row['NodeID'][:8]})" for row in ray.nodes()}
        return names.get(node, f"node {node[:8]}" if node else "an unknown node")


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
    except Exception as error:
        if not on.startswith("ray://") or not is_lost(error):
            raise
        advice = "the same command goes on from the last checkpoints"
        raise MachineFault(f"the connection to the Ray cluster at {on} is lost: {advice}.") from error
    finally:
        if started:
            ray.shutdown()


def is_lost(error: Exception) -> bool:
    """Whether an error says that the connection of Ray's client is broken; gRPC is there where Ray's client is."""
    return isinstance(error, ConnectionError) or type(error).__module__.startswith("grpc.")


def _connect(on: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if on == LOCAL:
        ray.init("local", include_dashboard=False, **quiet)
        return
    if on != AUTO:
        _check_head(on)
        logging.getLogger("ray.util.client.logsclient").disabled = True  # it tells that it connects again
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the sentence below says it
            ray.init(on, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError, ray.exceptions.RayError) as error:
        if on == AUTO and isinstance(error, ConnectionError):
            advice = "start one by 'ray start --head', or give --on ray"
            raise InputError(f"--on is 'auto', and no Ray cluster runs here: {advice}.") from error
        # Ray's client says no more than this where a head is too busy to answer, or does not take the token
        timed_out = "connection timeout" in str(error)
        begins, _, cause = str(error).strip().rpartition("\n")
        why = cause if begins.startswith("Initialization failure from server") else reason(error)
        why = "its head is too busy, or does not take the token that Ray finds here" if timed_out else why.rstrip(".: ")
        raise MachineFault(f"the Ray cluster at {on} cannot be used: {why}.") from error


def _check_head(on: str) -> None:
    """Refuse an address at which no head of Ray answers, or one that asks for a token where Ray would send none."""
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return  # Ray's own connection has the certificates, and fails after nine seconds
    try:
        import grpc
    except ModuleNotFoundError:
        raise InputError(f"--on {on} needs Ray's client: pip install 'class-uncertainty[ray]'.") from None
    from ray.core.generated.ray_client_pb2 import ClusterInfoRequest, ClusterInfoType
    from ray.core.generated.ray_client_pb2_grpc import RayletDriverStub
    from ray.util.client.common import GRPC_OPTIONS

    ping = ClusterInfoRequest(type=ClusterInfoType.PING)
    with grpc.insecure_channel(on.removeprefix("ray://"), GRPC_OPTIONS) as channel:
        try:
            RayletDriverStub(channel).ClusterInfo(ping, timeout=PATIENCE)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAUTHENTICATED:
                why = _why_no_head(error.code().name, error.details() or "")
                raise MachineFault(f"there is no Ray cluster at {on}: {why}.") from error
            if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
                advice = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what 'ray get-auth-token' prints on its head"
                raise InputError(f"the Ray cluster at {on} asks for a token: {advice}.") from error


def _why_no_head(code: str, details: str) -> str:
    """What gRPC says in many words: 'Connection refused', or that something else answers."""
    if code == "DEADLINE_EXCEEDED":
        return f"no head answered in {PATIENCE} seconds"
    if code == "UNAVAILABLE" and "HTTP/2" not in details:
        return reason(OSError(details.rpartition(": ")[2].rstrip("]")))
    return "what answers there is not the client port of a Ray head"


def _device(on: str, device: str | None) -> str:
    """'cuda' where the cluster has GPUs, unless 'cpu' is given."""
    gpus = ray.cluster_resources().get("GPU", 0)
    if device == "cuda" and not gpus:
        raise InputError(f"device is 'cuda', and the cluster of --on {on} has no GPUs: give 'cpu', or add nodes.")
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

        named = {}
        for package, module in (("class-uncertainty", "class_uncertainty"), ("torch", "torch")):
            try:
                named[package] = str(import_module(module).__version__)
            except ImportError:
                named[package] = ""
        return named

    return installed
