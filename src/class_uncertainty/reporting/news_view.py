"""What is known when a command is stopped."""

from collections.abc import Sequence

from class_uncertainty.reporting import ladder_view
from class_uncertainty.reporting.compare_view import leaderboard
from class_uncertainty.reporting.terminal import line_width, say
from class_uncertainty.runs.rows import method_rows
from class_uncertainty.runs.watcher import Decided, News, RowTrained, RungsJudged


def print_news(pieces: Sequence[News]) -> None:
    """Print everything that is known, as tables."""
    if not pieces:
        return
    say("", "Known so far:")
    if judged := [news for news in pieces if isinstance(news, RungsJudged)]:
        newest = judged[-1]
        for rung in newest.rungs:
            say(f"{ladder_view.rung_caption(newest, rung)}:", *ladder_view.rung_lines(newest, rung, line_width()))
    for news in pieces:
        if isinstance(news, Decided):
            say(news.why)
    if results := [result for news in pieces if isinstance(news, RowTrained) for result in news.results]:
        say(*leaderboard(method_rows(results), line_width()))
