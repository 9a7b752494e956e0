"""The pages of a measurement and of a comparison, new or from the store."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from class_uncertainty.estimation import Estimate
from class_uncertainty.posthoc.evaluation import TwoClasses
from class_uncertainty.reporting import compare_view, measure_view
from class_uncertainty.reporting.charts import Chart, Row, Series, axis_from_zero, curve_chart, row_chart
from class_uncertainty.reporting.compare_view import conclusion, runs_lost, sorted_by_error, verdict
from class_uncertainty.reporting.measure_view import advice, hardness
from class_uncertainty.reporting.page import (
    MISSING,
    Block,
    Cell,
    KeyNumber,
    Page,
    interval_cell,
    number_cell,
    table_of,
    text_cell,
)
from class_uncertainty.reporting.page_examples import PageExamples, estimate_examples
from class_uncertainty.reporting.section import describe_findings
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.rows import ClassRow, MethodRow, harder_and_easier, marked, spearman
from class_uncertainty.text import amount_of, decimal, listed
from class_uncertainty.workflows.compare import Comparison
from class_uncertainty.workflows.measure import Measured

NAMED = 3  # classes in a sentence
SHARES = "share of the sum over all classes, %"
ERRORS = "class-mean error, %"
COLUMNS = "A gain is clear or noise by its interval over the seeds, corrected for the number of rows. "
COLUMNS += "Trainings are all those behind one network, in units of one naive training."
DISPUTED = "Disputed: how much of the uncertainty is disagreement between networks."


def measure_page(measured: Measured) -> Page:
    """The classes of a data set by how uncertain networks are about them."""
    dataset = measured.dataset
    examples = estimate_examples(measured.estimate, dataset)
    page = class_page(dataset.name, measured.rows, measured.estimate, examples)
    command = f"cu fix {shlex.quote(dataset.name)} --save MODEL"
    steps = [("Train a better classifier of the same data:", command)]
    notes = [*advice(measured), *describe_findings(dataset), *measure_view.notes(measured)]
    return replace(page, steps=steps, notes=notes)


def compare_page(comparison: Comparison) -> Page:
    """Methods side by side, the lowest error first."""
    dataset = comparison.dataset
    return method_page(dataset.name, comparison.rows, [*describe_findings(dataset), *compare_view.notes(comparison)])


def class_page(
    title: str, rows: Sequence[ClassRow], measured: Estimate | Measurement, examples: PageExamples | None
) -> Page:
    """Classes by rarity, uncertainty and error, the most uncertain first."""
    ranked = sorted(rows, key=lambda row: (row.rank_uncertainty, row.name))
    places = {row.name: str(place) if examples else "" for place, row in enumerate(rows)}
    disputed = harder_and_easier(rows)
    table = table_of([_class_cells(row, places[row.name], disputed) for row in ranked])
    number = f"{sum(row.count for row in rows):,} training examples"
    numbers = [KeyNumber("Classes", f"{len(rows):,}", number)]
    errors = [row.error for row in rows if row.error is not None]
    if errors:
        numbers.append(KeyNumber("Class-mean error", f"{fmean(errors):.1f} %", "of the networks that measured"))
    by_uncertainty = spearman(rows, "uncertainty") if len(rows) > 2 else None
    if by_uncertainty is not None:
        by_rarity = spearman(rows, "cardinality")
        beside = "" if by_rarity is None else f"by the counts {decimal(by_rarity, 2)}"
        numbers.append(KeyNumber("Rank correlation of uncertainty and error", decimal(by_uncertainty, 2), beside))
    surest = listed([row.name for row in ranked[:NAMED]], NAMED)
    return Page(
        title,
        f"{number}; uncertainty by {measured.estimator}, score {measured.score}",
        " ".join([f"Networks are least sure of {surest}.", *hardness(rows, measured.estimator)]),
        _class_chart(ranked),
        numbers,
        blocks=[
            Block("Classes", table=table, is_folded=False),
            Block("Every measure", [DISPUTED], table=table_of([_measure_cells(row) for row in ranked])),
        ],
        examples=examples,
    )


def _class_chart(ranked: Sequence[ClassRow]) -> Chart:
    """From the share that a class has by its count to the share that it has by its uncertainty."""
    has_counts = len({row.count for row in ranked}) > 1
    rows = []
    for row in ranked:
        rarity = 100 * row.cardinality
        uncertainty = 100 * row.uncertainty
        text = f"{rarity:.1f} → {uncertainty:.1f}" if has_counts else f"{uncertainty:.1f}"
        rows.append(Row(row.name, uncertainty, text, start=rarity if has_counts else None))
    caption = "Each class’s share of the sum, by its training count and by its uncertainty."
    legend = "○ by the counts  ● by uncertainty" if has_counts else ""
    return row_chart("classes", rows, SHARES, caption, legend=legend)


def _class_cells(row: ClassRow, opens: str, disputed: dict[str, list[ClassRow]]) -> dict[str, Cell]:
    tone = "bad" if row in disputed["harder"] else "good" if row in disputed["easier"] else ""
    return {
        "Class": text_cell(row.name, opens),
        "Training examples": number_cell(row.count, 0),
        "Uncertainty, %": number_cell(100 * row.uncertainty),
        "Rank by count": Cell(f"{row.rank_cardinality:g}", row.rank_cardinality),
        "Rank by uncertainty": Cell(f"{row.rank_uncertainty:g}", row.rank_uncertainty, tone=tone),
        "Error, %": number_cell(row.error),
        "95 % interval": interval_cell(row.low, row.high),
        "Test examples": number_cell(row.examples, 0),
    }


def _measure_cells(row: ClassRow) -> dict[str, Cell]:
    return {
        "Class": text_cell(row.name),
        "Rarity, %": number_cell(100 * row.cardinality, 2),
        "Effective rarity, %": number_cell(100 * row.effective, 2),
        "Uncertainty, %": number_cell(100 * row.uncertainty, 2),
        "Mean uncertainty": number_cell(row.raw, 3),
        "Disputed, %": number_cell(None if row.epistemic_share is None else 100 * row.epistemic_share, 0),
    }


def method_page(title: str, rows: Sequence[MethodRow], notes: Sequence[str]) -> Page:
    """Methods by their class-mean error."""
    has_rates = len({row.lr for row in rows}) > 1
    ordered = sorted_by_error(rows)
    scored = [row for row in ordered if row.error is not None]
    naive = [row for row in scored if row.method == "naive"]
    numbers = [KeyNumber(name, f"{_mean_text(row)} %", _name(row, has_rates)) for name, row in _named(scored, naive)]
    runs = amount_of(sum(row.runs for row in rows), "run", "runs")
    numbers.append(KeyNumber("Methods", str(len({row.method for row in rows})), runs))
    return Page(
        title,
        "Methods side by side, with the same seeds",
        conclusion(rows),
        _method_chart(scored, naive, has_rates) if scored else None,
        numbers,
        notes=runs_lost(rows),
        blocks=[
            Block(
                "Methods",
                [COLUMNS],
                table=table_of([_method_cells(row, has_rates) for row in ordered]),
                is_folded=False,
            ),
            Block(
                "Other figures of the methods",
                notes,
                table=table_of([_figure_cells(row, has_rates) for row in ordered]),
            ),
        ],
    )


def _named(scored: Sequence[MethodRow], naive: Sequence[MethodRow]) -> list[tuple[str, MethodRow]]:
    """The rows of the first screen: the best one, and the best naive one."""
    return [("Lowest class-mean error", row) for row in scored[:1]] + [("Naive training", row) for row in naive[:1]]


def _method_chart(scored: Sequence[MethodRow], naive: Sequence[MethodRow], has_rates: bool) -> Chart:
    rows = []
    for row in scored:
        error = row.error or 0.0
        deviation = row.error_sd or 0.0
        low = max(0.0, error - deviation)
        rows.append(Row(_name(row, has_rates), error, _mean_text(row), low=low, high=error + deviation))
    caption = "Mean over the seeds, with a bar of one standard deviation to each side."
    if naive:
        caption += " The dashed line is naive training."
    return row_chart("methods", rows, ERRORS, caption, reference=naive[0].error if naive else None)


def _method_cells(row: MethodRow, has_rates: bool) -> dict[str, Cell]:
    tone = ""
    if row.is_clear:
        tone = "good" if (row.compared_gain or 0.0) > 0 else "bad"
    return {
        "Method": text_cell(_name(row, has_rates)),
        "Class-mean error, %": Cell(_mean_text(row), row.error),
        "Gain": number_cell(row.compared_gain, 2, "+", tone),
        "Over": text_cell(row.compared_with or MISSING),
        "95 % interval": interval_cell(row.compared_low, row.compared_high, 2, "+"),
        "Verdict": text_cell(verdict(row) or MISSING),
        "Trainings": Cell(f"{row.cost:.3g}", row.cost),
        "Runs": number_cell(row.runs, 0),
    }


def _figure_cells(row: MethodRow, has_rates: bool) -> dict[str, Cell]:
    aso = Cell(MISSING) if row.aso is None else Cell(f"{row.aso:.2f} vs {row.aso_against}", row.aso)
    return {
        "Method": text_cell(_name(row, has_rates)),
        "Overall error, %": number_cell(row.top1_error, 2),
        "Many": number_cell(row.many, 2),
        "Medium": number_cell(row.medium, 2),
        "Few": number_cell(row.few, 2),
        "Worst tenth": number_cell(row.worst, 2),
        "Spread": number_cell(row.spread, 2),
        "NLL": number_cell(row.nll, 3),
        "ECE": number_cell(row.ece, 2),
        "ASO": aso,
        "Diverged": number_cell(row.diverged or None, 0),
    }


def _name(row: MethodRow, has_rates: bool) -> str:
    rate = f" at {row.lr:g}" if has_rates and row.has_rate else ""
    return marked(row.method, row.marks) + rate


def _mean_text(row: MethodRow) -> str:
    if row.error is None:
        return MISSING
    return f"{row.error:.2f}" if row.error_sd is None else f"{row.error:.2f} ± {row.error_sd:.2f}"


def threshold_block(two: TwoClasses, name: str) -> Block:
    """Precision and recall of the positive class, by threshold."""
    curves = [
        Series("precision", [(one.probability, one.precision, "") for one in two.curve], has_dots=False),
        Series("recall", [(one.probability, one.recall, "") for one in two.curve], has_dots=False),
    ]
    text = f"A lower threshold finds more of {name}, with more false alarms."
    caption = f"Precision and recall of {name}, by threshold."
    if two.threshold is not None:
        text += f" The decisions here predict it from {two.threshold:.2g} on."
    across = axis_from_zero(f"threshold: lowest probability at which {name} is predicted", 1.0)
    chart = curve_chart("threshold", curves, across, axis_from_zero("percent", 100.0), caption)
    return Block("Choosing a threshold", [text], chart)
