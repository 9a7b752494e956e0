"""StackTraining: one stack of lanes through one stage."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.errors import Unfinished
from class_uncertainty.training.augment.cam_resampling import filled_up, generated
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.distillation import Teachers
from class_uncertainty.training.full_batch import LBFGS, FullBatch
from class_uncertainty.training.lane import Epoch, Lane, Progress
from class_uncertainty.training.networks.custom_network import epoch_seed, seeded
from class_uncertainty.training.networks.heads import StackedRBFHead
from class_uncertainty.training.networks.network_table import find_network
from class_uncertainty.training.networks.stack import (
    SGD,
    Stack,
    State,
    apart,
    initial,
    joined,
    make_optimiser,
    to_device,
)
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.sampling import AVERAGING, STAGE_STREAMS, Examples, LaneSampler, draw_epoch
from class_uncertainty.training.stage_context import StageContext
from class_uncertainty.training.stages import resolve_stages
from class_uncertainty.training.train_step import StepProgram


class WeightAverage:
    """Sums of the trained weights at the ends of the recipe's last epochs; nothing where it averages none.

    DUQ's centroids are moving averages beside the weights: the sums N_c and m_c that they are made of are averaged
    like weights. A mean is a sum divided once: sums have the same bits wherever a lane is in its stack.
    """

    def __init__(self, stack: Stack, optimiser: SGD | LBFGS, recipe: Recipe) -> None:
        self.lanes, self.count, self.first = stack.lanes, recipe.averaged, recipe.epochs - recipe.averaged
        averaged = dict(zip(optimiser.names, (p.data for p in optimiser.parameters), strict=True))
        if isinstance(stack.head, StackedRBFHead):
            averaged |= {"head.count": stack.head.count, "head.total": stack.head.total}
        self.averaged = averaged if self.count else {}
        self.sums = {name: torch.zeros_like(value) for name, value in self.averaged.items()}

    def load(self, summed: Sequence[State]) -> None:
        """Go on from the sums of the lanes; a lane that is not yet averaged has none."""
        if all(summed):
            for name, value in self.sums.items():
                value.copy_(joined([lane[name] for lane in summed]).view_as(value))

    def states(self) -> list[State]:
        """Each lane's sums, apart."""
        return apart(self.sums, self.lanes)

    @torch.no_grad()
    def add(self, epoch: int) -> None:
        """Add the weights at the end of an epoch, if it is one of the last."""
        if self.count and epoch >= self.first:
            torch._foreach_add_(list(self.sums.values()), list(self.averaged.values()))

    @torch.no_grad()
    def replace_weights(self) -> None:
        """The means in place of the weights."""
        torch._foreach_copy_(list(self.averaged.values()), torch._foreach_div(list(self.sums.values()), self.count))


UNSAVED = 60  # seconds of training after which an epoch's end is a checkpoint, however few epochs they were


