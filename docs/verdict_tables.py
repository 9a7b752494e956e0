"""What has become of the paper's cells and of the gains that it prints, counted."""

from collections import Counter
from collections.abc import Iterable, Sequence

from class_uncertainty.paper.bag_of_tricks import Published, published
from class_uncertainty.paper.needs import PROTOCOLS
from class_uncertainty.paper.outcomes import POINT, Gain, Outcome, gains, without_repeats
from class_uncertainty.paper.tables import AGREEMENT, GAINED, TextTable, title_of


def verdicts(outcomes: Sequence[Outcome]) -> TextTable:
    """How many cells agree with what is printed, and how many gains over cardinality there are, by protocol."""
    counted, rows = without_repeats(outcomes), []
    compared = gains(counted)
    for protocol in PROTOCOLS:
        words = Counter(one.verdict for one in counted if one.protocol == protocol and one.difference is not None)
        gained = Counter(gain.verdict for gain in compared if gain.ours.protocol == protocol)
        counts = [words.total(), *(words[word] for word in AGREEMENT), *(gained[word] for word in GAINED)]
        rows.append([protocol, *map(str, counts)])
    columns = ("protocol", "cells", *AGREEMENT, *(f"gain: {word}" for word in GAINED))
    return TextTable("Verdicts", columns, rows)


def printed_gains(outcomes: Sequence[Outcome]) -> TextTable:
    """What has become of every gain that the paper prints, by data set and protocol: of a row's first reading."""
    first: dict[tuple[str, str, str], Gain] = {}
    for gain in gains(without_repeats(outcomes)):
        if gain.printed is not None and gain.printed > 0:
            first.setdefault((gain.ours.cell.data, gain.ours.protocol, gain.ours.cell.row.label), gain)
    by_place: dict[tuple[str, str], Counter[str]] = {}
    for (data, protocol, _), gain in first.items():
        if gain.verdict in GAINED:
            by_place.setdefault((data, protocol), Counter())[gain.verdict] += 1
    rows = []
    for (data, protocol), words in by_place.items():
        rows.append([title_of(data), protocol, str(words.total()), *(str(words[word]) for word in GAINED)])
    columns = ("data", "protocol", "printed gains that have been run", *GAINED)
    return TextTable("Gains that the paper prints", columns, rows)


def published_baselines(outcomes: Sequence[Outcome]) -> TextTable:
    """How many baselines of Table I lie within a point of a published error, and of the one that the paper prints."""
    baselines: dict[str, list[Published]] = {}
    for one in published(outcomes):
        baselines.setdefault(title_of(one.ours.cell.data), []).append(one)
    baselines["all"] = [one for column in baselines.values() for one in column]
    rows = []
    for data, column in baselines.items():
        gaps = [one.from_paper for one in column if one.from_paper is not None]
        counts = (len(column), _within(one.nearest for one in column), len(gaps), _within(gaps))
        rows.append([data, *map(str, counts)])
    columns = ("data", "baselines", "within one point of a published error", "printed in the paper", "within one of it")
    return TextTable("Baselines beside what has been published", columns, rows)


def _within(gaps: Iterable[float]) -> int:
    return sum(abs(gap) <= POINT for gap in gaps)
