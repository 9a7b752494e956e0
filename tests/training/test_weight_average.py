"""Averaged weights: the mean of the last epochs, with batch statistics of its own; all contracts of fit() hold."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from fits import same_fits
from torch.optim.swa_utils import AveragedModel, update_bn

import class_uncertainty as cu
from class_uncertainty.training.augment.crops import augmented, draw
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.stack import State
from class_uncertainty.training.sampling import AVERAGING
from class_uncertainty.training.streams import initial_state, stream

PLAIN = cu.Recipe("small-conv", epochs=6, batch=32, crop=1, flip=True)
RECIPE = dataclasses.replace(PLAIN, average=0.5)
LANES = [
    cu.Lane("naive", 0),
    cu.Lane("ubrs", 1),
    cu.Lane("ldam-rw", 2, lr=0.3),
    cu.Lane("crt", 3, fold=(1, 5)),
    cu.Lane("duq", 4),
    cu.Lane("cyclic+mixup", 5),
    cu.Lane("2s-cam-rs", 6),
    cu.Lane("dro", 7),
]


class Recording(Checkpoints):
    """Keeps every state of every lane in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.states: dict[str, dict[int, LaneState]] = {}

    def save(self, lanes: Mapping[str, LaneState]) -> None:
        for key, lane in lanes.items():
            self.states.setdefault(key, {})[lane.epoch] = lane


def fit(data: cu.Data, lanes: list[cu.Lane], recipe: cu.Recipe = RECIPE, **options: object) -> cu.Fit:
    stats = cu.Stats(data.counts, np.linspace(1, 3, len(data.classes)))
    return cu.fit(data, lanes, **{"recipe": recipe, "stats": stats, "test": data, "device": "cpu"} | options)


@pytest.fixture(scope="module")
def train(digits):
    return digits.train.take(np.arange(0, len(digits.train), 3))


@pytest.fixture(scope="module")
def whole(train):
    return fit(train, LANES)


def after_each_epoch(train: cu.Data, lane: cu.Lane, recipe: cu.Recipe, tmp_path: Path) -> list[State]:
    """The states of the last stage of a training that averages nothing."""
    kept = Recording(tmp_path)
    fit(train, [lane], recipe, checkpoints=kept, every=1)
    return [lane.state for _, lane in sorted(list(kept.states.values())[-1].items())]


def is_statistic(name: str) -> bool:
    return "running" in name


def means_of(states: list[State]) -> State:
    """Of everything but batch statistics, in float64."""
    names = [name for name in states[0] if not is_statistic(name)]
    return {name: torch.stack([state[name].double() for state in states]).mean(dim=0).float() for name in names}


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_weights_are_the_mean_of_the_last_epochs(lane, whole, train, tmp_path):
    """Of the last stage; centroids of DUQ too. A frozen body, and its statistics, stay to the last bit."""
    states = after_each_epoch(train, lane, PLAIN, tmp_path)
    averaged = dataclasses.replace(RECIPE, epochs=len(states)).averaged
    trained, means = whole.states[LANES.index(lane)], means_of(states[-averaged:])
    for name, mean in means.items():
        torch.testing.assert_close(trained[name], mean, rtol=1e-5, atol=1e-6)
    frozen = lane.value.then and lane.value.then[-1].trains == "head"
    for name, value in states[-1].items():
        if name.startswith("body.") and (frozen or is_statistic(name)):
            assert torch.equal(trained[name], value) == bool(frozen), name


def test_statistics_are_those_of_torch(whole, train):
    check_statistics(whole, train, rtol=1e-4, atol=1e-5)


def check_statistics(fitted: cu.Fit, train: cu.Data, **tolerance: float) -> None:
    """torch.optim.swa_utils.update_bn over the examples as they are drawn by streams of their own."""
    length = len(train) // 32 * 32
    order = stream(0, "order", AVERAGING).permutation(len(train))[:length]
    drawn = {name: torch.from_numpy(numbers) for name, numbers in draw(0, AVERAGING, length, PLAIN).items()}
    x = fitted.standardise.cpu()(augmented(torch.from_numpy(train.inputs[order]), drawn, PLAIN))
    module = fitted.module(0)
    ours = {name: value.clone() for name, value in module.body.named_buffers()}
    update_bn(x.split(32), module.body)
    for name, value in module.body.named_buffers():
        if is_statistic(name):
            torch.testing.assert_close(ours[name], value, **tolerance)


