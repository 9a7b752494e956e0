"""Candidates judged on examples that they never saw, and dropped early."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from example_results import make_result
from fix_plans import fix_plan
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.posthoc.calibration import cross_adjusted
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.workflows import search as workflow
from class_uncertainty.workflows.fix_plan import SearchPlan
from class_uncertainty.workflows.ladder import Network, fit_networks
from class_uncertainty.workflows.search import Evidence, alike, judge, lowest, preferred

NO_NETWORKS = cast(Fit, None)
MEAN = Goal("mean", np.full(2, 0.5))
LABELS = np.repeat([0, 1], [6, 4])


def evidence(name: str, wrong: Sequence[int], cost: float = 1.0, number: int = 10) -> Evidence:
    """Of a candidate that is wrong on these of ten examples, of which it was judged on the first so many."""
    guesses = np.where(np.isin(np.arange(10), wrong), 1 - LABELS, LABELS)[:number]
    p = np.eye(2)[guesses]
    return Evidence(cu.Candidate(name), NO_NETWORKS, np.arange(number), LABELS[:number], p, p, cost)


@pytest.fixture(scope="module")
def context(digits):
    with open_context(
        cu.Dataset("digits", digits.train), Settings(recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    ) as context:
        yield context


@pytest.fixture
def goal(context):
    return Goal("mean", np.full(len(context.train.classes), 0.1))


def test_the_lowest_value_by_more_than_a_standard_error_wins():
    """An error in the second class counts 12.5, in the first 8.33; one error more is a standard error."""
    worst, best = evidence("naive", [0, 1, 6, 7]), evidence("cb", [0])
    assert preferred([worst, best], MEAN) is best
    assert preferred([best, worst], MEAN) is best


def test_a_cheaper_one_within_a_standard_error_wins_and_of_equals_the_first():
    best, behind = evidence("naive", []), evidence("cb", [6])  # behind by 12.5 ± 12.5
    assert preferred([best, behind], MEAN) is best
    assert preferred([behind, best], MEAN) is best
    assert preferred([behind, replace(best, cost=0.5)], MEAN).candidate.name == "naive"
    assert preferred([best, replace(behind, cost=0.5)], MEAN).candidate.name == "cb"
    assert preferred([replace(behind, cost=1 - 1e-12), replace(best, cost=1)], MEAN).candidate.name == "naive"
    equal = evidence("focal", [])
    assert preferred([best, equal], MEAN) is best
    assert preferred([equal, best], MEAN) is equal
    clear = evidence("cb-rs", [6, 7], cost=0.1)  # behind by 25 ± 17.7
    assert preferred([clear, best], MEAN) is best


def test_a_tie_is_with_the_best_not_with_the_next():
    """a is within a standard error of b, and b of c; but a is not within one of c."""
    a, b, c = evidence("naive", [6, 7], 0.1), evidence("cb", [6], 0.5), evidence("cb-rs", [])
    assert preferred([a, b, c], MEAN) is b


def test_evidence_of_fewer_folds_is_compared_on_the_examples_of_both():
    """By all of its examples the second is worse; on the six that both were judged on it is better."""
    short, long = evidence("naive", [0, 1], number=8), evidence("cb", [8, 9])
    assert preferred([short, long], MEAN) is long
    assert [len(one.places) for one in alike([short, long])] == [8, 8]


def test_lowest_keeps_the_preferred_and_then_the_best():
    rows = [evidence("naive", [6], 0.5), evidence("cb", []), evidence("cb-rs", [6, 7, 8]), evidence("focal", [0])]
    names = [[one.candidate.name for one in lowest(rows, MEAN, number)] for number in (1, 2, 3, 9)]
    assert names == [["naive"], ["naive", "cb"], ["naive", "cb", "focal"], ["naive", "cb", "focal", "cb-rs"]]


def test_without_some_examples():
    counts = np.array([6, 4])
    rest = evidence("naive", [6]).without(np.array([6, 0, 99]), counts, MEAN)
    assert rest is not None
    assert rest.places.tolist() == [1, 2, 3, 4, 5, 7, 8, 9]
    assert MEAN.value(rest.adjusted, rest.labels) == 0
    assert evidence("naive", [6]).without(np.arange(10), counts, MEAN) is None


def test_examples_that_are_left_out_adjust_no_others():
    """Whatever the networks said of them."""
    rng, labels, counts = np.random.default_rng(0), np.repeat([0, 1], [60, 30]), np.array([60, 30])
    p = rng.dirichlet([1, 1], 90)
    left_out = np.arange(0, 90, 4)
    spoilt = p.copy()
    spoilt[left_out] = 1 - p[left_out]
    rests = []
    for predicted in (p, spoilt):
        adjusted = cross_adjusted(predicted, labels, counts, MEAN)
        one = Evidence(cu.Candidate("naive"), NO_NETWORKS, np.arange(90), labels, predicted, adjusted, 1.0)
        rests.append(one.without(left_out, counts, MEAN))
    assert rests[0] is not None
    assert rests[1] is not None
    assert np.array_equal(rests[0].adjusted, rests[1].adjusted)


def test_evidence_of_a_fold_is_by_the_network_that_left_it_out(context, goal):
    train, candidate = context.train, cu.Candidate("cb-rs?rate=2")
    networks = fit_networks(context, [(candidate, 0, (k, 5)) for k in range(5)], None)[candidate]
    alone = cu.fit(train, [cu.Lane("cb-rs", 0, 2 * context.recipe.lr, (k, 5)) for k in range(5)], recipe=context.recipe)
    found = judge(context, candidate, networks, goal)
    assert sorted(found.places) == list(range(len(train)))
    assert found.p[np.argsort(found.places)] == pytest.approx(alone.out_of_fold(train))
    assert np.array_equal(found.labels, train.labels[found.places])
    first = judge(context, candidate, networks.take([0]), goal)
    assert np.array_equal(first.places, fold_indices(train, (0, 5)))
    assert np.array_equal(first.p, found.p[: len(first.p)])


def test_groups_stay_together_where_tau_is_fitted():
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], [80, 40])
    groups, candidate = rng.integers(0, 15, 120), cu.Candidate("naive")
    data = cu.Data(rng.normal(0, 1, (120, 2)) + labels[:, None], labels, groups=groups)
    with open_context(cu.Dataset("x", data), Settings(recipe=cu.Recipe("linear", 1, 16))) as grouped:
        networks = fit_networks(grouped, [(candidate, 0, (k, 5)) for k in range(5)], None)[candidate]
        one = judge(grouped, candidate, networks, MEAN)
    rest = one.without(np.arange(0, 120, 7), data.counts, MEAN)
    assert rest is not None
    for part in (one, rest):
        given = (part.p, part.labels, data.counts, MEAN, candidate.usual_tau)
        assert np.array_equal(part.adjusted, cross_adjusted(*given, data.group_codes[part.places]))
        assert not np.array_equal(part.adjusted, cross_adjusted(*given))


class Judged:
    """Evidence in place of trainings: how wrong each candidate is on each fold, and on which it diverges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], diverges: dict[str, int]) -> None:
        self.wrong, self.diverges = wrong, diverges
        self.asked: list[tuple[tuple[str, ...], int]] = []
        monkeypatch.setattr(workflow, "fit_networks", self.fit)
        monkeypatch.setattr(workflow, "judge", self.judge)

    def fit(self, context: Context, networks: Sequence[Network], stats: Any, what: str) -> dict[cu.Candidate, Any]:
        """As many networks of each candidate as are wanted."""
        folds = Counter(candidate for candidate, _, _ in networks)
        self.asked.append((tuple(row.name for row in folds), max(folds.values(), default=0)))
        return {row: Networks(number, self.diverges.get(row.name, 9)) for row, number in folds.items()}

    def judge(self, context: Context, candidate: cu.Candidate, networks: "Networks", goal: Goal) -> Evidence:
        """Fold after fold of ten examples; a digit says how many of the fold are wrong."""
        wrong = np.concatenate([np.arange(10) < int(digit) for digit in self.wrong[candidate.name][: networks.folds]])
        labels = np.arange(len(wrong)) % 2
        p = np.eye(2)[np.where(wrong, 1 - labels, labels)]
        return Evidence(candidate, cast(Fit, networks), np.arange(len(wrong)), labels, p, p, 1.0)


