"""Bodies of networks that train from scratch: ResNets, a small convolutional network, an MLP."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.training.networks.layers import Linear

Shape = tuple[int, ...]  # of one input


def small_conv(shape: Shape, lanes: int = 1) -> nn.Sequential:
    """Three 3 x 3 convolutions with 8, 16 and 32 channels, the last two with stride 2."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in ((shape[0], 8, 1), (8, 16, 2), (16, 32, 2)):
        conv = nn.Conv2d(lanes * inputs, lanes * outputs, 3, stride=stride, padding=1, groups=lanes, bias=False)
        layers += [conv, nn.BatchNorm2d(lanes * outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def mlp(shape: Shape, lanes: int = 1) -> nn.Sequential:
    """One hidden layer of 64."""
    linear = nn.Linear(shape[0], 64) if lanes == 1 else Linear(shape[0], 64, lanes)
    return nn.Sequential(linear, nn.BatchNorm1d(lanes * 64), nn.ReLU())


def identity(shape: Shape, lanes: int = 1) -> nn.Sequential:
    """Nothing before the head: a linear classifier of features."""
    return nn.Sequential()


WIDTHS, BLOCKS = (16, 32, 64), 5  # of ResNet-32, He et al. 2016, Sec. 4.2: 6 * 5 + 2 layers


class Convolution(nn.Module):
    """A convolution, 3 x 3 or 1 x 1, and its batch norm in every lane."""

    def __init__(self, inputs: int, outputs: int, lanes: int, stride: int = 1, size: int = 3) -> None:
        super().__init__()
        channels, padding = (lanes * inputs, lanes * outputs), size // 2
        self.conv = nn.Conv2d(*channels, size, stride, padding, groups=lanes, bias=False)
        self.norm = nn.BatchNorm2d(lanes * outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))

    def running(self) -> tuple[Tensor, Tensor]:
        """Mean and variance as they run."""
        assert self.norm.running_mean is not None
        assert self.norm.running_var is not None
        return self.norm.running_mean, self.norm.running_var


class Block(nn.Module):
    """Two convolutions beside a shortcut.

    Where channels double, the stride is 2. The shortcut then takes every other pixel and adds zero channels (option A
    of He et al.), or is a 1 x 1 convolution of its own (option B).
    """

    def __init__(self, inputs: int, outputs: int, lanes: int, projected: bool) -> None:
        super().__init__()
        self.lanes, self.stride, self.more = lanes, outputs // inputs, (outputs - inputs) // 2
        self.first = Convolution(inputs, outputs, lanes, self.stride)
        self.second = Convolution(outputs, outputs, lanes)
        projected = projected and self.stride > 1
        self.projection = Convolution(inputs, outputs, lanes, self.stride, size=1) if projected else None

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    def shortcut(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            return x
        if self.projection is not None:
            return self.projection(x)
        by_lane = x[:, :, :: self.stride, :: self.stride].unflatten(1, (self.lanes, -1))
        return F.pad(by_lane, (0, 0, 0, 0, self.more, self.more)).flatten(1, 2)


class ResNet(nn.Module):
    """(B, lanes * channels, H, W) -> features (B, lanes * D), D being the last of the widths.

    Each stage has its width in channels, twice the one before, and as many blocks as the others.
    """

    def __init__(self, shape: Shape, lanes: int, widths: Sequence[int], blocks: int, projected: bool = False) -> None:
        super().__init__()
        self.lanes = lanes
        narrowest = min(shape[1:]) / 2 ** (len(widths) - 1)  # side of all maps
        # our own kernels are for ResNet-32's channels, and sides of more than one pixel: Triton compiles no others
        self.fits_kernels = set(widths) <= set(WIDTHS) and not projected and narrowest > 1
        self.kernels, self.kernel_type = False, torch.bfloat16  # whether to use our own, and of what type
        self.stem = Convolution(shape[0], widths[0], lanes)
        outputs = [widths[0], *(width for width in widths for _ in range(blocks))]
        self.blocks = nn.Sequential(*(Block(*channels, lanes, projected) for channels in pairwise(outputs)))

    def forward(self, x: Tensor) -> Tensor:
        if self.kernels:
            return self.fused_maps(x).mean((2, 3), dtype=torch.float32).transpose(0, 1).flatten(1)
        return self.maps(x).mean((2, 3))

    def maps(self, x: Tensor) -> Tensor:
        """Features before they are averaged over the image, (B, lanes * D, h, w)."""
        return self.blocks(F.relu(self.stem(x)))

    def fused_maps(self, x: Tensor) -> Tensor:
        """The same by our own kernels, (lanes, B, h, w, D)."""
        from class_uncertainty.training.kernels.fused_body import FusedBody, Layer

        pairs = [(self.stem, False)]
        for block in self.blocks:
            assert isinstance(block, Block)
            pairs += [(block.first, False), (block.second, True)]
        layers = [Layer(one.running(), one.conv.stride[0], closes) for one, closes in pairs]
        parameters = [value for one, _ in pairs for value in (one.conv.weight, one.norm.weight, one.norm.bias)]
        by_lane = x.unflatten(1, (self.lanes, -1)).permute(1, 0, 3, 4, 2).to(self.kernel_type)
        padded = F.pad(by_lane, (0, -by_lane.shape[-1] % 16)).contiguous()
        return FusedBody.apply(padded, layers, self.training, *parameters)


def resnet32(shape: Shape, lanes: int = 1) -> ResNet:
    """ResNet-32 of He et al.: 16, 32 and 64 channels, shortcuts without parameters."""
    return ResNet(shape, lanes, WIDTHS, BLOCKS)


def resnet32x4(shape: Shape, lanes: int = 1) -> ResNet:
    """The same with 64, 128 and 256 channels: what the released code of GLMC and of SURE calls ResNet-32."""
    return ResNet(shape, lanes, [4 * width for width in WIDTHS], BLOCKS)


def resnet18(shape: Shape, lanes: int = 1) -> ResNet:
    """ResNet-18 as usual for small images: a 3 x 3 stem, no pooling, 1 x 1 convolutions as shortcuts."""
    return ResNet(shape, lanes, (64, 128, 256, 512), 2, projected=True)
