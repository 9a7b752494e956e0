"""fix(): from data to one network, with what was wrong and what has changed."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

import class_uncertainty as cu
from class_uncertainty.estimation import Asked
from class_uncertainty.metrics import evaluate
from class_uncertainty.remedies.calibration import fit_adjustment, judge
from class_uncertainty.remedies.diagnosis import findings, suspects
from class_uncertainty.results import Store, fixing
from class_uncertainty.results.fixing import fix
from class_uncertainty.results.runs import measured, run
from class_uncertainty.results.ward import Ward
from class_uncertainty.training import default_recipe, saving
from class_uncertainty.training.folds import held_out


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture(scope="module")
def recipe(digits: cu.Dataset) -> cu.Recipe:
    return default_recipe(digits.train, epochs=4)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory, digits: cu.Dataset, recipe: cu.Recipe):
    with Store(tmp_path_factory.mktemp("fixed") / "runs.sqlite") as store:
        yield store, fix(digits, 3, recipe, seeds=2, store=store)


def test_before_and_after_are_the_networks_own(fixed, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    _, found = fixed
    naive = cu.fit(digits.train, [cu.Lane("naive", s, found.lr) for s in range(3)], recipe=recipe, test=digits.test)
    assert found.before.errors == tuple(result.class_mean_error for result in naive.results[:2])
    teaching = cu.Teaching(tau=found.tau, temperature=found.mended.temperature)
    students = [cu.Lane("naive", s, recipe.lr, teaching=teaching) for s in range(2)]
    taught = cu.fit(digits.train, students, recipe=recipe, test=digits.test, teachers=naive)
    assert found.after.errors == tuple(result.class_mean_error for result in taught.results)
    with torch.no_grad():
        p = found.module(torch.from_numpy(digits.test.inputs)).softmax(dim=-1).numpy()
    best = int(np.argmin([result.loss for result in taught.results]))
    assert evaluate(p, digits.test.labels, digits.train.counts).class_mean_error == pytest.approx(found.after.errors[best])
    assert f"student of seed {best}" in found.mended.note
    assert found.mended.cost == pytest.approx(2 * 3 + 2 * 3 * (1 + 1 / 3) + 3 + 1 + 3 / 3)


def test_rate_and_tau_are_chosen_on_unseen_examples(fixed, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    store, found = fixed
    asked = [Asked("out-of-fold", 3, lr=lr) for lr in (recipe.lr, 4 * recipe.lr)]
    errors, wards = {}, {}
    for each, estimate in zip(asked, measured(store, digits, recipe, asked), strict=True):
        wards[each.lr] = Ward(store, digits, recipe, 3, each.lr, estimate)
        adjustment = fit_adjustment(estimate.probabilities[0], estimate.labels, digits.train.counts)
        errors[each.lr] = judge(adjustment(estimate.probabilities[0]), estimate.labels).class_mean_error, adjustment
    assert found.lr == min(errors, key=lambda lr: errors[lr][0])
    assert found.tau == errors[found.lr][1].tau
    lesson = wards[found.lr].lesson()
    assert found.mended.temperature == lesson.teaching.temperature
    assert found.module.scale == pytest.approx(1 / lesson.cooling)


def test_the_rate_is_chosen_by_the_adjusted_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two rates the one whose members are worse as they are, and better for equally frequent classes: biased as the counts are."""
    labels, counts = np.repeat([0, 1], [40, 10]), np.array([40, 10])
    plain = {0.1: np.where(labels == 1, 0.6, 0.4), 0.4: np.where(labels == 1, 0.45, 0.1)}  # p of the rare class
    plain[0.1][:4], plain[0.1][-2:] = 0.7, 0.3
    data = cu.Dataset("two", cu.Data(np.arange(100.0).reshape(50, 2), labels))

    def known(store, dataset, recipe, asked, **_):
        return [cu.Estimate("out-of-fold", np.stack([1 - plain[each.lr], plain[each.lr]], axis=1)[None], labels, []) for each in asked]

    monkeypatch.setattr(fixing, "measured", known)
    monkeypatch.setattr(fixing, "unmeasured", lambda *_: 0)
    wards = fixing.choose(None, data, 2, default_recipe(data.train), [0.1, 0.4], dict)
    errors = {lr: judge(np.stack([1 - p, p], axis=1), labels).class_mean_error for lr, p in plain.items()}
    assert errors[0.1] < errors[0.4]
    assert [ward.lr for ward in wards] == [0.4, 0.1]
    assert wards[0].dataset.train.counts.tolist() == counts.tolist()


