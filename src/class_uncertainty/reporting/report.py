"""The report: one HTML file with everything in it, for a browser without a network."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from class_uncertainty.errors import InputError, MachineFault, notice
from class_uncertainty.files import check_writable, write_whole
from class_uncertainty.methods import METHODS
from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.remedies import diagnosis
from class_uncertainty.reporting import figures, mended
from class_uncertainty.reporting.drawing import Picture, Undrawn, draw
from class_uncertainty.reporting.tables import ClassRow, MethodRow, Section
from class_uncertainty.results.significance import ENOUGH

OURS = re.compile(rb"\s*<!doctype html><!-- class-uncertainty")  # how a page begins
NOTHING = "–"
PERCENT = "\N{NO-BREAK SPACE}%"
LISTED = 5  # classes to each side that the measures disagree on
REMEDY = "raise the limit on memory or address space (ulimit -v), and 'cu report' draws them"
THUMBNAIL = diagnosis.THUMBNAIL


def check_place(path: Path) -> None:
    """That a page can be written there, over an earlier one at most."""
    check_writable(path, OURS, "report")


def write(sections: Sequence[Section], path: Path, folder: Path | None = None) -> list[Path]:
    """The files written: the page, and every chart as SVG and as PNG where a folder is given for them."""
    page, charts, undrawn = _rendered(sections, folder)
    write_whole(path, page.encode(errors="replace"))
    if undrawn and folder:
        raise MachineFault(f"no chart was written to {folder}, and {path} has none: {undrawn}; {REMEDY}.")
    if undrawn:
        notice(f"{path} has no charts, its tables hold the numbers: {undrawn}; {REMEDY}.")
    for file, content in charts.items():
        write_whole(file, content)
    return [path, *charts]


def render(sections: Sequence[Section]) -> str:
    """The whole page: plain HTML with static charts, which the script in it then makes live."""
    return _rendered(sections)[0]


def _rendered(sections: Sequence[Section], folder: Path | None = None) -> tuple[str, dict[Path, bytes], str]:
    """The page, what goes into each file of the folder, and why no chart could be drawn; "" where they were."""
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ModuleNotFoundError:
        raise InputError("the report needs jinja2, which is not installed: run 'pip install jinja2'.") from None
    loader = FunctionLoader(lambda name: resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    specs = [{name: chart.to_dict() for name, chart in figures.charts(section).items()} for section in sections]
    stills: list[Picture] = [("svg", spec | {"config": _theme()}) for own in specs for spec in own.values()]
    files = {
        file: picture for pair in zip(sections, specs, strict=True) if folder for file, picture in figures.files(*pair, folder).items()
    }
    undrawn = ""
    try:
        pictures = iter(draw([*stills, *([("js", {})] if stills else []), *files.values()]))
    except Undrawn as error:
        pictures, specs, files, undrawn = iter([]), [{} for _ in sections], {}, str(error)
    charts = [{name: _chart(spec, next(pictures)) for name, spec in own.items()} for own in specs]
    page = environment.get_template("report.html").render(
        views=[_view(*pair) for pair in zip(sections, charts, strict=True)],
        light=figures.LIGHT,
        dark=figures.DARK,
        font=figures.FONT,
        many=MANY,
        few=FEW,
        theme=_theme(),
        script=next(pictures, b"").decode(),
        undrawn=undrawn,
    )
    return page, dict(zip(files, pictures, strict=True)), undrawn


def _view(section: Section, charts: dict[str, Any]) -> dict[str, Any]:
    """What the template shows of a section; the most uncertain classes come first."""
    warnings = list(dict.fromkeys(row.aso_warning for row in section.methods if row.aso_warning))
    errors = [row.error for row in section.methods if row.error is not None]
    several = len({row.lr for row in section.methods}) > 1
    return {
        "section": section,
        "lead": _class_lead(section) + _method_lead(section.methods),
        "facts": _facts(section),
        "charts": charts,
        "apart": _apart(section.classes),
        "class_columns": CLASS_COLUMNS,
        "classes": sorted(section.classes, key=lambda row: (row.rank_uncertainty, row.name)),
        "method_columns": [column for column in METHOD_COLUMNS if several or column.key != "lr"],
        "warnings": {warning: number for number, warning in enumerate(warnings, start=1)},
        "lowest": min(errors, default=None),
        "naive": any(row.method == "naive" and row.error is not None for row in section.methods),
        "about": {name: METHODS[name].about if name in METHODS else "" for name in {row.method for row in section.methods}},
        "mended": mended.view(section.mended) if section.mended else None,
        "mended_columns": MENDED_COLUMNS,
        "galleries": [(gallery.label, [(kind, _thumbnails(gallery, kind)) for kind in ("most", "least")]) for gallery in section.galleries],
    }


def _apart(rows: Sequence[ClassRow]) -> list[tuple[str, list[ClassRow]]]:
    """The classes that the two measures rank most differently, to each side; none where all counts are equal."""
    if len({row.count for row in rows}) < 2:
        return []
    ordered = sorted(rows, key=lambda row: -row.disagreement)
    harder, easier = [row for row in ordered if row.disagreement > 0], [row for row in reversed(ordered) if row.disagreement < 0]
    return [(kind, found[:LISTED]) for kind, found in (("harder", harder), ("easier", easier)) if found]


def _theme() -> dict[str, Any]:
    """The charts' configuration in the page's own colours: charts follow the page into the dark, and onto white paper."""
    return figures.config({name: f"var(--{name})" for name in figures.LIGHT})


def _chart(spec: dict[str, Any], still: bytes) -> dict[str, Any]:
    """Without the configuration, of which the page has one for all charts."""
    return {"spec": {name: value for name, value in spec.items() if name != "config"}, "svg": still.decode()}


def _facts(section: Section) -> list[tuple[str, str]]:
    """Numbers for the strip under a section's heading: (number, what of)."""
    facts = []
    if section.classes:
        facts += [(str(len(section.classes)), "classes"), (f"{sum(row.count for row in section.classes):,}", "training examples")]
    if section.members and section.estimator == "ensemble":
        facts.append((str(section.members), "ensemble members"))
    elif section.members:
        facts += [(section.estimator, "measured by"), (section.score, "score")]
    if section.methods:
        facts += [(str(len({row.method for row in section.methods})), "methods"), (str(sum(row.runs for row in section.methods)), "runs")]
    return facts


