"""Both sides of a remedy, labels that look wrong, and classes in plain words."""

import base64
import io
import json
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image
from refusals import refused
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, log_loss

from class_uncertainty import Data
from class_uncertainty.remedies.diagnosis import Finding, Mended, costly, findings, side, suspects

COUNTS = np.array([60, 20, 5, 2])
NAMES = ("wolf", "dog", "seal", "otter")


@pytest.fixture
def labels(rng: np.random.Generator) -> np.ndarray:
    labels = rng.choice(4, size=200, p=[0.6, 0.25, 0.1, 0.05])
    labels[:4] = range(4)
    return labels


@pytest.fixture
def p(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    return softmax(rng.normal(0, 1, (3, 200, 4)) + np.eye(4)[labels], axis=-1)


def test_errors_and_confusions_are_scikit_learns(p, labels):
    found = side(p, labels, COUNTS)
    guesses = p.argmax(axis=2)
    np.testing.assert_allclose(found.errors, [100 * (1 - balanced_accuracy_score(labels, guess)) for guess in guesses])
    matrices = 100 * np.array([confusion_matrix(labels, guess, normalize="true") for guess in guesses])
    np.testing.assert_allclose(found.confusion, matrices.mean(axis=0))
    np.testing.assert_allclose(found.class_errors, 100 - matrices.diagonal(axis1=1, axis2=2))
    np.testing.assert_allclose(found.worst, np.max(found.class_errors, axis=1))  # a tenth of four classes is one
    np.testing.assert_allclose(found.means, 100 - matrices.mean(axis=0).diagonal())


@pytest.mark.parametrize("prior", [None, (0.7, 0.1, 0.2, 0.0)])
def test_calibration_weighs_classes_by_the_prior(p, labels, prior):
    """scikit-learn's weighted log loss; the calibration error as a plain loop over bins."""
    found = side(p, labels, COUNTS, prior)
    wanted = np.full(4, 0.25) if prior is None else np.array(prior)
    weights = (wanted / np.bincount(labels))[labels]
    assert found.nll == pytest.approx(np.mean([log_loss(labels, each, sample_weight=weights, labels=range(4)) for each in p]))
    pooled, ece, total = p.reshape(-1, 4), 0.0, np.tile(weights, 3) / 3
    sure, right = pooled.max(axis=1), pooled.argmax(axis=1) == np.tile(labels, 3)
    for low in np.arange(15) / 15:
        inside = (sure > low) & (sure <= low + 1 / 15)
        ece += abs((total * (right - sure.astype(float)))[inside].sum())
    assert found.ece == pytest.approx(100 * ece)
    assert sum(each.share for each in found.bins) == pytest.approx(1)
    assert sum(each.share * each.accuracy for each in found.bins) == pytest.approx(total @ right)
    assert sum(each.share * each.confidence for each in found.bins) == pytest.approx(total @ sure)


def test_a_side_does_not_depend_on_how_often_a_class_is_judged(p, labels):
    again = np.concatenate([np.arange(200), np.flatnonzero(labels == 0)])
    once, twice = side(p, labels, COUNTS), side(p[:, again], labels[again], COUNTS)
    assert (twice.nll, twice.ece) == pytest.approx((once.nll, once.ece))
    assert side(p, labels, COUNTS, (0.7, 0.1, 0.1, 0.1)).nll != pytest.approx(once.nll)
    assert side(p, labels, COUNTS, np.full(4, 0.2502)).nll == pytest.approx(once.nll, rel=1e-9)  # rounded, as people write them


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_side_of_coarse_probabilities(p, labels, kind):
    assert side(p.astype(kind), labels, COUNTS).nll == pytest.approx(side(p, labels, COUNTS).nll, rel=1e-3)


def test_a_side_of_sure_networks_is_finite():
    found = side(np.array([[[1.0, 0.0], [1.0, 0.0]]]), [0, 1], [2, 2])
    assert (found.errors, found.class_errors, found.confusion) == ((50.0,), ((0.0, 100.0),), ((100.0, 0.0), (100.0, 0.0)))
    assert [(each.share, each.confidence, each.accuracy) for each in found.bins] == [(1.0, 1.0, 0.5)]
    assert found.ece == 50
    assert 0 < found.nll < 100


def test_a_side_is_refused_by_name(p, labels):
    with refused("class 3", "not defined"):
        side(p[:, labels < 3], labels[labels < 3], COUNTS)
    with refused("(3,)", "4 classes"):
        side(p, labels, COUNTS[:3])
    for prior in ((0.5, 0.5), (0.5, 0.5, 0.5, -0.5), (np.nan, 0.5, 0.25, 0.25), (1, 1, 1, 1)):
        with refused("prior", "4 probabilities"):
            side(p, labels, COUNTS, prior)
    with refused("not finite"):
        side(np.full_like(p, np.nan), labels, COUNTS)
    with refused("two classes"):
        side(np.ones((1, 3, 1)), [0, 0, 0], [3])
    with refused("shape"):
        side(p[0], labels, COUNTS)
    with refused("shape"):
        side(p[:, :0], labels[:0], COUNTS)


def test_mended_goes_through_json(p, labels):
    found = side(p, labels, COUNTS)
    train = Data(np.zeros((200, 3, 5, 4), np.uint8), labels, NAMES)
    planted = suspects(p, labels, train, most=3)
    sentences = findings(NAMES, COUNTS, found.means, found.confusion, [1, 2, 3, 4])
    mended = Mended(
        "x", "distil", 3, NAMES, (60, 20, 5, 2), 1.0, 2.0, 6.0, "two", found, found, tuple(sentences), tuple(planted), "A note."
    )
    assert planted
    assert sentences
    assert Mended.from_document(json.loads(json.dumps(asdict(mended), allow_nan=False))) == mended


# Suspects


def planted(rng: np.random.Generator, tail: tuple[int, ...] = (250, 120, 70, 40, 20), flipped: int = 15, members: int = 1):
    """Posteriors of networks that know p(x | y) and the noisy counts: some labels moved to another class."""
    classes = len(tail)
    truth = np.repeat(np.arange(classes), tail)
    x = rng.normal(0, 1, (members, len(truth), classes)) * 0.5 + rng.normal(0, 1, (len(truth), classes)) + 5 * np.eye(classes)[truth]
    labels, wrong = truth.copy(), rng.choice(len(truth), flipped, replace=False)
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, flipped)) % classes
    p = softmax(2 * x + np.log(np.bincount(labels)), axis=-1)
    return p if members > 1 else p[0], labels, set(wrong.tolist())


