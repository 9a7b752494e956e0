"""A reproduction as tables of text: for a terminal here, and for the documentation."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from class_uncertainty.paper.bag_of_tricks import published
from class_uncertainty.paper.needs import ENSEMBLE
from class_uncertainty.paper.outcomes import COLLAPSED, Outcome, gains, without_repeats
from class_uncertainty.paper.printed_tables import TABLES
from class_uncertainty.paper.reproduction import Reproduction
from class_uncertainty.paper.train_missing import Remaining
from class_uncertainty.reporting.column_notes import Notes, notes_on
from class_uncertainty.reporting.section import describe_collapsed, describe_marks, describe_network
from class_uncertainty.reporting.terminal import Rows, print_fitting, say
from class_uncertainty.runs.rows import marked, shared_marks
from class_uncertainty.training import Result

DATA_TITLES = {"cifar10-lt": "CIFAR-10-LT", "cifar100-lt": "CIFAR-100-LT", "svci20": "SVCI-20"}
BEYOND, ERRORS = "beyond a point and two standard deviations", "beyond two standard errors"
ONE_CLASS = "where a run predicts one class only"
# verdicts -> when they are given, as docs/reproduction.md says it
AGREEMENT = {
    "agrees": "within one point",
    "within 2 sd": "beyond a point but within two standard deviations",
    "lower": BEYOND,
    "higher": BEYOND,
    COLLAPSED: ONE_CLASS,
}
GAINED = {"better": ERRORS, "even": "within two standard errors", "worse": ERRORS, COLLAPSED: ONE_CLASS}
CELL_COLUMNS = ("row", "method", "printed", "ours", "n", "lr", "gap", "verdict", "cost")
CELL_NOTES: Notes = {
    ("ours",): "Ours: class-mean error in percent, ± standard deviation over n seeds, at the last epoch.",
    ("gap",): "Gap: ours less printed, in standard deviations.",
    ("cost",): "Cost: trainings for the row, with those that measured uncertainty and chose its learning rate.",
}
SVHN_CLASSES = 10  # from here on the classes of SVCI-20 are SVHN's, before it CIFAR-10's


@dataclass(frozen=True)
class TextTable:
    """A table of text; `drop` names the columns that may go where there is no room, the first ones first.

    Those that are `last` go where numbers would be cut, even if cells are wrapped.
    """

    title: str
    columns: tuple[str, ...]
    rows: Rows
    notes: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


def text_tables(reproduction: Reproduction) -> list[TextTable]:
    """All tables of a reproduction that have a row."""
    places = dict.fromkeys((one.cell.data, one.protocol) for one in without_repeats(reproduction.outcomes))
    tables = [_cells(reproduction, *place) for place in places]
    names = dict.fromkeys(data for data, _ in places)
    for by_data in (_gains, _published, _rates):
        tables += [by_data(reproduction, data) for data in names]
    tested = dict.fromkeys((test.ours.cell.data, test.ours.protocol) for test in reproduction.tests)
    tables += [_tests(reproduction, *place) for place in tested]
    for of_all in (_ablation, _correlations, _shifts, _gap):
        tables.append(of_all(reproduction))
    return [table for table in tables if table.rows]


def title_of(data: str) -> str:
    """'cifar100-lt:50?duplicate=0.5' -> 'CIFAR-100-LT (50), duplicate=0.5'."""
    name, _, options = data.partition("?")
    source, _, argument = name.partition(":")
    return f"{DATA_TITLES.get(source, source)} ({argument}){', ' if options else ''}{options}"


def _cells(reproduction: Reproduction, data: str, protocol: str) -> TextTable:
    """The rows of a table on one data set under one protocol."""
    shown = [one for one in reproduction.outcomes if (one.cell.data, one.protocol) == (data, protocol)]
    shared = shared_marks(reproduction.marks)
    rows = [_cell(one, shared) for one in shown if one.errors or one.diverged]
    missing, devices = len(shown) - len(rows), sorted({device for one in shown for device in one.devices})
    if rows and (six := reproduction.six_naive.get(data)):
        name, cost = "Six naïve networks, averaged and adjusted", f"{six.cost:.3g}"
        rows.append([name, six.method, "–", _number(six.error), "1", f"{six.lr:g}", "–", "", cost])
    notes = [*_network(reproduction, [data]), f"Trained on: {', '.join(devices)}."]
    notes += [f"{_label(one)}: {describe_collapsed(one.collapsed, len(one.errors))}" for one in shown if one.collapsed]
    notes += [f"Rows that have not been run: {missing}."] * (missing > 0)
    drop = ("cost", "method", "n", "lr", "gap")
    under = "both protocols" if _is_under_both(shown) else f"protocol {protocol}"
    return TextTable(f"{title_of(data)}, {under}", CELL_COLUMNS, rows, tuple(notes), drop)


def _is_under_both(outcomes: Iterable[Outcome]) -> bool:
    """Whether the protocols do not differ: all of these rows are tuned under both."""
    return all(one.cell.is_tuned("paper") for one in outcomes)


def _network(reproduction: Reproduction, data: Iterable[str]) -> list[str]:
    """What was trained on those data sets, as a note."""
    return describe_network(*(reproduction.networks[name] for name in data if name in reproduction.networks))


def _cell(one: Outcome, shared: Collection[str]) -> list[str]:
    printed = one.cell.printed
    error = "–" if printed is None else _with_deviation(printed.mean, printed.deviation)
    lr, cost = "–" if one.lr is None else f"{one.lr:g}", "–" if one.cost is None else f"{one.cost:.3g}"
    gap = "–" if one.gap is None else f"{one.gap:+.1f}"
    label = marked(_label(one), one.marks, shared)
    return [label, one.cell.method, error, _ours(one), str(len(one.errors)), lr, gap, one.verdict, cost]


def _ours(one: Outcome) -> str:
    return "–" if one.mean is None else _with_deviation(one.mean, one.deviation)


def _label(one: Outcome) -> str:
    row = one.cell.row
    return f"{row.label} ({row.note})" if row.note else row.label


def _gains(reproduction: Reproduction, data: str) -> TextTable:
    """What every row of the paper's own gains over its baseline on one data set, the protocols side by side."""
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    run = (gain for gain in gains(without_repeats(reproduction.outcomes)) if gain.gain is not None)
    compared = [gain for gain in run if gain.ours.cell.data == data]
    for gain in compared:
        printed = "–" if gain.printed is None else f"{gain.printed:+.2f}"
        error = "" if gain.standard_error is None else f" ± {gain.standard_error:.2f}"
        about = (_label(gain.ours), gain.baseline.cell.row.label, printed)
        lines.setdefault(about, {})[gain.ours.protocol] = f"{gain.gain:+.2f}{error}, {gain.verdict}"
    protocols = [protocol for protocol in reproduction.protocols if any(protocol in cells for cells in lines.values())]
    names = ["both"] if _is_under_both(gain.baseline for gain in compared) else protocols
    rows = [[*about, *(cells.get(protocol, "–") for protocol in protocols)] for about, cells in lines.items()]
    columns = ("row", "against", "printed", *(f"ours, {name}" for name in names))
    notes = ["Gain: the baseline's error less the row's, in points, ± its standard error."]
    notes += [*_explained(GAINED, {gain.verdict for gain in compared}), *_network(reproduction, [data])]
    title = f"{title_of(data)}: gains over cardinality"
    return TextTable(title, columns, rows, tuple(notes), last=("against", "printed"))


