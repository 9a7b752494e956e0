"""The class vectors of an estimate, computed independently, and exchanged to the last bit."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from example_results import DATA, RECIPE, make_estimate, make_measurement, make_result
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.io import check_record
from class_uncertainty.measures import SCORES
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import _check_numbers
from class_uncertainty.runs.rows import class_rows
from class_uncertainty.runs.store import parse_measurement


def entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(p)).sum(axis=-1)


def test_the_vectors_are_class_means_of_each_score():
    estimate = replace(make_estimate(), extra_scores={"kernel": np.linspace(0, 1, 30)})
    measured = Measurement.of(estimate)
    p, labels = estimate.probabilities.astype(np.float64), estimate.labels
    mean = p.mean(axis=0)
    examples = {
        "predictive": entropy(mean),
        "aleatoric": entropy(p).mean(axis=0),
        "epistemic": entropy(mean) - entropy(p).mean(axis=0),
        "least-confidence": 1 - mean.max(axis=-1),
        "kernel": np.linspace(0, 1, 30),
    }
    for score, values in examples.items():
        means = [values[labels == c].mean() for c in range(3)]
        np.testing.assert_allclose(measured.raw[score], means, rtol=1e-5, err_msg=score)
    assert set(measured.raw) == {*SCORES, "kernel"}


def test_the_rest_is_what_the_members_have_in_common():
    results = [make_result(cu.Lane("naive", seed, 0.3)) for seed in (4, 5)]
    results[1] = replace(results[1], scores=replace(results[1].scores, class_errors=(10.0, 20.0, 0.0)))
    measured = Measurement.of(replace(make_estimate(), results=tuple(results), score="true-class"))
    about = (measured.estimator, measured.members, measured.seed, measured.lr, measured.recipe, measured.device)
    assert about == ("ensemble", 2, 4, 0.3, RECIPE, "cuda")
    assert (measured.cost, measured.score, measured.class_errors) == (2.0, "true-class", (5.0, 20.0, 20.0))
    unjudged = tuple(replace(result, scores=None) for result in results)
    assert Measurement.of(replace(make_estimate(), results=unjudged)).class_errors is None


def test_methods_get_the_estimator_s_own_score_or_another():
    estimate = make_estimate()
    measured = Measurement.of(estimate)
    for score, given in (("predictive", None), ("true-class", "true-class")):
        stats = measured.stats(DATA.counts, given)
        assert np.array_equal(stats.uncertainty, estimate.using(score).raw)
        assert stats.counts.tolist() == list(DATA.counts)


@pytest.mark.parametrize("score", ["predictive", "true-class"])
def test_classes_look_as_they_do_in_the_estimate(score):
    estimate, measured = make_estimate().using(score), Measurement.of(make_estimate()).using(score)
    np.testing.assert_array_equal(measured.vector, estimate.raw)
    np.testing.assert_array_equal(measured.mu, estimate.mu)
    np.testing.assert_allclose(measured.epistemic_share, estimate.epistemic_share)
    assert class_rows(DATA.classes, DATA.counts, measured) == class_rows(DATA.classes, DATA.counts, estimate)


def test_without_disagreement_there_is_no_share_of_it():
    measured = Measurement.of(make_estimate())
    assert replace(measured, raw=measured.raw | {"epistemic": (0.0, 0.0, 0.0)}).epistemic_share is None
    assert make_measurement().epistemic_share is None  # a document without that score


def test_vectors_survive_json_to_the_last_bit(rng):
    """Results are found by a digest of the bits."""
    vectors = {score: tuple(rng.lognormal(-3, 9, 50).tolist()) for score in ("predictive", "true-class")}
    measured = make_measurement(raw=vectors, class_errors=tuple(rng.random(50).tolist()))
    assert parse_measurement(json.loads(json.dumps(asdict(measured)))) == measured


def test_an_older_document_is_of_the_first_seed():
    document = asdict(make_measurement())
    del document["seed"]
    assert parse_measurement(json.loads(json.dumps(document))) == make_measurement()


@pytest.mark.parametrize(
    "changes",
    [
        {"raw": {"predictive": ("a",)}},
        {"raw": {}},
        {"score": "kernel"},
        {"lr": "0.1"},
        {"members": 2.5},
        {"recipe": {}},
    ],
)
def test_what_is_no_measurement_is_refused(changes):
    with refused(next(iter(changes)) if "raw" not in changes else ""):
        measurement = make_measurement(**changes)
        check_record(measurement)
        _check_numbers(measurement)
