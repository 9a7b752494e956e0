"""A fix on the terminal: the ladder, findings, changes, advice and label issues."""

import re
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reporting.examples import HUNDRED_CLASSES, TEN_CLASSES, worsened
from reporting.examples import LONGEST as LONGEST_CANDIDATE
from reporting.printed_lines import RESNET, in_one_line, line_of

from class_uncertainty.posthoc.diagnosis import BY_COST, NOTHING_WRONG, diagnose, spoken
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.reporting import before_after, terminal_tables


def fixed(report: FixReport) -> Any:
    return SimpleNamespace(report=report, network=RESNET)


def test_a_fix_shows_the_ladder_then_findings_then_the_classes_that_changed_most(printed):
    out = printed(terminal_tables.print_fix, fixed(HUNDRED_CLASSES))
    lines = [line for line in out.splitlines() if line.strip()]
    assert lines[0] == HUNDRED_CLASSES.why
    start = lines.index("Few examples – class 1: <b>bad</b>.")
    assert start <= 12  # all of the ladder is on the first screen
    assert [line.split("  ")[0].strip() for line in lines[4:9]] == [
        "naive",
        "adjusted",
        "best single",
        "ensemble",
        "student (kept)",
    ]
    ordered = [row.name for row in sorted(before_after.changes(HUNDRED_CLASSES), key=lambda row: row.change)]
    changed = [name[:13] for name in (*ordered[:5], "class 1", *ordered[-5:])]  # which has a finding
    table = lines[start + 3 :]
    assert [line[1:15].strip()[:13] for line in table[:11]] == changed
    assert [line.split()[0] for line in table[11:16]] == ["class-mean", "overall", "worst", "balanced", "balanced"]
    errors = HUNDRED_CLASSES.before.errors
    assert f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}" in table[11]
    after = in_one_line("\n".join(table[16:]))
    assert "of 100 classes are not shown: --all-classes or the report lists them." in after
    for words in ("A note. Kept: one network", "Trainings: 18.4 of 20,", "Candidates judged: 4, on 2 rungs."):
        assert words in after


def test_how_steps_train_is_a_column_or_a_sentence(printed):
    steps = [replace(step, candidate=step.candidate.partition("+")[0]) for step in TEN_CLASSES.ladder]
    short = replace(TEN_CLASSES, ladder=tuple(steps))
    wide = printed(terminal_tables.print_ladder, short, width=140)
    assert "how it trains" in wide
    assert line_of(wide, "best single")[2] == "balanced-softmax"
    assert "of the steps" not in wide
    narrow = in_one_line(printed(terminal_tables.print_ladder, short, width=80))
    steps = "naive?rate=4 (naive, adjusted); balanced-softmax (best single, ensemble); naive (student)"
    assert f"Candidates of the steps: {steps}." in narrow
    assert "No room for parameters, passes, time:" in narrow


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120, 160])
def test_long_candidates_do_not_break_a_narrow_terminal(printed, width):
    out = printed(terminal_tables.print_ladder, TEN_CLASSES, width=width)
    assert all(len(line.rstrip()) <= width for line in out.splitlines())
    assert LONGEST_CANDIDATE in "".join(out.split())
    mean = f"{np.mean(TEN_CLASSES.after.errors):.2f}"
    assert mean in "".join(out.split())
    if width >= 40:
        assert line_of(out, "student")[2] == mean


def test_a_goal_of_costs_has_no_unit(printed):
    steps = [replace(step, values=tuple(value / 100 for value in step.values)) for step in TEN_CLASSES.ladder]
    costs = {"goal": "cost:c.csv", "aim": "mean cost", "unit": "", "ladder": tuple(steps)}
    out = printed(terminal_tables.print_fix, fixed(replace(TEN_CLASSES, **costs)))
    assert "mean cost" in out.splitlines()[3]
    told = in_one_line(out)
    assert told.index(BY_COST) < told.index("Few examples, without costs – ")  # before all that is of likely classes
    assert told.index(BY_COST) < told.index("what was wrong, ")
    assert "without costs" not in printed(terminal_tables.print_fix, fixed(TEN_CLASSES))
    before = np.array(TEN_CLASSES.before.errors) / 100
    assert line_of(out, "naive")[1:4] == [f"{before.mean():.3f}", "±", f"{before.std(ddof=1):.3f}"]
    assert line_of(out, "mean cost")[2] == f"{before.mean():.3f}"
    assert line_of(out, "class-mean error, %")[3] == f"{np.mean(TEN_CLASSES.before.errors):.2f}"


def test_a_report_without_a_ladder_is_shown(printed):
    bare = replace(TEN_CLASSES, ladder=(), rungs=(), why="", note="", findings=())
    out = printed(terminal_tables.print_fix, fixed(bare))
    assert out.lstrip().startswith("class")
    assert "judged" not in out


