"""Full batches: heads are those of scikit-learn, every method trains or says why not, and lanes keep their promises."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.methods import losses, named
from class_uncertainty.training.full_batch import LBFGS, FullBatch
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.networks.stack import Stack
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.sampling import Examples, LaneSampler
from class_uncertainty.training.stage_runner import StageRunner

HEADS = replace(RECIPES["embeddings"], batch=32)
UNFIT = {
    "dro": "a loss of the features",
    "dro-learned": "a loss of the features",
    "ubm-dro": "a loss of the features",
    "2s-cam-rs": "pastes parts of images",
    "2s-cam-sqrt-rs": "pastes parts of images",
    "2s-cam-pb-rs": "pastes parts of images",
    "2s-cam-rs-bot": "pastes parts of images",
    "mixup": "has mixup",
    "remix": "has remix",
    "duq": "distances to centroids",
    "cyclic": "cycles of the learning rate",
    "dropout": "has dropout",
}
FIT = [method for method in cu.METHODS if method not in UNFIT]


def features(sizes: tuple[int, ...] = (60, 25, 12), width: int = 21, seed: int = 0) -> cu.Data:
    """Classes that overlap."""
    rng, labels = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    means = rng.normal(size=(len(sizes), width))
    return cu.Data(3 + 2 * (0.4 * means[labels] + rng.normal(size=(len(labels), width))), labels)


TRAIN = features()
STATS = cu.Stats(TRAIN.counts, [0.2, 0.5, 0.3])


def fit(lanes: list[cu.Lane], recipe: cu.Recipe = HEADS, train: cu.Data = TRAIN, **options: object) -> cu.Fit:
    stats = cu.Stats(train.counts, np.linspace(0.2, 0.5, len(train.classes)))
    return cu.fit(train, lanes, recipe=recipe, stats=stats, device="cpu", **options)


def standardised(data: cu.Data) -> np.ndarray:
    return (data.inputs - data.inputs.mean(axis=0)) / data.inputs.std(axis=0)


@pytest.mark.parametrize("strength", [0.01, 0.3, 10.0])
@pytest.mark.parametrize(("method", "balance"), [("naive", None), ("cb-rs", "balanced"), ("2s-cb-rs", "balanced")])
def test_a_linear_head_is_logistic_regression(method, balance, strength):
    """scikit-learn's, whose C is 1 / (weight_decay N); alpha uniform is class_weight="balanced", in stages too."""
    theirs = LogisticRegression(C=strength, class_weight=balance, tol=1e-8, max_iter=10_000)
    theirs.fit(standardised(TRAIN).astype(np.float64), TRAIN.labels)
    fitted = fit([cu.Lane(method)], replace(HEADS, weight_decay=1 / (strength * len(TRAIN))))
    assert fitted.results[0].diverged is None
    scale = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(fitted.states[0]["head.weight"], theirs.coef_, atol=5e-3 * scale)
    np.testing.assert_allclose(fitted.probabilities(TRAIN)[0], theirs.predict_proba(standardised(TRAIN)), atol=3e-3)


def test_weights_are_those_of_scikit_learn():
    """Divided by their sum over the examples (`cb`), they are class weights whose mean over the examples is 1."""
    weight = cu.plan(cu.METHODS["cb"], STATS, 0, 1).weight
    weight = weight / weight[TRAIN.labels].mean()
    theirs = LogisticRegression(
        C=1 / (HEADS.weight_decay * len(TRAIN)), class_weight=dict(enumerate(weight)), tol=1e-8, max_iter=10_000
    )
    theirs.fit(standardised(TRAIN).astype(np.float64), TRAIN.labels)
    ours = fit([cu.Lane("cb")]).probabilities(TRAIN)[0]
    np.testing.assert_allclose(ours, theirs.predict_proba(standardised(TRAIN)), atol=2e-3)


def test_balanced_softmax_is_the_naive_head_with_another_bias():
    """Biases are not penalised, so that the prior goes into them, and out again."""
    naive, balanced = fit([cu.Lane("naive"), cu.Lane("balanced-softmax")]).probabilities(TRAIN)
    with_prior = balanced * TRAIN.counts
    np.testing.assert_allclose(with_prior / with_prior.sum(axis=1, keepdims=True), naive, atol=2e-3)


def full_batch(lane: cu.Lane) -> tuple[FullBatch, LaneSampler]:
    """What trains a lane on TRAIN, and what chooses its examples."""
    stack, sampler = Stack(HEADS, TRAIN.shape, TRAIN.classes, [lane]), LaneSampler(lane, TRAIN, STATS, 0)
    x, labels = torch.from_numpy(standardised(TRAIN)).float(), torch.from_numpy(TRAIN.labels)
    examples = Examples(x, labels, None, torch.from_numpy(TRAIN.counts)[None])  # type: ignore[arg-type]
    return FullBatch(stack, LBFGS(stack), HEADS, examples, sampler), sampler


