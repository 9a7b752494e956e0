"""Tables of a reproduction as text, for a terminal here and for the documentation."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from class_uncertainty.paper.experiments import ENSEMBLE
from class_uncertainty.paper.ledger import Remaining
from class_uncertainty.paper.outcomes import COLLAPSED, Outcome, gains, published, without_repeats
from class_uncertainty.paper.printed_tables import TABLES, Cell, Row
from class_uncertainty.paper.reproduction import Reproduction, shift
from class_uncertainty.reporting.section import describe_collapsed, describe_marks, describe_network
from class_uncertainty.reporting.terminal import print_table, say
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
CELL_NOTES = {
    "ours": "Ours: class-mean error in percent, ± standard deviation over n seeds, at the last epoch.",
    "gap": "Gap: ours less printed, in standard deviations.",
    "cost": "Cost: trainings for the row, with those that measured uncertainty and chose its learning rate.",
}
SVHN_CLASSES = 10  # from here on the classes of SVCI-20 are SVHN's, before it CIFAR-10's


@dataclass(frozen=True)
class TextTable:
    """A table of text."""

    title: str
    lines: Sequence[Mapping[str, str]]  # the same columns in each
    notes: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        return list(self.lines[0]) if self.lines else []

    @property
    def rows(self) -> list[list[str]]:
        return [list(line.values()) for line in self.lines]


def text_tables(reproduction: Reproduction) -> list[TextTable]:
    """All tables of a reproduction that have a row."""
    places = dict.fromkeys((one.cell.data, one.protocol) for one in without_repeats(reproduction.outcomes))
    names = dict.fromkeys(data for data, _ in places)
    tested = dict.fromkeys((test.ours.cell.data, test.ours.protocol) for test in reproduction.tests)
    tables = [
        *(_cells(reproduction, data, protocol) for data, protocol in places),
        *(_gains(reproduction, data) for data in names),
        *(_published(reproduction, data) for data in names),
        *(_rates(reproduction, data) for data in names),
        *(_tests(reproduction, data, protocol) for data, protocol in tested),
        _ablations(reproduction),
        _correlations(reproduction),
        _shifts(reproduction),
        _halves(reproduction),
    ]
    return [table for table in tables if table.lines]


def title_of(data: str) -> str:
    """'cifar100-lt:50?duplicate=0.5' -> 'CIFAR-100-LT (50), duplicate=0.5'."""
    name, _, options = data.partition("?")
    source, _, argument = name.partition(":")
    title = f"{DATA_TITLES.get(source, source)} ({argument})"
    return f"{title}, {options}" if options else title


def _cells(reproduction: Reproduction, data: str, protocol: str) -> TextTable:
    """The rows of a table on one data set under one protocol."""
    shown = [one for one in reproduction.outcomes if (one.cell.data, one.protocol) == (data, protocol)]
    shared = shared_marks(reproduction.marks)
    run = [one for one in shown if one.errors or one.diverged]
    lines = [_cell(one, shared) for one in run]
    six = reproduction.six_naive.get(data)
    if run and six:
        row = Row("Six naïve networks, averaged and adjusted", six.method)
        errors = () if six.error is None else (six.error,)
        as_outcome = Outcome(Cell(row, data, six.method, None), protocol, lr=six.lr, errors=errors, cost=six.cost)
        lines.append(_cell(as_outcome, shared))
    devices = sorted({device for one in shown for device in one.devices})
    notes = [*_network(reproduction, [data]), f"Trained on: {', '.join(devices)}."]
    notes += [f"{_label(one)}: {describe_collapsed(one.collapsed, len(one.errors))}" for one in shown if one.collapsed]
    if len(run) < len(shown):
        notes.append(f"Rows that have not been run: {len(shown) - len(run)}.")
    under = "both protocols" if _are_tuned_under_both(shown) else f"protocol {protocol}"
    return TextTable(f"{title_of(data)}, {under}", lines, notes)


def _cell(one: Outcome, shared: Collection[str]) -> dict[str, str]:
    printed = one.cell.printed
    return {
        "row": marked(_label(one), one.marks, shared),
        "method": one.cell.method,
        "printed": _mean(printed.mean, printed.deviation) if printed else "–",
        "ours": _mean(one.mean, one.deviation),
        "n": str(len(one.errors)),
        "lr": _number(one.lr, "g"),
        "gap": _number(one.gap, "+.1f"),
        "verdict": one.verdict,
        "cost": _number(one.cost, ".3g"),
    }


def _are_tuned_under_both(outcomes: Iterable[Outcome]) -> bool:
    """Whether the protocols do not differ for these rows."""
    return all(one.cell.is_tuned("paper") for one in outcomes)


def _network(reproduction: Reproduction, data: Iterable[str]) -> list[str]:
    """What was trained on those data sets, as a note."""
    return describe_network(*(reproduction.networks[name] for name in data if name in reproduction.networks))


def _label(one: Outcome) -> str:
    row = one.cell.row
    return f"{row.label} ({row.note})" if row.note else row.label


def _printed(one: Outcome) -> str:
    return _number(one.cell.printed.mean if one.cell.printed else None)


def _gains(reproduction: Reproduction, data: str) -> TextTable:
    """What every row of the paper's own gains over its baseline on one data set, the protocols side by side."""
    told = gains(without_repeats(reproduction.outcomes))
    compared = [gain for gain in told if gain.gain is not None and gain.ours.cell.data == data]
    are_alike = _are_tuned_under_both(gain.baseline for gain in compared)
    protocols = [name for name in reproduction.protocols if any(gain.ours.protocol == name for gain in compared)]
    headings = {protocol: "ours, both" if are_alike else f"ours, {protocol}" for protocol in protocols}
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for gain in compared:
        row = {
            "row": _label(gain.ours),
            "against": gain.baseline.cell.row.label,
            "printed": _number(gain.printed, "+.2f"),
        }
        line = lines.setdefault(tuple(row.values()), row | dict.fromkeys(headings.values(), "–"))
        error = "" if gain.standard_error is None else f" ± {gain.standard_error:.2f}"
        line[headings[gain.ours.protocol]] = f"{gain.gain:+.2f}{error}, {gain.verdict}"
    notes = ["Gain: the baseline's error less the row's, in points, ± its standard error."]
    notes += [*_explained(GAINED, {gain.verdict for gain in compared}), *_network(reproduction, [data])]
    title = f"{title_of(data)}: gains over cardinality"
    return TextTable(title, list(lines.values()), notes)


