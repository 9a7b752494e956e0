"""Stacks of lanes with heads of DUQ, and the paper's kernel in plain terms."""

import numpy as np
import torch
from torch import Tensor

from class_uncertainty.training.networks.heads import StackedRBFHead, initial_rbf_head

SIGMA, GAMMA = 0.1, 0.999  # of the paper
DOUBLE = torch.float64


def lane_states(rng: np.random.Generator, lanes: int, features: int, classes: int) -> list[dict[str, Tensor]]:
    """With counts that differ, and weights that put K between zero and one."""
    states = []
    for _ in range(lanes):
        state = {name: torch.from_numpy(value) for name, value in initial_rbf_head(rng, features, classes).items()}
        state["weight"] /= 4
        state["count"] *= torch.from_numpy(rng.uniform(0.5, 2, classes).astype(np.float32))
        states.append(state)
    return states


def stack_of(states: list[dict[str, Tensor]]) -> StackedRBFHead:
    classes, features = states[0]["total"].shape
    head = StackedRBFHead(features, classes, len(states))
    head.load_state_dict({name: torch.cat([state[name] for state in states]) for name in states[0]})
    return head


def normal(rng: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def in_double(states: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    return [{name: value.double() for name, value in state.items()} for state in states]


def apart(x: Tensor, lanes: int) -> Tensor:
    """(B, lanes * D) -> (lanes, B, D)."""
    return torch.stack(x.chunk(lanes, dim=1))
