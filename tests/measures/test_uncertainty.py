"""Scores of member probabilities against SciPy and against Kwon et al.'s matrices, and every refusal."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from class_uncertainty import InputError, aleatoric, class_uncertainty, epistemic, kwon, predictive
from class_uncertainty.measures import SCORES, uncertainty
from class_uncertainty.measures.uncertainty import class_means, kwon_predictive, least_confidence, true_class

pytestmark = pytest.mark.usefixtures("no_global_random")
LABELS = np.random.default_rng(1).permutation(np.arange(40) % 7)


def members(seed=0, shape=(5, 40, 7), concentration=0.3):
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], concentration), size=shape[:-1])


def test_predictive_is_the_entropy_of_the_mean():
    p = members()
    np.testing.assert_allclose(predictive(p), entropy(p.mean(axis=0), axis=-1), rtol=1e-12)


def test_aleatoric_is_the_mean_of_the_entropies():
    p = members()
    np.testing.assert_allclose(aleatoric(p), np.mean([entropy(member, axis=-1) for member in p], axis=0), rtol=1e-12)


def test_epistemic_is_the_mean_divergence_from_the_mean():
    """The mutual information written otherwise: mean_t KL(p_t || mean p)."""
    p = members()
    np.testing.assert_allclose(
        epistemic(p), np.mean([entropy(member, p.mean(axis=0), axis=-1) for member in p], axis=0), rtol=1e-10
    )


def test_least_confidence_is_one_minus_the_largest_mean():
    p = members()
    expected = [1 - max(sum(p[t, n, c] for t in range(5)) / 5 for c in range(7)) for n in range(40)]
    np.testing.assert_allclose(least_confidence(p), expected, atol=1e-14)


def test_true_class_is_one_minus_the_mean_of_the_label():
    p = members()
    expected = [1 - sum(p[t, n, LABELS[n]] for t in range(5)) / 5 for n in range(40)]
    np.testing.assert_allclose(true_class(p, LABELS), expected, atol=1e-14)


def test_true_class_sees_an_error_that_entropy_does_not():
    """Sure and wrong: no entropy, all of the doubt; and it is least confidence where the members are right."""
    p = np.array([[[1.0, 0.0], [1.0, 0.0], [0.6, 0.4]]])
    assert predictive(p)[:2].tolist() == [0, 0]
    np.testing.assert_allclose(true_class(p, [1, 0, 0]), [1, 0, 0.4], atol=1e-15)
    np.testing.assert_allclose(least_confidence(p), [0, 0, 0.4], atol=1e-15)


def test_least_confidence_and_true_class_stay_within_their_bounds():
    """Rounding takes no score below 0; nothing is less sure than an equal share."""
    for classes in (2, 3, 7, 10):
        p = members(classes, (5, 40, classes), 0.05)
        labels = p.mean(axis=0).argmax(axis=-1)
        for u in (least_confidence(p), true_class(p, labels)):
            assert (u >= 0).all()
            assert (u <= 1 - 1 / classes + 1e-12).all()
        np.testing.assert_allclose(least_confidence(p), true_class(p, labels), atol=1e-15)
    sure = np.full((3, 1, 2), [1 + 1e-9, 0.0])
    assert least_confidence(sure).tolist() == true_class(sure, [0]).tolist() == [0]


BY_NAME = {  # what each row of SCORES is, from SciPy and NumPy alone
    "predictive": lambda p, y: entropy(p.mean(axis=0), axis=-1),
    "aleatoric": lambda p, y: np.mean([entropy(member, axis=-1) for member in p], axis=0),
    "epistemic": lambda p, y: np.mean([entropy(member, p.mean(axis=0), axis=-1) for member in p], axis=0),
    "kwon-aleatoric": lambda p, y: [np.trace(kwon_matrices(p[:, n])[0]) for n in range(p.shape[1])],
    "kwon-epistemic": lambda p, y: [np.trace(kwon_matrices(p[:, n])[1]) for n in range(p.shape[1])],
    "kwon-predictive": lambda p, y: [np.trace(np.sum(kwon_matrices(p[:, n]), axis=0)) for n in range(p.shape[1])],
    "least-confidence": lambda p, y: 1 - np.max(np.average(p, axis=0), axis=1),
    "true-class": lambda p, y: [1 - np.average(p[:, n, y[n]]) for n in range(p.shape[1])],
}


def test_every_score_has_a_reference():
    assert set(BY_NAME) == set(SCORES)


@pytest.mark.parametrize("name", SCORES)
def test_score_by_name(name):
    p = members()
    np.testing.assert_allclose(SCORES[name](p, LABELS), BY_NAME[name](p, LABELS), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", SCORES)
def test_only_one_score_looks_at_the_labels(name):
    p = members()
    assert np.array_equal(SCORES[name](p, LABELS), SCORES[name](p, (LABELS + 1) % 7)) == (name != "true-class")


def kwon_matrices(p):
    """(A, E) of one example from p (T, C), as in Kwon et al."""
    mean = p.mean(axis=0)
    a = sum(np.diag(q) - np.outer(q, q) for q in p) / len(p)
    e = sum(np.outer(q - mean, q - mean) for q in p) / len(p)
    return a, e


def test_kwon_is_the_trace_of_the_matrices():
    p = members()
    matrices = [kwon_matrices(p[:, n]) for n in range(p.shape[1])]
    a, e = kwon(p)
    np.testing.assert_allclose(a, [np.trace(m[0]) for m in matrices], rtol=1e-12)
    np.testing.assert_allclose(e, [np.trace(m[1]) for m in matrices], rtol=1e-12)


def test_kwon_predictive_is_the_variance_of_the_mean_prediction():
    """1 - ||mean p||^2: that of one draw from the mean prediction, 1 - 1 / C at most, 0 where members are sure."""
    assert kwon_predictive(np.array([[[0.8, 0.2], [1.0, 0.0]], [[0.4, 0.6], [1.0, 0.0]]])).tolist() == [
        pytest.approx(2 * 0.6 * 0.4),
        0.0,
    ]
    np.testing.assert_allclose(kwon_predictive(np.full((3, 2, 5), 0.2)), 1 - 1 / 5, rtol=1e-12)
    np.testing.assert_allclose(kwon_predictive(members()), sum(kwon(members())), rtol=1e-10)


def test_kwon_matrices_add_up():
    """A + E = diag(mean p) - mean p mean p', and so do the traces that we return."""
    p = members()
    mean = p.mean(axis=0)
    for n in range(p.shape[1]):
        np.testing.assert_allclose(
            sum(kwon_matrices(p[:, n])), np.diag(mean[n]) - np.outer(mean[n], mean[n]), atol=1e-15
        )
    np.testing.assert_allclose(sum(kwon(p)), 1 - (mean**2).sum(axis=-1), rtol=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(2, 12), st.sampled_from([0.01, 0.1, 1.0, 100.0]))
