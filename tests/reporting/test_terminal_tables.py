"""Tables and sentences for a terminal: what they hold, and what a narrow one drops."""

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reporting.examples import BETTER, FULL, HUNDRED_CLASSES, LOST, NAIVE, TEN_CLASSES, class_row_examples, worsened
from reporting.examples import LONGEST as LONGEST_CANDIDATE

import class_uncertainty as cu
from class_uncertainty.posthoc.diagnosis import BY_COST, NOTHING_WRONG, diagnose, spoken
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import LabelIssue
from class_uncertainty.reporting import before_after, terminal_tables
from class_uncertainty.training.network_size import NOTHING_TRAINED, NetworkSize
from class_uncertainty.workflows.compare_estimators import EstimatorComparison, EstimatorRow

LONGEST = EstimatorRow("out-of-fold", "least-confidence", 0.1, 5.0, 0.123456, -0.5, None, 0.75)
Printed = Callable[..., str]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What a function prints to a terminal of some width."""

    def call(function: Callable[..., None], *args: Any, width: int = 160) -> str:
        monkeypatch.setattr("class_uncertainty.reporting.terminal.PIPE_WIDTH", width)
        function(*args)
        return capsys.readouterr().out

    return call


def in_one_line(out: str) -> str:
    return " ".join(out.split())


def line_of(out: str, name: str) -> list[str]:
    return next(line.split() for line in out.splitlines() if line.strip().startswith(name))


# Classes


RESNET = NetworkSize("resnet32", 464_154)


NO_GROUPS = cu.Dataset("x", cu.Data(np.eye(4), [0, 1, 0, 1]))


def measured(rows: Any, folds: int = 0, network: NetworkSize = RESNET, estimator: str = "ensemble") -> Any:
    estimate = SimpleNamespace(judged="naive ", estimator=estimator)
    about = {"estimate": estimate, "dataset": NO_GROUPS, "folds": folds, "network": network}
    return SimpleNamespace(rows=rows, **about)


def test_every_table_names_the_network_and_its_parameters(printed: Printed) -> None:
    """As far as they are known: of probabilities from a file no network is."""
    assert "Network: resnet32, 0.46 M parameters." in printed(terminal_tables.print_measured, measured(FULL.classes))
    unknown = printed(terminal_tables.print_measured, measured(FULL.classes, network=NetworkSize("resnet32")))
    assert "Network: resnet32." in unknown
    assert "Network" not in printed(terminal_tables.print_measured, measured(FULL.classes, network=NOTHING_TRAINED))
    named = replace(COMPARISON, network=RESNET)
    assert "Network: resnet32, 0.46 M parameters." in printed(terminal_tables.print_estimator_comparison, named)
    about = {"rows": FULL.methods, "folds": 0, "estimate": None, "strengths": {}, "chosen": ()}
    about["dataset"] = SimpleNamespace(classes="abc")
    comparison = SimpleNamespace(**about, network=RESNET)
    assert "Network: resnet32, 0.46 M parameters." in printed(terminal_tables.print_comparison, comparison)


@pytest.mark.parametrize(("has_rate", "strength"), [(True, "0.7 at the learning rate 0.1."), (False, "0.7.")])
def test_a_strength_names_the_learning_rate_where_there_is_one(printed: Printed, has_rate: bool, strength: str) -> None:
    rows = [replace(row, has_rate=has_rate) for row in FULL.methods]
    about = {"rows": rows, "folds": 0, "estimate": None, "strengths": {0.1: 0.7}, "chosen": (), "network": RESNET}
    judged = SimpleNamespace(classes="abc", train=NO_GROUPS.train, test=None)
    out = in_one_line(printed(terminal_tables.print_comparison, SimpleNamespace(**about, dataset=judged)))
    assert f"adjustment for the counts (τ): {strength}" in out


def test_classes_by_every_measure(printed: Printed) -> None:
    out = printed(terminal_tables.print_measured, measured(FULL.classes, folds=5), width=200)
    row = FULL.classes[2]
    shares = [f"{share:.4f}" for share in (row.cardinality, row.effective, row.uncertainty)]
    assert line_of(out, "class 2") == ["class", "2", "179", *shares, "25%", "8", "8", "10", "2.0"]
    assert "5 stratified folds" in out
    assert "class 2 is easier than its 179 examples" in out
    assert "harder" not in out  # the class that uncertainty ranks so has no errors
    assert out.count("by rarity") == 4
    with_intervals = [replace(row, examples=40, low=1.0, high=13.0) for row in FULL.classes]
    out = printed(terminal_tables.print_measured, measured(with_intervals))
    assert line_of(out, "class 2")[-5:] == ["2.0", "1", "to", "13", "40"]
    assert "its error does not clearly agree" in out
    two = printed(terminal_tables.print_measured, measured(class_row_examples(2)))
    assert not [word for word in ("Spearman", "harder", "easier") if word in two]


def test_one_rank_apart_says_nothing(printed: Printed) -> None:
    near = [replace(row, rank_uncertainty=row.rank_cardinality + 1) for row in FULL.classes]
    out = printed(terminal_tables.print_measured, measured(near))
    assert "easier" not in out
    assert "rank the classes alike, apart from neighbouring ranks." in in_one_line(out)


def test_few_classes_and_no_errors(printed: Printed) -> None:
    assert "4 classes are few" in printed(terminal_tables.print_measured, measured(class_row_examples(4)))
    assert "Spearman" not in printed(terminal_tables.print_measured, measured(class_row_examples(4, judged=False)))


def test_uncertainty_that_ranks_classes_poorly_is_said_to(printed: Printed) -> None:
    """Where some errors clearly differ, of ten classes or more, and of networks that have seen the examples."""

    def advised(ranked: int, width: float = 2.0, classes: int = 10, estimator: str = "ensemble") -> bool:
        rows = [
            replace(row, uncertainty=float((c * ranked) % 11), error=5.0 * c, low=5 * c - width, high=5 * c + width)
            for c, row in enumerate(class_row_examples(classes), 1)
        ]
        return "--estimator out-of-fold" in in_one_line(
            printed(terminal_tables.print_measured, measured(rows, estimator=estimator))
        )

    assert advised(ranked=-1)
    assert not advised(ranked=1)
    assert not advised(ranked=-1, width=30.0)
    assert not advised(ranked=-1, classes=9)
    assert not advised(ranked=-1, estimator="out-of-fold")


def test_classes_that_no_measure_disputes(printed: Printed) -> None:
    alike = [replace(row, rank_uncertainty=row.rank_cardinality) for row in FULL.classes]
    assert "rank the classes alike" in printed(terminal_tables.print_measured, measured(alike))
    equal = [replace(row, count=7) for row in FULL.classes]
    assert "equally many examples" in printed(terminal_tables.print_measured, measured(equal))


# Methods


def test_methods_and_footnotes(printed: Printed) -> None:
    out = printed(terminal_tables.print_methods, FULL.methods)
    assert line_of(out, "cb-rs")[:8] == ["cb-rs", "0.1", "5", "10.06", "±", "0.50", "-0.06", "10.1"]
    assert line_of(out, "ubrs")[-4:] == ["1", "0.25", "vs", "cb-rs"]
    assert line_of(out, "dro")[:6] == ["dro", "0.1", "0", "(5", "diverged)", "–"]
    notes = terminal_tables.footnotes(FULL.methods, folds=5)
    for fact in ("gain: naive's error less", "± standard deviation", "5 stratified folds", "ε_min", "2 scores a side"):
        assert len([note for note in notes if fact in note]) == 1
    plain = " ".join(terminal_tables.footnotes([replace(NAIVE, error_sd=None)], folds=0))
    assert not [fact for fact in ("gain", "±", "folds", "ASO") if fact in plain]


def test_a_column_without_a_value_is_not_shown_and_not_spoken_of(printed: Printed) -> None:
    """Beside others that have one, a missing value is a dash."""
    dropped: list[str] = []
    rows = [replace(NAIVE, few=None), replace(LOST, few=None)]
    out = printed(lambda: dropped.extend(terminal_tables.print_methods(rows)), width=200)
    assert sorted(dropped) == ["ASO", "few", "gain"]
    assert "few" not in out
    assert "medium" in out
    assert "–" in line_of(out, "dro")


def test_forests_have_no_learning_rate(printed: Printed) -> None:
    rows = [replace(row, has_rate=False) for row in (NAIVE, BETTER)]
    assert "lr" not in printed(terminal_tables.print_methods, rows, width=200)
    notes = terminal_tables.footnotes(rows, folds=0)
    assert "gain: naive's error less the method's." in notes[0]


def test_collapsed_runs_have_a_note() -> None:
    notes = terminal_tables.footnotes([NAIVE, replace(BETTER, collapsed=2)], folds=0)
    assert [note for note in notes if "one class" in note] == [
        "ubrs: 2 of 5 runs predict one class only, and count in the mean."
    ]


def test_no_note_is_on_the_worst_tenth_of_two_classes(printed: Printed) -> None:
    dropped: list[str] = []
    out = printed(lambda: dropped.extend(terminal_tables.print_methods(FULL.methods, 2)))
    assert "worst 10th" not in out
    assert "Worst 10th: of the classes." in terminal_tables.footnotes(FULL.methods, 5)
    assert "Worst 10th: of the classes." not in terminal_tables.footnotes(FULL.methods, 5, dropped)


@pytest.mark.parametrize("seedless", [True, False])
def test_only_rows_without_chance_are_called_the_same_network(seedless: bool) -> None:
    """Two networks may have the same error by chance."""
    notes = terminal_tables.footnotes([replace(NAIVE, error_sd=0.0, seedless=seedless)], folds=0)
    assert any("the same network" in note for note in notes) == seedless


def test_footnotes_count_the_tests_and_say_which_naive_the_gains_are_over() -> None:
    """1 - 0.05 / 2 = 0.975."""
    tested = replace(BETTER, method="ubrw", aso_against="naive")
    notes = " ".join(terminal_tables.footnotes([NAIVE, BETTER, tested], folds=0))
    assert "2 tests at confidence 1 - 0.05 / 2 = 0.975" in notes
    assert "at the same learning rate" in notes
    own = " ".join(terminal_tables.footnotes([replace(NAIVE, lr=0.4), replace(BETTER, naive_lr=0.4)], folds=0))
    assert "each at its own learning rate" in own
    assert "1 test at confidence 0.95" in own


def test_a_narrow_terminal_keeps_the_learning_rate_longer_than_the_trainings(printed: Printed) -> None:
    dropped = {}
    for width in range(30, 161, 5):
        out = in_one_line(printed(terminal_tables.print_methods, (NAIVE, LOST), width=width))
        dropped[width] = out.partition("No room for ")[2].partition(":")[0].split(", ")
    assert dropped[160] == [""]
    assert any("trainings" in columns and "lr" not in columns for columns in dropped.values())
    assert not [columns for columns in dropped.values() if "lr" in columns and "trainings" not in columns]


# Estimators


def estimators(*rows: EstimatorRow) -> EstimatorComparison:
    return EstimatorComparison(SimpleNamespace(), 5, rows, ("wild diverged",), 0)  # type: ignore[arg-type]


COMPARISON = estimators(LONGEST, replace(LONGEST, estimator="cardinality", lr=None, cost=0.0))


def test_a_wide_terminal_shows_every_column_of_estimators(printed: Printed) -> None:
    out = printed(terminal_tables.print_estimator_comparison, COMPARISON, width=120)
    head = "estimator score lr trainings ρ ensemble ens. beyond N ρ error err. beyond N"
    assert in_one_line(out.splitlines()[1]) == head
    row = ["out-of-fold", "least-confidence", "0.1", "5", "0.123", "-0.500", "–", "0.750"]
    assert line_of(out, "out-of-fold") == row
    assert "No room" not in out
    assert "Not shown: wild diverged." in out


@pytest.mark.parametrize(
    ("width", "dropped", "cells"),
    [
        (92, "ens. beyond N", ["out-of-fold", "least-confidence", "0.1", "5", "0.123", "–", "0.750"]),
        (65, "ens. beyond N, lr, score", ["out-of-fold", "5", "0.123", "–", "0.750"]),
        (52, "ens. beyond N, lr, score, ρ ensemble", ["out-of-fold", "5", "–", "0.750"]),
        (35, "ens. beyond N, lr, score, ρ ensemble, err. beyond N", ["out-of-fold", "5", "–"]),
        (24, "ens. beyond N, lr, score, ρ ensemble, err. beyond N, trainings", ["out-of-fold", "–"]),
    ],
)
def test_a_narrow_terminal_drops_columns_of_estimators(
    printed: Printed, width: int, dropped: str, cells: list[str]
) -> None:
    out = printed(terminal_tables.print_estimator_comparison, COMPARISON, width=width)
    assert line_of(out, "out-of-fold") == cells
    assert f"No room for {dropped}:" in in_one_line(out)
    assert "…" not in out


# Before and after


def fixed(report: FixReport) -> Any:
    return SimpleNamespace(report=report, network=RESNET)


def test_a_fix_shows_the_ladder_then_findings_then_the_classes_that_changed_most(printed: Printed) -> None:
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


def test_how_steps_train_is_a_column_or_a_sentence(printed: Printed) -> None:
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
def test_long_candidates_do_not_break_a_narrow_terminal(printed: Printed, width: int) -> None:
    out = printed(terminal_tables.print_ladder, TEN_CLASSES, width=width)
    assert all(len(line.rstrip()) <= width for line in out.splitlines())
    assert LONGEST_CANDIDATE in "".join(out.split())
    mean = f"{np.mean(TEN_CLASSES.after.errors):.2f}"
    assert mean in "".join(out.split())
    if width >= 40:
        assert line_of(out, "student")[2] == mean


def test_a_goal_of_costs_has_no_unit(printed: Printed) -> None:
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


def test_a_report_without_a_ladder_is_shown(printed: Printed) -> None:
    bare = replace(TEN_CLASSES, ladder=(), rungs=(), why="", note="", findings=())
    out = printed(terminal_tables.print_fix, fixed(bare))
    assert out.lstrip().startswith("class")
    assert "judged" not in out


@pytest.mark.parametrize("width", range(45, 130, 5))
def test_an_interval_of_the_change_never_stands_without_the_change(printed: Printed, width: int) -> None:
    header = printed(terminal_tables.print_changes, TEN_CLASSES, width=width).splitlines()[1]
    assert "its 95 %" not in header or "change" in header
    assert ("its 95 %" in header) >= (width >= 125)


def test_names_are_shown_as_they_are_and_columns_without_room_dropped(printed: Printed) -> None:
    odd = replace(TEN_CLASSES, classes=("[red]", *TEN_CLASSES.classes[1:]), findings=())
    out = printed(terminal_tables.print_changes, odd, width=45)
    assert "[red]" in out
    assert all(len(line) <= 45 for line in out.splitlines())
    assert "No room for train, 95 %," in in_one_line(out)
    assert "train" not in out.splitlines()[1]


def test_no_class_is_left_out_in_silence(printed: Printed) -> None:
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


def test_findings_are_a_sentence_a_class(printed: Printed) -> None:
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


def test_a_fix_that_gains_nothing_says_how_to_keep_a_naive_network(printed: Printed) -> None:
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


def test_five_label_issues_are_listed_and_the_rest_counted(printed: Printed) -> None:
    issues = tuple(LabelIssue(i, "wolf", "dog", 0.1, 0.9, "") for i in range(7))
    report = replace(TEN_CLASSES, label_issues=issues, witnesses=2)
    out = in_one_line(printed(terminal_tables.print_fix, fixed(report)))
    assert f"7 of {sum(report.counts):,} training labels are more likely wrong than right, judged by 2 networks" in out
    assert "no. 4 (wolf: dog?), and 2 more" in out
    assert "no. 5" not in out
