"""A deployed model as one program: raw inputs in, probabilities and labels out; and a description of both."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.integrations.onnx_table import features_of, some_rows
from class_uncertainty.training.networks.backbones import Embedder, centre, fused, same_backbone, scaled_size, seen
from class_uncertainty.training.networks.classifier import Classifier, Columns, Deployed
from class_uncertainty.training.networks.tree_heads import TreeHead

INPUT, OUTPUTS = "inputs", ("probabilities", "label")


class Resize(nn.Module):
    """What `fitted` does to images of one size, by two matrices: other programs resize with slightly other weights."""

    rows: Tensor
    columns: Tensor

    def __init__(self, height: int, width: int, side: int) -> None:
        super().__init__()
        new_height, new_width = scaled_size(height, width, side)
        self.side, self.as_it_is = side, min(height, width) == side
        self.register_buffer("rows", _weights(height, new_height))
        self.register_buffer("columns", _weights(width, new_width).T.contiguous())

    def forward(self, images: Tensor) -> Tensor:
        x = images.to(self.rows.dtype)
        return centre(x if self.as_it_is else (self.rows @ x @ self.columns).clamp(0, 255), self.side)


def _weights(size: int, new: int) -> Tensor:
    """(new, size): what bicubic interpolation makes of one side of an image."""
    return F.interpolate(torch.eye(size)[None, None], (new, size), mode="bicubic", antialias=True)[0, 0]


class Standardised(nn.Module):
    """Images resized, then (x - mean) / std."""

    def __init__(self, resize: Resize, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.resize = resize
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Tensor) -> Tensor:
        return (self.resize(images) - self.mean) / self.std


class Views(nn.Module):
    """What `seen` makes of images of one size, by two matrices for each view, found by images of one row or column."""

    rows: Tensor  # (views, side, side)
    columns: Tensor

    def __init__(self, side: int, views: int) -> None:
        super().__init__()
        shape, eye = (side, 1, side, side), torch.eye(side)
        by_row, by_column = (
            seen(eye.view(size).expand(shape), views) for size in ((side, 1, side, 1), (side, 1, 1, side))
        )
        self.register_buffer("rows", torch.stack([view[:, 0, :, 0].T for view in by_row]))
        self.register_buffer("columns", torch.stack([view[:, 0, 0, :] for view in by_column]))

    def forward(self, x: Tensor) -> list[Tensor]:
        others = zip(self.rows[1:], self.columns[1:], strict=True)
        return [x, *(rows @ x @ columns for rows, columns in others)]  # the first is the image itself


def whole(model: Deployed) -> Deployed:
    """A copy on the CPU, with its backbone where features come from one."""
    model = deepcopy(model).cpu().eval()
    if model.embedding is not None and model.backbone is None:
        backbone = same_backbone(model.embedding)
        model.backbone = Embedder(replace(backbone, module=fused(backbone.module)))
    return model.requires_grad_(False)


def _medians(encoding: Columns) -> Tensor | None:
    """(D,) what gaps in the numbers of a table are filled with; NaN where they are not, None where none are."""
    columns = encoding or ()
    if not any(column.fills and column.median is not None for column in columns):
        return None
    fills = [column.median if column.fills else None for column in columns for _ in column.features]
    return torch.tensor([torch.nan if fill is None else fill for fill in fills])


class Exportable(nn.Module):
    """Softmax and decision behind a deployed model that is `whole`; `by_matrices` where others resize images."""

    medians: Tensor | None

    def __init__(self, model: Deployed, by_matrices: bool = False) -> None:
        super().__init__()
        self.model = deepcopy(model)
        self.register_buffer("medians", _medians(model.encoding))
        for parameter in self.model.parameters():
            parameter.data = parameter.data.contiguous()  # not channels last, which .pt2 files do not hold well
        for part in list(self.model.modules()):
            if isinstance(part, TreeHead):
                part.fix_steps()
            elif isinstance(part, Embedder) and by_matrices:
                part.transform = Standardised(self._resize(part.embedding.size), part.mean, part.std)
                part.seen = Views(part.embedding.size, part.embedding.views)
            elif isinstance(part, Classifier) and part.preprocess.side and by_matrices:
                mean, std, resize = part.preprocess.mean, part.preprocess.std, self._resize(part.preprocess.side)
                part.preprocess = Standardised(resize, mean, std)  # type: ignore[assignment]

    def _resize(self, side: int) -> Resize:
        return Resize(self.shape[1], self.shape[2], side)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        if self.medians is not None:
            inputs = torch.where(inputs.isnan(), self.medians, inputs)
        p, costs = self.model(inputs).softmax(dim=1), self.model.costs
        return p, p.argmax(dim=1) if costs is None else (p @ costs).argmin(dim=1)

    @property
    def is_images(self) -> bool:
        return len(self.shape) == 3

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example."""
        if self.model.embedding is not None:
            return (3, *self.model.embedding.images)
        return tuple(self.model.rebuild["shape"])

    @property
    def input(self) -> str:
        """The type and shape of a batch."""
        return f"{'uint8' if self.is_images else 'float32'} (batch, {', '.join(map(str, self.shape))})"

    def examples(self, number: int) -> Tensor:
        """Inputs like those of training, to trace and to check the program by."""
        generator = torch.Generator().manual_seed(number)
        if self.is_images:
            coarse = torch.randint(0, 256, (number, self.shape[0], 4, 4), generator=generator)
            noise = torch.randint(-32, 33, (number, *self.shape), generator=generator)
            return (
                (F.interpolate(coarse.float(), self.shape[1:], mode="bilinear") + noise).clamp(0, 255).to(torch.uint8)
            )
        if self.model.encoding is not None:
            return torch.from_numpy(features_of(self.model.encoding, some_rows(self.model.encoding, number)))
        statistics = dict(self.model.preprocess.named_buffers())
        return statistics["mean"] + statistics["std"] * torch.randn(number, *self.shape, generator=generator)

    def about(self) -> dict[str, str]:
        """What whoever runs the program must know, as JSON texts."""
        purpose, encoding = self.model.purpose, self.model.encoding
        names: list[str] | None = None
        if encoding is not None:
            names = [feature for column in encoding for feature in column.features]
        values: dict[str, Any] = {
            "classes": list(self.model.classes),
            "input": self.input,
            "features": names,
            "prior": list(purpose.prior) if purpose else None,
            "counts": list(purpose.counts) if purpose else None,
            "method": purpose.method if purpose else None,
            "goal": purpose.goal if purpose else None,
        }
        return {name: json.dumps(value) for name, value in values.items() if value is not None}
