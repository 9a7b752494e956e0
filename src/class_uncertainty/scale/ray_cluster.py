"""A Ray cluster that this process is connected to. Importing this imports Ray."""

import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

# Ray's client reads these when it is imported, and tries three times: nine seconds in all, not thirty
os.environ.setdefault("RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S", "3")
os.environ.setdefault("RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S", "3")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")  # that prints a stack of C++ after SIGTERM

import ray
from ray._private import ray_constants, utils
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from class_uncertainty import __version__
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.scale.targets import AUTO, LOCAL
from class_uncertainty.text import reason

PATIENCE = 4  # seconds in which the head of a cluster must take a connection
STARTING = 120  # seconds in which a node must have started a process and imported torch
TOKENS = (2, 52)  # the first version of Ray whose clusters can ask for a token
HEAD = "node:__internal_head__"  # a resource that the head node alone has


@contextmanager
def open_cluster(on: str, device: str | None) -> Iterator[str]:
    """Connect to a cluster, or start a local one that ends with the context, and yield the device of its lanes.

    A cluster that this process is connected to is used as it is.
    """
    is_connected = ray.is_initialized()
    if on != LOCAL:
        _check_tokens(on)
    try:
        if not is_connected:
            _connect(on)
        device = _device(on, device)
        if on != LOCAL:
            check_versions()
        yield device
    except Exception as error:
        if not on.startswith("ray://") or not is_lost(error):
            raise
        advice = "the same command goes on from the last checkpoints"
        raise MachineFault(f"the connection to the Ray cluster at {on} is lost: {advice}.") from error
    finally:
        if not is_connected:
            ray.shutdown()


def is_lost(error: Exception) -> bool:
    """Whether an error says that the connection of Ray's client is broken; gRPC is there where Ray's client is."""
    return isinstance(error, ConnectionError) or type(error).__module__.startswith("grpc.")


def alive_nodes() -> list[dict[str, Any]]:
    """Return Ray's rows of the nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def node_name(node: str) -> str:
    """Name a node by its identifier, dead or alive: 'node gpu7 (3f2a91bc)'."""
    for row in ray.nodes():
        if row["NodeID"] == node:
            return f"node {row['NodeManagerHostname']} ({node[:8]})"
    return f"node {node[:8]}" if node else "an unknown node"


def on_node(node: str, soft: bool) -> NodeAffinitySchedulingStrategy:
    """Run a task on that node; where it is gone, on another one if `soft`."""
    return NodeAffinitySchedulingStrategy(node, soft=soft)


def _check_tokens(on: str) -> None:
    """Refuse a version of Ray whose clusters run the tasks of whoever reaches them."""
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if version < TOKENS:
        needed = f"{TOKENS[0]}.{TOKENS[1]}"
        raise InputError(
            f"--on is {on!r}, and the clusters of Ray {ray.__version__} cannot ask for a token: "
            f"install Ray {needed} or newer, or give --on {LOCAL}, which no other machine can reach."
        )


def _connect(on: str) -> None:
    """Connect to the cluster, or start a local one."""
    if on == LOCAL:
        # Ray would listen on all addresses of this machine, even where it is told that the node's is 127.0.0.1
        with _changed(ray_constants, "ENABLE_RAY_CLUSTER", False):
            _init("local", include_dashboard=False)
        return
    if on != AUTO:
        _check_address(on)
        logging.getLogger("ray.util.client.logsclient").disabled = True  # it tells that it connects again
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the sentence below says it
            _init(on)
    except ModuleNotFoundError as error:
        raise InputError(f"--on {on} needs Ray's client: pip install 'class-uncertainty[ray]'.") from error
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError, ray.exceptions.RayError) as error:
        if on == AUTO and isinstance(error, ConnectionError):
            advice = "start one by 'ray start --head', or give --on ray"
            raise InputError(f"--on is 'auto', and no Ray cluster runs here: {advice}.") from error
        raise MachineFault(f"the Ray cluster at {on} cannot be used: {_why_unusable(error)}.") from error


def _init(address: str, **options: Any) -> None:
    """Let Ray connect without a word, and without taking SIGTERM, for which it would exit with code 15."""
    with _held_back(), _changed(utils, "set_sigterm_handler", lambda handler: None):
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **options)


@contextmanager
def _held_back() -> Iterator[None]:
    """Let signals wait until Ray has started: processes that it is about to start could not be stopped.

    The handlers are set again behind it: some versions of Ray take SIGTERM, and print a stack of C++.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = list[int]()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in handlers:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _changed(module: Any, name: str, value: Any) -> Iterator[None]:
    """Change something of Ray's for which it has no option."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _check_address(on: str) -> None:
    """Refuse an address that takes no connections at once: Ray's client would say the same after nine seconds."""
    address = urlsplit(on)
    try:
        socket.create_connection((address.hostname, address.port), PATIENCE).close()
    except OSError as error:
        why = error.strerror or f"no answer within {PATIENCE} seconds"
        raise MachineFault(f"there is no Ray cluster at {on}: {why}.") from error


def _why_unusable(error: Exception) -> str:
    """Say why Ray could not connect. Its client tells only a timeout, whatever answers at the address."""
    message = str(error).strip()
    if message.startswith("Initialization failure from server"):  # its last line has the cause
        return message.rpartition("\n")[2].rstrip(".: ")
    if "connection timeout" not in message:
        return reason(error)
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return "no head of Ray answers there, or it does not take the token that Ray finds here"
    advice = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what 'ray get-auth-token' prints on the head"
    return f"no head of Ray answers there, or it asks for a token: {advice}"


def _device(on: str, device: str | None) -> str:
    """'cuda' where the cluster has GPUs, unless 'cpu' is given."""
    has_gpus = ray.cluster_resources().get("GPU", 0) > 0
    if device == "cuda" and not has_gpus:
        raise InputError(f"device is 'cuda', and the cluster of --on {on} has no GPUs: give 'cpu', or add nodes.")
    if device:
        return device
    return "cuda" if has_gpus else "cpu"


def check_versions() -> None:
    """Refuse nodes with another version of this package or of torch, by name."""
    probe = ray.remote(num_cpus=0, max_retries=0)(difference)
    answers = []
    for node in alive_nodes():
        on_it = probe.options(scheduling_strategy=on_node(node["NodeID"], soft=False))
        answers.append(on_it.remote(versions()))
    for answer in answers:
        try:
            refusal = ray.get(answer, timeout=STARTING)
        except ray.exceptions.RayError:
            continue  # the node has just left, or is busy: every task compares versions again
        if refusal:
            raise InputError(refusal)


def versions() -> dict[str, str]:
    """Return the versions that must be the same everywhere for the same bits."""
    import torch

    return {"class-uncertainty": __version__, "torch": torch.__version__}


def _make_difference() -> Callable[[dict[str, str]], str]:
    """Return a function that travels with its code: it runs where this package may be missing, or an older one."""

    def difference(ours: dict[str, str]) -> str:
        from importlib import import_module
        from socket import gethostname

        for package, version in ours.items():
            try:
                theirs = f"{package} {import_module(package.replace('-', '_')).__version__}"
            except ImportError:
                theirs = f"no {package}"
            if theirs != f"{package} {version}":
                given = f"node {gethostname()} has {theirs}, and the driver {version}"
                return f"{given}: install the same version on both."
        return ""

    return difference


difference = _make_difference()  # of a node's versions from those of the driver, in a sentence; "" where there is none
