"""EfficientNet-Lite0: a small network for photographs, whose ImageNet weights come as a package of 17 MB."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# of each group of blocks: repeats, kernel, stride, expansion, output channels
GROUPS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM, FEATURES = 32, 1280
EPSILON = 1e-3  # of batch norm, as TensorFlow has it


class SameConv(nn.Conv2d):
    """Padded as TensorFlow pads: an output of ceil(side / stride), and an odd pixel of border goes to the end."""

    def forward(self, x: Tensor) -> Tensor:
        borders = list[int]()
        for side, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            border = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            borders += [border // 2, border - border // 2]
        if len(set(borders)) == 1:  # the convolution pads by itself, which saves a copy
            return F.conv2d(x, self.weight, self.bias, self.stride, borders[0], groups=self.groups)
        return super().forward(F.pad(x, borders))


def _convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = SameConv(inputs, outputs, kernel, stride, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs, eps=EPSILON)]


class Block(nn.Module):
    """Expand by a 1 x 1 convolution, filter each channel, project; what came in is added where shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = expansion * inputs
        layers = [*_convolution(inputs, inner), nn.ReLU6()] if expansion > 1 else []
        layers += [*_convolution(inner, inner, kernel, stride, groups=inner), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, *_convolution(inner, outputs))
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) + x if self.skips else self.layers(x)


class EfficientNetLite0(nn.Sequential):
    """Standardised images (B, 3, H, W) -> features (B, 1280)."""

    def __init__(self) -> None:
        blocks, channels = list[nn.Module](), STEM
        for repeats, kernel, stride, expansion, outputs in GROUPS:
            for repeat in range(repeats):
                blocks.append(Block(channels, outputs, kernel, 1 if repeat else stride, expansion))
                channels = outputs
        stem = [*_convolution(3, STEM, kernel=3, stride=2), nn.ReLU6()]
        top = [*_convolution(channels, FEATURES), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        super().__init__(*stem, *blocks, *top)


def released_names() -> list[str]:
    """The names that the package has for the tensors, in the order of ours."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    layers = [("_conv_stem", "_bn0")]
    for number, expands in enumerate([expansion > 1 for repeats, *_, expansion, _ in GROUPS for _ in range(repeats)]):
        parts = [("_expand_conv", "_bn0")] * expands + [("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")]
        layers += [(f"_blocks.{number}.{conv}", f"_blocks.{number}.{bn}") for conv, bn in parts]
    layers.append(("_conv_head", "_bn1"))
    return [name for conv, bn in layers for name in (f"{conv}.weight", *(f"{bn}.{part}" for part in norm))]


def efficientnet_lite0(weights: dict[str, Tensor]) -> EfficientNetLite0:
    """With the weights of the package; its classifier is left out."""
    with torch.device("meta"):
        network = EfficientNetLite0()
    names = dict(zip(network.state_dict(), released_names(), strict=True))
    if missing := next((name for name in names.values() if name not in weights), None):
        raise ValueError(f"weights {missing!r} are missing")
    network.load_state_dict({ours: weights[theirs] for ours, theirs in names.items()}, assign=True)
    return network
