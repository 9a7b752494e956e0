"""The sentences at the head of a section of the page. Names are escaped; the markup around them is ours."""

from collections.abc import Sequence
from typing import Any

from class_uncertainty.reporting.page_columns import mean_with_deviation
from class_uncertainty.reporting.section import SAME_NETWORK, Section, describe_collapsed, describe_older
from class_uncertainty.runs.rows import ClassRow, MethodRow, harder_and_easier
from class_uncertainty.runs.significance import ENOUGH
from class_uncertainty.text import amount, unbroken

Facts = list[tuple[str, str]]  # (number, what it counts)


def key_facts(section: Section) -> Facts:
    """For the strip under a section's heading; a fix opens it without what else is stored."""
    facts, report = [], section.fix_report
    if counts := report.counts if report else [row.count for row in section.classes]:
        facts += [(str(len(counts)), "classes"), (f"{sum(counts):,}", "training examples")]
    facts += [] if report else stored_facts(section)
    if section.network.parameters is not None:
        facts.append((amount(section.network.parameters), f"parameters of {section.network.network}"))
    elif section.network.network:
        facts.append((section.network.network, "network"))
    return facts


def stored_facts(section: Section) -> Facts:
    """What measured, and how much was compared."""
    facts = []
    if section.members and section.estimator == "ensemble":
        facts.append((str(section.members), "ensemble members"))
    elif section.members:
        facts += [(section.estimator, "measured by"), (section.score, "score")]
    if section.methods:
        methods, runs = len({row.method for row in section.methods}), sum(row.runs for row in section.methods)
        facts += [(str(methods), "method" if methods == 1 else "methods"), (str(runs), "run" if runs == 1 else "runs")]
    return facts


def class_lead(classes: Sequence[ClassRow]) -> list[str]:
    """Which classes are the most uncertain, and where their counts mislead."""
    rows = sorted(classes, key=lambda row: row.rank_uncertainty)
    if not rows:
        return []
    if len({row.uncertainty for row in rows}) == 1:
        return ["All classes are equally uncertain."]
    shares = _enumerate([f"{100 * row.uncertainty:.1f}" for row in rows[:3]]) + " %"
    template = "The most uncertain classes are {}, with {} of the sum of all class uncertainties. {}"
    return [unbroken(_markup(template).format(_names(rows[:3]), shares, _disagreement(rows)))]


def _disagreement(rows: Sequence[ClassRow]) -> str:
    """Which classes are harder or easier than their counts suggest, by uncertainty and by error."""
    if len({row.count for row in rows}) == 1:
        return "All classes have equally many training examples, so rarity does not tell them apart."
    if len(rows) < 3:
        return ""
    if not any(row.disagreement for row in rows):
        return "Rarity ranks all classes as uncertainty does."
    sentences = []
    for kind, agreeing in harder_and_easier(rows).items():
        if agreeing:
            names, verb = _names(agreeing[:3], others=len(agreeing) - 3), "is" if len(agreeing) == 1 else "are"
            count = "its count suggests" if len(agreeing) == 1 else "their counts suggest"
            sentences.append(_markup("{} {} {} than {}, by uncertainty and by error.").format(names, verb, kind, count))
    return _markup(" ").join(sentences)


def method_lead(rows: Sequence[MethodRow]) -> list[str]:
    """Which method has the lowest mean error, and by how much; no claim of significance, a warning if runs are few."""
    scored = [row for row in rows if row.error is not None]
    if not scored:
        return ["No run of any method finished with a test error."] if rows else []
    best = min(scored, key=lambda row: (row.error, row.method != "naive"))
    naive = next((row for row in scored if row.method == "naive" and row.lr == best.naive_lr), None)
    few = min(row.runs for row in (best, naive or best))
    diverged = sum(row.diverged for row in rows)
    text = _best_method(scored, best, naive, several_rates=len({row.lr for row in rows}) > 1)
    if any(row.seedless for row in scored):
        text += f" {SAME_NETWORK}"
    elif few < ENOUGH and len(scored) > 1:
        text += f" {_runs(few)} {'is' if few == 1 else 'are'} few: the order may change with more."
    for row in scored:
        text += f" {row.method}: {describe_collapsed(row.collapsed, row.runs)}" if row.collapsed else ""
    for sentence in describe_older(row.method for row in scored if row.is_older):
        text += f" {sentence}"
    if diverged:
        text += f" {_runs(diverged)} diverged and {'is' if diverged == 1 else 'are'} left out of the means."
    return [unbroken(text)]


def _best_method(scored: Sequence[MethodRow], best: MethodRow, naive: MethodRow | None, several_rates: bool) -> str:
    name = _markup("<b>{}</b>{}").format(best.method, f" at learning rate {best.lr:g}" if several_rates else "")
    score = f"{mean_with_deviation(best)} % over {_runs(best.runs)}"
    if len(scored) == 1:
        return _markup("{} has a mean error of {}.").format(name, score)
    if best is naive:
        return _markup("No method here has a lower mean error than {}: {}.").format(name, score)
    what = "pairs of method and learning rate" if several_rates else "methods"
    lead = _markup("Of {} {}, {} has the lowest mean error: {}").format(len(scored), what, name, score)
    return lead + (_against(best, naive) if naive else "; naive has no result at that learning rate to compare with.")


def _against(best: MethodRow, naive: MethodRow) -> str:
    gap, ranges = (naive.error or 0) - (best.error or 0), ""
    if best.error_sd and naive.error_sd:
        ranges = f"; the two ± ranges {'overlap' if gap <= best.error_sd + naive.error_sd else 'do not overlap'}"
    rate = f" at learning rate {naive.lr:g}" if naive.lr != best.lr else ""
    return f", {gap:.2f} points below naive’s {mean_with_deviation(naive)} %{rate}{ranges}."


def _names(rows: Sequence[ClassRow], others: int = 0) -> Any:
    names = [_markup("<b>{}</b>").format(row.name) for row in rows]
    return _enumerate([*names, f"{others} more"] if others > 0 else names)


def _enumerate(items: Sequence[Any]) -> Any:
    """'a, b and c'."""
    *first, last = items
    return _markup(", ").join(first) + " and " + last if first else last


def _runs(number: int) -> str:
    return f"{number:,} run{'' if number == 1 else 's'}"


def _markup(html: str) -> Any:
    """Trusted HTML, whose `format` escapes what it is given. It comes with jinja2, which is imported late."""
    from markupsafe import Markup

    return Markup(html)
