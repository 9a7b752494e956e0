"""A stack: some lanes of one network as one module, with their optimiser."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.training import duq
from class_uncertainty.training.duq import Kernels
from class_uncertainty.training.networks import NETWORKS, Classifier, Head
from class_uncertainty.training.recipe import Lane, Recipe
from class_uncertainty.training.resnet import ResNet32
from class_uncertainty.training.streams import initial_state, stream
from class_uncertainty.training.twice import differentiable_twice

State = dict[str, Tensor]  # of one lane, by the names of the plain Classifier


class Stack(nn.Module):
    """Independent networks, one a lane: (B, lanes * channels, ...) -> logits (lanes, B, C), before margin and scale."""

    head: Head | Kernels

    def __init__(self, network: str, shape: tuple[int, ...], classes: int, lanes: Sequence[Lane]) -> None:
        super().__init__()
        row, methods = NETWORKS[network], [lane.value for lane in lanes]
        features = row.features(shape)
        self.lanes, self.bf16 = len(lanes), False
        self.body = row.body(shape, self.lanes)
        self.rbf = methods[0].head == "rbf"  # of a stack all or none
        cosine = torch.tensor([method.head == "cosine" for method in methods])
        self.head = Kernels(features, classes, self.lanes) if self.rbf else Head(features, classes, cosine)
        if self.rbf:  # a gradient penalty is trained by second derivatives
            differentiable_twice(self.body)
        self.margins = nn.Parameter(torch.ones(self.lanes * classes)) if methods[0].learned else None

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))

    @property
    def kernels(self) -> bool:
        """Whether our own kernels compute the body."""
        return isinstance(self.body, ResNet32) and self.body.kernels

    @kernels.setter
    def kernels(self, on: bool) -> None:
        assert isinstance(self.body, ResNet32)
        self.body.kernels = on

    def states(self) -> list[State]:
        """Each lane's parameters and statistics, apart."""
        return _apart(self.state_dict(), self.lanes)


def _apart(stacked: State, lanes: int) -> list[State]:
    """Without what has no lane axis: batch norm counts its batches once for all."""
    chunks = {name: value.detach().cpu().chunk(lanes) for name, value in stacked.items() if value.ndim}
    return [{name: parts[i].clone(memory_format=torch.contiguous_format) for name, parts in chunks.items()} for i in range(lanes)]


def stacked(
    recipe: Recipe, shape: tuple[int, ...], classes: tuple[str, ...], lanes: Sequence[Lane], states: Sequence[State] | None = None
) -> Stack:
    """The lanes as one module, at the given states or freshly initialised from their seeds."""
    stack = Stack(recipe.network, shape, len(classes), lanes)
    if states is None:
        states = [initial(recipe, shape, classes, lane) for lane in lanes]
    known = [name for name in stack.state_dict() if all(name in state for state in states)]  # not all stages have the same
    stack.load_state_dict({name: torch.cat([state[name] for state in states]) for name in known}, strict=False)
    return stack


def initial(recipe: Recipe, shape: tuple[int, ...], classes: tuple[str, ...], lane: Lane) -> State:
    """From the lane's seed; class weights of a cosine head have length one, as in LDAM-DRW: their length sets how fast they turn."""
    plain = Classifier(recipe.network, shape, classes)
    state = {name: torch.from_numpy(value) for name, value in initial_state(plain, lane.seed).items()}
    if lane.value.head == "cosine":
        state["head.weight"] = F.normalize(state["head.weight"], dim=-1)
    if lane.value.head == "rbf":
        features = NETWORKS[recipe.network].features(shape)
        own = duq.initial(stream(lane.seed, "initialisation", 1), features, len(classes))
        state = {name: value for name, value in state.items() if not name.startswith("head.")}
        state |= {f"head.{name}": torch.from_numpy(value) for name, value in own.items()}
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
        return _apart(dict(zip(self.names, self.momenta, strict=True)), self.lanes)

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
        steps = torch._foreach_add(gradients, self.momenta, alpha=self.recipe.momentum) if self.recipe.nesterov else self.momenta
        torch._foreach_sub_(self.parameters, list(torch._foreach_mul(steps, rates)))
