"""label_noise(): on data drawn from its model it gives Bayes' posterior, and clean labels are left alone."""

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax

from class_uncertainty.posthoc import noise_model
from class_uncertainty.posthoc.noise_model import label_noise

N, C = 4000, 5


def symmetric(rate: float) -> np.ndarray:
    return np.full((C, C), rate / (C - 1)) + np.eye(C) * (1 - rate - rate / (C - 1))


def mixed_up_pairs(rate: float) -> np.ndarray:
    """0 and 1, and 2 and 3, are written for each other; 4 is always right."""
    flips = np.eye(C)
    for one, other in ((0, 1), (1, 0), (2, 3), (3, 2)):
        flips[one, one], flips[one, other] = 1 - rate, rate
    return flips


def drawn(rng: np.random.Generator, flips: np.ndarray, sharpness: float = 3.0, examples: int = N):
    """Exact class probabilities, true classes drawn by them, and labels drawn by the flips."""
    q = softmax(sharpness * rng.normal(size=(examples, C)), axis=1)
    truth = (rng.random((examples, 1)) > q.cumsum(axis=1)).sum(axis=1).clip(max=C - 1)
    labels = (rng.random((examples, 1)) > flips[truth].cumsum(axis=1)).sum(axis=1).clip(max=C - 1)
    return q, truth, labels


def posterior(q: np.ndarray, labels: np.ndarray, flips: np.ndarray) -> np.ndarray:
    """P(truth is not the label | inputs, label), example by example."""
    wrong = [sum(row[k] * flips[k, i] for k in range(C) if k != i) for row, i in zip(q, labels, strict=True)]
    right = [row[i] * flips[i, i] for row, i in zip(q, labels, strict=True)]
    return np.array(wrong) / (np.array(wrong) + np.array(right))


@pytest.mark.parametrize("flips", [symmetric(0.08), mixed_up_pairs(0.1)], ids=["symmetric", "pairs"])
def test_data_from_the_model_give_the_posterior(rng, flips):
    q, _, labels = drawn(rng, flips)
    noise = label_noise(q, labels)
    exact = posterior(q, labels, flips)
    assert np.abs(noise.p_wrong - exact).mean() < 0.01
    assert np.abs(noise.flips - flips).max() < 0.03
    assert np.abs(noise.probabilities - q).mean() < 0.02
    # the list is as good as that of someone who knows the noise
    assert ((noise.p_wrong > 0.5) != (exact > 0.5)).sum() < 0.01 * N


@pytest.mark.parametrize("sharpness", [1.0, 6.0])
def test_a_classifier_that_is_wrong_as_often_as_it_says_doubts_no_labels(rng, sharpness):
    q, _, labels = drawn(rng, np.eye(C), sharpness)
    assert (q.argmax(axis=1) != labels).mean() > 0.05
    assert len(label_noise(q, labels).ranked) <= 0.002 * N


def test_overconfidence_and_a_wrong_prior_are_corrected(rng):
    """Powers of the probabilities and factors of the classes change nothing: they are fitted."""
    q, _, labels = drawn(rng, symmetric(0.05))
    distorted = q**2.5 * [1, 2, 1, 0.5, 1]
    distorted /= distorted.sum(axis=1, keepdims=True)
    plain, corrected = label_noise(q, labels), label_noise(distorted, labels)
    assert np.abs(plain.p_wrong - corrected.p_wrong).mean() < 0.01


def test_confident_mistakes_between_two_classes_are_no_flips(rng):
    """A tenth of the examples of 0 look like 1, and the network is sure: any other class alike is written down."""
    q, truth, labels = drawn(rng, symmetric(0.08), sharpness=6)
    mistaken = (truth == 0) & (rng.random(N) < 0.1)
    p = np.where(mistaken[:, None], q[:, [1, 0, 2, 3, 4]], q)
    by_pairs, alike = (noise_model._held_out(np.log(p)[None], labels, by_pairs) for by_pairs in (True, False))
    assert by_pairs.sum() > alike.sum()  # a rate for each pair explains the labels better
    flips = label_noise(p, labels).flips
    assert np.ptp(flips[~np.eye(C, dtype=bool)]) < 1e-12


