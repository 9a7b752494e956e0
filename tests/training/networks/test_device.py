"""The engine on a real GPU: graphs, bfloat16, our own kernels, little memory. CI has none: `make test-gpu` where there
is one."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from fits import same_results

import class_uncertainty as cu
from class_uncertainty.training.kernels import fused_body
from class_uncertainty.training.networks.bodies import ResNet, resnet32
from class_uncertainty.training.networks.stack import FAILED, Stack, to_device
from class_uncertainty.training.stage_runner import StageRunner
from class_uncertainty.training.train_step import StepProgram

pytestmark = pytest.mark.gpu

RECIPE = cu.Recipe("resnet32", epochs=3, batch=64, crop=4, flip=True)
LANES = [
    cu.Lane("naive", 0),
    cu.Lane("ubrs", 1),
    cu.Lane("ldam-rw", 2, lr=0.3),
    cu.Lane("cb", 5, fold=(1, 5)),  # one seed in eight learns a class late, by torch's own kernels too
    cu.Lane("focal", 4),
    cu.Lane("2s-csce", 0),  # the first two of three epochs are those of the first lane
]


@pytest.fixture(scope="module")
def data():
    """Colours that tell three classes apart, in noise."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(3), (300, 150, 70)))
    pixels = rng.integers(0, 160, (520, 3, 32, 32)) + 60 * (np.arange(3) == labels[:, None])[:, :, None, None]
    return cu.Data(pixels.astype(np.uint8), labels)


def fit(data: cu.Data, lanes: list[cu.Lane], **options: object) -> cu.Fit:
    stats = cu.Stats(data.counts, np.linspace(1, 3, len(data.classes)))
    return cu.fit(data, lanes, **{"recipe": RECIPE, "stats": stats, "test": data, "device": "cuda"} | options)


def test_the_network_is_that_of_torch():
    """As near to float64 as torch's own bfloat16 is, through all 31 convolutions and back."""
    torch.manual_seed(0)
    x, given = torch.randn(64, 3 * 4, 32, 32, device="cuda"), torch.randn(64, 4 * 64, device="cuda")
    nets = [resnet32((3, 32, 32), 4).cuda() for _ in range(3)]
    for net in nets[1:]:
        net.load_state_dict(nets[0].state_dict())
    exact, usual, ours = nets[0].double(), nets[1], nets[2]
    ours.kernels = True
    with torch.autocast("cuda", torch.bfloat16):
        outputs = {"usual": usual(x)}
    outputs |= {"exact": exact(x.double()), "ours": ours(x)}
    for output in outputs.values():
        output.backward(given.to(output.dtype))

    def off(net: ResNet) -> float:
        pairs = zip(net.parameters(), exact.parameters(), strict=True)
        return float(np.median([float((p.grad.double() - q.grad).norm() / q.grad.norm()) for p, q in pairs]))

    outputs = {name: output.detach().double() for name, output in outputs.items()}
    apart = {
        name: float((output - outputs["exact"]).norm() / outputs["exact"].norm()) for name, output in outputs.items()
    }
    print(apart, off(usual), off(ours))
    assert apart["ours"] < 1.5 * apart["usual"] + 1e-3
    assert off(ours) < 1.5 * off(usual)
    for p, q in zip(ours.buffers(), exact.buffers(), strict=True):
        if p.ndim:
            torch.testing.assert_close(p.double(), q.double(), rtol=0.02, atol=0.02)


