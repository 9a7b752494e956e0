"""fit(): lanes are independent, follow the equations of plain PyTorch, and come out as plain networks."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from training.fit_settings import FEATURES, IMAGES, stats_of

import class_uncertainty as cu
from class_uncertainty.data import stratified
from class_uncertainty.training.fit_result import SCORING
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.layers import WIDEST
from class_uncertainty.training.networks.network_table import NETWORKS
from class_uncertainty.training.networks.stack import SGD, Stack
from class_uncertainty.training.recipe import TREES
from class_uncertainty.training.streams import draw_order, initial_state, stream

STACKED = [network for network in NETWORKS if network not in TREES]  # test_fitted_trees.py has the others


def mixed_lanes(network: str) -> list[cu.Lane]:
    """A third of the methods, several rates, seeds and folds; few lanes where they train one by one."""
    if NETWORKS[network].widest < WIDEST:
        return [cu.Lane("ldam-rw"), cu.Lane("ubrs", 3, lr=0.3, fold=(1, 5))]
    unfit = ("2s-cam",) if network == "mlp" else ("2s-cam", "dro", "ubm-dro")
    rows = [method for method in cu.METHODS if NETWORKS[network].images or not method.startswith(unfit)]
    if NETWORKS[network].large:
        return [cu.Lane("naive", lr=0.01), cu.Lane("ubrs", 3, fold=(1, 5))]
    every_method = [cu.Lane(method, seed=i % 4) for i, method in enumerate(rows[::3])]
    rates_and_folds = [
        cu.Lane("naive", 7, lr=0.3),
        cu.Lane("ldam", 8, lr=0.01),
        cu.Lane("ubrs", 3, fold=(1, 5)),
        cu.Lane("cb", 9, fold=(0, 2)),
    ]
    return every_method + rates_and_folds


def setting(network: str, digits: cu.Dataset, wine: cu.Data) -> tuple[cu.Data, cu.Recipe]:
    """Data and a recipe that suit a network: several batches of unequal sizes, and little of both for a large one."""
    if not NETWORKS[network].images:
        return wine, FEATURES[network]
    if not NETWORKS[network].large:
        return digits.train.take(np.arange(0, len(digits.train), 3)), IMAGES
    few = np.concatenate([np.flatnonzero(digits.train.labels == c)[:2] for c in range(10)])
    return digits.train.take(few), dataclasses.replace(IMAGES, network=network, epochs=1, batch=10)


@pytest.mark.parametrize("network", STACKED)
def test_a_lane_alone_is_the_lane_among_others(network, digits, wine):
    """Same bits on the CPU for any company in any order."""
    train, recipe = setting(network, digits, wine)
    lanes, stats = mixed_lanes(network), stats_of(train)
    together = cu.fit(train, lanes, recipe=recipe, stats=stats, device="cpu").probabilities(train)
    order = np.roll(np.arange(len(lanes)), 1)
    shuffled = cu.fit(train, [lanes[i] for i in order], recipe=recipe, stats=stats, device="cpu").probabilities(train)
    assert np.array_equal(together[order], shuffled)
    for i in {0, len(lanes) // 2, len(lanes) - 1}:
        alone = cu.fit(train, [lanes[i]], recipe=recipe, stats=stats, device="cpu").probabilities(train)
        assert np.array_equal(together[i], alone[0])


@pytest.mark.parametrize(
    ("network", "classes", "size"),
    [
        (network, classes, size)
        for network in STACKED
        for classes, size in ((2, 3), (7, 13), (7, 96))
        if size < 96 or not NETWORKS[network].large
    ],
)
def test_a_place_in_the_stack_changes_no_bit(network, classes, size):
    """Odd sizes too, where a lane's matrices would not start on a 64-byte boundary, and ones that torch spreads over
    threads."""
    rng, row = np.random.default_rng(0), NETWORKS[network]
    inputs = rng.integers(0, 256, (70, 3, size, 9)).astype(np.uint8) if row.images else rng.normal(size=(70, size))
    data = cu.Data(inputs, np.arange(70) % classes)
    if row.large:  # it has one place, and here is to take images of any size
        data, recipe, methods = data.take(np.arange(17)), cu.Recipe(network, epochs=1, batch=17), ["ldam"]
    else:
        recipe, methods = cu.Recipe(network, epochs=2, batch=17), ["naive", "focal", "ldam"]
    for method in methods:
        fitted = cu.fit(data, [cu.Lane(method)] * row.width, recipe=recipe, device="cpu")
        p = fitted.probabilities(data)
        assert np.array_equal(p, np.broadcast_to(p[0], p.shape))


@pytest.mark.parametrize("network", STACKED)
def test_stack_is_separate_networks_under_torch_sgd(network):
    """Forward, batch statistics and steps of SGD in float64 equal plain modules under torch.optim.SGD."""
    steps, batch, side = (2, 4, 4) if NETWORKS[network].large else (10, 16, 8)
    rates = [0.1, 0.02] if NETWORKS[network].large else [0.1, 0.02, 0.3]
    shape = (3, side, side) if NETWORKS[network].images else (7,)
    recipe = cu.Recipe(network, epochs=1, batch=batch, weight_decay=0.01)
    lanes = [cu.Lane(seed=s) for s in range(len(rates))]
    stack = Stack(recipe, shape, tuple("abcd"), lanes).double()
    plain = [Classifier(network, shape, tuple("abcd")).double() for _ in lanes]
    for lane, module in zip(lanes, plain, strict=True):
        module.load_state_dict(
            {name: torch.from_numpy(v) for name, v in initial_state(module, lane.seed).items()}, strict=False
        )
    theirs = [
        torch.optim.SGD(m.parameters(), lr, 0.9, weight_decay=0.01, nesterov=True)
        for m, lr in zip(plain, rates, strict=True)
    ]
    ours = SGD(stack, recipe)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        x = torch.randn(len(lanes), batch, *shape, generator=generator, dtype=torch.float64)
        labels = torch.randint(4, (len(lanes), batch), generator=generator)
        logits = stack(x.transpose(0, 1).flatten(1, 2))
        stack.zero_grad()
        sum(nn.functional.cross_entropy(z, y) for z, y in zip(logits, labels, strict=True)).backward()
        ours.step(ours.rates(torch.tensor(rates, dtype=torch.float64)))
        for i, (module, optimiser) in enumerate(zip(plain, theirs, strict=True)):
            z = module.head(module.body(x[i]))
            torch.testing.assert_close(logits[i], z, rtol=1e-9, atol=1e-11)
            optimiser.zero_grad()
            nn.functional.cross_entropy(z, labels[i]).backward()
            optimiser.step()
    for state, module in zip(stack.states(), plain, strict=True):
        for name, value in state.items():
            torch.testing.assert_close(value, module.state_dict()[name], rtol=1e-9, atol=1e-11)


def test_fit_is_the_plain_loop(digits):
    """An epoch of fit() equals the same epoch written with plain PyTorch, up to float32 rounding."""
    recipe = cu.Recipe("small-conv", epochs=1, batch=32, lr=0.05, warmup=0, drops=())
    fitted = cu.fit(digits.train, [cu.Lane("naive", 5)], recipe=recipe, device="cpu")
    module = Classifier("small-conv", digits.train.shape, digits.classes)
    module.load_state_dict({name: torch.from_numpy(v) for name, v in initial_state(module, 5).items()}, strict=False)
    inputs = torch.from_numpy(digits.train.inputs).float()
    inputs = (inputs - inputs.mean()) / inputs.std(correction=0)
    optimiser = torch.optim.SGD(module.parameters(), 0.05, 0.9, weight_decay=2e-4, nesterov=True)
    length = len(digits.train) // 32 * 32
    for batch in torch.from_numpy(stream(5, "order").permutation(len(digits.train))[:length]).split(32):
        optimiser.zero_grad()
        logits = module.head(module.body(inputs[batch]))
        nn.functional.cross_entropy(logits, torch.from_numpy(digits.train.labels)[batch]).backward()
        optimiser.step()
    for name, value in module.head.named_parameters():
        torch.testing.assert_close(fitted.states[0][f"head.{name}"], value.detach(), rtol=1e-3, atol=1e-4)


def test_seed_decides_everything(digits):
    lanes = [cu.Lane("naive", 0), cu.Lane("naive", 1)]
    once, twice = (
        cu.fit(digits.train, lanes, recipe=IMAGES, device="cpu").probabilities(digits.test) for _ in range(2)
    )
    assert np.array_equal(once, twice)
    assert not np.array_equal(once[0], once[1])


@pytest.fixture(scope="module")
def every_row(digits):
    """Two epochs of all methods."""
    train, lanes = digits.train.take(np.arange(0, len(digits.train), 3)), [*map(cu.Lane, cu.METHODS)]
    return cu.fit(train, lanes, recipe=IMAGES, stats=stats_of(train), test=digits.test, device="cpu")


@pytest.mark.parametrize("method", cu.METHODS)
def test_every_method_trains_and_is_judged(method, every_row, digits):
    result = every_row.results[list(cu.METHODS).index(method)]
    assert result.method == method
    assert result.diverged is None
    assert np.isfinite(result.loss)
    assert 0 <= result.top1_error < 100
    assert len(result.class_errors) == 10
    assert result.error == pytest.approx(np.mean(result.class_errors))
    assert result.top1_error == pytest.approx(np.dot(result.class_errors, digits.test.counts) / len(digits.test))


def test_every_methods_module_is_its_lane(every_row, digits):
    """By its logits too, those of a DUQ head being the logarithms of its kernels."""
    few = digits.test.take(np.arange(0, len(digits.test), 3))
    p, logits = every_row.probabilities(few), every_row.logits(few)
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-5)
    for i, method in enumerate(cu.METHODS):
        with torch.no_grad():
            z = every_row.module(i)(torch.from_numpy(few.inputs))
        np.testing.assert_allclose(z.softmax(-1), p[i], atol=1e-4, err_msg=method)
        np.testing.assert_allclose(z, logits[i], atol=1e-3, rtol=1e-4, err_msg=method)


def test_some_of_the_lanes(every_row, digits):
    """In any order, with all that belongs to them."""
    places = [list(cu.METHODS).index(method) for method in ("duq", "naive", "crt")]
    some = every_row.take(places)
    assert [result.method for result in some.results] == [lane.method for lane in some.lanes] == ["duq", "naive", "crt"]
    few = digits.test.take(np.arange(50))
    p = some.probabilities(few)
    assert np.array_equal(p, every_row.probabilities(few)[places])
    for place, own in zip(places, p, strict=True):
        assert np.array_equal(every_row.take([place]).probabilities(few)[0], own)
    assert len(every_row.lanes) == len(cu.METHODS)


def test_features_are_left_out_when_asked(every_row, digits):
    """Against the plain head on masked features: half of them, the rest doubled, others in every pass; naive lanes as
    they are."""
    places = [list(cu.METHODS).index(method) for method in ("dropout", "naive")]
    some, few = every_row.take(places), digits.test.take(np.arange(300))
    passes = some.dropped_out(few, 4)
    assert passes.shape == (8, 300, 10)
    assert np.array_equal(passes, some.dropped_out(few, 4))
    assert np.array_equal(passes[4:], np.broadcast_to(some.probabilities(few)[1], (4, 300, 10)))
    module, rng = some.module(0), stream(0, "dropout", SCORING)
    with torch.no_grad():
        features = module.body(module.preprocess(torch.from_numpy(few.inputs)))
        masks = [[rng.random((1, size, 32), dtype=np.float32) for _ in range(4)] for size in (256, 44)]
        for each, p in enumerate(passes[:4]):
            kept = torch.from_numpy(np.concatenate([part[each][0] for part in masks])) >= 0.5
            np.testing.assert_allclose(module.head(2 * features * kept).softmax(-1), p, atol=1e-4)
    assert len({p.tobytes() for p in passes[:4]}) == 4


@pytest.mark.parametrize("method", ["naive", "ldam", "vs", "focal", cu.Method(scale=4.0)], ids=str)
def test_module_is_the_lane(method, digits):
    """The plain network takes raw images and gives the lane's probabilities."""
    fitted = cu.fit(digits.train, [cu.Lane("naive", 3), cu.Lane(method)], recipe=IMAGES, device="cpu")
    module = fitted.module(1)
    with torch.no_grad():
        probabilities = module(torch.from_numpy(digits.test.inputs)).softmax(-1)
    np.testing.assert_allclose(probabilities, fitted.probabilities(digits.test)[1], atol=1e-5)
    assert not module.training


