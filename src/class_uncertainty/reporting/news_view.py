"""What is known when a command is stopped."""

from collections.abc import Sequence

from class_uncertainty.posthoc.diagnosis import NOTHING_WRONG
from class_uncertainty.reporting import ladder_view
from class_uncertainty.reporting.compare_view import leaderboard
from class_uncertainty.reporting.terminal import line_width, say
from class_uncertainty.runs.rows import method_rows
from class_uncertainty.runs.watcher import Decided, Diagnosed, News, RowTrained, RungsJudged


def print_news(pieces: Sequence[News]) -> None:
    """Everything that is known, as tables, the newest diagnosis first."""
    if not pieces:
        return
    say("", "Known so far:")
    if diagnosed := [news for news in pieces if isinstance(news, Diagnosed)]:
        say(*_diagnosis_lines(diagnosed[-1]))
    if judged := [news for news in pieces if isinstance(news, RungsJudged)]:
        for rung in judged[-1].rungs:
            say(
                f"{ladder_view.rung_caption(judged[-1], rung)}:",
                *ladder_view.rung_lines(judged[-1], rung, line_width()),
            )
    for news in pieces:
        if isinstance(news, Decided):
            say(news.why)
    if results := [result for news in pieces if isinstance(news, RowTrained) for result in news.results]:
        say(*leaderboard(method_rows(results), line_width()))


def _diagnosis_lines(news: Diagnosed) -> list[str]:
    lines = [f"Trained naively, once a fold, on {news.examples:,} unseen examples:"]
    lines += [f"  {finding.text}" for finding in news.findings] or [f"  {NOTHING_WRONG}"]
    if news.unsaid:
        classes = "One class has" if news.unsaid == 1 else f"{news.unsaid} classes have"
        lines.append(f"  {classes} too few of these examples to say anything.")
    return lines
