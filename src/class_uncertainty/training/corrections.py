"""How networks are corrected for a prior and decide by costs, as tensors that they keep."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.training.networks.classifier import Classifier, Ensemble

NEVER = -1e30  # added to the logit of a class that cannot be: finite, where the logarithm of its prior is not


class Correction(Protocol):
    """What softmax(z / temperature + shift) needs to be known of an Adjustment, which a later stage makes."""

    @property
    def temperature(self) -> float: ...
    @property
    def shift(self) -> NDArray[np.float64]: ...  # (C,), -inf for a class that cannot be


def averaged(networks: Sequence[Classifier], costs: NDArray | None = None) -> Ensemble:
    """Networks with adjustments of their own as one."""
    return Ensemble(networks, costs=costs_of(costs)).eval()


def shift_of(adjustment: Correction | None) -> Tensor | None:
    """(C,) what is added to the logits."""
    return None if adjustment is None else torch.tensor(np.maximum(adjustment.shift, NEVER), dtype=torch.float32)


def costs_of(costs: NDArray | None) -> Tensor | None:
    """(C, C) as a network keeps them."""
    return None if costs is None else torch.tensor(costs, dtype=torch.float32)