def test_bounds_and_the_sum(seed, count, classes, concentration):
    p = members(seed, (count, 8, classes), concentration)
    whole, noise, doubt = predictive(p), aleatoric(p), epistemic(p)
    for u in (whole, noise, doubt):
        assert u.shape == (8,)
        assert (u >= 0).all()
        assert (u <= math.log(classes) + 1e-12).all()
    np.testing.assert_allclose(whole, noise + doubt, atol=1e-12)
    assert all((u >= 0).all() for u in kwon(p))


def test_identical_members_have_no_epistemic_part():
    p = np.repeat(members()[:1], 4, axis=0)
    np.testing.assert_allclose(epistemic(p), 0, atol=1e-14)
    np.testing.assert_allclose(kwon(p)[1], 0, atol=1e-30)
    np.testing.assert_allclose(predictive(p), predictive(p[:1]), rtol=1e-14)


def test_hand_computed_extremes():
    sure, split, flat = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]
    p = np.array([[sure, sure, flat], [sure, split, flat]])  # agreed and sure; sure and opposed; agreed and unsure
    np.testing.assert_allclose(predictive(p), [0, math.log(2), math.log(2)], atol=1e-15)
    np.testing.assert_allclose(aleatoric(p), [0, 0, math.log(2)], atol=1e-15)
    np.testing.assert_allclose(epistemic(p), [0, math.log(2), 0], atol=1e-15)
    np.testing.assert_allclose(kwon(p)[0], [0, 0, 0.5], atol=1e-15)
    np.testing.assert_allclose(kwon(p)[1], [0, 0.5, 0], atol=1e-15)