def _explained(meanings: Mapping[str, str], shown: Collection[str]) -> list[str]:
    """'Verdict: "agrees" within one point.', of the verdicts that are shown; nothing where none is."""
    verdicts: dict[str, list[str]] = {}
    for verdict in meanings:
        if verdict in shown:
            verdicts.setdefault(meanings[verdict], []).append(f'"{verdict}"')
    phrases = [f"{' or '.join(words)} {meaning}" for meaning, words in verdicts.items()]
    return [f"Verdict: {'; '.join(phrases)}."] if phrases else []


def _published(reproduction: Reproduction, data: str) -> TextTable:
    """The baselines of Table I on one data set beside Bag-of-Tricks' own tables."""
    listed = published(reproduction.outcomes) if reproduction.name == "table1" else []
    rows = []
    for one in listed:
        if one.ours.cell.data == data:
            printed = _number(one.ours.cell.printed.mean if one.ours.cell.printed else None)
            values = (printed, f"{one.older:.2f}", f"{one.present:.2f}", f"{one.error:.2f}", f"{one.nearest:+.2f}")
            rows.append([_label(one.ours), *values])
    columns = ("row", "paper", "Bag-of-Tricks, older data", "its present data", "ours", "to the nearest")
    notes = ("To the nearest: ours less the nearest published error.", *_network(reproduction, [data]))
    return TextTable(f"{title_of(data)}: baselines beside Bag-of-Tricks' tables", columns, rows, notes)