def _explained(meanings: Mapping[str, str], shown: Collection[str]) -> list[str]:
    """'Verdict: "agrees" within one point.', of the verdicts that are shown; nothing where none is."""
    verdicts: dict[str, list[str]] = {}
    for verdict, meaning in meanings.items():
        if verdict in shown:
            verdicts.setdefault(meaning, []).append(f'"{verdict}"')
    phrases = [f"{' or '.join(words)} {meaning}" for meaning, words in verdicts.items()]
    return [f"Verdict: {'; '.join(phrases)}."] if phrases else []


def _published(reproduction: Reproduction, data: str) -> TextTable:
    """The baselines of Table I on one data set beside Bag-of-Tricks' own tables."""
    listed = published(reproduction.outcomes) if reproduction.name == "table1" else []
    lines = [
        {
            "row": _label(one.ours),
            "paper": _printed(one.ours),
            "Bag-of-Tricks, older data": f"{one.older:.2f}",
            "its present data": f"{one.present:.2f}",
            "ours": f"{one.error:.2f}",
            "to the nearest": f"{one.nearest:+.2f}",
        }
        for one in listed
        if one.ours.cell.data == data
    ]
    notes = ["To the nearest: ours less the nearest published error.", *_network(reproduction, [data])]
    return TextTable(f"{title_of(data)}: baselines beside Bag-of-Tricks' tables", lines, notes)