class Networks:
    def __init__(self, folds: int, diverges: int) -> None:
        self.folds = folds
        self.results = [
            make_result(cu.Lane("naive", lr=0.5), seconds=2.0, diverged=7 if k >= diverges else None)
            for k in range(folds)
        ]


PLAN = SearchPlan(4, 2, 3, 5, 0, False)


@pytest.fixture
def table():
    random = np.random.default_rng(0)
    data = cu.Data(random.normal(size=(50, 2)).astype(np.float32), np.arange(50) % 2)
    with open_context(data, Settings(recipe=cu.Recipe("linear", 1, 8))) as context:
        yield context


def halve(
    monkeypatch: pytest.MonkeyPatch, table: Context, wrong: dict[str, str], diverges: dict[str, int] | None = None
) -> tuple[workflow.Search, list[tuple[tuple[str, ...], int]]]:
    judged = Judged(monkeypatch, wrong, diverges or {})
    rows = [cu.Candidate(name) for name in wrong]
    return workflow.search(table, fix_plan(MEAN, rows, replace(PLAN, candidates=len(rows))), None), judged.asked


def test_halving_keeps_the_best(monkeypatch, table):
    """Four on a fold, the best two on three, the better of them on five."""
    wrong = {"naive": "60000", "cb": "19999", "cb-rs": "70000", "focal": "20000"}
    found, asked = halve(monkeypatch, table, wrong)
    assert asked == [(("naive", "cb", "cb-rs", "focal"), 1), (("cb", "focal"), 3), (("focal",), 5)]
    assert [one.candidate.name for one in found.finalists] == ["cb", "focal"]
    assert [len(one.places) for one in found.finalists] == [30, 50]
    assert found.best.candidate.name == "focal"
    assert [[(row.candidate, row.kept) for row in rung.rows] for rung in found.rungs] == [
        [("naive", False), ("cb", True), ("cb-rs", False), ("focal", True)],
        [("cb", False), ("focal", True)],
        [("focal", True)],
    ]
    assert [(rung.folds, rung.examples, rung.trainings, rung.seconds) for rung in found.rungs] == [
        (1, 10, 4, 8.0),
        (3, 30, 4, 8.0),
        (5, 50, 2, 4.0),
    ]
    assert (found.trainings, found.seconds) == (10, 20.0)
    assert found.spent("cb") == (3, 6.0)
    first = found.rungs[0].rows
    assert [row.value for row in first] == pytest.approx([60, 10, 70, 20])
    assert [row.behind for row in first] == pytest.approx([50, 0, 60, 10])


