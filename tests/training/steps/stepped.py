"""Fits of these tests, and networks of plain torch."""

from dataclasses import replace

import torch
from torch import Tensor

import class_uncertainty as cu
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.stack import initial

RECIPE = cu.Recipe("small-conv", epochs=4, batch=32, crop=1)


def fit(data: cu.Data, lanes: list[cu.Lane], recipe: cu.Recipe = RECIPE, **options: object) -> cu.Fit:
    return cu.fit(data, lanes, recipe=recipe, device="cpu", **options)  # type: ignore[arg-type]


Kept = tuple[cu.Result, dict[str, Tensor], dict[str, Tensor]]


def outcome(fitted: cu.Fit, i: int = 0) -> Kept:
    return replace(fitted.results[i], seconds=0), fitted.states[i], fitted.gathered[i]


def same(one: Kept, other: Kept) -> None:
    """To the last bit."""
    assert one[0] == other[0]
    for a, b in zip(one[1:], other[1:], strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)


def plain_network(
    data: cu.Data, recipe: cu.Recipe, lane: cu.Lane, state: dict[str, Tensor] | None = None
) -> Classifier:
    """As it starts, or in a state, and with its data's mean and spread."""
    module = Classifier(recipe.network, data.shape, data.classes, lane.value.head)
    pixels = torch.from_numpy(data.inputs.copy()).double()
    scaling = {"preprocess.mean": pixels.mean().view(1, 1, 1), "preprocess.std": pixels.std(correction=0).view(1, 1, 1)}
    state = state or initial(recipe, data.shape, data.classes, lane)
    module.load_state_dict(
        {name: value.float() for name, value in (scaling | state).items() if name != "margins"}, strict=False
    )
    return module.train()
