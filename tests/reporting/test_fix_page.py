"""The page of a fix says what its view says: who gained, who paid, and how that came to be."""

from dataclasses import replace
from pathlib import Path
from xml.dom.minidom import parseString

import numpy as np
import pytest
from reporting.examples import HUNDRED_CLASSES, TEN_CLASSES, fix_report

import class_uncertainty as cu
from class_uncertainty.posthoc.error_changes import ErrorChange
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.reporting.charts import standalone
from class_uncertainty.reporting.fix_page import fix_lead, fix_page
from class_uncertainty.reporting.fix_view import ClassChange, FixView, view_fix
from class_uncertainty.reporting.page import Block, Page, render
from class_uncertainty.reporting.page_examples import fix_examples


def change(name: str, before: float, after: float, clear: bool) -> ClassChange:
    interval = ErrorChange(after - before, after - before - 1, after - before + 1)
    return ClassChange(name, 100, 50, before, after, interval, clear)


def view(*shown: ClassChange, mean: ClassChange | None = None) -> FixView:
    mean = mean or change("class mean", 15.8, 13.2, True)
    return replace(view_fix(TEN_CLASSES), shown=shown, others=[], not_judged=[], totals=[mean])


def block(page: Page, start: str) -> Block:
    blocks = [one for one in page.blocks if one.heading.startswith(start)]
    return next((one for one in blocks if one.heading == start), blocks[0])


def cells(page: Page, start: str) -> list[dict[str, str]]:
    table = block(page, start).table
    assert table
    return [dict(zip(table.columns, (cell.text for cell in row), strict=True)) for row in table.rows]


def test_the_lead_names_who_gained_and_who_paid():
    trash, metal = change("trash", 41, 26, True), change("metal", 5, 9, True)
    noise = change("paper", 12, 11, False)
    gained = fix_lead(view(trash, noise))
    for words in ("trash", "41 to 26 %", "15.8 to 13.2 %", "no class clearly pays"):
        assert words in gained
    assert "paper" not in gained
    assert "metal clearly pays" in fix_lead(view(trash, metal))
    unclear = change("class mean", 15.8, 15.2, False)
    assert "does not clearly change" in fix_lead(view(trash, mean=unclear))
    assert "Nothing changes clearly" in fix_lead(view(noise, mean=unclear))
    assert "no single class" in fix_lead(view(noise))


def test_a_fix_that_keeps_naive_training_says_so():
    report = replace(TEN_CLASSES, keeps_naive=True, after=TEN_CLASSES.before)
    page = fix_page(view_fix(report))
    assert "Naive training is kept" in page.lead
    assert page.chart
    assert "start" not in page.chart.svg


@pytest.mark.parametrize("report", [TEN_CLASSES, HUNDRED_CLASSES], ids=["ten", "hundred"])
def test_classes_are_those_of_the_report(report):
    page = fix_page(view_fix(report))
    rows = cells(page, "Classes")
    assert {row["Class"] for row in rows} == set(report.classes)
    for row in rows:
        c = report.classes.index(row["Class"])
        assert float(row["Before, %"]) == pytest.approx(report.before.means[c], abs=0.051)
        assert float(row["After, %"]) == pytest.approx(report.after.means[c], abs=0.051)
    assert [block.is_folded for block in page.blocks].count(False) == (1 if report is TEN_CLASSES else 2)
    for chart in page.charts:
        parseString(standalone(chart))


def test_the_lines_of_the_chart_begin_before_and_end_after():
    """The axis is straight, so that places are values times one number."""
    page = fix_page(view_fix(TEN_CLASSES))
    assert page.chart
    drawn: dict[str, list[float]] = {"start": [], "dot": []}
    for circle in parseString(page.chart.svg).getElementsByTagName("circle"):
        place = float(circle.getAttribute("cx").removesuffix("%"))
        drawn[circle.getAttribute("class").split()[0]].append(place)
    scale = max(drawn["start"]) / TEN_CLASSES.before.means.max()
    for kind, side in (("start", TEN_CLASSES.before), ("dot", TEN_CLASSES.after)):
        assert sorted(drawn[kind]) == pytest.approx(sorted(scale * side.means), abs=0.02)


