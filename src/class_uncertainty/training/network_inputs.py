"""What networks are given: inputs as tensors, standardised."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.data import Data
from class_uncertainty.training.networks.classifier import Standardise
from class_uncertainty.training.networks.network_table import find_network
from class_uncertainty.training.recipe import TREES


def as_tensor(inputs: NDArray) -> Tensor:
    """A tensor without a copy where possible: pixels may be a file mapped into memory."""
    usable = inputs.flags.writeable and min(inputs.strides) >= 0  # torch has no strides backwards, as in bgr[:, ::-1]
    return torch.from_numpy(inputs if usable else np.array(inputs))


def standardising(train: Data, network: str) -> Standardise:
    """By the mean and deviation of each channel or column: the network's, or the data's as given or measured.

    Constant columns are only shifted.
    """
    row = find_network(network)
    if network in TREES:  # they only compare
        return Standardise(torch.zeros(train.shape), torch.ones(train.shape))
    about = row.own.preprocessing if row.own and train.is_images else {}
    if "mean" in about:
        mean, std = (255 * np.asarray(about[name]) for name in ("mean", "std"))
    else:
        mean, std = map(np.asarray, train.statistics or train.measured_statistics())
    shape = (-1, 1, 1) if train.is_images else (-1,)
    deviation = np.where(std > 0, std, 1)
    shift, scale = (torch.tensor(value, dtype=torch.float32).view(shape) for value in (mean, deviation))
    return Standardise(shift, scale, about.get("size"))
