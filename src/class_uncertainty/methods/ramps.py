"""Ramps: how strongly a knob acts in an epoch, from 0 (at rest) to 1 (on target)."""

from collections.abc import Callable

Ramp = Callable[[int, int], float]  # (epoch from 0, epochs) -> strength


def always(epoch: int, epochs: int) -> float:
    """On from the first epoch."""
    return 1.0


def linear(epoch: int, epochs: int) -> float:
    """t / T with t from 1: progressive balancing as Bag-of-Tricks counts it."""
    return (epoch + 1) / epochs


def second_stage(epochs: int) -> int:
    """The epoch in which it begins: the last fifth of the epochs, from epoch 160 of 200; one epoch at least."""
    return epochs - max(1, round(epochs / 5))


def late(epoch: int, epochs: int) -> float:
    """On in the second stage."""
    return float(epoch >= second_stage(epochs))


def late_linear(epoch: int, epochs: int) -> float:
    """Progressive in the second stage, by the absolute epoch as in Bag-of-Tricks: it starts at 0.8, not at 0."""
    return late(epoch, epochs) * linear(epoch, epochs)


LATE = (late, late_linear)  # at rest before the second stage