@pytest.mark.parametrize("options", [{"fold": (1, 4)}, {"bootstrap": True}], ids=str)
@pytest.mark.parametrize("method", ["naive", "ubrs", "ubrw", "cb-focal", "ldam", "vs", "logit-adjust:kappa=0.5"])
def test_the_gradient_is_that_of_the_losses(method, options):
    """Against autograd in float64, on losses weighted by alpha_c / N_c, of an example as often as it was resampled."""
    lane = cu.Lane(method, **options)
    program, sampler = full_batch(lane)
    x, labels, knobs = program.examples.inputs, program.examples.labels, cu.plan(lane.value, sampler.stats, 0, 1)
    program.take(knobs)
    numbers = torch.from_numpy(np.random.default_rng(0).normal(size=3 * 22))
    point = program._evaluate(numbers.float(), lambda: None)

    numbers.requires_grad_()
    weight, bias = numbers[:-3].view(3, -1), numbers[-3:]
    kept = torch.from_numpy(sampler.indices)
    cosine, x, labels = lane.value.head == "cosine", x[kept].double(), labels[kept]
    z = F.linear(F.normalize(x, dim=1), F.normalize(weight, dim=1)) if cosine else F.linear(x, weight, bias)
    alpha, factor, margin, divisor = map(torch.from_numpy, (knobs.alpha, knobs.weight, knobs.margin, knobs.divisor))
    beta, scale, gamma = (torch.tensor([float(value)]) for value in (knobs.beta, knobs.scale, knobs.gamma))
    z = losses.adjust_logits(z, labels, margin, divisor, beta, scale).double()
    each = losses.per_example(z, F.one_hot(labels, 3).double(), labels, gamma, torch.tensor([knobs.sigmoid]))
    loss = (each * (alpha * factor / torch.bincount(labels))[labels]).sum()
    value = loss + (0 if cosine else HEADS.weight_decay / 2 * weight.square().sum())
    (gradient,) = torch.autograd.grad(value, numbers, allow_unused=True)
    assert point.loss == pytest.approx(loss.item(), rel=1e-5)
    assert point.value == pytest.approx(value.item(), rel=1e-5)
    torch.testing.assert_close(point.gradient.double(), gradient, rtol=1e-4, atol=1e-5)


def test_the_first_step_of_a_new_plan_is_not_shortened(monkeypatch):
    """By trials that failed under the plan before; within a plan they do shorten it."""
    program, sampler = full_batch(cu.Lane())
    first, second = (cu.plan(cu.METHODS[name], sampler.stats, 0, 1) for name in ("naive", "cb-rs"))
    lengths, trial = list[float | None](), LBFGS.trial
    monkeypatch.setattr(LBFGS, "trial", lambda self, point: lengths.append(self.length) or trial(self, point))
    for plan in (first, first, second):
        program.epoch([plan], {}, torch.zeros(1), lambda: None)
        program.optimiser.length = 0.001
    assert lengths == [None, 0.001, None]


@pytest.mark.parametrize("method", FIT)
def test_every_method_trains_and_its_module_is_its_lane(method):
    fitted = fit([cu.Lane(method)], replace(HEADS, epochs=30), test=TRAIN)
    assert fitted.results[0].diverged is None
    assert fitted.results[0].error < 50
    with torch.no_grad():
        p = fitted.module(0)(torch.from_numpy(TRAIN.inputs)).softmax(dim=-1)
    np.testing.assert_allclose(p, fitted.probabilities(TRAIN)[0], atol=1e-5)


@pytest.mark.parametrize("method", UNFIT)
def test_what_has_no_place_in_full_batches_is_refused(method):
    with refused(repr(method), UNFIT[method]):
        fit([cu.Lane(method)])


@pytest.mark.parametrize(
    ("lane", "changes", "parts"),
    [
        (cu.Lane(lr=0.3), {}, ["learning rate 0.3", "'lbfgs' has none"]),
        (cu.Lane(gather="online"), {}, ["gathers online"]),
        (cu.Lane(cu.Method(margin=named("ldam").margin, level="features")), {}, ["loss of the features", "'logits'"]),
        (cu.Lane(cu.Method(level="features", learned=True)), {}, ["loss of the features", "heads alone"]),
        (cu.Lane(), {"network": "mlp"}, ["'mlp' has a body", "'linear'"]),
        (cu.Lane(), {"average": 0.5}, ["average must be 0"]),
    ],
)
def test_recipes_and_lanes_that_do_not_go_together(lane, changes, parts):
    with refused(*parts):
        fit([lane], replace(HEADS, **changes))


def test_an_unknown_optimizer_is_refused():
    with refused("unknown optimizer 'lbfg'", "'lbfgs'"):
        replace(HEADS, optimizer="lbfg")