def _rates(reproduction: Reproduction, data: str) -> TextTable:
    """What every rate gave on the validation images of one data set, for the rows whose rate was chosen."""
    listed = reproduction.outcomes if reproduction.name in TABLES else ()  # others show a part of Table I
    tried = {_label(one): one for one in listed if one.cell.data == data and one.tried}
    lines = []
    for label, one in tried.items():
        errors = {f"{rate:g}": _number(error) for rate, error in one.tried.items()}
        lines.append({"row": label, **errors, "chosen": _number(one.lr, "g")})
    notes = ["One network each; class-mean error in percent on the validation images.", *_network(reproduction, [data])]
    return TextTable(f"{title_of(data)}: errors by learning rate", lines, notes)


def _tests(reproduction: Reproduction, data: str, protocol: str) -> TextTable:
    """The tests on one data set under one protocol: what is tested against what must fit a narrow terminal."""
    tests = [test for test in reproduction.tests if (test.ours.cell.data, test.ours.protocol) == (data, protocol)]
    lines = [
        {
            "row": test.ours.cell.row.label,
            "against": test.baseline.cell.row.label,
            "printed": f"{test.printed:.2f}",
            "ours": f"{test.epsilon:.2f}",
            "runs": f"{len(test.ours.errors)} and {len(test.baseline.errors)}",
        }
        for test in tests
    ]
    corrected = f"confidence {tests[0].confidence:.4f}, Bonferroni over the tests of the protocol"
    notes = [f"ε_min of ASO, better below 0.5; {corrected}."]
    notes += sorted({f"ASO: {test.epsilon.warning}." for test in tests if test.epsilon.warning})
    notes += _network(reproduction, [data])
    title = f"{title_of(data)}, protocol {protocol}: almost stochastic order"
    return TextTable(title, lines, notes)


def _ablations(reproduction: Reproduction) -> TextTable:
    lines = [
        {
            "data": title_of(one.cell.data),
            "row": one.cell.row.label,
            "printed": _printed(one),
            "originals": _mean(one.mean, one.deviation),
            "JPEG 95, ImageNet's statistics": _mean(other.mean, other.deviation),
        }
        for one, other in reproduction.ablations
    ]
    notes = _network(reproduction, [one.cell.data for one, _ in reproduction.ablations])
    return TextTable("What other pixels change, at the learning rate 0.1", lines, notes)


def _correlations(reproduction: Reproduction) -> TextTable:
    """How the measures rank the classes; on SVCI-20 also the share of class uncertainty that CIFAR-10's half has."""
    share = "CIFAR-10's μ^U"
    shows_share = any(one.data.name.startswith("svci20") for one in reproduction.measured)
    shared = shared_marks(reproduction.marks)
    lines = []
    for one in reproduction.measured:
        line = {"data": marked(title_of(one.data.name), one.marks, shared)}
        if _has_several_estimators(reproduction):
            line["measured by"] = one.measurement.estimator
        line["ρ of μ^C"] = _number(one.correlation(one.cardinality), ".3f")
        line["ρ of μ^U"] = _number(one.correlation(one.uncertainty), ".3f")
        if one.data.name.startswith("svci20"):
            line[share] = f"{sum(one.uncertainty[:SVHN_CLASSES]):.3f}"
        elif shows_share:
            line[share] = "–"
        line["device"] = one.measurement.device
        lines.append(line)
    notes = ["ρ: Spearman's correlation with the class errors of the members on the test split."]
    notes += ["μ^C: cardinality; μ^U: uncertainty."]
    if shows_share:
        notes += [f"{share}: the share of class uncertainty that its ten classes have; 0.5 tells nothing apart."]
    if reproduction.name == "if1a":
        notes += ["The paper prints 0.82 for cardinality and 0.92 for uncertainty on CIFAR-100-LT (50)."]
    notes += _network(reproduction, [one.data.name for one in reproduction.measured])
    return TextTable("Measures and class errors", lines, notes)


def _has_several_estimators(reproduction: Reproduction) -> bool:
    return len({one.measurement.estimator for one in reproduction.measured}) > 1


