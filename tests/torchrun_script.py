"""Started by torchrun: trains lanes, and prints what they saw and lost. `test_torchrun.py` trains them in one process.

With the argument "fault" the first process fails at the end of an epoch.
"""

import errno
import json
import sys
from contextlib import ExitStack, closing

import numpy as np
from torch import nn

import class_uncertainty as cu
from class_uncertainty.errors import Unfinished
from class_uncertainty.measures import Stats
from class_uncertainty.runs.place import is_torchrun
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import train_lanes
from class_uncertainty.training.stage_context import FitOptions

LANES = [cu.Lane("naive"), cu.Lane("cb-rs", gather="online"), cu.Lane("ubrw-focal"), cu.Lane("naive+mixup")]
LANES += [cu.Lane("ldam-rw")]  # its loss is divided by the weights of the whole batch


def examples() -> cu.Data:
    """Ten classes in noise, long-tailed. Digits would take a second of imports in each process."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(10), [50, 40, 30, 22, 16, 12, 8, 5, 3, 2])
    noise = rng.integers(0, 120, (len(labels), 1, 8, 8)) + 13 * labels[:, None, None, None]
    return cu.Data(noise.astype(np.uint8), labels)


def plain() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3))


def normed() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3))


def train(network: str, budget: float | None = None, fault: Exception | None = None) -> dict:
    """The losses of every epoch of every lane, and how often each example was drawn where a lane counts that."""
    from class_uncertainty.runs.torchrun import current_executor

    data, losses = examples(), dict[str, list[float]]()
    recipe = cu.Recipe(network, epochs=2, batch=31, lr=0.02, crop=1, drop_last=False)  # the last batch has two examples
    fitted = cu.Fit.untrained(data, LANES, recipe, "cpu", None)

    def report(epoch) -> None:
        for lane, loss in zip(epoch.lanes, epoch.loss, strict=True):
            losses.setdefault(lane.name, []).append(loss)
        if fault and epoch.lanes[0].name != "naive+mixup":  # which trains in the first process alone
            raise fault

    stats = Stats(data.counts, tuple(0.1 * c for c in range(1, 11)))
    options = FitOptions(stats, None, report, None, 10, Deadline.after(budget), None, None)
    with closing(train_lanes(fitted, data, options, current_executor("cpu"))) as batches:
        ended = [outcome for batch in batches for outcome in batch]
    seen = {LANES[one.place].name: one.lane.gathered["seen"].tolist() for one in ended if one.lane.gathered}
    return {"losses": losses, "seen": seen}


def train_all() -> dict:
    """Both networks, the second after a training whose budget was spent at once."""
    trained = {"plain": train("plain")}
    try:
        train("normed", budget=1e-6)
    except Unfinished as error:
        trained["unfinished"] = {"error": str(error)}
    return trained | {"normed": train("normed")}


if __name__ == "__main__":
    cu.register_network("plain", plain)
    cu.register_network("normed", normed)
    with ExitStack() as stack:
        runs = True
        if is_torchrun():
            from class_uncertainty.runs.torchrun import joined_ranks

            runs = stack.enter_context(joined_ranks())
        if runs and sys.argv[1:] == ["fault"]:
            train("plain", fault=OSError(errno.ENOSPC, "the disk is full"))
        elif runs:
            json.dump(train_all(), sys.stdout)
