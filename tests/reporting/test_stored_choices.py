"""Of several fixes and estimates that are stored, which ones a section shows, and how it names the others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_results import add_data, make_measurement
from reporting.examples import TEN_CLASSES
from reporting.reported import SHORT, SHORTER

import class_uncertainty as cu
import class_uncertainty.runs.store
from class_uncertainty.reporting.page import render
from class_uncertainty.reporting.stored_views import stored_results
from class_uncertainty.training.keys import kind_of


def test_what_was_trained_otherwise_is_not_averaged(store, digits, monkeypatch, train):
    """Results of another engine, of a redefined row, of methods without a name and of another device stand apart."""
    lanes = [cu.Lane("cb", seed) for seed in (0, 1)] + [cu.Lane(cu.Method(scale=scale)) for scale in (2.0, 3.0)]
    with monkeypatch.context() as older:
        older.setattr(class_uncertainty.runs.store, "ENGINE", 0)
        older.setattr(class_uncertainty.training.keys, "ENGINE", 0)
        train(lanes[0])
    train(*lanes)
    monkeypatch.setitem(cu.METHODS, "cb", replace(cu.METHODS["cb"], reduction="mean"))
    train("cb")
    (section,) = stored_results(store)
    assert [row.runs for row in section.methods] == [2, 1, 1, 1]
    assert [row.method[:7] for row in section.methods] == ["cb", "custom-", "custom-", "cb"]
    elsewhere = replace(store.results(digits.fingerprint)[0], device="cuda")
    store.add("elsewhere", digits.fingerprint, elsewhere)
    assert [section.name for section in stored_results(store)] == [
        "digits-lt:20, device cpu",
        "digits-lt:20, device cuda",
    ]


def test_the_newest_fix_comes_first_and_the_rest_is_told_from_it(store, digits, train):
    recipes = [SHORTER, SHORT, replace(SHORT, epochs=3)]
    for recipe in recipes:
        train("naive", recipe=recipe)
    on_gpu = replace(store.results(digits.fingerprint)[0], device="cuda", recipe=SHORT)
    store.add("on a GPU", digits.fingerprint, on_gpu)
    for recipe in (recipes[1], recipes[2], recipes[1]):  # the first one again
        report = replace(TEN_CLASSES, kind=kind_of(recipe, "cpu"))
        store.add_fix_report(report.kind, digits.fingerprint, report)
    told = {section.name: (" ".join(section.notes), bool(section.fix_report)) for section in stored_results(store)}
    beside = "Not the fix above: trained by another recipe or on another device."
    assert told == {
        "digits-lt:20, epochs 2, device cpu": ("", True),
        "digits-lt:20, epochs 3, device cpu": ("An older fix, by another recipe or on another device.", True),
        "digits-lt:20, epochs 1, device cpu": (beside, False),
        "digits-lt:20, epochs 2, device cuda": (beside, False),
    }


def test_a_fix_is_shown_where_its_recipe_has_no_result(store, digits, train):
    """As of a table, whose recipe is a forest, where another kind of model was kept."""
    train("naive")
    store.add_fix_report("f", digits.fingerprint, replace(TEN_CLASSES, kind=kind_of(SHORTER, "cpu")))
    fixed, trained = stored_results(store)
    assert (fixed.name, fixed.methods, fixed.fix_report is None) == ("digits-lt:20", (), False)
    assert (trained.name, len(trained.methods)) == ("digits-lt:20, network small-conv", 1)


@pytest.mark.parametrize("estimator", ["snapshot", "out-of-fold"])
def test_an_estimate_is_shown_without_any_plain_result(store, measure, estimator):
    measure(estimator)
    (section,) = stored_results(store)
    assert (section.measured.estimator, section.measured.members, section.methods) == (estimator, 2, ())


def test_data_that_changed_come_first_as_they_are_now(store, digits, train):
    labels = digits.train.labels.copy()
    labels[0] = 1
    now = cu.Dataset(digits.name, cu.Data(digits.train.inputs, labels, digits.classes), digits.test)
    for dataset in (digits, now):
        train("naive", dataset=dataset)
    new, old = stored_results(store)
    assert (new.name, old.name) == (digits.name, f"{digits.name}, before the data changed")
    fits = (cu.fit(data.train, [cu.Lane("naive")], recipe=SHORT, test=data.test) for data in (now, digits))
    errors = [networks.results[0].error for networks in fits]
    assert [section.methods[0].error for section in (new, old)] == pytest.approx(errors)


def test_the_estimate_shown_is_the_one_compared_with(store, measure, train):
    train("ubrs", estimate=measure())
    measure("ensemble", 3)
    (section,) = stored_results(store)
    assert (section.measured.members, " ".join(section.notes)) == (2, "")
    assert [row.method for row in section.methods] == ["naive", "ubrs"]


def test_the_usual_estimator_is_shown_unless_another_is_asked_for(store, digits, measure, train):
    """Though methods used the other one last. A fix is shown with what it was chosen on, out-of-fold."""
    for name in ("ensemble", "out-of-fold"):
        train("ubrs", "ubrw", estimate=measure(name))
    hidden = "Results not shown, since they used another estimate or score: 2. Choose one with --estimator"
    for asked, shown, other in (
        (None, "ensemble", "out-of-fold"),
        ("ensemble", "ensemble", "out-of-fold"),
        ("out-of-fold", "out-of-fold", "ensemble"),
    ):
        (section,) = stored_results(store, estimator=asked)
        assert (section.measured.estimator, " ".join(section.notes)) == (shown, f"{hidden} {other}.")
        assert [row.method for row in section.methods] == ["naive", "ubrs", "ubrw"]
    with pytest.raises(cu.InputError, match=r"no estimate of 'digits-lt:20' by 'duq'; it has ensemble, out-of-fold\."):
        stored_results(store, "digits-lt:20", estimator="duq")
    store.add_fix_report("f", digits.fingerprint, replace(TEN_CLASSES, kind=kind_of(SHORT, "cpu")))
    assert stored_results(store)[0].measured.estimator == "out-of-fold"


def test_data_that_the_asked_estimator_has_not_measured_keep_the_usual_one(store):
    """The first by two estimators, the last one measured being another than usual; the second by the asked one."""
    by_data = {"a": ("ensemble", "out-of-fold"), "b": ("duq",)}
    for name, estimators in by_data.items():
        data = add_data(store, name=name, fingerprint=name * 8)
        for estimator in estimators:
            store.add_measurement(name + estimator, data.fingerprint, make_measurement(estimator=estimator))
    for asked, of_a in ((None, "ensemble"), ("duq", "ensemble"), ("out-of-fold", "out-of-fold")):
        shown = {section.name: section.measured.estimator for section in stored_results(store, estimator=asked)}
        assert shown == {"a": of_a, "b": "duq"}


@pytest.mark.parametrize("name", [name for name in cu.ESTIMATORS if name != "probabilities"])
def test_every_estimate_can_be_reported(name, store, digits, measure, train):
    """One member or several, with what was trained by it; naive's row is never of folds, bootstraps or cycles."""
    estimate = measure(name)
    train("naive", "ubrw", estimate=estimate)
    (section,) = stored_results(store)
    assert (section.measured.members, " ".join(section.notes)) == (estimate.members, "")
    assert [row.uncertainty for row in section.classes] == pytest.approx(estimate.mu)
    rows = {row.method: row for row in section.methods}
    assert {"naive", "ubrw"} <= set(rows) <= {"naive", "ubrw", "dropout", "duq"}
    plain = cu.fit(digits.train, [cu.Lane("naive")], recipe=SHORT, test=digits.test).results[0]
    assert (rows["naive"].runs, rows["naive"].error) == (1, pytest.approx(plain.error))
    if name == "online":  # one member, with a score of its own
        assert render([section.page], Path()).startswith("<!doctype html>")


