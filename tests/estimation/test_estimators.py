"""Each estimator against lanes that are trained apart, against plain networks, or by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.stats import entropy

import class_uncertainty as cu
from class_uncertainty.data import stratified
from class_uncertainty.estimation.estimators import EstimateRequest, compared_estimators
from class_uncertainty.estimation.members import PASSES, means_of
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.networks.stack import initial
from class_uncertainty.training.stages import lane_cost

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)
SEED = 4


@pytest.fixture(scope="module")
def train():
    return cu.load("digits-lt:20").train


def estimated(train: cu.Data, name: str, members: int = 2, recipe: cu.Recipe = RECIPE, **options) -> cu.Estimate:
    return cu.estimate(train, name, members, recipe, SEED, device="cpu", **options)


def fitted(train: cu.Data, *lanes: cu.Lane, recipe: cu.Recipe = RECIPE) -> cu.Fit:
    return cu.fit(train, list(lanes), recipe=recipe, device="cpu")


@pytest.mark.parametrize("name", ["ensemble", "bootstrap"])
def test_members_are_lanes_of_consecutive_seeds(name, train):
    found = estimated(train, name)
    lanes = [cu.Lane("naive", seed, bootstrap=name == "bootstrap") for seed in (SEED, SEED + 1)]
    assert np.array_equal(found.probabilities, fitted(train, *lanes).probabilities(train))


def test_members_may_be_trained_by_another_method(train):
    found = estimated(train, "ensemble:power-rs:q=0.3")
    lanes = [cu.Lane("power-rs:q=0.3", seed) for seed in (SEED, SEED + 1)]
    assert np.array_equal(found.probabilities, fitted(train, *lanes).probabilities(train))


def test_single_is_the_ensembles_first_and_bootstraps_are_not(train):
    ensemble, bootstrap, single = (estimated(train, name).probabilities for name in ("ensemble", "bootstrap", "single"))
    assert np.array_equal(single, ensemble[:1])
    assert np.abs(bootstrap - ensemble).max() > 0.01


@pytest.mark.parametrize("folds", [2, 3])
def test_out_of_fold_is_by_the_lane_that_left_the_example_out(folds, train):
    found = estimated(train, "out-of-fold", folds)
    of = stratified(train.labels, folds)
    for k in range(folds):
        apart = fitted(train, cu.Lane("naive", SEED, fold=(k, folds))).probabilities(train)
        assert np.array_equal(found.probabilities[0, of == k], apart[0, of == k])
        assert np.abs(found.probabilities[0, of != k] - apart[0, of != k]).max() > 0.01


def test_out_of_fold_never_sees_what_it_judges(train):
    """An example turned black changes its own row, and those of the other folds, which train on it; not those of its
    own fold."""
    fixed = cu.Data(train.inputs, train.labels, train.classes, statistics=([100.0], [90.0]))
    inputs = train.inputs.copy()
    inputs[7] = 0
    before, after = (
        estimated(data, "out-of-fold", 3).probabilities[0]
        for data in (fixed, replace(fixed, inputs=inputs, labels=train.labels))
    )
    of = stratified(train.labels, 3)
    same, others = (of == of[7]) & (np.arange(len(train)) != 7), of != of[7]
    assert np.array_equal(before[same], after[same])
    assert (np.abs(before - after)[others].max(axis=1) > 0).all()
    assert not np.array_equal(before[7], after[7])


def test_out_of_fold_with_more_folds_than_a_class_has_examples(train):
    """Each of the 405 is judged once; some folds hold none of the last class."""
    p = estimated(train, "out-of-fold", 12, replace(RECIPE, epochs=1)).probabilities
    assert p.shape == (1, 405, 10)
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-5)


def by_hand(module: torch.nn.Module, train: cu.Data) -> np.ndarray:
    """(N, C) of a plain network as it trains: by the statistics of a batch that holds all examples."""
    with torch.no_grad():
        return module.train()(torch.from_numpy(train.inputs)).softmax(dim=1).numpy()


def test_online_is_what_the_network_said_before_each_step(train):
    """All examples in one batch: the first epoch's are of the network as it begins, the second's of that after one
    step."""
    recipe = replace(RECIPE, batch=len(train), drops=())
    found = estimated(train, "online", recipe=recipe)
    lane, once = cu.Lane("naive", SEED), replace(recipe, epochs=1)
    after = fitted(train, lane, recipe=once)
    first = after.module(0)
    first.load_state_dict(initial(recipe, train.shape, train.classes, lane), strict=False)
    said = [by_hand(module, train) for module in (first, after.module(0))]
    np.testing.assert_allclose(found.probabilities[0], np.mean(said, axis=0), atol=1e-5)
    np.testing.assert_allclose(
        found.using("aleatoric").uncertainty, np.mean([entropy(p, axis=1) for p in said], axis=0), atol=1e-5
    )


def test_online_is_the_sums_over_how_often_an_example_was_seen(train):
    found = estimated(train, "online", recipe=replace(RECIPE, epochs=3))
    (sums,) = fitted(train, cu.Lane("naive", SEED, gather="online"), recipe=replace(RECIPE, epochs=3)).gathered
    seen = sums["seen"].numpy()
    assert seen.sum() == 3 * 384  # 405 in batches of 32, the last left out
    assert {1, 2, 3} >= set(seen[seen > 0].tolist()) >= {2, 3}
    for i in range(len(train)):
        if seen[i]:
            assert found.probabilities[0, i] == pytest.approx(sums["p"][i].numpy() / seen[i], rel=1e-6)
            assert found.extra_scores["aleatoric"][i] == pytest.approx(float(sums["entropy"][i]) / seen[i], abs=1e-6)


def test_online_knows_nothing_of_what_was_never_drawn(train):
    """One epoch leaves out an incomplete batch of 21: the same for every class, and the most that entropy can be."""
    found = estimated(train, "online", recipe=replace(RECIPE, epochs=1))
    unseen = found.extra_scores["aleatoric"] > np.log(10) - 1e-6
    assert unseen.sum() == 21
    assert (found.probabilities[0, unseen] == np.float32(0.1)).all()
    assert (found.probabilities[0, ~unseen].max(axis=1) > 0.11).all()


def test_epochs_that_agree_have_no_epistemic_part(rng):
    """Sums in float32 round the mean entropy above that of the mean."""
    p = rng.dirichlet(np.ones(5), 200).astype(np.float32)
    entropies = entropy(p.astype(np.float64), axis=1) * (1 + np.where(np.arange(200) % 2, 1e-6, -1e-6))
    sums = {"p": 3 * p, "entropy": 3 * entropies, "seen": np.full(200, 3)}
    scores = means_of({name: torch.from_numpy(values) for name, values in sums.items()}).extra_scores
    assert scores["epistemic"].min() == 0
    assert scores["epistemic"].max() < 1e-5
    np.testing.assert_allclose(scores["aleatoric"] + scores["epistemic"], entropy(p, axis=1), rtol=1e-5)


def test_gathering_changes_nothing(train):
    """The lane of online is the lane of single, and so are its result and its network."""
    online, single = (fitted(train, cu.Lane("naive", SEED, gather=gather)) for gather in ("online", ""))
    assert np.array_equal(online.probabilities(train), single.probabilities(train))


def test_snapshots_are_the_network_at_each_cycles_end(train, tmp_path):
    """Two cycles of two epochs: the first as a checkpoint kept it, the second as it ended; the rate falls twice."""
    recipe, lane = replace(RECIPE, epochs=4), cu.Lane(replace(cu.METHODS["cyclic"], cycles=2), SEED)
    rates = []

    def stop(news) -> None:
        rates.append(news.lr[0])
        if news.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cu.fit(train, [lane], recipe=recipe, device="cpu", progress=stop, checkpoints=tmp_path, every=1)
    (file,) = tmp_path.iterdir()
    stopped = Checkpoints(tmp_path).load(file.stem)
    whole = fitted(train, lane, recipe=recipe)
    with torch.no_grad():
        first = whole.plain(lane, stopped.state)(torch.from_numpy(train.inputs)).softmax(dim=1).numpy()
    found = estimated(train, "snapshot", 2, recipe)
    assert (stopped.epoch, rates) == (2, pytest.approx([0.1, 0.05, 0.1]))
    np.testing.assert_allclose(found.probabilities[0], first, atol=1e-5)
    assert np.array_equal(found.probabilities[1:], whole.probabilities(train))


@pytest.mark.parametrize(("members", "epochs", "taken"), [(3, 4, 3), (4, 4, 4), (5, 4, 4), (1, 3, 1)])
def test_as_many_snapshots_as_there_is_room_for(members, epochs, taken, train):
    assert len(estimated(train, "snapshot", members, replace(RECIPE, epochs=epochs)).probabilities) == taken


@pytest.mark.parametrize("name", ["online", "snapshot"])
def test_what_is_gathered_outlives_a_stop(name, train, tmp_path):
    """Stopped in the third of four epochs and taken up again, it is the same bits."""
    recipe = replace(RECIPE, epochs=4)

    def stop(news) -> None:
        if news.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimated(train, name, recipe=recipe, progress=stop, checkpoints=tmp_path, every=1)
    told = []
    resumed = estimated(
        train, name, recipe=recipe, progress=lambda news: told.append(news.epoch), checkpoints=tmp_path, every=1
    )
    whole = estimated(train, name, recipe=recipe)
    assert told == [2, 3]
    assert np.array_equal(resumed.probabilities, whole.probabilities)
    assert np.array_equal(resumed.uncertainty, whole.uncertainty)


def test_passes_leave_out_half_of_the_features(train):
    """Differences of log p are linear in the features: their mean over passes is the plain network's, and their
    variance is known too.

    Over 100 passes a mean is off by a tenth of its deviation, and the deviations of 50 x 9 gaps are right on average
    within 0.02.
    """
    lane = cu.Lane("dropout", SEED)
    trained = fitted(train, lane)
    assert np.array_equal(estimated(train, "mc-dropout").probabilities, trained.dropped_out(train, PASSES))
    some, module = train.take(np.arange(0, 400, 8)), trained.module(0)
    p = trained.dropped_out(some, 100).astype(np.float64)
    gaps = np.log(p[..., 1:]) - np.log(p[..., :1])  # (passes, N, C - 1)
    with torch.no_grad():
        features = module.body(module.preprocess(torch.from_numpy(some.inputs))).double().numpy()
        weight, bias = (part.double().numpy() for part in (module.head.weight, module.head.bias))
    weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
    spread = np.sqrt(features**2 @ (weight**2).T)  # share / (1 - share) is 1
    assert (np.abs(gaps.mean(axis=0) - (features @ weight.T + bias)) < 6 * spread / 10 + 1e-4).all()
    assert np.mean(gaps.std(axis=0) / spread) == pytest.approx(1, abs=0.05)


def test_passes_differ_unless_nothing_is_left_out(train):
    halved, whole = (fitted(train, cu.Lane(cu.Method(dropout=share), SEED)) for share in (0.5, 0.0))
    p = halved.dropped_out(train, 3)
    assert all(np.abs(p[i] - p[i - 1]).max() > 0.01 for i in range(3))
    assert (
        np.abs(replace(halved, lanes=[replace(halved.lanes[0], seed=SEED + 1)]).dropped_out(train, 3) - p).max() > 0.01
    )  # by the seed
    same = whole.dropped_out(train, 3)
    assert np.array_equal(same[0], same[1])
    assert np.array_equal(same[0], same[2])
    np.testing.assert_allclose(same[:1], whole.probabilities(train), atol=1e-6)


def test_duq_is_its_kernels(train):
    """1 - max K, and the entropy of K / sum K, of the lane's logits, which are log K."""
    found = estimated(train, "duq")
    kernels = np.exp(fitted(train, cu.Lane("duq", SEED)).logits(train)[0].astype(np.float64))
    assert found.score == "kernel"
    np.testing.assert_allclose(found.uncertainty, 1 - kernels.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(found.using("predictive").uncertainty, entropy(kernels, axis=1), atol=1e-5)
    assert np.array_equal(found.probabilities[0].argmax(axis=1), kernels.argmax(axis=1))


@pytest.mark.parametrize(("votes", "members"), [(None, 3), (1, 1), (4, 4)])
def test_the_votes_of_a_row_say_how_many_members_it_has(votes, members, monkeypatch):
    """Those of the package that say more are in the contract."""
    monkeypatch.setitem(cu.ESTIMATORS, "mine", replace(cu.ESTIMATORS["ensemble"], votes=votes))
    assert EstimateRequest("mine", 3).counted(RECIPE) == members


def test_members_cost_what_their_method_costs(train):
    lane, members = cu.Lane("crt"), 2
    assert estimated(train, "ensemble:crt").cost == pytest.approx(members * lane_cost(lane, RECIPE, train))
    assert lane_cost(lane, RECIPE, train) > 1


def test_an_ensemble_by_its_own_score_is_the_reference():
    requests, scored = compared_estimators(["online", "ensemble=predictive"], 2, [None])
    assert scored == [("online", "true-class"), ("ensemble", "predictive")]
    assert set(requests) == {("online", None), ("ensemble", None)}
    _, scored = compared_estimators(["ensemble=aleatoric"], 2, [None])
    assert scored == [("ensemble", "predictive"), ("ensemble", "aleatoric")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ensemble:cb-rs=predictiv", "unknown score 'predictiv': did you mean 'predictive'?"),
        ("ensemble:power-rs:q=0.5=predictiv", "unknown score 'predictiv': did you mean 'predictive'?"),
        ("ensemble:power-rs:q=half", "q is 'half'"),
    ],
)
def test_a_mistyped_score_is_told_from_a_constant_of_a_method(name, words):
    with refused(words):
        compared_estimators([name], 2, [None])
