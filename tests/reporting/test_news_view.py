"""What is known before a command ends, in lines and in tables."""

from example_results import make_result

import class_uncertainty as cu
from class_uncertainty.posthoc.fix_report import Rung, RungRow
from class_uncertainty.reporting.news_view import print_news
from class_uncertainty.runs.watcher import Decided, RowTrained, RungsJudged

ROWS = (
    RungRow("naive", 1.0, 2.0, 12.5, 1.0, 3.25, 0.5),
    RungRow("cb-rs", 1.0, 2.0, 9.25, 1.0, 0.0, 0.0, kept=True),
    RungRow("ubrs", 1.0, 2.0, 9.5, 1.0, 0.25, 0.5, kept=True),
    RungRow("dro", reason="it diverged in epoch 3"),
)
FIRST, LAST = Rung(1, 1081, ROWS), Rung(5, 5405, ROWS[1:2])
JUDGED = RungsJudged((FIRST,), "class-mean error", "%")


def row(seeds: int) -> RowTrained:
    return RowTrained(tuple(make_result(cu.Lane("cb-rs", seed)) for seed in range(seeds)))


def test_all_that_is_known_when_a_command_is_stopped(capsys):
    print_news([JUDGED, RungsJudged((FIRST, LAST), "class-mean error", "%"), Decided("One is kept."), row(2)])
    out = capsys.readouterr().out
    assert out.startswith("\nKnown so far:\n")
    for words in ("All 4 candidates, 1 fold", "The best of them, 5 folds", "dropped: it diverged in epoch 3"):
        assert out.count(words) == 1
    assert "One is kept." in out
    assert out.count("cb-rs") == 3  # on two rungs, and as the row of a comparison


def test_nothing_is_printed_where_nothing_is_known(capsys):
    print_news([])
    assert capsys.readouterr().out == ""
