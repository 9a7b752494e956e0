"""What is kept, chosen on examples that the choosing networks never saw."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.choose_step import choose_step
from class_uncertainty.workflows.search import Evidence, Search
from class_uncertainty.workflows.trial import Gain, Trial

MEAN = Goal("mean", np.full(2, 0.5))
LABELS = np.repeat([0, 1], [80, 20])
WHY_NOT = "there was no time"


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    data = cu.Data(np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32), LABELS)
    with open_context(data, Settings(recipe=cu.Recipe("linear", 1, 8))) as context:
        yield context


def order(context: Context) -> np.ndarray:
    return np.concatenate([fold_indices(context.train, (k, 5)) for k in range(5)])


def evidence(context: Context, name: str, wrong: np.ndarray, folds: int = 5) -> Evidence:
    """Of a candidate that is wrong on these training examples, judged on the first folds."""
    places = order(context)[: 20 * folds]
    labels = LABELS[places]
    right = np.where(np.isin(places, wrong), 0.3, 0.8)
    p = np.stack([np.where(labels == 0, right, 1 - right), np.where(labels == 1, right, 1 - right)], axis=1)
    networks = cast(Fit, SimpleNamespace(recipe=cu.Recipe("mlp", epochs=1, batch=2)))
    return Evidence(cu.Candidate(name), networks, places, labels, p, p, 1.0)


def test_only_heads_that_converge_are_sharpened(context: Context) -> None:
    """Networks that saw all examples are surer of new ones than those that left a fold out; heads are not."""
    unsure, counts = evidence(context, "naive", np.array([])), np.array([80, 20])  # always right, at 0.8
    heads = replace(unsure, networks=cast(Fit, SimpleNamespace(recipe=RECIPES["embeddings"])))
    assert unsure.adjustment(counts, MEAN).temperature == 1
    assert heads.adjustment(counts, MEAN).temperature < 1


def found(*finalists: Evidence) -> Search:
    return Search(finalists[0], finalists, (), {one.candidate.name: one for one in finalists})


def trial(ensemble: Gain, *students: Gain) -> Trial:
    names = [f"naive?rate={rate}" for rate in (1, 2)][: len(students)]
    gains = dict(zip(names, students, strict=True))
    return Trial(3, ensemble, gains, {name: 1.5 + i for i, name in enumerate(names)}, 2522, 5.0, 9.0)


NO, LITTLE, CLEAR, CLEARER = Gain(-1.5, 0.2), Gain(0.5, 0.51), Gain(0.85, 0.2), Gain(1.31, 0.2)


@pytest.mark.parametrize(
    ("tried", "deploy", "step", "why"),
    [
        (
            WHY_NOT,
            "one",
            "best single",
            "One network is kept: neither an ensemble nor a student was judged on unseen examples, "
            "since there was no time.",
        ),
        (trial(CLEARER, LITTLE), "one", "best single", "a student gains 0.50 ± 0.51 points, no clear gain."),
        (trial(CLEARER, NO), "one", "best single", "a student loses 1.50 ± 0.20 points, no clear gain."),
        (
            trial(CLEARER, CLEAR),
            "one",
            "student",
            "A student is kept: on 2,522 examples that no network of the trial saw, it gains 0.85 ± 0.20 points "
            "against one network.",
        ),
        (trial(CLEARER, CLEAR), "ensemble", "ensemble", "An ensemble is kept: on 2,522 examples"),
        (trial(CLEAR, CLEARER), "ensemble", "student", "A student is kept: on 2,522 examples"),
        (trial(CLEAR, LITTLE), "ensemble", "ensemble", "it gains 0.85 ± 0.20 points against one network."),
        (
            trial(LITTLE, NO),
            "ensemble",
            "best single",
            "a student loses 1.50 ± 0.20 points and an ensemble gains 0.50 ± 0.51 points, no clear gain.",
        ),
        (trial(CLEAR), "one", "best single", "every student diverged, no clear gain."),
        (trial(CLEAR), "ensemble", "ensemble", "An ensemble is kept"),
    ],
)
def test_the_step_that_clearly_gains_most_is_kept(
    context: Context, tried: Trial | str, deploy: str, step: str, why: str
) -> None:
    rows = found(evidence(context, "cb-rs", np.array([1])))
    choice = choose_step(context, rows, tried, MEAN, deploy, None)
    assert choice.step == step
    assert why in choice.why
    assert choice.why.endswith(".")
    naive = found(evidence(context, "naive?rate=4", np.array([1])))
    assert choose_step(context, naive, tried, MEAN, deploy, None).step == step.replace("best single", "adjusted")


def test_a_cost_is_not_in_points_and_has_the_decimals_of_the_ladder(context: Context) -> None:
    costs = Goal("cost:c.csv", np.array([0.8, 0.2]), np.array([[0.0, 1.0], [5.0, 0.0]]))
    rows = found(evidence(context, "cb-rs", np.array([1])))
    small = Gain(0.0049, 0.0011)
    assert "gains 0.005 ± 0.001 against" in choose_step(context, rows, trial(small, small), costs, "one", None).why


def test_the_best_student_comes_with_its_cooling(context: Context) -> None:
    rows = found(evidence(context, "cb-rs", np.array([1])))
    choice = choose_step(context, rows, trial(NO, CLEAR, CLEARER), MEAN, "one", None)
    assert (choice.student, choice.cooling) == (cu.Candidate("naive?rate=2"), 2.5)
    assert choice.teaching == cu.Teaching(tau=choice.tau)
    none = choose_step(context, rows, WHY_NOT, MEAN, "one", None)
    assert (none.student, none.cooling) == (None, 1.0)


def rotten(one: Evidence, context: Context, fold: tuple[int, int]) -> Evidence:
    """The same evidence, of which all that is in the fold is wrong."""
    hit = np.isin(one.places, fold_indices(context.train, fold))
    return replace(one, p=np.where(hit[:, None], 1 - one.p, one.p), adjusted=np.where(hit[:, None], 1 - one.p, one.p))


def choices(context: Context, rows: Sequence[Evidence], fold: tuple[int, int] | None) -> tuple:
    choice = choose_step(context, found(*rows), WHY_NOT, MEAN, "one", fold)
    return choice.candidate.name, choice.tau, choice.adjustment.temperature


def test_what_is_chosen_for_a_fold_is_chosen_without_it(context: Context) -> None:
    """The first candidate is perfect, but always wrong on fold 2; the second is wrong here and there."""
    fold, wrong = (2, 5), np.arange(0, 100, 30)
    good, fair = evidence(context, "cb-rs", np.empty(0)), evidence(context, "cb", wrong)
    spoilt = rotten(good, context, fold)
    assert choices(context, [spoilt, fair], fold) == choices(context, [good, fair], fold)
    assert choices(context, [spoilt, fair], fold)[0] == "cb-rs"
    assert choices(context, [fair, spoilt], None)[0] == "cb"  # the best of the search, which comes first here
    assert choices(context, [spoilt, fair], (0, 5))[0] == "cb"
    rest = good.without(fold_indices(context.train, fold), context.train.counts, MEAN)
    assert rest is not None
    fitted = cu.fit_adjustment(rest.p, rest.labels, context.train.counts, usual_tau=0.0)
    assert choices(context, [good], fold)[1:] == (fitted.tau, max(1, fitted.temperature))


def test_evidence_of_the_judged_fold_alone_chooses_nothing(context: Context) -> None:
    first = evidence(context, "cb-rs", np.array([1]), folds=1)
    places = fold_indices(context.train, (0, 5))
    assert first.without(places, context.train.counts, MEAN) is None
    two = evidence(context, "cb-rs", np.array([1]), folds=2)
    rest = two.without(places, context.train.counts, MEAN)
    assert rest is not None
    assert np.array_equal(rest.places, fold_indices(context.train, (1, 5)))
    assert choices(context, [first], (0, 5))[0] == "cb-rs"  # the best of the search
    assert choices(context, [two, first], (0, 5))[0] == "cb-rs"  # without what has nothing to say
