"""Where lanes train: in this process, on a Ray cluster, or in all processes of torchrun."""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from class_uncertainty.errors import InputError, unknown

if TYPE_CHECKING:
    from class_uncertainty.training.executor import Executor

On = Any  # str | Executor | None, checked here
LOCAL, AUTO, REMOTE = "ray", "auto", "ray://HOST:PORT"
ADDRESS = re.compile(r"ray://([^/:\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")


def check_place(on: str, profiles: bool = False) -> None:
    """Refuse what is neither 'ray', 'auto' nor 'ray://HOST:PORT', and a trace of other machines."""
    if on.startswith("ray:"):
        address = ADDRESS.fullmatch(on)
        if address is None or not 0 < int(address[2]) < 2**16:
            raise InputError(f"{on!r} is no place to train on: an address is {REMOTE}, as ray://head:10001.")
    elif on not in (LOCAL, AUTO):
        raise unknown("place to train on", on, [LOCAL, AUTO, REMOTE])
    if profiles:
        raise InputError("a trace is of one process: leave out --profile, or --on.")


def is_torchrun() -> bool:
    """Whether torchrun has started this process with others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def open_executor(on: On, device: str | None, profiles: bool = False) -> "AbstractContextManager[Executor | None]":
    """What trains lanes there; None stands for this process."""
    if on is not None and not isinstance(on, str):
        return nullcontext(on)
    if is_torchrun():
        from class_uncertainty.runs.torchrun import current_executor

        if on is not None:
            raise InputError(f"--on is {on!r} under torchrun: lanes train on a cluster or in all processes, not both.")
        return nullcontext(current_executor(device))
    if on is None:
        return nullcontext()
    check_place(on, profiles)
    return _on_ray(on, device)


@contextmanager
def _on_ray(on: str, device: str | None) -> "Iterator[Executor]":
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        raise InputError("--on needs Ray: pip install 'class-uncertainty[ray]'.") from None
    from class_uncertainty.runs.ray_cluster import open_cluster
    from class_uncertainty.runs.ray_executor import RayExecutor

    with open_cluster(on, device) as cluster:
        yield RayExecutor(cluster)