def test_a_lane_never_sees_the_fold_it_leaves_out(digits):
    """Changing the left-out examples' pixels (not the data's mean and spread) changes nothing."""
    part = stratified(digits.train.labels, 3)
    scrambled = digits.train.inputs.copy()
    scrambled[part == 1] = scrambled[part == 1][:, :, ::-1, ::-1]
    other = cu.Data(scrambled, digits.train.labels, digits.classes)
    lanes = [cu.Lane("naive", 0, fold=(1, 3)), cu.Lane("cb-rs", 0, fold=(1, 3)), cu.Lane("naive", 0)]
    a, b = (
        cu.fit(data, lanes, recipe=IMAGES, device="cpu").probabilities(digits.test) for data in (digits.train, other)
    )
    assert np.array_equal(a[:2], b[:2])
    assert not np.array_equal(a[2], b[2])


def test_order_of_a_fold_fills_the_epoch(digits):
    """An epoch always has the data's length; a lane with fewer examples goes round again."""
    labels = digits.train.labels[:100]
    order = draw_order(stream(0, "order"), labels, cu.normalise(np.bincount(labels)), True, 250)
    assert sorted(order[:100]) == sorted(order[100:200]) == list(range(100))
    assert len(order) == 250


@pytest.mark.gpu
def test_gpu_lane_is_the_cpu_lane(digits):
    """Not the same bits, but the same training: two epochs stay close."""
    lanes, stats = [cu.Lane("naive"), cu.Lane("ldam-rw"), cu.Lane("ubrs")], stats_of(digits.train)
    cpu, gpu = (
        cu.fit(digits.train, lanes, recipe=IMAGES, stats=stats, device=d).probabilities(digits.test)
        for d in ("cpu", "cuda")
    )
    assert np.abs(cpu - gpu).mean() < 0.01
