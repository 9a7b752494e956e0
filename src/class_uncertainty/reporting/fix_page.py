"""The page of a fix: who gained, who paid, whether that is more than noise, and what to do next."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from class_uncertainty.posthoc.diagnosis import costly
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.charts import MOST_ROWS, Chart, Row, Series, axis_from_zero, curve_chart, row_chart
from class_uncertainty.reporting.fix_view import ClassChange, FixView
from class_uncertainty.reporting.label_issue_view import ADVICE, evidence, summary
from class_uncertainty.reporting.ladder_view import (
    RULE,
    CellTable,
    ladder_notes,
    ladder_table,
    rung_caption,
    rung_table,
)
from class_uncertainty.reporting.page import (
    Block,
    Cell,
    KeyNumber,
    Page,
    Picture,
    Table,
    interval_cell,
    number_cell,
    table_of,
    text_cell,
)
from class_uncertainty.reporting.page_examples import PageExamples
from class_uncertainty.reporting.result_pages import threshold_block
from class_uncertainty.text import amount_of, decimal, listed

MOST_ISSUES = 200  # of the table
NAMED = 5  # classes in a sentence
FEWEST = 10  # examples of a bin that is drawn


def fix_page(view: FixView, examples: PageExamples | None = None, files: Sequence[Path] = ()) -> Page:
    """What a fix changed; `files` are those of the model that was saved."""
    report = view.report
    numbers = [_key_number(change) for change in view.totals[:2]]
    worst = max([*view.shown, *view.others], key=lambda change: change.before, default=None)
    if report.after.two and report.before.two:
        name = report.classes[report.after.two.positive]
        text = f"{report.before.two.recall:.1f} → {report.after.two.recall:.1f} %"
        numbers.append(KeyNumber(f"Recall of {name}", text))
    elif worst:
        numbers.append(_key_number(worst, f"Worst class before: {worst.name}"))
    blocks = [
        _class_block(view, examples),
        _confusion_block(report, examples),
        *_chosen_blocks(view),
        *_calibration_blocks(report),
    ]
    if report.label_issues:
        blocks.append(_issue_block(report))
    if report.after.two:
        blocks.append(threshold_block(report.after.two, report.classes[report.after.two.positive]))
    return Page(
        report.data,
        f"{view.data}, judged on {view.judged_on}",
        fix_lead(view),
        _change_chart(view),
        numbers,
        _next_steps(view, files),
        [note for note in (view.price, report.note, report.basis) if note],
        blocks,
        examples,
    )


def fix_lead(view: FixView) -> str:
    """'Errors of trash fall from 41 to 26 %, the class mean from 15.8 to 13.2 %; no class clearly pays.'"""
    clear = [change for change in [*view.shown, *view.others] if change.is_clear]
    fallen = sorted((change for change in clear if change.change < 0), key=lambda change: change.change)
    risen = sorted((change for change in clear if change.change > 0), key=lambda change: -change.change)
    mean = view.totals[0]
    if mean.is_clear and mean.change < 0:
        total = f"The {mean.name} falls from {_from_to(mean)}"
    elif mean.is_clear:
        total = f"The {mean.name} rises from {_from_to(mean)}"
    else:
        total = f"The {mean.name} does not clearly change ({mean.before:.1f} before, {mean.after:.1f} % after)"
    if len(fallen) == 1:
        gain = f"errors of {fallen[0].name} fall from {_from_to(fallen[0], 0)}"
    elif fallen:
        gain = f"{len(fallen)} classes clearly gain, most {fallen[0].name} ({_from_to(fallen[0], 0)})"
    else:
        gain = "no class clearly gains"
    if risen:
        price = f"{listed([change.name for change in risen], NAMED)} clearly {'pays' if len(risen) == 1 else 'pay'}"
    else:
        price = "no class clearly pays"
    return f"{total}; {gain}, {price}."


def _from_to(change: ClassChange, digits: int = 1) -> str:
    return f"{decimal(change.before, digits)} to {decimal(change.after, digits)} %"


def _key_number(change: ClassChange, what: str = "") -> KeyNumber:
    """A change as one of the numbers of the first screen, with its interval."""
    more = "clear" if change.is_clear else "within noise"
    if change.interval:
        ends = [decimal(end, 1, "+").replace("-", "−") for end in (change.interval.low, change.interval.high)]
        more = f"change {ends[0]} to {ends[1]}, {more}"
    name = what or f"{change.name[:1].upper()}{change.name[1:]}"
    return KeyNumber(name, f"{decimal(change.before, 1)} → {decimal(change.after, 1)} %", more)


def _next_steps(view: FixView, files: Sequence[Path]) -> list[tuple[str, str]]:
    if files:
        model = shlex.quote(str(files[0].with_suffix("")))
        return [("Kept: " + view.kept, ""), ("Ask the saved model about new examples:", f"cu predict {model} NEW")]
    data = shlex.quote(view.report.data)
    return [("Kept: " + view.kept, ""), ("Save the model; nothing is trained again:", f"cu fix {data} --save MODEL")]


def _tone(change: ClassChange) -> str:
    if not change.is_clear:
        return ""
    return "good" if change.change < 0 else "bad"


def _change_chart(view: FixView) -> Chart:
    """The classes that the view shows and then others, up to a number, the largest error before first."""
    drawn = [*view.shown, *view.others][:MOST_ROWS]
    rows = []
    for change in sorted(drawn, key=lambda change: -change.before):
        low = high = None
        about = _from_to(change)
        if change.interval:
            low = change.before + change.interval.low
            high = change.before + change.interval.high
            about = f"{about}; change {change.change:+.1f} ({change.interval.low:+.1f} to {change.interval.high:+.1f})"
        text = f"{change.before:.0f} → {change.after:.0f}"
        rows.append(Row(change.name, change.after, text, change.before, low, high, _tone(change), about))
    caption = "Error of each class before and after. A bar is the 95 % interval of the change, seen from before."
    hidden = len(view.shown) + len(view.others) - len(drawn)
    if hidden:
        caption += f" {amount_of(hidden, 'class is', 'classes are')} in the table alone."
    return row_chart("changes", rows, "error, %", caption, legend="○ before  ● after")


def _class_block(view: FixView, examples: PageExamples | None) -> Block:
    """Every class that can be judged, and those that cannot in one line."""
    places = {name: str(c) for c, name in enumerate(view.report.classes)} if examples else {}
    rows = [_class_cells(change, places.get(change.name, "")) for change in [*view.shown, *view.others]]
    text = []
    if examples:
        text.append("Choose a class to see its examples.")
    if view.not_judged:
        names = listed([change.name for change in view.not_judged], NAMED)
        number = amount_of(len(view.not_judged), "class has", "classes have")
        text.append(f"{number} too few test examples to be judged: {names}.")
    return Block("Classes", text, table=table_of(rows), is_folded=False)


def _class_cells(change: ClassChange, opens: str) -> dict[str, Cell]:
    interval = change.interval
    return {
        "Class": text_cell(change.name, opens),
        "Training examples": number_cell(change.train, 0),
        "Test examples": number_cell(change.examples, 0),
        "Before, %": number_cell(change.before),
        "After, %": number_cell(change.after),
        "Change": number_cell(change.change, 1, "+", _tone(change)),
        "95 % interval": interval_cell(interval.low, interval.high, 1, "+") if interval else Cell("–"),
        "Verdict": text_cell("clear" if change.is_clear else "noise"),
        "Why it was worse": text_cell(change.why) if change.why else Cell("–"),
    }


def _confusion_block(report: FixReport, examples: PageExamples | None) -> Block:
    """The pairs of classes that cost most before or after."""
    classes = report.classes
    before = np.asarray(report.before.confusion)
    after = np.asarray(report.after.confusion)
    costliest = [*costly(report.before.confusion, classes), *costly(report.after.confusion, classes)]
    pairs = dict.fromkeys((classes.index(label), classes.index(guess)) for label, guess, _ in costliest)
    rows = []
    for label, guess in sorted(pairs, key=lambda pair: -before[pair]):
        number = examples.confused(label, guess) if examples else 0
        row = {
            "Class": text_cell(classes[label], f"{label}-{guess}-{number}" if number else ""),
            "Predicted as": text_cell(classes[guess]),
            "Before, %": number_cell(before[label, guess]),
            "After, %": number_cell(after[label, guess]),
            "Change": number_cell(after[label, guess] - before[label, guess], 1, "+"),
        }
        rows.append(row)
    text = "Percent of a class’s examples that are predicted as another class, mean over the seeds."
    return Block("Most costly confusions", [text if rows else "There are none."], table=table_of(rows))


def _chosen_blocks(view: FixView) -> list[Block]:
    """How candidates were chosen, and what each step of the ladder bought."""
    report = view.report
    blocks = []
    for rung in report.rungs:
        text = [RULE, "Values are of examples that the candidate’s networks never saw, ± a standard error."]
        caption = rung_caption(report, rung)
        blocks.append(Block(f"How it was chosen: {caption}", text, table=_table(rung_table(report, rung))))
    if report.ladder:
        spent = f"{report.cost:.3g} of {report.allowed:.3g} trainings were spent."
        text = [sentence for sentence in (report.why, spent, ladder_notes(report)) if sentence]
        blocks.append(Block("What each step bought", text, table=_table(ladder_table(report))))
    return blocks


def _table(table: CellTable) -> Table:
    """The same with headings on one line each, and true minus signs."""
    columns = [" ".join(column.split()) for column in table.columns]
    columns = [f"{column[:1].upper()}{column[1:]}" for column in columns]
    rows = [
        [
            Cell(cell.text.replace("-", "−") if not isinstance(cell.order, str) else cell.text, cell.order)
            for cell in row
        ]
        for row in table.rows
    ]
    return Table(columns, rows)


def _calibration_blocks(report: FixReport) -> list[Block]:
    """How far confidence can be trusted, before and after."""
    before = report.before
    after = report.after
    text = f"Expected calibration error {before.ece:.1f} % before and {after.ece:.1f} % after, by the goal’s weights of the classes."
    series = []
    for name, side in (("before", before), ("after", after)):
        bins = [one for one in side.bins if one.examples is not None and one.examples >= FEWEST]
        points = [
            (
                one.confidence,
                one.accuracy,
                f"{name}: right {one.accuracy:.0%} at confidence {one.confidence:.0%}, {one.examples:,} examples",
            )
            for one in bins
        ]
        if points:
            series.append(Series(name, points))
    if not series:
        return [Block("Calibration", [text])]
    caption = f"On the dashed line a model is right as often as its confidence says. Only bins of {FEWEST} examples or more are drawn."
    across = axis_from_zero("confidence", 1.0)
    chart = curve_chart("calibration", series, across, axis_from_zero("accuracy", 1.0), caption, diagonal=True)
    return [Block("Calibration", [text], chart)]


def _issue_block(report: FixReport) -> Block:
    """Labels that networks doubt, the clearest with their pictures."""
    issues = report.label_issues
    text = f"{summary(report)} {ADVICE}"
    if len(issues) > MOST_ISSUES:
        text += f" The table has the first {MOST_ISSUES} of them; 'cu fix --json' lists all."
    pictures = [
        Picture(
            issue.picture, [issue.name, f"labelled {issue.label}", f"rather {issue.guess}", *evidence(issue, report)]
        )
        for issue in issues
        if issue.picture
    ]
    rows = [
        {
            "Example": text_cell(issue.name),
            "Label": text_cell(issue.label),
            "Rather": text_cell(issue.guess),
            "Likely wrong, %": number_cell(None if issue.p_wrong is None else 100 * issue.p_wrong),
            "p of the label, %": number_cell(100 * issue.p_label),
            "p of the guess, %": number_cell(100 * issue.p_guess),
            "Votes": number_cell(issue.votes, 0),
            "Nearest as labelled": number_cell(issue.near_label, 0),
            "Nearest as guessed": number_cell(issue.near_guess, 0),
        }
        for issue in issues[:MOST_ISSUES]
    ]
    return Block("Labels worth a look", [text], table=table_of(rows), pictures=pictures)
