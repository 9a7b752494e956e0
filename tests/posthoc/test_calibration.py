"""fit_adjustment() and clearly_best() against closed forms, brute force and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from posthoc.drawn_predictions import COUNTS, PRIOR, SIGNAL, drawn, judge
from refusals import refused
from scipy.special import softmax
from sklearn.metrics import log_loss

import class_uncertainty as cu
from class_uncertainty.posthoc import calibration
from class_uncertainty.posthoc.adjustment import GRID, Adjustment, best_tau
from class_uncertainty.posthoc.calibration import clearly_best, fit_adjustment
from class_uncertainty.posthoc.goal import Goal, parse_goal

pytestmark = pytest.mark.usefixtures("no_global_random")


def reference_weights(labels, prior):
    share = {c: float(np.mean(labels == c)) for c in set(labels.tolist())}
    raw = np.array([prior[c] / share[c] for c in labels.tolist()])
    return raw / raw.sum()


@pytest.mark.parametrize("sharpness", [0.5, 1.5, 4.5])
@pytest.mark.parametrize("prior", [None, PRIOR, COUNTS / COUNTS.sum()])
def test_the_temperature_undoes_a_sharpening(rng, sharpness, prior):
    """The true logits are SIGNAL z: a model with `sharpness` z is at the temperature sharpness / SIGNAL."""
    p, labels = drawn(rng, 1500, sharpness)
    adjustment = fit_adjustment(p, labels, COUNTS, tau=1, prior=prior)
    assert adjustment.temperature == pytest.approx(sharpness / SIGNAL, rel=0.05)
    before, after = (judge(cu.adjust(p, COUNTS, prior=prior), labels, prior), judge(adjustment(p), labels, prior))
    assert after.ece < 2
    assert after.nll <= before.nll + 1e-9


def test_the_temperature_is_that_of_a_plain_search(rng):
    """A grid search by the weighted log loss, with a share of wrong labels and the weak prior of log T."""
    p, labels = drawn(rng, [60, 20, 9, 2], 3)
    weights = reference_weights(labels, PRIOR)
    effective = 1 / sum(weights**2)
    grid = np.exp(np.linspace(0, 1.2, 241))
    powers = [(p / COUNTS**0.5) ** (1 / t) * PRIOR for t in grid]
    right = [(q / q.sum(axis=1, keepdims=True))[np.arange(len(labels)), labels] for q in powers]
    losses = [min(-np.log((1 - e) * p_right + e / 4) @ weights for e in calibration.WRONG) for p_right in right]
    best = grid[np.argmin(np.array(losses) + np.log(grid) ** 2 / (2 * effective))]
    assert fit_adjustment(p, labels, COUNTS, tau=0.5, prior=PRIOR).temperature == pytest.approx(best, rel=0.005)
    assert abs(best - 1) > 0.1


def test_the_temperature_changes_no_choice_under_equal_priors(rng):
    p, labels = drawn(rng, [60, 20, 9, 2], 6)
    adjustment = fit_adjustment(p, labels, COUNTS)
    assert abs(adjustment.temperature - 1) > 0.1
    assert np.array_equal(adjustment(p).argmax(axis=1), cu.adjust(p, COUNTS, adjustment.tau).argmax(axis=1))


@pytest.mark.parametrize("per_class", [1, 2, 50, 1000])
def test_examples_that_are_all_right_do_not_make_it_sure_of_everything(per_class):
    """The more there are, the surer it may be, within the bounds."""
    labels = np.repeat(np.arange(3), per_class)
    p = np.full((len(labels), 3), 0.15) + 0.55 * np.eye(3)[labels]
    adjustment = fit_adjustment(p, labels, [10, 10, 10])
    assert calibration.BOUNDS[0] < adjustment.temperature < 1
    assert adjustment(p).max() < 1
    sure = fit_adjustment(np.eye(3)[labels], labels, [10, 10, 10])
    assert calibration.BOUNDS[0] <= sure.temperature <= 1.01
    wrong = fit_adjustment(np.eye(3)[(labels + 1) % 3], labels, [10, 10, 10])
    assert (2 if per_class > 2 else 0.99) < wrong.temperature <= calibration.BOUNDS[1]


def test_wrong_labels_do_not_make_it_doubt_everything(rng):
    """2 % of the labels of a sure model are wrong: a temperature fitted to their NLL is several times too high."""
    labels = np.repeat(np.arange(4), 500)
    p = softmax(4 * (rng.normal(0, 1, (2000, 4)) + 4 * np.eye(4)[labels]), axis=1)  # calibrated as it is
    noisy = labels.copy()
    noisy[::50] = (noisy[::50] + 1) % 4
    grid = np.exp(np.linspace(-1, 2, 61))
    by_nll = grid[np.argmin([log_loss(noisy, (q := p ** (1 / t)) / q.sum(axis=1, keepdims=True)) for t in grid])]
    adjustment = fit_adjustment(p, noisy, COUNTS, tau=0.0)
    assert by_nll > 2
    assert adjustment.temperature < 1.1
    assert judge(adjustment(p), labels).ece < 1


def test_what_a_model_gets_wrong_does_not_make_it_surer(rng):
    """Sure errors on 5 % of the examples look like wrong labels: the model is left as it is, not sharpened."""
    labels = np.arange(3000) % 10
    wrong = rng.random(3000) < 0.05
    guess = np.where(wrong, (labels + 1) % 10, labels)
    p = softmax(rng.normal(0, 0.5, (3000, 10)) + np.where(wrong, 12, 6)[:, None] * np.eye(10)[guess], axis=1)
    assert fit_adjustment(p, labels, np.ones(10), tau=0.0).temperature == 1


def test_few_examples_move_the_temperature_little(rng):
    p, labels = drawn(rng, 1, 3)
    many = drawn(rng, 500, 3)
    assert abs(np.log(fit_adjustment(p, labels, COUNTS, tau=1).temperature)) < abs(
        np.log(fit_adjustment(*many, COUNTS, tau=1).temperature)
    )


def test_a_prior_of_0_leaves_its_class_out(rng):
    """What the class's examples say cannot matter where it does not occur."""
    p, labels = drawn(rng, 30, 3)
    prior = np.array([0.5, 0, 0.3, 0.2])
    adjustment = fit_adjustment(p, labels, COUNTS, tau=1, prior=prior)
    some = labels != 1
    assert adjustment.temperature == pytest.approx(
        fit_adjustment(p[some], labels[some], COUNTS, tau=1, prior=prior).temperature, rel=1e-6
    )
    assert np.isfinite(adjustment(p)).all()
    assert (adjustment(p)[:, 1] == 0).all()


