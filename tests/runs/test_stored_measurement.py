"""A store with an estimate and class vectors of one request: the estimate comes first, where it has the score."""

from dataclasses import replace

import pytest
from watching import no_training

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.estimation.estimate import read_by
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, stored_measurement
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.settings import Settings

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)
REQUEST = EstimateRequest("duq")  # it has a score of its own
(OWN,) = REQUEST.row.scores


@pytest.fixture(scope="module")
def trained(digits):
    return cu.estimate(digits, "duq", recipe=RECIPE)


@pytest.fixture
def context(store, digits):
    with open_context(digits, Settings(recipe=RECIPE, store=store, progress=no_training)) as context:
        yield context


def add(context: Context, estimate: cu.Estimate, *scores: str) -> Measurement:
    """The estimate, and class vectors with other numbers by these scores alone."""
    key, data = context.estimate_key(REQUEST), context.dataset.fingerprint
    measured = Measurement.of(estimate)
    raw = {score: tuple(2 * value for value in measured.raw[score]) for score in scores}
    context.store.add_estimate(key, data, estimate)
    context.store.add_measurement(key, data, imported := replace(measured, score=scores[0], raw=raw))
    return imported


@pytest.mark.parametrize("score", [None, "predictive", OWN, "true-class"])
def test_the_estimate_comes_first_whatever_class_vectors_lack(context, trained, score):
    add(context, trained, "predictive", OWN)
    assert stored_measurement(context, REQUEST, score) is None
    (estimate,) = load_or_estimate(context, [REQUEST])
    assert read_by(estimate, score).raw.tolist() == read_by(trained, score).raw.tolist()


def test_class_vectors_have_a_score_that_the_estimate_lacks(context, trained):
    """An older version of the estimator did not have it."""
    imported = add(context, trained, OWN, "predictive")
    older = replace(trained, score="predictive", extra_scores={})
    context.store.add_estimate(context.estimate_key(REQUEST), context.dataset.fingerprint, older)
    assert stored_measurement(context, REQUEST, OWN) == imported
    assert stored_measurement(context, REQUEST, "predictive") is None
    assert stored_measurement(context, REQUEST, None) is None


def test_class_vectors_take_the_place_of_an_estimate_that_is_damaged(context, trained):
    imported = add(context, trained, "predictive")
    (file,) = context.store.estimates_folder.iterdir()
    file.unlink()
    assert stored_measurement(context, REQUEST, "predictive") == imported
    assert stored_measurement(context, REQUEST, "true-class") is None