def test_it_learns_and_says_nothing_of_fallbacks(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit(data, LANES, recipe=dataclasses.replace(RECIPE, epochs=8))
    assert {result.method: result.top1_error for result in fitted.results if not result.top1_error < 10} == {}
    plain = fitted.module(2)
    with torch.no_grad():
        p = plain(torch.from_numpy(data.inputs)).softmax(dim=-1).numpy()
    assert np.abs(p - fitted.probabilities(data)[2]).mean() < 0.01  # float32 on a CPU


def test_the_same_call_gives_the_same_results(data):
    same_results(fit(data, LANES), fit(data, LANES))


NAMES = (
    "naive+mixup",
    "cb+remix",
    "naive+autoaugment+cutout",
    "dropout",
    "crt",
    "dro-learned+autoaugment+cutout",
    "2s-cam-rs",
    "duq",
)
FORMS = [
    cu.Lane(name, 5, lr=0.01 if name == "duq" else None) for name in NAMES
] + [  # at 0.1 three classes' kernels diverge
    cu.Lane("naive", 6, bootstrap=True),
    cu.Lane("naive", 7, gather="online"),
    cu.Lane("cyclic", 8, gather="snapshots"),
]


AUGMENTED = [
    cu.Lane(name, seed)
    for seed, name in enumerate(
        ("naive", "cb+autoaugment", "naive+cutout", "cb+mixup", "naive+remix", "focal+autoaugment+cutout", "cb-literal")
    )
]


def test_lanes_of_different_augmentations_are_one_stack(data, monkeypatch):
    """Each as it is alone, to the last bit; as one graph, without a word of fallbacks, and as without a graph."""
    run, widths = StageRunner.run, []
    monkeypatch.setattr(
        StageRunner, "run", lambda job, places, started: (widths.append(len(places)), run(job, places, started))[1]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together = fit(data, AUGMENTED)
    assert widths == [len(AUGMENTED)]
    assert [result.diverged for result in together.results] == [None] * len(AUGMENTED)
    for lane, state in zip(AUGMENTED, together.states, strict=True):
        (alone,) = fit(data, [lane]).states
        apart = {name: float((value - state[name]).abs().max()) for name, value in alone.items()}
        assert {name: most for name, most in apart.items() if most > 0} == {}, lane.name
    monkeypatch.setattr(StepProgram, "_capture", lambda self: None)
    same_results(fit(data, AUGMENTED), together)


def test_lanes_of_different_augmentations_are_those_of_the_cpu(digits):
    """Not the same bits, but the same training: two epochs stay close."""
    recipe = cu.Recipe("small-conv", epochs=2, batch=32, crop=1)
    cpu, gpu = (
        cu.fit(digits.train, AUGMENTED, recipe=recipe, device=device).probabilities(digits.test)
        for device in ("cpu", "cuda")
    )
    for lane, p, q in zip(AUGMENTED, cpu, gpu, strict=True):
        assert np.abs(p - q).mean() < 0.01, lane.name


def test_students_alone_and_among_others_with_and_without_a_graph(data, monkeypatch):
    """To the last bit, teachers stacked in their step, and without a word of fallbacks."""
    members = fit(
        data, [cu.Lane("naive", 0), cu.Lane("naive", 1), *(cu.Lane("naive", 0, fold=(k, 3)) for k in range(3))]
    )
    taught = [
        cu.Teaching(),
        cu.Teaching(0.5, 4.0, 0.3, teachers=(0, 1)),
        cu.Teaching(unseen=True, teachers=(2, 3, 4)),
        cu.Teaching(mean="arithmetic"),
    ]
    lanes = [cu.Lane("naive", seed, teaching=each) for seed, each in enumerate(taught)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together = fit(data, lanes, teachers=members)
    assert [result.diverged for result in together.results] == [None] * len(lanes)
    for i, lane in enumerate(lanes):
        alone = fit(data, [lane], teachers=members)
        assert all(torch.equal(value, together.states[i][name]) for name, value in alone.states[0].items()), lane
    monkeypatch.setattr(StepProgram, "_capture", lambda self: None)
    same_results(fit(data, lanes, teachers=members), together)


@pytest.mark.parametrize("lane", FORMS, ids=lambda lane: f"{lane.name}{lane.gather}")
def test_every_form_as_a_graph(data, lane, monkeypatch):
    with_graph = fit(data, [lane])
    monkeypatch.setattr(StepProgram, "_capture", lambda self: None)
    same_results(fit(data, [lane]), with_graph)


def test_a_graph_is_the_same_steps(data, monkeypatch):
    with_graph = fit(data, LANES)
    monkeypatch.setattr(StepProgram, "_capture", lambda self: None)
    same_results(fit(data, LANES), with_graph)


def test_stop_and_go_on(data, tmp_path):
    def stop(news) -> None:
        if news.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, LANES, checkpoints=tmp_path / "running", every=1, progress=stop)
    same_results(fit(data, LANES, checkpoints=tmp_path / "running"), fit(data, LANES))


def test_a_lane_that_diverges_leaves_the_others_as_they_are(data):
    fitted = fit(data, [LANES[0], cu.Lane("naive", 9, lr=1e12), LANES[1]])
    again = fit(data, [LANES[0], cu.Lane("naive", 9), LANES[1]])
    assert fitted.results[1].diverged == 0
    for i in (0, 2):
        assert dataclasses.replace(fitted.results[i], seconds=0) == dataclasses.replace(again.results[i], seconds=0)


def test_little_memory_makes_smaller_stacks(data, monkeypatch):
    run, tried = StageRunner.run, []
    monkeypatch.setattr(
        StageRunner, "run", lambda job, places, started: (tried.append(len(places)), run(job, places, started))[1]
    )
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2 * 2**30 / total)
    try:
        fitted = fit(data, [cu.Lane("naive", seed) for seed in range(48)], recipe=dataclasses.replace(RECIPE, epochs=1))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [result.diverged for result in fitted.results] == [None] * 48
    assert tried[0] == 48
    assert 1 < min(tried) < 48


def test_nan_shows(data):
    """One weight in the body that is no number: a ReLU must not make it 0."""
    net = resnet32((3, 32, 32), 2).cuda()
    net.kernels = True
    with torch.no_grad():
        net.blocks[3].first.conv.weight[0, 0, 0, 0] = float("nan")
        features = net(torch.randn(8, 6, 32, 32, device="cuda")).unflatten(1, (2, -1))
    assert features[:, 0].isnan().all()
    assert features[:, 1].isfinite().all()


@pytest.mark.parametrize("network", ["resnet32", "resnet32x4", "resnet18", "small-conv"])
def test_without_our_kernels(data, network, tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(fused_body.FusedBody, "forward", broken)
    monkeypatch.setitem(FAILED, "kernels", False)
    expected = (
        pytest.warns(RuntimeWarning, match="our own kernels do not compile here")
        if network == "resnet32"
        else warnings.catch_warnings()
    )
    with expected:
        fitted = fit(
            data,
            LANES,
            recipe=dataclasses.replace(RECIPE, network=network, epochs=8),
            test=None,
            checkpoints=tmp_path / "kept",
        )
    assert all(result.diverged is None for result in fitted.results)
    assert np.isfinite(fitted.probabilities(data)).all()


def test_features_stay_in_float32():
    rng = np.random.default_rng(0)
    data = cu.Data(rng.normal(size=(300, 5)) + 1e3, np.arange(300) % 3)
    recipe = cu.Recipe("mlp", epochs=3, batch=32)
    ours = [
        cu.fit(data, [cu.Lane("naive")], recipe=recipe, device=device).results[0].loss for device in ("cuda", "cpu")
    ]
    assert ours[0] == pytest.approx(ours[1], rel=1e-3)
    assert not to_device(Stack(recipe, (5,), data.classes, [cu.Lane("naive")]), "cuda").bf16