def test_a_class_that_networks_are_wrong_and_sure_of_is_said_to_be(fixed, monkeypatch: pytest.MonkeyPatch) -> None:
    """How sure they are is their predictive uncertainty, not what they give to the label: that is low where they are wrong."""
    store, found = fixed
    given = []
    monkeypatch.setattr(fixing, "findings", lambda *parts: given.append(parts) or findings(*parts))
    digits = cu.load("digits-lt:20")
    fix(digits, 3, default_recipe(digits.train, epochs=4), seeds=2, store=store)
    p, labels = found.estimate.probabilities[0].astype(float), digits.train.labels
    entropy = -(p * np.log(np.maximum(p, 1e-30))).sum(axis=1)
    np.testing.assert_allclose(given[0][4], [entropy[labels == c].mean() for c in range(10)], rtol=1e-5)


def test_it_goes_on_and_ends_the_same(tmp_path: Path, fixed, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Stopped after every epoch, it comes to the same end, and what it has is not trained again."""
    _, whole = fixed
    stops = 0
    while True:
        with Store(tmp_path / "runs.sqlite") as store:
            try:
                found = fix(digits, 3, recipe, seeds=2, store=store, budget=0.05, checkpoints=tmp_path / "running")
                break
            except cu.Unfinished:
                stops += 1
    assert stops > 3
    assert found.mended == whole.mended
    for name, value in found.module.state_dict().items():
        assert torch.equal(value, whole.module.state_dict()[name])


def test_findings_are_of_before_and_suspects_of_what_was_not_seen(fixed, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """By one network at each learning rate that left the example out."""
    store, found = fixed
    train, mended = digits.train, found.mended
    asked = [Asked("out-of-fold", 3, lr=lr) for lr in (recipe.lr, 4 * recipe.lr)]
    found_at = measured(store, digits, recipe, asked)
    errors = []
    for each in found_at:
        p = each.probabilities[0]
        errors.append(judge(fit_adjustment(p, each.labels, train.counts)(p), each.labels).class_mean_error)
    unseen = np.concatenate([each.probabilities for each, error in zip(found_at, errors, strict=True) if error <= 1.25 * min(errors)])
    assert mended.suspects == tuple(suspects(unseen, train.labels, train))
    assert mended.witnesses == len(unseen)
    unsure = found.estimate.using("predictive").raw
    told = {each: findings(digits.classes, train.counts, each.means, each.confusion, unsure) for each in (found.before, found.after)}
    assert mended.findings == tuple(told[found.before])
    assert told[found.before] != told[found.after]  # or this would not tell them apart


def test_a_learning_rate_that_learns_nothing_does_not_speak_of_labels(digits: cu.Dataset, recipe: cu.Recipe) -> None:
    labels = digits.train.labels.copy()
    flipped = np.flatnonzero(labels == 0)[:6]
    labels[flipped] = 1
    dataset = cu.Dataset("flipped", cu.Data(digits.train.inputs, labels, digits.classes), digits.test)
    found = {lrs: cu.fix(dataset, 2, recipe, lrs=lrs, seeds=1).mended.suspects for lrs in ((0.4,), (0.4, 1e-6))}
    assert found[0.4, 1e-6] == found[(0.4,)]
    assert {each.index for each in found[(0.4,)]} & set(flipped)


def test_a_learning_rate_that_diverged_is_not_trained_again(tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    trained = []

    def progress(epoch) -> None:
        trained.extend(epoch.lanes)

    with Store(tmp_path / "runs.sqlite") as store:

        def again(*lrs: float) -> cu.Fix:
            return fix(digits, 2, recipe, lrs=lrs, seeds=1, store=store, watch=lambda *_: nullcontext(progress))

        first = again(0.1, 1e30)
        assert {lane.lr for lane in trained} >= {0.1, 1e30}
        trained.clear()
        assert again(0.1, 1e30).mended == first.mended
        with pytest.raises(cu.InputError, match="diverged in epoch 0"):
            again(1e30)
        assert trained == []


def test_it_is_stored_for_the_report(fixed, digits: cu.Dataset) -> None:
    store, found = fixed
    assert store.mended(digits.fingerprint) == [found.mended]
    assert {result.method for result in store.results(digits.fingerprint) if result.fold is None} == {"naive", "distil"}


def test_the_saved_network_is_the_one(tmp_path: Path, fixed, digits: cu.Dataset) -> None:
    _, found = fixed
    saving.save(found.module, tmp_path / "model", {})
    x = torch.from_numpy(digits.test.inputs)
    with torch.no_grad():
        assert torch.equal(cu.restore(tmp_path / "model")(x), found.module(x))


def test_a_table_without_a_test_split() -> None:
    wine = load_wine()
    kept = np.concatenate([np.flatnonzero(wine.target == c)[:n] for c, n in enumerate((59, 20, 8))])
    labels = wine.target[kept].copy()
    labels[3] = 1  # wrongly
    dataset = cu.Dataset("wine", cu.Data(wine.data[kept].astype(np.float32), labels, tuple(wine.target_names)))
    found = cu.fix(dataset, 2, default_recipe(dataset.train, epochs=10), seeds=1, lrs=[0.1])
    assert found.lr == 0.1
    assert len(found.after.errors) == 1
    assert "judged by 5 folds" in found.mended.note
    train, recipe = dataset.train, default_recipe(dataset.train, epochs=10)
    unseen = np.empty((2, len(train), 3))
    for k in range(5):
        teachers = cu.fit(train, [cu.Lane("naive", seed, 0.1, fold=(k, 5)) for seed in range(2)], recipe=recipe)
        out = held_out(train, (k, 5))
        unseen[:, out] = teachers.probabilities(train.take(out))
    assert (found.mended.lr, "chosen by the adjusted error" in found.mended.note) == (0.1, False)
    assert [each.index for each in found.mended.suspects] == [each.index for each in suspects(unseen, labels, train)] == [3]
    assert found.mended.cost == pytest.approx(2 + 2 * 2 * (1 + 1 / 3) + 2 + 1 + 2 / 3)
    assert found.module(torch.from_numpy(dataset.train.inputs)).shape == (len(kept), 3)


def test_before_is_among_the_results_by_folds_too(tmp_path: Path) -> None:
    wine = load_wine()
    dataset = cu.Dataset("wine", cu.Data(wine.data.astype(np.float32), wine.target))
    recipe = default_recipe(dataset.train, epochs=3)
    with Store(tmp_path / "runs.sqlite") as store:
        found = fix(dataset, 2, recipe, seeds=2, lrs=[0.1, 0.2], store=store)
        naive = [each for each in store.results(dataset.fingerprint) if each.method == "naive" and each.lr == found.lr]
        assert {each.seed: each.class_mean_error for each in naive} == pytest.approx(dict(enumerate(found.before.errors)))
        assert {each.folds for each in naive} == {5}
        assert "counts 2 learning rates of 2 trainings each" in found.mended.note
    with Store(tmp_path / "other.sqlite") as store:
        for lane in (cu.Lane("naive", seed, found.lr) for seed in range(2)):
            (alone,) = run(store, dataset, [lane], recipe, None)
            kept = next(each for each in naive if each.seed == lane.seed)
            assert (kept.nll, kept.cost, kept.plan) == (pytest.approx(alone.nll, rel=1e-5), alone.cost, alone.plan)


def test_bad_input(digits: cu.Dataset, recipe: cu.Recipe) -> None:
    with pytest.raises(cu.InputError, match="a budget is given and no store"):
        cu.fix(digits, budget=5.0)
    with pytest.raises(cu.InputError, match="seeds is 0"):
        cu.fix(digits, seeds=0)
    with pytest.raises(cu.InputError, match="members is 1"):
        cu.fix(digits, members=1)
    with pytest.raises(cu.InputError, match=r"diverged in epoch 0.*lower the learning rate"):
        cu.fix(digits, 2, recipe, lrs=[1e30])