@pytest.mark.parametrize(
    ("rates", "alike"),
    [
        ([[0.9, 0.1], [0.1, 0.9]], True),
        ([[0.9, 0.1], [0.0, 1.0]], False),  # of two, the lower one counts
        (symmetric(0.08), True),
        (symmetric(0.08) + np.outer(np.eye(C)[0], [-0.1, 0.1, 0, 0, 0]), True),  # a pair of six times the rate
        (mixed_up_pairs(0.1), False),
        (np.array([[0.8, 0.06, 0.14], [0.0, 0.8, 0.2], [0.04, 0.16, 0.8]]), True),  # a median of 0.06, a mean of 0.1
        (np.array([[0.8, 0.04, 0.16], [0.0, 0.8, 0.2], [0.02, 0.18, 0.8]]), False),  # 0.04
    ],
)
def test_rates_are_alike_where_the_median_is_half_of_the_mean(rates, alike):
    assert noise_model._are_alike(np.array(rates)) == alike


def test_issues_are_ranked_and_guessed(rng):
    q, truth, labels = drawn(rng, symmetric(0.05), sharpness=8)
    noise = label_noise(q, labels)
    assert (np.diff(noise.p_wrong[noise.ranked]) <= 0).all()
    assert set(noise.ranked) == set(np.flatnonzero(noise.is_issue))
    wrong = noise.ranked[labels[noise.ranked] != truth[noise.ranked]]
    assert len(wrong) > 0.8 * len(noise.ranked)
    assert (noise.guesses[wrong] == truth[wrong]).mean() > 0.9
    assert (noise.guesses != labels).all()


def test_members_are_pooled_by_their_geometric_mean(rng):
    q, _, labels = drawn(rng, symmetric(0.05))
    members = np.stack([q * rng.uniform(0.5, 2, q.shape) for _ in range(3)])
    members /= members.sum(axis=2, keepdims=True)
    pooled = np.exp(np.log(np.maximum(members, 1e-6)).mean(axis=0))
    expected = label_noise(pooled / pooled.sum(axis=1, keepdims=True), labels)
    assert np.allclose(label_noise(members, labels).p_wrong, expected.p_wrong, atol=0.01)


def test_a_further_source_counts_for_what_it_is_worth(rng):
    """Half of the evidence each: together it is all of it. Chance is ignored."""
    z, flips = 3 * rng.normal(size=(N, C)), symmetric(0.05)
    q = softmax(z, axis=1)
    truth = np.array([rng.choice(C, p=row) for row in q])
    labels = np.array([rng.choice(C, p=flips[k]) for k in truth])
    part = rng.normal(size=(N, C))
    whole = label_noise(q, labels)
    together = label_noise(softmax(z / 2 + part, axis=1), labels, [softmax(z / 2 - part, axis=1)])
    alone = label_noise(softmax(z / 2 + part, axis=1), labels)
    assert np.abs(whole.p_wrong - together.p_wrong).mean() < 0.01 < np.abs(whole.p_wrong - alone.p_wrong).mean()
    beside_chance = label_noise(q, labels, [softmax(rng.normal(size=(N, C)), axis=1)])
    assert np.abs(whole.p_wrong - beside_chance.p_wrong).mean() < 0.01


