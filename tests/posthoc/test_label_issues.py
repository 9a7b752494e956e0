"""label_issues(): planted wrong labels are issues with their evidence, and rare or unknown classes are left alone."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from refusals import refused
from scipy.special import softmax

from class_uncertainty import Data
from class_uncertainty.posthoc.label_issues import SHOWN, label_issues


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


def one_wrong(examples: int = 40, place: int = 7):
    """Sure probabilities and their labels, one of which is wrong."""
    labels = np.arange(examples) % 2
    p = np.where(labels[:, None] == 0, [0.9999, 0.0001], [0.0001, 0.9999])
    labels[place] = 1 - labels[place]
    return p, labels


@pytest.mark.parametrize("members", [1, 3])
def test_planted_labels_are_found_and_few_others(rng, members):
    p, labels, wrong = planted(rng, members=members)
    issues = label_issues(p, labels, Data(rng.normal(size=(len(labels), 2)), labels, [*"abcde"]))
    indices = {issue.index for issue in issues}
    assert len(indices & wrong) >= 12
    assert len(indices - wrong) <= 3
    chances = [issue.p_wrong for issue in issues]
    assert chances == sorted(chances, reverse=True)
    for issue in issues:
        assert issue.label == "abcde"[labels[issue.index]]
        assert issue.label != issue.guess
        assert issue.picture == ""
        assert issue.p_label < issue.p_guess


def test_a_rare_class_is_no_issue_for_being_rare(rng):
    """Networks that predict the frequent class for half of the rare one, by its count alone."""
    counts = np.array([400, 10])
    labels = np.repeat([0, 1], counts)
    likelihood = np.where(np.arange(410) < 400, 0.02, np.where(np.arange(410) % 2, 0.9, 0.999))  # of the rare class
    p = np.stack([(1 - likelihood) * 400, likelihood * 10], axis=1)
    p /= p.sum(axis=1, keepdims=True)
    assert (p[labels == 1].argmax(axis=1) == 0).sum() == 5
    assert label_issues(p, labels, Data(rng.normal(size=(410, 1)), labels)) == []


def test_votes_are_counted(rng):
    p, labels, wrong = planted(rng, members=3)
    dissented = sorted(wrong)[:5]
    p[2, dissented] = 0.1 + 0.5 * np.eye(5)[labels[dissented]]  # one network takes the label
    issues = label_issues(p, labels, Data(np.zeros((500, 1)), labels))
    votes = {issue.index: issue.votes for issue in issues}
    assert {votes[i] for i in dissented if i in votes} == {2}
    assert {votes[i] for i in wrong.difference(dissented) if i in votes} == {3}


def test_neighbours_are_counted():
    """Twenty of each class beside each other, and the wrong label among the others."""
    p, labels = one_wrong(60)
    truth = np.arange(60) % 2
    x = np.stack([np.cos(np.arange(60) / 100), np.sin(np.arange(60) / 100)], axis=1) * np.where(truth, 1, -1)[:, None]
    (issue,) = label_issues(p, labels, Data(x, labels))
    assert (issue.near_label, issue.near_guess) == (0, 20)


def test_neighbours_are_left_out_where_they_would_take_long(monkeypatch):
    p, labels = one_wrong()
    monkeypatch.setattr("class_uncertainty.posthoc.label_issues.CHEAP", 1599)
    (issue,) = label_issues(p, labels, Data(np.zeros((40, 1)), labels))
    assert (issue.near_label, issue.near_guess) == (None, None)


def test_an_issue_is_named_as_the_example_is():
    p, labels = one_wrong()
    named = Data(np.zeros((40, 1)), labels, names=[f"dogs/{i}\x1b[31m.png" for i in range(40)])
    for data, name in ((named, "dogs/7\\x1b[31m.png"), (Data(np.zeros((40, 1)), labels), "no. 7")):
        assert [issue.name for issue in label_issues(p, labels, data)] == [name]


def test_extreme_probabilities_and_coarse_ones():
    labels = np.repeat([0, 1], [30, 30])
    p = np.eye(2, dtype=np.float16)[labels]
    p[0] = 0, 1
    (issue,) = label_issues(p, labels, Data(np.zeros((60, 1)), labels))
    assert (issue.index, issue.p_label, issue.p_guess) == (0, pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))


def test_thumbnails_are_the_examples(rng):
    images = rng.integers(0, 256, (40, 3, 8, 6), dtype=np.uint8)
    p, labels = one_wrong()
    (issue,) = label_issues(p, labels, Data(images, labels))
    picture = Image.open(io.BytesIO(base64.b64decode(issue.picture.removeprefix("data:image/png;base64,"))))
    assert np.array_equal(picture, images[7].transpose(1, 2, 0))


def test_all_issues_are_listed_and_the_clearest_have_pictures(rng):
    p, labels, _ = planted(rng, tail=(600, 400, 300), flipped=40)
    issues = label_issues(p, labels, Data(rng.integers(0, 256, (1300, 1, 4, 4), dtype=np.uint8), labels))
    assert len(issues) > SHOWN
    assert [bool(issue.picture) for issue in issues] == [True] * SHOWN + [False] * (len(issues) - SHOWN)


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
