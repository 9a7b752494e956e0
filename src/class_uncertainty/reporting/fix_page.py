"""The page of a fix: who gained, who paid, whether that is more than noise, and what to do next."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from statistics import fmean

import numpy as np

from class_uncertainty.posthoc.diagnosis import costly
from class_uncertainty.posthoc.error_changes import HANDFUL
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.charts import MOST_ROWS, Chart, Row, Series, axis_from_zero, curve_chart, row_chart
from class_uncertainty.reporting.fix_view import ClassChange, FixView
from class_uncertainty.reporting.label_issue_view import ADVICE, evidence, summary
from class_uncertainty.reporting.ladder_view import RULE, aim_digits, duration, mean_text, rung_caption, rung_outcome
from class_uncertainty.reporting.page import (
    MISSING,
    Block,
    Cell,
    KeyNumber,
    Page,
    Picture,
    interval_cell,
    number_cell,
    table_of,
    text_cell,
)
from class_uncertainty.reporting.page_examples import PageExamples
from class_uncertainty.reporting.result_pages import threshold_block
from class_uncertainty.text import amount, amount_of, decimal, listed

MOST_ISSUES = 200  # of the table
NAMED = 5  # classes in a sentence
UNSEEN = "Values are for examples that the candidate’s networks never saw, ± a standard error."
STEPS = "The gain is over the best single candidate, ± a paired standard error, on examples that neither was trained "
STEPS += "on. Time is the sum over all trainings."
CALIBRATED = "On the dashed line a model is right as often as its confidence says. "
CALIBRATED += f"Examples count as the goal counts their classes. Bins of fewer than {HANDFUL} examples are not drawn."


def fix_page(
    view: FixView,
    examples: PageExamples | None = None,
    files: Sequence[Path] = (),  # of the model that was saved
    notes: Sequence[str] = (),  # on the data
) -> Page:
    """What a fix changed."""
    report = view.report
    two = report.after.two
    name, _, sizes = view.data.partition(": ")
    price = f"Price: {view.cost}." if view.cost else ""
    blocks = []
    if view.sizes:
        rows = [_class_cells(change, "") for change in view.sizes]
        blocks.append(Block("Classes by their training examples", table=table_of(rows), is_folded=False))
    blocks += [_class_block(view, examples), _confusion_block(report, examples)]
    blocks += [*_rung_blocks(report), *_ladder_blocks(report), _calibration_block(report)]
    if two:
        blocks.append(threshold_block(two, report.classes[two.positive]))
    if report.label_issues:
        blocks.append(_issue_block(report))
    return Page(
        name,
        f"{sizes}; before and after of {view.judged_on}",
        fix_lead(view),
        _change_chart(view),
        _key_numbers(view),
        _next_steps(view, files),
        [note for note in (*view.warnings, price, report.basis, *notes) if note],
        blocks,
        examples,
    )


def fix_lead(view: FixView) -> str:
    """'Errors of trash fall from 41 to 26 %, the class mean from 15.8 to 13.2 %; no class clearly pays.'"""
    total = view.totals[0]
    if view.keeps_naive:
        return f"Naive training is kept: {total.name} {_amount(total, total.after)}."
    judged = [*view.shown, *view.others]
    fallen = sorted((change for change in judged if change.clearly_falls), key=attrgetter("change"))
    risen = sorted((change for change in judged if change.clearly_rises), key=attrgetter("change"), reverse=True)
    if not (fallen or risen or total.is_clear):
        return f"Nothing changes clearly: the {total.name} goes from {_from_to(total)}."
    if not (fallen or risen):
        verb = "falls" if total.clearly_falls else "rises"
        return f"The {total.name} {verb} from {_from_to(total)}; no single class clearly changes."
    if len(fallen) == 1:
        gain = f"Errors of {fallen[0].name} fall from {_from_to(fallen[0], 0)}"
    elif fallen:
        gain = f"{len(fallen)} classes clearly gain, {fallen[0].name} most (from {_from_to(fallen[0], 0)})"
    else:
        gain = "No class clearly gains"
    if total.clearly_falls:
        change = f"the {total.name} falls from {_from_to(total)}"
    elif total.clearly_rises:
        change = f"the {total.name} rises from {_from_to(total)}"
    else:
        change = f"the {total.name} does not clearly change (from {_from_to(total)})"
    if risen:
        verb = "pays" if len(risen) == 1 else "pay"
        price = f"{listed([change.name for change in risen], NAMED)} clearly {verb}"
    else:
        price = "no class clearly pays"
    return f"{gain}, {change}; {price}."


def _from_to(change: ClassChange, digits: int = 1) -> str:
    """'41 to 26 %'."""
    return f"{_amount(change, change.before, digits).removesuffix(' %')} to {_amount(change, change.after, digits)}"


def _amount(change: ClassChange, value: float, digits: int = 1) -> str:
    """An error in percent, or a mean cost, which has no unit."""
    return f"{decimal(value, digits if change.unit else 3)}{change.unit}"


def _key_numbers(view: FixView) -> list[KeyNumber]:
    """What the goal measures, the next total, and the recall of the rarer of two classes or the worst class."""
    report = view.report
    numbers = [_key_number(change, f"{change.name[:1].upper()}{change.name[1:]}") for change in view.totals[:2]]
    before = report.before.two
    after = report.after.two
    judged = [*view.shown, *view.others]
    if before and after:
        recall = f"{before.recall:.1f} → {after.recall:.1f} %"
        precision = f"precision {before.precision:.1f} → {after.precision:.1f} %"
        numbers.append(KeyNumber(f"Recall of {report.classes[after.positive]}", recall, precision))
    elif judged:
        worst = max(judged, key=attrgetter("before"))
        judged_alone = " of those judged" if view.not_judged else ""
        numbers.append(_key_number(worst, f"Worst class before{judged_alone}, {worst.name}"))
    return numbers


def _key_number(change: ClassChange, what: str) -> KeyNumber:
    """A change as one of the numbers of the first screen, with its interval."""
    if change.before == change.after:
        return KeyNumber(what, _amount(change, change.after), "unchanged")
    number = f"{_amount(change, change.before).removesuffix(' %')} → {_amount(change, change.after)}"
    if change.interval is None:
        return KeyNumber(what, number)
    digits = 1 if change.unit else 3
    ends = interval_cell(change.interval.low, change.interval.high, digits, "+").text
    return KeyNumber(what, number, f"change {ends}, {'clear' if change.is_clear else 'noise'}")


def _next_steps(view: FixView, files: Sequence[Path]) -> list[tuple[str, str]]:
    kept = (f"Kept: {view.kept}.", "")
    if files:
        model = shlex.quote(str(files[0].with_suffix("")))
        return [kept, ("Predict new examples with the saved model:", f"cu predict {model} NEW")]
    return [kept, ("To save it without training again, add to the command:", "--save MODEL")]


def _tone(change: ClassChange) -> str:
    if not change.is_clear:
        return ""
    return "good" if change.change < 0 else "bad"


def _change_chart(view: FixView) -> Chart | None:
    """The classes that the view shows and then others, up to a number, the largest error before first."""
    judged = [*view.shown, *view.others]
    if not judged:
        return None
    drawn = sorted(judged[:MOST_ROWS], key=attrgetter("before"), reverse=True)
    rows = [_chart_row(change, view) for change in [*drawn, *judged[MOST_ROWS:]]]
    caption = (
        "Error of each class before and after. A bar is the 95 % interval of the change, added to the error before."
    )
    legend = "○ before  ● after"
    if view.keeps_naive:
        caption = "Error of each class; keeping naive training changes none."
        legend = ""
    return row_chart("changes", rows, "error, %", caption, legend=legend)


def _chart_row(change: ClassChange, view: FixView) -> Row:
    about = f"from {_from_to(change)}"
    if view.keeps_naive:
        return Row(change.name, change.after, f"{change.after:.0f}", about=about)
    text = f"{change.before:.0f} → {change.after:.0f}"
    if change.interval is None:
        return Row(change.name, change.after, text, change.before, tone=_tone(change), about=about)
    low = max(0.0, change.before + change.interval.low)
    high = min(100.0, change.before + change.interval.high)
    ends = interval_cell(change.interval.low, change.interval.high, 1, "+").text
    about += f", change {decimal(change.change, 1, '+')} ({ends})"
    return Row(change.name, change.after, text, change.before, low, high, _tone(change), about)


def _class_block(view: FixView, examples: PageExamples | None) -> Block:
    """Every class that can be judged, and those that cannot in one line."""
    places = {name: str(c) for c, name in enumerate(view.report.classes)} if examples else {}
    rows = [_class_cells(change, places.get(change.name, "")) for change in [*view.shown, *view.others]]
    text = []
    if examples:
        text.append("Choose a class to see its examples.")
    if view.not_judged:
        names = listed([change.name for change in view.not_judged], NAMED)
        verb = amount_of(len(view.not_judged), "class has", "classes have")
        text.append(f"{verb} fewer than {HANDFUL} test examples and cannot be judged: {names}.")
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
        "95 % interval": interval_cell(interval.low, interval.high, 1, "+") if interval else Cell(MISSING),
        "Verdict": text_cell(change.verdict or MISSING),
        "Why it was worse": text_cell(change.why) if change.why else Cell(MISSING),
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


def _rung_blocks(report: FixReport) -> list[Block]:
    """How candidates were chosen: a table for each number of folds that they were judged on."""
    digits = aim_digits(report)
    heading = _aim_heading(report)
    blocks = []
    for rung in report.rungs:
        rows = [
            {
                "Candidate": text_cell(row.candidate),
                heading: _with_error(row.value, row.standard_error, digits),
                "Behind the best": _with_error(row.behind or None, row.behind_error, digits),
                "Trainings": Cell(f"{row.trainings:.3g}", row.trainings),
                "Outcome": text_cell(rung_outcome(row)),
            }
            for row in rung.rows
        ]
        caption = rung_caption(report, rung)
        blocks.append(Block(f"How it was chosen: {caption}", [f"{RULE} {UNSEEN}"], table=table_of(rows)))
    return blocks


def _aim_heading(report: FixReport) -> str:
    """What the goal measures, with its unit: 'Class-mean error, %'."""
    aim = f"{report.aim[:1].upper()}{report.aim[1:]}"
    return f"{aim}, {report.unit}" if report.unit else aim


def _with_error(value: float | None, error: float | None, digits: int, sign: str = "") -> Cell:
    """A number with its standard error."""
    cell = number_cell(value, digits, sign)
    if cell.order is None or error is None:
        return cell
    return replace(cell, text=f"{cell.text} ± {error:.{digits}f}")


def _ladder_blocks(report: FixReport) -> list[Block]:
    """What each step of the ladder gained, and what it cost."""
    if not report.ladder:
        return []
    digits = aim_digits(report)
    rows = []
    for step in report.ladder:
        cells = {
            "Step": text_cell(f"{step.name} (kept)" if step.kept else step.name),
            "How it trains": text_cell(step.candidate),
            _aim_heading(report): Cell(mean_text(step.values, digits), fmean(step.values) if step.values else None),
            "Gain on unseen examples": _with_error(step.gain, step.gain_error, digits, "+"),
            "Trainings": Cell(f"{step.trainings:.3g}", step.trainings),
            "Time": Cell(duration(step.seconds), step.seconds),
            "Parameters": Cell(amount(step.parameters), step.parameters),
            "Networks": number_cell(step.networks, 0),
        }
        rows.append(cells)
    spent = f"{report.cost:.3g} of {report.allowed:.3g} trainings were used, in units of one naive training."
    return [Block("What each step gained", [report.why, spent, STEPS, report.note], table=table_of(rows))]


def _calibration_block(report: FixReport) -> Block:
    """How far confidence can be trusted, before and after."""
    sides = {"before": report.before, "after": report.after}
    errors = " and ".join(f"{side.ece:.1f} % {name}" for name, side in sides.items())
    text = f"Expected calibration error: {errors}."
    series = []
    for name, side in sides.items():
        points = []
        for one in side.bins:
            if one.examples >= HANDFUL:
                about = f"{name}: {one.accuracy:.0%} are right of {one.examples:,} at confidence {one.confidence:.0%}"
                points.append((one.confidence, one.accuracy, about))
        series.append(Series(name, points))
    if not any(one.points for one in series):
        return Block("Calibration", [text])
    across = axis_from_zero("confidence", 1.0)
    up = axis_from_zero("accuracy", 1.0)
    return Block("Calibration", [text], curve_chart("calibration", series, across, up, CALIBRATED, diagonal=True))


def _issue_block(report: FixReport) -> Block:
    """Labels that networks doubt, the clearest with their pictures."""
    issues = report.label_issues
    text = f"{summary(report)} {ADVICE}"
    if len(issues) > MOST_ISSUES:
        text += f" The table has the first {MOST_ISSUES} of them; 'cu fix --json' lists all."
    pictures = []
    for issue in issues:
        lines = [issue.name, f"labelled {issue.label}", f"rather {issue.guess}", *evidence(issue, report)]
        if issue.picture:
            pictures.append(Picture(issue.picture, lines))
    rows = [
        {
            "Example": text_cell(issue.name),
            "Label": text_cell(issue.label),
            "Likelier label": text_cell(issue.guess),
            "Likely wrong, %": number_cell(100 * issue.p_wrong),
            "Votes": number_cell(issue.votes, 0),
            "Neighbours with that label": number_cell(issue.near_guess, 0),
        }
        for issue in issues[:MOST_ISSUES]
    ]
    return Block("Labels worth a look", [text], table=table_of(rows), pictures=pictures)