def test_auto_is_best_tau_and_a_number_is_itself(rng):
    p, labels = drawn(rng, [60, 20, 9, 5])
    adjustment = fit_adjustment(p, labels, COUNTS, temperature=False)
    assert (adjustment.tau, adjustment.temperature) == (best_tau(p, labels, COUNTS), 1)
    assert np.array_equal(adjustment(p), cu.adjust(p, COUNTS, adjustment.tau))
    given = fit_adjustment(p, labels, COUNTS, tau=0.3, prior=PRIOR, temperature=False)
    assert np.array_equal(given(p), cu.adjust(p, COUNTS, 0.3, PRIOR))


def test_what_is_chosen_is_chosen_for_the_prior(rng):
    """By brute force: tau has the lowest error of p prior / N ** tau under that prior."""
    counts, differ = np.array([600, 150, 40, 10]), 0
    prior = counts / counts.sum()
    for _ in range(5):
        p, labels = drawn(rng, counts.tolist(), counts=counts)
        weight = (prior / np.bincount(labels))[labels]
        errors = [round(weight @ ((p * prior / counts**tau).argmax(axis=1) != labels), 9) for tau in GRID]
        equal, train, own = (
            fit_adjustment(p, labels, counts, prior=a, bias=b, temperature=b)
            for a, b in ((None, False), (prior, False), (prior, True))
        )
        assert errors[GRID.index(train.tau)] == min(errors)
        differ += train.tau != equal.tau
        for adjustment in (train, own):  # as in training, a model that is right is not made worse
            assert judge(adjustment(p), labels, prior).top1_error <= judge(p, labels, prior).top1_error + 0.5
    assert differ


@pytest.mark.parametrize("goal", ["mean", "worst", "overall"])
def test_a_weight_counts_as_so_many_repetitions(rng, goal):
    """Of whole weights, 0 among them; tau then differs from that of examples that count alike."""
    differ = 0
    for _ in range(3):
        p, labels = drawn(rng, 60)
        weights = rng.integers(0, 6, len(labels))
        rows, options = np.repeat(np.arange(len(labels)), weights), {"goal": parse_goal(goal, "abcd", COUNTS)}
        weighted, repeated, alike = (
            fit_adjustment(p[kept], labels[kept], COUNTS, temperature=False, weights=by, **options).tau
            for kept, by in ((slice(None), weights), (rows, None), (slice(None), None))
        )
        assert weighted == repeated
        in_other_units = fit_adjustment(p, labels, COUNTS, temperature=False, weights=weights * 1e307, **options)
        assert in_other_units.tau == weighted
        differ += weighted != alike
    assert differ


