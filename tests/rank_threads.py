"""Ranks as threads of this process: what they send is added up here, so that tests need no processes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local
from typing import TypeVar
from unittest.mock import patch

from torch import Tensor

from class_uncertainty.training import ranks
from class_uncertainty.training.ranks import Ranks

T = TypeVar("T")


class Messages:
    """In place of torch.distributed."""

    def __init__(self, world: int) -> None:
        self.sent: list[Tensor | None] = [None] * world
        self.barrier, self.here = Barrier(world, timeout=30), local()

    def all_reduce(self, tensor: Tensor) -> None:
        self.sent[self.here.rank] = tensor.detach().clone()
        self.barrier.wait()
        total = sum(tensor for tensor in self.sent if tensor is not None)
        self.barrier.wait()  # all have read what was sent
        tensor.copy_(total)


def in_ranks(world: int, run: Callable[[Ranks], T]) -> list[T]:
    """What `run` returns in each rank."""
    messages = Messages(world)

    def start(rank: int) -> T:
        messages.here.rank = rank
        try:
            return run(Ranks(rank, world))
        except BaseException:
            messages.barrier.abort()  # or the others would wait
            raise

    with patch.object(ranks, "dist", messages), ThreadPoolExecutor(world) as pool:
        return list(pool.map(start, range(world)))
