"""A stack's epoch as one program: all that a step reads or writes stays in its place, so that a GPU can replay it as a graph."""

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.methods import Plan, losses
from class_uncertainty.training import duq
from class_uncertainty.training.augmenting import augmented, mixed, remixed
from class_uncertainty.training.duq import Kernels
from class_uncertainty.training.networks import NETWORKS, Standardise, affine
from class_uncertainty.training.objective import Knobs
from class_uncertainty.training.recipe import Lane
from class_uncertainty.training.resnet import ResNet32
from class_uncertainty.training.stack import SGD, Stack
from class_uncertainty.training.stages import Leg

if TYPE_CHECKING:
    from class_uncertainty.training.teaching import Teachers

_failed = {"kernels": False, "compile": False}  # what was tried in this process: it is not tried again
COMPILED = 200_000  # images of one training from which compiling pays on a CPU


@dataclass(frozen=True, eq=False)
class Examples:
    """Training examples on the device, as they are, and what standardises them."""

    inputs: Tensor  # uint8 images or float features
    labels: Tensor
    standardise: Standardise
    counts: Tensor  # of each class, (1, C), or (lanes, C) where lanes keep some of the examples


def dropped(features: Tensor, kept: Tensor, share: Tensor) -> Tensor:
    """Features (B, lanes * D) without the share (1, lanes, 1) whose numbers kept (lanes, B, D) lie below it; the rest makes up for them."""
    by_lane, kept = features.unflatten(1, (share.shape[1], -1)), kept.transpose(0, 1)
    return torch.where(kept >= share, by_lane / (1 - share), 0.0).flatten(1)


def fallback(what: str, why: object) -> None:
    """Said once, where something faster cannot be had here."""
    reason = (str(why) or type(why).__name__).splitlines()[0]
    warnings.warn(f"{what} ({reason}): training goes on without, more slowly", RuntimeWarning, stacklevel=2)


