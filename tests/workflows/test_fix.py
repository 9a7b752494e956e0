"""cu.fix(): from data to the best network that a number of trainings buys, with what was wrong and what has changed."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_wine
from watching import Watched, no_training

import class_uncertainty as cu
from class_uncertainty.posthoc.calibration import cross_adjusted
from class_uncertainty.posthoc.diagnosis import BY_COST, diagnose
from class_uncertainty.posthoc.goal import parse_goal
from class_uncertainty.posthoc.label_issues import label_issues
from class_uncertainty.posthoc.priors import measured_prior
from class_uncertainty.reporting.report_data import sections
from class_uncertainty.runs import Store
from class_uncertainty.training import default_recipe
from class_uncertainty.training.candidate import default_candidates
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows import fix as workflow
from class_uncertainty.workflows import ladder_networks, search, trial
from class_uncertainty.workflows.trial import Gain, Trial

ROWS = ["naive", "cb-rs?rate=2", "balanced-softmax?rate=4"]  # the second is the best by far
FOLDS = [(k, 5) for k in range(5)]


@pytest.fixture(scope="module")
def recipe(digits: cu.Dataset) -> cu.Recipe:
    return default_recipe(digits.train, epochs=4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Shared, so that each network trains once."""
    with Store(tmp_path_factory.mktemp("fixed") / "runs.sqlite") as store:
        yield store


