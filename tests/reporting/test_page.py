"""The page: safe, complete and self-contained, also without examples."""

import errno
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from reporting.examples import NASTY

from class_uncertainty import InputError, MachineFault
from class_uncertainty.metrics import Outcomes
from class_uncertainty.reporting import page as page_module
from class_uncertainty.reporting.charts import Row, row_chart
from class_uncertainty.reporting.glossary import GLOSSARY
from class_uncertainty.reporting.page import (
    Block,
    KeyNumber,
    Page,
    Picture,
    interval_cell,
    number_cell,
    render,
    table_of,
    text_cell,
    write,
)
from class_uncertainty.reporting.page_examples import PageExamples

VOID = {"meta", "img", "br", "link", "input", "hr"}
LOADING = {"link", "iframe", "object", "embed", "base", "form", "video", "audio", "use", "image"}
CHART = row_chart("errors", [Row(NASTY, 5.0, "5")], "error, %", "What is drawn")
TABLE = table_of(
    [
        {"Class": text_cell(NASTY, "0"), "Error, %": number_cell(12.34), "None": number_cell(None)},
        {"Class": text_cell("cat"), "Error, %": number_cell(None), "None": number_cell(None)},
    ]
)


def examples(number: int = 6, name: str = NASTY) -> PageExamples:
    labels = np.arange(number) % 2
    outcomes = Outcomes(labels, 1 - labels, np.full(number, 0.2), np.full(number, 0.8))
    return PageExamples((NASTY, "cat"), outcomes, lambda i: f"{name} {i}", lambda chosen: [], lambda i: None)


PAGE = Page(
    NASTY,
    "the data",
    f"Errors of {NASTY} fall",
    CHART,
    [KeyNumber("class mean", "15.8 → 13.2 %", NASTY)],
    [("Next:", "cu predict model NEW")],
    ["A <note>."],
    [Block("Classes", ["All of them."], table=TABLE, is_folded=False), Block("Folded", chart=CHART)],
    examples(),
)


class Parsed(HTMLParser):
    """Tags with attributes, which must close in order, and the text of cells and scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells, self.scripts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "td" or (tag == "th" and dict(attributes).get("scope") == "row"):
            self.cells.append("")
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += text
        if "tbody" in self.open and {"td", "th"} & set(self.open):
            self.cells[-1] += text


@pytest.fixture(scope="module")
def html():
    return render([PAGE, PAGE], Path())


def test_names_are_shown_and_never_run(html):
    parsed = Parsed(html)
    assert parsed.cells.count(NASTY) == 2
    assert "<script>alert" not in html
    assert not any("alert" in text for text in parsed.scripts if "addEventListener" in text)
    for text in parsed.scripts[1:]:
        assert json.loads(text)["classes"] == [NASTY, "cat"]


def test_the_page_loads_nothing(html):
    parsed = Parsed(html)
    addresses = [value for _, values in parsed.tags for key, value in values.items() if key in ("src", "href")]
    assert addresses == ["#page-0", "#page-1"]
    assert not {tag for tag, _ in parsed.tags} & LOADING
    (policy,) = [
        values["content"] for _, values in parsed.tags if values.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in policy
    code = parsed.scripts[0] + "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    assert not re.search(r"https?:|url\(|@import|fetch|XMLHttpRequest|import\(|WebSocket", code)


def test_the_answer_comes_first_and_details_are_folded(html):
    parts = [
        f'<p class="about">{PAGE.about}',
        '<p class="lead">',
        "<svg",
        "15.8",
        "cu predict",
        "<section>",
        "<details>",
    ]
    places = [html.index(part) for part in parts]
    assert places == sorted(places)
    assert html.count("<details>") == 3  # one a page, and the definitions
    assert html.partition('class="terms"')[2].count("<dt>") == len(GLOSSARY)


def test_numbers_stay_with_their_units_and_cells_sort_by_values(html):
    assert "15.8 → 13.2\N{NO-BREAK SPACE}%" in html
    sorts = [
        values.get("data-sort") for tag, values in Parsed(html).tags if tag == "td" or values.get("scope") == "row"
    ]
    assert sorts[:4] == [NASTY, "12.34", "cat", None]


def test_a_column_without_values_is_left_out():
    assert TABLE
    assert [*TABLE.columns] == ["Class", "Error, %"]
    assert table_of([]) is None


def test_of_many_rows_the_first_are_shown(tmp_path):
    rows = [{"Class": text_cell(f"class {c}", f"{c}")} for c in range(120)]
    html = render([Page("many", "", "", blocks=[Block("Classes", table=table_of(rows))])], tmp_path)
    first, rest = html.split("<tbody hidden>")
    assert (first.count("data-open"), rest.count("data-open=")) == (50, 70)


def test_cells_of_numbers():
    assert [number_cell(value, 1, "+").text for value in (-1.25, 0.0, 2.0, None, float("nan"))] == [
        "−1.2", "0.0", "+2.0", "–", "–",
    ]  # fmt: skip
    assert interval_cell(-3.0, 4.26, 1, "+").text == "−3.0 to +4.3"
    assert interval_cell(None, 1.0).order is None


def test_a_page_without_examples_chart_or_blocks_is_written(tmp_path):
    (file,) = write([Page("empty", "", "Nothing.")], tmp_path / "page.html")
    text = file.read_text()
    Parsed(text)
    assert "<dialog" not in text
    assert "nothing to report" in render([], tmp_path)


def test_pages_share_the_room_below_five_megabytes(tmp_path):
    many = examples(40_000, "x" * 300)
    pictures = [Picture("data:image/png;base64," + "A" * 700_000, ["name"])] * 2
    pages = [Page(f"{i}", "", "", blocks=[Block("Labels", pictures=pictures)], examples=many) for i in range(5)]
    (file,) = write(pages, tmp_path / "page.html")
    assert file.stat().st_size < 5_000_000
    counts = [len(json.loads(text)["examples"]) for text in Parsed(file.read_text()).scripts[1:]]
    assert min(counts) == max(counts) > 0


def test_charts_are_files_with_marks(tmp_path):
    page, *charts = write([PAGE], tmp_path / "page.html", tmp_path / "charts", "made from x (0123456789)")
    assert [file.suffix for file in charts] == [".svg"]  # both blocks draw the same one
    assert all("made from x" in file.read_text() for file in (page, *charts))
    charts[0].write_text("mine")
    with pytest.raises(InputError, match="did not write it"):
        write([PAGE], tmp_path / "page.html", tmp_path / "charts", "made from x (0123456789)")


def test_a_name_that_is_not_unicode_is_drawn(tmp_path):
    odd = "fixed\udcff"
    chart = row_chart("errors", [Row(odd, 5.0, "5")], "error, %", "")
    write([Page(odd, odd, odd, chart)], tmp_path / "page.html", tmp_path)
    assert "fixed?" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_full_disk_is_a_machine_fault_and_keeps_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineFault, match="No space left on device"):
        write([PAGE], path)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "old"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match="pip install jinja2"):
        render([PAGE], Path())


def test_importing_the_page_imports_no_template_engine():
    code = "import sys; from class_uncertainty.reporting import page; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert page_module.__name__ in loaded
    assert not {"jinja2", "PIL"} & set(loaded)