def _shifts(reproduction: Reproduction) -> TextTable:
    """How far the measures move from the first data set to the others."""
    naive = [one for one in reproduction.measured if one.measurement.estimator == ENSEMBLE.estimator]
    if reproduction.name not in ("if1b", "if2") or not naive or len(reproduction.measured) < 2:
        return TextTable("", [])
    first = naive[0]
    lines = []
    for one in reproduction.measured:
        line = {"data": title_of(one.data.name)}
        if _has_several_estimators(reproduction):
            line["measured by"] = one.measurement.estimator
        line["moved μ^C"] = f"{shift(first.cardinality, one.cardinality):.3f}"
        line["moved μ^U"] = f"{shift(first.uncertainty, one.uncertainty):.3f}"
        line["rarest class μ^C"] = f"{one.cardinality[-1]:.3f}"
        line["rarest class μ^U"] = f"{one.uncertainty[-1]:.3f}"
        lines.append(line)
    notes = [f"Moved: half the sum of the absolute changes from {title_of(first.data.name)}, from 0 to 1."]
    notes += _network(reproduction, [one.data.name for one in reproduction.measured])
    return TextTable("How far the measures move", lines, notes)


def _halves(reproduction: Reproduction) -> TextTable:
    """The error of SVCI-20 and of its two halves."""
    lines = []
    for data, results in reproduction.naive.items():
        objects, digits = half_errors(results)
        errors = [fmean(run) for run in zip(objects, digits, strict=True)]
        lines.append(
            {
                "data": title_of(data),
                "error": _mean(fmean(errors), stdev(errors) if len(errors) > 1 else None),
                "CIFAR-10": f"{fmean(objects):.2f}",
                "SVHN": f"{fmean(digits):.2f}",
                "difference": f"{fmean(objects) - fmean(digits):.2f}",
                "runs": str(len(results)),
            }
        )
    return TextTable("The halves of SVCI-20, naïve classifier", lines, _network(reproduction, reproduction.naive))


def half_errors(results: Sequence[Result]) -> tuple[list[float], list[float]]:
    """The mean errors of CIFAR-10's classes and of SVHN's, one a run."""
    errors = [result.class_errors for result in results if result.class_errors]
    return [fmean(run[:SVHN_CLASSES]) for run in errors], [fmean(run[SVHN_CLASSES:]) for run in errors]


def print_reproduction(reproduction: Reproduction) -> None:
    """Every table with its notes."""
    say(reproduction.experiment.about)
    tables = text_tables(reproduction)
    shown: set[str] = set()  # columns of the tables with verdicts on cells
    for table in tables:
        say("", table.title)
        print_table(table.columns, table.rows)
        if "verdict" in table.columns:
            shown.update(table.columns)
        say(*table.notes)
    if not tables:
        say("Nothing of it is stored.")
    elif reproduction.outcomes:
        verdicts = {one.verdict for one in reproduction.outcomes} if "verdict" in shown else set()
        notes = [note for column, note in CELL_NOTES.items() if column in shown]
        say(*notes, *_explained(AGREEMENT, verdicts))
    say(*describe_marks(reproduction.marks))


def print_remaining(remaining: Sequence[Remaining]) -> None:
    """What is left to train, and the sums."""
    if not remaining:
        say("Nothing is left to train.")
        return
    total = Remaining(
        "in all",
        lanes=sum(row.lanes for row in remaining),
        images=sum(row.images for row in remaining),
        minutes=sum(row.minutes for row in remaining),
    )
    rows = [
        (row.data, f"{row.lanes:,}", f"{row.images / 1e6:,.1f}", _duration(row.minutes)) for row in [*remaining, total]
    ]
    print_table(("data", "lanes", "million images", "time"), rows)
    say("Time: at the speed of a few steps of a full stack, just timed on this device.")


def _duration(minutes: float) -> str:
    """In minutes, hours or days, whichever reads best."""
    if minutes < 120:
        return f"{minutes:,.1f} min"
    if minutes < 48 * 60:
        return f"{minutes / 60:,.1f} h"
    return f"{minutes / 60 / 24:,.0f} days"


def _mean(mean: float | None, deviation: float | None) -> str:
    return _number(mean) if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def _number(value: float | None, form: str = ".2f") -> str:
    return "–" if value is None else format(value, form)
