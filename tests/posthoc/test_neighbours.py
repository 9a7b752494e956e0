"""The nearest examples are those of scikit-learn's brute force."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from class_uncertainty.posthoc.label_issues import NEAREST, neighbour_counts, neighbour_shares


def test_counts_are_of_the_nearest_by_cosine(rng, monkeypatch):
    monkeypatch.setattr("class_uncertainty.posthoc.label_issues.ROWS", 7)
    images = rng.integers(0, 256, (50, 3, 2, 2), dtype=np.uint8)
    images[:, 0, 0, 0] = 9  # a constant pixel says nothing
    labels = rng.integers(0, 4, 50)
    x = images.reshape(50, -1).astype(float)[:, 1:]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    nearest = NearestNeighbors(n_neighbors=NEAREST, metric="cosine").fit(x).kneighbors(return_distance=False)
    expected = [[(labels[row] == c).sum() for c in range(5)] for row in nearest]
    assert np.array_equal(neighbour_counts(images, labels, 5), expected)


def test_examples_of_a_group_are_no_neighbours_of_each_other(rng):
    """The nearest of every example are of its group, and there are only four others."""
    groups = np.repeat([0, 1], [26, 4])
    x = rng.normal(0, 0.1, (30, 3)).astype(np.float32) + np.where(groups, 1, -1)[:, None]
    counts = neighbour_counts(x, groups, 2, groups)
    assert np.array_equal(counts[groups == 0], [[0, 4]] * 26)
    assert np.array_equal(counts[groups == 1], [[NEAREST, 0]] * 4)


def test_too_few_examples_have_no_neighbours():
    assert neighbour_counts(np.zeros((NEAREST, 2), np.float32), np.zeros(NEAREST, np.int64), 2) is None


def test_shares_are_probabilities_and_never_zero():
    shares = neighbour_shares(np.array([[20, 0], [5, 15]]))
    assert np.allclose(shares, [[20.5 / 21, 0.5 / 21], [5.5 / 21, 15.5 / 21]])
