"""A method in a PyTorch loop of one's own: its loss, its sampler, its uncertainties."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from operator import length_hint
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.utils.data import Sampler

from class_uncertainty.checks import Array, Tensorlike, check, check_least, check_number
from class_uncertainty.errors import InputError, memory_faults
from class_uncertainty.integrations.method_parts import Scheduled, in_several_processes
from class_uncertainty.integrations.online_uncertainty import OnlineUncertainty, WithIndex
from class_uncertainty.measures import Stats, Vector, normalise
from class_uncertainty.measures.uncertainty import check_labels, row_blocks
from class_uncertainty.methods import Method, losses
from class_uncertainty.training.networks.heads import CosineHead
from class_uncertainty.training.streams import Grouped, Indices, draw_by_class, permutations, stream

__all__ = ["ClassSampler", "CosineHead", "Loss", "OnlineUncertainty", "WithIndex"]

KNOBS = ("weight", "margin", "divisor")  # (C,) each
NUMBERS = ("beta", "scale", "gamma", "sigmoid")
COSINE_SLACK = 1e-2  # above 1, for cosines in bfloat16


class Loss(nn.Module):
    """The loss of a method: logits (..., C) and labels (...) in, one number out.

    It is that of `cu.fit` for the same method. Rows that act on what is drawn are for ClassSampler.for_method.

    Parameters
    ----------
    method : str or Method
        A row of METHODS that acts on weights, margins or the focal loss, or its name.
    counts : array (C,)
        Training examples of each class.
    uncertainty : array (C,), optional
        Class uncertainties, for methods that use them.
    epochs : int, optional
        How many there are, for methods that change over them.

    Attributes
    ----------
    head : str
        "linear", or "cosine" where logits must be cosines (LDAM), as those of `CosineHead`.
    scale : tensor
        What logits are multiplied by before their softmax: 30 for LDAM, otherwise 1.
    reduction : str
        "mean" of the weighted losses (Eq. 4), or "weights": their sum over that of the weights.
    across_processes : bool
        Set it where gradients are averaged over processes of torch.distributed, as in DDP: a step's weights are then
        summed over all of them, each of which must compute the loss.

    Examples
    --------
    >>> import torch
    >>> loss = cu.Loss("balanced-softmax", counts=[90, 10])
    >>> round(loss(torch.zeros(1, 2), torch.tensor([1])).item(), 3)
    2.303
    """

    weight: Tensor
    margin: Tensor
    divisor: Tensor
    beta: Tensor
    scale: Tensor
    gamma: Tensor
    sigmoid: Tensor
    by_weights: Tensor

    def __init__(
        self,
        method: str | Method,
        counts: ArrayLike,
        uncertainty: ArrayLike | None = None,
        *,
        epochs: int | None = None,
    ) -> None:
        super().__init__()
        self.schedule = Scheduled(method, Stats(counts, uncertainty), epochs)
        if self.schedule.acts_on_draws:
            raise InputError(f"{self.schedule.name} acts on what is drawn: take cu.ClassSampler.for_method.")
        self.head, self.reduction = self.schedule.method.head, self.schedule.method.reduction
        self.across_processes = False
        self.register_buffer("by_weights", torch.tensor(self.reduction == "weights"), persistent=False)
        self._set(0)
        self._checks_cosines = self.head == "cosine"  # once: a look at the values makes a GPU wait

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch is trained, from 0."""
        self._set(epoch)

    def _set(self, epoch: int) -> None:
        knobs, device = self.schedule.plan(epoch), self.by_weights.device
        for name in (*KNOBS, *NUMBERS):
            value = torch.as_tensor(getattr(knobs, name), device=device)
            self.register_buffer(name, value if name == "sigmoid" else value.float(), persistent=False)

    @property
    def classes(self) -> int:
        return len(self.schedule.stats.counts)

    def extra_repr(self) -> str:
        """What repr() shows in brackets."""
        epochs = f", {self.schedule.epochs:,} epochs" if self.schedule.epochs else ""
        return f"{self.schedule.name}, {self.classes:,} classes, {self.head} head{epochs}"

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean of the weighted losses (Eq. 4), or their sum over that of the weights, as the method says."""
        values, weights = self._values(logits, labels)
        mean_weight = None
        if self.across_processes and self.reduction == "weights" and torch.is_grad_enabled():
            mean_weight = mean_in_all(weights)
        return losses.reduce(values.flatten(), weights.flatten(), self.by_weights, mean_weight)

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The sum of the weighted losses. Those of the parts of a batch, over its `denominator`, add up to its loss."""
        values, weights = self._values(logits, labels)
        return (values * weights).sum()

    def denominator(self, labels: Tensor) -> Tensor:
        """What the total is divided by: how many examples there are, or the sum of their weights, as the method says.

        Denominators of the parts of a batch add up to that of the batch.
        """
        weights = self.weight[labels.long()]
        return torch.where(self.by_weights, weights.sum(), weights.numel())

    def _values(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and weights of the examples, in float32 at least."""
        self._check(logits, labels)
        labels, z = labels.long(), logits if logits.dtype == torch.float64 else logits.float()
        targets = nn.functional.one_hot(labels, self.classes).to(z.dtype)
        z = losses.adjust_logits(z, labels, self.margin, self.divisor, self.beta, self.scale)
        return losses.per_example(z, targets, labels, self.gamma, self.sigmoid), self.weight[labels]

    def _check(self, logits: Tensor, labels: Tensor) -> None:
        for name, value in (("logits", logits), ("labels", labels)):
            if not isinstance(value, Tensor):
                raise InputError(f"{name} are {type(value).__name__}: give a tensor.")
        if logits.ndim < 1 or logits.shape[-1] != self.classes or not logits.is_floating_point():
            given = f"{str(logits.dtype).removeprefix('torch.')} of shape {tuple(logits.shape)}"
            raise InputError(f"logits are {given}: they must be (..., {self.classes}) floating point numbers.")
        if labels.shape != logits.shape[:-1] or labels.is_floating_point() or labels.dtype == torch.bool:
            given = f"{str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}"
            raise InputError(f"labels are {given}: they must be {tuple(logits.shape[:-1])} whole numbers.")
        if not labels.numel():
            raise InputError("there are no examples in the batch: give one at least.")
        if labels.device.type == "cpu" and (labels.min() < 0 or labels.max() >= self.classes):
            wrong = labels.min() if labels.min() < 0 else labels.max()
            raise InputError(f"a label is {wrong}: labels run from 0 to {self.classes - 1}.")
        if self._checks_cosines:
            self._checks_cosines = False
            if (largest := logits.detach().abs().max().item()) > 1 + COSINE_SLACK:
                advice = "take class_uncertainty.integrations.torch.CosineHead as the last layer"
                raise InputError(
                    f"{self.schedule.name} takes cosines from -1 to 1, and a logit is {largest:.3g}: {advice}."
                )


def mean_in_all(weights: Tensor) -> Tensor:
    """Over the weights of all processes of torch.distributed, each of which must call it."""
    total = torch.stack([weights.sum(), torch.full_like(weights.sum(), weights.numel())])
    if in_several_processes():
        torch.distributed.all_reduce(total)
    return total[0] / total[1]


BLOCK = 2**16  # indices that are turned into Python's numbers at a time
MOST_CLASSES = 2**24
FIELDS = ("seed", "epoch", "drawn", "digest")  # of a state


class ClassSampler(Sampler[int]):
    """Draws a class by its probability alpha, then one of its examples: a sampler for any DataLoader.

    The draws of an epoch are a function of the seed and the epoch alone. They are with replacement; without alpha, an
    epoch is a permutation of the examples. Accelerate, Lightning and Transformers split a plain sampler over processes
    themselves; for others there is `shard`.

    Parameters
    ----------
    labels : array or tensor (N,)
        The class of each example, from 0.
    alpha : array (C,), optional
        How probable each class is, in any unit. By default classes are as frequent as their examples.
    num_samples : int, optional
        Draws in an epoch; by default N.
    seed : int
        From 0.

    Examples
    --------
    >>> sampler = cu.ClassSampler([0, 0, 0, 1], alpha=[1, 1], num_samples=1000)
    >>> sum(index == 3 for index in sampler)
    518
    >>> sampler.set_epoch(1)
    >>> sum(index == 3 for index in sampler)
    506
    """

    def __init__(
        self, labels: Tensorlike, alpha: ArrayLike | None = None, *, num_samples: int | None = None, seed: int = 0
    ) -> None:
        check(Tensorlike, labels=labels)
        check(Array | None, alpha=alpha)
        if num_samples is not None:
            check_least("num_samples", num_samples, 1)
        check_least("seed", seed, 0)
        given = None if alpha is None else _checked_alpha(alpha)
        checked_labels = _checked_labels(labels)
        self.grouped = Grouped.of(checked_labels, 0 if given is None else len(given))
        if given is not None:
            _check_drawable(given, self.counts)
        self.fixed_alpha = None if given is None else normalise(given)
        self.num_samples, self.seed, self.epoch = num_samples or len(checked_labels), seed, 0
        self.schedule: Scheduled | None = None  # of a method, in place of a fixed alpha
        self.rank, self.world = 0, 1
        self._begin(0, 0)

    @classmethod
    def for_method(
        cls,
        method: str | Method,
        labels: Tensorlike,
        *,
        uncertainty: ArrayLike | None = None,
        epochs: int | None = None,
        num_samples: int | None = None,
        seed: int = 0,
    ) -> "ClassSampler":
        """The draws of a row of METHODS that acts on them, such as "cb-rs", "ubrs" and "2s-ubrs".

        Parameters
        ----------
        method : str or Method
        labels, num_samples, seed
            As above. The draws are those of `cu.Lane(method, seed)`.
        uncertainty : array (C,), optional
            Class uncertainties, for methods that use them.
        epochs : int, optional
            How many there are, for methods that change over them.
        """
        sampler = cls(labels, num_samples=num_samples, seed=seed)
        sampler.schedule = Scheduled(method, Stats(sampler.counts, uncertainty), epochs).for_draws()
        return sampler

    @property
    def counts(self) -> NDArray[np.int64]:
        """(C,) examples of each class."""
        return self.grouped.counts

    @property
    def alpha(self) -> Vector:
        """(C,) how probable each class is in this epoch."""
        if self.schedule:
            return self.schedule.plan(self.epoch).alpha
        return normalise(self.counts) if self.fixed_alpha is None else self.fixed_alpha

    def __repr__(self) -> str:
        by = self.schedule.name if self.schedule else "natural" if self.fixed_alpha is None else "fixed alpha"
        drawn = f"{self.num_samples:,} of {len(self.grouped.positions):,} examples, {len(self.counts):,} classes"
        part = f", shard {self.rank} of {self.world}" if self.world > 1 else ""
        return f"ClassSampler({drawn}, {by}, seed {self.seed}, epoch {self.epoch}{part})"

    def order(self) -> Indices:
        """(num_samples,) all draws of this epoch, those of other processes included."""
        rng = stream(self.seed, "order", self.epoch)
        natural = self.schedule.plan(self.epoch).natural if self.schedule else self.fixed_alpha is None
        with memory_faults():
            if natural:
                return permutations(rng, len(self.grouped.positions), self.num_samples)
            return draw_by_class(rng, self.grouped, self.alpha, self.num_samples)

    def shard(self, rank: int, world: int) -> "ClassSampler":
        """The draws of one of several processes: every `world`-th, from the `rank`-th on.

        All shards together are the draws of one process. Where num_samples is no multiple of `world`, the first ones
        are longer by one.
        """
        check_least("world", world, 1)
        check(int, rank=rank)
        check_number("rank", rank, f"a whole number from 0 to {world - 1}", lambda number: 0 <= number < world)
        if self.world > 1:
            raise InputError(f"this sampler is shard {self.rank} of {self.world} already: shard the whole one.")
        part = copy(self)
        part.rank, part.world = rank, world
        part._begin(self.epoch, self._resume_at)
        return part

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch is drawn next, from 0; a state that was loaded counts for its own epoch alone."""
        check_least("epoch", epoch, 0)
        if self.schedule:
            self.schedule.plan(epoch)  # refuses an epoch that there is not
        if epoch != self.epoch:
            self._begin(epoch, 0)

    def _begin(self, epoch: int, drawn: int) -> None:
        """Stand before an index of an epoch, counted over all processes."""
        self.epoch, self._resume_at, self._block_end = epoch, drawn, drawn
        self._block: Iterator[int] = iter(())  # what of the block up to _block_end is still to be drawn

    def __len__(self) -> int:
        return len(range(self.rank, self.num_samples, self.world))

    def __iter__(self) -> Iterator[int]:
        first = self._resume_at
        self._begin(self.epoch, first)
        self._resume_at = 0  # the next time from the start
        mine = self.order()[first:][self.rank :: self.world]
        return chain.from_iterable(self._blocks(mine, first))  # in C: an index costs no line of Python

    def _blocks(self, mine: Indices, first: int) -> Iterator[Iterator[int]]:
        for rows in row_blocks(len(mine), BLOCK):
            self._block, self._block_end = iter(mine[rows].tolist()), first + rows.stop * self.world
            yield self._block

    def state_dict(self, drawn: int | None = None) -> dict[str, Any]:
        """Where the epoch stands, so that another process can go on there.

        Parameters
        ----------
        drawn : int, optional
            How many indices of the epoch count as drawn, in all processes together; by default as many as were handed
            out. Give it where the workers of a DataLoader draw ahead of the training.
        """
        if drawn is None:
            drawn = min(self._block_end - length_hint(self._block) * self.world, self.num_samples)
        self._check_drawn(drawn)
        return {"seed": self.seed, "epoch": self.epoch, "drawn": drawn, "digest": self._digest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken; any number of processes may."""
        check(dict, state=state)
        for name in FIELDS:
            if name not in state:
                raise InputError(f"the state has no {name!r}: give what ClassSampler.state_dict returned.")
        if state["seed"] != self.seed:
            raise InputError(f"the state was drawn with seed {state['seed']}, and this sampler has {self.seed}.")
        if state["digest"] != self._digest:
            raise InputError("the state is of other labels, probabilities or num_samples than this sampler has.")
        self._check_drawn(state["drawn"])
        self.set_epoch(state["epoch"])
        self._begin(self.epoch, state["drawn"])

    def _check_drawn(self, drawn: int) -> None:
        allowed = f"a whole number from 0 to {self.num_samples}"
        check_number("drawn", drawn, allowed, lambda n: isinstance(n, int) and 0 <= n <= self.num_samples)

    @cached_property
    def _digest(self) -> str:
        """A hash of everything but the seed and the epoch that determines the draws."""
        content = hashlib.sha256(f"{self.num_samples} {self.fixed_alpha is None}".encode())
        for part in (self.grouped.positions, self.counts):
            content.update(part.tobytes())
        if not self.schedule:
            content.update(self.alpha.tobytes())
        else:
            for plan in map(self.schedule.plan, range(self.schedule.epochs or 1)):  # ramps differ in between
                content.update(bytes([plan.natural]) + plan.alpha.tobytes())
        return content.hexdigest()[:16]


def _checked_labels(labels: Any) -> Indices:
    """As int64 (N,)."""
    number = np.shape(labels)[0] if np.ndim(labels) else 0
    if not number:
        raise InputError("there are no labels: give one for each example.")
    return check_labels(labels, number, MOST_CLASSES)


def _checked_alpha(alpha: Any) -> Vector:
    """(C,) in the unit that it is given in."""
    values = np.asarray(alpha)
    if values.ndim != 1:
        raise InputError(f"alpha has shape {values.shape}: it needs one value for each class.")
    for value in alpha if values.dtype.kind in "UO" else ():
        if isinstance(value, str):
            raise InputError(f"alpha holds the text {value!r}: it needs a number for each class.")
    values = values.astype(np.float64)
    for c in np.flatnonzero(~(np.isfinite(values) & (values >= 0))):
        raise InputError(f"alpha of class {c} is {values[c]:g}: it must be a finite number from 0.")
    with np.errstate(over="ignore"):
        total = values.sum()
    if not 0 < total < np.inf:
        raise InputError(f"alpha sums to {total:g}: the sum must be above 0 and finite.")
    return values


def _check_drawable(alpha: Vector, counts: Indices) -> None:
    if len(alpha) < len(counts):
        labelled = f"labels run from 0 to {len(counts) - 1}"
        raise InputError(f"alpha has length {len(alpha)}, and {labelled}: give {len(counts)} values.")
    for c in np.flatnonzero((alpha > 0) & (counts == 0)):
        raise InputError(f"class {c} has alpha {alpha[c]:g} and no examples to draw: set it to 0.")


NAIVE = "naive"


class TrainingParts:
    """The parts of a method. One that acts on draws has the naive loss, one that acts on the loss draws naively."""

    def __init__(self, method: str | Method, labels: Any, uncertainty: Any, epochs: int | None, seed: int) -> None:
        self.sampler = ClassSampler(labels, seed=seed)
        counts = self.sampler.counts
        schedule = Scheduled(method, Stats(counts, uncertainty), epochs)
        if schedule.acts_on_draws:
            self.sampler.schedule, method = schedule.for_draws(), NAIVE
        self.loss = Loss(method, counts, uncertainty, epochs=epochs)
        self.online = OnlineUncertainty(len(self.sampler.grouped.positions), len(counts))
        self.predictions = Predictions()

    def gather(self, index: Any, logits: Tensor, labels: Any) -> None:
        """Take over what a training step predicted for examples of these indices."""
        self.online.update(index, self.loss.scale * logits.detach(), labels)

    def online_in_all(self) -> OnlineUncertainty | None:
        """What all processes gathered; None where no step said which examples it had. Each of them must call it."""
        total = self.online.across_processes()
        return total if total.marks.any() else None

    def online_state(self) -> dict[str, Tensor]:
        """What all processes gathered, for a checkpoint. Each of them must call it."""
        return self.online.across_processes().state_dict()

    def load_online_state(self, state: dict[str, Tensor]) -> None:
        """Into the first process, and nothing into the others: all sums together are those of the state."""
        self.online = OnlineUncertainty(self.online.n, self.online.classes)
        if not in_several_processes() or torch.distributed.get_rank() == 0:
            self.online.load_state_dict(state)

    def audit(self, classes: Sequence[str] | None) -> Any:
        """Of the predictions of all processes, which are forgotten; None where there are none."""
        logits, labels = self.predictions.take()
        return self.audit_of(logits, labels, classes) if len(labels) else None

    def audit_of(self, logits: Tensor, labels: Tensor, classes: Sequence[str] | None) -> Any:
        """Of logits (N, C) and labels (N,)."""
        from class_uncertainty.workflows.audit import audit  # late: it imports much

        p = (self.loss.scale.cpu() * logits.double()).softmax(dim=1).numpy()
        return audit(labels.numpy(), p, classes=classes, counts=self.sampler.counts)


class Predictions:
    """Logits and labels of an evaluation, batch after batch."""

    def __init__(self) -> None:
        self.batches: list[tuple[Tensor, Tensor]] = []
        self.rows: Counter[int] = Counter()  # that were given, by loader

    def add(self, logits: Tensor, labels: Tensor, loader: int = 0, most: int | None = None) -> None:
        """A batch of a loader; rows after the first `most` of this loader are repeats, and left out."""
        kept = slice(None if most is None else max(most - self.rows[loader], 0))
        self.rows[loader] += len(labels)
        self.batches.append((logits[kept].detach().float().cpu(), labels[kept].detach().cpu()))

    def take(self) -> tuple[Tensor, Tensor]:
        """Those of all processes of torch.distributed, each of which must call it."""
        batches, self.batches = self.batches, []
        self.rows.clear()
        if in_several_processes():
            gathered: list[Any] = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(gathered, batches)
            batches = [batch for part in gathered for batch in part]
        if not batches:
            return torch.empty(0, 2), torch.empty(0, dtype=torch.int64)
        logits, labels = zip(*batches, strict=True)
        return torch.cat(logits), torch.cat(labels)


def audit_figures(audit: Any) -> dict[str, float]:
    """What is worth a line in a log: errors in percent."""
    figures = audit.figures
    numbers = {"class_mean_error": figures.error, "overall_error": figures.overall_error}
    numbers |= {"worst_class_error": figures.worst_class_error, "ece": figures.ece}
    return {name: float(value) for name, value in numbers.items() if np.isfinite(value)}
