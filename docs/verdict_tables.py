"""What has become of the paper's cells, and of the gains that it prints, as tables of counts."""

from collections import Counter
from collections.abc import Iterable, Sequence

from class_uncertainty.paper.experiments import PROTOCOLS
from class_uncertainty.paper.outcomes import POINT, Gain, Outcome, Published, gains, published, without_repeats
from class_uncertainty.paper.tables import AGREEMENT, GAINED, TextTable, title_of


def verdicts(outcomes: Sequence[Outcome]) -> TextTable:
    """How many cells agree with what is printed, and how many gains over cardinality there are, by protocol."""
    told = without_repeats(outcomes)
    compared = gains(told)
    lines = []
    for protocol in PROTOCOLS:
        agreed = Counter(one.verdict for one in told if one.protocol == protocol and one.difference is not None)
        gained = Counter(gain.verdict for gain in compared if gain.ours.protocol == protocol)
        line = {"protocol": protocol, "cells": str(agreed.total())}
        line |= {word: str(agreed[word]) for word in AGREEMENT}
        line |= {f"gain: {word}": str(gained[word]) for word in GAINED}
        lines.append(line)
    return TextTable("Verdicts", lines)


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
    lines = []
    for (data, protocol), counted in by_place.items():
        line = {"data": title_of(data), "protocol": protocol, "printed gains that have been run": str(counted.total())}
        lines.append(line | {word: str(counted[word]) for word in GAINED})
    return TextTable("Gains that the paper prints", lines)


def published_baselines(outcomes: Sequence[Outcome]) -> TextTable:
    """How many baselines of Table I lie within a point of a published error, and of the one that the paper prints."""
    baselines: dict[str, list[Published]] = {}
    for one in published(outcomes):
        baselines.setdefault(title_of(one.ours.cell.data), []).append(one)
    baselines["all"] = [one for column in baselines.values() for one in column]
    lines = []
    for data, column in baselines.items():
        from_paper = [one.ours.difference for one in column if one.ours.difference is not None]
        lines.append(
            {
                "data": data,
                "baselines": str(len(column)),
                "within one point of a published error": _within(one.nearest for one in column),
                "printed in the paper": str(len(from_paper)),
                "within one of it": _within(from_paper),
            }
        )
    return TextTable("Baselines beside what has been published", lines)


def _within(gaps: Iterable[float]) -> str:
    return str(sum(abs(gap) <= POINT for gap in gaps))