# Sentences


def _class_lead(section: Section) -> list[str]:
    """Which classes are the most uncertain, and where counting examples would mislead."""
    from markupsafe import Markup

    rows = sorted(section.classes, key=lambda row: row.rank_uncertainty)
    if not rows:
        return []
    if len({row.uncertainty for row in rows}) == 1:
        return ["All classes are equally uncertain."]
    top = rows[:3]
    shares = _words([f"{100 * row.uncertainty:.1f}" for row in top]) + PERCENT
    text = Markup("The most uncertain classes are {}, with {} of the sum of all class uncertainties.").format(_names(top), shares)
    if len({row.count for row in rows}) == 1:
        return [text + " All classes have equally many training examples, so cardinality tells none of them apart."]
    widest = max(rows, key=lambda row: abs(row.disagreement))
    if not widest.disagreement:
        return [text + " Cardinality ranks all classes just as uncertainty does."]
    alike = [row for row in rows if abs(row.disagreement) == abs(widest.disagreement)]
    if len(alike) > 1:
        more = Markup(" Cardinality and uncertainty disagree most about {}, by {:g} {} each.")
        gap = abs(widest.disagreement)
        return [text + more.format(_names(alike[:3], len(alike) - 3), gap, "rank" if gap == 1 else "ranks")]
    more = Markup(
        " Cardinality and uncertainty disagree most about {}: rank {:g} of {} by its {} training examples, rank {:g} by uncertainty,"
        " so it is {} than its count says."
    )
    kind = "harder" if widest.disagreement > 0 else "easier"
    ranks = widest.rank_cardinality, len(rows), f"{widest.count:,}", widest.rank_uncertainty
    return [text + more.format(_names([widest]), *ranks, kind)]


def _method_lead(rows: Sequence[MethodRow]) -> list[str]:
    """Which method has the lowest mean error and by how much; no word on significance, and a warning where runs are few."""
    from markupsafe import Markup

    scored = [row for row in rows if row.error is not None]
    if not scored:
        return ["No run of any method finished with a test error."] if rows else []
    best = min(scored, key=lambda row: (row.error, row.method != "naive"))
    naive = next((row for row in scored if row.method == "naive" and row.lr == best.lr), None)
    several = len({row.lr for row in rows}) > 1
    who = Markup("<b>{}</b>{}").format(best.method, f" at learning rate {best.lr:g}" if several else "")
    score = f"{_mean_sd(best)}{PERCENT} over {_count(best.runs, 'run')}"
    if len(scored) == 1:
        text = Markup("{} has a mean error of {}.").format(who, score)
    elif best is naive:
        text = Markup("No method here has a lower mean error than {}: {}.").format(who, score)
    else:
        what = "pairs of method and learning rate" if several else "methods"
        text = Markup("Of {} {}, {} has the lowest mean error: {}").format(len(scored), what, who, score)
        text += _against(best, naive) if naive else "; naive has no result at that learning rate to compare with."
    if (few := min(row.runs for row in (best, naive or best))) < ENOUGH:
        text += f" {_count(few, 'run')} {'is' if few == 1 else 'are'} few: the order may change with more."
    if diverged := sum(row.diverged for row in rows):
        text += f" {_count(diverged, 'run')} diverged and {'is' if diverged == 1 else 'are'} left out of the means."
    return [text]


def _against(best: MethodRow, naive: MethodRow) -> str:
    gap = (naive.error or 0) - (best.error or 0)
    text = f", {gap:.2f} points below naive’s {_mean_sd(naive)}{PERCENT}"
    if best.error_sd is None or naive.error_sd is None:
        return text + "."
    return text + f"; the two ± ranges {'overlap' if gap <= best.error_sd + naive.error_sd else 'do not overlap'}."