@pytest.mark.parametrize("members", [1, 3])
def test_planted_labels_are_found_and_few_others(rng, members):
    p, labels, wrong = planted(rng, members=members)
    found = suspects(p, labels, Data(np.zeros((len(labels), 2)), labels, [*"abcde"]))
    known = {each.index for each in found}
    assert len(known & wrong) >= 12
    assert len(known - wrong) <= 3
    gaps = [each.p_guess - each.p_label for each in found]
    assert gaps == sorted(gaps, reverse=True)
    for each in found:
        assert each.label == "abcde"[labels[each.index]]
        assert each.label != each.guess
        assert each.picture == ""
    assert suspects(p, labels, Data(np.zeros((len(labels), 2)), labels, [*"abcde"]), most=4) == found[:4]


def test_a_rare_class_is_not_suspect_for_being_rare():
    """Networks that call half of the rare class frequent, for its count alone: adjusted they know it, so no label is doubted."""
    counts = np.array([400, 10])
    labels = np.repeat([0, 1], counts)
    likelihood = np.where(np.arange(410) < 400, 0.02, np.where(np.arange(410) % 2, 0.9, 0.999))  # of the rare class
    p = np.stack([(1 - likelihood) * 400, likelihood * 10], axis=1)
    p /= p.sum(axis=1, keepdims=True)
    assert (p[labels == 1].argmax(axis=1) == 0).sum() == 5
    assert suspects(p, labels, Data(np.zeros((410, 1)), labels)) == []


def test_a_frequent_class_is_not_suspect_for_the_adjustment_alone():
    """Without it the label is the likelier: only what both say is doubted."""
    labels = np.repeat([0, 1], [90, 10])
    p = np.where(labels[:, None] == 0, [0.99, 0.01], [0.6, 0.4])
    p[0] = 0.55, 0.45  # adjusted it is 0.12, 0.88, and class 1 is usually 0.86
    p[1] = 0.2, 0.8
    assert [each.index for each in suspects(p, labels, Data(np.zeros((100, 1)), labels))] == [1]


def test_members_must_agree():
    labels = np.repeat([0, 1, 2], 10)
    p = np.stack([np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])[labels]] * 2)
    p[:, 0], p[:, 1] = (0.02, 0.96, 0.02), (0.02, 0.96, 0.02)
    p[1, 1] = 0.02, 0.48, 0.5  # their mean is still surer than is usual for class 1
    data = Data(np.zeros((30, 1)), labels)
    assert [(each.index, each.label, each.guess) for each in suspects(p, labels, data)] == [(0, "0", "1")]
    assert [each.index for each in suspects(p[0], labels, data)] == [0, 1]


