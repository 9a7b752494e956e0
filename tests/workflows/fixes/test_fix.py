"""cu.fix(): from data to the best network that a number of trainings buys, with what was wrong and what has changed."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from watching import no_training
from workflows.fixes.by_hand import ROWS, class_mean_error, errors_of, fit_fold_networks, softmax_of, unseen_of

import class_uncertainty as cu
from class_uncertainty.posthoc.calibration import cross_adjusted
from class_uncertainty.posthoc.goal import parse_goal
from class_uncertainty.training import default_recipe
from class_uncertainty.workflows import fix_plan, ladder
from class_uncertainty.workflows.alternatives import Gain, Trial


@pytest.fixture
def no_student(monkeypatch, every_gain_is_clear):
    """So that an ensemble is kept."""
    monkeypatch.setattr(Trial, "student", None)


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


def test_steps_are_judged_by_plain_networks(fixed, digits, recipe):
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


def test_rungs_are_of_unseen_examples(fixed, digits, recipe):
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


def test_nothing_is_chosen_on_test_data(fixed, store, digits, recipe):
    test = digits.test
    assert test is not None
    wrong = cu.Data(test.inputs, (test.labels + 1) % 10, test.classes)
    other = cu.fix(cu.Dataset("wrong", digits.train, wrong), recipe=recipe, candidates=ROWS, seeds=2, store=store)
    assert choice_of(other) == choice_of(fixed)
    assert other.before.errors != fixed.before.errors
    for name, value in other.module.state_dict().items():
        assert torch.equal(value, fixed.module.state_dict()[name])


@pytest.mark.usefixtures("every_gain_is_clear")
def test_it_goes_on_and_ends_the_same(store, tmp_path, digits, recipe):
    """Stopped after every epoch, it comes to the same end by all steps, and leaves no checkpoints."""
    how = {"recipe": replace(recipe, epochs=2), "candidates": ["cb-rs?rate=2"], "seeds": 1}
    whole, stops, again = cu.fix(digits, store=store, **how), 0, None
    while again is None:
        try:
            again = cu.fix(digits, store=tmp_path / "runs.sqlite", budget=1e-9, **how)
        except cu.Unfinished:
            stops += 1
    assert stops > 3
    assert whole.choice.step == "student"
    assert untimed(asdict(again.report)) == untimed(asdict(whole.report))
    for name, value in again.module.state_dict().items():
        assert torch.equal(value, whole.module.state_dict()[name])
    assert not (tmp_path / "runs.sqlite.running").exists()


def test_a_second_fix_is_the_same_and_trains_nothing(fixed, store, tmp_path, digits, recipe):
    """And what is saved is the module, whose softmax is what was judged."""
    again = cu.fix(
        digits, recipe=recipe, candidates=ROWS, seeds=2, store=store, save=tmp_path / "model", progress=no_training
    )
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
def test_an_ensemble_of_five_is_deployed(store, digits, recipe, seeds):
    """However many seeds are judged."""
    fix = cu.fix(digits, recipe=recipe, candidates=ROWS[1:2], seeds=seeds, deploy="ensemble", store=store)
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
def test_a_student_of_the_networks_that_measured_is_kept(store, digits, recipe):
    """Five networks teach it, each of which has left a fold out."""
    fix = cu.fix(digits, recipe=recipe, candidates=ROWS[1:2], seeds=2, store=store)
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
        original = ladder.load_or_fit

        def spy(context: Any, lanes: Sequence[cu.Lane], *others: Any, **named: Any) -> cu.Fit:
            taught_by = len(named["teachers"].lanes) if named.get("teachers") else 0
            self.networks |= {(lane, context.recipe.epochs): taught_by for lane in lanes}
            return original(context, lanes, *others, **named)

        monkeypatch.setattr(ladder, "load_or_fit", spy)

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


@pytest.mark.parametrize(
    ("kept", "trainings"),
    [
        *(("one", trainings) for trainings in (2.5, 3, 7, 12, 20, 40)),
        ("student", 20),
        ("student", 40),
        *(("ensemble", trainings) for trainings in (7, 12, 20)),
    ],
)
def test_the_cost_is_what_was_trained_and_never_more_than_allowed(store, digits, monkeypatch, kept, trainings):
    spied = Spied(monkeypatch)
    monkeypatch.setattr(fix_plan, "MIN_FOLD_EXAMPLES", 1)
    monkeypatch.setattr(Gain, "is_clear", kept != "one")
    if kept == "ensemble":
        monkeypatch.setattr(Trial, "student", None)
    rows, recipe = ["naive", "cb-rs?epochs=1", "ldam-rw"], default_recipe(digits.train, epochs=2)
    deploy = "ensemble" if kept == "ensemble" else "one"
    fix = cu.fix(digits, recipe=recipe, candidates=rows, trainings=trainings, deploy=deploy, seeds=1, store=store)
    assert fix.report.cost == pytest.approx(spied.cost(fix.choice, recipe.epochs), abs=0.006)
    assert fix.report.cost <= fix.report.allowed == trainings
    tried = any(lane.fold and lane.seed for lane, _ in spied.networks)  # several networks left one fold out
    assert any(lane.teaching for lane, _ in spied.networks) is (tried and kept != "ensemble")
    assert (fix.choice.step in ("student", "ensemble")) is (tried and kept != "one")
    assert tried is (trainings >= 20)
    if trainings < 20:
        assert fix.report.why.endswith(f"since {trainings:g} trainings do not pay for it.")
