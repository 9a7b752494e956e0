"""Distillation: students learn, on the very images they see, what trained networks say of them once that is adjusted for the counts."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.methods import losses
from class_uncertainty.training.engine import precision, settle
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.folds import held_out
from class_uncertainty.training.objective import whole
from class_uncertainty.training.recipe import Lane
from class_uncertainty.training.stack import stacked
from class_uncertainty.training.stages import staged


class Teachers:
    """Networks that run stacked, forward only, inside the step of their students; all students see the same images."""

    def __init__(self, fitted: Fit, train: Data, students: Sequence[Lane], device: str) -> None:
        lanes = [staged(lane, fitted.recipe, len(lane.value.then)) for lane in fitted.lanes]
        teaching = [lane.teaching for lane in students if lane.teaching]
        stack = stacked(fitted.recipe, fitted.shape, fitted.classes, lanes, fitted.states)
        self.stack = settle(stack, fitted.recipe.network, device).eval().requires_grad_(False)
        self.scale = torch.tensor([lane.value.scale for lane in lanes], device=device).view(-1, 1, 1)

        def each(field: str) -> Tensor:
            return torch.tensor([float(getattr(one, field)) for one in teaching], device=device).view(-1, 1, 1)

        self.temperature, self.hard = each("temperature"), each("hard").squeeze(2)
        counts = torch.from_numpy(train.counts).to(device, torch.float32)
        self.shift = each("tau") * counts.log()  # (students, 1, C) tau log N
        asked = [[not one.teachers or i in one.teachers for i in range(len(lanes))] for one in teaching]
        self.asked = torch.tensor(asked, device=device, dtype=torch.float32)  # (students, teachers)
        self.geometric = torch.tensor([one.mean == "geometric" for one in teaching], device=device).view(-1, 1, 1)
        self.unseen = torch.tensor([one.unseen for one in teaching], device=device).view(-1, 1, 1)
        self.left_out = torch.zeros(len(lanes), len(train), device=device)  # (teachers, N): which examples a teacher never saw
        for i, lane in enumerate(lanes):
            if lane.fold:
                self.left_out[i, torch.from_numpy(held_out(train, lane.fold)).to(device)] = 1

    @torch.no_grad()
    def targets(self, x: Tensor, chosen: Tensor) -> Tensor:
        """softmax((log p - tau log N) / T), p the mean of a student's teachers: images (B, ...), their places (B,) -> (students, B, C)."""
        with precision(self.stack):
            z = self.stack(x.repeat(1, self.stack.lanes, *[1] * (x.ndim - 2)))
        said = whole(self.scale * z.float()).log_softmax(dim=-1)  # (teachers, B, C)
        size, left_out = len(x), whole(self.left_out[:, chosen].unsqueeze(2)).squeeze(2)  # (teachers, B)
        asked = self.asked.unsqueeze(2) * torch.where(self.unseen, left_out, 1.0)  # (students, teachers, B)
        share = (asked / asked.sum(dim=1, keepdim=True).clamp(min=1)).unsqueeze(3)
        geometric, arithmetic = torch.zeros(2, len(asked), *said.shape[1:], device=said.device)
        for i, each in enumerate(said):  # not as a product of matrices, whose bits depend on how many students there are
            geometric += share[:, i] * each
            arithmetic += share[:, i] * each.exp()
        log_p = torch.where(self.geometric, geometric, arithmetic.clamp(min=torch.finfo(said.dtype).tiny).log())
        return ((log_p - self.shift) / self.temperature).softmax(dim=-1)[:, :size]

    def loss(self, z: Tensor, targets: Tensor, labels: Tensor) -> Tensor:
        """(1 - hard) T^2 H(q, softmax(z / T)) + hard H(y, softmax(z + tau log N)): logits (students, B, C) -> (students, B).

        z is to be what adjusted teachers say, so that the labels, which come by the counts, are met by z with the counts put back.
        """
        size, padded = z.shape[1], whole(z)
        soft = self.temperature.squeeze(2).square() * losses.cross_entropy(padded / self.temperature, whole(targets))
        own = whole(F.one_hot(labels, z.shape[-1]).to(z.dtype))
        return ((1 - self.hard) * soft + self.hard * losses.cross_entropy(padded + self.shift, own))[:, :size]


def check_teachers(train: Data, lanes: Sequence[Lane], fitted: Fit | None) -> None:
    """Say before the training that nobody teaches, or who cannot."""
    students = [lane for lane in lanes if lane.teaching]
    if not students:
        return
    if not isinstance(fitted, Fit) or not fitted.states:
        raise InputError(f"lane {students[0].name!r} learns from teachers, and there are none: give fit() a Fit as `teachers`.")
    if fitted.classes != train.classes:
        both = f"{len(fitted.classes)} classes and the data have {len(train.classes)}"
        raise InputError(f"the teachers know {both}, or they are named or ordered otherwise.")
    if fitted.shape != train.shape:
        raise InputError(f"the teachers take inputs of shape {fitted.shape}, and the data have {train.shape}: they must agree.")
    if any(result.data != train.fingerprint for result in fitted.results):
        raise InputError("the teachers were trained on other data: a student learns from networks of the same training examples.")
    if any(lane.value.head == "rbf" for lane in fitted.lanes):
        raise InputError("a teacher is a DUQ network, whose kernels are no distribution over the classes: give others.")
    if lost := next((result for result in fitted.results if result.diverged is not None), None):
        raise InputError(f"the teacher of seed {lost.seed} diverged in epoch {lost.diverged}: it has nothing to teach.")
    for lane in students:
        assert lane.teaching is not None
        who = lane.teaching.teachers or range(len(fitted.lanes))
        if outside := [i for i in who if not 0 <= i < len(fitted.lanes)]:
            raise InputError(f"teacher {outside[0]} is asked for, and there are {len(fitted.lanes)}: they count from 0.")
        if lane.fold and any(fitted.lanes[i].fold != lane.fold for i in who):
            raise InputError(f"a student leaves out fold {lane.fold}, and a teacher has seen it: all must leave it out.")
        if lane.teaching.unseen:
            seen = torch.zeros(len(train), dtype=torch.bool)
            for i in who:
                if fold := fitted.lanes[i].fold:
                    seen[torch.from_numpy(held_out(train, fold))] = True
            if not seen.all():
                raise InputError(
                    "an example is to be taught by a network that never saw it, and some were seen by all: give out-of-fold members."
                )