def test_the_baseline_is_the_naive_row_of_the_best_rate(monkeypatch, table):
    wrong = {"naive": "50000", "naive?rate=4": "30000", "cb": "10000", "cb-rs": "10000"}
    assert halve(monkeypatch, table, wrong)[0].baseline(MEAN) == cu.Candidate("naive?rate=4")
    best = {"naive": "00000", "naive?rate=4": "10000", "cb": "90000"}
    assert halve(monkeypatch, table, best)[0].baseline(MEAN) == cu.Candidate("naive")
    assert halve(monkeypatch, table, {"cb": "10000", "cb-rs": "20000"})[0].baseline(MEAN) == cu.Candidate("naive")


def test_of_several_kinds_the_best_as_it_is_stands_before(monkeypatch, table):
    """Also where another is the best once adjusted."""
    logistic, boosting = evidence("naive?recipe=logistic", [0, 1, 2, 6, 7]), evidence("naive?recipe=boosting", [0, 6])
    logistic = replace(logistic, adjusted=evidence("naive", []).p)
    rows = {one.candidate.name: one for one in (logistic, boosting)}
    Judged(monkeypatch, {}, {})
    monkeypatch.setattr(workflow, "judge", lambda context, candidate, networks, goal: rows[candidate.name])
    plan = SearchPlan(2, 2, 5, 5, 0, False)
    searched = workflow.search(table, fix_plan(MEAN, [one.candidate for one in rows.values()], plan), None)
    assert searched.best is logistic
    assert searched.baseline(MEAN) is boosting.candidate


