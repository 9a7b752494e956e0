"""cu.fix(): from data to one network, with what was wrong and what has changed."""

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_wine
from watching import Watched

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc.diagnosis import findings
from class_uncertainty.posthoc.label_issues import label_issues
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate
from class_uncertainty.training import default_recipe
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.workflows import fix as workflow

Fixed = tuple[Store, cu.Fix]


@pytest.fixture(scope="module")
def recipe(digits: cu.Dataset) -> cu.Recipe:
    return default_recipe(digits.train, epochs=4)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory, digits: cu.Dataset, recipe: cu.Recipe) -> Iterator[Fixed]:
    with Store(tmp_path_factory.mktemp("fixed") / "runs.sqlite") as store:
        yield store, cu.fix(digits, 3, recipe, seeds=2, store=store)


def unseen_estimates(store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> dict[float, cu.Estimate]:
    """What out-of-fold networks at each learning rate say."""
    rates = (recipe.lr, 4 * recipe.lr)
    with open_context(digits, recipe, store) as context:
        estimates = load_or_estimate(context, [EstimateRequest("out-of-fold", 3, lr=lr) for lr in rates])
    return dict(zip(rates, estimates, strict=True))


def adjusted_error(estimate: cu.Estimate, counts: np.ndarray) -> float:
    """The class-mean error of an out-of-fold estimate that is adjusted for the counts."""
    p = estimate.probabilities[0]
    return evaluate(cu.fit_adjustment(p, estimate.labels, counts)(p), estimate.labels, counts).error


def test_before_and_after_are_the_errors_of_plain_networks(fixed: Fixed, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    _, fix = fixed
    choice = fix.choice
    naive = cu.fit(digits.train, [cu.Lane("naive", s, choice.lr) for s in range(3)], recipe=recipe, test=digits.test)
    assert fix.before.errors == tuple(result.error for result in naive.results[:2])
    teaching = cu.Teaching(tau=choice.tau, temperature=choice.temperature)
    students = [cu.Lane("naive", s, recipe.lr, teaching=teaching) for s in range(2)]
    taught = cu.fit(digits.train, students, recipe=recipe, test=digits.test, teachers=naive)
    assert fix.after.errors == tuple(result.error for result in taught.results)
    with torch.no_grad():
        p = fix.module(torch.from_numpy(digits.test.inputs)).softmax(dim=-1).numpy()
    best = int(np.argmin([result.loss for result in taught.results]))
    assert evaluate(p, digits.test.labels, digits.train.counts).error == pytest.approx(fix.after.errors[best])
    assert f"student of seed {best}" in fix.report.note
    assert fix.report.cost == pytest.approx(2 * 3 + 2 * 3 * (1 + 1 / 3) + 3 + 1 + 3 / 3)


def test_rate_and_tau_are_chosen_on_unseen_examples(fixed: Fixed, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    store, fix = fixed
    counts = digits.train.counts
    estimates = unseen_estimates(store, digits, recipe)
    assert fix.choice.lr == min(estimates, key=lambda lr: adjusted_error(estimates[lr], counts))
    estimate = estimates[fix.choice.lr]
    adjustment = cu.fit_adjustment(estimate.probabilities[0], estimate.labels, counts)
    assert (fix.choice.tau, fix.choice.adjustment.temperature) == (adjustment.tau, adjustment.temperature)
    assert np.array_equal(fix.estimate.probabilities, estimate.probabilities)
    report, choice = fix.report, fix.choice
    assert (report.lr, report.tau, report.temperature) == (choice.lr, choice.tau, choice.temperature)
    assert report.cooling == choice.cooling
    assert fix.module.scale == pytest.approx(1 / choice.cooling)


def test_the_rate_is_chosen_by_the_adjusted_error() -> None:
    """The members at the better rate are worse as they are, for they are biased as the counts are."""
    labels = np.repeat([0, 1], [40, 10])
    plain = {0.1: np.where(labels == 1, 0.6, 0.4), 0.4: np.where(labels == 1, 0.45, 0.1)}  # p of the rare class
    plain[0.1][:4], plain[0.1][-2:] = 0.7, 0.3
    p = {lr: np.stack([1 - rare, rare], axis=1) for lr, rare in plain.items()}
    data = cu.Data(np.arange(100.0).reshape(50, 2), labels)
    estimates = {lr: cu.Estimate("out-of-fold", p[lr][None], labels, []) for lr in plain}
    with open_context(data) as context:
        candidates = workflow.rank_rates(context, list(estimates), list(estimates.values()))
    errors = {lr: evaluate(p[lr], labels, data.counts).error for lr in plain}
    assert errors[0.1] < errors[0.4]
    assert [candidate.lr for candidate in candidates] == [0.4, 0.1]
    assert candidates[0].error < candidates[1].error
    assert candidates[0].choice.tau > 0


def test_it_goes_on_and_ends_the_same(tmp_path: Path, fixed: Fixed, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Stopped after every epoch, it comes to the same end, and leaves no checkpoints."""
    _, whole = fixed
    stops, again = 0, None
    while again is None:
        try:
            again = cu.fix(digits, 3, recipe, seeds=2, store=tmp_path / "runs.sqlite", budget=0.05)
        except cu.Unfinished:
            stops += 1
    assert stops > 3
    assert again.report == whole.report
    for name, value in again.module.state_dict().items():
        assert torch.equal(value, whole.module.state_dict()[name])
    assert not (tmp_path / "runs.sqlite.running").exists()


def test_findings_are_of_before_and_label_issues_of_unseen_examples(
    fixed: Fixed, digits: cu.Dataset, recipe: cu.Recipe
) -> None:
    """One network at each good learning rate has left an example out, and all of them must agree."""
    store, fix = fixed
    train, report = digits.train, fix.report
    estimates = unseen_estimates(store, digits, recipe)
    errors = {lr: adjusted_error(estimate, train.counts) for lr, estimate in estimates.items()}
    near = [lr for lr in errors if errors[lr] <= 1.25 * min(errors.values())]
    unseen = np.concatenate([estimates[lr].probabilities for lr in near])
    assert report.label_issues == tuple(label_issues(unseen, train.labels, train))
    assert report.witnesses == len(unseen)
    p = fix.estimate.probabilities[0].astype(float)
    entropy = -(p * np.log(np.maximum(p, 1e-30))).sum(axis=1)  # networks may be sure where they are wrong
    unsure = [entropy[train.labels == c].mean() for c in range(10)]
    sentences = [
        tuple(findings(digits.classes, train.counts, evaluation.means, evaluation.confusion, unsure))
        for evaluation in (fix.before, fix.after)
    ]
    assert report.findings == sentences[0]
    assert sentences[0] != sentences[1]  # or this would not tell them apart


def test_a_learning_rate_that_learns_nothing_does_not_speak_of_labels(digits: cu.Dataset, recipe: cu.Recipe) -> None:
    labels = digits.train.labels.copy()
    flipped = np.flatnonzero(labels == 0)[:6]
    labels[flipped] = 1
    dataset = cu.Dataset("flipped", cu.Data(digits.train.inputs, labels, digits.classes), digits.test)
    alone, beside = (cu.fix(dataset, 2, recipe, lrs=lrs, seeds=1).report.label_issues for lrs in ((0.4,), (0.4, 1e-6)))
    assert alone == beside
    assert {issue.index for issue in alone} & set(flipped)


def test_a_learning_rate_that_diverged_is_not_trained_again(
    tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe
) -> None:
    watched = Watched()

    def fix(*lrs: float) -> cu.Fix:
        return cu.fix(digits, 2, recipe, lrs=lrs, seeds=1, store=tmp_path / "runs.sqlite", progress=watched)

    first = fix(0.1, 1e30)
    assert {lane.lr for news in watched.news for lane in news.lanes} >= {0.1, 1e30}
    watched.news.clear()
    assert fix(0.1, 1e30).report == first.report
    with refused("diverged in epoch 0", "learning rate"):
        fix(1e30)
    assert watched.news == []


def test_it_is_stored_for_the_report(fixed: Fixed, digits: cu.Dataset) -> None:
    store, fix = fixed
    assert store.fix_reports(digits.fingerprint) == [fix.report]
    assert {result.method for result in store.results(digits.fingerprint)} == {"naive", "distil"}


def test_the_document_has_no_pictures(fixed: Fixed, digits: cu.Dataset) -> None:
    _, fix = fixed
    document = fix.document()
    assert len(document["label_issues"]) == len(fix.report.label_issues)
    assert all("picture" not in issue and "name" in issue for issue in document["label_issues"])


def test_the_saved_network_is_the_module(tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe, fixed: Fixed) -> None:
    store, _ = fixed
    again = cu.fix(digits, 3, recipe, seeds=2, store=store, save=tmp_path / "model")
    assert [file.name for file in again.files] == ["model.safetensors", "model.json"]
    x = torch.from_numpy(digits.test.inputs)
    with torch.no_grad():
        assert torch.equal(cu.restore(tmp_path / "model")(x), again.module(x))


def test_a_table_without_a_test_split() -> None:
    wine = load_wine()
    kept = np.concatenate([np.flatnonzero(wine.target == c)[:n] for c, n in enumerate((59, 20, 8))])
    labels = wine.target[kept].copy()
    labels[3] = 1  # wrongly
    train = cu.Data(wine.data[kept].astype(np.float32), labels, tuple(wine.target_names))
    recipe = default_recipe(train, epochs=10)
    fix = cu.fix(train, 2, recipe, seeds=1, lrs=[0.1])
    assert (fix.choice.lr, fix.report.lr, len(fix.after.errors)) == (0.1, 0.1, 1)
    assert "5 folds" in fix.report.note
    assert "chosen by" not in fix.report.note  # there was one learning rate
    unseen = np.empty((2, len(train), 3))
    for k in range(5):
        teachers = cu.fit(train, [cu.Lane("naive", seed, 0.1, fold=(k, 5)) for seed in range(2)], recipe=recipe)
        places = fold_indices(train, (k, 5))
        unseen[:, places] = teachers.probabilities(train.take(places))
    issues = label_issues(unseen, labels, train)
    assert [issue.index for issue in fix.report.label_issues] == [issue.index for issue in issues] == [3]
    assert fix.report.cost == pytest.approx(2 + 2 * 2 * (1 + 1 / 3) + 2 + 1 + 2 / 3)
    assert fix.module(torch.from_numpy(train.inputs)).shape == (len(kept), 3)


def test_before_is_among_the_results_by_folds_too(tmp_path: Path) -> None:
    wine = load_wine()
    dataset = cu.Dataset("wine", cu.Data(wine.data.astype(np.float32), wine.target))
    recipe = default_recipe(dataset.train, epochs=3)
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(dataset, 2, recipe, seeds=2, lrs=[0.1, 0.2], store=store)
        results = store.results(dataset.fingerprint)
    naive = {result.seed: result for result in results if (result.method, result.lr) == ("naive", fix.choice.lr)}
    assert {seed: result.error for seed, result in naive.items()} == pytest.approx(dict(enumerate(fix.before.errors)))
    assert {result.folds for result in naive.values()} == {5}
    assert "2 learning rates of 2 trainings" in fix.report.note
    lanes = [cu.Lane("naive", seed, fix.choice.lr) for seed in range(2)]
    with open_context(dataset, recipe) as context:
        for alone in load_or_evaluate(context, lanes):
            stored = naive[alone.seed]
            assert (stored.scores.nll, stored.cost, stored.plan) == (
                pytest.approx(alone.scores.nll, rel=1e-5),
                alone.cost,
                alone.plan,
            )


def test_no_network_is_trained_twice_or_read_twice(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 rows of a CSV table without a test split: folds judge, and the same networks measure, teach and are judged."""
    with open(tmp_path / "t.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("length", "width", "label"))
        for label, number in (("a", 45), ("b", 25), ("c", 10)):
            rows.writerows((*rng.normal(ord(label), 1, 2).round(3), label) for _ in range(number))
    dataset = cu.load(f"csv:{tmp_path / 't.csv'}")
    read, written = Counter[str](), Counter[str]()
    get_network, add_network = Store.get_network, Store.add_network

    def get(store: Store, key: str):
        network = get_network(store, key)
        read[key] += network is not None
        return network

    def add(store: Store, key: str, *network: object) -> None:
        written[key] += 1
        add_network(store, key, *network)

    monkeypatch.setattr(Store, "get_network", get)
    monkeypatch.setattr(Store, "add_network", add)
    watched = Watched()
    recipe = default_recipe(dataset.train, epochs=2)
    cu.fix(dataset, 2, recipe, seeds=2, lrs=[0.1, 0.2], store=tmp_path / "runs.sqlite", progress=watched)
    lanes = Counter(repr(lane) for lane in watched.lanes)
    assert len(dataset.train) == 80
    assert {lane for lane, times in lanes.items() if times > 1} == set()
    assert {key for key, times in written.items() if times > 1} == set()
    assert {key for key, times in read.items() if times > 1} == set()
    assert sum(watched.announced) == len(lanes) == len(written)


def test_bad_input(digits: cu.Dataset, recipe: cu.Recipe) -> None:
    with refused("budget", "store"):
        cu.fix(digits, budget=5.0)
    with refused("seeds is 0"):
        cu.fix(digits, seeds=0)
    with refused("members is 1"):
        cu.fix(digits, members=1)
    with refused("diverged in epoch 0", "lower the learning rate"):
        cu.fix(digits, 2, recipe, lrs=[1e30])
