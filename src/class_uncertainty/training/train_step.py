"""StepProgram: the training step of a stack. Whatever it reads or writes stays in place, so a GPU can replay it."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.errors import fallback
from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.methods import Plan, losses
from class_uncertainty.training.augment.crops import Drawn
from class_uncertainty.training.augment.stack_augmentation import StackAugmentation
from class_uncertainty.training.distillation import Teachers
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.networks.heads import PENALTY, StackedRBFHead, gradient_penalty, kernel_loss
from class_uncertainty.training.networks.layers import affine, drop_features, full_stack, pad_batch
from class_uncertainty.training.networks.network_table import find_network
from class_uncertainty.training.networks.stack import FAILED, SGD, Stack, precision, without_kernels
from class_uncertainty.training.sampling import Examples
from class_uncertainty.training.stages import ResolvedStage


def to_sum(z: Tensor) -> dict[str, Tensor]:
    """Of logits (..., C): p (..., C), its entropy and a one for the draw, (...) each."""
    p = z.softmax(dim=-1)
    entropy = torch.special.entr(p).sum(dim=-1)
    return {"p": p, "entropy": entropy, "seen": torch.ones_like(entropy)}


class LossTensors:
    """The knobs of a stack as tensors, and its losses. `set` fills in the plans of an epoch."""

    def __init__(self, lanes: Sequence[Lane], classes: int, device: str) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(len(lanes), *shape, dtype=dtype, device=device)

        self.weight = zeros(classes)
        self.margin, self.divisor = zeros(1, classes), zeros(1, classes)
        self.beta, self.scale = zeros(1, 1), zeros(1, 1)
        self.gamma, self.sigmoid = zeros(1), zeros(1, dtype=torch.bool)
        self.by_weights = torch.tensor([lane.value.reduction == "weights" for lane in lanes], device=device)
        self.any_by_weights = any(lane.value.reduction == "weights" for lane in lanes)  # a graph cannot ask it
        self.at_logits = lanes[0].value.level == "logits"  # all lanes of a stack, or none

    def set(self, plans: Sequence[Plan]) -> None:
        """Take over the plans of the lanes."""
        for name in ("weight", "margin", "divisor", "beta", "scale", "gamma", "sigmoid"):
            tensor: Tensor = getattr(self, name)
            tensor.copy_(torch.tensor(np.array([getattr(plan, name) for plan in plans])).view(tensor.shape))

    def loss(self, z: Tensor, labels: Tensor, mean_weight: Tensor | None = None) -> Tensor:
        """Logits (lanes, B, C), labels (lanes, B) -> (lanes,); `mean_weight` (lanes,) as `losses.reduce` has it."""
        return self._reduce(self.per_example(z, labels), self.weight.gather(1, labels), mean_weight)

    def mixed(
        self,
        z: Tensor,
        labels: Tensor,
        others: Tensor,
        share: Tensor,
        plain: Tensor | None = None,
        mean_weight: Tensor | None = None,
    ) -> Tensor:
        """The loss of two labels an example, `share` (lanes, B) of the first and the rest of the second -> (lanes,).

        Where `plain` (lanes, 1) is true it is the loss of the first label, to the last bit; there `share` must be 1.
        """
        first, second = share * self.weight.gather(1, labels), (1 - share) * self.weight.gather(1, others)
        by_first, weights = self.per_example(z, labels), first + second
        both = first * by_first + second * self.per_example(z, others)
        if plain is None:
            return self._reduce(both / weights, weights, mean_weight)
        # the quotient of a plain lane is not used, and must not be 0 / 0: its gradient would be used
        loss = torch.where(plain, by_first, both / weights.where(~plain, 1))
        return self._reduce(loss, weights, mean_weight)

    def _reduce(self, each: Tensor, weights: Tensor, mean_weight: Tensor | None) -> Tensor:
        """`losses.reduce`, whose sums by weights are in the gradient."""
        if mean_weight is not None:
            mean_weight = full_stack(mean_weight)
        reduced = losses.reduce(full_stack(each), full_stack(weights), full_stack(self.by_weights), mean_weight)
        return reduced[: len(each)]

    def kernels(self, z: Tensor, labels: Tensor) -> Tensor:
        """DUQ's loss of every example, of log K (lanes, B, C): (lanes, B)."""
        targets = pad_batch(F.one_hot(labels, z.shape[-1]).to(z.dtype))
        return kernel_loss(pad_batch(z), targets)[:, : z.shape[1]]

    def per_example(self, z: Tensor, labels: Tensor) -> Tensor:
        """The loss of every example, unweighted: (lanes, B)."""
        padded, size = pad_batch(z), z.shape[1]
        labels = F.pad(labels, (0, padded.shape[1] - size))
        targets = F.one_hot(labels, z.shape[-1]).to(z.dtype)
        margin = self.margin if self.at_logits else torch.zeros_like(self.margin)
        padded = losses.adjust_logits(padded, labels, margin, self.divisor, self.beta, self.scale)
        return losses.per_example(padded, targets, labels, self.gamma, self.sigmoid)[:, :size]


