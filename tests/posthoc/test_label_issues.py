"""label_issues(): planted wrong labels are issues, and rare or unknown classes are left alone."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from refusals import refused
from scipy.special import softmax

from class_uncertainty import Data
from class_uncertainty.posthoc.label_issues import label_issues


def planted(
    rng: np.random.Generator, tail: tuple[int, ...] = (250, 120, 70, 40, 20), flipped: int = 15, members: int = 1
):
    """Posteriors of networks that know p(x | y) and the noisy counts: some labels moved to another class."""
    classes = len(tail)
    truth = np.repeat(np.arange(classes), tail)
    x = (
        rng.normal(0, 1, (members, len(truth), classes)) * 0.5
        + rng.normal(0, 1, (len(truth), classes))
        + 5 * np.eye(classes)[truth]
    )
    labels, wrong = truth.copy(), rng.choice(len(truth), flipped, replace=False)
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, flipped)) % classes
    p = softmax(2 * x + np.log(np.bincount(labels)), axis=-1)
    return p if members > 1 else p[0], labels, set(wrong.tolist())


@pytest.mark.parametrize("members", [1, 3])
def test_planted_labels_are_found_and_few_others(rng, members):
    p, labels, wrong = planted(rng, members=members)
    issues = label_issues(p, labels, Data(np.zeros((len(labels), 2)), labels, [*"abcde"]))
    indices = {issue.index for issue in issues}
    assert len(indices & wrong) >= 12
    assert len(indices - wrong) <= 3
    gaps = [issue.p_guess - issue.p_label for issue in issues]
    assert gaps == sorted(gaps, reverse=True)
    for issue in issues:
        assert issue.label == "abcde"[labels[issue.index]]
        assert issue.label != issue.guess
        assert issue.picture == ""
    assert label_issues(p, labels, Data(np.zeros((len(labels), 2)), labels, [*"abcde"]), most=4) == issues[:4]


def test_a_rare_class_is_no_issue_for_being_rare():
    """Networks that predict the frequent class for half of the rare one, by its count alone, know it once adjusted."""
    counts = np.array([400, 10])
    labels = np.repeat([0, 1], counts)
    likelihood = np.where(np.arange(410) < 400, 0.02, np.where(np.arange(410) % 2, 0.9, 0.999))  # of the rare class
    p = np.stack([(1 - likelihood) * 400, likelihood * 10], axis=1)
    p /= p.sum(axis=1, keepdims=True)
    assert (p[labels == 1].argmax(axis=1) == 0).sum() == 5
    assert label_issues(p, labels, Data(np.zeros((410, 1)), labels)) == []


def test_a_frequent_class_is_no_issue_for_the_adjustment_alone():
    """Without it the label is the likelier: only what both say is doubted."""
    labels = np.repeat([0, 1], [90, 10])
    p = np.where(labels[:, None] == 0, [0.99, 0.01], [0.6, 0.4])
    p[0] = 0.55, 0.45  # adjusted it is 0.12, 0.88, and class 1 is usually 0.86
    p[1] = 0.2, 0.8
    assert [issue.index for issue in label_issues(p, labels, Data(np.zeros((100, 1)), labels))] == [1]


def test_members_must_agree():
    labels = np.repeat([0, 1, 2], 10)
    p = np.stack([np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])[labels]] * 2)
    p[:, 0], p[:, 1] = (0.02, 0.96, 0.02), (0.02, 0.96, 0.02)
    p[1, 1] = 0.02, 0.48, 0.5  # their mean is still surer than is usual for class 1
    data = Data(np.zeros((30, 1)), labels)
    assert [(issue.index, issue.label, issue.guess) for issue in label_issues(p, labels, data)] == [(0, "0", "1")]
    assert [issue.index for issue in label_issues(p[0], labels, data)] == [0, 1]


def test_an_issue_is_named_as_the_example_is():
    labels = np.repeat([0, 1], 10)
    p = np.eye(2)[labels]
    p[7] = 0, 1
    named = Data(np.zeros((20, 1)), labels, names=[f"dogs/{i}\x1b[31m.png" for i in range(20)])
    for data, name in ((named, "dogs/7\\x1b[31m.png"), (Data(np.zeros((20, 1)), labels), "no. 7")):
        assert [issue.name for issue in label_issues(p, labels, data)] == [name]


def test_a_label_that_is_as_likely_as_is_usual_for_its_class_is_no_issue():
    labels = np.repeat([0, 1, 2], 10)
    p = np.array([[0.2, 0.1, 0.7], [0.3, 0.65, 0.05], [0.05, 0.05, 0.9]])[labels]
    p[0] = 0.3, 0.7, 0.0
    data = Data(np.zeros((30, 1)), labels)
    assert label_issues(p, labels, data) == []
    p[0] = 0.1, 0.9, 0.0
    assert [issue.index for issue in label_issues(p, labels, data)] == [0]


def test_thresholds_are_the_class_means():
    """A guess that is weaker than is usual for its class does not do."""
    labels = np.repeat([0, 1], 10)
    p = np.where(labels[:, None] == 0, [0.9, 0.1], [0.1, 0.9])
    p[0] = 0.3, 0.7  # class 1 is usually 0.9
    data = Data(np.zeros((20, 1)), labels)
    assert label_issues(p, labels, data) == []
    p[0] = 0.05, 0.95
    (issue,) = label_issues(p, labels, data)
    assert (issue.p_label, issue.p_guess) == pytest.approx((0.05, 0.95))


def test_nothing_is_said_of_a_class_that_networks_do_not_know():
    labels = np.repeat([0, 1, 2], [20, 20, 2])
    p = softmax(6 * np.eye(3)[np.where(labels == 2, 0, labels)], axis=1)
    p[-1] = softmax([1, 0, 2])
    assert label_issues(p, labels, Data(np.zeros((42, 1)), labels)) == []


def test_extreme_probabilities_and_coarse_ones():
    labels = np.repeat([0, 1], [30, 3])
    p = np.eye(2, dtype=np.float16)[labels]
    p[0] = 0, 1
    (issue,) = label_issues(p, labels, Data(np.zeros((33, 1)), labels))
    assert (issue.index, issue.p_label, issue.p_guess) == (0, pytest.approx(0), pytest.approx(1))


def test_thumbnails_are_the_examples(rng):
    images = rng.integers(0, 256, (40, 3, 8, 6), dtype=np.uint8)
    labels = np.repeat([0, 1], 20)
    p = np.eye(2)[labels]
    p[7] = 0, 1
    (issue,) = label_issues(p, labels, Data(images, labels))
    picture = Image.open(io.BytesIO(base64.b64decode(issue.picture.removeprefix("data:image/png;base64,"))))
    assert np.array_equal(picture, images[7].transpose(1, 2, 0))


def test_label_issues_are_refused_by_name():
    labels = np.repeat([0, 1], 5)
    data = Data(np.zeros((10, 1)), labels)
    with refused("10 training examples", "2 classes"):
        label_issues(np.full((9, 2), 0.5), labels[:9], data)
    with refused("labels have shape (9,)"):
        label_issues(np.full((10, 2), 0.5), labels[:9], data)
    with refused("10 training examples", "2 classes"):
        label_issues(np.full((10, 4), 0.25), labels, data)
    with refused("not finite"):
        label_issues(np.full((10, 2), np.nan), labels, data)