def test_a_suspect_is_called_as_the_example_is():
    labels = np.repeat([0, 1], 10)
    p = np.eye(2)[labels]
    p[7] = 0, 1
    named = Data(np.zeros((20, 1)), labels, names=[f"dogs/{i}\x1b[31m.png" for i in range(20)])
    for data, name in ((named, "dogs/7\\x1b[31m.png"), (Data(np.zeros((20, 1)), labels), "no. 7")):
        assert [each.name for each in suspects(p, labels, data)] == [name]


def test_a_label_that_is_as_likely_as_is_usual_for_its_class_is_not_suspect():
    labels = np.repeat([0, 1, 2], 10)
    p = np.array([[0.2, 0.1, 0.7], [0.3, 0.65, 0.05], [0.05, 0.05, 0.9]])[labels]
    p[0] = 0.3, 0.7, 0.0
    data = Data(np.zeros((30, 1)), labels)
    assert suspects(p, labels, data) == []
    p[0] = 0.1, 0.9, 0.0
    assert [each.index for each in suspects(p, labels, data)] == [0]


def test_thresholds_are_the_class_means():
    """A guess that is weaker than is usual for its class does not do."""
    labels = np.repeat([0, 1], 10)
    p = np.where(labels[:, None] == 0, [0.9, 0.1], [0.1, 0.9])
    p[0] = 0.3, 0.7  # class 1 is usually 0.9
    data = Data(np.zeros((20, 1)), labels)
    assert suspects(p, labels, data) == []
    p[0] = 0.05, 0.95
    (found,) = suspects(p, labels, data)
    assert (found.p_label, found.p_guess) == pytest.approx((0.05, 0.95))


def test_nothing_is_said_of_a_class_that_networks_do_not_know():
    labels = np.repeat([0, 1, 2], [20, 20, 2])
    p = softmax(6 * np.eye(3)[np.where(labels == 2, 0, labels)], axis=1)
    p[-1] = softmax([1, 0, 2])
    assert suspects(p, labels, Data(np.zeros((42, 1)), labels)) == []


def test_extreme_probabilities_and_coarse_ones():
    labels = np.repeat([0, 1], [30, 3])
    p = np.eye(2, dtype=np.float16)[labels]
    p[0] = 0, 1
    (found,) = suspects(p, labels, Data(np.zeros((33, 1)), labels))
    assert (found.index, found.p_label, found.p_guess) == (0, pytest.approx(0), pytest.approx(1))


def test_pictures_are_the_examples(rng):
    images = rng.integers(0, 256, (40, 3, 8, 6), dtype=np.uint8)
    labels = np.repeat([0, 1], 20)
    p = np.eye(2)[labels]
    p[7] = 0, 1
    (found,) = suspects(p, labels, Data(images, labels))
    picture = Image.open(io.BytesIO(base64.b64decode(found.picture.removeprefix("data:image/png;base64,"))))
    assert np.array_equal(picture, images[7].transpose(1, 2, 0))


def test_suspects_are_refused_by_name():
    labels = np.repeat([0, 1], 5)
    data = Data(np.zeros((10, 1)), labels)
    with refused("10 training examples", "2 classes"):
        suspects(np.full((9, 2), 0.5), labels[:9], data)
    with refused("labels have shape (9,)"):
        suspects(np.full((10, 2), 0.5), labels[:9], data)
    with refused("10 training examples", "2 classes"):
        suspects(np.full((10, 4), 0.25), labels, data)
    with refused("not finite"):
        suspects(np.full((10, 2), np.nan), labels, data)


# Findings


def told(counts, errors, confusion=None, uncertainty=None, most=5):
    """Errors that are spread evenly over the other classes, unless told."""
    number, errors = len(errors), np.asarray(errors, float)
    spread = np.repeat(errors[:, None] / max(number - 1, 1), number, axis=1)
    np.fill_diagonal(spread, 100 - errors)
    names = [f"c{i}" for i in range(number)]
    return findings(names, counts, errors, spread if confusion is None else confusion, uncertainty or [1.0] * number, most)


def even(errors):
    return [Finding("", "even", f"No class is much worse than the others: {min(errors):.0f} to {max(errors):.0f} % are wrong.")]


def test_few_examples():
    assert told([160, 100, 80, 80, 12], [10, 10, 10, 10, 87]) == [
        Finding("c4", "few", "c4: 87 % wrong, with 12 examples; the median class has 80")
    ]
    (one,) = told([160, 1000, 1000, 2000, 1], [10, 10, 10, 10, 87])
    assert one.text == "c4: 87 % wrong, with 1 example; the median class has 1,000"


