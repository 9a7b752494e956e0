"""A lane alone is the lane among others, to the last bit: for every family of methods, in stacks of several widths.

On a GPU that holds for ResNet-32 with our own kernels. DUQ has torch's convolutions there, which choose their algorithm
by the number of lanes: it trains beside the others, and is not compared.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.methods import AUGMENTATIONS
from class_uncertainty.training.networks.layers import WIDEST

RECIPES = {
    "cpu": cu.Recipe("small-conv", epochs=2, batch=8, crop=1, flip=True),
    "cuda": cu.Recipe("resnet32", epochs=2, batch=128, crop=4, flip=True),
}
COUNTS = {"cpu": (16, 8, 5), "cuda": (300, 150, 70)}
SIDE = {"cpu": 8, "cuda": 32}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def family_of(method: cu.Method) -> tuple:
    """What decides which code trains a method: rows that differ in numbers and measures alone are one family."""
    focal = method.focal and method.focal.sigmoid
    loss = (method.head, method.reduction, method.level, method.learned, method.beta, focal)
    draws = (method.dropout > 0, method.cycles > 0, method.augment, tuple(method.knobs))
    stages = [(stage.trains, stage.fresh, stage.pasted, stage.released, stage.balanced) for stage in method.then]
    return loss, draws, tuple(stages), tuple(map(family_of, method.stages[1:]))


def families() -> list[str]:
    """The first row of each family in METHODS, and every augmentation."""
    first: dict[tuple, str] = {}
    for name, method in cu.METHODS.items():
        first.setdefault(family_of(method), name)
    return [*first.values(), *(f"naive+{name}" for name in AUGMENTATIONS), "cb+remix", "dro+autoaugment+cutout"]


LANES = [
    cu.Lane("2s-csce", 5),  # its first epoch is that of the first lane below
    *(cu.Lane(name, 5, lr=0.01 if name == "duq" else None) for name in families()),
    cu.Lane("naive", 6, bootstrap=True),
    cu.Lane("cb", 5, fold=(1, 5)),
    cu.Lane("naive", 7, gather="online"),
    cu.Lane("cyclic", 8, gather="snapshots"),
]


def data_for(device: str) -> cu.Data:
    """Colours that tell three classes apart, in noise."""
    rng, side, counts = np.random.default_rng(0), SIDE[device], COUNTS[device]
    labels = rng.permutation(np.repeat(np.arange(3), counts))
    noise = rng.integers(0, 160, (sum(counts), 3, side, side))
    pixels = noise + 60 * (np.arange(3) == labels[:, None])[:, :, None, None]
    return cu.Data(pixels.astype(np.uint8), labels)


def fit(device: str, lanes: Sequence[cu.Lane], teachers: cu.Fit | None = None) -> cu.Fit:
    data = data_for(device)
    stats = cu.Stats(data.counts, np.linspace(1, 3, 3))
    return cu.fit(data, lanes, recipe=RECIPES[device], stats=stats, test=data, device=device, teachers=teachers)


def differences(alone: cu.Fit, together: cu.Fit, place: int) -> list[str]:
    """What of the first lane of a fit differs from the lane at a place of another."""
    pairs = {
        "weights": (alone.states[0], together.states[place]),
        "gathered": (alone.gathered[0], together.gathered[place]),
    }
    apart = []
    for what, (mine, theirs) in pairs.items():
        assert mine.keys() == theirs.keys()
        apart += [f"{what} {name}" for name, value in mine.items() if not torch.equal(value, theirs[name])]
    if replace(alone.results[0], seconds=0) != replace(together.results[place], seconds=0):
        apart.append("result")
    return apart


@pytest.mark.parametrize("device", DEVICES)
def test_every_family_alone_and_among_others(device):
    """Among one lane of each family, and on a GPU among so many that stacks are full."""
    companies = {"few": fit(device, LANES)}
    if device == "cuda":  # on a CPU stacks have one width
        companions = [replace(lane, seed=seed) for seed in (11, 12) for lane in LANES]
        companies["many"] = fit(device, [*LANES, *companions])
    apart = {}
    for place, lane in enumerate(LANES):
        if device == "cuda" and lane.value.head == "rbf":
            continue
        alone = fit(device, [lane])
        for company, together in companies.items():
            if differ := differences(alone, together, place):
                apart[lane.name, lane.gather, company] = differ
    assert apart == {}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["ubrw-bot", "ldam-rw", "dro", "dro-learned"])
def test_stacks_of_several_widths(name, device):
    """The head of a full stack needs no padding, the centroids pass in blocks, and weights are summed over a batch."""
    lane = cu.Lane(name, 3)
    alone = fit(device, [lane])
    for width in (2, WIDEST) if device == "cuda" else (2,):
        others = [replace(lane, seed=seed) for seed in range(100, 99 + width)]
        together = fit(device, [*others, lane])
        assert differences(alone, together, width - 1) == [], width


@pytest.mark.parametrize("device", DEVICES)
def test_students_alone_and_among_others(device):
    folds = [cu.Lane("naive", 0, fold=(k, 3)) for k in range(3)]
    teachers = fit(device, [cu.Lane("naive", 0), cu.Lane("naive", 1), *folds])
    teachings = [
        cu.Teaching(0.5, 4.0, 0.3, teachers=(0, 1)),
        cu.Teaching(unseen=True, teachers=(2, 3, 4)),
        cu.Teaching(mean="arithmetic"),
    ]
    lanes = [cu.Lane("naive", seed, teaching=teaching) for seed, teaching in enumerate(teachings)]
    more = [replace(lane, seed=lane.seed + 10 * i) for i in range(3) for lane in lanes]  # seed 0 of each comes first
    for place, lane in enumerate(lanes):
        alone = fit(device, [lane], teachers)
        for together in (fit(device, lanes, teachers), fit(device, more, teachers)):
            assert differences(alone, together, place) == []