def test_a_temperature_is_fitted_to_weighted_examples(rng):
    """Those of another sharpness have the weight 0.001: the temperature is that of the others alone."""
    (p, labels), (others, their_labels) = drawn(rng, 400, 4.5), drawn(rng, 400, 0.5)
    both = np.concatenate([p, others]), np.concatenate([labels, their_labels])
    weights = np.repeat([1.0, 0.001], [len(p), len(others)])
    alone = fit_adjustment(p, labels, COUNTS, tau=1, bias=True)
    adjustment = fit_adjustment(*both, COUNTS, tau=1, bias=True, weights=weights)
    assert adjustment.temperature == pytest.approx(alone.temperature, rel=0.02)
    np.testing.assert_allclose(adjustment.bias, alone.bias, atol=0.1)
    assert fit_adjustment(*both, COUNTS, tau=1).temperature < 0.8 * alone.temperature


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ([1.0, 1.0], ["weights are float64 of shape (2,)", "each of 4 examples"]),
        (["1"] * 4, ["weights are <U1", "a number"]),
        ([1, -2, 1, 1], ["weight 1 is -2", "from 0"]),
        ([1, 1, 1, float("nan")], ["weight 3 is nan", "finite"]),
        ([0, 0, 0, 0], ["all weights are 0"]),
    ],
)
def test_wrong_weights_are_refused(weights, parts):
    p = np.full((4, 2), 0.5)
    with refused(*parts):
        fit_adjustment(p, [0, 0, 1, 1], [90, 10], weights=weights)


def test_tau_suits_the_temperature_where_that_changes_decisions(rng):
    """An overconfident model, used where classes are as frequent as in training: tau is the best one at its T."""
    counts = np.array([600, 150, 40, 10])
    goal = parse_goal("overall", "abcd", counts)
    for _ in range(8):
        p, labels = drawn(rng, counts.tolist(), counts=counts)
        sure = p**3 / (p**3).sum(axis=1, keepdims=True)
        adjustment = fit_adjustment(sure, labels, counts, goal=goal)
        assert adjustment.temperature > 1.5
        errors = [
            goal.value(
                replace(Adjustment.of(counts, tau, goal.prior), temperature=adjustment.temperature)(sure), labels
            )
            for tau in GRID
        ]
        assert goal.value(adjustment(sure), labels) == pytest.approx(min(errors))


def test_a_temperature_that_spoils_decisions_is_left_out(rng):
    """Tau alone tells the classes apart: softened by what suits the NLL, all would be the frequent one."""
    labels, prior = np.repeat([0, 1], [900, 100]), [0.9, 0.1]
    p = 0.7 - 0.3 * labels + 0.2 * rng.random(1000)
    p = np.stack([p, 1 - p], axis=1)
    goal = Goal("prior", np.array(prior))
    adjustment = fit_adjustment(p, labels, [900, 100], prior=prior)
    assert goal.value(adjustment(p), labels) == 0
    assert goal.value(p, labels) > 4
    # as many examples again that it makes right, and that hardly count
    more, hardly = np.repeat([[0.5, 0.5]], 900, axis=0), np.repeat([1.0, 1e-6], [1000, 900])
    both = np.concatenate([p, more]), np.concatenate([labels, np.zeros(900, dtype=int)])
    weighted, alike = (fit_adjustment(*both, [900, 100], prior=prior, weights=by) for by in (hardly, None))
    assert goal.value(weighted(p), labels) == 0
    assert goal.value(alike(p), labels) > 4


@pytest.mark.parametrize("examples", [1, 2, 3])
def test_hardly_any_examples(examples):
    p, labels = np.array([[0.9, 0.1], [0.0, 1.0], [1.0, 0.0]])[:examples], np.array([0, 1, 1])[:examples]
    adjustment = fit_adjustment(p, labels, [50, 2], bias=True)
    assert np.isfinite([*adjustment.bias, adjustment.tau, adjustment.temperature]).all()
    np.testing.assert_allclose(adjustment(p).sum(axis=1), 1)


@pytest.mark.parametrize("kind", [np.float16, np.float32, torch.float16, torch.bfloat16, torch.float64])
def test_any_kind_of_number(rng, kind):
    p, labels = drawn(rng, [60, 20, 9, 5])
    given = torch.tensor(p, dtype=kind) if isinstance(kind, torch.dtype) else p.astype(kind)
    adjustment = fit_adjustment(given, torch.tensor(labels), COUNTS, tau=1)
    exact = fit_adjustment(p, labels, COUNTS, tau=1)
    assert adjustment.temperature == pytest.approx(exact.temperature, rel=0.05)
    assert adjustment(given).dtype == given.dtype