def test_fit_is_the_plain_loop_with_torchs_averaged_model(digits):
    """Three epochs by hand, the last two of them averaged, up to float32 rounding."""
    recipe = cu.Recipe("small-conv", 3, 32, lr=0.02, warmup=0, schedule="cosine", average=2 / 3)
    fitted = cu.fit(digits.train, [cu.Lane("naive", 5)], recipe=recipe, device="cpu")
    module = Classifier("small-conv", digits.train.shape, digits.classes)
    module.load_state_dict({name: torch.from_numpy(v) for name, v in initial_state(module, 5).items()}, strict=False)
    inputs, labels = torch.from_numpy(digits.train.inputs).float(), torch.from_numpy(digits.train.labels)
    inputs = (inputs - inputs.mean()) / inputs.std(correction=0)
    optimiser = torch.optim.SGD(module.parameters(), 0.02, 0.9, weight_decay=2e-4, nesterov=True)
    schedule, averaged = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=3), AveragedModel(module)

    def batches(epoch: int) -> tuple[torch.Tensor, ...]:
        order = stream(5, "order", epoch).permutation(len(labels))[: len(labels) // 32 * 32]
        return torch.from_numpy(order).split(32)

    for epoch in range(3):
        for batch in batches(epoch):
            optimiser.zero_grad()
            logits = module.head(module.body(inputs[batch]))
            torch.nn.functional.cross_entropy(logits, labels[batch]).backward()
            optimiser.step()
        schedule.step()
        if epoch:
            averaged.update_parameters(module)
    update_bn([inputs[batch] for batch in batches(AVERAGING)], averaged.module.body)
    for name, value in averaged.module.state_dict().items():
        if name in fitted.states[0]:
            torch.testing.assert_close(fitted.states[0][name], value, rtol=5e-3, atol=1e-3)


def test_a_lane_alone_is_the_lane_among_others(whole, train):
    order = np.random.default_rng(0).permutation(len(LANES))
    same_fits(fit(train, [LANES[i] for i in order]), whole.take(order.tolist()))
    for i in (0, 3, 4):
        same_fits(fit(train, [LANES[i]]), whole.take([i]))


@pytest.mark.parametrize("network", ["mlp", "linear", "resnet32"])
def test_other_networks(network, train):
    """A lane alone is the lane among others and the same twice; a linear classifier has no batch statistics."""
    few = np.flatnonzero(train.labels < 4)[::2]
    data = cu.Data(train.inputs[few], train.labels[few])
    recipe = cu.Recipe(network, epochs=2, batch=16, average=1.0)
    if network != "resnet32":
        data = cu.Data(data.inputs.reshape(len(data), -1) / 16.0, data.labels)
    lanes = [cu.Lane("naive", 0), cu.Lane("cb", 1), cu.Lane("crt", 2)]
    together = fit(data, lanes, recipe)
    same_fits(fit(data, lanes[1:2], recipe), together.take([1]))
    assert all(result.diverged is None for result in together.results)


def test_stop_and_resume(whole, train, tmp_path, monkeypatch):
    """The same bits, wherever it stops: before the first averaged epoch, among them, and at the end."""
    clock, stops, some = iter(range(10**6)), 0, [0, 3, 4, 7]
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    while True:
        try:
            fitted = fit(train, [LANES[i] for i in some], checkpoints=tmp_path / "running", budget=2)
            break
        except cu.Unfinished:
            stops += 1
    assert stops > 1
    same_fits(fitted, whole.take(some))


def test_checkpoints_have_sums_only_while_they_are_needed(train, tmp_path):
    kept = Recording(tmp_path)
    fit(train, LANES[:1], checkpoints=kept, every=1)
    (states,) = kept.states.values()
    assert {epoch: bool(lane.summed and lane.summed["head.bias"].any()) for epoch, lane in states.items()} == {
        1: False, 2: False, 3: False, 4: True, 5: True, 6: False,
    }  # fmt: skip
    fit(train, LANES[:1], PLAIN, checkpoints=(plain := Recording(tmp_path)), every=1)
    assert not any(lane.summed for states in plain.states.values() for lane in states.values())


def test_students(train, tmp_path):
    """Their weights are means too; one alone is that among others; what stopped goes on with the same bits."""
    teachers = cu.fit(train, [cu.Lane("naive", 1), cu.Lane("ldam", 2)], recipe=PLAIN, device="cpu")
    lanes = [cu.Lane(seed=seed, teaching=cu.Teaching(temperature=1.0 + seed)) for seed in range(3)]
    together = fit(train, lanes, teachers=teachers)
    same_fits(fit(train, lanes[1:2], teachers=teachers), together.take([1]))
    kept = Recording(tmp_path)
    fit(train, lanes[:1], PLAIN, teachers=teachers, checkpoints=kept, every=1)
    states = [lane.state for lane in next(iter(kept.states.values())).values()]
    for name, mean in means_of(states[3:]).items():
        torch.testing.assert_close(together.states[0][name], mean, rtol=1e-5, atol=1e-6)
    with pytest.raises(cu.Unfinished):
        fit(train, lanes, teachers=teachers, checkpoints=tmp_path / "running", budget=1e-9)
    same_fits(fit(train, lanes, teachers=teachers, checkpoints=tmp_path / "running"), together)


@pytest.mark.gpu
@pytest.mark.parametrize("network", ["small-conv", "resnet32"])
def test_a_gpu_has_the_statistics_of_torch(network, train):
    """Under CUDA graphs and, for ResNet-32, by our own kernels, in bfloat16."""
    recipe = dataclasses.replace(RECIPE, network=network, epochs=4)
    check_statistics(fit(train, [cu.Lane("naive")], recipe, device="cuda"), train, rtol=0.05, atol=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("network", ["small-conv", "resnet32"])
def test_a_gpu_averages_what_it_trained(network, digits, tmp_path):
    """The mean of the states after each epoch, and on the way a stop that changes nothing but last bits."""
    plain, lane = dataclasses.replace(PLAIN, network=network, epochs=4), [cu.Lane("naive")]
    kept = Recording(tmp_path)
    fit(digits.train, lane, plain, device="cuda", checkpoints=kept, every=1)
    states = [lane.state for lane in next(iter(kept.states.values())).values()]
    fitted = fit(digits.train, lane, dataclasses.replace(plain, average=0.5), device="cuda")
    for name, mean in means_of(states[2:]).items():
        torch.testing.assert_close(fitted.states[0][name], mean, rtol=0.02, atol=0.02)
