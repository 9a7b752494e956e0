"""Distillation: students learn what trained networks predict for the very images that they see, prior-corrected."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.methods import losses
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.networks.layers import pad_batch
from class_uncertainty.training.networks.stack import Stack, precision, to_device
from class_uncertainty.training.stages import staged


class Teachers:
    """Networks that run stacked, forward only, inside the step of their students; all students see the same images."""

    def __init__(self, fitted: Fit, train: Data, students: Sequence[Lane], device: str) -> None:
        lanes = [staged(lane, fitted.recipe, len(lane.value.then)) for lane in fitted.lanes]
        teaching = [lane.teaching for lane in students if lane.teaching]
        stack = Stack(fitted.recipe, fitted.shape, fitted.classes, lanes, fitted.states)
        self.stack = to_device(stack, device).eval().requires_grad_(False)
        self.scale = torch.tensor([lane.value.scale for lane in lanes], device=device).view(-1, 1, 1)

        def by_student(field: str) -> Tensor:
            values = [float(getattr(student, field)) for student in teaching]
            return torch.tensor(values, device=device).view(-1, 1, 1)

        self.temperature, self.hard = by_student("temperature"), by_student("hard").squeeze(2)
        counts = torch.from_numpy(train.counts).to(device, torch.float32)
        self.shift = by_student("tau") * counts.log()  # (students, 1, C) tau log N
        chosen = [[not student.teachers or i in student.teachers for i in range(len(lanes))] for student in teaching]
        self.chosen = torch.tensor(chosen, device=device, dtype=torch.float32)  # (students, teachers)
        geometric = [student.mean == "geometric" for student in teaching]
        self.geometric = torch.tensor(geometric, device=device).view(-1, 1, 1)
        self.unseen = torch.tensor([student.unseen for student in teaching], device=device).view(-1, 1, 1)
        # (teachers, N): which examples a teacher never saw
        self.left_out = torch.zeros(len(lanes), len(train), device=device)
        for i, lane in enumerate(lanes):
            if lane.fold:
                self.left_out[i, torch.from_numpy(fold_indices(train, lane.fold)).to(device)] = 1

    @torch.no_grad()
    def targets(self, x: Tensor, places: Tensor) -> Tensor:
        """softmax((log p - tau log N) / T), p the mean of a student's teachers: (B, ...), (B,) -> (students, B, C)."""
        with precision(self.stack):
            z = self.stack(x.repeat(1, self.stack.lanes, *[1] * (x.ndim - 2)))
        log_p = pad_batch(self.scale * z.float()).log_softmax(dim=-1)  # (teachers, B, C)
        left_out = pad_batch(self.left_out[:, places].unsqueeze(2)).squeeze(2)  # (teachers, B)
        chosen = self.chosen.unsqueeze(2) * torch.where(self.unseen, left_out, 1.0)  # (students, teachers, B)
        share = (chosen / chosen.sum(dim=1, keepdim=True).clamp(min=1)).unsqueeze(3)
        geometric, arithmetic = torch.zeros(2, len(chosen), *log_p.shape[1:], device=log_p.device)
        # no product of matrices: its bits depend on the number of students
        for i, teacher in enumerate(log_p):
            geometric += share[:, i] * teacher
            arithmetic += share[:, i] * teacher.exp()
        mean = torch.where(self.geometric, geometric, arithmetic.clamp(min=torch.finfo(log_p.dtype).tiny).log())
        return ((mean - self.shift) / self.temperature).softmax(dim=-1)[:, : len(x)]

    def loss(self, z: Tensor, targets: Tensor, labels: Tensor) -> Tensor:
        """(1 - hard) T^2 H(q, softmax(z / T)) + hard H(y, softmax(z + tau log N)): (students, B, C) -> (students, B).

        z learns what prior-corrected teachers predict. The labels come by the counts, so z meets them with the counts
        put back.
        """
        size, padded = z.shape[1], pad_batch(z)
        soft = losses.cross_entropy(padded / self.temperature, pad_batch(targets))
        soft = self.temperature.squeeze(2).square() * soft
        one_hot = pad_batch(F.one_hot(labels, z.shape[-1]).to(z.dtype))
        return ((1 - self.hard) * soft + self.hard * losses.cross_entropy(padded + self.shift, one_hot))[:, :size]


def check_teachers(train: Data, lanes: Sequence[Lane], fitted: Fit | None) -> None:
    """Refuse before the training that students have no teachers, or unfit ones."""
    students = [lane for lane in lanes if lane.teaching]
    if not students:
        return
    if not isinstance(fitted, Fit) or not fitted.states:
        raise InputError(f"lane {students[0].name!r} has no teachers: give fit() a Fit as `teachers`.")
    if fitted.classes != train.classes:
        both = f"{len(fitted.classes)} of the teachers, {len(train.classes)} of the data"
        raise InputError(f"teachers and data must have the same classes in the same order: {both}.")
    if fitted.shape != train.shape:
        raise InputError(f"the teachers take inputs of shape {fitted.shape}, and the data have {train.shape}.")
    if any(result.data != train.fingerprint for result in fitted.results):
        raise InputError("the teachers were trained on other data: teachers and students need the same examples.")
    if any(lane.value.head == "rbf" for lane in fitted.lanes):
        raise InputError("a teacher is a DUQ network, whose kernels are no distribution over the classes: give others.")
    if lost := next((result for result in fitted.results if result.diverged is not None), None):
        raise InputError(f"the teacher of seed {lost.seed} {lost.divergence}: it has nothing to teach.")
    for lane in students:
        _check_student(train, lane, fitted)


def _check_student(train: Data, lane: Lane, fitted: Fit) -> None:
    assert lane.teaching is not None
    teachers = lane.teaching.teachers or range(len(fitted.lanes))
    if outside := [i for i in teachers if not 0 <= i < len(fitted.lanes)]:
        raise InputError(f"teacher {outside[0]} is asked for, and there are {len(fitted.lanes)}: they count from 0.")
    folds = [fitted.lanes[i].fold for i in teachers]
    if lane.fold and any(fold != lane.fold for fold in folds):
        raise InputError(f"a student leaves out fold {lane.fold}, and a teacher has seen it: all must leave it out.")
    if lane.teaching.unseen:
        unseen = [fold_indices(train, fold) for fold in folds if fold]
        if len(np.unique(np.concatenate([[], *unseen]))) < len(train):
            raise InputError("some examples were seen by all teachers: `unseen` needs out-of-fold members.")
