"""Ensemble: several plain networks as one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.training.networks.classifier import DECISIONS, Classifier
from class_uncertainty.training.purpose import Purpose

SHARED = ("network", "shape", "classes", "architecture")  # what describes all networks, or the first
OWN = ("network", "head", "scale")  # what describes each of them


class Ensemble(nn.Module):
    """Networks of the same inputs and classes, ready to deploy: raw inputs in, scale * mean_i log softmax(z_i) + shift.

    That is the logarithm of the geometric mean of their probabilities. `costs` are as in Classifier. Networks of
    several kinds may each have an adjustment of their own.
    """

    shift: Tensor
    costs: Tensor | None

    def __init__(
        self, networks: Sequence[Classifier], scale: float = 1, shift: Tensor | None = None, costs: Tensor | None = None
    ) -> None:
        super().__init__()
        first = networks[0]
        self.classes, self.encoding, self.embedding, self.scale = first.classes, first.encoding, first.embedding, scale
        self.backbone: nn.Module | None = None
        self.purpose: Purpose | None = None
        self.about: dict[str, Any] = {}
        alike = {name: first.rebuild[name] for name in SHARED if name in first.rebuild}
        members = [{name: network.rebuild[name] for name in OWN} for network in networks]
        decides_by = DECISIONS[costs is not None]
        self.rebuild: dict[str, Any] = {**alike, "networks": len(networks), "members": members, "scale": scale}
        self.rebuild["decides_by"] = decides_by
        self.register_buffer("shift", torch.zeros(len(first.classes)) if shift is None else shift)
        self.register_buffer("costs", costs)
        self.networks = nn.ModuleList(networks)

    @property
    def preprocess(self) -> nn.Module:
        """The same for every network."""
        return self.networks[0].preprocess  # type: ignore[return-value]

    def forward(self, x: Tensor) -> Tensor:
        features = x if self.backbone is None else self.backbone(x)
        logits = torch.stack([network(features) for network in self.networks])
        return self.scale * logits.log_softmax(dim=-1).mean(dim=0) + self.shift


Deployed = Classifier | Ensemble  # what is saved and restored
