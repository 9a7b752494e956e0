"""CAM-based resampling: classes filled up with pictures whose foreground, by class activation maps, was moved."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from class_uncertainty.data.pasting import draw_pastes, foreground, paste
from class_uncertainty.training.engine import Examples
from class_uncertainty.training.networks import Classifier
from class_uncertainty.training.resnet import ResNet32
from class_uncertainty.training.streams import stream

AT_ONCE = 1024  # pictures


@torch.no_grad()
def activation_maps(module: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    """sum_k w_yk f_k of each picture's own class y, as it is, not cropped or mirrored: (N, channels, H, W), (N,) -> (N, h, w)."""
    assert isinstance(module.head, nn.Linear)
    parts = []
    for x, y in zip(images.split(AT_ONCE), labels.split(AT_ONCE), strict=True):
        maps = _maps(module.body, module.preprocess(x))
        parts.append(torch.einsum("ndhw,nd->nhw", maps, module.head.weight[y]))
    return torch.cat(parts)


def _maps(body: nn.Module, x: Tensor) -> Tensor:
    """The features before they are averaged over the picture: (N, D, h, w)."""
    if isinstance(body, ResNet32):
        return body.maps(x)
    assert isinstance(body, nn.Sequential)
    return body[:-2](x)  # without pooling and flattening


def generated(module: Classifier, examples: Examples, kept: NDArray[np.int64], counts: NDArray, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures that bring each class to max(N) + min(N), and their labels, made of the examples at the positions `kept`."""
    device = examples.labels.device
    images, labels = examples.inputs[torch.from_numpy(kept).to(device)], examples.labels[torch.from_numpy(kept).to(device)]
    pastes = draw_pastes(stream(seed, "paste"), labels.cpu().numpy(), counts)
    masks = foreground(activation_maps(module, images, labels), (images.shape[2], images.shape[3]))
    made = []
    for start in range(0, len(pastes), AT_ONCE):
        part = pastes[start : start + AT_ONCE]
        chosen = torch.from_numpy(part.source).to(device)
        made.append(paste(images[chosen], masks[chosen], part.kind, part.angle, part.scale, part.u, part.v))
    return torch.cat(made), labels[torch.from_numpy(pastes.source).to(device)]


def filled_up(examples: Examples, made: Sequence[tuple[Tensor, Tensor]]) -> tuple[Examples, list[NDArray[np.int64]]]:
    """The examples with all that was made for some lanes behind them, and the positions of each lane's."""
    inputs = torch.cat([examples.inputs, *(images for images, _ in made)])
    labels = torch.cat([examples.labels, *(own for _, own in made)])
    starts = np.cumsum([len(examples.labels), *(len(own) for _, own in made)])
    return replace(examples, inputs=inputs, labels=labels), [np.arange(a, b) for a, b in pairwise(starts)]