def _names(rows: Sequence[ClassRow], others: int = 0) -> Any:
    from markupsafe import Markup

    names = [Markup("<b>{}</b>").format(row.name) for row in rows]
    return _words([*names, f"{others} more"] if others > 0 else names)


def _words(parts: Sequence[Any]) -> Any:
    """'a, b and c'."""
    from markupsafe import Markup

    *first, last = parts
    return Markup(", ").join(first) + " and " + last if first else last


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# Tables


@dataclass(frozen=True)
class Column:
    """`heading` is HTML of ours, `key` the field that sorts, `text` a cell."""

    heading: str
    key: str
    text: Callable[[Any], str]

    def sort_value(self, row: Any) -> str:
        """What the page's script sorts by; "" where there is nothing, which goes last."""
        value = getattr(row, self.key)
        return "" if _missing(value) else str(value)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _number(key: str, digits: int = 2, factor: float = 1, sign: bool = False) -> Callable[[Any], str]:
    """A cell that shows a number with a true minus, or a dash where there is none."""

    def text(row: Any) -> str:
        value = getattr(row, key)
        if _missing(value):
            return NOTHING
        shown = round(factor * value, digits) + 0.0  # + 0.0: no minus before a zero
        return f"{shown:{'+' if sign and shown else ''},.{digits}f}".replace("-", "−")

    return text


def _rank(key: str, form: str = "g") -> Callable[[Any], str]:
    return lambda row: format(getattr(row, key), form).replace("-", "−")


def _mean_sd(row: MethodRow) -> str:
    if _missing(row.error):
        return NOTHING
    return f"{row.error:.2f}" if row.error_sd is None else f"{row.error:.2f} ± {row.error_sd:.2f}"


def _order(row: MethodRow) -> str:
    return NOTHING if row.aso is None else f"{row.aso:.2f} vs {row.counterpart}"


CLASS_COLUMNS = (
    Column("Class", "name", lambda row: row.name),
    Column("Training examples", "count", _number("count", 0)),
    Column("μ<sup>C</sup>,&nbsp;%", "cardinality", _number("cardinality", factor=100)),
    Column("Effective, %", "effective", _number("effective", factor=100)),
    Column("μ<sup>U</sup>,&nbsp;%", "uncertainty", _number("uncertainty", factor=100)),
    Column("Uncer&shy;tainty", "raw", _number("raw", 3)),
    Column("Epistemic share, %", "epistemic_share", _number("epistemic_share", 0, 100)),
    Column("Rank&nbsp;μ<sup>C</sup>", "rank_cardinality", _rank("rank_cardinality")),
    Column("Rank&nbsp;eff.", "rank_effective", _rank("rank_effective")),
    Column("Rank&nbsp;μ<sup>U</sup>", "rank_uncertainty", _rank("rank_uncertainty")),
    Column("Disagree&shy;ment", "disagreement", lambda row: _rank("disagreement", "+g")(row) if row.disagreement else "0"),
    Column("Error, %", "error", _number("error", 1)),
)
METHOD_COLUMNS = (
    Column("Method", "method", lambda row: row.method),
    Column("Learning rate", "lr", _rank("lr")),
    Column("Class-mean error, %", "error", _mean_sd),
    Column("Gain", "gain", _number("gain", sign=True)),
    Column("Top-1 error", "top1", _number("top1")),
    Column("Many", "many", _number("many")),
    Column("Medium", "medium", _number("medium")),
    Column("Few", "few", _number("few")),
    Column("Worst tenth", "worst", _number("worst")),
    Column("Spread", "spread", _number("spread")),
    Column("NLL", "nll", _number("nll", 3)),
    Column("ECE", "ece", _number("ece")),
    Column("Cost", "cost", lambda row: f"{row.cost:.3g}"),
    Column("ASO", "aso", _order),
    Column("Runs", "runs", _number("runs", 0)),
    Column("Diverged", "diverged", _number("diverged", 0)),
)
MENDED_COLUMNS = {
    "changes": (
        Column("Class", "name", lambda row: row.name),
        Column("Training examples", "count", _number("count", 0)),
        Column("Error before, %", "before", _number("before", 1)),
        Column("Error after, %", "after", _number("after", 1)),
        Column("Change", "change", _number("change", 1, sign=True)),
    ),
    "confusions": (
        Column("Class", "name", lambda row: row.name),
        Column("Called", "called", lambda row: row.called),
        Column("Before, %", "before", _number("before", 1)),
        Column("After, %", "after", _number("after", 1)),
        Column("Change", "change", _number("change", 1, sign=True)),
    ),
    "suspects": (
        Column("Example", "name", lambda row: row.name),
        Column("Label", "label", lambda row: row.label),
        Column("p of the label, %", "p_label", _number("p_label", 1, 100)),
        Column("Guess", "guess", lambda row: row.guess),
        Column("p of the guess, %", "p_guess", _number("p_guess", 1, 100)),
    ),
}


# Pictures


def _thumbnails(gallery: Any, kind: str) -> list[dict[str, Any]]:
    return [{"picture": picture, "source": diagnosis.thumbnail(picture.pixels)} for picture in getattr(gallery, kind)]