def test_order_of_members_and_classes_does_not_matter(rng):
    p, order = members(), rng.permutation(7)
    moved = p[rng.permutation(5)][..., order]
    for score in SCORES.values():
        np.testing.assert_allclose(score(moved, np.argsort(order)[LABELS]), score(p, LABELS), atol=1e-12)


DTYPES = {
    "float16 array": (lambda p: p.astype(np.float16), 2**-10),
    "float32 array": (lambda p: p.astype(np.float32), 2**-23),
    "float64 array": (lambda p: p, 2**-52),
    "list": (lambda p: p.tolist(), 2**-52),
    "bfloat16 tensor": (lambda p: torch.tensor(p, dtype=torch.bfloat16), 2**-7),
    "float16 tensor": (lambda p: torch.tensor(p, dtype=torch.float16), 2**-10),
    "float32 tensor": (lambda p: torch.tensor(p, dtype=torch.float32), 2**-23),
    "float64 tensor": (lambda p: torch.tensor(p), 2**-52),
    "tensor with a gradient": (lambda p: torch.tensor(p, requires_grad=True), 2**-52),
}


@pytest.mark.parametrize("kind", DTYPES)
def test_every_floating_type_agrees_within_its_resolution(kind):
    """An entropy moves by at most about C log C times the rounding of a probability."""
    convert, resolution = DTYPES[kind]
    p, labels = members(concentration=1.0), np.arange(40) % 7
    tolerance = 7 * math.log(7) * resolution
    for score in SCORES.values():
        u = score(convert(p), torch.tensor(labels))
        assert u.dtype == np.float64
        np.testing.assert_allclose(u, score(p, labels), atol=tolerance)
    np.testing.assert_allclose(
        class_uncertainty(convert(p), torch.tensor(labels)), class_uncertainty(p, labels), atol=tolerance
    )


def test_class_uncertainty_is_the_mean_over_each_class():
    """Eq. 9 by a plain loop, for every score."""
    p, labels = members(), LABELS
    for score in SCORES.values():
        u = score(p, labels)
        expected = [sum(u[i] for i in range(40) if labels[i] == c) / sum(labels == c) for c in range(7)]
        np.testing.assert_allclose(class_means(u, labels, 7), expected, rtol=1e-12)
    for score in (predictive, aleatoric, epistemic, least_confidence):
        assert np.array_equal(class_uncertainty(p, labels, score), class_means(score(p), labels, 7))


def test_class_uncertainty_uses_the_predictive_score():
    p, labels = members(), np.arange(40) % 7
    assert np.array_equal(class_uncertainty(p, labels), class_uncertainty(p, labels, predictive))
    assert not np.allclose(class_uncertainty(p, labels), class_uncertainty(p, labels, aleatoric))


def test_rows_within_rounding_of_one_are_normalised():
    p = members()
    np.testing.assert_allclose(predictive(p * 1.0005), predictive(p), rtol=1e-12)


def changed(value, at=(2, 3, 1)):
    p = members()
    p[at] = value
    return p


