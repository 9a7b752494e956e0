"""Stack: lanes of one network as one module, and how it runs on its device. SGD: their optimiser."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.networks import rbf_head
from class_uncertainty.training.networks.classifier import NETWORKS, Classifier, Names, Shape
from class_uncertainty.training.networks.double_backward import differentiable_twice
from class_uncertainty.training.networks.heads import StackedHead
from class_uncertainty.training.networks.rbf_head import StackedRBFHead
from class_uncertainty.training.networks.resnet import ResNet
from class_uncertainty.training.streams import initial_state, stream

FAILED = {"kernels": False, "compile": False}  # what did not work in this process, and is not tried again

State = dict[str, Tensor]  # of one lane, by the names of the plain Classifier


class Stack(nn.Module):
    """Independent networks, one a lane: (B, lanes * channels, ...) -> logits (lanes, B, C), before margin and scale.

    They are in the given states, or freshly initialised from the seeds of the lanes.
    """

    head: StackedHead | StackedRBFHead

    def __init__(
        self, recipe: Recipe, shape: Shape, names: Names, lanes: Sequence[Lane], states: Sequence[State] | None = None
    ) -> None:
        super().__init__()
        row, methods = NETWORKS[recipe.network], [lane.value for lane in lanes]
        features, classes = row.features(shape), len(names)
        self.lanes, self.bf16 = len(lanes), False
        self.body = row.body(shape, self.lanes)
        self.rbf = methods[0].head == "rbf"  # all lanes of a stack, or none
        if self.rbf:
            self.head = StackedRBFHead(features, classes, self.lanes)
            differentiable_twice(self.body)  # a gradient penalty is trained by second derivatives
        else:
            self.head = StackedHead(features, classes, torch.tensor([method.head == "cosine" for method in methods]))
        self.margins = nn.Parameter(torch.ones(self.lanes * classes)) if methods[0].learned else None
        if states is None:
            states = [initial(recipe, shape, names, lane) for lane in lanes]
        shared = [name for name in self.state_dict() if all(name in state for state in states)]  # stages differ in some
        self.load_state_dict({name: torch.cat([state[name] for state in states]) for name in shared}, strict=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))

    @property
    def kernels(self) -> bool:
        """Whether our own kernels compute the body."""
        return isinstance(self.body, ResNet) and self.body.kernels

    def states(self) -> list[State]:
        """Each lane's parameters and statistics, apart."""
        return apart(self.state_dict(), self.lanes)


def apart(stacked: State, lanes: int) -> list[State]:
    """The values of each lane, without what has no lane axis: batch norm counts its batches once for all."""
    by_lane = {name: value.detach().cpu().chunk(lanes) for name, value in stacked.items() if value.ndim}
    contiguous = torch.contiguous_format
    return [{name: v[i].clone(memory_format=contiguous) for name, v in by_lane.items()} for i in range(lanes)]


def initial(recipe: Recipe, shape: Shape, classes: Names, lane: Lane) -> State:
    """From the seed of the lane. The class weights of a cosine head have length one, as in LDAM-DRW.

    On full batches a linear head starts at zero: its objective has one minimum.
    """
    plain = Classifier(recipe.network, shape, classes)
    state = {name: torch.from_numpy(value) for name, value in initial_state(plain, lane.seed).items()}
    if recipe.full_batch and lane.value.head == "linear":
        state = {name: torch.zeros_like(value) for name, value in state.items()}
    if lane.value.head == "cosine":
        state["head.weight"] = F.normalize(state["head.weight"], dim=-1)
    if lane.value.head == "rbf":
        features = NETWORKS[recipe.network].features(shape)
        head = rbf_head.initial(stream(lane.seed, "initialisation", 1), features, len(classes))
        state = {name: value for name, value in state.items() if not name.startswith("head.")}
        state |= {f"head.{name}": torch.from_numpy(value) for name, value in head.items()}
    return state


class SGD:
    """torch.optim.SGD with a learning rate for each lane."""

    def __init__(self, stack: Stack, recipe: Recipe) -> None:
        self.lanes, self.recipe = stack.lanes, recipe
        trained = {name: p for name, p in stack.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(trained), list[Tensor](trained.values())
        self.momenta = [torch.zeros_like(p) for p in self.parameters]

    def load(self, momenta: Sequence[State]) -> None:
        for name, momentum in zip(self.names, self.momenta, strict=True):
            momentum.copy_(torch.cat([lane[name] for lane in momenta]))

    def states(self) -> list[State]:
        """Each lane's momenta, apart."""
        return apart(dict(zip(self.names, self.momenta, strict=True)), self.lanes)

    def rates(self, lr: Tensor) -> list[Tensor]:
        """lr (lanes,) spread over each parameter: of one shape, a GPU multiplies them all at once."""
        by_row = [lr.repeat_interleave(len(p) // self.lanes).view(-1, *[1] * (p.ndim - 1)) for p in self.parameters]
        return [torch.empty_like(p).copy_(rate.expand_as(p)) for rate, p in zip(by_row, self.parameters, strict=True)]

    @torch.no_grad()
    def step(self, rates: list[Tensor]) -> None:
        """v <- momentum v + (g + decay p); p <- p - lr v, or with Nesterov p - lr (g + decay p + momentum v)."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        torch._foreach_add_(gradients, self.parameters, alpha=self.recipe.weight_decay)
        torch._foreach_mul_(self.momenta, self.recipe.momentum)
        torch._foreach_add_(self.momenta, gradients)
        steps = self.momenta
        if self.recipe.nesterov:
            steps = list(torch._foreach_add(gradients, self.momenta, alpha=self.recipe.momentum))
        torch._foreach_sub_(self.parameters, list(torch._foreach_mul(steps, rates)))


def fallback(what: str, why: object) -> None:
    """Warn that something faster does not work here."""
    reason = (str(why) or type(why).__name__).splitlines()[0]
    warnings.warn(f"{what} ({reason}): training goes on without, more slowly", RuntimeWarning, stacklevel=2)


@contextmanager
def precision(stack: Stack) -> Iterator[None]:
    """bfloat16 for images on a GPU that has it, with statistics, loss and parameters in float32; float32 elsewhere."""
    on = stack.bf16 and not stack.kernels
    with torch.autocast("cuda", torch.bfloat16) if on else nullcontext():
        yield


def to_device(stack: Stack, network: str, device: str) -> Stack:
    """The stack on its device, in the fastest form that works there."""
    stack = stack.to(device)
    if device != "cuda" or not NETWORKS[network].images:
        return stack
    stack.bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    if not stack.bf16:
        fallback("this GPU has no bfloat16", torch.cuda.get_device_name())
    elif isinstance(stack.body, ResNet) and stack.body.fits_kernels and not stack.rbf:  # they have no second derivative
        if find_spec("triton") is None:
            fallback("our own kernels need triton", "it is not installed")
        elif not FAILED["kernels"]:
            stack.body.kernels = True
            return stack
    return without_kernels(stack)


def without_kernels(stack: Stack) -> Stack:
    """The stack by torch's own kernels."""
    if isinstance(stack.body, ResNet):
        stack.body.kernels = False
    return stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
