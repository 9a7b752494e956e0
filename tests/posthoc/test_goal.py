"""Goal and parse_goal() against closed forms, scikit-learn, brute force and the bootstrap."""

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused
from scipy.special import softmax
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc.adjustment import GRID, Adjustment, best_tau
from class_uncertainty.posthoc.calibration import cross_adjusted, fit_adjustment
from class_uncertainty.posthoc.goal import GOALS, Goal, adjusts, check_judgeable, frequencies, parse_goal

COUNTS = np.array([400, 100, 20])
CLASSES = ("cat", "dog", "eel")
COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.5, 3.0], [9.0, 5.0, 0.0]])


def examples(rng: np.random.Generator, size: int = 300, classes: int = 3, gain: float = 1.5) -> tuple[NDArray, NDArray]:
    """Probabilities of a network that prefers frequent classes, and labels that have all of them."""
    counts = COUNTS if classes == 3 else np.geomspace(300, 5, classes)
    labels = rng.choice(classes, size=size, p=counts / counts.sum())
    labels[: 2 * classes] = np.arange(2 * classes) % classes
    return softmax(rng.normal(size=(size, classes)) + gain * np.eye(classes)[labels] + np.log(counts), axis=1), labels


@pytest.fixture
def matrix(tmp_path):
    file = tmp_path / "costs.csv"
    np.savetxt(file, COSTS, delimiter=",")
    return file


@pytest.fixture(params=["mean", "worst", "overall", "cost", "prior"])
def goal(request, matrix):
    text = {"cost": f"cost:{matrix}", "prior": "prior:0.2,0.3,0.5"}.get(request.param, request.param)
    return parse_goal(text, CLASSES, COUNTS)


def test_mean_is_balanced_accuracy_and_accuracy_that_of_the_training_frequencies(rng):
    p, labels = examples(rng)
    guesses = p.argmax(axis=1)
    mean = parse_goal("mean", CLASSES, COUNTS)
    assert mean.value(p, labels) == pytest.approx(100 - 100 * balanced_accuracy_score(labels, guesses))
    assert mean.value(p, labels) == pytest.approx(evaluate(p, labels, COUNTS).error)
    at_own_frequencies = parse_goal("overall", CLASSES, np.bincount(labels))
    assert at_own_frequencies.value(p, labels) == pytest.approx(100 - 100 * accuracy_score(labels, guesses))
    frequent = parse_goal("overall", CLASSES, COUNTS)
    recalls = recall_score(labels, guesses, average=None)
    assert frequent.value(p, labels) == pytest.approx(100 - 100 * COUNTS @ recalls / COUNTS.sum())
    assert frequent.value(p, labels) == pytest.approx(evaluate(p, labels, COUNTS, frequencies(COUNTS)).prior_error)


