"""Small bodies: three convolutions for images, one hidden layer for features, or nothing before the head."""

from torch import nn

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
