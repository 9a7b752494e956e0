"""A fix as a view: which classes are shown, with which numbers, and the lines of a terminal."""

from dataclasses import replace

import numpy as np
import pytest
from reporting.examples import HUNDRED_CLASSES, NASTY, TEN_CLASSES

import class_uncertainty as cu
from class_uncertainty.posthoc.diagnosis import ClassEvidence, Verdict
from class_uncertainty.posthoc.error_changes import ErrorChange, price
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.reporting.fix_view import MOST_ROWS, fix_lines, view_fix
from class_uncertainty.reporting.terminal import Verbosity

FALL, RISE, NOISE = ErrorChange(-20.0, -30.0, -10.0), ErrorChange(20.0, 10.0, 30.0), ErrorChange(-1.0, -9.0, 8.0)


def with_changes(report: FixReport, *changes: ErrorChange, examples: int = 20) -> FixReport:
    """The report with these changes of its first classes, and no clear one of the others."""
    assert report.price
    rest = (NOISE,) * (len(report.classes) - len(changes))
    after = report.before.means + np.array([change.change for change in (*changes, *rest)])
    judged = replace(report.after, class_errors=(tuple(after.tolist()),))
    numbers = replace(report.price, together=(*changes, *rest), examples=(examples,) * len(report.classes))
    return replace(report, after=judged, price=numbers)


def text(report: FixReport, verbosity: Verbosity = Verbosity.NORMAL, width: int = 80) -> list[str]:
    return fix_lines(view_fix(report), verbosity, width, ["model.html"])


def cells_of(lines: list[str], name: str) -> list[str]:
    return next(line.split() for line in lines if line.strip().startswith(name))


def test_every_class_has_its_errors_and_its_interval():
    view = view_fix(TEN_CLASSES)
    assert TEN_CLASSES.price
    assert {row.name for row in view.classes} == set(TEN_CLASSES.classes)
    for row in view.classes:
        c = TEN_CLASSES.classes.index(row.name)
        assert (row.train, row.examples) == (TEN_CLASSES.counts[c], 20)
        assert (row.before, row.after) == (TEN_CLASSES.before.means[c], TEN_CLASSES.after.means[c])
        assert row.interval == TEN_CLASSES.price.together[c]
        assert row.is_clear == (row.interval.low > 0 or row.interval.high < 0)


def test_clear_losses_come_first_then_clear_gains_then_the_worst_class():
    report = with_changes(TEN_CLASSES, NOISE, FALL, NOISE, NOISE, RISE)
    view = view_fix(report)
    worst = report.classes[int(np.argmax(report.before.means))]
    expected = [report.classes[4], report.classes[1]]
    assert [row.name for row in view.shown] == [*expected, *([worst] if worst not in expected else [])]
    assert len(view.shown) + len(view.others) == 10


def test_no_more_than_eight_classes_are_listed_and_the_others_are_counted():
    report = with_changes(HUNDRED_CLASSES, *[FALL] * 30, *[RISE] * 3)
    view = view_fix(report)
    assert len(view.shown) <= MOST_ROWS
    assert [row.clearly_rises for row in view.shown[:3]] == [True] * 3
    falls = sum(row.clearly_falls for row in view.others)
    line = next(line for line in text(report) if "more classes" in line)
    assert f"{falls} clearly better" in line
    assert len(view.others) == 100 - len(view.shown)


def test_classes_with_fewer_than_ten_test_examples_are_not_judged():
    assert TEN_CLASSES.price
    few = replace(with_changes(TEN_CLASSES, FALL, FALL), data="few")
    assert few.price
    few = replace(few, price=replace(few.price, examples=(9, 20, 0, *few.price.examples[3:])))
    view = view_fix(few)
    assert {row.name for row in view.not_judged} == {few.classes[0], few.classes[2]}
    assert not any(row.is_clear for row in view.not_judged)
    assert any(line.strip().startswith("2 classes have fewer than 10") for line in text(few))


def test_totals_are_means_of_the_seeds_with_their_intervals():
    rows = {row.name: row for row in view_fix(TEN_CLASSES).totals}
    assert TEN_CLASSES.price
    assert rows["class mean"].before == pytest.approx(np.mean(TEN_CLASSES.before.errors))
    assert rows["class mean"].interval == TEN_CLASSES.price.mean
    assert rows["overall"].after == pytest.approx(np.mean(TEN_CLASSES.after.overall))
    assert rows["overall"].interval == TEN_CLASSES.price.overall
    assert "worst tenth" not in rows
    assert "worst tenth" in {row.name for row in view_fix(HUNDRED_CLASSES).totals}


