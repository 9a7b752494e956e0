"""embed(): features of a frozen pretrained network, computed once and kept in the cache."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from class_uncertainty.checks import check, check_least, take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.cache import Decoding, Progress, cached, forget
from class_uncertainty.data.examples import Pictures
from class_uncertainty.errors import InputError, means_too_little_memory
from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.text import reason
from class_uncertainty.training.fit import default_device
from class_uncertainty.training.fit_result import as_tensor
from class_uncertainty.training.networks.backbones import Backbone, Embedder, find_backbone, fused
from class_uncertainty.training.networks.fingerprints import function_code
from class_uncertainty.training.networks.user_code import trust

BATCH = 64  # images that are read at a time
WHAT = "features"
FEW = 4  # images that a CPU passes on at a time: activations of more do not fit into its caches
BLOCK = 2048  # images whose features are kept at a time: what was embedded before a kill is not embedded again

Transform = Callable[[Tensor], Tensor]


def embed(
    data: Data,
    backbone: str | nn.Module,
    *,
    transform: Transform | None = None,
    batch: int = BATCH,
    cache: bool = True,
    progress: Progress | None = None,
) -> Data:
    """Features of a frozen pretrained network in the place of images.

    Each image passes through the network once. Heads of these features train in seconds, which suits photographs.

    Parameters
    ----------
    data : Data
        Images, grey or in colours.
    backbone : str or torch.nn.Module
        "efficientnet-lite0", "timm:NAME", "hf:NAME_OR_FOLDER", "PATH.py:FACTORY", or a network of your own that turns
        standardised images (B, 3, H, W) into features (B, D). Names take options: "efficientnet-lite0?size=96" for
        images of 96 pixels, "?views=2" for means over an image and its mirror image (up to 10 views, the others are
        crops), "?weights=FILE" for other weights, "?download=yes" to fetch weights that are not here.
    transform : callable, optional
        From uint8 images (B, 3, H, W) to what the network takes; by default the network's usual preprocessing.
    batch : int
        Images that are read at a time, and on a GPU pass through the network together.
    cache : bool
        Whether features are kept on disk, and taken from there if these images passed through these weights before.
    progress : callable, optional
        Called with (what, done, total) as embedding goes on.

    Returns
    -------
    Data
        Features as float32 (N, D), with the same labels, classes and names.

    Examples
    --------
    >>> digits = cu.load("digits-lt:20").train
    >>> network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
    >>> cu.embed(digits, network).shape
    (48,)
    """
    check(Data, data=data)
    check(str | nn.Module, backbone=backbone)
    check(Callable | None, transform=transform, progress=progress)
    check(bool, cache=cache)
    if isinstance(backbone, str):
        trust(backbone)
    return embed_by(find_backbone(backbone), data, transform=transform, batch=batch, cache=cache, progress=progress)


def embed_by(
    backbone: Backbone,
    data: Data,
    *,
    transform: Transform | None = None,
    batch: int = BATCH,
    cache: bool = True,
    progress: Progress | None = None,
) -> Data:
    """Likewise, with a backbone whose weights are read already."""
    check_least("batch", batch, 1)
    batch = take(int, batch=batch)
    if not data.is_images or data.shape[0] not in (1, 3):
        raise InputError(f"examples have shape {data.shape}: backbones take images with 1 or 3 channels.")
    height, width = data.shape[1:]
    code = _code_of(transform, cache) if transform else ""
    embedding = replace(backbone.embedding, images=(height, width), transform=code)
    embedder = Embedder(Backbone(fused(backbone.module), embedding), transform).to(default_device())
    show = progress or (lambda what, done, total: None)
    if cache:
        features = _cached(embedder, replace(data, groups=None), batch, show)  # under the same key as without groups
    else:
        features = np.concatenate(list(_features(embedder, data, batch, show, 0, len(data))))
    about, pictures = (data.labels, data.classes), Pictures.of(data.inputs)
    return Data(features, *about, names=data.names, embedding=embedding, pictures=pictures, groups=data.groups)


def _cached(embedder: Embedder, data: Data, batch: int, progress: Progress) -> NDArray[np.float32]:
    """The features, from the cache where they are; until all are there, block after block."""
    about, parts = asdict(embedder.embedding), list[str]()

    def block(rows: slice) -> NDArray[np.float32]:
        part = data.take(np.arange(rows.start, rows.stop))
        batches = _features(embedder, part, batch, progress, rows.start, len(data))
        parts.append(part.fingerprint)
        return _computed(part, batches, about)

    if len(data) <= BLOCK:
        return block(slice(0, len(data)))
    features = _computed(data, map(block, row_blocks(len(data), BLOCK)), about)
    for fingerprint in parts:
        forget(WHAT, [], data=fingerprint, **about)
    return features


def _computed(data: Data, batches: Iterator[NDArray[np.float32]], about: dict[str, Any]) -> NDArray[np.float32]:
    """What the batches hold, memory-mapped; nothing is computed where the cache has it."""

    def build() -> Decoding:
        first = next(batches)
        return Decoding(data.labels, data.classes, first.shape[1:], chain([first], batches), "<f4")

    return cached(WHAT, [], build, data=data.fingerprint, **about).inputs  # type: ignore[return-value]


@torch.inference_mode()
def _features(
    embedder: Embedder, data: Data, batch: int, progress: Progress, before: int, total: int
) -> Iterator[NDArray[np.float32]]:
    """Of one batch after the other; `before` images of `total` have passed already."""
    width, device = None, embedder.mean.device
    for rows in row_blocks(len(data), batch):
        images = as_tensor(data.inputs[rows]).to(device)
        passed = list[Tensor]()
        for few in images.split(batch if images.is_cuda else FEW):
            passed.append(_passed(embedder, few))
            if width not in (None, passed[-1].shape[1]):
                made = f"made {width} features, then {passed[-1].shape[1]}"
                raise InputError(f"backbone {embedder.embedding.backbone!r} {made}: they must be as many.")
            width = passed[-1].shape[1]
        progress(f"{WHAT} by {embedder.embedding.backbone}", before + rows.stop, total)
        yield torch.cat(passed).float().cpu().numpy()


def _passed(embedder: Embedder, images: Tensor) -> Tensor:
    """(B, D) of a batch; whatever else a user's network does is refused."""
    name = embedder.embedding.backbone
    try:
        features = embedder(images)
    except Exception as error:  # anyone's code raises anything
        if means_too_little_memory(error):
            raise
        shape = tuple(images.shape[1:])
        raise InputError(f"backbone {name!r} cannot take images of shape {shape}: {reason(error)}.") from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != len(images):
        made = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InputError(f"backbone {name!r} made {made} of {len(images)} images: it must make (B, D) features.")
    if not features.isfinite().all():
        raise InputError(f"backbone {name!r} made features that are not finite.")
    return features


def _code_of(transform: Transform, cache: bool) -> str:
    """A hash of what a transform does; nothing needs it where features are not kept."""
    return hashlib.sha256(function_code(transform)).hexdigest()[:16] if cache else "given in Python"


def embed_dataset(dataset: Dataset, backbone: Backbone, name: str, progress: Progress | None = None) -> Dataset:
    """Both splits, under another name."""
    train = embed_by(backbone, dataset.train, progress=progress)
    test = None if dataset.test is None else embed_by(backbone, dataset.test, progress=progress)
    return replace(dataset, name=name, train=train, test=test)
