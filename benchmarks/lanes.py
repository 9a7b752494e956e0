"""Does stacking pay? Thirty lanes of the digits network against thirty separate trainings, side by side, in turns.

    make bench

Separate means the plain network (torch's own layers, torch.optim.SGD, F.cross_entropy) trained one after the other in a
plain loop without augmentation; ours crops too. Once with torch's own number of threads, as most people run it, and
once with one thread, which for so small a network is often faster. Ratios, and in turns; run it on a quiet machine,
since load slows down several threads most.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.training import default_recipe
from class_uncertainty.training.networks.classifier import Classifier

LANES, EPOCHS, ROUNDS = 30, 8, 3
DATASET = cu.load("digits-lt:20")
RECIPE = default_recipe(DATASET.train, epochs=EPOCHS)


def stacked() -> None:
    cu.fit(DATASET.train, [cu.Lane("naive", seed) for seed in range(LANES)], recipe=RECIPE, device="cpu")


def lone_fits() -> None:
    """cu.fit() thirty times with one lane: each pads its stack to the fixed width."""
    for seed in range(LANES):
        cu.fit(DATASET.train, [cu.Lane("naive", seed)], recipe=RECIPE, device="cpu")


def plain_loops() -> None:
    inputs, labels = torch.from_numpy(DATASET.train.inputs).float() / 255, torch.from_numpy(DATASET.train.labels)
    steps = len(labels) // RECIPE.batch
    for seed in range(LANES):
        generator = torch.Generator().manual_seed(seed)
        module = Classifier(RECIPE.network, DATASET.train.shape, DATASET.classes)
        optimiser = torch.optim.SGD(
            module.parameters(), 0.1, RECIPE.momentum, weight_decay=RECIPE.weight_decay, nesterov=True
        )
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(labels), generator=generator)[: steps * RECIPE.batch].split(RECIPE.batch):
                optimiser.zero_grad()
                F.cross_entropy(module(inputs[batch]), labels[batch]).backward()
                optimiser.step()


def plain_loops_on_one_thread() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    plain_loops()
    torch.set_num_threads(threads)


def seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    ways = {
        "30 lanes in stacks": stacked,
        "30 plain PyTorch loops": plain_loops,
        "30 plain PyTorch loops on one thread": plain_loops_on_one_thread,
        "30 lone cu.fit calls": lone_fits,
    }
    for work in ways.values():
        work()  # warm up
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, work in ways.items():
            times[name].append(seconds(work))
    ours = times["30 lanes in stacks"]
    for name in list(ways)[1:]:
        ratios = [mine / theirs for mine, theirs in zip(ours, times[name], strict=True)]
        rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"30 lanes in stacks cost {statistics.median(ratios):.2f} x {name} (rounds: {rounds})")


if __name__ == "__main__":
    main()
