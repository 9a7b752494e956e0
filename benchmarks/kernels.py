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
from typing import NamedTuple

import numpy as np
import torch

import class_uncertainty as cu
from class_uncertainty.training import RECIPES
from class_uncertainty.training.networks.bodies import BLOCKS, WIDTHS
from class_uncertainty.training.networks.stack import FAILED

RECIPE = dataclasses.replace(RECIPES["bag-of-tricks"], epochs=2)
STEPS = 20
GROUPS = {  # our kernels -> what they do
    "convolve": "batch norm of the layer before, convolutions; input gradients apart",
    "gradients": "gradients of batch norm, input and weights, sums for the layer before",
    "weigh": "weight gradients apart",
    "gather": "batch norm, sums of the gradient apart",
    "spread": "batch norm, gradient apart",
    "normalise": "batch norm, residual, ReLU apart",
}


class Layer(NamedTuple):
    """A convolution with its batch norm; sizes in gigabytes."""

    read: float
    written: float
    closes: bool = False  # a block: the block's input is added

    @property
    def stride(self) -> int:
        return 1 if self.read == self.written else 2


def layers_of(lanes: int) -> list[Layer]:
    """Of ResNet-32, from the first to the last."""
    sizes = [2 * lanes * RECIPE.batch * (32 >> stage) ** 2 * width / 1e9 for stage, width in enumerate(WIDTHS)]
    outputs = [sizes[0], *(size for size in sizes for _ in range(BLOCKS))]
    layers = [Layer(sizes[0], sizes[0])]
    for read, written in pairwise(outputs):
        layers += [Layer(read, written), Layer(written, written, closes=True)]
    return layers


def bytes_of_a_step(lanes: int, whole: bool) -> dict[str, float]:
    """Gigabytes by group; `whole`: by the kernels of whole images where the stride is 1."""
    gigabytes: dict[str, float] = defaultdict(float)
    layers = layers_of(lanes)
    for before, layer, after in zip([None, *layers], layers, [*layers[1:], None], strict=False):
        read, written, is_whole = layer.read, layer.written, whole and layer.stride == 1
        residual = written if layer.closes else 0  # read beside what is normed, or masked
        addend = 0 if layer.closes or before is None else read / layer.stride**2  # the gradient of the block's output
        gigabytes["convolve"] += read + written
        if is_whole and before:  # makes its input of the layer before, and keeps it
            gigabytes["convolve"] += 2 * read if before.closes else read
        is_masked = whole and after is not None and after.stride == 1  # the layer after makes z, and masks its gradient
        if not is_masked:
            gigabytes["normalise"] += 2 * written + residual
            gigabytes["gather"] += 2 * written + residual
        if is_whole:
            gigabytes["gradients"] += 2 * written + read + (0 if is_masked else 2 * written)
            gigabytes["gradients"] += 2 * read + addend if before else 0
        else:
            gigabytes["convolve"] += written + read + addend if before else 0
            gigabytes["weigh"] += read + written
            gigabytes["spread"] += 3 * written + 2 * residual
    return gigabytes


def milliseconds_of_a_step(lanes: int) -> tuple[dict[str, float], float]:
    """By group, from a trace; and of the whole step, with the gaps between its kernels."""
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
    began, ended = min(event["ts"] for event in events), max(event["ts"] + event["dur"] for event in events)
    return milliseconds, (ended - began) / 1e3 / STEPS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--torch", action="store_true", help="without our own kernels")
    arguments = parser.parse_args()
    lanes = arguments.lanes
    torch.cuda.init()  # says so where there is no GPU
    FAILED["kernels"] = arguments.torch
    took, with_gaps = milliseconds_of_a_step(lanes)
    moved = {} if arguments.torch else bytes_of_a_step(lanes, took["gradients"] > 0)
    print(f"{lanes} lanes, a step of {RECIPE.batch} images each\n| kernels | ms | GB | TB/s |\n|---|---|---|---|")
    for name, about in GROUPS.items():
        if name not in moved:
            continue
        print(f"| {about} (`{name}`) | {took[name]:.2f} | {moved[name]:.2f} | {moved[name] / took[name]:.2f} |")
    print(f"| everything else | {took['everything else']:.2f} | | |")
    in_all, bytes_in_all = sum(took.values()), sum(moved.values())
    print(f"| all | {in_all:.2f} | {bytes_in_all:.2f} | {bytes_in_all / in_all:.2f} |")
    print(f"| with the gaps between kernels | {with_gaps:.2f} | | |")