@pytest.fixture(scope="module")
def fixed(store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> cu.Fix:
    return cu.fix(digits, recipe, candidates=ROWS, seeds=2, store=store)


@pytest.fixture
def every_gain_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a student is kept, though its fold is small."""
    monkeypatch.setattr(workflow, "TELLING", 1)
    monkeypatch.setattr(Gain, "clear", property(lambda gain: True))


@pytest.fixture
def no_student(monkeypatch: pytest.MonkeyPatch, every_gain_is_clear: None) -> None:
    """So that an ensemble is kept."""
    monkeypatch.setattr(Trial, "student", None)


def fit_fold_networks(train: cu.Data, recipe: cu.Recipe, row: str) -> cu.Fit:
    candidate = cu.Candidate(row)
    return cu.fit(train, [cu.Lane(candidate.method, 0, candidate.lr(recipe), fold) for fold in FOLDS], recipe=recipe)


def fold_order(train: cu.Data) -> np.ndarray:
    return np.concatenate([fold_indices(train, fold) for fold in FOLDS])


def unseen_of(train: cu.Data, recipe: cu.Recipe, row: str) -> tuple[np.ndarray, np.ndarray]:
    """(p, labels) of every training example by the network that left it out, fold after fold."""
    order = fold_order(train)
    return fit_fold_networks(train, recipe, row).out_of_fold(train)[order].astype(float), train.labels[order]


def class_mean_error(p: np.ndarray, labels: np.ndarray) -> float:
    wrong = p.argmax(axis=-1) != labels
    return float(np.mean([100 * wrong[labels == c].mean() for c in np.unique(labels)]))


def errors_of(p: np.ndarray, labels: np.ndarray) -> Any:
    return pytest.approx([class_mean_error(p_seed, labels) for p_seed in p])


def softmax_of(fix: cu.Fix, inputs: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return fix.module(torch.from_numpy(inputs)).double().softmax(dim=-1).numpy()


def geometric_mean(p: np.ndarray) -> np.ndarray:
    mean = np.exp(np.log(np.maximum(p, 1e-300)).mean(axis=0))
    return mean / mean.sum(axis=-1, keepdims=True)


def untimed(value: Any) -> Any:
    """A report without its seconds."""
    if isinstance(value, dict):
        return {name: untimed(item) for name, item in value.items() if name != "seconds"}
    return [untimed(item) for item in value] if isinstance(value, list | tuple) else value


def choice_of(fix: cu.Fix) -> tuple:
    choice, adjustment = fix.choice, fix.choice.adjustment
    numbers = (choice.tau, adjustment.temperature, choice.cooling, tuple(adjustment.bias))
    rungs = [untimed(asdict(rung)) for rung in fix.report.rungs]
    return choice.candidate.name, choice.step, choice.why, choice.teaching, *numbers, rungs


def test_steps_are_judged_by_plain_networks(fixed: cu.Fix, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Before, after and the ladder between them."""
    assert (fixed.choice.candidate.name, fixed.choice.step) == ("cb-rs?rate=2", "best single")
    steps = {step.name: step for step in fixed.report.ladder}
    assert list(steps) == ["naive", "adjusted", "best single", "ensemble"]
    test, p = digits.test, {}
    for row, lr in (("naive", recipe.lr), ("cb-rs", 2 * recipe.lr)):
        p[row] = cu.fit(digits.train, [cu.Lane(row, seed, lr) for seed in range(2)], recipe=recipe).probabilities(test)
    assert fixed.before.errors == errors_of(p["naive"], test.labels)
    unseen = unseen_of(digits.train, recipe, "cb-rs?rate=2")
    adjustment = cu.fit_adjustment(*unseen, digits.train.counts, usual_tau=0.0)  # resampling acts on the counts
    adjustment = replace(adjustment, temperature=max(1, adjustment.temperature))  # a network is never sharpened
    assert (fixed.choice.tau, fixed.choice.adjustment.temperature) == (adjustment.tau, adjustment.temperature)
    adjusted = adjustment(p["cb-rs"].astype(float))
    assert fixed.after.errors == steps["best single"].judged.errors == errors_of(adjusted, test.labels)
    assert steps["best single"].values == pytest.approx(fixed.after.errors)
    together = adjustment(geometric_mean(p["cb-rs"].astype(float)))
    assert steps["ensemble"].values == errors_of(together[None], test.labels)
    of_naive = cu.fit_adjustment(*unseen_of(digits.train, recipe, "naive"), digits.train.counts, usual_tau=1.0)
    assert steps["adjusted"].values == errors_of(of_naive(p["naive"].astype(float)), test.labels)
    assert [step.kept for step in fixed.report.ladder] == [False, False, True, False]


def test_rungs_are_of_unseen_examples(fixed: cu.Fix, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Values, standard errors and differences by hand, of a tau that was fitted to other examples."""
    train, goal = digits.train, parse_goal("mean", digits.classes, digits.train.counts)
    (last,) = fixed.report.rungs  # all are finalists, so that no fold is judged alone
    assert (last.folds, last.examples, len(last.rows)) == (5, 405, 3)
    wrong, value = {}, {}
    p, labels = zip(*(unseen_of(train, recipe, row) for row in ROWS), strict=True)
    weights = 100 / (10 * np.bincount(labels[0])[labels[0]])
    for row, p_row in zip(ROWS, p, strict=True):
        usual = 1.0 if row.startswith("naive") else 0.0
        wrong[row] = cross_adjusted(p_row, labels[0], train.counts, goal, usual_tau=usual).argmax(axis=1) != labels[0]
        value[row] = weights @ wrong[row]
    best = fixed.choice.candidate.name
    for row in last.rows:
        differences = weights * (wrong[row.candidate] * 1.0 - wrong[best])
        assert row.value == pytest.approx(value[row.candidate])
        assert row.behind == pytest.approx(differences.sum())
        assert row.behind_error == pytest.approx(np.sqrt((differences**2).sum()))
    assert value[best] == min(value.values())
    assert [row.kept for row in last.rows] == [row == best for row in ROWS]
    single = next(step for step in fixed.report.ladder if step.kept)
    assert single.unseen == pytest.approx(value[best])


def test_nothing_is_chosen_on_test_data(fixed: cu.Fix, store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    test = digits.test
    assert test is not None
    wrong = cu.Data(test.inputs, (test.labels + 1) % 10, test.classes)
    other = cu.fix(cu.Dataset("wrong", digits.train, wrong), recipe, candidates=ROWS, seeds=2, store=store)
    assert choice_of(other) == choice_of(fixed)
    assert other.before.errors != fixed.before.errors
    for name, value in other.module.state_dict().items():
        assert torch.equal(value, fixed.module.state_dict()[name])


@pytest.mark.usefixtures("every_gain_is_clear")
def test_it_goes_on_and_ends_the_same(store: Store, tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Stopped after every epoch, it comes to the same end by all steps, and leaves no checkpoints."""
    how = {"recipe": recipe, "candidates": ["cb-rs?rate=2"], "seeds": 1}
    whole, stops, again = cu.fix(digits, store=store, **how), 0, None
    while again is None:
        try:
            again = cu.fix(digits, store=tmp_path / "runs.sqlite", budget=0.05, **how)
        except cu.Unfinished:
            stops += 1
    assert stops > 5
    assert whole.choice.step == "student"
    assert untimed(asdict(again.report)) == untimed(asdict(whole.report))
    for name, value in again.module.state_dict().items():
        assert torch.equal(value, whole.module.state_dict()[name])
    assert not (tmp_path / "runs.sqlite.running").exists()


def test_a_second_fix_is_the_same_and_trains_nothing(
    fixed: cu.Fix, store: Store, tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe
) -> None:
    """And what is saved is the module, whose softmax is what was judged."""
    again = cu.fix(digits, recipe, candidates=ROWS, seeds=2, store=store, save=tmp_path / "model", progress=no_training)
    assert again.report == fixed.report
    assert [file.name for file in again.files] == ["model.safetensors", "model.json"]
    x = torch.from_numpy(digits.test.inputs)
    with torch.no_grad():
        assert torch.equal(cu.restore(tmp_path / "model")(x), again.module(x))
    p = softmax_of(fixed, digits.test.inputs)
    assert class_mean_error(p, digits.test.labels) == pytest.approx(fixed.after.errors[0])
    assert "The network of seed 0 is kept" in fixed.report.note
    networks = cu.fit(digits.train, [cu.Lane("cb-rs", 0, 2 * recipe.lr)], recipe=recipe)
    assert p == pytest.approx(fixed.choice.adjustment(networks.probabilities(digits.test)[0].astype(float)), abs=1e-5)


@pytest.mark.usefixtures("no_student")
@pytest.mark.parametrize("seeds", [2, 6])
def test_an_ensemble_of_five_is_deployed(store: Store, digits: cu.Dataset, recipe: cu.Recipe, seeds: int) -> None:
    """However many seeds are judged."""
    fix = cu.fix(digits, recipe, candidates=ROWS[1:2], seeds=seeds, deploy="ensemble", store=store)
    assert fix.choice.step == "ensemble"
    assert len(fix.module.networks) == 5
    networks = cu.fit(digits.train, [cu.Lane("cb-rs", s, 2 * recipe.lr) for s in range(5)], recipe=recipe)
    adjustment = cu.fit_adjustment(*unseen_of(digits.train, recipe, ROWS[1]), digits.train.counts, usual_tau=0.0)
    adjustment = replace(adjustment, temperature=max(1, adjustment.temperature))
    p = adjustment(geometric_mean(networks.probabilities(digits.test).astype(float)))
    assert fix.after.errors == errors_of(p[None], digits.test.labels)
    assert softmax_of(fix, digits.test.inputs) == pytest.approx(p, abs=1e-4)
    kept = next(step for step in fix.report.ladder if step.kept)
    assert (kept.name, kept.networks, kept.parameters) == ("ensemble", 5, 5 * fix.report.ladder[0].parameters)
    assert fix.report.cost == 5 + 4 + 5  # five folds, four more networks on the first, and five on all examples
    judged = {step.name: len(step.values) for step in fix.report.ladder}
    assert judged == {"naive": seeds, "best single": seeds, "ensemble": 1}


@pytest.mark.usefixtures("every_gain_is_clear")
def test_a_student_of_the_networks_that_measured_is_kept(store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Five networks teach it, each of which has left a fold out."""
    fix = cu.fix(digits, recipe, candidates=ROWS[1:2], seeds=2, store=store)
    assert fix.choice.step == "student"
    assert fix.choice.student in (cu.Candidate("naive?rate=2"), cu.Candidate("naive?rate=1"))
    teachers = fit_fold_networks(digits.train, recipe, ROWS[1])
    teaching, lr = cu.Teaching(tau=fix.choice.tau), fix.choice.student.rate * recipe.lr
    lanes = [cu.Lane("naive", seed, lr, teaching=teaching) for seed in range(2)]
    students = cu.fit(digits.train, lanes, recipe=recipe, teachers=teachers)
    p = students.probabilities(digits.test).astype(float)
    assert fix.after.errors == errors_of(p, digits.test.labels)
    cooled = p[0] ** (1 / fix.choice.cooling)  # what it has learnt is adjusted: only its temperature is left
    cooled /= cooled.sum(axis=1, keepdims=True)
    assert softmax_of(fix, digits.test.inputs) == pytest.approx(cooled, abs=1e-4)
    assert fix.report.temperature == fix.choice.cooling
    assert fix.report.cost == pytest.approx(5 + (4 + 2 + 5 / 3) + 1 + 5 / 3, abs=0.005)
    assert fix.report.why.startswith("A student is kept: on 81 examples that no network of the trial saw, it ")


class Spied:
    """Every network that a fix asks for, once: lane and epochs, with the number of its teachers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.networks: dict[tuple[cu.Lane, int], int] = {}
        original = search.load_or_fit

        def spy(context: Any, lanes: Sequence[cu.Lane], *others: Any, **named: Any) -> cu.Fit:
            taught_by = len(named["teachers"].lanes) if named.get("teachers") else 0
            self.networks |= {(lane, context.recipe.epochs): taught_by for lane in lanes}
            return original(context, lanes, *others, **named)

        monkeypatch.setattr(search, "load_or_fit", spy)
        monkeypatch.setattr(trial, "load_or_fit", spy)

    def cost(self, kept: cu.Choice, epochs: int) -> float:
        """All that chose, and what is kept: forward passes of teachers, a third of a step each, count once a stack."""
        chose = [(lane, share / epochs) for (lane, share) in self.networks if lane.fold and not lane.teaching]
        tried = [(lane, share / epochs) for (lane, share) in self.networks if lane.fold and lane.teaching]
        cost = sum(share for _, share in chose) + sum(share for _, share in tried)
        if tried:
            cost += tried[0][1] * next(n for (lane, _), n in self.networks.items() if lane.fold and lane.teaching) / 3
        share = kept.candidate.changes.get("epochs", epochs) / epochs
        if kept.step == "student":
            return cost + share * (1 + 5 / 3)
        return cost + share * (5 if kept.step == "ensemble" else 1)


@pytest.mark.parametrize("trainings", [2.5, 3, 7, 12, 20, 40])
@pytest.mark.parametrize("kept", ["one", "student", "ensemble"])
def test_the_cost_is_what_was_trained_and_never_more_than_allowed(
    store: Store, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch, kept: str, trainings: float
) -> None:
    spied = Spied(monkeypatch)
    monkeypatch.setattr(workflow, "TELLING", 1)
    monkeypatch.setattr(Gain, "clear", property(lambda gain: kept != "one"))
    if kept == "ensemble":
        monkeypatch.setattr(Trial, "student", None)
    rows, recipe = ["naive", "cb-rs?epochs=1", "ldam-rw"], default_recipe(digits.train, epochs=2)
    deploy = "ensemble" if kept == "ensemble" else "one"
    fix = cu.fix(digits, recipe, candidates=rows, trainings=trainings, deploy=deploy, seeds=1, store=store)
    assert fix.report.cost == pytest.approx(spied.cost(fix.choice, recipe.epochs), abs=0.006)
    assert fix.report.cost <= fix.report.allowed == trainings
    tried = any(lane.fold and lane.seed for lane, _ in spied.networks)  # several networks left one fold out
    assert any(lane.teaching for lane, _ in spied.networks) is (tried and kept != "ensemble")
    assert (fix.choice.step in ("student", "ensemble")) is (tried and kept != "one")
    assert tried is (trainings >= 20)
    if trainings < 20:
        assert fix.report.why.endswith(f"since {trainings:g} trainings do not pay for it.")


def test_measuring_is_counted(store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Five naive networks that each leave a fold out, before the search and the last training."""
    fix = cu.fix(digits, recipe, candidates=["ubrw"], trainings=11, seeds=1, store=store)
    assert (fix.choice.candidate.name, fix.report.cost) == ("ubrw", 5 + 5 + 1)
    stats = cu.estimate(digits.train, "out-of-fold", members=5, recipe=recipe).stats
    networks = cu.fit(digits.train, [cu.Lane("ubrw", 0, recipe.lr)], recipe=recipe, stats=stats)
    adjusted = fix.choice.adjustment(networks.probabilities(digits.test).astype(float))
    assert fix.after.errors == errors_of(adjusted, digits.test.labels)
    assert fix.report.ladder[0].candidate == "naive"  # though it was no candidate


@pytest.mark.parametrize("goal", ["accuracy", "worst", "cost:costs.csv", "prior:prior.csv"])
def test_goals(
    goal: str, store: Store, digits: cu.Dataset, recipe: cu.Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is reported is the goal's value of the deployed network's decisions."""
    monkeypatch.chdir(tmp_path)
    prior, counts = np.arange(1, 11) / 55, digits.train.counts
    costs = np.abs(np.subtract.outer(np.arange(10), np.arange(10))) ** 2.0
    np.savetxt("prior.csv", prior)
    lines = [",".join(["", *digits.classes])]
    lines += [",".join([name, *map(str, row)]) for name, row in zip(digits.classes, costs, strict=True)]
    Path("costs.csv").write_text("\n".join(lines))
    fix = cu.fix(digits, recipe, candidates=ROWS[:2], goal=goal, trainings=11, seeds=1, store=store)
    p, labels = softmax_of(fix, digits.test.inputs), digits.test.labels
    wrong = 100.0 * (p.argmax(axis=1) != labels)
    by_class = np.array([wrong[labels == c].mean() for c in range(10)])
    paid = costs[labels, (p @ costs).argmin(axis=1)]
    value = {
        "accuracy": by_class @ (counts / counts.sum()),
        "worst": by_class.max(),
        "cost:costs.csv": np.array([paid[labels == c].mean() for c in range(10)]) @ (counts / counts.sum()),
        "prior:prior.csv": by_class @ prior,
    }[goal]
    kept = next(step for step in fix.report.ladder if step.kept)
    assert kept.values == pytest.approx([value])
    assert (fix.report.goal, fix.report.unit) == (goal, "" if goal.startswith("cost") else "%")
    basis = BY_COST if goal.startswith("cost") else ""
    assert fix.report.basis == basis
    assert f"before and after{basis and '. '}{basis}</b>" in fix._repr_html_()
    low, high = np.transpose(fix.report.price.before)
    assert ((low <= fix.report.before.means) & (fix.report.before.means <= high)).all()  # of the same decisions
    assert fix.report.rungs[-1].examples == 405
    change = fix.report.change
    assert (change is None) == (goal == "worst")
    assert change is None or change.change == pytest.approx(kept.values[0] - fix.report.ladder[0].values[0])
    assert fix.choice.adjustment.prior == pytest.approx(
        {"worst": np.full(10, 0.1), "prior:prior.csv": prior}.get(goal, counts / counts.sum())
    )


def test_equal_counts_adjust_nothing(digits: cu.Dataset, recipe: cu.Recipe) -> None:
    test = digits.test
    places = np.concatenate([np.flatnonzero(test.labels == c)[:12] for c in range(10)])
    equal = cu.Dataset("equal", test.take(places), test.take(np.setdiff1d(np.arange(len(test)), places)))
    fix = cu.fix(equal, recipe, candidates=["naive"], trainings=2, seeds=2)
    assert "All classes have equally many examples, so nothing is adjusted." in fix.report.note
    assert (fix.choice.tau, fix.choice.step) == (0, "adjusted")
    assert fix.after.errors == fix.before.errors
    assert np.ptp(fix.choice.adjustment.shift) == pytest.approx(0)
    assert "nothing is adjusted" not in cu.fix(digits, recipe, candidates=["naive"], trainings=2, seeds=1).report.note


def test_candidates_that_cannot_be_judged_are_dropped_with_their_reasons(
    store: Store, digits: cu.Dataset, recipe: cu.Recipe
) -> None:
    rows = ["naive?crop=9", "cb-rs?lr=1e30", "cb-rs?rate=2"]
    fix = cu.fix(digits, recipe, candidates=rows, trainings=8, seeds=1, store=store)
    unable, lost, kept = fix.report.rungs[0].rows
    assert unable.reason == "crop is 9, wider than the images: they are 8 x 8."
    assert (unable.trainings, unable.value, unable.kept) == (0, None, False)
    assert lost.reason == "it diverged in epoch 1 at the learning rate 1e+30"
    assert (lost.trainings, lost.value, lost.kept) == (1, None, False)
    assert (kept.reason, kept.kept) == ("", True)
    assert fix.choice.candidate.name == "cb-rs?rate=2"
    assert [row.candidate for row in fix.report.rungs[-1].rows] == ["cb-rs?rate=2"]
    with refused("no candidate could be trained", "'naive?crop=9'", "wider than the images"):
        cu.fix(digits, recipe, candidates=rows[:2], store=store)
    with refused("no candidate could be trained", "diverged in epoch 1"):
        cu.fix(digits, recipe, candidates=rows[1:2], store=store, progress=no_training)  # it is not tried again


def test_findings_are_of_before_and_label_issues_of_unseen_examples(
    fixed: cu.Fix, digits: cu.Dataset, recipe: cu.Recipe
) -> None:
    """Every finalist near the best has left an example out; handwritten digits are labelled rightly."""
    train, report = digits.train, fixed.report
    goal, order = parse_goal("mean", digits.classes, train.counts), fold_order(train)
    unseen, values = [], []
    for row in ROWS:
        p, labels = unseen_of(train, recipe, row)
        usual = 1.0 if row.startswith("naive") else 0.0
        adjusted = cross_adjusted(p, labels, train.counts, goal, usual_tau=usual)
        values.append(class_mean_error(adjusted, labels))
        natural = adjusted * train.counts  # classes as frequent as in training
        unseen.append((natural / natural.sum(axis=1, keepdims=True))[np.argsort(order)])
    near = np.stack([p for p, value in zip(unseen, values, strict=True) if value <= 1.25 * min(values)])
    assert report.label_issues == tuple(label_issues(near, train.labels, train)) == ()
    assert report.witnesses == len(near)
    before, after = (
        cu.fit(train, [cu.Lane(method, seed, lr) for seed in range(2)], recipe=recipe).probabilities(digits.test)
        for method, lr in (("naive", recipe.lr), ("cb-rs", 2 * recipe.lr))
    )
    before, after = (
        diagnose(digits.test.labels, p, train.counts, classes=digits.classes, suspect=np.zeros(10))
        for p in (before.astype(float), after.astype(float))
    )
    assert [(one.label, one.kind) for one in report.findings] == [(one.label, one.kind) for one in before]
    assert report.findings != after  # or this would not tell them apart


def test_few_trainings_look_for_no_label_issues(store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    report = cu.fix(digits, recipe, candidates=ROWS, trainings=4, seeds=1, store=store).report
    assert (report.label_issues, report.witnesses) == ((), None)
    assert "Labels were not checked" in report.note


def test_it_is_stored_for_the_report(tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """Networks that choose, and those that are chosen, are no results of their own."""
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(digits, replace(recipe, epochs=1), candidates=["cb-rs"], trainings=2, seeds=2, store=store)
        assert store.fix_reports(digits.fingerprint) == [fix.report]
        assert [result.method for result in store.results(digits.fingerprint)] == ["naive", "naive"]
        assert tuple(result.error for result in store.results(digits.fingerprint)) == pytest.approx(fix.before.errors)
    assert class_errors_of(fix, digits.test) == pytest.approx(fix.before.class_errors[0])


def test_a_page_shows_a_fix_whose_naive_models_are_of_another_kind(wine: cu.Data, tmp_path: Path) -> None:
    """The recipe of a table is a forest; the plain model that does best, and stands before, may be another."""
    dataset = cu.Dataset("wine", wine)
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(dataset, RECIPES["forest"], candidates=["naive?recipe=logistic"], trainings=10, store=store)
        (section,) = sections(store, "wine", lambda _: dataset)
        assert section.fix_report == fix.report


def class_errors_of(fix: cu.Fix, judged: cu.Data | None) -> np.ndarray:
    """In percent, by the predictions that the report keeps for its page."""
    assert judged
    assert fix.report.predictions
    wrong = fix.report.predictions.outcomes(judged.labels).guesses != judged.labels
    return 100 * np.bincount(judged.labels, weights=wrong) / judged.counts


def test_the_document_has_no_pictures(fixed: cu.Fix) -> None:
    document = fixed.document()
    assert len(document["label_issues"]) == len(fixed.report.label_issues)
    assert "predictions" not in document
    assert all("picture" not in issue and "name" in issue for issue in document["label_issues"])
    assert document["parameters"] == sum(p.numel() for p in fixed.module.parameters())
    assert document["network"] == fixed.module.rebuild["network"]


@pytest.fixture(scope="module")
def wine() -> cu.Data:
    wine = load_wine()
    kept = np.concatenate([np.flatnonzero(wine.target == c)[:n] for c, n in enumerate((59, 20, 8))])
    labels = wine.target[kept].copy()
    labels[3] = 1  # wrongly
    return cu.Data(wine.data[kept].astype(np.float32), labels, tuple(wine.target_names))


def test_without_a_test_split_folds_judge_what_was_chosen_without_them(wine: cu.Data, tmp_path: Path) -> None:
    recipe, rows = default_recipe(wine, epochs=10), ["naive", "naive?rate=0.01"]
    dataset = cu.Dataset("wine", wine)
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(dataset, recipe, candidates=rows, seeds=2, label_issues=True, store=store)
        results = store.results(dataset.fingerprint)
    assert {result.seed: result.error for result in results} == pytest.approx(dict(enumerate(fix.before.errors)))
    assert {result.folds for result in results} == {5}
    p, labels = unseen_of(wine, recipe, "naive")
    of_fold, temperatures = np.repeat(np.arange(5), [len(fold_indices(wine, fold)) for fold in FOLDS]), []
    before, after = [], []
    for k, fold in enumerate(FOLDS):
        networks = cu.fit(wine, [cu.Lane("naive", seed, recipe.lr, fold) for seed in range(2)], recipe=recipe)
        judged = networks.probabilities(wine.take(fold_indices(wine, fold))).astype(float)
        adjustment = cu.fit_adjustment(p[of_fold != k], labels[of_fold != k], wine.counts, usual_tau=1.0)
        temperatures.append(adjustment.temperature)
        before.append(judged)
        after.append(adjustment(judged))
    assert fix.before.errors == errors_of(np.concatenate(before, axis=1), labels)
    assert fix.after.errors == errors_of(np.concatenate(after, axis=1), labels)
    assert class_errors_of(fix, wine) == pytest.approx(fix.before.class_errors[0])  # in the order of the data
    assert len(set(temperatures)) > 1  # or it could have been chosen for all folds at once
    assert fix.choice.tau == 1
    for words in ("judged by 5 folds", "best on the other folds", "step that is kept is decided on", "fewer than 250"):
        assert words in fix.report.note + fix.report.why
    assert 3 in [issue.index for issue in fix.report.label_issues]
    whole = cu.fit(wine, [cu.Lane("naive", 0, recipe.lr)], recipe=recipe).probabilities(wine)[0].astype(float)
    assert softmax_of(fix, wine.inputs) == pytest.approx(fix.choice.adjustment(whole), abs=1e-4)
    assert fix.report.cost == 11


@pytest.mark.parametrize(("row", "why"), [("forest&trees=10", "of one kind"), ("logistic", "heads that train")])
def test_a_table_model_beside_a_network_is_neither_averaged_nor_taught(
    row: str, why: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    """And trees, which know their own examples by heart, say on unseen ones what prior they stand for."""
    inputs = rng.normal(size=(1500, 4)).astype(np.float32)
    data = cu.Data(inputs, (inputs[:, 0] + rng.normal(size=1500) > 1).astype(int))
    candidate, network = cu.Candidate(f"naive?recipe={row}"), cu.Recipe("mlp", epochs=1, batch=64)
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(data, network, candidates=[candidate], trainings=30, seeds=1, store=store)
    assert why in fix.choice.why
    assert fix.module.purpose is not None
    if fix.choice.candidate.recipe(network).is_trees:
        p, labels = unseen_of(data, candidate.recipe(network), "naive")
        adjusted = cross_adjusted(p, labels, data.counts, parse_goal("mean", data.classes, data.counts), usual_tau=1.0)
        assert fix.module.purpose.prior == pytest.approx(measured_prior(adjusted, labels, [0.5, 0.5]), abs=1e-6)


@pytest.mark.usefixtures("every_gain_is_clear")
def test_a_student_is_judged_by_folds(wine: cu.Data) -> None:
    """Where a fold is judged, all of its teachers have left it out."""
    recipe = default_recipe(wine, epochs=4)
    fix = cu.fix(wine, recipe, candidates=["naive"], seeds=1)
    assert fix.choice.step == "student"
    p, labels = unseen_of(wine, recipe, "naive")
    of_fold, judged = np.repeat(np.arange(5), [len(fold_indices(wine, fold)) for fold in FOLDS]), []
    for k, fold in enumerate(FOLDS):
        teachers = cu.fit(wine, [cu.Lane("naive", seed, recipe.lr, fold) for seed in range(5)], recipe=recipe)
        tau = cu.fit_adjustment(p[of_fold != k], labels[of_fold != k], wine.counts, usual_tau=1.0).tau
        lane = cu.Lane("naive", 0, fix.choice.student.rate * recipe.lr, fold, teaching=cu.Teaching(tau=tau))
        student = cu.fit(wine, [lane], recipe=recipe, teachers=teachers)
        judged.append(student.probabilities(wine.take(fold_indices(wine, fold))))
    assert fix.after.errors == errors_of(np.concatenate(judged, axis=1), labels)


def test_no_network_is_trained_twice(tmp_path: Path, rng: np.random.Generator) -> None:
    """80 rows of a CSV table without a test split: folds judge, and the same networks choose and are judged."""
    with open(tmp_path / "t.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("length", "width", "label"))
        for label, number in (("a", 45), ("b", 25), ("c", 10)):
            rows.writerows((*rng.normal(ord(label), 1, 2).round(3), label) for _ in range(number))
    dataset, watched = cu.load(f"csv:{tmp_path / 't.csv'}"), Watched()
    recipe = default_recipe(dataset.train, epochs=2)
    how = {"seeds": 2, "deploy": "ensemble", "store": tmp_path / "runs.sqlite", "progress": watched}
    cu.fix(dataset, recipe, candidates=["naive", "cb-rs"], **how)
    lanes = Counter(repr(lane) for lane in watched.lanes)
    assert {lane for lane, times in lanes.items() if times > 1} == set()
    assert sum(watched.announced) == len(lanes) > 20


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"budget": 5.0}, ["budget", "store"]),
        ({"seeds": 0}, ["seeds is 0"]),
        ({"deploy": "two"}, ["unknown deploy 'two'", "one, ensemble"]),
        ({"goal": "means"}, ["unknown goal 'means'", "'mean'"]),
        ({"candidates": ["cb-rz"]}, ["unknown method 'cb-rz'", "'cb-rs'"]),
        ({"trainings": 0}, ["trainings is 0", "above 0"]),
        ({"trainings": float("nan")}, ["trainings is nan"]),
        ({"trainings": 1.9, "candidates": ["naive"]}, ["trainings is 1.9", "takes 2 at least"]),
        ({"trainings": 3, "candidates": ["naive?epochs=8"]}, ["trainings is 3", "takes 4 at least"]),
        ({"trainings": 6.9, "candidates": ["naive", "ubrw"]}, ["takes 7 at least", "5 measure class uncertainties"]),
    ],
)
def test_bad_input_is_refused_before_training(
    digits: cu.Dataset, recipe: cu.Recipe, options: dict[str, Any], parts: list[str]
) -> None:
    with refused(*parts):
        cu.fix(digits, recipe, progress=no_training, **options)


def test_a_class_of_one_example_cannot_be_judged(digits: cu.Dataset, recipe: cu.Recipe) -> None:
    train = digits.train
    places = np.concatenate([np.flatnonzero(train.labels != 9), np.flatnonzero(train.labels == 9)[:1]])
    with refused("class '9'", "at least two"):
        cu.fix(train.take(places), recipe, progress=no_training)


def test_repeats_that_diverge_do_not_count(store: Store, digits: cu.Dataset, recipe: cu.Recipe, monkeypatch) -> None:
    """Networks for the ± only: the kept one is that of seed 0."""
    original = ladder_networks.fit_candidates

    def losing(*given: Any, **named: Any) -> dict[str, cu.Fit]:
        fits = original(*given, **named)
        for fitted in fits.values():
            fitted.results = [replace(one, diverged=1) if one.seed == 1 else one for one in fitted.results]
        return fits

    monkeypatch.setattr(ladder_networks, "fit_candidates", losing)
    fix = cu.fix(digits, recipe, candidates=ROWS[:2], seeds=3, trainings=3, store=store)
    assert len(fix.before.errors) == len(fix.after.errors) == 2
    whole = cu.fit(digits.train, [cu.Lane("naive", seed, recipe.lr) for seed in (0, 2)], recipe=recipe)
    assert fix.before.errors == errors_of(whole.probabilities(digits.test), digits.test.labels)


def test_embeddings_are_fixed_by_heads_that_converge(tmp_path: Path) -> None:
    """All of their rows are judged on all folds, no student is tried, and every seed gives the same network."""
    wine = load_wine()
    data = cu.Data(wine.data, wine.target)
    heads = replace(RECIPES["embeddings"], epochs=30)
    fixed = cu.fix(data, heads, store=tmp_path / "runs.sqlite")
    rows = {row.name for row in default_candidates(data, heads)}
    assert {row.candidate for row in fixed.report.rungs[-1].rows} == rows
    assert fixed.report.rungs[-1].folds == 5
    assert fixed.report.cost == 5 * len(rows) + 1
    assert "converge" in fixed.choice.why
    assert fixed.report.note.startswith("Before: naive networks. ")  # no learning rate changes them
    assert len(set(fixed.after.errors)) == len(set(fixed.before.errors)) == 1
    again = cu.fix(data, heads, store=tmp_path / "runs.sqlite", progress=no_training)
    assert again.after.errors == fixed.after.errors
