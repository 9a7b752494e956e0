"""A stack's epoch as one program: all that a step reads or writes stays in its place, so that a GPU can replay it as a graph."""

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.data.augmentation import crop, flip
from class_uncertainty.methods import Plan, losses
from class_uncertainty.training.networks import NETWORKS, Standardise
from class_uncertainty.training.recipe import Lane, Recipe
from class_uncertainty.training.resnet import ResNet32
from class_uncertainty.training.stack import SGD, Stack

_failed = {"kernels": False, "compile": False}  # what was tried in this process: it is not tried again
COMPILED = 200_000  # images of one training from which compiling pays on a CPU


@dataclass(frozen=True, eq=False)
class Examples:
    """Training examples on the device, as they are, and what standardises them."""

    inputs: Tensor  # uint8 images or float features
    labels: Tensor
    standardise: Standardise


@dataclass(frozen=True)
class Draws:
    """An epoch's examples (lanes, length), crop offsets (lanes, length, 2) and flips (lanes, length)."""

    order: NDArray[np.int64]
    shifts: NDArray[np.int64]
    mirrored: NDArray[np.bool_]


def augmented(x: Tensor, shifts: Tensor, mirrored: Tensor, recipe: Recipe) -> Tensor:
    """(M, ...) cropped and mirrored where the recipe says so."""
    x = crop(x, shifts, recipe.crop) if recipe.crop else x
    return flip(x, mirrored) if recipe.flip else x


def fallback(what: str, why: object) -> None:
    """Said once, where something faster cannot be had here."""
    reason = (str(why) or type(why).__name__).splitlines()[0]
    warnings.warn(f"{what} ({reason}): training goes on without, more slowly", RuntimeWarning, stacklevel=2)


class Knobs:
    """The plans of an epoch as tensors with a lane axis, and the loss they make."""

    def __init__(self, lanes: Sequence[Lane], classes: int, device: str) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(len(lanes), *shape, dtype=dtype, device=device)

        self.weight = zeros(classes)
        self.margin, self.divisor = zeros(1, classes), zeros(1, classes)
        self.beta, self.scale = zeros(1, 1), zeros(1, 1)
        self.gamma, self.sigmoid = zeros(1), zeros(1, dtype=torch.bool)
        self.by_weights = torch.tensor([lane.value.reduction == "weights" for lane in lanes], device=device)

    def set(self, plans: Sequence[Plan]) -> None:
        for name in ("weight", "margin", "divisor", "beta", "scale", "gamma", "sigmoid"):
            tensor: Tensor = getattr(self, name)
            tensor.copy_(torch.tensor(np.array([getattr(plan, name) for plan in plans])).view(tensor.shape))

    def loss(self, z: Tensor, labels: Tensor) -> Tensor:
        """Logits (lanes, B, C), labels (lanes, B) -> (lanes,).

        Padded to 32 examples or a multiple: torch computes exp and log of a tensor's last few numbers otherwise than of the rest,
        and the last lane of a stack must not be the one that holds them.
        """
        size, more = z.shape[1], -z.shape[1] % 32
        z, known = F.pad(z, (0, 0, 0, more)), F.pad(labels, (0, more))
        targets = F.one_hot(known, z.shape[-1]).to(z.dtype)
        z = losses.adjust_logits(z, known, self.margin, self.divisor, self.beta, self.scale)
        each = losses.per_example(z, targets, known, self.gamma, self.sigmoid)[:, :size]
        return losses.reduce(each, self.weight.gather(1, labels), self.by_weights)