def many_lanes() -> list[cu.Lane]:
    """Every method, some with folds, a resample of the examples, several seeds."""
    lanes = [cu.Lane(method, seed=i % 3, fold=(i % 5, 5) if i % 2 else None) for i, method in enumerate(FIT)]
    return [*lanes, cu.Lane("naive", 1, bootstrap=True), cu.Lane("naive", 2, bootstrap=True)]


@pytest.mark.parametrize(("classes", "width"), [((60, 25, 12), 21), ((40, 20, 10, 9, 8, 7, 6), 1), ((40, 37), 96)])
def test_a_lane_alone_is_the_lane_among_others(classes, width):
    """To the last bit, for any company in any order."""
    lanes, recipe, train = many_lanes()[::2], replace(HEADS, epochs=12), features(classes, width)
    together = fit(lanes, recipe, train).probabilities(train)
    order = np.random.default_rng(0).permutation(len(lanes))
    assert np.array_equal(fit([lanes[i] for i in order], recipe, train).probabilities(train), together[order])
    for i in range(0, len(lanes), 4):
        assert np.array_equal(fit([lanes[i]], recipe, train).probabilities(train)[0], together[i])


@pytest.mark.parametrize("method", ["naive", "ldam-rw", "pb-rs", "2s-cb-focal", "crt"])
def test_stop_and_resume_gives_the_same_bits(method, tmp_path):
    """After every epoch, by checkpoints that hold the pairs of L-BFGS."""
    lanes, recipe = [cu.Lane(method, fold=(0, 4)), cu.Lane(method, seed=1)], replace(HEADS, epochs=20)
    whole, parts = fit(lanes, recipe), 0
    while parts < 60:
        parts += 1
        try:
            resumed = fit(lanes, recipe, checkpoints=tmp_path, every=7, budget=1e-9)
            break
        except cu.Unfinished:
            continue
    assert parts > 10
    for ours, theirs in zip(whole.states, resumed.states, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert [r.loss for r in whole.results] == [r.loss for r in resumed.results]


@pytest.mark.parametrize(("method", "ends"), [("naive", True), ("focal", True), ("2s-cb-rs", False)])
def test_a_lane_that_has_converged_takes_no_more_steps(method, ends, monkeypatch):
    """More epochs change no bit, and only those of a plan that is still to change are gone through."""
    passes, evaluate = list[int](), FullBatch._evaluate
    monkeypatch.setattr(FullBatch, "_evaluate", lambda *given: passes.append(1) or evaluate(*given))
    told: list[Epoch] = []
    fitted = fit([cu.Lane(method)], progress=told.append)
    assert len(passes) < 100
    assert (told[-1].epoch, told[-1].epochs) == (199, 200)
    assert (len(told) < 100) is ends
    if ends:
        longer = fit([cu.Lane(method)], replace(HEADS, epochs=1000))
        assert torch.equal(longer.states[0]["head.weight"], fitted.states[0]["head.weight"])


def test_seeds_change_nothing_for_a_linear_head_and_train_once(monkeypatch):
    """Twins come out under their own seeds, and are told of in every epoch. Cosine heads start at random."""
    runs, run = list[list[int]](), StageRunner.run
    monkeypatch.setattr(
        StageRunner, "run", lambda self, places, states: runs.append(places) or run(self, places, states)
    )
    lanes = [cu.Lane(method, seed) for method in ("naive", "ldam") for seed in range(3)]
    told: list[Epoch] = []
    fitted = fit([*lanes, cu.Lane("naive", 4, bootstrap=True)], progress=told.append, test=TRAIN)
    assert sorted(runs) == [[0], [3], [4], [5], [6]]
    assert [(result.method, result.seed) for result in fitted.results[:6]] == [(lane.name, lane.seed) for lane in lanes]
    assert len(set(fitted.keys)) == 7
    p = fitted.probabilities(TRAIN)
    assert np.array_equal(p[0], p[1])
    assert np.array_equal(p[0], p[2])
    assert not np.array_equal(p[0], p[6])
    assert not np.array_equal(p[3], p[4])
    assert {lane for epoch in told for lane in epoch.lanes} == set(fitted.lanes)
    assert all(len(epoch.lanes) == len(epoch.loss) == len(epoch.error) == len(epoch.lr) for epoch in told)


def test_a_student_learns_what_its_teachers_say():
    """Without a penalty, at their own temperature and prior, it becomes the teacher."""
    teachers = fit([cu.Lane("naive")])
    lane = cu.Lane(teaching=cu.Teaching(tau=0.0, temperature=1.0))
    student = fit([lane], replace(HEADS, weight_decay=0.0, epochs=400), teachers=teachers)
    np.testing.assert_allclose(student.probabilities(TRAIN)[0], teachers.probabilities(TRAIN)[0], atol=0.01)