@pytest.mark.parametrize("width", range(45, 130, 5))
def test_an_interval_of_the_change_never_stands_without_the_change(printed, width):
    header = printed(terminal_tables.print_changes, TEN_CLASSES, width=width).splitlines()[1]
    assert "its 95 %" not in header or "change" in header
    assert ("its 95 %" in header) >= (width >= 125)


def test_names_are_shown_as_they_are_and_columns_without_room_dropped(printed):
    odd = replace(TEN_CLASSES, classes=("[red]", *TEN_CLASSES.classes[1:]), findings=())
    out = printed(terminal_tables.print_changes, odd, width=45)
    assert "[red]" in out
    assert all(len(line) <= 45 for line in out.splitlines())
    assert "No room for train, 95 %," in in_one_line(out)
    assert "train" not in out.splitlines()[1]


def test_no_class_is_left_out_in_silence(printed):
    def listed(out: str) -> int:
        return sum(bool(re.match(r"\s*class \d+ ", line)) for line in out.splitlines())

    assert listed(printed(terminal_tables.print_changes, TEN_CLASSES)) == 9  # and the one with an odd name
    few = printed(terminal_tables.print_changes, replace(HUNDRED_CLASSES, after=HUNDRED_CLASSES.before))
    assert "class 1 " in few  # it did not change, and has a finding
    hidden = int(re.search(r"(\d+) of 100 classes are not shown", in_one_line(few))[1])  # type: ignore[index]
    assert hidden + listed(few) in (99, 100)
    everything = printed(terminal_tables.print_changes, HUNDRED_CLASSES, True)
    assert listed(everything) == 99
    assert "not shown" not in everything


def test_findings_are_a_sentence_a_class(printed):
    labels = np.repeat(np.arange(12), 30)
    guesses = np.where((labels < 11) & (np.arange(360) % 2 == 0), 11, labels)
    p = np.full((360, 12), 0.02)
    p[np.arange(360), guesses] = 0.78
    half = diagnose(labels, p, [100] * 12)
    learnt = replace(TEN_CLASSES, before=replace(TEN_CLASSES.before, errors=(46.0,)), findings=half)
    assert NOTHING_WRONG in printed(terminal_tables.print_findings, learnt)
    assert "No class can stand out" in printed(terminal_tables.print_findings, replace(TEN_CLASSES, findings=half))
    p = np.where((labels == 3)[:, None], p, 0.76 * np.eye(12)[labels] + 0.02)
    (finding,) = spoken(diagnose(labels, p, [100] * 12))
    out = in_one_line(printed(terminal_tables.print_findings, replace(TEN_CLASSES, findings=(finding,) * 12)))
    assert out.startswith(f"Confused – {finding.text}.")
    assert "2 more findings" in out


def test_a_fix_that_gains_nothing_says_how_to_keep_a_naive_network(printed):
    worse = replace(worsened(TEN_CLASSES), data="csv:a.csv?label=b&test=0.2", lr=0.4)
    command = "cu train 'csv:a.csv?label=b&test=0.2' --lr 0.4 --save MODEL"
    out = in_one_line(printed(terminal_tables.print_fix, fixed(worse)))
    assert command in out
    assert "The class-mean error did not fall" in out
    out = in_one_line(printed(terminal_tables.print_fix, fixed(replace(worse, goal="cost:my costs.csv", unit=""))))
    options = f"--candidates {shlex.quote(worse.ladder[0].candidate)} --goal 'cost:my costs.csv' --save MODEL"
    assert f"cu fix 'csv:a.csv?label=b&test=0.2' {options}" in out  # cu train does not decide by costs
    assert "What this fix saves is the kept model, not the naive one" in out
    for candidate, options in (
        ("naive?recipe=forest", "forest"),
        ("naive?recipe=boosting&rate=4", "boosting --lr 0.4"),
    ):
        table = replace(worse, ladder=(replace(worse.ladder[0], candidate=candidate), *worse.ladder[1:]))
        out = in_one_line(printed(terminal_tables.print_fix, fixed(table)))
        assert f"cu train 'csv:a.csv?label=b&test=0.2' --recipe {options} --save MODEL, or see" in out
    better = printed(terminal_tables.print_fix, fixed(TEN_CLASSES))
    assert "cu train" not in better
    assert "Adjusted: with a fitted τ; in verdicts," in in_one_line(better)
    assert "Network: resnet32, 0.46 M parameters." in better


def test_five_label_issues_are_listed_and_the_rest_counted(printed):
    issues = tuple(LabelIssue(i, "wolf", "dog", 0.1, 0.9, "") for i in range(7))
    report = replace(TEN_CLASSES, label_issues=issues, witnesses=2)
    out = in_one_line(printed(terminal_tables.print_fix, fixed(report)))
    assert f"7 of {sum(report.counts):,} training labels are more likely wrong than right, judged by 2 networks" in out
    assert "no. 4 (wolf: dog?), and 2 more" in out
    assert "no. 5" not in out
