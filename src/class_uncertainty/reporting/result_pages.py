"""What a measurement and a comparison show on a page, whether they were just made or come from the store."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.posthoc.evaluation import TwoClasses
from class_uncertainty.reporting.charts import Chart, Row, Series, axis_from_zero, curve_chart, row_chart
from class_uncertainty.reporting.page import (
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
from class_uncertainty.reporting.section import (
    SAME_NETWORK,
    describe_collapsed,
    describe_folds,
    describe_groups,
    describe_marks,
    describe_network,
    describe_rates,
    describe_repeats,
    describe_tests,
)
from class_uncertainty.runs.rows import ClassRow, MethodRow, harder_and_easier, marked, spearman
from class_uncertainty.runs.significance import ENOUGH
from class_uncertainty.text import amount_of, decimal, listed
from class_uncertainty.workflows.compare import Comparison
from class_uncertainty.workflows.measure import Measured

NAMED = 3  # classes in a sentence
SHARES = "share of the sum over all classes, %"
ERRORS = "class-mean error, %"
DISPUTED = "Disputed: how much of the uncertainty is disagreement between networks."


def measure_page(measured: Measured) -> Page:
    """The classes of a data set by how uncertain networks are about them."""
    dataset = measured.dataset
    estimate = measured.estimate
    notes = [describe_repeats(dataset), describe_groups(dataset, estimate)]
    if measured.folds:
        notes.append(describe_folds(measured.folds, dataset))
    notes += [*describe_network(measured.network), *describe_marks([measured.marks])]
    examples = estimate_examples(estimate, dataset)
    about = f"uncertainty by {estimate.estimator}, score {estimate.score}"
    page = class_page(dataset.name, measured.rows, about, notes, examples)
    command = f"cu fix {shlex.quote(dataset.name)} --save MODEL"
    return replace(page, steps=[("Train a better classifier of the same data:", command)])


def compare_page(comparison: Comparison) -> Page:
    """Methods side by side, the lowest error first."""
    notes = [*describe_network(comparison.network), *describe_marks([row.marks for row in comparison.rows])]
    if comparison.folds:
        notes.append(describe_folds(comparison.folds, comparison.dataset))
    return method_page(comparison.dataset.name, comparison.rows, notes)


def class_page(
    title: str, rows: Sequence[ClassRow], about: str, notes: Sequence[str], examples: PageExamples | None
) -> Page:
    """Classes by rarity, uncertainty and error, the most uncertain first."""
    ranked = sorted(rows, key=lambda row: (row.rank_uncertainty, row.name))
    places = {row.name: str(place) if examples else "" for place, row in enumerate(rows)}
    disputed = harder_and_easier(rows)
    table = table_of([_class_cells(row, places[row.name], disputed) for row in ranked])
    every = table_of([_measure_cells(row) for row in ranked])
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
    return Page(
        title,
        f"{len(rows):,} classes, {number}; {about}",
        _class_lead(ranked, disputed),
        _class_chart(ranked),
        numbers,
        notes=[note for note in notes if note],
        blocks=[Block("Classes", table=table, is_folded=False), Block("Every measure", [DISPUTED], table=every)],
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
    caption = "Each class’s share of the sum, by its training count and by how uncertain networks are about it."
    legend = "○ by the counts  ● by uncertainty" if has_counts else ""
    return row_chart("classes", rows, SHARES, caption, legend=legend)


def _class_lead(ranked: Sequence[ClassRow], disputed: dict[str, list[ClassRow]]) -> str:
    """Which classes are the most uncertain, and where their counts mislead."""
    if len({row.uncertainty for row in ranked}) == 1:
        return "All classes are equally uncertain."
    names = listed([row.name for row in ranked[:NAMED]], NAMED)
    lead = f"Networks are least sure of {names}"
    parts = []
    for kind, rows in disputed.items():
        if rows:
            verb = "is" if len(rows) == 1 else "are"
            parts.append(f"{listed([row.name for row in rows], NAMED)} {verb} {kind} than the counts say")
    if len({row.count for row in ranked}) == 1:
        parts = ["all classes have equally many examples"]
    return f"{'; '.join([lead, *parts])}."


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
    several_rates = len({row.lr for row in rows}) > 1
    scored = sorted((row for row in rows if row.error is not None), key=lambda row: row.error or 0.0)
    unscored = [row for row in rows if row.error is None]
    best = scored[0] if scored else None
    naive = next((row for row in scored if row.method == "naive" and best and row.lr == best.naive_lr), None)
    numbers = []
    if best:
        numbers.append(KeyNumber("Lowest class-mean error", f"{_mean_text(best)} %", _name(best, several_rates)))
    if naive:
        numbers.append(KeyNumber("Naive training", f"{_mean_text(naive)} %", amount_of(naive.runs, "run", "runs")))
    runs = amount_of(sum(row.runs for row in rows), "run", "runs")
    numbers.append(KeyNumber("Methods", str(len({row.method for row in rows})), runs))
    ordered = [*scored, *unscored]
    table = table_of([_method_cells(row, several_rates) for row in ordered])
    every = table_of([_figure_cells(row, several_rates) for row in ordered])
    return Page(
        title,
        f"{amount_of(len(rows), 'row', 'rows')} of methods, with the same seeds",
        _method_lead(scored, naive, several_rates),
        _method_chart(scored, naive, several_rates) if scored else None,
        numbers,
        notes=[*filter(None, notes), *_method_notes(rows)],
        blocks=[
            Block("Methods", [_method_columns(rows)], table=table, is_folded=False),
            Block("Other figures of the methods", [_figure_columns(rows)], table=every),
        ],
    )


def _method_chart(scored: Sequence[MethodRow], naive: MethodRow | None, several_rates: bool) -> Chart:
    rows = []
    for row in scored:
        error = row.error or 0.0
        deviation = row.error_sd
        low = None if deviation is None else max(0.0, error - deviation)
        high = None if deviation is None else error + deviation
        rows.append(Row(_name(row, several_rates), error, _mean_text(row), low=low, high=high))
    caption = "Mean over the seeds, with a bar of one standard deviation to each side."
    if naive:
        caption += " The dashed line is naive training."
    return row_chart("methods", rows, ERRORS, caption, reference=naive.error if naive else None)


def _method_lead(scored: Sequence[MethodRow], naive: MethodRow | None, several_rates: bool) -> str:
    """Which method has the lowest mean error, and how far it lies below naive training."""
    if not scored:
        return "No run of any method finished with a test error."
    best = scored[0]
    name = _name(best, several_rates)
    value = f"{_mean_text(best)} % over {amount_of(best.runs, 'run', 'runs')}"
    if len(scored) == 1:
        return f"{name} has a class-mean error of {value}."
    if naive is None:
        return f"{name} has the lowest class-mean error, {value}."
    if best is naive or best.error == naive.error:
        return f"No method has a lower class-mean error than naive training, {value}."
    gap = (naive.error or 0.0) - (best.error or 0.0)
    lead = f"{name} has the lowest class-mean error, {value}: {gap:.2f} points below naive training"
    if best.error_sd and naive.error_sd and gap <= best.error_sd + naive.error_sd:
        lead += ", though the two ± ranges overlap"
    return f"{lead}."


def _method_notes(rows: Sequence[MethodRow]) -> list[str]:
    """What limits the comparison."""
    notes = [f"{row.method}: {describe_collapsed(row.collapsed, row.runs)}" for row in rows if row.collapsed]
    fewest = min((row.runs for row in rows if row.error is not None), default=0)
    diverged = sum(row.diverged for row in rows)
    if diverged:
        notes.append(f"{amount_of(diverged, 'run', 'runs')} diverged and are left out of the means.")
    if any(row.seedless for row in rows):
        notes.append(SAME_NETWORK)
    elif 0 < fewest < ENOUGH and len(rows) > 1:
        notes.append(f"{amount_of(fewest, 'run is', 'runs are')} few: the order may change with more.")
    return notes + sorted({f"ASO: {row.aso_warning}." for row in rows if row.aso_warning})


def _method_columns(rows: Sequence[MethodRow]) -> str:
    gain = f"Gain: naive training’s error less the method’s{describe_rates(rows)}."
    return f"{gain} Trainings: all that lead to one network, in units of one naive training."


def _figure_columns(rows: Sequence[MethodRow]) -> str:
    """What the columns of the second table mean."""
    sizes = f"Many, medium, few: classes of over {MANY}, {FEW} to {MANY}, and under {FEW} training examples."
    tests = describe_tests(rows)
    if not tests:
        return sizes
    return f"{sizes} ASO: a test against the row that is named; below 0.5 the method is better; {tests}."


def _method_cells(row: MethodRow, several_rates: bool) -> dict[str, Cell]:
    return {
        "Method": text_cell(_name(row, several_rates)),
        "Class-mean error, %": Cell(_mean_text(row), row.error),
        "Gain": number_cell(row.gain, 2, "+"),
        "Trainings": Cell(f"{row.cost:.3g}", row.cost),
        "Runs": number_cell(row.runs, 0),
    }


def _figure_cells(row: MethodRow, several_rates: bool) -> dict[str, Cell]:
    aso = Cell("–") if row.aso is None else Cell(f"{row.aso:.2f} vs {row.aso_against}", row.aso)
    return {
        "Method": text_cell(_name(row, several_rates)),
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


def _name(row: MethodRow, several_rates: bool) -> str:
    rate = f" at {row.lr:g}" if several_rates and row.has_rate else ""
    return marked(row.method, row.marks) + rate


def _mean_text(row: MethodRow) -> str:
    if row.error is None:
        return "–"
    return f"{row.error:.2f}" if row.error_sd is None else f"{row.error:.2f} ± {row.error_sd:.2f}"


def threshold_block(two: TwoClasses, name: str) -> Block:
    """Precision and recall of the positive class, by the probability from which it is predicted."""
    curves = [
        Series("precision", [(one.probability, one.precision, "") for one in two.curve], has_dots=False),
        Series("recall", [(one.probability, one.recall, "") for one in two.curve], has_dots=False),
    ]
    text = f"A lower probability finds more of {name}, with more false alarms."
    caption = f"Precision and recall of {name}, by the probability from which it is predicted."
    if two.threshold is not None:
        text += f" The decisions here predict it from {two.threshold:.2g} on."
    across = axis_from_zero(f"probability of {name} from which on it is predicted", 1.0)
    chart = curve_chart("threshold", curves, across, axis_from_zero("percent", 100.0), caption)
    return Block("From which probability on?", [text], chart)
