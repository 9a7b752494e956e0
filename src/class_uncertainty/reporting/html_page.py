"""The report: one HTML file that holds everything it shows, for a browser without a network."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from class_uncertainty.errors import MachineFault, missing, notice
from class_uncertainty.io import blank_mark, check_ending, check_replaceable, free_name, signed, write_whole
from class_uncertainty.methods import METHODS
from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.reporting import before_after, chart_style, charts, page_columns
from class_uncertainty.reporting.chart_images import ChartRequest, DrawingFailed, check_figures, draw, write_figures
from class_uncertainty.reporting.glossary import GLOSSARY
from class_uncertainty.reporting.page_examples import Room, links_files, opening, page_data
from class_uncertainty.reporting.page_text import class_lead, key_facts, method_lead, stored_facts
from class_uncertainty.reporting.section import Section, describe_rates, describe_tests
from class_uncertainty.runs.rows import harder_and_easier
from class_uncertainty.text import unbroken

AT_ONCE = 50  # rows of a table that are laid out at first: the others are hidden until they are asked for
STILL_BYTES = 150_000  # a larger chart, of hundreds of classes, is drawn by the page's script alone
CLASS_BYTES = 1_200  # of a class's rows, about
MOST_DISAGREEMENTS = 5  # classes listed as harder, and as easier, than their counts suggest
TEMPLATE_VALUES = {"style": chart_style, "columns": page_columns, "methods": METHODS, "many": MANY, "few": FEW}
TEMPLATE_VALUES |= {"glossary": GLOSSARY, "at_once": AT_ONCE}
ENDINGS = (".html", ".htm")
ADVICE = "raise the limit on memory or address space (ulimit -v), and 'cu report' draws them"


def check_place(path: Path, made_from: str, force: bool = False, read: Iterable[object] = ()) -> None:
    """Refuse a path that cannot be written, that holds anything but this page, or that names another format."""
    check_ending(path, "report", ENDINGS)
    check_replaceable(path, made_from, force, read=read)


def page_place(
    made_from: str, page: Path | None, default: Path, force: bool = False, read: Iterable[object] = ()
) -> Path:
    """Where a page goes; without a name, to the default or beside it."""
    check = partial(check_place, made_from=made_from, force=force, read=read)
    page = page or free_name(default, check)
    check(page)
    return page


def write(
    sections: Sequence[Section], path: Path, folder: Path | None = None, made_from: str = "", force: bool = False
) -> list[Path]:
    """Write the page and, if a folder is given, every chart as SVG and as PNG. Returns the files."""
    html, chart_files, failure = render(sections, folder, path.parent)
    check_figures(chart_files, made_from, force)
    write_marked(path, html, made_from)
    if failure and folder:
        raise MachineFault(f"no chart was written to {folder}, and {path} has none: {failure}; {ADVICE}.")
    if failure:
        notice(f"{path} has no charts, its tables hold the numbers: {failure}; {ADVICE}.")
    return [path, *write_figures(chart_files, made_from)]


def write_marked(path: Path, html: str, made_from: str) -> None:
    """Write a page with its mark."""
    page = f"{html}<!-- {blank_mark(made_from)} -->\n"
    write_whole(path, signed(page.encode(errors="replace"), made_from))


def render(
    sections: Sequence[Section], folder: Path | None = None, place: Path = Path()
) -> tuple[str, dict[Path, bytes], str]:
    """The page, the content of each chart file, and why no chart could be drawn ("" if they were).

    The page is plain HTML with static charts, which its script replaces by interactive ones. It will be in the folder
    `place`, from which it links files.
    """
    template = load_template("report.html")
    specs = [{name: chart.to_dict() for name, chart in charts.charts(section).items()} for section in sections]
    theme = chart_style.page_config()
    requests, files = list[ChartRequest](), dict[Path, ChartRequest]()
    for section, section_specs in zip(sections, specs, strict=True):
        requests += [("svg", spec | {"config": theme}) for spec in section_specs.values()]
        files |= charts.files(section, section_specs, folder) if folder else {}
    requests += [("js", {})] if requests else []
    failure = ""
    try:
        images = iter(draw([*requests, *files.values()]))
    except DrawingFailed as error:
        images, specs, files, failure = iter([]), [{} for _ in sections], {}, str(error)
    drawn = [{name: _chart(spec, next(images)) for name, spec in section_specs.items()} for section_specs in specs]
    views = [_view(section, section_charts) for section, section_charts in zip(sections, drawn, strict=True)]
    script = next(images, b"").decode()
    data = _data(views, len(script), place)
    views = [view | {"data": of_section} for view, of_section in zip(views, data, strict=True)]
    linked = any(map(links_files, filter(None, data)))
    about: dict[str, Any] = {"linked": linked, "failure": failure}
    html = template.render(views=views, theme=theme, script=script, **about, **TEMPLATE_VALUES)
    return html, dict(zip(files, images, strict=True)), failure


def _data(views: Sequence[dict[str, Any]], script: int, place: Path) -> list[dict[str, Any] | None]:
    """The examples of each section, which share the room that is left beside a script of so many bytes and the rest."""
    sections = [view["section"] for view in views]
    charts = [len(chart["svg"]) + len(str(chart["spec"])) for view in views for chart in view["charts"].values()]
    rows = CLASS_BYTES * sum(len(section.examples.classes) for section in sections if section.examples)
    room = Room().beside([picture for section in sections for picture in section.pictures], script + sum(charts) + rows)
    room = room.shared(max(1, sum(section.examples is not None for section in sections)))
    return [page_data(section.examples, place, room) if section.examples else None for section in sections]


def load_template(name: str) -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise missing("jinja2", needed_by="the report needs") from None
    options: dict[str, Any] = dict(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    options["finalize"] = lambda value: unbroken(value) if type(value) is str else value  # not charts and scripts
    environment = Environment(loader=PackageLoader("class_uncertainty", "reporting"), **options)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":")}
    return environment.get_template(name)


def _chart(spec: dict[str, Any], svg: bytes) -> dict[str, Any]:
    """The spec goes without its configuration: the page has one for all charts. "svg" is "" for a large one."""
    text = json.dumps({name: value for name, value in spec.items() if name != "config"})
    rounded = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))  # more than a chart shows
    return {"spec": rounded, "svg": svg.decode() if len(svg) < STILL_BYTES else ""}


def _view(section: Section, charts: dict[str, Any]) -> dict[str, Any]:
    """What the template shows of a section, the most uncertain classes first."""
    methods, report = section.methods, section.fix_report
    about = [before_after.goal_sentence(report), before_after.verdict(report)] if report else []
    stored = class_lead(section.classes) + method_lead(methods)
    rows = [
        opening(row, str(c) if section.examples else "", disagreement=row.disagreement)
        for c, row in enumerate(section.classes)
    ]
    errors = [row.error for row in methods if row.error is not None]
    warnings = dict.fromkeys(row.aso_warning for row in methods if row.aso_warning)
    several_rates = len({row.lr for row in methods}) > 1
    disputed = harder_and_easier(section.classes)
    hidden = {"lr"} if not several_rates else set()
    hidden |= {"worst"} if len(section.classes) == 2 else set()
    hidden |= {"diverged"} if not any(row.diverged for row in methods) else set()
    return {
        "section": section,
        "lead": list(filter(None, about)) if report else stored,
        "stored": (stored_facts(section), stored) if report and stored else None,
        "facts": key_facts(section),
        "charts": charts,
        "disagreements": {kind: rows[:MOST_DISAGREEMENTS] for kind, rows in disputed.items() if rows},
        "has_errors": any(row.error is not None for row in section.classes),
        "classes": sorted(rows, key=lambda row: (row.rank_uncertainty, row.name)),
        "several_rates": several_rates,
        "method_columns": [column for column in page_columns.METHOD_COLUMNS if column.key not in hidden],
        "warnings": {warning: number for number, warning in enumerate(warnings, start=1)},
        "lowest": min(errors, default=None),
        "naive_rates": len({row.lr for row in methods if row.method == "naive" and row.error is not None}),
        "gain_rates": describe_rates(methods),
        "tests": describe_tests(methods),
        "before_after": before_after.view(report, section.examples) if report else None,
    }
