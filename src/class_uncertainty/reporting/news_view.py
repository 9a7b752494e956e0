"""What is known before a command ends: a line or two as soon as it is, and tables where the command is stopped."""

from collections.abc import Sequence

from class_uncertainty.posthoc.diagnosis import NOTHING_WRONG
from class_uncertainty.reporting import ladder_view
from class_uncertainty.reporting.compare_view import leaderboard
from class_uncertainty.reporting.fix_view import rung_lines
from class_uncertainty.reporting.terminal import line_width, say
from class_uncertainty.runs.rows import method_rows
from class_uncertainty.runs.watcher import Decided, Diagnosed, News, RowTrained, RungsJudged


def describe_news(news: News) -> list[str]:
    """Lines for people; none where a later piece will say more."""
    match news:
        case RungsJudged():
            return [_rung_line(news)]
        case Diagnosed():
            return _diagnosis_lines(news)
        case Decided():  # the result will begin with it
            return []
        case RowTrained():
            return [_row_line(news)] if news.complete else []


def print_news(pieces: Sequence[News]) -> None:
    """Everything that is known, as tables, the newest diagnosis first."""
    if not pieces:
        return
    say("", "Known so far:")
    if diagnosed := [news for news in pieces if isinstance(news, Diagnosed)]:
        say(*describe_news(diagnosed[-1]))
    if judged := [news for news in pieces if isinstance(news, RungsJudged)]:
        for rung in judged[-1].rungs:
            say(f"{ladder_view.rung_caption(judged[-1], rung)}:", *rung_lines(judged[-1], rung, line_width()))
    for news in pieces:
        if isinstance(news, Decided):
            say(news.why)
    if results := [result for news in pieces if isinstance(news, RowTrained) for result in news.results]:
        say(*leaderboard(method_rows(results), line_width()))


def _rung_line(news: RungsJudged) -> str:
    """'6 candidates judged on 61 unseen examples: naive has the lowest class-mean error, 12.3 %; 3 go on.'"""
    rung = news.rungs[-1]
    rows = rung.rows
    kept = [row for row in rows if row.kept]
    who = f"{len(rows)} candidates were" if len(rows) > 1 else f"{rows[0].candidate} was"
    start = f"{who} judged on {rung.examples:,} unseen examples"
    if not kept:
        return f"{who} judged: none could be trained."
    best = min(kept, key=lambda row: row.behind or 0.0)
    value = f"{news.aim} {best.value:.{ladder_view.aim_digits(news)}f} {news.unit}".rstrip()
    if len(rows) == 1:
        return f"{start}: {value}."
    further = f"{len(kept)} go on" if len(kept) > 1 else "it goes on"
    return f"{start}: {best.candidate} is preferred, {value}; {further}."


def _row_line(news: RowTrained) -> str:
    (method, lr), errors = news.row, [result.error for result in news.results if result.error is not None]
    value = f"class-mean error {ladder_view.mean_text(errors)} %" if errors else "every training diverged"
    rate = f" at the learning rate {lr:g}" if news.results[0].recipe.has_rate else ""
    return f"Trained: {method}{rate}, {value}."


def _diagnosis_lines(news: Diagnosed) -> list[str]:
    lines = [f"Trained naively, once a fold, on {news.examples:,} unseen examples:"]
    lines += [f"  {finding.text}" for finding in news.findings] or [f"  {NOTHING_WRONG}"]
    if news.unsaid:
        classes = "One class has" if news.unsaid == 1 else f"{news.unsaid} classes have"
        lines.append(f"  {classes} too few of these examples to say anything.")
    return lines
