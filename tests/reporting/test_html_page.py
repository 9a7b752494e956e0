"""The page: safe, complete, self-contained, and claiming no more than the numbers say."""

import base64
import errno
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from reporting.examples import BETTER, EQUAL, FULL, GALLERY, HUNDRED, LOST, NAIVE, TEN_CLASSES, class_row_examples

from class_uncertainty import InputError, MachineFault
from class_uncertainty.posthoc.label_issues import THUMBNAIL
from class_uncertainty.reporting import html_page
from class_uncertainty.reporting.chart_images import draw
from class_uncertainty.reporting.chart_style import DARK, LIGHT
from class_uncertainty.reporting.charts import charts
from class_uncertainty.reporting.page_columns import CLASS_COLUMNS
from class_uncertainty.reporting.page_text import method_lead
from class_uncertainty.reporting.section import Section

VOID = {"meta", "img", "br", "link", "input", "hr"}
LOADING = {"link", "iframe", "object", "embed", "base", "form", "video", "audio", "use", "image"}


class Page(HTMLParser):
    """Tags with attributes, scripts and styles with their text, tables as cells; tags must close in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.raw, self.tables, self.captions = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.raw.append([tag, dict(attributes), ""])
        if tag == "tbody" and "hidden" not in dict(attributes):  # what is hidden at first goes on with the table
            self.tables.append([])
        if tag == "tr" and "tbody" in self.open:
            self.tables[-1].append([])
        if tag in ("th", "td") and "tbody" in self.open:
            self.tables[-1][-1].append("")
        if tag == "figcaption":
            self.captions.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] in ("script", "style"):
            self.raw[-1][2] += text
        if "tbody" in self.open and {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += text
        if "figcaption" in self.open:
            self.captions[-1] += text

    def scripts(self, kind):
        return [text for tag, attributes, text in self.raw if tag == "script" and attributes.get("type", "") == kind]


@pytest.fixture(scope="module")
def html():
    return html_page.render([FULL, HUNDRED])[0]


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def strict_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_class_names_are_shown_and_never_run(html, page):
    for table, section in zip((page.tables[0], page.tables[2]), (FULL, HUNDRED), strict=True):
        assert {row[0] for row in table} == {row.name for row in section.classes}
    assert 'alert("x")' not in html  # as text it is escaped, inside JSON too
    library, ours = page.scripts("")
    assert "vegaEmbed" in library
    assert "alert" not in ours


def test_page_loads_nothing(page):
    attributes = [pair for _, attributes in page.tags for pair in attributes.items()]
    addresses = [value for key, value in attributes if key.split(":")[-1] in ("src", "href")]
    assert len(addresses) == 7  # four images, three links within the page
    within = ("data:image/png;base64,", "data:image/jpeg;base64,", "#data-", "#glossary")
    assert all(value.startswith(within) for value in addresses)
    assert not {tag for tag, _ in page.tags} & LOADING
    ours = page.scripts("")[1] + "".join(text for tag, _, text in page.raw if tag == "style")
    assert not re.search(r"https?:|url\(|@import|fetch|XMLHttpRequest|import\(|WebSocket", ours)
    (policy,) = [values["content"] for _, values in page.tags if values.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy


def test_the_library_is_included_once_and_only_if_needed(html):
    assert html.count("window.vegaEmbed=") == 1
    assert "window.vegaEmbed=" not in html_page.render([Section("nothing", (), (), 0)])[0]


def test_every_chart_compiles_alone_and_has_no_colour_of_its_own(page):
    theme, specs = None, []
    for text in page.scripts("application/json"):
        document = strict_json(text)
        specs.append(document) if "$schema" in document else (theme := document)
    assert len(specs) == 8
    images = draw([("svg", spec | {"config": theme}) for spec in specs])
    for spec, drawn in zip(specs, map(bytes.decode, images), strict=True):
        assert drawn.startswith("<svg")
        assert "var(--c1)" in drawn
        assert not re.search(r"#[0-9a-f]{6}", json.dumps(spec))  # or it would stay light in the dark


def test_still_charts_are_there_without_script(page):
    assert sum(attributes.get("class") == "still" for _, attributes in page.tags) == 8
    assert sum(tag == "svg" for tag, _ in page.tags) == 8


def test_page_has_both_palettes(page):
    style = next(text for tag, _, text in page.raw if tag == "style")
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")
    assert all(f"--{name}: {colour};" in light for name, colour in LIGHT.items())
    assert all(f"--{name}: {colour};" in dark for name, colour in DARK.items())


def test_runs_that_diverged_have_a_column_only_if_there_are_any(blank_charts):
    blank_charts()
    html, _, _ = html_page.render([replace(FULL, methods=FULL.methods[:3])])
    assert "Runs</th>" in html
    assert "Diverged</th>" not in html
    assert "Diverged</th>" in html_page.render([FULL])[0]


def test_naive_runs_that_are_left_out_are_counted(blank_charts):
    blank_charts()
    said = "Runs of naive not shown, since no other method has their seeds: 3."
    assert [said in html_page.render([replace(FULL, naive_left_out=number)])[0] for number in (0, 3)] == [False, True]


def test_numbers_stay_on_one_line_with_their_unit_and_deviation(page):
    text = " ".join([*page.captions, *method_lead(FULL.methods), *(cell for row in page.tables[1] for cell in row)])
    assert re.search("\\d\N{NO-BREAK SPACE}%", text)
    assert re.search("\\d\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}\\d", text)
    assert not re.search(r"\d [%±]|± \d", text)


def test_class_table_starts_with_the_most_uncertain(page):
    assert [float(row[9]) for row in page.tables[0]] == list(range(1, 11))
    hardest = max(FULL.classes, key=lambda row: row.uncertainty)
    assert page.tables[0][0][0] == hardest.name
    assert page.tables[0][0][4] == f"{100 * hardest.uncertainty:.2f}"
    assert next(row for row in page.tables[0] if row[0] == "class 1")[6] == "–"  # no share of no uncertainty


def test_method_table_keeps_the_order_and_says_what_is_missing(page):
    rows = {row[0]: [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in page.tables[1]}
    assert list(rows) == ["naive", "cb-rs", "ubrs", "dro"]
    assert rows["naive"][1:3] == ["10.00 ± 0.50", "–"]
    assert rows["cb-rs"][1:6] == ["10.06 ± 0.50", "−0.06", "10.06", "10.06", "–"]
    assert rows["ubrs"][2] == "+2.00"
    assert rows["ubrs"][12] == "0.25 vs cb-rs1"  # 1: the footnote
    assert rows["dro"] == ["dro", *["–"] * 10, "1", "–", "0", "5"]
    assert {row[1] for row in page.tables[3]} == {"0.1", "0.01"}  # learning rates, where there are several


def test_cells_carry_what_they_sort_by(page):
    cells = [attributes["data-sort"] for tag, attributes in page.tags if "data-sort" in attributes]
    first = cells[: len(CLASS_COLUMNS)]
    hardest = max(FULL.classes, key=lambda row: row.uncertainty)
    assert (first[0], float(first[4]), float(first[10])) == (hardest.name, hardest.uncertainty, hardest.disagreement)
    lost = cells[cells.index("dro") :][:15]
    assert lost == ["dro", *[""] * 10, "1.0", "", "0", "5"]


def test_footnotes_and_note(html):
    assert html.count("the method is better; 1 test at confidence 0.95") == 1  # FULL has a test, HUNDRED none
    assert "<li>2 scores a side are few</li>" in html
    assert "A &lt;note&gt;." in html


def test_a_fix_comes_before_what_else_is_stored(blank_charts):
    blank_charts()
    goal = "Goal of the fix: mean (class-mean error)."
    parts = [goal, "Before the fix:", "Before and after</h3>", "What else is stored", "The most uncertain classes"]
    html = html_page.render([replace(FULL, fix_report=TEN_CLASSES)])[0]
    places = [html.index(part) for part in parts]
    assert places == sorted(places)
    assert "What else is stored" not in html_page.render([FULL])[0]


def test_the_gallery_shows_the_training_images(page):
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    decoded = [Image.open(io.BytesIO(base64.b64decode(image["src"].split(",")[1]))) for image in images]
    first, second, third, large = (image.pixels for image in (*GALLERY.most, *GALLERY.least))
    assert np.array_equal(decoded[0], first[0])
    assert np.array_equal(decoded[1], second.transpose(1, 2, 0))
    assert np.array_equal(decoded[2], third[0])
    assert decoded[3].size == (THUMBNAIL, THUMBNAIL * large.shape[1] // large.shape[2])
    assert [image.get("class") for image in images] == ["tiny", "tiny", "tiny", None]
    wrong, right = [caption for caption in page.captions if "nats" in caption][:2]
    assert "guessed class 1" in wrong
    assert "guessed" not in right


def test_charts_are_those_with_data(blank_charts):
    blank_charts()
    expected = [
        (FULL, ["profile", "measures", "errors", "comparison"]),
        (EQUAL, ["profile", "errors"]),
        (Section("unjudged", class_row_examples(10, judged=False), (), 5), ["profile", "measures"]),
        (Section("unmeasured", (), (NAIVE, BETTER), 0), ["comparison"]),
        (Section("one method", (), (NAIVE, LOST), 0), []),
        (Section("diverged", (), (LOST,), 0), []),
        (Section("nothing", (), (), 0, note="Nothing."), []),
    ]
    assert {section.name: list(charts(section)) for section, _ in expected} == {
        section.name: drawn for section, drawn in expected
    }
    text = html_page.render([section for section, _ in expected])[0]
    page = Page(text)
    assert sum(tag == "svg" for tag, _ in page.tags) == sum(len(drawn) for _, drawn in expected)
    assert all(section.name in text for section, _ in expected)
    assert text.count("<h3>Methods</h3>") == 2
    assert text.count("<h3>All methods</h3>") == 4  # also where no chart is


def test_a_large_chart_is_left_to_the_script(monkeypatch, blank_charts):
    blank_charts()
    monkeypatch.setattr(html_page, "STILL_BYTES", 1)
    text = html_page.render([FULL])[0]
    assert "<svg" not in text.split("<script>")[0]
    assert text.count("The script of this page draws the chart") == text.count('class="spec"') == 4


def test_figures_are_files_of_their_kind(tmp_path):
    _, *files = html_page.write([FULL], tmp_path / "report.html", tmp_path / "new")
    assert sorted(file.name for file in files) == sorted(file.name for file in (tmp_path / "new").iterdir())
    assert [file.name for file in files[:2]] == ["digits-lt-20-profile.svg", "digits-lt-20-profile.png"]
    for drawing, image in zip(files[::2], files[1::2], strict=True):
        size = re.search(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"', drawing.read_text()).groups()
        assert image.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert Image.open(io.BytesIO(image.read_bytes())).size == pytest.approx(
            [2 * float(length) for length in size], abs=2
        )


def test_a_name_that_is_not_unicode_is_drawn(tmp_path):
    fixed = replace(TEN_CLASSES, classes=("fixed\udcff", *TEN_CLASSES.classes[1:]))
    odd = tuple(replace(row, name=f"a\udcff{row.count}") for row in FULL.classes)
    html_page.write([replace(FULL, classes=odd, fix_report=fixed)], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a?500" in page
    assert "fixed?" in page


def test_full_disk_is_a_machine_fault_and_keeps_the_old_page(tmp_path, monkeypatch, blank_charts):
    blank_charts()
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineFault, match="No space left on device"):
        html_page.write([FULL], path, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_unwritable_path_is_a_machine_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(MachineFault, match="could not be written"):
        html_page.write([Section("nothing", (), (), 0)], tmp_path / "report.html")


@pytest.mark.parametrize(
    ("module", "package"),
    [("altair", "altair"), ("vl_convert", "vl-convert-python"), ("jinja2", "jinja2"), ("PIL", "pillow")],
)
def test_missing_package_is_named(module, package, monkeypatch, blank_charts):
    if module == "PIL":  # pictures come after the charts
        blank_charts()
    monkeypatch.setitem(sys.modules, module, None)
    undrawn = replace(GALLERY, most=tuple(map(replace, GALLERY.most)))
    with pytest.raises(InputError, match=f"pip install {package}'"):
        html_page.render([replace(FULL, galleries=(undrawn,))])


def test_importing_the_page_imports_none_of_them():
    code = "import sys; from class_uncertainty.reporting import html_page; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "class_uncertainty.reporting.charts" in loaded
    assert not {"altair", "vl_convert", "jinja2", "PIL"} & set(loaded)
