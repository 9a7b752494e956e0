"""Naive training is kept where the choice is worse, on folds that it was not chosen on."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.metrics import decide
from class_uncertainty.posthoc import calibration
from class_uncertainty.posthoc.adjustment import best_tau
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, Fold, fold_indices
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.alternatives import Alternatives, Gain, Trial, average_kinds
from class_uncertainty.workflows.fix_choice import Choices, choose_step, fall_back
from class_uncertainty.workflows.search import Evidence, Search, preferred

LABELS = np.repeat([0, 1], [60, 40])
TRAIN = cu.Data(np.zeros((100, 2), np.float32), LABELS)
EQUAL, FREQUENT = np.full(2, 0.5), np.array([0.6, 0.4])
COSTS = np.array([[0.0, 1.0], [1.5, 0.0]])
GOALS = {
    "mean": Goal("mean", EQUAL),
    "worst": Goal("worst", EQUAL, only_worst=True),
    "overall": Goal("overall", FREQUENT),
    "cost": Goal("cost:costs.csv", FREQUENT, COSTS),
    "prior": Goal("prior:0.7,0.3", np.array([0.7, 0.3])),
}
MEAN = GOALS["mean"]
NOT_TRIED = Alternatives(why_none="there was no time")
EVERY_FOLD: list[Fold] = [(k, FOLDS) for k in range(FOLDS)]


@pytest.fixture(autouse=True)
def few_taus(monkeypatch):
    """What is said here is so sure that all of them decide alike."""
    monkeypatch.setattr(calibration, "best_tau", partial(best_tau, grid=(0.0, 0.5, 1.0)))


def evidence(name: str, wrong: Sequence[int], network: str = "mlp", folds: int = FOLDS) -> Evidence:
    """Of a candidate that is sure, and wrong about these training examples, judged on the first folds."""
    places = np.concatenate([fold_indices(TRAIN, (k, FOLDS)) for k in range(folds)])
    labels, right = LABELS[places], np.where(np.isin(places, wrong), 0.01, 0.99)[:, None]
    p = np.where(labels[:, None] == np.arange(2), right, 1 - right)
    networks = Fit.untrained(TRAIN, [], cu.Recipe(network, epochs=1, batch=2), "cpu", None)
    return Evidence(cu.Candidate(name), networks, places, labels, p, p, 1.0)


def lucky() -> list[Evidence]:
    """Two that are wrong on two folds each: the better one by the other folds is worthless on each of these four."""
    folds = [np.concatenate([fold_indices(TRAIN, (k, FOLDS)) for k in pair]) for pair in ((0, 1), (2, 3))]
    return [evidence(name, wrong.tolist()) for name, wrong in zip(("cb-rs", "cb"), folds, strict=True)]


def wrong_everywhere(share: int) -> list[int]:
    """One in so many examples of each class."""
    return [int(i) for c in range(2) for i in np.flatnonzero(c == LABELS)[::share]]


def search_result(goal: Goal, finalists: Sequence[Evidence]) -> Search:
    naive = [one for one in finalists if one.candidate.is_naive]
    best = preferred(finalists, goal)
    return Search(best, tuple(finalists), (), {one.candidate.name: one for one in (best, *naive)})


def decided(
    search: Search, goal: Goal, alternatives: Alternatives = NOT_TRIED, folds: Sequence[Fold] = (None,)
) -> Choices:
    """What is left of the choices without these folds."""
    chosen = {fold: choose_step(TRAIN, search, alternatives, goal, "ensemble", fold) for fold in folds}
    return fall_back(TRAIN, search, alternatives, chosen, goal, "ensemble")


@pytest.mark.parametrize("name", GOALS)
def test_a_choice_that_is_best_by_chance_gives_way_to_naive_training(name):
    """By all folds they are wrong about 40 % of the examples, and the naive network about 50 %."""
    goal, naive = GOALS[name], evidence("naive", wrong_everywhere(2))
    search = search_result(goal, [naive, *lucky()])
    assert search.best.candidate.name == "cb-rs"
    kept = decided(search, goal, folds=[None, *EVERY_FOLD])
    assert set(kept) == {None, *EVERY_FOLD}
    for choice in kept.values():
        assert (choice.candidate.name, choice.parts, choice.student) == ("naive", (), None)
        assert choice.step in ("naive", "adjusted")
        assert choice.why.startswith("Naive training")
        assert goal.describe() in choice.why


@pytest.mark.parametrize("name", GOALS)
def test_a_real_gain_is_kept(name):
    goal = GOALS[name]
    finalists = [evidence("naive", wrong_everywhere(4)), evidence("cb-rs", wrong_everywhere(20))]
    kept = decided(search_result(goal, finalists), goal)
    assert kept[None].candidate.name == "cb-rs"
    assert kept[None].step == "best single"


def test_with_a_test_split_the_same_folds_judge():
    search = search_result(MEAN, [evidence("naive", wrong_everywhere(2)), *lucky()])
    (kept,) = decided(search, MEAN).values()
    assert kept.candidate.name == "naive"
    by_folds = decided(search, MEAN, folds=[None, *EVERY_FOLD])[None]
    assert (kept.candidate, kept.step, kept.why) == (by_folds.candidate, by_folds.step, by_folds.why)


def test_a_choice_as_good_as_naive_training_is_kept():
    finalists = [evidence(name, wrong_everywhere(4)) for name in ("cb-rs", "naive")]
    assert decided(search_result(MEAN, finalists), MEAN)[None].candidate.name == "cb-rs"


def hesitant(one: Evidence, label: int) -> Evidence:
    """The same, unsure about an example of a class, which the usual tau gives to the rarer class."""
    p = one.p.copy()
    right = p[np.arange(len(p)), one.labels] > 0.5
    p[np.flatnonzero((one.labels == label) & (right if label == 0 else ~right))[0]] = 0.55, 0.45
    return Evidence(one.candidate, one.networks, one.places, one.labels, p, p, 1.0)


@pytest.mark.parametrize(("label", "step", "tau"), [(0, "naive", 0.0), (1, "adjusted", 1.0), (None, "naive", 0.0)])
def test_naive_networks_are_adjusted_only_where_that_is_better(label, step, tau):
    """One unsure example decides: adjusting loses one of the frequent class, and wins one of the rare class."""
    naive, others = evidence("naive", wrong_everywhere(2)), lucky()
    unsure = naive if label is None else hesitant(naive, label)
    choice = decided(search_result(MEAN, [unsure, *others]), MEAN)[None]
    assert (choice.step, choice.single, choice.tau) == (step, step, tau)
    if step == "naive":
        np.testing.assert_allclose(choice.adjustment(unsure.p), unsure.p)
        assert "(class-mean error 80.00 %, naive 50.00 %)" in choice.why


def test_a_kept_adjustment_is_chosen_without_the_fold_that_it_is_judged_on():
    """Of a naive network whose temperature every fold changes a little."""
    naive = evidence("naive", wrong_everywhere(2))
    sure = np.random.default_rng(0).uniform(0.8, 0.99, (len(naive.p), 1))
    p = np.where(naive.p > 0.5, sure, 1 - sure)
    unsure = hesitant(Evidence(naive.candidate, naive.networks, naive.places, naive.labels, p, p, 1.0), label=1)
    kept = decided(search_result(MEAN, [unsure, *lucky()]), MEAN, folds=[None, *EVERY_FOLD])
    assert kept[None].step == "adjusted"
    overall = unsure.adjustment(TRAIN.counts, MEAN).temperature
    assert kept[None].adjustment.temperature == overall
    for fold in EVERY_FOLD:
        assert fold is not None
        rest = unsure.outside(fold_indices(TRAIN, fold))
        assert rest is not None
        alone = rest.adjustment(TRAIN.counts, MEAN).temperature
        assert kept[fold].adjustment.temperature == alone != overall


def test_a_fold_that_alone_chose_a_finalist_is_not_compared():
    """Of the naive network the first fold alone is known, and of one finalist, too."""
    naive = evidence("naive", wrong_everywhere(4), folds=1)
    best, early = evidence("cb-rs", wrong_everywhere(2)), evidence("cb", [], folds=1)
    for finalists, kept in (((best,), "naive"), ((best, early), "cb-rs")):
        search = Search(best, finalists, (), {one.candidate.name: one for one in (best, early, naive)})
        assert decided(search, MEAN)[None].candidate.name == kept


def test_without_another_fold_or_naive_networks_the_choice_stays():
    rows = [("naive", wrong_everywhere(4)), ("cb-rs", wrong_everywhere(3))]
    one_fold = search_result(MEAN, [evidence(name, wrong, folds=1) for name, wrong in rows])
    alone = search_result(MEAN, lucky())
    for search in (one_fold, alone):
        choices = {None: choose_step(TRAIN, search, NOT_TRIED, MEAN, "one", None)}
        assert fall_back(TRAIN, search, NOT_TRIED, choices, MEAN, "one") is choices


def test_naive_networks_that_were_dropped_early_are_compared_on_their_fold():
    """The naive network was judged on the first fold alone: that one judges."""
    first = fold_indices(TRAIN, (0, FOLDS)).tolist()
    finalists = [evidence(name, first) for name in ("cb-rs", "cb")]
    for wrong, kept in ((first, "cb-rs"), (first[:3], "naive")):
        naive = evidence("naive", wrong, folds=1)
        search = Search(finalists[0], tuple(finalists), (), {"cb-rs": finalists[0], "naive": naive})
        assert decided(search, MEAN)[None].candidate.name == kept


@pytest.mark.parametrize("step", ["ensemble", "student"])
def test_a_step_is_credited_with_its_gain_on_trial(step):
    """One network of the choice has 5 points more than a naive one; five together, or their student, gain 3, or 10."""
    finalists = [evidence("cb-rs", wrong_everywhere(4)), evidence("naive", wrong_everywhere(5))]
    search = Search(finalists[0], tuple(finalists[:1]), (), {one.candidate.name: one for one in finalists})
    for gain, kept in ((3.0, "naive"), (10.0, "cb-rs")):
        taught = {"cb-rs": Gain(gain, 0.1)} if step == "student" else {}
        trial = Trial(3, Gain(0.0 if taught else gain, 0.1), taught, dict.fromkeys(taught, 1.0), 20, 5.0, 9.0)
        alternatives = Alternatives(trial)
        assert choose_step(TRAIN, search, alternatives, MEAN, "ensemble", None).step == step
        assert decided(search, MEAN, alternatives)[None].candidate.name == kept


def test_the_mean_of_several_kinds_is_judged_as_a_mean():
    """Of three kinds two are right about every example, so that their mean is; the best has more errors than naive."""
    rows = [
        ("naive?recipe=logistic", "linear"),
        ("cb-rs?recipe=forest", "forest"),
        ("cb-rs?recipe=boosting", "boosting"),
    ]
    thirds = [wrong_everywhere(4)[i::3] for i in range(3)]
    rows_wrong = zip(rows, thirds, strict=True)
    finalists = [evidence(name, wrong, network) for (name, network), wrong in rows_wrong]
    search = search_result(MEAN, finalists)
    alternatives = average_kinds(search, MEAN)
    assert decided(search, MEAN, alternatives)[None].step == "ensemble"
    spoilt = [finalists[0], *(lucky_kind(one) for one in finalists[1:])]
    assert decided(search_result(MEAN, spoilt), MEAN, alternatives)[None].step in ("naive", "adjusted")


def lucky_kind(one: Evidence) -> Evidence:
    """The same kind of model, wrong about two folds."""
    places = np.concatenate([fold_indices(TRAIN, (k, FOLDS)) for k in (1, 3)])
    return evidence(one.candidate.name, places.tolist(), one.networks.recipe.network)


@pytest.fixture(scope="module")
def cancer(tmp_path_factory):
    """Scikit-learn's breast cancer with the last 30 % of the malignant rows; to miss one of them costs 10."""
    from sklearn.datasets import load_breast_cancer

    bunch, folder = load_breast_cancer(), tmp_path_factory.mktemp("cancer")
    rows = np.concatenate([np.flatnonzero(bunch.target == 0)[-64:], np.flatnonzero(bunch.target == 1)])
    lines = [",".join([*(f"x{i}" for i in range(30)), "label"])]
    for i in np.sort(rows):
        lines.append(",".join([*map(str, bunch.data[i]), str(bunch.target_names[bunch.target[i]])]))
    (folder / "table.csv").write_text("\n".join(lines))
    (folder / "costs.csv").write_text(",benign,malignant\nbenign,0,1\nmalignant,10,0\n")
    return cu.load(f"csv:{folder / 'table.csv'}"), f"cost:{folder / 'costs.csv'}"