REFUSED = {
    "sum over 1": (members() * 1.1, r"^probabilities of member 0, example 0 sum to 1\.1: every row must sum to 1"),
    "sum under 1": (members() * 0.99, r"^probabilities of member 0, example 0 sum to 0\.99: "),
    "one row": (
        np.concatenate([members(), members() / 2])[:, :4],
        r"^probabilities of member 5, example 0 sum to 0\.5: ",
    ),
    "logits": (np.ones((2, 3, 4)), r"sum to 4: .*logits need a softmax"),
    "nan": (changed(np.nan), r"^probabilities of member 2, example 3 are not finite\.$"),
    "infinite": (changed(np.inf), r"^probabilities of member 2, example 3 are not finite\.$"),
    "negative": (changed(-0.25), r"^probability of member 2, example 3, class 1 is -0\.25: it must not be negative\.$"),
    "no member": (
        np.ones((0, 3, 2)),
        r"^probabilities have shape \(0, 3, 2\): there must be a member, an example and two classes",
    ),
    "no example": (np.ones((3, 0, 2)), r"^probabilities have shape \(3, 0, 2\): there must be a member, an example"),
    "one class": (np.ones((3, 5, 1)), r"^probabilities have shape \(3, 5, 1\): "),
    "two axes": (
        members()[0],
        r"^probabilities have shape \(40, 7\): they need \(members, examples, classes\), .*p\[None\]",
    ),
    "four axes": (members()[None], r"^probabilities have shape \(1, 5, 40, 7\): "),
    "integers": (np.ones((1, 3, 2), dtype=int), r"^probabilities are int64: they must be floating point numbers\.$"),
    "integer tensor": (torch.ones((1, 3, 2), dtype=torch.int32), r"^probabilities are int32: "),
    "truth values": (np.ones((1, 3, 2), dtype=bool), r"^probabilities are bool: "),
    "bfloat16 sum": (torch.full((1, 1, 2), 0.6, dtype=torch.bfloat16), r"sum to 1\.2"),
}
FUNCTIONS = {
    **{name: lambda p, score=score: score(p, np.arange(40) % 7) for name, score in SCORES.items()},
    "kwon": kwon,
    "class_uncertainty": lambda p: class_uncertainty(p, np.arange(40) % 7),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_probabilities_refused(function, case):
    p, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        FUNCTIONS[function](p)


LABELS_REFUSED = {
    "too large": (np.r_[np.arange(39) % 7, 7], r"^label of example 39 is 7: labels run from 0 to 6\.$"),
    "negative": (np.r_[-1, np.arange(39) % 7], r"^label of example 0 is -1: labels run from 0 to 6\.$"),
    "floats": (np.arange(40) % 7 * 1.0, r"^labels are float64: they must be whole numbers from 0 to 6\.$"),
    "float tensor": (torch.zeros(40), r"^labels are float32: "),
    "too few": (np.arange(39) % 7, r"^labels have shape \(39,\): there must be one for each of 40 examples\.$"),
    "a matrix": (np.zeros((40, 1), dtype=int), r"^labels have shape \(40, 1\): "),
    "a class without examples": (np.arange(40) % 6, r"^class 6 has no examples: its uncertainty is not defined\.$"),
    "words": (np.array(["a"] * 40), r"^labels are <U1: "),
}


@pytest.mark.parametrize("case", LABELS_REFUSED)
def test_labels_refused(case):
    labels, message = LABELS_REFUSED[case]
    with pytest.raises(InputError, match=message):
        class_uncertainty(members(), labels)


@pytest.mark.parametrize("case", [case for case in LABELS_REFUSED if case != "a class without examples"])
def test_labels_of_the_true_class_refused(case):
    labels, message = LABELS_REFUSED[case]
    with pytest.raises(InputError, match=message):
        true_class(members(), labels)


@pytest.mark.parametrize("name", SCORES)
def test_examples_are_scored_alike_however_they_are_cut(name, monkeypatch):
    """Blocks of one example, of three and of all: the same bits."""
    p = members()
    whole = SCORES[name](p, LABELS)
    for size in (1, 5 * 7 * 3 + 2):
        monkeypatch.setattr(uncertainty, "BLOCK", size)
        assert np.array_equal(SCORES[name](p, LABELS), whole)
    assert [block.shape[1] for _, block in uncertainty.checked_blocks(p)] == [3] * 13 + [1]
    p[2, 31, 4] = np.nan
    with pytest.raises(InputError, match="member 2, example 31"):
        SCORES[name](p, LABELS)
