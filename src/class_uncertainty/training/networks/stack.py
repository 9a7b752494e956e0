"""Stack: lanes of one network as one module, and how it runs on its device. SGD: their optimiser."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import takewhile

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from class_uncertainty.errors import fallback
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.networks.bodies import ResNet
from class_uncertainty.training.networks.classifier import HEADS, Classifier, Names, Shape
from class_uncertainty.training.networks.custom_body import MODULE
from class_uncertainty.training.networks.custom_network import seeded
from class_uncertainty.training.networks.heads import (
    StackedHead,
    StackedRBFHead,
    differentiable_twice,
    initial_rbf_head,
)
from class_uncertainty.training.networks.network_table import find_network
from class_uncertainty.training.streams import initial_state, stream

HEAD, BODY = "head.", "body."


def rate_factors(names: Sequence[str], recipe: Recipe) -> list[float]:
    """A factor of the learning rate for each parameter, by its name."""
    layers = layers_of([name for name in names if name.startswith(BODY)])
    before_head = {name: len(set(layers.values())) - place for name, place in layers.items()}
    factors = {name: recipe.layer_decay**number for name, number in before_head.items()}
    return [recipe.head_rate if name.startswith(HEAD) else factors.get(name, 1.0) for name in names]


def layers_of(names: Sequence[str]) -> dict[str, int]:
    """The layer of each parameter, counted from the stem, in the order of the names.

    A layer is an item of the outermost list of modules, as '3' in 'blocks.3.norm.weight', or what has a name of its own
    outside of such lists, as 'stem'.
    """
    paths = [name.split(".") for name in names]
    columns = zip(*(path[:-1] for path in paths), strict=False)
    shared = len(list(takewhile(lambda parts: len(set(parts)) == 1, columns)))
    if paths and shared and paths[0][shared - 1].isdecimal():
        shared -= 1  # a list of one item is a list all the same
    layers: dict[tuple[str, ...], int] = {}
    places = {}
    for name, path in zip(names, paths, strict=True):
        rest = path[shared:-1]
        number = next((i for i, part in enumerate(rest) if part.isdecimal()), 0)
        places[name] = layers.setdefault(tuple(rest[: number + 1]), len(layers))
    return places


FAILED = {"kernels": False, "compile": False}  # what did not work in this process, and is not tried again

OWN = f"body.{MODULE}."  # how the names of networks begin that are not the package's own

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
        row, methods = find_network(recipe.network), [lane.value for lane in lanes]
        features, classes = row.features(shape), len(names)
        self.lanes, self.bf16, self.own, self.images = len(lanes), False, row.own is not None, len(shape) == 3
        self.is_replayable = row.own is None or row.own.is_replayable
        with seeded(0):
            self.body = row.body(shape, self.lanes)
        self.rbf = methods[0].head == "rbf"  # all lanes of a stack, or none
        if recipe.is_trees:  # one lane, whose logits have no axis of lanes
            self.head = HEADS[recipe.network](features, classes)  # type: ignore[assignment]
        elif self.rbf:
            self.head = StackedRBFHead(features, classes, self.lanes)
            if not self.own:
                differentiable_twice(self.body)  # a gradient penalty is trained by second derivatives
        else:
            self.head = StackedHead(features, classes, torch.tensor([method.head == "cosine" for method in methods]))
        self.margins = nn.Parameter(torch.ones(self.lanes * classes)) if methods[0].learned else None
        if states is None:
            states = [initial(recipe, shape, names, lane) for lane in lanes]
        shared = [name for name in self.state_dict() if all(name in state for state in states)]  # stages differ in some
        self.load_state_dict({name: joined([state[name] for state in states]) for name in shared}, strict=False)

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
    """The values of each lane, without what has no lane axis: our batch norms count their batches once for all."""
    by_lane = {}
    for name, value in stacked.items():
        if value.ndim or OWN in name:  # a number of a network of someone's own is there for one lane only
            by_lane[name] = value.detach().cpu().chunk(lanes) if value.ndim else [value.detach().cpu()]
    contiguous = torch.contiguous_format
    return [{name: v[i].clone(memory_format=contiguous) for name, v in by_lane.items()} for i in range(lanes)]


def joined(values: Sequence[Tensor]) -> Tensor:
    """The values of the lanes behind each other."""
    return torch.cat([torch.atleast_1d(value) for value in values])


def initial(recipe: Recipe, shape: Shape, classes: Names, lane: Lane) -> State:
    """From the seed of the lane. The class weights of a cosine head have length one, as in LDAM-DRW.

    On full batches a linear head starts at zero: its objective has one minimum.
    """
    row, plain = find_network(recipe.network), Classifier(recipe.network, shape, classes)
    drawn = initial_state(nn.ModuleDict({"head": plain.head}) if row.own else plain, lane.seed)
    state = {name: torch.from_numpy(value) for name, value in drawn.items()}
    if row.own:
        state |= row.own.initial(recipe.pretrained, lane.seed)
    if recipe.full_batch and lane.value.head == "linear":
        state = {name: torch.zeros_like(value) for name, value in state.items()}
    if lane.value.head == "cosine":
        state["head.weight"] = F.normalize(state["head.weight"], dim=-1)
    if lane.value.head == "rbf":
        features = row.features(shape)
        head = initial_rbf_head(stream(lane.seed, "initialisation", 1), features, len(classes))
        state = {name: value for name, value in state.items() if not name.startswith("head.")}
        state |= {f"head.{name}": torch.from_numpy(value) for name, value in head.items()}
    return state


class SGD:
    """torch.optim.SGD with a learning rate for each lane, and by the recipe for each layer."""

    def __init__(self, stack: Stack, recipe: Recipe) -> None:
        self.lanes, self.recipe = stack.lanes, recipe
        trained = {name: p for name, p in stack.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(trained), list[Tensor](trained.values())
        self.momenta = [torch.zeros_like(p) for p in self.parameters]
        self.factors = rate_factors(self.names, recipe)

    @property
    def tensors(self) -> list[Tensor]:
        """What a step changes beside the parameters."""
        return self.momenta

    @property
    def live(self) -> list[int]:
        """The places of the parameters that have a gradient: of someone's own network some may not take part."""
        return [i for i, p in enumerate(self.parameters) if p.grad is not None]

    def load(self, momenta: Sequence[State]) -> None:
        for name, momentum in zip(self.names, self.momenta, strict=True):
            momentum.copy_(joined([lane[name] for lane in momenta]).view_as(momentum))

    def states(self) -> list[State]:
        """Each lane's momenta, apart."""
        return apart(dict(zip(self.names, self.momenta, strict=True)), self.lanes)

    def rates(self, lr: Tensor) -> list[Tensor]:
        """lr (lanes,) spread over each parameter: of one shape, a GPU multiplies them all at once."""
        rates = []
        for p, factor in zip(self.parameters, self.factors, strict=True):
            by_row = (lr if factor == 1 else factor * lr).repeat_interleave(max(1, p[..., None].shape[0] // self.lanes))
            spread = by_row.view(-1, *[1] * (p.ndim - 1)) if p.ndim else by_row[0]
            rates.append(torch.empty_like(p).copy_(spread.expand_as(p)))
        return rates

    @torch.no_grad()
    def step(self, rates: list[Tensor]) -> None:
        """v <- momentum v + (g + decay p); p <- p - lr v, or with Nesterov p - lr (g + decay p + momentum v)."""
        live = self.live
        parameters, momenta, rates = ([values[i] for i in live] for values in (self.parameters, self.momenta, rates))
        gradients = [p.grad for p in parameters if p.grad is not None]
        torch._foreach_add_(gradients, parameters, alpha=self.recipe.weight_decay)
        torch._foreach_mul_(momenta, self.recipe.momentum)
        torch._foreach_add_(momenta, gradients)
        steps = momenta
        if self.recipe.nesterov:
            steps = list(torch._foreach_add(gradients, momenta, alpha=self.recipe.momentum))
        torch._foreach_sub_(parameters, list(torch._foreach_mul(steps, rates)))


@contextmanager
def precision(stack: Stack) -> Iterator[None]:
    """bfloat16 for images on a GPU that has it, with statistics, loss and parameters in float32; float32 elsewhere."""
    on = stack.bf16 and not stack.kernels
    attention = sdpa_kernel(SDPBackend.MATH) if stack.rbf and stack.own else nullcontext()  # others differentiate once
    with torch.autocast("cuda", torch.bfloat16) if on else nullcontext(), attention:
        yield


def to_device(stack: Stack, device: str) -> Stack:
    """The stack on its device, in the fastest form that works there."""
    stack = stack.to(device)
    if device != "cuda" or not stack.images:
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
    if any(parameter.ndim > 4 for parameter in stack.parameters()):  # of three-dimensional convolutions
        return stack
    return stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


BETA, EPSILON = 0.999, 1e-8  # of the second moments; the first beta is the recipe's momentum
SECOND, STEPS = "second.", "steps"  # where a lane's state has the second moments, and the number of steps


class AdamW(SGD):
    """torch.optim.AdamW: decay is decoupled, and biases, norms and other vectors have none."""

    def __init__(self, stack: Stack, recipe: Recipe) -> None:
        super().__init__(stack, recipe)
        self.seconds = [torch.zeros_like(p) for p in self.parameters]
        self.steps = torch.zeros(stack.lanes, device=self.parameters[0].device)

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.momenta, *self.seconds, self.steps]

    def load(self, momenta: Sequence[State]) -> None:
        super().load(momenta)
        for name, second in zip(self.names, self.seconds, strict=True):
            second.copy_(joined([lane[SECOND + name] for lane in momenta]).view_as(second))
        self.steps.copy_(torch.cat([lane[STEPS] for lane in momenta]))

    def states(self) -> list[State]:
        """Each lane's moments, apart."""
        seconds = {SECOND + name: second for name, second in zip(self.names, self.seconds, strict=True)}
        more = apart(seconds | {STEPS: self.steps}, self.lanes)
        return [state | rest for state, rest in zip(super().states(), more, strict=True)]

    @torch.no_grad()
    def step(self, rates: list[Tensor]) -> None:
        """m, v: moving averages of g and g^2, divided by 1 - beta^t; p <- p - lr (m / (sqrt(v) + e) + decay p)."""
        live, beta = self.live, self.recipe.momentum
        parameters, momenta, seconds, rates = (
            [values[i] for i in live] for values in (self.parameters, self.momenta, self.seconds, rates)
        )
        gradients = [p.grad for p in parameters if p.grad is not None]
        self.steps += 1
        torch._foreach_mul_(momenta, beta)
        torch._foreach_add_(momenta, gradients, alpha=1 - beta)
        torch._foreach_mul_(seconds, BETA)
        torch._foreach_add_(seconds, list(torch._foreach_mul(gradients, gradients)), alpha=1 - BETA)
        step = self.steps[0]  # lanes of a stack are equally far
        roots = list(torch._foreach_sqrt(seconds))
        torch._foreach_div_(roots, _share_seen(BETA, step).sqrt())
        torch._foreach_add_(roots, EPSILON)
        updates = list(torch._foreach_div(momenta, roots))
        torch._foreach_div_(updates, _share_seen(beta, step))
        if matrices := [i for i, p in enumerate(parameters) if p.ndim > 1 and self.recipe.weight_decay]:
            decayed = [updates[i] for i in matrices]
            torch._foreach_add_(decayed, [parameters[i] for i in matrices], alpha=self.recipe.weight_decay)
        torch._foreach_sub_(parameters, list(torch._foreach_mul(updates, rates)))


def _share_seen(beta: float, step: Tensor) -> Tensor:
    """1 - beta^step, to the last digit however close to 1 the power is."""
    return -torch.expm1(step * math.log(beta)) if beta else torch.ones_like(step)


def make_optimiser(stack: Stack, recipe: Recipe) -> SGD:
    """The optimiser that the recipe names."""
    return AdamW(stack, recipe) if recipe.optimizer == "adamw" else SGD(stack, recipe)
