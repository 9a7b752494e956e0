"""ResNet-32 for 32 x 32 images, with a lane axis as the other networks have it."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS, BLOCKS = (16, 32, 64), 5  # He et al. 2016, Sec. 4.2: 6 * 5 + 2 layers


class Convolution(nn.Module):
    """A 3 x 3 convolution and its batch norm in every lane."""

    def __init__(self, inputs: int, outputs: int, lanes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(lanes * inputs, lanes * outputs, 3, stride, padding=1, groups=lanes, bias=False)
        self.norm = nn.BatchNorm2d(lanes * outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))

    def fused(self, x: Tensor, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """ReLU(norm(conv(x)) + residual) by our own kernels, and x for a later residual: (lanes, B, H, W, channels)."""
        from class_uncertainty.training.kernels.fused_convolution import ConvolveNormalise

        conv, norm = self.conv, self.norm
        running, how = (norm.running_mean, norm.running_var), (conv.stride[0], self.training)
        return ConvolveNormalise.apply(x, conv.weight, norm.weight, norm.bias, residual, running, *how)


class Block(nn.Module):
    """Two convolutions beside a shortcut without parameters: with stride 2, every other pixel, and zero channels."""

    def __init__(self, inputs: int, outputs: int, lanes: int) -> None:
        super().__init__()
        self.lanes, self.stride, self.more = lanes, outputs // inputs, (outputs - inputs) // 2
        self.first = Convolution(inputs, outputs, lanes, self.stride)
        self.second = Convolution(outputs, outputs, lanes)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    def shortcut(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            return x
        by_lane = x[:, :, :: self.stride, :: self.stride].unflatten(1, (self.lanes, -1))
        return F.pad(by_lane, (0, 0, 0, 0, self.more, self.more)).flatten(1, 2)

    def fused(self, x: Tensor) -> Tensor:
        y, x = self.first.fused(x)
        if self.stride > 1:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (self.more, self.more))
        return self.second.fused(y, x)[0]


class ResNet32(nn.Module):
    """(B, lanes * channels, H, W) -> features (B, lanes * 64)."""

    def __init__(self, shape: tuple[int, ...], lanes: int = 1) -> None:
        super().__init__()
        self.lanes = lanes
        self.kernels = False  # whether to use our own
        self.stem = Convolution(shape[0], WIDTHS[0], lanes)
        widths = [WIDTHS[0], *(width for width in WIDTHS for _ in range(BLOCKS))]
        self.blocks = nn.Sequential(*(Block(inputs, outputs, lanes) for inputs, outputs in pairwise(widths)))

    def forward(self, x: Tensor) -> Tensor:
        if self.kernels:
            return self._fused(x)
        return self.maps(x).mean((2, 3))

    def maps(self, x: Tensor) -> Tensor:
        """Features before they are averaged over the image, (B, lanes * 64, H / 4, W / 4)."""
        return self.blocks(F.relu(self.stem(x)))

    def _fused(self, x: Tensor) -> Tensor:
        by_lane = x.unflatten(1, (self.lanes, -1)).permute(1, 0, 3, 4, 2)
        y, _ = self.stem.fused(F.pad(by_lane.to(torch.bfloat16), (0, -by_lane.shape[-1] % 16)).contiguous())
        for block in self.blocks:
            assert isinstance(block, Block)
            y = block.fused(y)
        return y.mean((2, 3), dtype=torch.float32).transpose(0, 1).flatten(1)  # (B, lanes * 64)