@pytest.mark.parametrize(("examples", "by_pairs"), [(C**2 - 1, False), (C**2, True)])
def test_a_rate_for_each_pair_needs_as_many_examples_as_pairs(monkeypatch, examples, by_pairs):
    monkeypatch.setattr(noise_model, "is_clear", lambda *_: True)
    monkeypatch.setattr(noise_model, "_are_alike", lambda _: False)
    truth = np.arange(examples) % C
    labels = np.where(np.arange(examples) == 0, 1, truth)  # one label of class 0 is written as 1
    flips = label_noise(softmax(9 * np.eye(C)[truth], axis=1), labels).flips
    off_diagonal = flips[~np.eye(C, dtype=bool)]
    assert (np.ptp(off_diagonal) > 1e-3) == by_pairs


def test_rates_for_pairs_start_from_symmetric_noise():
    """10 of 100 examples of class 0 are labelled 1: flips are shares of 100 + C examples, C of them symmetric."""
    truth = np.repeat(np.arange(C), 100)
    labels = np.where(np.arange(500) < 10, 1, truth)
    p = np.maximum(np.eye(C)[truth], 1e-6)
    model = noise_model._fit(np.log(p)[None], labels, by_pairs=True)
    rate = 10 / 500
    expected = np.array([90 + C * (1 - rate), 10 + C * rate / 4, *[C * rate / 4] * 3]) / (100 + C)
    np.testing.assert_allclose(model.flips[0], expected, atol=5e-4)


def test_weights_stay_finite():
    """Probabilities that are hardly apart and always right ask for an infinite weight."""
    labels = np.arange(2000) % 2
    p = np.where(labels[:, None] == [0, 1], 0.502, 0.498)
    assert noise_model._fit(np.log(p)[None], labels, by_pairs=False).weights == pytest.approx([3.0])


def test_many_examples_are_judged_by_a_model_of_a_part(rng, monkeypatch):
    q, _, labels = drawn(rng, symmetric(0.08))
    whole = label_noise(q, labels)
    monkeypatch.setattr(noise_model, "FITTED", N * C // 2)
    part = label_noise(q, labels)
    assert part.p_wrong.shape == (N,)
    assert 0 < np.abs(part.p_wrong - whole.p_wrong).mean() < 0.01


def test_nothing_is_said_of_a_class_that_networks_do_not_know():
    labels = np.repeat([0, 1, 2], [200, 200, 20])
    p = softmax(6 * np.eye(3)[np.where(labels == 2, 0, labels)], axis=1)
    p[0] = p[-30]  # one label of another class is wrong
    noise = label_noise(p, labels)
    assert noise.p_wrong[-20:].min() > 0.5
    assert noise.ranked.tolist() == [0]


def test_half_of_a_class_is_too_much_and_even_odds_too_little():
    """Of class 0 a label in four is doubted, of class 1 two; of class 2 one has even odds."""
    p_wrong = np.array([0.51, 0, 0, 0, 0.9, 0.9, 0, 0, 0.5, 0, 0, 0])
    labels = np.repeat([0, 1, 2], 4)
    noise = noise_model.LabelNoise(p_wrong, (labels + 1) % 3, np.full((12, 3), 1 / 3), np.eye(3), labels)
    assert noise.ranked.tolist() == [0]


def test_the_list_is_at_least_that_of_confident_learning(rng):
    """Of as many labels as cleanlab lists, at least as many are wrong."""
    filters = pytest.importorskip("cleanlab.filter")
    for flips in (symmetric(0.05), mixed_up_pairs(0.08)):
        q, truth, labels = drawn(rng, flips)
        theirs = filters.find_label_issues(labels, q, n_jobs=1)
        ours = np.argsort(-label_noise(q, labels).p_wrong)[: theirs.sum()]
        assert (labels != truth)[ours].sum() >= (labels != truth)[theirs].sum()


def test_bad_input_is_refused():
    p, labels = np.full((4, 2), 0.5), np.array([0, 1, 0, 1])
    with refused("a further source has shape (4, 3)", "(4, 2)"):
        label_noise(p, labels, [np.full((4, 3), 1 / 3)])
    with refused("labels have shape (3,)"):
        label_noise(p, labels[:3])
    with refused("not finite"):
        label_noise(p * np.nan, labels)
