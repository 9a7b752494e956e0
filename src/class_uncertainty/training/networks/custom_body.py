"""Anyone's module as the body of a network: alone as it is, or several lanes of it as one."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.errors import InputError, means_too_little_memory
from class_uncertainty.text import reason

MODULE = "module"  # where a body keeps the module: its names follow


class OwnBody(nn.Module):
    """(B, channels, ...) -> features (B, D), where maps (B, D, h, w) are averaged over the image."""

    def __init__(self, name: str, module: nn.Module, features: int | None = None) -> None:
        super().__init__()
        self.name, self.features, self.module = name, features, module
        self.frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}

    def forward(self, x: Tensor) -> Tensor:
        return pooled(self.name, run(self.name, self.module, x), self.features)

    def maps(self, x: Tensor) -> Tensor:
        """Features before they are averaged over the image."""
        return run(self.name, self.module, x)

    def requires_grad_(self, requires_grad: bool = True) -> "OwnBody":
        """What the module itself has frozen stays so."""
        for name, parameter in self.module.named_parameters():
            parameter.requires_grad_(requires_grad and name not in self.frozen)
        return self


class StackedOwnBody(OwnBody):
    """(B, lanes * channels, ...) -> features (B, lanes * D), by vmap or lane after lane.

    The tensors of the lanes lie behind each other along their first axis, under the names of the module.
    """

    def __init__(self, name: str, module: nn.Module, features: int | None, lanes: int, by_vmap: bool) -> None:
        super().__init__(name, module, features)
        self.lanes, self.by_vmap = lanes, by_vmap
        self.scalars = {name for name, value in _tensors(module).items() if not value.ndim}
        _repeat_tensors(module, lanes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (self.lanes, -1))
        values = {name: self._by_lane(name, value) for name, value in _tensors(self.module).items()}
        if self.by_vmap:
            try:
                return torch.vmap(self._one, in_dims=(0, 1), out_dims=1)(values, x).flatten(1)
            except (RuntimeError, ValueError) as error:
                if isinstance(error, InputError) or means_too_little_memory(error):
                    raise
                advice = 'register it with stack="loop"'
                raise InputError(f"network {self.name!r} cannot be stacked by vmap: {advice}.") from error
        lanes = [self._one({name: value[i] for name, value in values.items()}, x[:, i]) for i in range(self.lanes)]
        return torch.cat(lanes, dim=1)

    def _by_lane(self, name: str, value: Tensor) -> Tensor:
        return value if name in self.scalars else value.unflatten(0, (self.lanes, -1))

    def _one(self, values: dict[str, Tensor], x: Tensor) -> Tensor:
        """One lane."""
        call: Callable[[Tensor], Any] = lambda x: torch.func.functional_call(self.module, values, (x,))  # noqa: E731
        return pooled(self.name, call(x) if self.by_vmap else run(self.name, call, x), self.features)


def run(name: str, module: Callable[[Tensor], Any], x: Tensor) -> Any:
    """What the module makes of x; what it raises is told in one sentence."""
    try:
        return module(x)
    except Exception as error:  # anyone's code raises anything
        if isinstance(error, InputError | torch.OutOfMemoryError) or means_too_little_memory(error):
            raise
        given = f"inputs of shape {tuple(x.shape[1:])}"
        raise InputError(f"network {name!r} cannot take {given} ({type(error).__name__}: {reason(error)}).") from error


def pooled(name: str, output: Any, features: int | None) -> Tensor:
    """(B, D) or (B, D, h, w) -> (B, D); nothing else, and never another D."""
    if not isinstance(output, Tensor) or output.ndim not in (2, 4):
        kind = f"a tensor of {output.ndim} axes" if isinstance(output, Tensor) else type(output).__name__
        raise InputError(f"network {name!r} gives {kind}: it must give features (B, D) or maps (B, D, h, w).")
    y = output.mean((2, 3)) if output.ndim == 4 else output
    if features is not None and y.shape[1] != features:
        raise InputError(
            f"network {name!r} gives {y.shape[1]} features and gave {features} before: it must not change."
        )
    return y


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _repeat_tensors(module: nn.Module, lanes: int) -> None:
    """Give every parameter and buffer of the module the room of so many lanes; what is shared stays shared."""
    repeated: dict[int, Any] = {}
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, value in tensors.items():
                if value is None:
                    continue
                if id(value) not in repeated:
                    rows = torch.atleast_1d(value.detach()).repeat(lanes, *[1] * max(0, value.ndim - 1))
                    is_parameter = isinstance(value, nn.Parameter)
                    repeated[id(value)] = nn.Parameter(rows, value.requires_grad) if is_parameter else rows
                tensors[name] = repeated[id(value)]