def test_standard_errors_of_a_rung_allow_for_groups(monkeypatch, table):
    """Both errors, of 12.5 each, are of one group: the paired one is their sum, and not the root of 2 times 12.5 ** 2.

    Around the mean of the second class, 50, the group has 12.5, and two other examples have -6.25 each.
    """
    groups = np.array([0, 1, 2, 3, 4, 5, 6, 6, 7, 8])
    rows = {name: replace(evidence(name, wrong), groups=groups) for name, wrong in (("naive", []), ("cb", [6, 7]))}
    Judged(monkeypatch, {}, {})
    monkeypatch.setattr(workflow, "judge", lambda context, candidate, networks, goal: rows[candidate.name])
    plan = fix_plan(MEAN, [*map(cu.Candidate, rows)], SearchPlan(2, 1, 5, 5, 0, False))
    searched = workflow.search(table, plan, None)
    row = searched.rungs[0].rows[1]
    assert (row.value, row.behind, row.behind_error) == pytest.approx((25, 25, 25))
    assert row.standard_error == pytest.approx(np.sqrt(12.5**2 + 2 * 6.25**2))


def test_a_candidate_that_diverges_is_dropped(monkeypatch, table):
    wrong = {"naive": "60000", "cb": "10000", "cb-rs": "50000", "focal": "90000"}
    found, asked = halve(monkeypatch, table, wrong, {"cb": 0})
    assert asked[1:] == [(("naive", "cb-rs"), 3), (("cb-rs",), 5)]
    row = found.rungs[0].rows[1]
    assert (row.reason, row.trainings) == ("it diverged in epoch 8 at the learning rate 0.5", 1)
    assert (row.value, row.kept) == (None, False)
    assert "cb" not in found.evidence


def test_one_that_diverges_on_later_folds_leaves_the_others(monkeypatch, table):
    wrong = {"naive": "60000", "cb": "10000", "cb-rs": "30000", "focal": "90000"}
    found, _ = halve(monkeypatch, table, wrong, {"cb": 1})  # on the second rung
    assert [one.candidate.name for one in found.finalists] == ["cb-rs"]
    assert len(found.finalists[0].places) == 50
    found, asked = halve(monkeypatch, table, wrong, {"cb": 3, "cb-rs": 9})  # on the last
    assert asked[-1] == (("cb",), 5)
    assert [one.candidate.name for one in found.finalists] == ["cb-rs"]
    assert found.rungs[-1].rows[0].reason.startswith("it diverged")
    assert found.trainings == 10
    found, asked = halve(monkeypatch, table, wrong, {"cb": 2, "cb-rs": 2})  # both on the second
    assert [one.candidate.name for one in found.finalists] == ["naive", "focal"]
    assert len(asked) == 2


def test_all_dropped_is_one_sentence(monkeypatch, table):
    with refused("no candidate could be trained on these data", "'naive': it diverged in epoch 8"):
        halve(monkeypatch, table, {"naive": "0", "cb": "0"}, {"naive": 0, "cb": 0})
    with refused("no candidate could be trained on these data", "'naive+autoaugment'", "the data are features"):
        halve(monkeypatch, table, {"naive+autoaugment": "0", "naive+cutout": "0"})