def test_a_table_whose_cost_does_not_fall_keeps_its_naive_model(cancer, tmp_path):
    """With decisions by costs, as before the fix."""
    table, goal = cancer
    rows = ["naive?recipe=logistic", "cb-rs?recipe=forest&trees=20", "naive?recipe=boosting&trees=20"]
    fixed = cu.fix(table, goal=goal, candidates=rows, save=tmp_path / "model")
    steps = {step.name: step for step in fixed.report.ladder}
    assert fixed.report.step == "naive"
    assert fixed.report.why.startswith("Naive training is kept, since what is chosen without a fold")
    assert fixed.document()["why"] == fixed.report.why
    assert steps["naive"].kept
    assert fixed.after == fixed.before
    assert fixed.report.cost == 16  # the search has been paid for
    assert {name: step.trainings for name, step in steps.items()} == {"naive": 1, "adjusted": 16}  # the best single one
    assert [name for name, step in steps.items() if step.gain is None] == ["adjusted"]
    assert fixed.report.change is not None
    assert fixed.report.change.change == 0
    naive = cu.Candidate("naive?recipe=logistic")
    lane, inputs = naive.lane(RECIPES["forest"], 0), table.train.inputs
    p = cu.fit(table.train, [lane], recipe=naive.recipe(RECIPES["forest"])).probabilities(table.train)[0]
    np.testing.assert_allclose(fixed.model.predict_proba(inputs), p, atol=1e-5)
    guesses = decide(p, np.array([[0.0, 1.0], [10.0, 0.0]]))
    assert fixed.model.predict(inputs).tolist() == [table.classes[guess] for guess in guesses]
    file = Path(goal.removeprefix("cost:")).with_name("table.csv")
    assert list(cu.predict(fixed.files[0], file).labels) == fixed.model.predict(inputs).tolist()
