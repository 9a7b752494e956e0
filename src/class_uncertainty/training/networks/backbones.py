"""Backbones: pretrained networks that turn images into features. Weights are looked for on this machine alone."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from class_uncertainty.data.examples import Embedding
from class_uncertainty.data.spec import LITE0, names_backbone
from class_uncertainty.errors import InputError
from class_uncertainty.training.networks.efficientnet_lite import SameConv
from class_uncertainty.training.networks.fingerprints import module_code, weights_hash
from class_uncertainty.training.networks.network_name import BACKBONE, NetworkName, code_of, parse_network
from class_uncertainty.training.networks.pretrained import (
    Built,
    from_config,
    from_file,
    from_hugging_face,
    from_timm,
    lite0,
)  # fmt: skip
from class_uncertainty.training.networks.user_code import is_named

IMAGENET_SIDE = 224


@dataclass(frozen=True, eq=False)
class Backbone:
    """A frozen network: standardised images (B, 3, size, size) -> features (B, D)."""

    module: nn.Module
    embedding: Embedding


class Embedder(nn.Module):
    """uint8 images (B, 1 or 3, H, W) of any size -> features (B, D), in evaluation mode."""

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: Backbone, transform: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.embedding, self.transform, self.body = backbone.embedding, transform, backbone.module
        self.seen: Callable[[Tensor], list[Tensor]] = partial(seen, views=self.embedding.views)
        for name in ("mean", "std"):
            values = torch.tensor(getattr(self.embedding, name), dtype=torch.float32)
            self.register_buffer(name, 255 * values.view(-1, 1, 1), persistent=False)
        self.eval().requires_grad_(False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        x = images.expand(-1, 3, -1, -1)
        x = self.transform(x) if self.transform else (fitted(x, self.embedding.size) - self.mean) / self.std
        x = x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x  # convolutions are faster so
        views = [self.body(view) for view in self.seen(x)]
        features = torch.stack(views).mean(dim=0) if len(views) > 1 else views[0]
        is_maps = isinstance(features, Tensor) and features.ndim == 4  # (B, D, h, w)
        return features.mean(dim=(2, 3)) if is_maps else features


def fused(network: nn.Module) -> nn.Module:
    """The same function in evaluation mode, and faster: batch norms become part of the convolutions before them."""
    network = deepcopy(network).eval()
    for sequence in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        if type(sequence).forward is not nn.Sequential.forward:
            continue
        for i, (conv, norm) in enumerate(pairwise(list(sequence))):
            plain = type(conv) in (nn.Conv2d, SameConv) and type(norm) is nn.BatchNorm2d  # subclasses may do more
            if plain and isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
                sequence[i], sequence[i + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()
    return network


def fitted(images: Tensor, side: int) -> Tensor:
    """uint8 images (B, C, H, W) as floats (B, C, side, side): the shorter side is scaled, the longer one cropped."""
    x, (height, width) = images.float(), images.shape[2:]
    if min(height, width) != side:
        x = F.interpolate(x, scaled_size(height, width, side), mode="bicubic", antialias=True).clamp(0, 255)
    return centre(x, side)


def scaled_size(height: int, width: int, side: int) -> tuple[int, int]:
    """(H, W) of which the shorter is `side`, in the same proportion."""
    shorter = min(height, width)
    return max(side, round(height * side / shorter)), max(side, round(width * side / shorter))


def centre(x: Tensor, side: int) -> Tensor:
    """The middle (B, C, side, side) of images."""
    top, left = (x.shape[2] - side) // 2, (x.shape[3] - side) // 2
    return x[:, :, top : top + side, left : left + side]


def seen(x: Tensor, views: int) -> list[Tensor]:
    """The images and their mirror images, then crops of 7/8 of the sides at the corners, and theirs."""
    crops, (height, width) = [x], x.shape[2:]
    inner = (height - height // 8, width - width // 8)
    for top, left in ((0, 0), (0, 1), (1, 0), (1, 1))[: max(0, -(-views // 2) - 1)]:
        y0, x0 = top * (height - inner[0]), left * (width - inner[1])
        crop = x[:, :, y0 : y0 + inner[0], x0 : x0 + inner[1]]
        crops.append(F.interpolate(crop, (height, width), mode="bilinear"))
    return [view for crop in crops for view in (crop, crop.flip(3))][:views]


def find_backbone(name: str | nn.Module) -> Backbone:
    """A backbone by its name, with its weights; a module is its own, for images of 224 pixels."""
    if isinstance(name, nn.Module):
        embedding = Embedding(type(name).__name__, weights_hash(name, module_code(name)), IMAGENET_SIDE)
        return Backbone(name, embedding)
    parsed = parse_network(BACKBONE, name)
    module, preprocessing, code = build(parsed)
    if code and not parsed.weights:  # whatever a user's function makes
        with torch.random.fork_rng([]):
            again = build(parsed)[0]
        if weights_hash(again) != weights_hash(module):
            raise InputError(
                f"backbone {name!r} has other weights at every call: give ?weights=FILE, or load them there."
            )
    about: dict[str, Any] = {"size": IMAGENET_SIDE} | preprocessing
    about["size"] = parsed.size or about["size"]
    # nothing that determines features is left out of the description
    weights = weights_hash(module, code + module_code(module) if code else b"")
    return Backbone(module, Embedding(name, weights, views=parsed.views or 1, **about))


def build(name: NetworkName, pretrained: bool = True) -> Built:
    """A network of a package, or a user's own; without weights unless `pretrained`."""
    if name.is_code:
        return from_file(Path(name.source), name.argument, name.weights if pretrained else None)
    if name.source == LITE0:
        return lite0(name.weights, pretrained)
    make = from_timm if name.source == "timm" else from_hugging_face
    download = name.download == "yes" and is_named(name.text)  # not where only a file names it
    return make(name.argument, name.weights, download, pretrained)


def check_named(embedding: Embedding) -> None:
    """Refuse a backbone that was given in Python, or with a transform of its own."""
    if not names_backbone(embedding.backbone) or embedding.transform:
        why = "was given in Python and cannot be found by its name"
        raise InputError(f"backbone {embedding.backbone!r} {why}: give features that cu.embed made, as an .npz file.")


def same_backbone(embedding: Embedding) -> Backbone:
    """The backbone that made a network's features; another one, or one with other weights, is refused by name."""
    check_named(embedding)
    backbone = find_backbone(embedding.backbone)
    if backbone.embedding.weights != embedding.weights:
        hashes = f"{embedding.weights} when the network was trained, and {backbone.embedding.weights} here"
        raise InputError(f"backbone {embedding.backbone!r} has other weights or code: their hash was {hashes}.")
    return Backbone(backbone.module, embedding)


def architecture(name: str, config: Mapping[str, Any]) -> nn.Module:
    """The network of a backbone without its weights; `config` is what `config_of` gave. A user's code runs on a CPU."""
    if config:
        return from_config(config)
    parsed = parse_network(BACKBONE, name)
    with torch.device("cpu") if parsed.is_code else nullcontext():
        return build(parsed, pretrained=False)[0]


def check_same(embedder: Embedder) -> None:
    """Refuse a user's file that has changed since the weights of its network were saved with a head."""
    name = embedder.embedding.backbone
    if not code_of(name):
        return
    code = build(parse_network(BACKBONE, name), pretrained=False)[2] + module_code(embedder.body)
    if weights_hash(embedder.body, code) != embedder.embedding.weights:
        raise InputError(f"backbone {name!r} has other code than when the network was saved.")
