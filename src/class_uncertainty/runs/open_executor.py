"""Where lanes train: in this process, or on a Ray cluster."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from class_uncertainty.errors import InputError
from class_uncertainty.runs.place import check_place

if TYPE_CHECKING:
    from class_uncertainty.training.executor import Executor

On = Any  # str | Executor | None, checked here


def open_executor(on: On, device: str | None) -> "AbstractContextManager[Executor | None]":
    """What trains lanes there; None stands for this process."""
    if on is not None and not isinstance(on, str):
        return nullcontext(on)
    if on is None:
        return nullcontext()
    check_place(on, device=device)
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