def test_hard_in_spite_of_examples():
    (found,) = told([300] * 5, [61, 10, 10, 10, 10])
    assert found == Finding("c0", "hard", "c0: 61 % wrong in spite of 300 examples")
    (found,) = told([300] * 5, [61, 10, 10, 10, 10], uncertainty=[0.1, 1, 1, 1, 1])
    assert found.text == "c0: 61 % wrong in spite of 300 examples that the networks are sure of"
    (found,) = told([41, 80, 80, 80, 160], [61, 10, 10, 10, 10])
    assert (found.kind, found.text) == ("hard", "c0: 61 % wrong with 41 examples")  # over half of the median count, and under it
    (found,) = told([40, 80, 80, 80, 160], [61, 10, 10, 10, 10])
    assert found.kind == "few"


def test_confused_with_one():
    confusion = np.diag([90.0, 90, 90, 90, 30])
    confusion[4, :4] = 52, 18, 0, 0
    (found,) = told([80] * 5, [10, 10, 10, 10, 70], confusion)
    assert found == Finding("c4", "confused", "c4: 70 % wrong; 52 % are called c0")
    confusion[4, :4] = 35, 35, 0, 0  # half is not most
    assert told([80] * 5, [10, 10, 10, 10, 70], confusion)[0].kind == "hard"


def test_a_scarce_class_that_is_not_lost_to_larger_ones():
    confusion = np.diag([90.0, 90, 90, 90, 90, 30])
    confusion[5, 3:5] = 35, 35
    (found,) = told([80, 80, 80, 6, 6, 12], [10] * 5 + [70], confusion)
    assert found == Finding("c5", "hard", "c5: 70 % wrong, with 12 examples; most of its errors go to classes that have no more")


def test_of_two_classes_neither_is_confused_with_the_other():
    assert told([80, 80], [0, 40])[0].kind == "hard"


def test_the_worst_come_first_and_of_equals_the_most_uncertain():
    errors = [0] * 10 + [50, 90, 90, 60]
    found = told([100] * 14, errors, uncertainty=[1.0] * 11 + [2.0, 3.0, 1.0])
    assert [each.label for each in found] == ["c12", "c11", "c13", "c10"]
    assert told([100] * 14, errors, most=2)[1].label in ("c11", "c12")
    assert len(told([100] * 14, errors, most=2)) == 2


@pytest.mark.parametrize(
    ("errors", "spoken"),
    [
        ([0, 0, 0, 0], 0),
        ([100, 100, 100], 0),
        ([30], 0),
        ([10, 10, 10, 14.9], 0),
        ([10, 10, 10, 15], 1),
        ([10, 30, 34.9, 70, 69], 2),  # a quarter has 30 at most
        ([10, 30, 50, 70, 70], 3),
        ([5, 60, 35], 2),
        ([0, 16.7, 16.7], 2),  # most of them
        ([3.3, 0, 100, 100, 100], 3),
    ],
)
def test_much_worse_is_by_five_points_than_the_better_quarter(errors, spoken):
    found = told([50] * len(errors), errors)
    assert (found == even(errors)) if not spoken else (len(found) == spoken and found != even(errors))


def test_of_two_classes_there_is_no_median():
    assert told([250, 40], [2, 40])[0].text == "c1: 40 % wrong, with 40 examples; the other class has 250"


def test_findings_are_refused_by_name():
    with refused("class errors", "(3,)", "3 classes"):
        findings("abc", [1, 2, 3], [1, 2], np.eye(3), [1, 1, 1])
    with refused("uncertainty"):
        findings("abc", [1, 2, 3], [1, 2, 3], np.eye(3), [1, np.nan, 1])
    with refused("confusion", "(3, 3)"):
        findings("abc", [1, 2, 3], [1, 2, 3], np.eye(2), [1, 1, 1])
    with refused("counts"):
        findings("", [], [], np.zeros((0, 0)), [])


def test_costly_pairs():
    confusion = np.array([[90.0, 7, 3], [0, 100, 0], [8, 3, 89]])
    assert costly(confusion, "abc") == [("c", "a", 8.0), ("a", "b", 7.0), ("a", "c", 3.0), ("c", "b", 3.0)]
    assert costly(confusion, "abc", most=1) == [("c", "a", 8.0)]
    assert costly(100 * np.eye(3), "abc") == []
    assert confusion[0, 0] == 90
    with refused("(2, 2)", "3 classes"):
        costly(np.eye(2), "abc")