def _rates(reproduction: Reproduction, data: str) -> TextTable:
    """What every rate gave on the validation images of one data set, for the rows whose rate was chosen."""
    listed = reproduction.outcomes if reproduction.name in TABLES else ()  # others show a part of Table I
    tried = {_label(one): one for one in listed if one.cell.data == data and one.tried}
    rates = dict(next(iter(tried.values())).tried) if tried else {}
    rows = [[name, *(_number(error) for _, error in one.tried), f"{one.lr:g}"] for name, one in tried.items()]
    columns = ("row", *(f"{rate:g}" for rate in rates), "chosen")
    notes = ("One network each; class-mean error in percent on the validation images.", *_network(reproduction, [data]))
    return TextTable(f"{title_of(data)}: errors by learning rate", columns, rows, notes)


def _tests(reproduction: Reproduction, data: str, protocol: str) -> TextTable:
    """The tests on one data set under one protocol: what is tested against what must fit a narrow terminal."""
    tests = [test for test in reproduction.tests if (test.ours.cell.data, test.ours.protocol) == (data, protocol)]
    rows = []
    for test in tests:
        runs = f"{len(test.ours.errors)} and {len(test.baseline.errors)}"
        about = (test.ours.cell.row.label, test.baseline.cell.row.label)
        rows.append([*about, f"{test.printed:.2f}", f"{test.epsilon:.2f}", runs])
    corrected = f"confidence {tests[0].confidence:.4f}, Bonferroni over the tests of the protocol"
    notes = [f"ε_min of ASO, better below 0.5; {corrected}."]
    notes += sorted({f"ASO: {test.epsilon.warning}." for test in tests if test.epsilon.warning})
    notes += _network(reproduction, [data])
    title = f"{title_of(data)}, protocol {protocol}: almost stochastic order"
    return TextTable(title, ("row", "against", "printed", "ours", "runs"), rows, tuple(notes), last=("runs", "printed"))


def _ablation(reproduction: Reproduction) -> TextTable:
    rows = []
    for one, errors in reproduction.ablated:
        printed = one.cell.printed.mean if one.cell.printed else None
        cells = (_number(printed), _ours(one), _ours(replace(one, errors=errors)))
        rows.append([title_of(one.cell.data), one.cell.row.label, *cells])
    columns = ("data", "row", "printed", "originals", "JPEG 95, ImageNet's statistics")
    notes = tuple(_network(reproduction, [one.cell.data for one, _ in reproduction.ablated]))
    return TextTable("What other pixels change, at the learning rate 0.1", columns, rows, notes, last=("printed",))


def _correlations(reproduction: Reproduction) -> TextTable:
    """How the measures rank the classes; on SVCI-20 also the share of class uncertainty that CIFAR-10's half has."""
    shown = [(one, one.data.name.startswith("svci20")) for one in reproduction.measured]
    several, halves = _several_estimators(reproduction), any(is_halved for _, is_halved in shown)
    rows, shared = [], shared_marks(reproduction.marks)
    for one, is_halved in shown:
        rhos = [_number(rho, 3) for rho in map(one.correlation, (one.cardinality, one.uncertainty))]
        share = _number(sum(one.uncertainty[:SVHN_CLASSES]) if is_halved else None, 3)
        about = [marked(title_of(one.data.name), one.marks, shared), *[one.measurement.estimator] * several]
        rows.append([*about, *rhos, *[share] * halves, one.measurement.device])
    by, shares = ("measured by",) * several, ("CIFAR-10's μ^U",) * halves
    columns = ("data", *by, "ρ of μ^C", "ρ of μ^U", *shares, "device")
    notes = ["ρ: Spearman's correlation with the class errors of the members on the test split."]
    notes += ["μ^C: cardinality; μ^U: uncertainty."]
    if halves:
        notes += ["CIFAR-10's μ^U: the share of class uncertainty that its ten classes have; 0.5 tells nothing apart."]
    if reproduction.name == "if1a":
        notes += ["The paper prints 0.82 for cardinality and 0.92 for uncertainty on CIFAR-100-LT (50)."]
    notes += _network(reproduction, [one.data.name for one in reproduction.measured])
    return TextTable("Measures and class errors", columns, rows, tuple(notes), ("device",), (*shares, "ρ of μ^C"))