@pytest.mark.parametrize("classes", [3, 10, 11, 25])
def test_worst_is_the_mean_of_the_lowest_recalls(rng, classes):
    p, labels = examples(rng, 600, classes)
    goal = parse_goal("worst", list(map(str, range(classes))), np.arange(1, classes + 1))
    recalls = np.sort(recall_score(labels, p.argmax(axis=1), average=None))
    tenth = -(-classes // 10)
    assert goal.value(p, labels) == pytest.approx(100 - 100 * recalls[:tenth].mean())
    assert goal.value(p, labels) == pytest.approx(evaluate(p, labels, np.ones(classes)).worst)
    assert len(set(labels[goal.contributions(p, labels) > 0])) <= tenth


def test_weighted_values_are_those_of_weighted_recalls(rng):
    """Which classes are the worst hangs on the weights, too."""
    worst = set()
    for _ in range(20):
        p, labels = examples(rng, 60)
        weights, guesses = rng.lognormal(0, 2, 60), p.argmax(axis=1)
        alike, recalls = (recall_score(labels, guesses, average=None, sample_weight=by) for by in (None, weights))
        expected = {"mean": recalls.mean(), "worst": recalls.min(), "overall": COUNTS @ recalls / COUNTS.sum()}
        for name, recall in expected.items():
            weighted = parse_goal(name, CLASSES, COUNTS).contributions(p, labels, weights)
            assert weighted.sum() == pytest.approx(100 - 100 * recall)
        worst.add(recalls.argmin() == alike.argmin())
    assert worst == {True, False}


def test_of_equally_bad_classes_the_first_are_the_worst():
    labels = np.array([0, 0, 1, 1, 2, 2])
    p = np.eye(3)[[0, 0, 1, 2, 2, 0]]
    contributions = parse_goal("worst", CLASSES, COUNTS).contributions(p, labels)
    assert contributions.tolist() == [0, 0, 0, 50, 0, 0]


def test_costs_are_those_of_a_plain_loop(rng, matrix):
    p, labels = examples(rng)
    goal = parse_goal(f"cost:{matrix}", CLASSES, COUNTS)
    decisions, total = [], np.zeros(3)
    for row, label in zip(p, labels, strict=True):
        expected = [sum(row[i] * COSTS[i, j] for i in range(3)) for j in range(3)]
        decisions.append(expected.index(min(expected)))
        total[label] += COSTS[label, decisions[-1]] / (labels == label).sum()
    assert goal.decide(p).tolist() == decisions
    assert goal.decide(p).tolist() != p.argmax(axis=1).tolist()
    assert goal.value(p, labels) == pytest.approx(total @ COUNTS / COUNTS.sum())


def test_equal_costs_decide_as_the_likeliest_class(rng):
    p, labels = examples(rng)
    costs, error = Goal("cost:x", frequencies(COUNTS), 1 - np.eye(3)), parse_goal("overall", CLASSES, COUNTS)
    assert np.array_equal(costs.decide(p), error.decide(p))
    assert 100 * costs.value(p, labels) == pytest.approx(error.value(p, labels))
    assert 100 * costs.standard_error(p, labels) == pytest.approx(error.standard_error(p, labels))


def test_contributions_sum_to_the_value_and_differences_to_theirs(rng, goal):
    (p, labels), other = examples(rng), rng.dirichlet(np.ones(3), 300)
    assert goal.contributions(p, labels).sum() == pytest.approx(goal.value(p, labels))
    difference, standard_error = goal.difference(p, other, labels)
    assert difference == pytest.approx(goal.value(p, labels) - goal.value(other, labels))
    assert standard_error > 0
    assert goal.difference(other, p, labels) == pytest.approx((-difference, standard_error))
    assert goal.difference(p, p, labels) == (0, 0)


def test_permuting_classes_changes_no_value(rng, goal):
    p, labels = examples(rng)
    order = np.array([2, 0, 1])
    costs = None if goal.costs is None else goal.costs[np.ix_(order, order)]
    moved = Goal(goal.name, goal.prior[order], costs, goal.only_worst)
    places = np.argsort(order)
    assert np.array_equal(moved.decide(p[:, order]), places[goal.decide(p)])
    for measure in ("value", "standard_error"):
        expected = getattr(goal, measure)(p, labels)
        assert getattr(moved, measure)(p[:, order], places[labels]) == pytest.approx(expected)


def resampled(labels: NDArray, rng: np.random.Generator) -> NDArray:
    """As many examples of each class, drawn with replacement."""
    return np.concatenate([rng.choice(members := np.flatnonzero(labels == c), len(members)) for c in np.unique(labels)])


@pytest.mark.parametrize("name", ["mean", "overall", "cost", "prior"])
def test_standard_errors_are_those_of_the_bootstrap(rng, name):
    p, labels = examples(rng, 900)
    other = softmax(np.log(p) + rng.normal(0, 0.3, p.shape), axis=1)
    priors = {"mean": np.ones(3) / 3, "prior": np.array([0.2, 0.3, 0.5])}
    goal = Goal(name, priors.get(name, frequencies(COUNTS)), COSTS if name == "cost" else None)
    draws = [resampled(labels, rng) for _ in range(1500)]
    values = [goal.value(p[rows], labels[rows]) for rows in draws]
    differences = [goal.difference(p[rows], other[rows], labels[rows])[0] for rows in draws]
    assert goal.standard_error(p, labels) == pytest.approx(np.std(values), rel=0.1)
    assert goal.difference(p, other, labels)[1] == pytest.approx(np.std(differences), rel=0.12)


@pytest.mark.parametrize("classes", range(2, 12))
def test_equal_losses_have_no_standard_error(classes):
    """Of classes of one example each, whose pooled variance is 0 but for rounding."""
    goal = parse_goal("mean", [str(c) for c in range(classes)], [1] * classes)
    wrong = np.roll(np.eye(classes), 1, axis=1)
    assert goal.standard_error(wrong, np.arange(classes)) == pytest.approx(0, abs=1e-4)


def test_a_standard_error_by_hand():
    """Two classes: of four examples one is wrong, so s ** 2 is 0.25; the other class has one, with the mean rate."""
    labels, p = np.array([0, 0, 0, 0, 1]), np.eye(2)[[0, 0, 0, 1, 1]]
    goal = parse_goal("mean", ("a", "b"), [4, 1])
    rate = 0.125
    expected = np.sqrt(0.25 * 0.25 / 4 + 0.25 * rate * (1 - rate))
    assert goal.standard_error(p, labels) == pytest.approx(100 * expected)


def test_words_and_units(goal):
    phrases = {
        "mean": "class-mean error",
        "worst": "mean error of the worst tenth of the classes",
        "overall": "overall error at the training prior",
        "cost": "mean cost at the training prior",
        "prior": "error under the prior of 0.2,0.3,0.5",
    }
    kind = goal.name.partition(":")[0]
    assert goal.describe() == phrases[kind]
    assert goal.unit == ("" if kind == "cost" else "%")


def test_a_prior_of_a_file(tmp_path):
    (tmp_path / "prior.txt").write_text("0.5\n0.25\n0.25\n")
    goal = parse_goal(f"prior:{tmp_path / 'prior.txt'}", CLASSES, COUNTS)
    assert goal.prior.tolist() == [0.5, 0.25, 0.25]
    assert goal.describe().endswith("prior.txt")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("wurst", ("unknown goal 'wurst'", "did you mean 'worst'?", *GOALS)),
        ("mean:x", ("unknown goal 'mean:x'", *GOALS)),
        ("", ("unknown goal ''",)),
        ("cost", ("goal 'cost'", "cost:FILE.csv")),
        ("prior:", ("goal 'prior:'", "prior:FILE")),
        ("cost:gone.csv", ("gone.csv does not exist", "a row for each class")),
        ("prior:gone.txt", ("'prior:gone.txt'", "a file of numbers that exists")),
        ("prior:0.5,0.5", ("'prior:0.5,0.5'", "3 probabilities that sum to 1")),
        ("prior:0.5,0.5,0.5", ("'prior:0.5,0.5,0.5'", "sum to 1")),
    ],
)
def test_other_goals_are_refused(text, facts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused(*facts):
        parse_goal(text, CLASSES, COUNTS)


def test_a_class_needs_two_examples_to_be_judged():
    mean = parse_goal("mean", CLASSES, COUNTS)
    check_judgeable([2, 3, 4], CLASSES, mean)
    with refused("class 'dog' has fewer than 2 examples"):
        check_judgeable([2, 1, 4], CLASSES, mean)
    with refused("'worst'", "the classes 'cat', 'dog' have"):
        check_judgeable([1, 0, 4], CLASSES, parse_goal("worst", CLASSES, COUNTS))
    check_judgeable([2, 1, 4], CLASSES, parse_goal("prior:0.5,0,0.5", CLASSES, COUNTS))
    with refused("'0', '1', '2', '3', '4' and 7 more"):
        check_judgeable([1] * 12, list(map(str, range(12))), Goal("mean", np.ones(12) / 12))


def test_nothing_is_adjusted_where_all_classes_are_alike(rng, goal):
    assert adjusts(COUNTS, goal)
    equal = Goal(goal.name, np.ones(3) / 3, goal.costs, goal.only_worst)
    assert not adjusts([7, 7, 7], equal)
    p, labels = examples(rng)
    assert best_tau(p, labels, [7, 7, 7], goal=equal) == 0
    adjusted = fit_adjustment(p, labels, [7, 7, 7], goal=equal, temperature=False)
    np.testing.assert_allclose(adjusted(p), p, rtol=1e-9)
    assert adjusts([7, 7, 7], Goal("prior:x", np.array([0.5, 0.4, 0.1])))


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_best_tau_of_a_goal_is_that_of_a_plain_search(rng, goal, temperature):
    p, labels = examples(rng, 500)
    values = {}
    for tau in GRID:
        bias = tau * np.log(COUNTS)
        adjusted = Adjustment(bias, goal.prior, tau, temperature)(p)
        values[tau] = round(goal.value(adjusted, labels), 8)
    tau = best_tau(p, labels, COUNTS, goal=goal, temperature=temperature)
    assert values[tau] == min(values.values())
    assert len(set(values.values())) > 1


def test_a_prior_and_a_goal_of_it_fit_the_same(rng):
    p, labels = examples(rng)
    prior = np.array([0.2, 0.3, 0.5])
    one, other = (
        fit_adjustment(p, labels, COUNTS, prior=prior),
        fit_adjustment(p, labels, COUNTS, goal=Goal("x", prior)),
    )
    assert (one.tau, one.temperature, one.prior.tolist()) == (other.tau, other.temperature, other.prior.tolist())
    with refused("both a prior and a goal"):
        fit_adjustment(p, labels, COUNTS, prior=prior, goal=Goal("x", prior))


def test_with_costs_tau_suits_the_temperature(rng, matrix):
    """Far too sure, the network is softened before tau is chosen for good."""
    p, labels = examples(rng, 800)
    p = softmax(4 * np.log(p), axis=1)
    goal = parse_goal(f"cost:{matrix}", CLASSES, COUNTS)
    adjustment = fit_adjustment(p, labels, COUNTS, goal=goal)
    first = best_tau(p, labels, COUNTS, goal=goal)
    once = fit_adjustment(p, labels, COUNTS, goal=goal, tau=first)
    assert adjustment.tau == best_tau(p, labels, COUNTS, goal=goal, temperature=once.temperature)
    assert goal.value(adjustment(p), labels) <= goal.value(p, labels)


def test_an_example_is_adjusted_by_what_the_others_say(rng, goal):
    from class_uncertainty.data import stratified

    p, labels = examples(rng)
    adjusted, part = cross_adjusted(p, labels, COUNTS, goal), stratified(labels, 5)
    np.testing.assert_allclose(adjusted.sum(axis=1), 1)
    out = part == 3
    fitted = fit_adjustment(p[~out], labels[~out], COUNTS, goal=goal)
    np.testing.assert_allclose(adjusted[out], fitted(p[out]), rtol=1e-12)
    changed = p.copy()
    changed[out] = changed[out][:, ::-1]
    fitted_to_others = cross_adjusted(changed, labels, COUNTS, goal)[out]
    np.testing.assert_allclose(fitted_to_others, fitted(changed[out]), rtol=1e-12)


@pytest.mark.parametrize("number", [40, 5, 3, 1])
def test_an_example_is_not_adjusted_by_what_its_group_says(rng, number):
    p, labels = examples(rng)
    groups, goal = 10 * rng.integers(0, number, len(labels)), Goal("mean", np.ones(3) / 3)  # numbered with gaps
    adjusted, others = cross_adjusted(p, labels, COUNTS, goal, groups=groups), groups == groups[0]
    others[0] = False
    changed = p.copy()
    changed[others] = changed[others][:, ::-1]  # the rest of the group of the first example
    again = cross_adjusted(changed, labels, COUNTS, goal, groups=groups)
    np.testing.assert_array_equal(again[0], adjusted[0])
    assert others.any()
    if number == 1:  # nothing is left to fit to
        np.testing.assert_allclose(adjusted, Adjustment.of(COUNTS, 1.0, goal.prior)(p))


@pytest.mark.parametrize("labels", [[0], [0, 1, 2], [0, 0, 0, 0, 0, 1], [2, 2]])
def test_few_examples_are_adjusted_all_the_same(rng, labels, goal):
    p = rng.dirichlet(np.ones(3), len(labels))
    adjusted = cross_adjusted(p, np.array(labels), COUNTS, goal)
    assert np.isfinite(adjusted).all()
    np.testing.assert_allclose(adjusted.sum(axis=1), 1)


def test_where_no_other_example_counts_tau_is_one():
    p = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]])
    goal = Goal("prior:x", np.array([0.5, 0, 0.5]))
    adjusted = cross_adjusted(p, np.array([0, 1]), COUNTS, goal)
    np.testing.assert_allclose(adjusted[0], Adjustment.of(COUNTS, 1.0, goal.prior)(p[0]))


def test_goals_that_weigh_classes_by_their_frequency(tmp_path):
    (tmp_path / "costs.csv").write_text("0,1\n9,0\n")
    (tmp_path / "prior.csv").write_text("0.9\n0.1\n")
    goals = ["mean", "worst", "overall", f"cost:{tmp_path}/costs.csv", f"prior:{tmp_path}/prior.csv"]
    weigh = [parse_goal(goal, ("a", "b"), (90, 10)).weighs_by_frequency for goal in goals]
    assert weigh == [False, False, True, True, False]
