"""Advice: what to do where a fix does not help, or not clearly."""

from dataclasses import replace

import pytest
from reporting.examples import TEN_CLASSES, worsened

from class_uncertainty.posthoc.error_changes import ErrorChange
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.before_after import view
from class_uncertainty.reporting.fix_advice import fix_advice, improved

NAIVE, *LATER = TEN_CLASSES.ladder
FALL, RISE, UNCLEAR = ErrorChange(-2.0, -3.0, -1.0), ErrorChange(2.0, 1.0, 3.0), ErrorChange(-1.0, -3.0, 1.0)


def priced(mean: ErrorChange, overall: ErrorChange, *classes: ErrorChange) -> FixReport:
    assert TEN_CLASSES.price
    changes = (*classes, *(UNCLEAR,) * (10 - len(classes)))
    return replace(TEN_CLASSES, price=replace(TEN_CLASSES.price, mean=mean, overall=overall, classes=changes))


def for_goal(goal: str, change: ErrorChange | None, *changes: ErrorChange) -> FixReport:
    report = priced(*changes)
    assert report.price
    return replace(report, goal=goal, price=replace(report.price, goal=change))


@pytest.mark.parametrize(
    ("report", "harm"),
    [
        (for_goal("overall", UNCLEAR, RISE, UNCLEAR), "the class-mean error clearly rises"),
        (for_goal("overall", UNCLEAR, UNCLEAR, UNCLEAR, RISE, FALL), "the error of 1 class clearly rises"),
        (for_goal("cost:costs.csv", UNCLEAR, RISE, RISE), "the overall error clearly rises"),
        (for_goal("prior:prior.txt", UNCLEAR, RISE, UNCLEAR), "the class-mean error clearly rises"),
        (for_goal("worst", None, UNCLEAR, RISE), "the overall error clearly rises"),
    ],
)
def test_an_unclear_gain_at_a_clear_price_for_every_goal(report, harm):
    assert f"is not clear, but its price is: {harm}. To keep the naive" in fix_advice(report)


@pytest.mark.parametrize(
    ("report", "harm"),
    [
        (priced(UNCLEAR, RISE, RISE), "the overall error clearly rises"),
        (priced(UNCLEAR, UNCLEAR, RISE, RISE, FALL), "the error of 2 classes clearly rises"),
        (priced(UNCLEAR, FALL, RISE), "the error of 1 class clearly rises"),
    ],
)
def test_an_unclear_gain_at_a_clear_price(report, harm):
    advice = fix_advice(report)
    assert advice.startswith(f"The gain in class-mean error is not clear, but its price is: {harm}. To keep the naive")
    assert "cu train digits --lr 0.4 --save MODEL, with the same --recipe and --epochs;" in advice
    assert view(report)["advice"] == advice


@pytest.mark.parametrize(
    "report",
    [
        TEN_CLASSES,
        priced(FALL, RISE, RISE),
        priced(UNCLEAR, UNCLEAR),
        priced(UNCLEAR, UNCLEAR, ErrorChange(2.0, 0.1, 3.9)),  # of ten classes one rises so by chance
        for_goal("overall", FALL, RISE, RISE, RISE),
        for_goal("worst", None, RISE, RISE, FALL),
        for_goal("overall", None, UNCLEAR, RISE),  # as stored by earlier versions, without its interval
        replace(TEN_CLASSES, price=None),  # as stored by earlier versions
    ],
)
def test_a_clear_gain_or_an_unclear_price_needs_no_advice(report):
    assert fix_advice(report) == ""


@pytest.mark.parametrize(("error", "classes", "little"), [(77.0, 10, True), (76.0, 10, False), (43.0, 2, True)])
def test_who_has_learnt_little_needs_another_model_first(error, classes, little):
    """15 % of the way from guessing to no error: 76.5 % of ten classes, 42.5 % of two."""
    after = replace(TEN_CLASSES.after, errors=(error,))
    report = replace(worsened(TEN_CLASSES), after=after, classes=TEN_CLASSES.classes[:classes])
    advice = fix_advice(report)
    assert advice.startswith("Little was learnt: the class-mean error is") == little
    assert ("did not fall" in advice) != little
    if little:
        assert f"by guessing {100 - 100 / classes:.0f} %. First find a model that learns: more examples" in advice
    assert "Little" not in fix_advice(replace(report, goal="overall"))  # the most frequent class may suffice


def test_of_tables_all_kinds_of_models_were_tried():
    naive = replace(NAIVE, candidate="naive?recipe=logistic")
    report = replace(TEN_CLASSES, ladder=(naive, *LATER), after=replace(TEN_CLASSES.after, errors=(89.0,)))
    assert fix_advice(report).endswith("more rows, or columns that tell the classes apart.")


def test_who_kept_naive_training_is_not_told_how_to_get_it():
    values = tuple(replace(step, values=(1.0,), kept=step.name == "naive") for step in TEN_CLASSES.ladder)
    unchanged = replace(TEN_CLASSES, ladder=values, after=TEN_CLASSES.before)
    assert "did not fall" in fix_advice(unchanged)
    assert fix_advice(replace(unchanged, step="naive")) == ""


def test_a_naive_network_whose_decisions_stay_is_called_so():
    """Whatever the step is called: with equal counts, naive training is kept as "adjusted" with a strength of 0."""
    values = tuple(replace(step, values=(1.0,), kept=step.name == "adjusted") for step in TEN_CLASSES.ladder)
    unchanged = replace(TEN_CLASSES, ladder=values, step="adjusted", after=TEN_CLASSES.before, keeps_naive=True)
    advice = fix_advice(unchanged)
    assert "The class-mean error did not fall. What this fix saves is the naive model" in advice
    assert "cu train" not in advice
    priced_alike = replace(priced(UNCLEAR, RISE, RISE), keeps_naive=True)  # as it may be by folds
    assert fix_advice(priced_alike) == ""


def test_no_change_is_no_improvement():
    assert improved(TEN_CLASSES)
    assert not improved(replace(TEN_CLASSES, ladder=tuple(replace(step, values=(1.0,)) for step in TEN_CLASSES.ladder)))
