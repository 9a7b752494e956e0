"""The contracts of an estimator as checks. A check takes its name, trains it on long-tailed digits and raises where a
promise is broken.

For a row of your own:

    ESTIMATORS["mine"] = my_estimator
    for check in estimator_checks("mine"):
        check("mine")

Where a row of the package breaks a check for a good reason, the reason stands in EXCEPTIONS; `verify` then demands that
it does break it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.estimation.estimators import MAX_MEMBERS
from class_uncertainty.measures import SCORES
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.training import DUQ_STEP_COST

Check = Callable[[str], None]

MEMBERS, EPOCHS, CLASSES = 3, 2, 10
RECIPE = cu.Recipe("small-conv", epochs=EPOCHS, batch=32)
ENTROPIES = ("predictive", "aleatoric", "epistemic")  # in nats; all other scores are at most 1

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("online", "check_identical_members_agree"): "its members are the epochs, of which it keeps the mean alone"
}


def verify(name: str, check: Check) -> None:
    """Run a check; where an exception is declared for the row, demand that the check fails."""
    reason = EXCEPTIONS.get((name.partition(":")[0], check.__name__))
    if reason is None:
        check(name)
        return
    with pytest.raises(AssertionError):
        check(name)


def estimator_checks(name: str) -> Iterator[Check]:
    yield check_probabilities_are_distributions
    yield check_scores_are_bounded
    yield check_parts_add_up
    yield check_identical_members_agree
    yield check_classes_are_means_of_their_examples
    yield check_natural_score
    yield check_same_seed_same_bits
    yield check_cost_counts_the_trainings
    yield check_members_are_refused_by_name
    yield check_scores_are_refused_by_name
    if EstimateRequest(name).lanes:
        yield check_another_seed_differs
        yield check_every_lane_has_a_result
        yield check_a_measurement_says_the_same
        yield check_learning_rate_reaches_every_lane


@cache
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@cache
def found(name: str, seed: int = 0) -> cu.Estimate:
    return _estimated(name, seed)


def _estimated(name: str, seed: int) -> cu.Estimate:
    return cu.estimate(digits(), name, MEMBERS, RECIPE, seed, device="cpu")


def check_probabilities_are_distributions(name: str) -> None:
    """(T, N, C), each row a distribution, for the training examples in their order."""
    p = found(name).probabilities
    assert p.ndim == 3
    assert p.shape[1:] == (len(digits().train), CLASSES)
    assert p.dtype == np.float32
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-5)
    assert np.array_equal(found(name).labels, digits().train.labels)


def check_scores_are_bounded(name: str) -> None:
    """0 <= u <= log C in nats, <= 1 otherwise; the scores of its own are those that its row names, or stand for one of
    SCORES."""
    here = found(name)
    assert set(here.extra_scores) <= {*SCORES, *EstimateRequest(name).row.scores}
    assert set(EstimateRequest(name).row.scores) <= set(here.extra_scores)
    for score in {**SCORES, **here.extra_scores}:
        u = here.using(score).uncertainty
        assert u.shape == here.labels.shape
        assert np.isfinite(u).all()
        assert (u >= 0).all()
        assert (u <= (np.log(CLASSES) if score in ENTROPIES else 1) + 1e-6).all(), score


def check_parts_add_up(name: str) -> None:
    """predictive = aleatoric + epistemic, and Kwon's parts are the variance of a draw from the mean."""
    u = {score: found(name).using(score).uncertainty for score in SCORES}
    np.testing.assert_allclose(u["predictive"], u["aleatoric"] + u["epistemic"], atol=1e-12)
    mean = found(name).probabilities.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(u["kwon-aleatoric"] + u["kwon-epistemic"], 1 - (mean**2).sum(axis=1), atol=1e-5)


def check_identical_members_agree(name: str) -> None:
    """The first member thrice over has no epistemic part."""
    same = replace(found(name), probabilities=np.repeat(found(name).probabilities[:1], 3, axis=0))
    for score in ("epistemic", "kwon-epistemic"):
        np.testing.assert_allclose(same.using(score).uncertainty, 0, atol=1e-12)
    assert same.epistemic_share is None or (same.epistemic_share < 1e-9).all()