class Program:
    """The steps of one stack."""

    def __init__(self, stack: Stack, optimiser: SGD, recipe: Recipe, examples: Examples, lanes: Sequence[Lane]) -> None:
        self.stack, self.optimiser, self.recipe, self.examples = stack, optimiser, recipe, examples
        device, count = str(examples.labels.device), len(examples.labels)
        self.batch = min(recipe.batch, count)
        self.length = count // self.batch * self.batch if recipe.drop_last else count
        if self.length % self.batch == 1:  # one example has no batch statistics
            self.length -= 1
        classes = stack.head.weight.shape[0] // stack.lanes
        self.knobs = Knobs(lanes, classes, device)
        self.order = torch.zeros(stack.lanes, self.length, dtype=torch.int64, device=device)
        self.shifts = torch.zeros(stack.lanes, self.length, 2, dtype=torch.int64, device=device)
        self.mirrored = torch.zeros(stack.lanes, self.length, dtype=torch.bool, device=device)
        self.at, self.places = torch.zeros((), dtype=torch.int64, device=device), torch.arange(self.batch, device=device)
        self.loss, self.wrong = torch.zeros(stack.lanes, device=device), torch.zeros(stack.lanes, device=device)
        self.rates = optimiser.rates(torch.zeros(stack.lanes, device=device))
        self.forward: Callable[[Tensor], Tensor] = stack
        self.graph: torch.cuda.CUDAGraph | None = None
        stack.train()
        if examples.labels.is_cuda:
            self._capture()
        elif NETWORKS[recipe.network].large and self.length * recipe.epochs >= COMPILED and not _failed["compile"]:
            self._compile()

    def epoch(self, plans: Sequence[Plan], draws: Draws, lr: Tensor, step: Callable[[], object]) -> Tensor:
        """Every step of an epoch at the learning rates lr (lanes,) -> (2, lanes) mean loss and training error in percent.

        `step` is called before each. A GPU may still be at work when this returns.
        """
        self.knobs.set(plans)
        for mine, drawn in ((self.order, draws.order), (self.shifts, draws.shifts), (self.mirrored, draws.mirrored)):
            mine.copy_(torch.from_numpy(drawn))
        for mine, rate in zip(self.rates, self.optimiser.rates(lr), strict=True):
            mine.copy_(rate)
        for tensor in (self.at, self.loss, self.wrong):
            tensor.zero_()
        for _ in range(self.length // self.batch):
            step()
            self.graph.replay() if self.graph else self._step(self.batch)
        if rest := self.length % self.batch:
            step()
            self._step(rest)
        return torch.stack([self.loss, 100 * self.wrong]) / self.length

    def _step(self, size: int) -> None:
        lanes = self.stack.lanes
        now = self.at + self.places[:size]
        chosen = self.order.index_select(1, now)  # (lanes, B)
        x = self.examples.inputs[chosen.flatten()]  # (lanes * B, ...)
        if self.recipe.crop or self.recipe.flip:
            shifts, mirrored = self.shifts.index_select(1, now), self.mirrored.index_select(1, now)
            x = augmented(x, shifts.flatten(0, 1), mirrored.flatten(), self.recipe)
        x = self.examples.standardise(x).unflatten(0, (lanes, size)).transpose(0, 1).flatten(1, 2)
        labels = self.examples.labels[chosen]
        with precision(self.stack):
            z = self.forward(x)
        loss = self.knobs.loss(z.float(), labels)  # (lanes,)
        self.stack.zero_grad()
        loss.sum().backward()
        self.optimiser.step(self.rates)
        self.loss += loss.detach() * size
        self.wrong += (z.detach().argmax(dim=-1) != labels).sum(dim=1)
        self.at += size

    def _capture(self) -> None:
        """One step as a CUDA graph: a small network's hundreds of kernels then cost the GPU's time, not Python's."""
        with self._put_back():
            self._try_graph()

    def _try_graph(self) -> None:
        try:
            self._warm_up()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a compiler raises nearly anything
            if not self.stack.kernels:
                raise
            _failed["kernels"] = True
            self.stack.kernels = False
            self.stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            fallback("our own kernels do not compile here", error)
            self._warm_up()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._step(self.batch)
            self.graph = graph
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            fallback("a training step cannot be captured as a CUDA graph", error)

    def _compile(self) -> None:
        """By torch.compile, where it works: it needs a C++ compiler."""
        if not any(map(shutil.which, ("g++", "clang++", "c++", "cl"))):
            return
        self.forward = torch.compile(self.stack)
        with self._put_back():
            try:
                self._step(self.batch)
            except Exception as error:  # a compiler raises nearly anything
                _failed["compile"] = True
                self.forward = self.stack
                fallback("torch.compile does not work here", error)

    def _warm_up(self) -> None:
        """Whatever is compiled or chosen at a first call."""
        side = _side_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.at.zero_()
                self._step(self.batch)
        torch.cuda.current_stream().wait_stream(side)

    @contextmanager
    def _put_back(self) -> Iterator[None]:
        """What steps that are only tried change."""
        kept = [tensor.clone() for tensor in self._state()]
        yield
        for tensor, value in zip(self._state(), kept, strict=True):
            tensor.copy_(value)

    def _state(self) -> list[Tensor]:
        return [*(p.data for p in self.stack.parameters()), *self.stack.buffers(), *self.optimiser.momenta]


@cache
def _side_stream() -> torch.cuda.Stream:
    """One for all: each stream that multiplies matrices keeps a workspace for ever."""
    return torch.cuda.Stream()


@contextmanager
def precision(stack: Stack) -> Iterator[None]:
    """bfloat16 for images on a GPU that has it, with statistics, loss and parameters in float32; float32 elsewhere."""
    on = stack.bf16 and not stack.kernels
    with torch.autocast("cuda", torch.bfloat16) if on else nullcontext():
        yield


def settle(stack: Stack, network: str, device: str) -> Stack:
    """The stack on its device, in the fastest form that works there."""
    stack = stack.to(device)
    if device != "cuda" or not NETWORKS[network].images:
        return stack
    stack.bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    if not stack.bf16:
        fallback("this GPU has no bfloat16", torch.cuda.get_device_name())
    elif isinstance(stack.body, ResNet32):
        if find_spec("triton") is None:
            fallback("our own kernels need triton", "it is not installed")
        elif not _failed["kernels"]:
            stack.kernels = True
            return stack
    stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return stack
