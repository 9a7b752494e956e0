"""What a callback of a training framework carries: sampler, loss, online uncertainty, and predictions to audit."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from class_uncertainty.integrations.class_loss import Loss
from class_uncertainty.integrations.class_sampler import ClassSampler
from class_uncertainty.integrations.method_parts import Scheduled, in_several_processes
from class_uncertainty.integrations.online_uncertainty import OnlineUncertainty
from class_uncertainty.measures import Stats
from class_uncertainty.methods import Method

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
