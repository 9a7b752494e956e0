"""Predictions, counts and priors that another program has saved."""

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax

from class_uncertainty.posthoc.adjustment import combined
from class_uncertainty.posthoc.prediction_files import read_predictions


@pytest.fixture
def logits(rng):
    return rng.normal(0, 2, (2, 6, 3))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_probabilities_logits_and_a_lone_array_are_the_same(tmp_path, logits, kind):
    """Members are averaged geometrically; the kind of number stays."""
    p = softmax(logits, axis=-1)
    np.savez(tmp_path / "p.npz", probabilities=p.astype(kind), other=np.zeros(3))
    np.savez(tmp_path / "z.npz", logits=logits.astype(kind))
    np.savez(tmp_path / "alone.npz", anything=p.astype(kind))
    np.save(tmp_path / "p.npy", p.astype(kind))
    for name in ("p.npz", "z.npz", "alone.npz", "p.npy"):
        predictions = read_predictions(tmp_path / name)
        np.testing.assert_allclose(predictions.probabilities, combined(p), atol=1e-5)
        assert predictions.probabilities.dtype == kind
        assert (predictions.labels, predictions.counts) == (None, None)


def test_one_network_is_read_as_it_is_with_its_labels_and_counts(tmp_path, logits):
    p = softmax(logits[0], axis=-1)
    np.savez(tmp_path / "p.npz", probabilities=p, labels=np.arange(6) % 3, counts=[5, 3, 1])
    predictions = read_predictions(tmp_path / "p.npz")
    np.testing.assert_allclose(predictions.probabilities, p)
    assert predictions.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert predictions.counts.tolist() == [5, 3, 1]


def test_half_precision_becomes_single(tmp_path, logits):
    np.save(tmp_path / "half.npy", softmax(logits[0], axis=-1).astype(np.float16))
    assert read_predictions(tmp_path / "half.npy").probabilities.dtype == np.float32


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"first": np.ones(2), "second": np.ones(2)}, ["probabilities", "logits"]),
        ({"probabilities": np.ones(3) / 3}, ["(3,)"]),
        ({"probabilities": np.ones((2, 3))}, ["sum to 3"]),
        ({"probabilities": np.zeros((0, 3))}, ["shape (0, 3)"]),
        ({"logits": np.full((2, 3), np.inf)}, ["logits", "finite"]),
        ({"logits": np.ones((2, 3), int)}, ["logits", "floating point"]),
        ({"probabilities": np.eye(3), "labels": [0, 1, 3]}, ["example 2 is 3"]),
    ],
)
def test_predictions_are_refused_with_the_name_of_the_file(tmp_path, arrays, parts):
    np.savez(tmp_path / "p.npz", **arrays)
    with refused("p.npz", *parts):
        read_predictions(tmp_path / "p.npz")
