"""Layers with a lane axis, and the padding that keeps the bits of a lane from depending on its neighbours."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDEST = 64  # lanes of a stack on a GPU: more of them gain nothing


def pad_batch(values: Tensor) -> Tensor:
    """(..., B, C) with B padded to a multiple of 32.

    torch computes exp and log of the last few numbers of a tensor differently, which must not be the last lane's.
    """
    return F.pad(values, (0, 0, 0, -values.shape[-2] % 32))


def full_stack(values: Tensor) -> Tensor:
    """(lanes, ...), on a GPU padded to WIDEST lanes: the order in which it sums depends on their number.

    A stack that needs no padding gets the strides of one that does: a matrix product depends on them.
    """
    if not values.is_cuda:
        return values
    padding = [0, 0] * (values.ndim - 1) + [0, -len(values) % WIDEST]
    return F.pad(values, padding).contiguous()


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x weight' + bias in every lane: (lanes, B, D), (lanes, out, D), (lanes, 1, out) -> (lanes, B, out).

    Padded so that the matrices of every lane start on a 64-byte boundary: the bits of a matrix product depend on it,
    and so would those of a lane on its place in the stack. The gradient of the bias is a sum too.
    """
    lanes, outputs, inputs = weight.shape
    x = F.pad(full_stack(x), (0, -inputs % 16))
    weight = F.pad(full_stack(weight), (0, -inputs % 16, 0, -outputs % 16))
    return (torch.bmm(x, weight.mT)[:, :, :outputs] + full_stack(bias))[:lanes]


class Linear(nn.Module):
    """nn.Linear for each lane: (B, lanes * D) -> (B, lanes * out). Plain networks use nn.Linear itself."""

    def __init__(self, inputs: int, outputs: int, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.weight = nn.Parameter(torch.zeros(lanes * outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(lanes * outputs))

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (self.lanes, -1)).transpose(0, 1)  # (lanes, B, D)
        y = affine(x, self.weight.unflatten(0, (self.lanes, -1)), self.bias.view(self.lanes, 1, -1))
        return y.transpose(0, 1).flatten(1)


def drop_features(features: Tensor, drawn: Tensor, share: Tensor) -> Tensor:
    """Dropout of features (B, lanes * D) whose numbers `drawn` (lanes, B, D) lie below the share (1, lanes, 1)."""
    by_lane, drawn = features.unflatten(1, (share.shape[1], -1)), drawn.transpose(0, 1)
    return torch.where(drawn >= share, by_lane / (1 - share), 0.0).flatten(1)