def test_confusions_are_the_most_costly_of_either_side():
    report = HUNDRED_CLASSES
    rows = cells(fix_page(view_fix(report)), "Most costly")
    for confusion, side in ((report.before.confusion, "Before, %"), (report.after.confusion, "After, %")):
        shares = np.array(confusion)
        np.fill_diagonal(shares, 0)
        largest = np.sort(shares.ravel())[::-1][:8]
        shown = sorted((float(row[side]) for row in rows), reverse=True)[:8]
        np.testing.assert_allclose(shown, largest, atol=0.051)


def test_steps_and_rungs_are_listed_with_what_they_cost():
    page = fix_page(view_fix(TEN_CLASSES))
    steps = cells(page, "What each step gained")
    assert [row["Trainings"] for row in steps] == [f"{step.trainings:.3g}" for step in TEN_CLASSES.ladder]
    assert [row["Step"].endswith("(kept)") for row in steps] == [step.kept for step in TEN_CLASSES.ladder]
    rungs = [one for one in page.blocks if one.heading.startswith("How it was chosen")]
    assert len(rungs) == len(TEN_CLASSES.rungs)
    outcomes = [row["Outcome"] for row in cells(page, "How it was chosen")]
    reasons = TEN_CLASSES.rungs[0].rows
    assert [outcome == "kept" for outcome in outcomes] == [row.kept for row in reasons]
    assert outcomes[2].endswith(reasons[2].reason)


def test_calibration_is_the_reports_and_small_bins_are_not_drawn():
    page = fix_page(view_fix(TEN_CLASSES))
    calibration = block(page, "Calibration")
    for side in (TEN_CLASSES.before, TEN_CLASSES.after):
        assert f"{side.ece:.1f} %" in calibration.text[0]
    assert calibration.chart
    bins = [*TEN_CLASSES.before.bins, *TEN_CLASSES.after.bins]
    shown = [one for one in bins if one.examples >= 10]
    assert 0 < calibration.chart.svg.count("<circle") == len(shown) < len(bins)
    few = tuple(replace(one, examples=9) for one in TEN_CLASSES.before.bins)
    sides = {side: replace(getattr(TEN_CLASSES, side), bins=few) for side in ("before", "after")}
    assert block(fix_page(view_fix(replace(TEN_CLASSES, **sides))), "Calibration").chart is None


def two_classes() -> FixReport:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [80, 40])
    p = rng.dirichlet([1, 1], (2, 120))
    before, after = (evaluate_seeds(side[None], labels, [90, 10]) for side in p)
    return replace(fix_report(2, seeds=1), before=before, after=after)


def test_two_classes_have_recall_and_thresholds():
    report = two_classes()
    page = fix_page(view_fix(report))
    assert report.before.two
    assert report.after.two
    assert f"{report.before.two.recall:.1f} → {report.after.two.recall:.1f} %" in [one.number for one in page.numbers]
    assert block(page, "Choosing a threshold").chart


def test_labels_worth_a_look_have_pictures_and_rows():
    issues = (
        LabelIssue(3, "wolf", "dog", 0.012, 0.98, "data:image/png;base64,AAAA", "3.png", 0.97, 2, 1, 17),
        LabelIssue(4, "cat", "dog", 0.3, 0.6, "", "4.png", 0.6, 2, 1, 17),
    )
    shown = block(fix_page(view_fix(replace(TEN_CLASSES, label_issues=issues, witnesses=3))), "Labels")
    assert [picture.lines[:3] for picture in shown.pictures] == [["3.png", "labelled wolf", "rather dog"]]
    assert shown.table
    assert [row[0].text for row in shown.table.rows] == ["3.png", "4.png"]


def test_what_to_do_next_depends_on_what_was_saved():
    unsaved = fix_page(view_fix(TEN_CLASSES)).steps[-1][1]
    saved = fix_page(view_fix(TEN_CLASSES), files=[Path("my model.safetensors"), Path("my model.json")]).steps[-1][1]
    assert unsaved == "--save MODEL"
    assert saved == "cu predict 'my model' NEW"


@pytest.mark.parametrize("has_test", [True, False])
def test_the_examples_are_those_that_judged(digits, has_test, tmp_path):
    dataset = digits if has_test else cu.Dataset("folds", digits.train)
    recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    report = cu.fix(dataset, recipe=recipe, candidates=["naive"], trainings=2, seeds=1).report
    page = fix_page(view_fix(report, dataset), fix_examples(report, dataset))
    assert page.examples
    assert len(page.examples.outcomes.labels) == len(digits.test if has_test else digits.train)
    html = render([page], tmp_path)
    assert html.count('data-open="') >= 10
    assert "data:image/png" in html