class StackTraining:
    """Lanes that are equally far, as one stack. On a CPU copies of the first fill it up; they are not reported."""

    def __init__(self, context: StageContext, places: list[int], started: list[LaneState]) -> None:
        fitted, stage = context.fitted, context.stage
        self.context, self.places, self.count = context, places, len(places)
        self.started = started  # from checkpoints; empty where the lanes begin the stage
        self.first = started[0].epoch if started else 0
        starts = fitted.padded(started or [self._handed_over(place) for place in places if place in context.before])
        self.lanes: list[Lane] = fitted.padded([context.lane(place) for place in places])
        # of each lane: the epoch over all stages in which it diverged, and its seconds before this stack began
        self.diverged = [start.diverged for start in starts] or [None] * len(self.lanes)
        self.seconds = [start.seconds for start in starts] or [0.0] * len(self.lanes)
        # probabilities of the training examples, by cycle
        self.snapshots: list[State] = [dict(start.gathered) for start in starts] or [{} for _ in self.lanes]
        states = [start.state for start in starts] or None
        stack = Stack(stage.recipe, fitted.shape, fitted.classes, self.lanes, states)
        self.stack = to_device(stack, fitted.device)

    def run(self) -> list[LaneState]:
        """Train to the epoch that is asked for: the lanes as they are then."""
        context, epochs, until = self.context, self.context.stage.recipe.epochs, self.context.until
        if self.first >= until:
            return self.started
        self._prepare()
        if context.begun.is_set() and context.options.deadline.passed:  # a short budget still trains one epoch
            raise Unfinished
        context.begun.set()
        saved = time.perf_counter()
        epoch = self.first
        while epoch < until:
            losses = self._train_epoch(epoch)
            self._take_snapshots(epoch)
            self.program.set_training()
            late, last = context.options.deadline.passed, epoch + 1 == epochs
            self._average(epoch, last)
            due = (epoch + 1) % context.options.every == 0 or time.perf_counter() - saved > UNSAVED
            if context.options.checkpoints and (late or epoch + 1 == until or (due and not self.program.idle)):
                states, saved = self._states(epoch + 1, losses), time.perf_counter()
                self._save(context.options.checkpoints, states)
            if late and not (last and context.any_last(self.places)):
                raise Unfinished
            # a lane that has converged has nothing to do before its last epoch, unless its plan changes
            epoch = max(epoch + 1, epochs - 1) if self.program.idle and self.steady else epoch + 1
        return self._states(until, losses)

    def _save(self, checkpoints: Checkpoints, states: list[LaneState]) -> None:
        """Save the lanes of the stack, and those that they train for."""
        for_all: dict[int, LaneState] = {}
        for leader, state in zip(self.places, states, strict=True):
            for_all |= self.context.shared(leader, state)
        checkpoints.save({self.context.key(place): state for place, state in for_all.items()})

    def _handed_over(self, place: int) -> LaneState:
        """A lane at the end of the stage before, with a new head where this stage wants one."""
        context = self.context
        lane = context.before[place]
        if not context.stage.fresh:
            return lane
        new = initial(context.stage.recipe, context.fitted.shape, context.fitted.classes, context.lane(place))
        head = {name: value for name, value in new.items() if name.startswith("head.")}
        return replace(lane, state=lane.state | head)

    def _prepare(self) -> None:
        """Everything that the first epoch needs."""
        context, stage, stack = self.context, self.context.stage, self.stack
        stack.body.requires_grad_(stage.trains != "head")
        stack.head.requires_grad_(stage.trains != "body")
        self.optimiser = LBFGS(stack) if stage.recipe.full_batch else make_optimiser(stack, stage.recipe)
        self.average = WeightAverage(stack, self.optimiser, stage.recipe)
        if self.started:
            started = context.fitted.padded(self.started)
            self.optimiser.load([lane.momenta for lane in started])
            self.average.load([lane.summed for lane in started])
        examples, self.samplers = self._sample_from()
        self.length = stage.length(context.train)
        self.steady = all(lane.value.is_steady for lane in self.lanes)
        self.plans, self.draws = draw_epoch(self.samplers, stage, self.first, self.length)
        if stack.margins is not None and not self.started:
            stack.margins.data.copy_(torch.from_numpy(np.concatenate([plan.margin for plan in self.plans])))
        teachers = None
        if context.options.teachers and self.lanes[0].teaching:
            teachers = Teachers(context.options.teachers, context.train, self.lanes, context.fitted.device)
        self.program = self._program(examples, teachers)
        # rows of the stack and the places that they train for, by the epochs of all stages
        self.rows_by_total: dict[int, list[tuple[int, int]]] = {}
        for i, leader in enumerate(self.places):
            for place in context.trained_for[leader]:
                stages = resolve_stages(context.fitted.lanes[place].value, context.fitted.recipe)
                self.rows_by_total.setdefault(stages[-1].total, []).append((i, place))
        self.began = time.perf_counter()

    def _program(self, examples: Examples, teachers: Teachers | None) -> StepProgram | FullBatch:
        """What trains an epoch; on full batches it first knows the plan of the last one."""
        stage, optimiser = self.context.stage, self.optimiser
        if not isinstance(optimiser, LBFGS):
            about = (stage, examples, self.lanes, self.draws, self._sums(self.lanes[: self.count]), teachers)
            return StepProgram(self.stack, optimiser, *about)
        program = FullBatch(self.stack, optimiser, stage.recipe, examples, self.samplers[0], teachers)
        if self.first:
            program.take(draw_epoch(self.samplers, stage, self.first - 1, self.length)[0][0])
        return program

    def _sample_from(self) -> tuple[Examples, list[LaneSampler]]:
        """What each lane draws from; pasted images are made by the networks that the stage before has left."""
        context = self.context
        features = find_network(context.stage.recipe.network).features(context.fitted.shape)
        samplers = [LaneSampler(lane, context.train, context.options.stats, features) for lane in self.lanes]
        counts = torch.from_numpy(np.stack([sampler.counts for sampler in samplers])).to(context.fitted.device)
        if not context.stage.pasted:
            return replace(context.examples, counts=counts), samplers
        made = []
        for place, sampler in zip(self.places, samplers, strict=False):
            module = context.fitted.plain(sampler.lane, context.before[place].state).to(context.fitted.device)
            drawn = (sampler.indices, sampler.counts, sampler.lane.seed)
            made.append(generated(module, context.examples, *drawn, context.stage.released))
        examples, indices = filled_up(context.examples, made)
        indices += indices[:1] * (len(samplers) - len(indices))  # copies that fill the stack draw what the first draws
        more = [sampler.with_more(new, examples.labels) for sampler, new in zip(samplers, indices, strict=True)]
        return replace(examples, counts=counts), more

    def _sums(self, lanes: list[Lane]) -> dict[str, Tensor]:
        """Sums over the epochs of what "online" lanes gather, so far; nothing where no lane does."""
        if not any(lane.gather == "online" for lane in lanes):
            return {}
        device, shape = self.context.fitted.device, (len(lanes), len(self.context.train))
        sizes = {"p": (*shape, len(self.context.fitted.classes)), "entropy": shape, "seen": shape}
        sums = {name: torch.zeros(size, device=device) for name, size in sizes.items()}
        for i, start in enumerate(self.started):
            if start.gathered and lanes[i].gather == "online":
                for name, total in sums.items():
                    total[i] = start.gathered[name]
        return sums

    def _train_epoch(self, epoch: int) -> NDArray:
        """One epoch of all lanes, reported: their mean losses."""
        context, stage = self.context, self.context.stage
        since, epochs = time.perf_counter(), stage.recipe.epochs
        fine = [diverged is None for diverged in self.diverged]
        rates = [lane.rate_at(stage.recipe, epoch) if on else 0.0 for lane, on in zip(self.lanes, fine, strict=True)]
        lr = torch.tensor(rates, device=context.fitted.device)
        with self._profiled(wanted=epoch == min(self.first + 1, epochs - 1)):
            with self._drawing(epoch):
                sums = self.program.epoch(self.plans, self.draws, lr, context.check_stop)
            if epoch + 1 < epochs:  # drawn while a GPU is still at work
                self.plans, self.draws = draw_epoch(self.samplers, stage, epoch + 1, self.length)
            losses, errors = sums.cpu().numpy()
        for i in np.flatnonzero(~np.isfinite(losses) & fine):
            self.diverged[i] = stage.before + epoch
        if context.options.progress:
            numbers = (losses.tolist(), errors.tolist(), lr.tolist())
            self._report(context.options.progress, stage.before + epoch, numbers, time.perf_counter() - since)
        return losses

    def _drawing(self, epoch: int) -> AbstractContextManager[None]:
        """What layers of someone's own network draw depends on the lane, the stage and the epoch, and on no other."""
        if not self.stack.own:
            return nullcontext()
        seed = epoch_seed(self.lanes[0].seed, self.context.stage.number * STAGE_STREAMS + epoch)
        return seeded(seed, self.context.fitted.device)

    def _report(self, progress: Progress, epoch: int, numbers: Sequence[list[float]], seconds: float) -> None:
        """Tell of an epoch, of lanes with more stages to come apart: theirs are more in all."""
        for total, rows in self.rows_by_total.items():
            lanes = tuple(self.context.fitted.lanes[place] for _, place in rows)
            means, wrong, lrs = (tuple(values[i] for i, _ in rows) for values in numbers)
            speed = len(rows) * self.length / seconds
            progress(Epoch(lanes, epoch, total, means, wrong, lrs, seconds, speed))

    def _take_snapshots(self, epoch: int) -> None:
        """Keep the probabilities of the training examples, for lanes that want them and are at the end of a cycle."""
        recipe, due = self.context.stage.recipe, dict[int, Tensor]()
        for i, lane in enumerate(self.lanes):
            ends = recipe.cycle_ends(lane.value.cycles) if lane.gather == "snapshots" else []
            if epoch + 1 in ends:
                due[i] = torch.empty(len(self.context.train), len(self.context.fitted.classes))
                self.snapshots[i][f"p{ends.index(epoch + 1)}"] = due[i]
        if due:
            for rows, batch in self.context.fitted.batches(self.stack, self.lanes, self.context.train):
                for i, snapshot in due.items():
                    snapshot[rows] = torch.from_numpy(batch[i])

    def _average(self, epoch: int, last: bool) -> None:
        """Add up the weights of the last epochs. After the very last, their mean replaces them in every lane."""
        self.average.add(epoch)
        if last and self.average.sums:
            assert isinstance(self.program, StepProgram)  # full batches average nothing
            self.average.replace_weights()
            stage = self.context.stage
            _, draws = draw_epoch(self.samplers, stage, epoch, self.length, AVERAGING)
            with self._drawing(AVERAGING):
                self.program.recompute_statistics(draws)
            self.average.sums = {}

    def _states(self, epoch: int, losses: NDArray) -> list[LaneState]:
        """The lanes after `epoch` epochs, without those that fill the stack."""
        share = (time.perf_counter() - self.began) / self.count
        states, summed = self.stack.states(), self.average.states()
        ends = epoch == self.context.stage.recipe.epochs  # then no step comes that needs momenta
        momenta: list[State] = [{}] * len(states) if ends else self.optimiser.states()
        lanes = []
        for i, lane in enumerate(self.lanes[: self.count]):
            gathered = self.snapshots[i]
            if lane.gather == "online" and isinstance(self.program, StepProgram):
                gathered = self.program.gathered_by(i)
            seconds, loss = share + self.seconds[i], float(losses[i])
            parts = (gathered, summed[i])
            lanes.append(LaneState(epoch, states[i], momenta[i], self.diverged[i], loss, seconds, *parts))
        return lanes

    @contextmanager
    def _profiled(self, wanted: bool) -> Iterator[None]:
        """Trace one epoch of one stack: its second, since the first also prepares much."""
        trace = self.context.options.profile
        if not trace or not wanted or trace.begun.is_set():
            yield
            return
        trace.begun.set()
        with torch.profiler.profile() as profiler:
            yield
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(file))
            trace.write(file.read_bytes())