def check_classes_are_means_of_their_examples(name: str) -> None:
    """Eq. 9 and Eq. 10, and what methods get."""
    here = found(name)
    for c in range(CLASSES):
        mine = here.labels == c
        assert here.raw[c] == pytest.approx(here.uncertainty[mine].mean())
        if here.epistemic_share is not None:
            parts = [here.using(score).uncertainty[mine].mean() for score in ("epistemic", "predictive")]
            assert here.epistemic_share[c] == pytest.approx(parts[0] / parts[1], abs=1e-12)
    assert (here.epistemic_share is None) == (len(here.probabilities) == 1 and "epistemic" not in here.extra_scores)
    assert (here.mu > 0).all()
    assert here.mu.sum() == pytest.approx(1)
    np.testing.assert_allclose(here.mu * here.raw.sum(), here.raw)
    assert np.array_equal(here.stats.counts, digits().train.counts)
    assert np.array_equal(here.stats.uncertainty, here.raw)


def check_natural_score(name: str) -> None:
    """It is read by the score that its row names, which is one that it has."""
    here, row = found(name), EstimateRequest(name).row
    assert (here.estimator, here.score) == (name, row.natural)
    assert row.natural in {**SCORES, **here.extra_scores}
    assert row.about


def check_same_seed_same_bits(name: str) -> None:
    here, again = found(name), _estimated(name, 0)
    assert np.array_equal(again.probabilities, here.probabilities)
    assert again.extra_scores.keys() == here.extra_scores.keys()
    assert all(np.array_equal(values, here.extra_scores[score]) for score, values in again.extra_scores.items())


def check_another_seed_differs(name: str) -> None:
    """In every member: none is the same network by another name."""
    for mine in found(name).probabilities:
        assert all(np.abs(mine - other).max() > 1e-3 for other in found(name, 100).probabilities)


def check_cost_counts_the_trainings(name: str) -> None:
    """In trainings of one network, more for one that is not plain; nothing for what trains nothing."""
    lanes = EstimateRequest(name, MEMBERS).lanes
    assert found(name).cost == pytest.approx((DUQ_STEP_COST if name == "duq" else 1) * len(lanes))
    assert (found(name).cost > 0) == bool(lanes)


def check_every_lane_has_a_result(name: str) -> None:
    """Judged on the test split."""
    lanes, results = EstimateRequest(name, MEMBERS).lanes, found(name).results
    assert [(result.seed, result.fold) for result in results] == [(lane.seed, lane.fold) for lane in lanes]
    errors = [result.class_errors for result in results]
    np.testing.assert_allclose(found(name).class_errors, np.mean(errors, axis=0))
    assert len(set(lanes)) == len(lanes)


def check_a_measurement_says_the_same(name: str) -> None:
    """The class vectors, which are all that is exchanged, tell who disagrees as the probabilities do."""
    here, measured = found(name), Measurement.of(found(name))
    assert measured.members == here.members == EstimateRequest(name, MEMBERS).counted(RECIPE)
    assert here.networks == len(here.results)
    assert (measured.epistemic_share is None) == (here.epistemic_share is None)
    if here.epistemic_share is not None:
        np.testing.assert_array_equal(measured.epistemic_share, here.epistemic_share)


def check_learning_rate_reaches_every_lane(name: str) -> None:
    assert {lane.lr for lane in EstimateRequest(name, MEMBERS, lr=0.3).lanes} == {0.3}
    assert {lane.lr for lane in EstimateRequest(name, MEMBERS).lanes} == {None}


def check_members_are_refused_by_name(name: str) -> None:
    fewest = EstimateRequest(name).row.fewest
    for members in (fewest - 1, -1, MAX_MEMBERS + 1):
        with refused(f"members is {members}: for {name} it must be a whole number from {fewest} to 1,000"):
            cu.estimate(digits(), name, members, RECIPE)
    wrong: list[Any] = [2.5, True, "5"]
    for members in wrong:
        with refused(f"members is {members!r}", "a whole number"):
            cu.estimate(digits(), name, members, RECIPE)
    assert len(EstimateRequest(name, fewest).lanes) <= fewest


def check_scores_are_refused_by_name(name: str) -> None:
    """With the nearest match, before anything is trained, and afterwards."""
    with refused(
        "unknown score 'preditive': did you mean 'predictive'? There are predictive, aleatoric,",
        *EstimateRequest(name).row.scores,
    ):
        cu.estimate(digits(), name, MEMBERS, RECIPE, score="preditive", progress=lambda _: pytest.fail("trained"))
    with refused("unknown score 'preditive': did you mean 'predictive'?", *found(name).extra_scores):
        found(name).using("preditive")
