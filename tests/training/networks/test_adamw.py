"""Optimisers: torch.optim is the independent reference, with a rate for each lane and each layer."""

import pytest
import torch
from own_networks import Scaled, images, registered
from torch import nn

import class_uncertainty as cu
from class_uncertainty.training.networks.network_table import sealed
from class_uncertainty.training.networks.stack import SGD, AdamW, Stack, make_optimiser

SHAPE, CLASSES = (3, 8, 8), ("a", "b", "c")
RATES = torch.tensor([0.02, 0.005], dtype=torch.float64)


def reference(optimizer: str, module: nn.Module, recipe: cu.Recipe, lr: float) -> torch.optim.Optimizer:
    """torch's own optimiser: matrices decay, vectors do not, and the head has its own rate."""
    groups = []
    for name, parameter in module.named_parameters():
        rate = lr * (recipe.head_rate if name.startswith("head.") else 1)
        decay = recipe.weight_decay if parameter.ndim > 1 or optimizer == "sgd" else 0.0
        groups.append({"params": [parameter], "lr": rate, "weight_decay": decay})
    if optimizer == "adamw":
        return torch.optim.AdamW(groups, betas=(recipe.momentum, 0.999))
    return torch.optim.SGD(groups, lr=lr, momentum=recipe.momentum, nesterov=recipe.nesterov)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_steps_are_those_of_torch(optimizer):
    recipe = cu.Recipe("small-conv", 1, 8, optimizer=optimizer, weight_decay=0.1, head_rate=3.0)
    lanes = [cu.Lane(seed=0), cu.Lane(seed=1)]
    stack = Stack(recipe, SHAPE, CLASSES, lanes).double()  # differences of the last bits grow from step to step
    alone = [Stack(recipe, SHAPE, CLASSES, [lane]).double() for lane in lanes]
    ours = make_optimiser(stack, recipe)
    theirs = [reference(optimizer, one, recipe, lr) for one, lr in zip(alone, RATES.tolist(), strict=True)]
    assert isinstance(ours, AdamW if optimizer == "adamw" else SGD)
    random = torch.Generator().manual_seed(0)
    for _ in range(5):
        x = torch.randn(6, 3, 8, 8, generator=random, dtype=torch.float64)
        stack.zero_grad()
        stack(x.repeat(1, 2, 1, 1)).square().mean((1, 2)).sum().backward()
        ours.step(ours.rates(RATES))
        for network, optimiser in zip(alone, theirs, strict=True):
            optimiser.zero_grad()
            network(x).square().mean().backward()
            optimiser.step()
    for state, network in zip(stack.states(), alone, strict=True):
        for name, value in network.states()[0].items():
            torch.testing.assert_close(state[name], value, atol=1e-6, rtol=1e-5)


def test_what_has_no_gradient_is_left_alone():
    """torch's optimisers neither decay nor move it."""
    for optimizer in ("sgd", "adamw"):
        with registered("mine", Scaled):
            recipe = cu.Recipe("mine", 2, 16, optimizer=optimizer, weight_decay=0.5)
            assert torch.equal(
                cu.fit(images(), [cu.Lane()], recipe=recipe).states[0]["body.module.idle"], torch.ones(3)
            )


def test_moments_go_on_where_they_were():
    with registered("mine", Scaled):
        recipe = sealed(cu.Recipe("mine", 1, 16, optimizer="adamw"))
        stack = Stack(recipe, SHAPE, CLASSES, [cu.Lane()])
        optimiser, other = AdamW(stack, recipe), AdamW(stack, recipe)
        stack.eval()(torch.randn(4, 3, 8, 8)).sum().backward()
        optimiser.step(optimiser.rates(torch.tensor([0.1])))
        other.load(optimiser.states())
        assert all(torch.equal(a, b) for a, b in zip(optimiser.tensors, other.tensors, strict=True))
        assert other.steps.tolist() == [1]