def test_many_classes_are_grouped_by_their_counts():
    counts = np.array(HUNDRED_CLASSES.counts)
    few = next(row for row in view_fix(HUNDRED_CLASSES).sizes if row.name.startswith("few"))
    assert few.before == pytest.approx(HUNDRED_CLASSES.before.means[counts < 20].mean())
    assert few.after == pytest.approx(HUNDRED_CLASSES.after.means[counts < 20].mean())
    assert view_fix(TEN_CLASSES).sizes == []


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("report", [TEN_CLASSES, HUNDRED_CLASSES, with_changes(HUNDRED_CLASSES, *[FALL] * 50)])
def test_lines_are_few_and_fit(report, width):
    lines = text(report, width=width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 30
    assert len(" ".join(lines).split()) <= (220 if len(report.classes) <= 30 else 235)


def test_nothing_is_lost_of_a_long_name():
    lines = text(with_changes(TEN_CLASSES, FALL), width=60)
    assert "".join(NASTY.split()) in "".join(line[2:15].strip() for line in lines).replace(" ", "")


def test_quiet_is_the_last_block_and_verbose_lists_every_class():
    quiet, normal, verbose = (text(HUNDRED_CLASSES, verbosity) for verbosity in Verbosity)
    assert normal[-len(quiet) :] == quiet == verbose[-len(quiet) :]
    assert sum(line.startswith("  class ") and "%" in line for line in verbose) >= 99
    for rung in HUNDRED_CLASSES.rungs:
        assert all(row.candidate in "".join(verbose).replace("  ", "") for row in rung.rows)


def test_what_clearly_gets_worse_is_named_with_the_goal_that_avoids_it():
    assert TEN_CLASSES.price
    costly = replace(TEN_CLASSES, price=replace(TEN_CLASSES.price, overall=RISE, mean=FALL))
    assert "--goal overall" in view_fix(costly).cost
    assert view_fix(replace(costly, goal="overall")).cost == ""
    other = replace(costly, goal="prior:p.csv", price=replace(TEN_CLASSES.price, overall=NOISE, mean=RISE, goal=FALL))
    assert "--goal mean" in view_fix(other).cost
    assert view_fix(replace(costly, price=replace(TEN_CLASSES.price, overall=NOISE))).cost == ""


def test_a_cost_has_its_own_row_without_percent():
    steps = [replace(step, values=tuple(value / 100 for value in step.values)) for step in TEN_CLASSES.ladder]
    report = replace(TEN_CLASSES, goal="cost:c.csv", aim="mean cost", unit="", ladder=tuple(steps))
    first = view_fix(report).totals[0]
    assert (first.name, first.unit) == ("mean cost", "")
    assert first.before == pytest.approx(np.mean(TEN_CLASSES.before.errors) / 100)
    assert cells_of(text(report), "mean cost")[2] == f"{first.before:.3f}"


def test_of_two_classes_the_rarer_one_is_judged():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [180, 20])
    sides = [np.stack([1 - side, side], axis=-1)[None] for side in rng.random((2, 200)) * 0.5 + 0.4 * labels]
    before, after = (evaluate_seeds(p, labels, [180, 20]) for p in sides)
    wrong = [(p.argmax(axis=2) != labels).mean(axis=0) for p in sides]
    report = replace(
        TEN_CLASSES, classes=("ok", "fraud"), counts=(180, 20), before=before, after=after, findings=(), rungs=(),
        price=price(*wrong, labels, 2),
    )  # fmt: skip
    assert before.two
    assert after.two
    lines = text(report)
    assert cells_of(lines, "recall")[1] == f"{before.two.recall:.1f}"
    assert cells_of(lines, "average precision")[4] == f"{after.two.average_precision:.1f}"
    assert any("fraud" in line for line in lines)
    assert not any(line.strip().startswith("ok ") for line in lines)


def test_where_naive_training_is_kept_no_class_is_listed():
    naive = tuple(replace(step, kept=step.name == "naive") for step in TEN_CLASSES.ladder)
    lines = text(replace(TEN_CLASSES, step="naive", ladder=naive))
    assert not any(line.startswith("  class 1") for line in lines)
    assert len(lines) <= 10


def test_why_is_the_verdict_on_a_class_that_is_worse():
    numbers = dict.fromkeys(ClassEvidence.__dataclass_fields__, 1.0) | {"count": 5, "examples": 1, "rival": ""}
    few = ClassEvidence(**numbers)
    findings = (
        Verdict("class 9", "unknown", "class 9: too few", few),
        Verdict("class 8", "imbalance", "class 8: rare", replace(few, count=9)),
        Verdict("class 1", "unknown", "class 1: too few", replace(few, count=300)),
        Verdict("class 7", "easy", "class 7: easy", few),
    )
    why = {row.name: row.why for row in view_fix(replace(TEN_CLASSES, findings=findings)).classes}
    assert (why["class 9"], why["class 8"], why["class 1"], why["class 7"]) == ("", "imbalance", "", "")


def test_evidence_is_out_of_fold():
    student = next(step for step in TEN_CLASSES.ladder if step.kept)
    assert f"{student.gain:.1f} ± {student.gain_error:.1f}" in view_fix(TEN_CLASSES).kept
    best = tuple(replace(step, kept=step.name == "best single") for step in TEN_CLASSES.ladder)
    naive = TEN_CLASSES.ladder[0]
    assert naive.gain is not None
    assert f"{-naive.gain:.1f} ± {naive.gain_error:.1f}" in view_fix(replace(TEN_CLASSES, ladder=best)).kept


def test_warnings_of_what_makes_a_gain_doubtful():
    assert view_fix(TEN_CLASSES).warnings == []
    lost = replace(TEN_CLASSES.after, errors=(88.0, 89.0))
    assert len(view_fix(replace(TEN_CLASSES, after=lost)).warnings) == 1
    labels = np.concatenate([np.repeat(np.arange(9), 100), [9]])
    before, after = np.zeros(901), np.zeros(901)
    before[-1] = 1
    assert len(view_fix(replace(TEN_CLASSES, price=price(before, after, labels, 10))).warnings) == 1


def test_label_issues_are_counted():
    issues = tuple(LabelIssue(i, "wolf", "dog", 0.1, 0.9, "") for i in range(7))
    report = replace(TEN_CLASSES, label_issues=issues, witnesses=2)
    assert cells_of(text(report), "Labels")[1:4] == ["7", "of", f"{sum(report.counts):,}"]


def test_a_data_set_is_described_by_its_sizes():
    dataset = cu.load("digits-lt:20")
    assert dataset.test is not None
    line = view_fix(TEN_CLASSES, dataset).data
    for number in (len(dataset.train), len(dataset.test), dataset.train.counts.min(), dataset.train.counts.max()):
        assert f"{number:,}" in line
