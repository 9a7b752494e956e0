"""Before and after a fix: rows, key figures, sentences, and the block of the page."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from reporting.examples import HUNDRED_CLASSES, NASTY, TAUGHT, TEN_CLASSES, fix_report, fix_section, worsened
from reporting.test_html_page import Page

from class_uncertainty import Data
from class_uncertainty.posthoc.diagnosis import BY_COST, NOTHING_WRONG, diagnose
from class_uncertainty.posthoc.error_changes import ErrorChange, price
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import LabelIssue, label_issues
from class_uncertainty.reporting import before_after, html_page
from class_uncertainty.reporting.section import Section

SWAPPED = worsened(TEN_CLASSES)
LADDER = TEN_CLASSES.ladder
ISSUES = (LabelIssue(1234, "wolf", "dog", 0.012, 0.98, ""), LabelIssue(7, "cat", "dog", 0.012, 0.98, "", "line 1236"))


def render(report: FixReport) -> str:
    return html_page.render([fix_section(report)])[0]


def text(html: str) -> str:
    """What a reader sees, in one line."""
    unseen = r"<script.*?</script>|<style.*?</style>|<svg.*?</svg>|<[^>]*>"
    return re.sub(r"\s+", " ", unescape(re.sub(unseen, " ", html, flags=re.DOTALL)))


@pytest.fixture(scope="module")
def html():
    return render(TEN_CLASSES)


def test_changes_are_the_class_means():
    rows = before_after.changes(TEN_CLASSES)
    assert [row.before for row in rows] == sorted((row.before for row in rows), reverse=True)
    for row in rows:
        c = TEN_CLASSES.classes.index(row.name)
        sides = (TEN_CLASSES.before, TEN_CLASSES.after)
        before, after = (np.array(side.class_errors)[:, c].mean() for side in sides)
        assert row.count == TEN_CLASSES.counts[c]
        assert (row.before, row.after) == (pytest.approx(before), pytest.approx(after))
        assert row.change == pytest.approx(after - before)


def test_a_mean_summed_in_another_order_is_no_change():
    errors = ((0.1, 10.0), (0.2, 10.0), (0.3, 10.0))
    before, after = (replace(TEN_CLASSES.before, class_errors=order) for order in (errors, errors[::-1]))
    assert before.means[0] != after.means[0]
    report = replace(TEN_CLASSES, classes=("a", "b"), counts=(1, 1), before=before, after=after)
    assert [row.change for row in before_after.changes(report)] == [0, 0]


def test_confusions_are_the_most_costly_of_either_side():
    report = HUNDRED_CLASSES
    rows = before_after.confusions(report)
    for confusion, side in ((report.before.confusion, "before"), (report.after.confusion, "after")):
        off_diagonal = np.array(confusion)
        np.fill_diagonal(off_diagonal, 0)
        largest = np.sort(off_diagonal.ravel())[::-1][:8]
        np.testing.assert_allclose(sorted((getattr(row, side) for row in rows), reverse=True)[:8], largest)
    for row in rows:
        c, k = report.classes.index(row.name), report.classes.index(row.predicted_as)
        assert (row.before, row.after) == (report.before.confusion[c][k], report.after.confusion[c][k])


def test_key_figures_are_means_with_their_deviation():
    (_, *errors), (_, *overall), (_, *worst), (_, *ece), (_, *nll) = before_after.key_figures(TEN_CLASSES)
    for i, side in enumerate((TEN_CLASSES.before, TEN_CLASSES.after)):
        assert errors[i] == f"{np.mean(side.errors):.2f} ± {np.std(side.errors, ddof=1):.2f}"
        assert overall[i] == f"{np.mean(side.overall):.2f} ± {np.std(side.overall, ddof=1):.2f}"
        assert worst[i] == f"{np.mean(side.worst):.2f} ± {np.std(side.worst, ddof=1):.2f}"
        assert (ece[i], nll[i]) == (f"{side.ece:.1f}", f"{side.nll:.3f}")
    assert before_after.key_figures(fix_report(10, seeds=1))[0][1] == f"{fix_report(10, seeds=1).before.errors[0]:.2f}"


@pytest.mark.parametrize(("report", "verb"), [(TEN_CLASSES, "falls"), (SWAPPED, "rises")], ids=["falls", "rises"])
def test_the_lead_says_how_the_error_changed(report, verb):
    lead = before_after.view(report)["lead"]
    rows = before_after.changes(report)
    fell, rose = sum(row.after < row.before for row in rows), sum(row.after > row.before for row in rows)
    assert fell != rose
    assert f"{verb} from {np.mean(report.before.errors):.2f} ±" in lead
    assert f"falls for {fell} of 10 classes" in lead
    assert f"rises for {rose}." in lead
    assert "3 seeds" in lead
    assert "significan" not in lead


def test_settings_and_cost():
    view = before_after.view(TEN_CLASSES)
    assert "with the strength 1 (τ; 0 leaves them, 1 is full)" in view["how"]
    assert "the student's logits are divided by the temperature 1.46." in view["how"]
    assert view["cost"] == ("18.4", "of 20 that were allowed")
    plain = before_after.view(replace(TEN_CLASSES, temperature=1.001))["how"]
    assert "the student's confidence is left as it is." in plain
    assert "temperature" not in plain


def test_the_lead_and_the_figures_are_of_the_goal():
    steps = [replace(step, values=(0.25, 0.75)) if step.kept else replace(step, values=(2.0, 4.0)) for step in LADDER]
    report = replace(TEN_CLASSES, goal="cost:c.csv", aim="mean cost", unit="", ladder=tuple(steps))
    assert "The mean cost falls from 3.000 ± 1.414 to 0.500 ± 0.354 over" in before_after.view(report)["lead"]
    assert before_after.key_figures(report)[0] == ("mean cost", "3.000 ± 1.414", "0.500 ± 0.354")
    plain = [(what.removeprefix("balanced "), *rest) for what, *rest in before_after.key_figures(TEN_CLASSES)]
    assert before_after.key_figures(report)[1:] == plain  # classes are as frequent as in training
    by_prior = replace(report, goal="prior:p.csv", aim="error under the prior of p.csv", unit="%")
    assert before_after.key_figures(by_prior)[0][0] == "error under the prior of p.csv, %"


def test_with_costs_findings_and_the_class_table_begin_with_what_they_are_of(html, blank_charts):
    blank_charts()
    shown = render(replace(TEN_CLASSES, goal="cost:c.csv", aim="mean cost", unit=""))
    for heading, content in (("What was wrong before", '<ul class="findings">'), ("All classes before", "<table")):
        assert BY_COST in shown.partition(f"<h3>{heading}")[2].partition(content)[0]
    assert BY_COST not in html


def test_neither_change_nor_error(blank_charts):
    blank_charts()
    right = evaluate_seeds(np.eye(3)[None, [0, 1, 2]], [0, 1, 2], [5, 5, 5])
    classes = {"classes": ("a", "b", "c"), "counts": (5, 5, 5)}
    nothing = {"findings": (), "ladder": (), "rungs": ()}
    report = replace(TEN_CLASSES, **classes, **nothing, seeds=1, before=right, after=right)
    shown = text(render(report))
    assert "stays at 0.00 % over 1 seed: the error falls for 0 of 3 classes and rises for 0." in shown
    assert "There are none." in shown
    assert "What each step bought" not in shown
    assert "How candidates were chosen" not in shown
    assert before_after.confusions(report) == []


def test_the_block_has_its_charts_and_is_escaped(html):
    assert 'alert("x")' not in html
    assert "class 1: &lt;b&gt;bad&lt;/b&gt;" in html
    assert "Nothing is stored" not in html
    assert "Labels worth a look" not in html
    assert html.count('<figure class="chart') == html.count('class="still"') == 3
    for what, before, after in before_after.key_figures(TEN_CLASSES):
        assert f"{what} {before} → before, after: {after}" in text(html)
    assert "Before and after" not in html_page.render([Section("x", (), (), 0)])[0]


def test_tables_hold_what_the_charts_show(html):
    table_rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    cells = [re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL) for row in table_rows]
    rows = [[unescape(re.sub("<[^>]*>", "", cell)) for cell in row] for row in cells]
    del rows[:14]  # those of the ladder and of the rungs
    sides, interval = (
        ["Before, %", "95\N{NO-BREAK SPACE}% interval", "After, %", "Change"],
        "95\N{NO-BREAK SPACE}% interval",
    )
    assert rows[0] == ["Class", "Training examples", "Test examples", *sides, interval, "What was wrong"]
    for shown, row in zip(rows[1:11], before_after.changes(TEN_CLASSES), strict=True):
        change = f"{row.change:+.1f}".replace("-", "−") if round(row.change, 1) else "0.0"
        numbers = [f"{row.before:.1f}", row.interval, f"{row.after:.1f}", change, row.change_interval.replace("-", "−")]
        assert shown == [row.name, str(row.count), "20", *numbers, row.verdict]
    first = before_after.confusions(TEN_CLASSES)[0]
    assert rows[12][:2] == [first.name, first.predicted_as]


def test_the_ladder_and_the_rungs_are_tables(html):
    assert "Unseen gain: how much better the candidate of a step is than the best single one" in text(html)
    Page(html)  # whose tags must close in order
    shown = text(html)
    assert "What each step bought A student is kept" in shown
    values = before_after.key_figures(TEN_CLASSES)[0][2]
    assert f"student (kept) {TAUGHT} {values}" in shown
    assert "naive naive?rate=4" in shown
    assert "−12.70 ± 0.61 1 38 s 0.46 M 1" in shown
    assert shown.count("All 4 candidates, 2 folds (5,043 examples)") == 2  # heading and caption
    assert "dropped: it diverged in epoch 3 at the learning rate 0.4" in shown
    details = html[html.index("<details") : html.index("</details>")]
    assert details.count("<table>") == 2
    assert "<summary>How candidates were chosen</summary>" in details
    assert "within a standard error" in details


def test_an_aim_is_escaped(blank_charts):
    blank_charts()
    html = render(replace(TEN_CLASSES, goal="prior:<i>", aim="error under the prior of <i>.csv"))
    assert "<i>" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert "Error under the prior of &lt;i&gt;.csv&nbsp;%" in html


@pytest.mark.parametrize(("size", "tiny"), [(8, True), (200, False)])
def test_label_issues_are_shown_as_images(size, tiny, blank_charts):
    blank_charts()
    labels = np.repeat(np.arange(2), 20)
    p = np.eye(2)[labels]
    p[7] = 0, 1
    issues = label_issues(p, labels, Data(np.full((40, 1, size, size), 99, np.uint8), labels, [NASTY, "seal"]))
    html = render(replace(TEN_CLASSES, label_issues=tuple(issues), witnesses=1)).replace("&#43;", "+")
    (image,) = re.findall(r'<img src="data:[^>]*>', html)
    assert f'src="{issues[0].picture}"' in image
    assert 'alt="Training image no. 7, labelled &lt;script' in image
    assert ('class="tiny"' in image) == tiny
    assert re.search("rather seal (over )?[0-9]+ % likely wrong 1 of 1 network [0-9]+ of 20 nearest no. 7", text(html))
    assert 'alert("x")' not in html


def test_label_issues_among_features_are_a_table(blank_charts):
    blank_charts()
    html = render(replace(TEN_CLASSES, label_issues=ISSUES))
    assert "Training image" not in html
    assert "no. 1234 wolf 1.2 dog 98.0 – – – –" in text(html)  # from before there was more evidence
    assert "line 1236 cat 1.2 dog 98.0" in text(html)


# The price


def test_the_price_names_what_rises_and_how_sure_that_is():
    labels = np.repeat(np.arange(10), 20)
    before, after = np.zeros(200), np.zeros(200)
    before[:20] = after[20:40] = after[40] = 1  # class 0 gets better, class 1 worse, class 2 by one example
    cost = price(before, after, labels, 10)
    report = replace(TEN_CLASSES, price=cost, after=replace(TEN_CLASSES.after, ece=TEN_CLASSES.before.ece + 2))
    shown = " ".join(before_after.price_sentences(report))
    assert "Change of the class-mean error: +0.5 points" in shown
    assert "The error clearly falls for 1 class and clearly rises for 1 class (by 95 % intervals, corrected" in shown
    assert "Calibration gets worse" in shown
    assert "hang on" not in shown
    assert shown.count(": not clear)") == 2  # of the mean, and of all examples
    better = replace(report, price=price(before, np.zeros(200), labels, 10))
    assert "falls for 1 class and clearly rises for no class (" in " ".join(before_after.price_sentences(better))
    assert "No class changes clearly (by 95 % intervals, corrected" in " ".join(
        before_after.price_sentences(replace(report, price=price(before, before, labels, 10)))
    )
    assert before_after.price_sentences(replace(report, price=None)) == []


def test_a_clear_change_is_not_called_unclear():
    labels = np.repeat(np.arange(10), 20)
    report = replace(TEN_CLASSES, price=price(np.ones(200), np.zeros(200), labels, 10))
    assert "not clear" not in " ".join(before_after.price_sentences(report))


@pytest.mark.parametrize(("low", "unclear"), [(-1.0, True), (1.0, True), (10.0, False)])
def test_the_largest_rise_is_called_unclear_where_it_is(low, unclear):
    """Of ten classes, an interval that lies above 0 is no evidence yet."""
    classes = (ErrorChange(20.0, low, 40.0),) * 10
    report = replace(SWAPPED, price=replace(TEN_CLASSES.price, classes=classes))
    (rise,) = (line for line in before_after.price_sentences(report) if line.startswith("The error rises most for"))
    assert rise.endswith(" %, which may be chance." if unclear else " %.")


def test_a_mean_whose_interval_holds_0_does_not_clearly_change():
    by_chance = replace(TEN_CLASSES.price, mean=ErrorChange(0.04, -1.0, 1.1))
    before, after = (f"{np.mean(side.errors):.2f}" for side in (TEN_CLASSES.before, TEN_CLASSES.after))
    lead = before_after.view(replace(TEN_CLASSES, price=by_chance))["lead"]
    assert lead.startswith(f"The class-mean error does not clearly change ({before} ±")
    assert f"{after} ±" in lead
    priced = replace(TEN_CLASSES, price=replace(TEN_CLASSES.price, mean=ErrorChange(-0.04, -0.07, -0.01)))
    assert before_after.view(priced)["lead"].startswith(f"The class-mean error falls from {before} ±")


def test_a_mean_cost_falls_where_its_interval_excludes_0():
    steps = [replace(step, values=(0.436,)) if step.kept else replace(step, values=(0.454,)) for step in LADDER]
    report = replace(TEN_CLASSES, goal="cost:c.csv", aim="mean cost", unit="", ladder=tuple(steps))
    for high, lead, shown in (
        (0.038, "does not clearly change (0.454 before, 0.436 after)", "-0.018 (-0.074 to +0.038: not clear)"),
        (-0.001, "falls from 0.454 to 0.436", "-0.018 (-0.074 to -0.001)"),
    ):
        priced = replace(report, price=replace(report.price, goal=ErrorChange(-0.018, -0.074, high)))
        assert before_after.view(priced)["lead"].startswith(f"The mean cost {lead} over")
        first, second, *_ = before_after.price_sentences(priced)
        assert first == f"Change of the mean cost: {shown}; 95 % interval, paired."
        assert second.startswith("Change of the class-mean error")
    assert before_after.price_sentences(report)[0] == second  # as stored by earlier versions


def test_the_worst_classes_have_no_interval():
    report = replace(TEN_CLASSES, goal="worst", aim="mean error of the worst tenth of the classes")
    assert "tenth of the classes: no interval is given" in before_after.price_sentences(report)[0]
    assert "no interval" not in " ".join(before_after.price_sentences(TEN_CLASSES))


def test_a_gain_that_hangs_on_a_handful_is_said():
    labels = np.concatenate([np.repeat(np.arange(9), 20), [9]])
    before = (labels == 9).astype(float)
    report = replace(TEN_CLASSES, price=price(before, np.zeros(181), labels, 10))
    last = before_after.price_sentences(report)[-1]
    assert last.startswith(
        "10.0 of the 10.0 points of class-mean gain hang on 1 class with fewer than 10 test examples"
    )
    assert "(1 test example in all)" in last


def test_two_classes_have_figures_of_their_own(html, blank_charts):
    blank_charts()
    of_two, report = render(fix_report(2)), fix_report(2)
    figures = {what: (before, after) for what, before, after in before_after.key_figures(report)}
    assert "worst tenth, %" not in figures
    assert "recall of class 1, %" in figures
    assert figures["AUC of class 1, %"] == (f"{report.before.two.auc:.1f}", f"{report.after.two.auc:.1f}")
    assert "From which probability on?" in of_two
    assert "Worst 10th" not in text(of_two)
    assert "From which probability on?" not in html


def test_nothing_found_is_said(blank_charts):
    blank_charts()
    labels = np.repeat(np.arange(10), 20)
    verdicts = diagnose(labels, 0.9 * np.eye(10)[labels] + 0.01, [100] * 10)
    learnt = replace(TEN_CLASSES.before, errors=(0.0,) * len(TEN_CLASSES.before.errors))
    assert f"Before the fix: n{NOTHING_WRONG[1:]}" in render(replace(TEN_CLASSES, before=learnt, findings=verdicts))