MOMENTUM = 0.1  # of batch statistics, in torch and in our own kernels, unless a norm has its own
PAIRING = ("order", "partner", "mixed")  # draws that say which labels an example has
PASSED = {"cuda": 512}  # examples of a lane that pass at once for centroids: a batch of one lane may leave a GPU idle
COMPILED = 200_000  # images of one training from which compiling pays on a CPU


class StepProgram:
    """The steps of one stack in one stage. `draws` are those of an epoch, (lanes, length, ...): their shapes count.

    Those of an augmentation are of the lanes that have it.
    """

    idle = False  # there is always a next step

    def __init__(
        self,
        stack: Stack,
        optimiser: SGD,
        stage: ResolvedStage,
        examples: Examples,
        lanes: Sequence[Lane],
        draws: Drawn,
        gathered: Mapping[str, Tensor] | None = None,
        teachers: Teachers | None = None,
    ) -> None:
        self.stack, self.optimiser, self.stage, self.examples = stack, optimiser, stage, examples
        self.recipe, self.teachers, self.gathered = stage.recipe, teachers, dict(gathered or {})
        device, classes = str(examples.labels.device), examples.counts.shape[1]
        self.length = draws["order"].shape[1]
        self.batch, self.part = (min(size, self.length) for size in (stage.recipe.batch, stage.recipe.part))
        self.objective = LossTensors(lanes, classes, device)
        self.draws = {name: torch.from_numpy(numbers).to(device) for name, numbers in draws.items()}
        self.at = torch.zeros((), dtype=torch.int64, device=device)  # the first example of the next batch
        self.passed = self.part
        if self.part == self.batch:  # otherwise the recipe says that no more fit into memory
            self.passed = max(self.part, PASSED.get(examples.labels.device.type, 0))
        self.offsets = torch.arange(max(self.batch, self.passed), device=device)
        self.loss, self.wrong = torch.zeros(stack.lanes, device=device), torch.zeros(stack.lanes, device=device)
        self.rates = optimiser.rates(torch.zeros(stack.lanes, device=device))
        self.body: Callable[[Tensor], Tensor] = stack.body
        self.graph: torch.cuda.CUDAGraph | None = None
        self.dropout = torch.tensor([lane.value.dropout for lane in lanes], device=device).view(1, -1, 1)
        self.augmentation = StackAugmentation(lanes, self.recipe, device, examples.standardise.side)
        self.centroids = torch.zeros(stack.lanes, classes, stack.head.weight.shape[-1], device=device)
        self.set_training()
        large = find_network(self.recipe.network).large and self.length * self.recipe.epochs >= COMPILED
        if examples.labels.is_cuda and stack.is_replayable:  # a graph cannot hold whatever someone's own network may do
            with self._put_back():
                self._capture()
        elif large and not stack.rbf and not FAILED["compile"]:  # compiled code has no second derivative
            self._compile()

    def set_training(self) -> None:
        """Training mode; a frozen body keeps its batch statistics too."""
        self.stack.train()
        self.stack.body.train(self.stage.trains != "head")

    def epoch(self, plans: Sequence[Plan], draws: Drawn, lr: Tensor, before_step: Callable[[], object]) -> Tensor:
        """All steps of an epoch at learning rates lr (lanes,) -> (2, lanes) mean loss and training error in percent.

        A GPU may still be at work when this returns.
        """
        self.objective.set(plans)
        self._take(draws)
        for rate, new in zip(self.rates, self.optimiser.rates(lr), strict=True):
            rate.copy_(new)
        if not self.objective.at_logits:
            self._centre()
        for tensor in (self.at, self.loss, self.wrong):
            tensor.zero_()
        for _ in range(self.length // self.batch):
            before_step()
            self.graph.replay() if self.graph else self._step(self.batch)
        if rest := self.length % self.batch:
            before_step()
            self._step(rest)
        return torch.stack([self.loss, 100 * self.wrong]) / self.length

    def _step(self, batch: int) -> None:
        """One step of the optimiser, by a batch that passes through in one part or in several."""
        self.stack.zero_grad()
        mean_weight = self._mean_weight(batch) if batch > self.part and self.objective.any_by_weights else None
        passed = []
        for rows in row_blocks(batch, self.part):
            size = rows.stop - rows.start
            x, labels, drawn = self._next(size)
            features, z = self._forward(x, drawn)
            loss = self._loss(x, features, z, labels, drawn, mean_weight)  # (lanes,)
            (loss * (size / batch)).sum().backward()
            if self.gathered:
                self._gather(z.detach(), drawn["order"])
            self.loss += loss.detach() * size
            self.wrong += (z.detach().argmax(dim=-1) != labels).sum(dim=1)
            self.at += size
            passed += [(x.detach(), labels)] if self.stack.rbf else []
        self.optimiser.step(self.rates)
        for x, labels in passed:
            self._move_centroids(x, labels)

    def _mean_weight(self, batch: int) -> Tensor:
        """Of the examples of the next batch, (lanes,): labels are known before their parts pass through."""
        total = full_stack(torch.zeros_like(self.loss))
        for rows in row_blocks(batch, self.part):
            drawn = self._drawn(self.at + self.offsets[rows], [name for name in PAIRING if name in self.draws])
            labels = self.examples.labels[drawn["order"]]
            weights = self.objective.weight.gather(1, labels)
            if mixture := self.augmentation.mixture(labels, drawn, self.examples.counts):
                weights = mixture.of(labels, lambda y: self.objective.weight.gather(1, y))
            total += full_stack(weights).sum(dim=1)
        return total[: self.stack.lanes] / batch

    def _forward(self, x: Tensor, drawn: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Features (B, lanes * D) and logits (lanes, B, C)."""
        if self.stack.rbf:
            x.requires_grad_()
        with precision(self.stack), torch.set_grad_enabled(self.stage.trains != "head"):
            features = self.body(x)
        if "dropout" in drawn:
            features = drop_features(features, drawn["dropout"], self.dropout)
        with precision(self.stack):
            return features, self.stack.head(features).float()

    def _next(self, size: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """A batch (B, lanes * channels, ...), its labels (lanes, B), and what was drawn for it, (lanes, B, ...)."""
        drawn = self._drawn(self.at + self.offsets[:size], self.draws)
        x = self.examples.inputs[drawn["order"]]  # (lanes, B, ...)
        x = self.examples.standardise(self.augmentation.images(x, drawn).flatten(0, 1))
        x = self.augmentation.mixed(x.unflatten(0, (self.stack.lanes, -1)), drawn)
        return x.transpose(0, 1).flatten(1, 2), self.examples.labels[drawn["order"]], drawn

    def _drawn(self, places: Tensor, names: Iterable[str]) -> dict[str, Tensor]:
        """What was drawn for the examples at those places of the epoch, (lanes, B, ...)."""
        return {name: self.draws[name].index_select(1, places) for name in names}

    def _loss(
        self,
        x: Tensor,
        features: Tensor,
        z: Tensor,
        labels: Tensor,
        drawn: Mapping[str, Tensor],
        mean_weight: Tensor | None = None,
    ) -> Tensor:
        """The loss of each lane, (lanes,); `mean_weight` (lanes,) is that of the batch where this is a part of one."""
        mixture = self.augmentation.mixture(labels, drawn, self.examples.counts)

        def mix(loss: Callable[[Tensor], Tensor]) -> Tensor:
            """A loss of every example, by its label or by both labels of a mixture."""
            return mixture.of(labels, loss) if mixture else loss(labels)

        if teachers := self.teachers:
            first = self._by_lane(x)[:, 0]  # all students see what the first sees
            targets = teachers.targets(first, drawn["order"][0])
            each = mix(lambda y: teachers.loss(z, targets, y))
            return full_stack(each).mean(dim=1)[: self.stack.lanes]
        objective = self.objective
        if self.stack.rbf:
            each = mix(lambda y: objective.kernels(z, y)) + PENALTY * gradient_penalty(x, z)
            return full_stack(each).mean(dim=1)[: self.stack.lanes]
        if mixture:
            loss = objective.mixed(z, labels, mixture.partners, mixture.share, mixture.plain, mean_weight)
        else:
            loss = objective.loss(z, labels, mean_weight)
        if objective.at_logits:
            return loss
        learned = self.stack.margins
        margin = objective.margin.squeeze(1) if learned is None else learned.view(self.stack.lanes, -1)
        by_lane = self._by_lane(features.float()).transpose(0, 1)
        each = mix(lambda y: losses.robust(by_lane, y, self.centroids, margin))
        return loss + full_stack(each).sum(dim=1)[: self.stack.lanes]

    def _by_lane(self, values: Tensor) -> Tensor:
        """(B, lanes * D, ...) -> (B, lanes, D, ...)."""
        return values.unflatten(1, (self.stack.lanes, -1))

    @torch.no_grad()
    def _centre(self) -> None:
        """Class centroids (DRO-LT): mean features of the epoch's examples as drawn, in evaluation mode."""
        self.stack.eval()
        self.at.zero_()
        sums, counts = torch.zeros_like(self.centroids), torch.zeros_like(self.centroids[..., 0])
        for rows in row_blocks(self.length, self.passed):
            size = rows.stop - rows.start
            x, labels, _ = self._next(size)
            with precision(self.stack):
                features = self._by_lane(self.stack.body(x).float()).permute(1, 2, 0)  # (lanes, D, B)
            one_hot = F.one_hot(labels, self.examples.counts.shape[1]).to(features.dtype).mT  # (lanes, C, B)
            sums += affine(one_hot, features, torch.zeros_like(one_hot[:, :1, :1]))
            counts += one_hot.sum(dim=2)
            self.at += size
        self.centroids.copy_(sums / counts.clamp(min=1).unsqueeze(2))
        self.set_training()

    @torch.no_grad()
    def recompute_statistics(self, draws: Drawn) -> None:
        """Batch statistics of the weights as they are: their mean over the batches. A frozen body keeps its own."""
        norms = [module for module in self.stack.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
        norms = [norm for norm in norms if norm.running_mean is not None and norm.momentum]
        statistics = [value for norm in norms for value in (norm.running_mean, norm.running_var) if value is not None]
        momenta = [norm.momentum or MOMENTUM for norm in norms for _ in range(2)]
        if not statistics or self.stage.trains == "head":
            return
        self._take(draws)
        sums = [torch.zeros_like(value) for value in statistics]
        for rows in row_blocks(self.length, self.part):
            size = rows.stop - rows.start
            x, _, _ = self._next(size)
            torch._foreach_zero_(statistics)  # one update from zero is momentum times the statistics of the batch
            with precision(self.stack):
                self.stack.body(x)
            torch._foreach_add_(sums, statistics)
            self.at += size
        batches = -(-self.length // self.part)
        torch._foreach_copy_(statistics, torch._foreach_div(sums, [momentum * batches for momentum in momenta]))

    def _take(self, draws: Drawn) -> None:
        """Take over the draws of an epoch, and stand before its first batch."""
        for name, numbers in draws.items():
            self.draws[name].copy_(torch.from_numpy(numbers))
        self.at.zero_()

    @torch.no_grad()
    def _move_centroids(self, x: Tensor, labels: Tensor) -> None:
        """DUQ's exponential averages, by the network after the step, in evaluation mode."""
        assert isinstance(self.stack.head, StackedRBFHead)
        self.stack.body.eval()
        with precision(self.stack):
            features = self.stack.body(x)
        self.stack.head.update(features, labels)
        self.set_training()

    def gathered_by(self, lane: int) -> dict[str, Tensor]:
        """The sums of one lane so far, on the host."""
        return {name: sums[lane].cpu().clone() for name, sums in self.gathered.items()}

    def _gather(self, z: Tensor, order: Tensor) -> None:
        """Add up each example's probabilities, entropy and number of draws over the epochs, at no extra pass."""
        size = z.shape[1]
        for name, padded in to_sum(self.objective.scale * pad_batch(z)).items():
            values = padded[:, :size]
            places = order if values.ndim == 2 else order.unsqueeze(2).expand_as(values)
            lanes = len(self.gathered[name])  # without those that fill the stack
            self.gathered[name].scatter_add_(1, places[:lanes], values[:lanes])

    def _capture(self) -> None:
        """One step as a CUDA graph: the hundreds of kernels of a small network then cost no time of Python's."""
        try:
            self._warm_up()
        except Exception as error:  # a compiler raises nearly anything
            if isinstance(error, torch.OutOfMemoryError) or not self.stack.kernels:
                raise
            FAILED["kernels"] = True
            without_kernels(self.stack)
            if self.teachers and self.teachers.stack.kernels:
                without_kernels(self.teachers.stack)
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
        """Compile the body by torch.compile where that works: it needs a C++ compiler."""
        if not any(map(shutil.which, ("g++", "clang++", "c++", "cl"))):
            return
        self.body = torch.compile(self.stack.body)
        with self._put_back():
            try:
                self._step(self.batch)
            except Exception as error:  # a compiler raises nearly anything
                FAILED["compile"] = True
                self.body = self.stack.body
                fallback("torch.compile does not work here", error)

    def _warm_up(self) -> None:
        """Two steps, in which kernels are compiled or chosen."""
        side = _side_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.at.zero_()
                self._step(self.batch)
        torch.cuda.current_stream().wait_stream(side)

    @contextmanager
    def _put_back(self) -> Iterator[None]:
        """Undo what trial steps change."""
        before = [tensor.clone() for tensor in self._state()]
        yield
        for tensor, value in zip(self._state(), before, strict=True):
            tensor.copy_(value)

    def _state(self) -> list[Tensor]:
        """All tensors that a step changes, and that outlast an epoch."""
        parameters = [parameter.data for parameter in self.stack.parameters()]
        return [*parameters, *self.stack.buffers(), *self.optimiser.tensors, self.at, *self.gathered.values()]


@cache
def _side_stream() -> torch.cuda.Stream:
    """One for all: each stream that multiplies matrices keeps a workspace for ever."""
    return torch.cuda.Stream()
