"""What does training cost beside the network? Images a second of cu.fit() against the network alone, in turns.

    make bench-fine-tune [NETWORK=efficientnet-lite0]

Training draws random resized crops and flips from stored images, computes the loss of the method, and steps by our own
AdamW. Alone means the same network and head in a plain loop on one standardised batch that never changes, by
torch.optim.AdamW, in the same precision. A ratio of 1 says that nothing else takes any time.
"""

import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.training.fit import default_device
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.network_table import find_network
from class_uncertainty.training.recipe import RECIPES

DEVICE = default_device()
STEPS, ROUNDS, CLASSES = (30, 3, 10) if DEVICE == "cuda" else (4, 3, 10)
SIDE = 256  # of stored images


def data_of(number: int) -> cu.Data:
    pixels = np.random.default_rng(0).integers(0, 256, (number, 3, SIDE, SIDE), dtype=np.uint8)
    return cu.Data(pixels, np.arange(number) % CLASSES)


def trained(data: cu.Data, recipe: cu.Recipe) -> float:
    """Images a second in the last epoch: the first also prepares much."""
    speeds: list[float] = []
    cu.fit(data, [cu.Lane()], recipe=recipe, device=DEVICE, progress=lambda epoch: speeds.append(epoch.speed))
    return speeds[-1]


def alone(recipe: cu.Recipe) -> float:
    side = find_network(recipe.network).size or SIDE
    module = Classifier(recipe.network, (3, SIDE, SIDE), tuple(map(str, range(CLASSES)))).to(DEVICE).train()
    if DEVICE == "cuda":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(module.parameters(), recipe.lr, weight_decay=recipe.weight_decay)
    x = torch.randn(recipe.batch, 3, side, side, device=DEVICE)
    labels = torch.arange(recipe.batch, device=DEVICE) % CLASSES
    for step in range(STEPS + 1):
        if step == 1:
            _wait()
            began = time.perf_counter()
        optimiser.zero_grad()
        with torch.autocast("cuda", torch.bfloat16) if DEVICE == "cuda" else nullcontext():
            z = module.head(module.body(x))
        F.cross_entropy(z.float(), labels).backward()
        optimiser.step()
    _wait()
    return STEPS * recipe.batch / (time.perf_counter() - began)


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    network = sys.argv[1] if len(sys.argv) > 1 else "efficientnet-lite0"
    recipe = replace(RECIPES["fine-tune"], network=network, epochs=2, warmup=0)
    recipe = replace(recipe, batch=128 if DEVICE == "cuda" else 16)
    data = data_of(STEPS * recipe.batch)
    rounds = [(trained(data, recipe), alone(recipe)) for _ in range(ROUNDS)]
    fit, plain = (statistics.median(speeds) for speeds in zip(*rounds, strict=True))
    ratio = statistics.median(a / b for a, b in rounds)
    print(f"{network} on {DEVICE}, batch {recipe.batch}, images of {SIDE} pixels, {ROUNDS} rounds:")
    print(f"  cu.fit {fit:.1f} images/s, the network alone {plain:.1f} images/s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