def test_what_is_given_is_left_alone_and_fitted_alike_twice(rng):
    p, labels = drawn(rng, [60, 20, 9, 5])
    before = p.copy()
    one, other = (fit_adjustment(p, labels, COUNTS, bias=True, prior=PRIOR) for _ in range(2))
    assert np.array_equal(p, before)
    assert np.array_equal(one.bias, other.bias)
    assert one.temperature == other.temperature


def test_permuted_classes_are_fitted_alike(rng):
    p, labels = drawn(rng, [60, 20, 9, 5])
    order = np.array([2, 0, 3, 1])
    one = fit_adjustment(p, labels, COUNTS, prior=PRIOR)
    other = fit_adjustment(p[:, order], np.argsort(order)[labels], COUNTS[order], prior=PRIOR[order])
    np.testing.assert_allclose(other(p[:, order]), one(p)[:, order], rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"counts": [5, 5]}, ["counts have the shape (2,), and the unseen probabilities are of 4 classes"]),
        ({"counts": [5, 5, 0, 5]}, ["counts of class 2 is 0"]),
        ({"counts": "many"}, ["counts is 'many'"]),
        ({"tau": -1}, ["tau is -1"]),
        ({"tau": float("nan")}, ["tau is nan"]),
        ({"tau": "best"}, ["tau is 'best'"]),
        ({"prior": [0.5, 0.5, 0.5, 0.5]}, ["prior must be 4 probabilities that sum to 1"]),
        (
            {"prior": [0, 0, 0, 1], "labels": np.array([0, 1, 2])},
            ["the prior is 0 for every class that these examples have"],
        ),
        ({"labels": np.array([0, 1, 4])}, ["label of example 2 is 4"]),
        ({"labels": np.array([0, 1])}, ["one for each of 3 examples"]),
        ({"labels": np.array([0.0, 1.0, np.nan])}, ["labels are float64"]),
        ({"unseen": np.full((3, 4), 0.5)}, ["sum to 2"]),
        ({"unseen": np.full((3, 4), np.nan)}, ["are not finite"]),
        ({"unseen": np.full((2, 3, 4), 0.25)}, ["(2, 3, 4): they need (examples, classes)"]),
        (
            {"unseen": np.zeros((0, 4)), "labels": np.zeros(0, int)},
            ["(0, 4)", "there must be an example and two classes"],
        ),
    ],
)
def test_refusals(change, parts):
    given = {"unseen": np.full((3, 4), 0.25), "labels": np.array([0, 1, 3]), "counts": COUNTS} | change
    with refused(*parts):
        fit_adjustment(**given)


def test_an_adjustment_is_frozen():
    with pytest.raises(AttributeError):
        Adjustment.of(COUNTS).tau = 2


def test_another_is_clearly_best_by_more_than_its_standard_error():
    """Ten examples a class: b beats a on 2 of class 0, and loses on 1 of class 1."""
    labels = np.repeat([0, 1], 10)
    right = np.eye(2)[labels]

    def wrong_at(*places: int) -> np.ndarray:
        p = right.copy()
        p[list(places)] = p[list(places), ::-1]
        return p

    a, b, c = wrong_at(0, 1), wrong_at(10), wrong_at(0)
    # gain of b: (2 - 1) / 20 = 0.05, standard error sqrt(3) / 20 = 0.087
    # gain of c: 1 / 20, standard error 1 / 20: no more than it
    assert (
        clearly_best([a, b], labels)
        == clearly_best([a, c], labels)
        == clearly_best([a, a], labels)
        == clearly_best([right, a], labels)
        == 0
    )
    assert clearly_best([a, c, right], labels) == 2  # 2 / 20 against sqrt(2) / 20
    rare = np.array([0] * 10 + [1])  # one example of class 1 counts as much as ten of class 0, and is one example
    many = np.eye(2)[rare]
    worse, better = many.copy(), many.copy()
    worse[[0, 1, 2]] = [0.0, 1.0]
    better[10] = [1.0, 0.0]
    assert clearly_best([better, worse], rare) == 0
    hundred = np.array(
        [0] * 100 + [1] * 4
    )  # three of four rare ones won, and four of a hundred lost: 0.375 - 0.02 > sqrt(3) / 8
    first, second = np.eye(2)[hundred], np.eye(2)[hundred]
    first[100:103], second[:4] = [1.0, 0.0], [0.0, 1.0]
    assert clearly_best([first, second], hundred) == 1
    assert clearly_best([second, first], hundred) == 0
    assert clearly_best([worse, many], rare) == 1