class Program:
    """The steps of one stack in one stage. `draws` are an epoch's, (lanes, length, ...) each, of which the shapes count here."""

    def __init__(
        self,
        stack: Stack,
        optimiser: SGD,
        leg: Leg,
        examples: Examples,
        lanes: Sequence[Lane],
        draws: Mapping[str, NDArray],
        gathered: Mapping[str, Tensor] | None = None,
        teachers: "Teachers | None" = None,
    ) -> None:
        self.stack, self.optimiser, self.leg, self.recipe, self.examples = stack, optimiser, leg, leg.recipe, examples
        device, self.length = str(examples.labels.device), draws["order"].shape[1]
        self.batch = min(leg.recipe.batch, self.length)
        classes = examples.counts.shape[1]
        self.knobs = Knobs(lanes, classes, device)
        self.draws = {name: torch.from_numpy(part).to(device) for name, part in draws.items()}
        self.at, self.places = torch.zeros((), dtype=torch.int64, device=device), torch.arange(self.batch, device=device)
        self.loss, self.wrong = torch.zeros(stack.lanes, device=device), torch.zeros(stack.lanes, device=device)
        self.rates = optimiser.rates(torch.zeros(stack.lanes, device=device))
        self.body: Callable[[Tensor], Tensor] = stack.body
        self.graph: torch.cuda.CUDAGraph | None = None
        self.gathered = dict(gathered or {})
        self.teachers = teachers
        self.dropout = torch.tensor([lane.value.dropout for lane in lanes], device=device).view(1, -1, 1)
        self.remixes = "remix" in lanes[0].value.augment
        self.centroids = torch.zeros(stack.lanes, classes, stack.head.weight.shape[-1], device=device)
        self.set_training()
        large = NETWORKS[self.recipe.network].large and self.length * self.recipe.epochs >= COMPILED
        if examples.labels.is_cuda:
            self._capture()
        elif large and not stack.rbf and not _failed["compile"]:  # what is compiled has no second derivative
            self._compile()

    def set_training(self) -> None:
        """Training mode; a body that stays as it is keeps its batch statistics too."""
        self.stack.train()
        self.stack.body.train(self.leg.trains != "head")

    def epoch(self, plans: Sequence[Plan], draws: Mapping[str, NDArray], lr: Tensor, step: Callable[[], object]) -> Tensor:
        """Every step of an epoch at the learning rates lr (lanes,) -> (2, lanes) mean loss and training error in percent.

        `step` is called before each. A GPU may still be at work when this returns.
        """
        self.knobs.set(plans)
        for name, drawn in draws.items():
            self.draws[name].copy_(torch.from_numpy(drawn))
        for mine, rate in zip(self.rates, self.optimiser.rates(lr), strict=True):
            mine.copy_(rate)
        if not self.knobs.at_logits:
            self._centre()
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
        x, labels, drawn = self._next(size)
        if self.stack.rbf:
            x.requires_grad_()
        with precision(self.stack), torch.set_grad_enabled(self.leg.trains != "head"):
            features = self.body(x)
        if "kept" in drawn:
            features = dropped(features, drawn["kept"], self.dropout)
        with precision(self.stack):
            z = self.stack.head(features)
        z = z.float()
        loss = self._loss(x, features, z, labels, drawn)  # (lanes,)
        self.stack.zero_grad()
        loss.sum().backward()
        self.optimiser.step(self.rates)
        if isinstance(self.stack.head, Kernels):
            self._move_centroids(x.detach(), labels)
        if self.gathered:
            self._gather(z.detach(), drawn["order"])
        self.loss += loss.detach() * size
        self.wrong += (z.detach().argmax(dim=-1) != labels).sum(dim=1)
        self.at += size

    def _next(self, size: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """A batch (B, lanes * channels, ...), its labels (lanes, B), and what was drawn for it, (lanes, B, ...) each."""
        now = self.at + self.places[:size]
        drawn = {name: part.index_select(1, now) for name, part in self.draws.items()}
        x = self.examples.inputs[drawn["order"].flatten()]  # (lanes * B, ...)
        x = augmented(x, {name: part.flatten(0, 1) for name, part in drawn.items()}, self.recipe)
        x = self.examples.standardise(x).unflatten(0, (self.stack.lanes, size))
        if "mixed" in drawn:
            x = mixed(x, drawn)
        return x.transpose(0, 1).flatten(1, 2), self.examples.labels[drawn["order"]], drawn

    def _loss(self, x: Tensor, features: Tensor, z: Tensor, labels: Tensor, drawn: Mapping[str, Tensor]) -> Tensor:
        """(lanes,)."""
        others, share = self._mixture(labels, drawn) if "mixed" in drawn else (labels, None)

        def each(of: Callable[[Tensor], Tensor]) -> Tensor:
            """A loss of every example, by its label or by both of them."""
            return of(labels) if share is None else share * of(labels) + (1 - share) * of(others)

        if teachers := self.teachers:
            first = x.unflatten(1, (self.stack.lanes, -1))[:, 0]  # what one student sees, all do
            targets = teachers.targets(first, drawn["order"][0])
            return each(lambda known: teachers.loss(z, targets, known)).mean(dim=1)
        if self.stack.rbf:
            return (each(lambda known: self.knobs.kernels(z, known)) + duq.PENALTY * duq.gradient_penalty(x, z)).mean(dim=1)
        loss = self.knobs.loss(z, labels) if share is None else self.knobs.mixed(z, labels, others, share)
        if self.knobs.at_logits:
            return loss
        by_lane = features.float().unflatten(1, (self.stack.lanes, -1)).transpose(0, 1)
        margin = self.knobs.margin.squeeze(1) if self.stack.margins is None else self.stack.margins.view(self.stack.lanes, -1)
        return loss + each(lambda known: losses.robust(by_lane, known, self.centroids, margin)).sum(dim=1)

    def _mixture(self, labels: Tensor, drawn: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The partners' labels in a mixed batch, and the share of an example's own: (lanes, B)."""
        others, share = labels.gather(1, drawn["partner"]), drawn["mixed"]
        counts = self.examples.counts.expand(len(labels), -1)
        return others, remixed(share, counts.gather(1, labels), counts.gather(1, others)) if self.remixes else share

    @torch.no_grad()
    def _centre(self) -> None:
        """Class centroids: the mean features of the epoch's examples as they are drawn and augmented, in evaluation mode (DRO-LT)."""
        self.stack.eval()
        self.at.zero_()
        sums, counts = torch.zeros_like(self.centroids), torch.zeros_like(self.centroids[..., 0])
        for start in range(0, self.length, self.batch):
            size = min(self.batch, self.length - start)
            x, labels, _ = self._next(size)
            with precision(self.stack):
                features = self.stack.body(x).float().unflatten(1, (self.stack.lanes, -1)).permute(1, 2, 0)  # (lanes, D, B)
            own = F.one_hot(labels, self.examples.counts.shape[1]).to(features.dtype).mT  # (lanes, C, B)
            sums += affine(own, features, torch.zeros_like(own[:, :1, :1]))
            counts += own.sum(dim=2)
            self.at += size
        self.centroids.copy_(sums / counts.clamp(min=1).unsqueeze(2))
        self.set_training()

    @torch.no_grad()
    def _move_centroids(self, x: Tensor, labels: Tensor) -> None:
        """DUQ's exponential averages, by the network as it now is, in evaluation mode."""
        assert isinstance(self.stack.head, Kernels)
        self.stack.body.eval()
        with precision(self.stack):
            features = self.stack.body(x)
        self.stack.head.update(features, labels)
        self.set_training()

    def gathered_by(self, lane: int) -> dict[str, Tensor]:
        """The sums so far of one lane, on the host."""
        return {name: part[lane].cpu().clone() for name, part in self.gathered.items()}

    def _gather(self, z: Tensor, chosen: Tensor) -> None:
        """Sums over the epochs of each example's probabilities and entropy, and how often it was seen, at no extra pass."""
        padded, _, size = self.knobs.padded(z, chosen)
        whole = (self.knobs.scale * padded).softmax(dim=-1)
        p, entropy = whole[:, :size], torch.special.entr(whole).sum(dim=-1)[:, :size]
        for name, more in (("p", p), ("entropy", entropy), ("seen", torch.ones_like(entropy))):
            places = chosen if more.ndim == 2 else chosen.unsqueeze(2).expand_as(more)
            lanes = len(self.gathered[name])  # without those that only fill the stack
            self.gathered[name].scatter_add_(1, places[:lanes], more[:lanes])

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
            for stack in (self.stack, *([self.teachers.stack] if self.teachers and self.teachers.stack.kernels else [])):
                stack.kernels = False
                stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
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
        self.body = torch.compile(self.stack.body)
        with self._put_back():
            try:
                self._step(self.batch)
            except Exception as error:  # a compiler raises nearly anything
                _failed["compile"] = True
                self.body = self.stack.body
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
        mine = [self.at, *self.gathered.values()]
        return [*(p.data for p in self.stack.parameters()), *self.stack.buffers(), *self.optimiser.momenta, *mine]


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
    elif isinstance(stack.body, ResNet32) and not stack.rbf:  # our kernels have no second derivative
        if find_spec("triton") is None:
            fallback("our own kernels need triton", "it is not installed")
        elif not _failed["kernels"]:
            stack.kernels = True
            return stack
    stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return stack
