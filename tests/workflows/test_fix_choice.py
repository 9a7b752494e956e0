"""What is kept, chosen on examples that the choosing networks never saw."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from fix_plans import fix_plan

import class_uncertainty as cu
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, fold_indices
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.alternatives import Alternatives, Gain, Trial
from class_uncertainty.workflows.fix_choice import choose, choose_step
from class_uncertainty.workflows.search import Evidence, Search

LABELS = np.repeat([0, 1], [80, 20])
TRAIN = cu.Data(np.zeros((100, 2), np.float32), LABELS)
MEAN = Goal("mean", np.full(2, 0.5))
NOT_TRIED = Alternatives(why_none="there was no time")


def evidence(name: str, wrong: Sequence[int] | np.ndarray, folds: int = FOLDS) -> Evidence:
    """Of a candidate that is wrong on these training examples, judged on the first folds."""
    places = np.concatenate([fold_indices(TRAIN, (k, FOLDS)) for k in range(folds)])
    labels = LABELS[places]
    right = np.where(np.isin(places, wrong), 0.3, 0.8)[:, None]
    p = np.where(labels[:, None] == np.arange(2), right, 1 - right)
    networks = Fit.untrained(TRAIN, [], cu.Recipe("mlp", epochs=1, batch=2), "cpu", None)
    return Evidence(cu.Candidate(name), networks, places, labels, p, p, 1.0)


def search_result(*finalists: Evidence) -> Search:
    return Search(finalists[0], finalists, (), {one.candidate.name: one for one in finalists})


def trial_with(ensemble: Gain, *students: Gain) -> Alternatives:
    names = [f"naive?rate={rate}" for rate in (1, 2)][: len(students)]
    gains = dict(zip(names, students, strict=True))
    cooling = {name: 1.5 + i for i, name in enumerate(names)}
    return Alternatives(trial=Trial(3, ensemble, gains, cooling, 2522, 5.0, 9.0))


WORSE, UNCLEAR, CLEAR, CLEARER = Gain(-1.5, 0.2), Gain(0.5, 0.51), Gain(0.85, 0.2), Gain(1.31, 0.2)


def test_only_heads_that_converge_are_sharpened():
    """Networks that saw all examples are surer of new ones than those that left a fold out; heads are not."""
    unsure, counts = evidence("naive", []), np.array([80, 20])  # always right, at 0.8
    heads = replace(unsure, networks=Fit.untrained(TRAIN, [], RECIPES["embeddings"], "cpu", None))
    assert unsure.adjustment(counts, MEAN).temperature == 1
    assert heads.adjustment(counts, MEAN).temperature < 1


@pytest.mark.parametrize(
    ("deploy", "alternatives", "kept"),
    [
        ("one", NOT_TRIED, "best single"),
        ("one", trial_with(CLEARER, UNCLEAR), "best single"),
        ("one", trial_with(CLEARER, WORSE), "best single"),
        ("one", trial_with(CLEARER, CLEAR), "student"),
        ("ensemble", trial_with(CLEARER, CLEAR), "ensemble"),
        ("ensemble", trial_with(CLEAR, CLEARER), "student"),
        ("ensemble", trial_with(CLEAR, CLEAR), "student"),
        ("ensemble", trial_with(CLEAR, UNCLEAR), "ensemble"),
        ("ensemble", trial_with(UNCLEAR, WORSE), "best single"),
        ("one", trial_with(CLEAR), "best single"),
        ("ensemble", trial_with(CLEAR), "ensemble"),
    ],
)
def test_the_largest_clear_gain_that_may_be_deployed_is_kept(deploy, alternatives, kept):
    search = search_result(evidence("cb-rs", [1]))
    assert choose_step(TRAIN, search, alternatives, MEAN, deploy, None).step == kept


@pytest.mark.parametrize("test", [None, TRAIN])
def test_every_judged_fold_has_a_choice_of_its_own(test):
    """Of a data set with a test split there is one choice, as for the network of all examples."""
    search = search_result(evidence("cb-rs", [1]), evidence("naive", [2, 85]))
    choices = choose(cu.Dataset("data", TRAIN, test), search, NOT_TRIED, fix_plan(MEAN))
    folds = [None] if test else [None, *((k, FOLDS) for k in range(FOLDS))]
    assert list(choices) == folds
    for fold, choice in choices.items():
        alone = choose_step(TRAIN, search, NOT_TRIED, MEAN, "one", fold)
        assert (choice.candidate, choice.step, choice.taus) == (alone.candidate, alone.step, alone.taus)


@pytest.mark.parametrize(("goal", "kept"), [("mean", "best single"), ("overall", "naive")])
def test_a_choice_worse_than_naive_training_is_kept_for_goals_that_do_not_weigh_by_frequency(goal, kept):
    worse, naive = evidence("cb-rs", np.arange(0, 100, 3)), evidence("naive", [])
    search = Search(worse, (worse,), (), {"cb-rs": worse, "naive": naive})
    plan = fix_plan(Goal(goal, np.array([0.8, 0.2])))
    assert choose(cu.Dataset("data", TRAIN), search, NOT_TRIED, plan)[None].step == kept


def test_a_single_naive_network_is_called_adjusted():
    search = search_result(evidence("naive?rate=4", [1]))
    assert choose_step(TRAIN, search, NOT_TRIED, MEAN, "one", None).step == "adjusted"
    assert choose_step(TRAIN, search, trial_with(CLEAR, UNCLEAR), MEAN, "one", None).step == "adjusted"


@pytest.mark.parametrize(
    ("alternatives", "facts"),
    [
        (NOT_TRIED, ["One network", "there was no time"]),
        (trial_with(UNCLEAR, WORSE), ["2,522", "ensemble gains 0.50 ± 0.51", "student loses 1.50 ± 0.20", "no clear"]),
        (trial_with(CLEARER, UNCLEAR), ["An ensemble is kept", "2,522", "gains 1.31 ± 0.20 points"]),
        (trial_with(CLEAR, CLEARER), ["A student is kept", "gains 1.31 ± 0.20 points"]),
        (trial_with(UNCLEAR), ["ensemble gains 0.50 ± 0.51", "no clear gain"]),
    ],
)
def test_the_reason_states_every_gain_and_on_how_many_examples(alternatives, facts):
    why = choose_step(TRAIN, search_result(evidence("cb-rs", [1])), alternatives, MEAN, "ensemble", None).why
    assert [fact for fact in facts if fact not in why] == []


def test_where_every_student_diverged_that_is_the_reason():
    search = search_result(evidence("cb-rs", [1]))
    assert "every student diverged" in choose_step(TRAIN, search, trial_with(CLEAR), MEAN, "one", None).why


def test_a_cost_is_not_in_points_and_has_the_decimals_of_the_ladder():
    costs = Goal("cost:c.csv", np.array([0.8, 0.2]), np.array([[0.0, 1.0], [5.0, 0.0]]))
    small = Gain(0.0049, 0.0011)
    choice = choose_step(TRAIN, search_result(evidence("cb-rs", [1])), trial_with(small, small), costs, "one", None)
    assert "gains 0.005 ± 0.001 against" in choice.why


def test_the_best_student_comes_with_its_cooling():
    search = search_result(evidence("cb-rs", [1]))
    choice = choose_step(TRAIN, search, trial_with(WORSE, CLEAR, CLEARER), MEAN, "one", None)
    assert (choice.student, choice.cooling) == (cu.Candidate("naive?rate=2"), 2.5)
    assert choice.teaching == cu.Teaching(tau=choice.tau)
    none = choose_step(TRAIN, search, NOT_TRIED, MEAN, "one", None)
    assert (none.student, none.cooling) == (None, 1.0)


def rotten(one: Evidence, fold: tuple[int, int]) -> Evidence:
    """The same evidence, of which all that is in the fold is wrong."""
    hit = np.isin(one.places, fold_indices(TRAIN, fold))
    p = np.where(hit[:, None], 1 - one.p, one.p)
    return replace(one, p=p, adjusted=p)


def chosen(rows: Sequence[Evidence], fold: tuple[int, int] | None) -> tuple[str, float, float]:
    choice = choose_step(TRAIN, search_result(*rows), NOT_TRIED, MEAN, "one", fold)
    return choice.candidate.name, choice.tau, choice.adjustment.temperature


def test_what_is_chosen_for_a_fold_is_chosen_without_it():
    """The first candidate is perfect, but always wrong on fold 2; the second is wrong here and there."""
    fold = (2, 5)
    good, fair = evidence("cb-rs", []), evidence("cb", np.arange(0, 100, 30))
    spoilt = rotten(good, fold)
    assert chosen([spoilt, fair], fold) == chosen([good, fair], fold)
    assert chosen([spoilt, fair], fold)[0] == "cb-rs"
    assert chosen([fair, spoilt], None)[0] == "cb"  # the best of the search, which comes first here
    assert chosen([spoilt, fair], (0, 5))[0] == "cb"
    rest = good.without(fold_indices(TRAIN, fold), TRAIN.counts, MEAN)
    assert rest is not None
    fitted = cu.fit_adjustment(rest.p, rest.labels, TRAIN.counts, usual_tau=0.0)
    assert chosen([good], fold)[1:] == (fitted.tau, max(1, fitted.temperature))


def test_evidence_of_the_judged_fold_alone_chooses_nothing():
    first, two = (evidence("cb-rs", [1], folds=number) for number in (1, 2))
    places = fold_indices(TRAIN, (0, 5))
    assert first.without(places, TRAIN.counts, MEAN) is None
    rest = two.without(places, TRAIN.counts, MEAN)
    assert rest is not None
    assert np.array_equal(rest.places, fold_indices(TRAIN, (1, 5)))
    assert chosen([first], (0, 5))[0] == "cb-rs"  # the best of the search
    assert chosen([two, first], (0, 5))[0] == "cb-rs"  # without what has nothing to say
