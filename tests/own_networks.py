"""Small networks of a user's own, tiny images for them, and the files that they come from."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import class_uncertainty as cu
from class_uncertainty.training.networks import network_table

FILE = """
import torch
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(3, 5, 3, stride=2), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 7, 1))

def fails():
    raise OSError("no such disk")

def text():
    return "a network"

def loaded():
    network = small()
    with torch.no_grad():
        for i, parameter in enumerate(network.parameters()):
            parameter.copy_(torch.linspace(-1, 1 + i, parameter.numel()).view_as(parameter))
    return network

def described():
    return small(), {"size": 12, "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.2, 0.2)}
"""


class Scaled(nn.Module):
    """Maps with a learned scalar, dropout and a parameter that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Conv2d(6, 6, 1), nn.Conv2d(6, 6, 1)])
        self.norm, self.drop = nn.BatchNorm2d(6), nn.Dropout(0.3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(torch.sigmoid(self.norm(self.first(x))))
        for block in self.blocks:
            x = x + block(x)
        return self.scale * x


class Layers(nn.Module):
    """LayerNorm alone, and features."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(3 * 8 * 8, 11), nn.LayerNorm(11), nn.Linear(11, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(nn.functional.gelu(self.norm(self.first(x.flatten(1)))))


def images(number: int = 60, side: int = 8, channels: int = 3, seed: int = 0) -> cu.Data:
    """Three classes, long-tailed, which differ in brightness."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), [number - 2 * (number // 4), number // 4, number // 4])
    pixels = rng.integers(0, 120, (number, channels, side, side)) + 45 * labels[:, None, None, None]
    return cu.Data(pixels.astype(np.uint8), labels, ["a", "b", "c"])


@contextmanager
def registered(name: str, factory: object, **options: object) -> Iterator[str]:
    """A network that is there for one test."""
    cu.register_network(name, factory, **options)  # type: ignore[arg-type]
    try:
        yield name
    finally:
        del network_table.NETWORKS[name]


def python_file(folder: Path) -> Path:
    file = folder / "mine.py"
    file.write_text(FILE)
    return file


def swin_folder(folder: Path, seed: int = 0) -> Path:
    """A tiny Swin transformer with random weights, as Transformers saves it."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=12, depths=[1, 1], num_heads=[2, 2], window_size=4
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        transformers.SwinModel(config).save_pretrained(folder / "swin")
    return folder / "swin"
