"""Where a step's time goes on a GPU: each group of kernels beside the bytes that it must move.

    python benchmarks/kernels.py [--lanes 16] [--torch]

Trains a stack of ResNet-32 on random pictures for two epochs through cu.fit(profile=...) and reads the trace. The bytes
are each activation that a kernel reads or writes, counted once; what is read again and comes from a cache does not
count. --torch leaves our own kernels out, for the time of torch's.
"""

import argparse
import dataclasses
import json
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import class_uncertainty as cu
from class_uncertainty.training import RECIPES
from class_uncertainty.training.networks.resnet import BLOCKS, WIDTHS
from class_uncertainty.training.networks.stack import FAILED

RECIPE = dataclasses.replace(RECIPES["bag-of-tricks"], epochs=2)
STEPS = 20
GROUPS = {  # our kernels -> what they do
    "convolve": "convolutions, and input gradients apart",
    "gradients": "gradients of batch norm, input and weights together",
    "weigh": "weight gradients apart",
    "gather": "batch norm, sums of the gradient",
    "spread": "batch norm, gradient apart",
    "normalise": "batch norm, residual, ReLU",
}


def bytes_of_a_step(lanes: int, whole: bool) -> dict[str, float]:
    """Gigabytes by group; `whole`: by the kernels of whole images where the stride is 1."""
    sizes = [2 * lanes * RECIPE.batch * (32 >> stage) ** 2 * width / 1e9 for stage, width in enumerate(WIDTHS)]
    widths = [0] + [stage for stage in range(len(WIDTHS)) for _ in range(BLOCKS)]
    gigabytes: dict[str, float] = defaultdict(float)
    layers = [(sizes[0], sizes[0], False, True)]  # read, written, residual, whether it is the first
    for before, after in pairwise(widths):
        layers += [(sizes[before], sizes[after], False, False), (sizes[after], sizes[after], True, False)]
    for read, written, residual, stem in layers:
        given = 0 if stem else read if residual else 2 * read  # the input's gradient, plus that of a later residual
        gigabytes["convolve"] += read + written
        gigabytes["gather"] += (3 if residual else 2) * written
        gigabytes["normalise"] += (3 if residual else 2) * written
        if whole and read == written:
            gigabytes["gradients"] += (4 if residual else 2) * written + read + given
        else:
            gigabytes["convolve"] += 0 if stem else written + given
            gigabytes["weigh"] += read + written
            gigabytes["spread"] += (5 if residual else 3) * written
    return gigabytes


def milliseconds_of_a_step(lanes: int) -> dict[str, float]:
    """By group, from a trace."""
    rng = np.random.default_rng(0)
    data = cu.Data(
        rng.integers(0, 256, (STEPS * RECIPE.batch, 3, 32, 32)).astype(np.uint8), np.arange(STEPS * RECIPE.batch) % 10
    )
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        cu.fit(data, [cu.Lane("naive", seed) for seed in range(lanes)], recipe=RECIPE, device="cuda", profile=trace)
        events = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "kernel"]
    milliseconds: dict[str, float] = defaultdict(float)
    for event in events:
        name = event["name"].partition("_")[0]  # without the numbers of channels, and what else tells kernels apart
        milliseconds[name if name in GROUPS else "everything else"] += event["dur"] / 1e3 / STEPS
    return milliseconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--torch", action="store_true", help="without our own kernels")
    arguments = parser.parse_args()
    lanes = arguments.lanes
    torch.cuda.init()  # says so where there is no GPU
    FAILED["kernels"] = arguments.torch
    took = milliseconds_of_a_step(lanes)
    moved = {} if arguments.torch else bytes_of_a_step(lanes, took["gradients"] > 0)
    print(f"{lanes} lanes, a step of {RECIPE.batch} images each\n| kernels | ms | GB | TB/s |\n|---|---|---|---|")
    for name, about in GROUPS.items():
        if name not in moved:
            continue
        print(f"| {about} (`{name}`) | {took[name]:.2f} | {moved[name]:.2f} | {moved[name] / took[name]:.2f} |")
    print(f"| everything else | {took['everything else']:.2f} | | |")
    in_all, bytes_in_all = sum(took.values()), sum(moved.values())
    print(f"| all | {in_all:.2f} | {bytes_in_all:.2f} | {bytes_in_all / in_all:.2f} |")