def test_an_estimate_from_a_file_can_be_reported(store, digits, tmp_path, rng, measure, train):
    np.save(tmp_path / "p.npy", rng.dirichlet(np.ones(10), len(digits.train)))
    estimate = measure(f"probabilities:{tmp_path / 'p.npy'}", 5)
    train("ubrw", estimate=estimate)
    (section,) = stored_results(store)
    assert [row.method for row in section.methods] == ["ubrw"]
    assert [row.uncertainty for row in section.classes] == pytest.approx(estimate.mu)
    assert {row.error for row in section.classes} == {None}
    assert render([section.page], Path()).startswith("<!doctype html>")


def test_what_was_trained_by_another_score_is_shown_by_it(store, measure, train):
    """The store keeps probabilities, not scores: the report scores them as the last result did."""
    estimate = measure().using("epistemic")
    train("ubrw", estimate=estimate)
    (section,) = stored_results(store)
    assert ("ubrw", " ".join(section.notes)) == (section.methods[-1].method, "")
    assert [row.uncertainty for row in section.classes] == pytest.approx(estimate.mu)


def test_methods_by_another_measure_or_with_augmentation_have_rows_of_their_own(store, measure, train):
    names = ["ubrw", "ubrw@product", "ubrw@product^0.5", "naive+mixup"]
    train(*names, estimate=measure())
    (section,) = stored_results(store)
    assert sorted((row.method, row.runs) for row in section.methods) == sorted((name, 1) for name in ["naive", *names])
    page = render([section.page], Path())
    assert all(name in page for name in names)


def test_fixes_for_other_goals_are_named_where_the_last_is_shown(store, digits, train):
    train("naive")
    for goal in ("mean", "cost:c.csv", "worst"):
        report = replace(TEN_CLASSES, kind=kind_of(SHORT, "cpu"), goal=goal)
        store.add_fix_report(goal, digits.fingerprint, report)
        (section,) = stored_results(store)
        assert section.fix_report == report
        assert ("Older fixes are left out" in " ".join(section.notes)) == (goal != "mean")
    assert "left out: goal mean, cost:c.csv. Repeat a 'cu fix' to show it" in " ".join(section.notes)


@pytest.mark.parametrize(
    ("candidate", "number", "kept"),
    [
        ("naive?rate=2", 1, "small-conv"),
        ("cb-rs", 5, "5 × small-conv"),
        ("naive?recipe=logistic + cb-rs?recipe=forest + naive?recipe=boosting", 3, "linear + forest + boosting"),
    ],
)
def test_the_network_of_a_fix_is_what_it_keeps(store, digits, train, candidate, number, kept):
    train("naive")
    other = replace(store.results(digits.fingerprint)[0], recipe=replace(SHORT, network="resnet32"))
    store.add("by another network", digits.fingerprint, other)
    step = replace(TEN_CLASSES.ladder[3], candidate=candidate, networks=number, parameters=110_000, kept=True)
    report = replace(TEN_CLASSES, kind=kind_of(SHORT, "cpu"), ladder=(TEN_CLASSES.ladder[0], step))
    store.add_fix_report("f", digits.fingerprint, report)
    fixed, _ = stored_results(store)
    assert fixed.name == f"digits-lt:20, network {kept.removeprefix('5 × ')}"