def _several_estimators(reproduction: Reproduction) -> bool:
    return len({one.measurement.estimator for one in reproduction.measured}) > 1


def _shifts(reproduction: Reproduction) -> TextTable:
    """How far the measures move from the first data set to the others."""
    naive = [one for one in reproduction.measured if one.measurement.estimator == ENSEMBLE.estimator]
    if reproduction.name not in ("if1b", "if2") or not naive or len(reproduction.measured) < 2:
        return TextTable("", (), ())
    first, rows, several = naive[0], [], _several_estimators(reproduction)
    for one in reproduction.measured:
        about = [title_of(one.data.name), *[one.measurement.estimator] * several]
        tail = [f"{share:.3f}" for share in (one.cardinality[-1], one.uncertainty[-1])]
        rows.append([*about, *(f"{distance:.3f}" for distance in first.distance(one)), *tail])
    by = ("measured by",) * several
    columns = ("data", *by, "moved μ^C", "moved μ^U", "rarest class μ^C", "rarest class μ^U")
    note = f"Moved: half the sum of the absolute changes from {title_of(first.data.name)}, from 0 to 1."
    notes = (note, *_network(reproduction, [one.data.name for one in reproduction.measured]))
    last = ("rarest class μ^C", "rarest class μ^U", "moved μ^C")
    return TextTable("How far the measures move", columns, rows, notes, last=last)


def _gap(reproduction: Reproduction) -> TextTable:
    """The error of SVCI-20 and of its two halves."""
    rows = []
    for data, results in reproduction.naive.items():
        halves = half_errors(results)
        errors, (objects, digits) = [fmean(run) for run in zip(*halves, strict=True)], map(fmean, halves)
        error = _with_deviation(fmean(errors), stdev(errors) if len(errors) > 1 else None)
        means = (f"{value:.2f}" for value in (objects, digits, objects - digits))
        rows.append([title_of(data), error, *means, str(len(results))])
    columns = ("data", "error", "CIFAR-10", "SVHN", "difference", "runs")
    notes = _network(reproduction, reproduction.naive)
    return TextTable("The halves of SVCI-20, naïve classifier", columns, rows, tuple(notes))


def half_errors(results: Sequence[Result]) -> tuple[list[float], list[float]]:
    """The mean errors of CIFAR-10's classes and of SVHN's, one a run."""
    errors = [result.class_errors for result in results if result.class_errors]
    return [fmean(run[:SVHN_CLASSES]) for run in errors], [fmean(run[SVHN_CLASSES:]) for run in errors]


def print_reproduction(reproduction: Reproduction) -> None:
    """Every table with its notes."""
    say(reproduction.experiment.about)
    tables, shown = text_tables(reproduction), set[str]()
    for table in tables:
        say("", table.title)
        dropped = print_fitting(table.columns, table.rows, table.drop, last=table.last)
        shown |= {*table.columns} - {*dropped} if table.columns == CELL_COLUMNS else set()
        say(*table.notes)
    if not tables:
        say("Nothing of it is stored.")
    elif reproduction.outcomes:
        explained = _explained(AGREEMENT, {one.verdict for one in reproduction.outcomes if "verdict" in shown})
        say(*notes_on(CELL_NOTES, [column for column in CELL_COLUMNS if column not in shown]), *explained)
    say(*describe_marks(reproduction.marks))


def print_remaining(remaining: Sequence[Remaining]) -> None:
    """What is left to train, and the sums."""
    if not remaining:
        say("Nothing is left to train.")
        return
    rows = [(row.data, f"{row.lanes:,}", f"{row.images / 1e6:,.1f}", _duration(row.minutes)) for row in remaining]
    totals = [sum(getattr(row, name) for row in remaining) for name in ("lanes", "images", "minutes")]
    rows.append(("in all", f"{totals[0]:,}", f"{totals[1] / 1e6:,.1f}", _duration(totals[2])))
    print_fitting(("data", "lanes", "million images", "time"), rows, ())
    say("Time: at the speed of a few steps of a full stack, just timed on this device.")


def _duration(minutes: float) -> str:
    """In minutes, hours or days, whichever reads best."""
    if minutes < 120:
        return f"{minutes:,.1f} min"
    return f"{minutes / 60:,.1f} h" if minutes < 48 * 60 else f"{minutes / 60 / 24:,.0f} days"


def _with_deviation(mean: float, deviation: float | None) -> str:
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
