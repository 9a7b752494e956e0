"""What was printed, and lines of it."""

from collections.abc import Callable

from class_uncertainty.training.network_size import NetworkSize

Printed = Callable[..., str]


def in_one_line(out: str) -> str:
    return " ".join(out.split())


def line_of(out: str, name: str) -> list[str]:
    return next(line.split() for line in out.splitlines() if line.strip().startswith(name))


RESNET = NetworkSize("resnet32", 464_154)
