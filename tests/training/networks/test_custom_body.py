"""Several lanes of a user's own module as one: what each of them is alone, by vmap and one after the other."""

from copy import deepcopy

import pytest
import torch
from own_networks import Layers, registered
from torch import Tensor, nn

import class_uncertainty as cu
from class_uncertainty.training.networks.custom_body import OwnBody, StackedOwnBody
from class_uncertainty.training.networks.stack import Stack

LANES = 3


class Odd(nn.Module):
    """Batch statistics, a learned scalar, a weight that two layers share, and a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.scale = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Parameter(torch.tensor(0.7))
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight
        self.a.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x)).mean((2, 3))
        return self.scale * self.b(torch.relu(self.a(x)))


@pytest.mark.parametrize("by_vmap", [False, True])
def test_a_stack_is_its_lanes(by_vmap):
    torch.manual_seed(0)
    alone = [OwnBody("odd", Odd(), 5) for _ in range(LANES)]
    stack = StackedOwnBody("odd", deepcopy(alone[0].module), 5, LANES, by_vmap)
    state = {
        name: torch.cat([torch.atleast_1d(lane.state_dict()[name]) for lane in alone]) for name in alone[0].state_dict()
    }
    stack.load_state_dict(state)
    assert stack.module.a.weight is stack.module.b.weight
    x = torch.randn(4, LANES, 3, 6, 6)
    y = stack.train()(x.flatten(1, 2)).unflatten(1, (LANES, -1))
    weights = torch.randn(4, 5)
    (y * weights[:, None]).sum().backward()
    for i, lane in enumerate(alone):
        expected = lane.train()(x[:, i])
        (expected * weights).sum().backward()
        torch.testing.assert_close(y[:, i], expected, atol=1e-5, rtol=1e-4)
        for name, parameter in lane.named_parameters():
            stacked = stack.get_parameter(name)
            if parameter.grad is None:
                assert stacked.grad is None
            else:
                gradient = stacked.grad.chunk(LANES)[i].view_as(parameter)
                torch.testing.assert_close(gradient, parameter.grad, atol=1e-5, rtol=1e-4)
        for name in ("module.norm.running_mean", "module.norm.running_var", "module.norm.num_batches_tracked"):
            both = stack.get_buffer(name).chunk(LANES)[i].view_as(lane.get_buffer(name)), lane.get_buffer(name)
            torch.testing.assert_close(*both, atol=1e-5, rtol=1e-4)


def test_lanes_come_apart_as_plain_networks():
    """As on a GPU, where several train as one stack."""
    with registered("mine", Layers, stack="vmap"):
        recipe, lanes = cu.Recipe("mine", 1, 16), [cu.Lane(seed=s) for s in range(2)]
        stack = Stack(recipe, (3, 8, 8), ("a", "b"), lanes)
        x = torch.randn(4, 3, 8, 8)
        together = stack(x.repeat(1, 2, 1, 1))
        for z, lane, state in zip(together, lanes, stack.states(), strict=True):
            alone = Stack(recipe, (3, 8, 8), ("a", "b"), [lane], [state])
            torch.testing.assert_close(alone(x)[0], z, atol=1e-5, rtol=1e-4)
