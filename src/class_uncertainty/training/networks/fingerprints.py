"""Hashes of what a network or a function computes: its code, the values that it holds, and its tensors."""

import hashlib
import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from class_uncertainty.errors import InputError

PLAIN = (bool, int, float, complex, str, bytes, type(None))


def weights_hash(module: nn.Module, code: bytes = b"") -> str:
    """Of every tensor, those included that are not saved, and of the code that was given."""
    digest = hashlib.sha256(code)
    tensors = {**module.state_dict(), **dict(module.named_buffers())}
    for name, value in tensors.items():
        digest.update(repr((name, tuple(value.shape), str(value.dtype))).encode())
        digest.update(_tensor(value))
    return digest.hexdigest()[:16]


def module_code(module: nn.Module, inside: frozenset[int] = frozenset()) -> bytes:
    """What a user's network does beside its tensors: the source of each class in it, and the values that they hold.

    `inside` are the ids of what this is a part of, which a layer may hold again.
    """
    inside |= {id(layer) for layer in module.modules()}
    kinds = dict.fromkeys(type(layer) for layer in module.modules())
    sources = [_source_or_name(kind) for kind in kinds if not kind.__module__.startswith("torch.")]
    values = [(name, _plain_values(layer, inside)) for name, layer in module.named_modules()]
    return repr((printed(module), sources, values)).encode()


def printed(module: nn.Module) -> str:
    """The architecture as torch prints it, without places in memory, and alike by every version of torch.

    Torch 2.13 prints whether a norm has a bias, and 2.11 does not: only one without it is another architecture.
    """
    return re.sub(r"( at 0x[0-9a-f]+)|(?<=affine=True)(, bias=True)", "", repr(module))


def function_code(function: Callable[..., Any], inside: frozenset[int] = frozenset()) -> bytes:
    """The source of a function and the values that it uses; refuses values that cannot be told from others."""
    if id(function) in inside:
        return b"above"
    inside |= {id(function)}
    if isinstance(function, nn.Module):
        return module_code(function, inside) + weights_hash(function).encode()
    if isinstance(function, partial):
        return function_code(function.func, inside) + _held([function.args, function.keywords], inside).encode()
    if not inspect.isroutine(function):  # an object that can be called
        return repr((_source(type(function)), _held(vars(function), inside))).encode()
    inner = inspect.unwrap(function)
    owner = getattr(inner, "__self__", None)
    code = getattr(inner, "__func__", inner)
    cells = [cell.cell_contents for cell in getattr(code, "__closure__", None) or ()]
    defaults = (getattr(code, "__defaults__", None), getattr(code, "__kwdefaults__", None))
    of_owner = () if owner is None or inspect.ismodule(owner) else function_code(owner, inside)
    return repr((_source(code), _held([cells, defaults], inside), of_owner)).encode()


def _source_or_name(kind: type) -> str:
    try:
        return _source(kind)
    except InputError:  # of a Python session
        return f"{kind.__module__}.{kind.__qualname__}"


def _source(code: Any) -> str:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        name = getattr(code, "__qualname__", repr(code))
        raise InputError(f"{name} has no source to tell it from others: define it in a file.") from None


def _plain_values(layer: nn.Module, inside: frozenset[int]) -> list[tuple[str, str]]:
    """The attributes of a layer that are numbers, words, or lists of them."""
    held = []
    for name, value in sorted(vars(layer).items()):
        if not name.startswith("_") and name != "training":
            try:
                held.append((name, _held(value, inside)))
            except InputError:
                held.append((name, type(value).__qualname__))
    return held


def _held(value: Any, inside: frozenset[int]) -> str:
    """A value as text that tells it from others."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Tensor):
        return hashlib.sha256(repr((tuple(value.shape), value.dtype)).encode() + _tensor(value)).hexdigest()
    if isinstance(value, np.ndarray):
        return hashlib.sha256(repr((value.shape, value.dtype.str)).encode() + value.tobytes()).hexdigest()
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_held(item, inside) for item in value]
        return repr((type(value).__name__, sorted(parts) if isinstance(value, set | frozenset) else parts))
    if isinstance(value, dict):
        return repr([(_held(key, inside), _held(item, inside)) for key, item in value.items()])
    if inspect.ismodule(value) or isinstance(value, type):
        return getattr(value, "__name__", repr(value))
    if callable(value):
        return hashlib.sha256(function_code(value, inside)).hexdigest()
    kind = type(value).__qualname__
    raise InputError(f"a transform uses a {kind}, which cannot be told from others: embed with cache=False.")


def _tensor(value: Tensor) -> bytes:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
