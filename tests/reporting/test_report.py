"""The charts and the page: safe, whole, loading nothing, and saying no more than the numbers do."""

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

from class_uncertainty import InputError, MachineFault
from class_uncertainty.reporting import figures, report
from class_uncertainty.reporting.drawing import draw
from class_uncertainty.reporting.tables import ClassRow, Gallery, MethodRow, Picture, Section, spearman

NASTY = '<script>alert("x")&\'</script> größe 犬'
VOID = {"meta", "img", "br", "link", "input", "hr"}


def classes(count, known=True):
    """Long-tailed, with one class out of place; the first has a name that must be escaped."""
    tail = np.geomspace(500, 5, count)
    hard = np.roll(1 / tail, 1)
    rank = count - np.arange(count)
    return tuple(
        ClassRow(
            name=NASTY if c == 0 else f"class {c}",
            count=int(tail[c]),
            cardinality=float((1 / tail / (1 / tail).sum())[c]),
            effective=float((1 / tail / (1 / tail).sum())[c]),
            uncertainty=float((hard / hard.sum())[c]),
            raw=float(hard[c]),
            epistemic_share=float("nan") if c == 1 else 0.25,
            rank_cardinality=float(rank[c]),
            rank_effective=float(rank[c]),
            rank_uncertainty=float(np.roll(rank, 1)[c]),
            error=float(c % 7) if known else None,
        )
        for c in range(count)
    )


def method(name, error, sd=0.5, lr=0.1, runs=5, **others):
    scores = dict.fromkeys(("top1", "many", "medium", "few", "worst", "spread", "nll", "ece"), error)
    blank = {"diverged": 0, "gain": None, "counterpart": "", "aso": None, "aso_warning": None}
    return MethodRow(**({"method": name, "lr": lr, "runs": runs, "error": error, "error_sd": sd} | scores | blank | others))


NAIVE = method("naive", 10.0)
BETTER = method("ubrs", 8.0, gain=2.0, counterpart="cb-rs", aso=0.25, aso_warning="2 scores a side are few")
WORSE = method("cb-rs", 10.056, gain=-0.056, medium=None)
LOST = method("dro", None, None, runs=0, diverged=5)


def picture(shape, guess="class 1"):
    return Picture(NASTY, guess, 0.5, np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


GALLERIES = (Gallery(NASTY, (picture((1, 8, 8)), picture((3, 32, 32), NASTY)), (picture((2, 8, 8)), picture((3, 300, 400)))),)
FULL = Section("digits-lt:20", classes(10), (NAIVE, WORSE, BETTER, LOST), 5, GALLERIES, "A <note>.")
HUNDRED = Section("cifar100 & more", classes(100), (NAIVE, replace(NAIVE, lr=0.01), BETTER, replace(BETTER, lr=0.01)), 5)


class Page(HTMLParser):
    """Tags with their attributes, scripts and styles with their text, tables as cells; the tags must close in order."""

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
        if tag == "tbody":
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
        if {"tbody"} & set(self.open) and self.tables[-1] and self.tables[-1][-1] and {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += text
        if "figcaption" in self.open:
            self.captions[-1] += text

    def scripts(self, kind):
        return [text for tag, attributes, text in self.raw if tag == "script" and attributes.get("type", "") == kind]


@pytest.fixture(scope="module")
def html():
    return report.render([FULL, HUNDRED])


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def strict_json(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_class_names_are_shown_and_never_run(html, page):
    for table, section in zip((page.tables[0], page.tables[2]), (FULL, HUNDRED), strict=True):
        assert {row[0] for row in table} == {row.name for row in section.classes}
    assert 'alert("x")' not in html  # as text it is escaped, inside JSON too
    library, own = page.scripts("")
    assert "vegaEmbed" in library
    assert "alert" not in own


def test_page_loads_nothing(page):
    addresses = [value for _, attributes in page.tags for key, value in attributes.items() if key.split(":")[-1] in ("src", "href")]
    assert len(addresses) == 6  # four pictures, two links within the page
    assert all(value.startswith(("data:image/png;base64,", "#data-")) for value in addresses)
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "object", "embed", "base", "form", "video", "audio", "use", "image"}
    own = page.scripts("")[1] + "".join(text for tag, _, text in page.raw if tag == "style")
    assert not re.search(r"https?:|url\(|@import|fetch|XMLHttpRequest|import\(|WebSocket", own)
    policy = next(attributes["content"] for _, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy


def test_library_is_there_once_and_only_if_needed(html):
    assert html.count("window.vegaEmbed=") == 1
    assert "window.vegaEmbed=" not in report.render([Section("nothing", (), (), 0)])


def test_every_chart_compiles_alone_and_has_no_colour_of_its_own(page):
    theme, specs = None, []
    for text in page.scripts("application/json"):
        document = strict_json(text)
        specs.append(document) if "$schema" in document else (theme := document)
    assert len(specs) == 6
    pictures = draw([("svg", spec | {"config": theme}) for spec in specs])
    for spec, drawn in zip(specs, map(bytes.decode, pictures), strict=True):
        assert drawn.startswith("<svg")
        assert "var(--c1)" in drawn
        assert not re.search(r"#[0-9a-f]{6}", json.dumps(spec))  # or it would stay light in the dark


def test_still_charts_are_there_without_script(page):
    assert sum(attributes.get("class") == "still" for _, attributes in page.tags) == 6
    assert sum(tag == "svg" for tag, _ in page.tags) == 6


def luminance(colour):
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("palette", [figures.LIGHT, figures.DARK], ids=["light", "dark"])
def test_colours_can_be_read(palette):
    """WCAG AA: 4.5 to 1 for all that is written."""
    for behind in ("surface", "soft"):
        for colour in palette.keys() - {"surface", "soft", "line"}:
            high, low = sorted((luminance(palette[colour]), luminance(palette[behind])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (colour, behind)


def test_page_has_both_palettes(page):
    style = next(text for tag, _, text in page.raw if tag == "style")
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")
    assert all(f"--{name}: {colour};" in light for name, colour in figures.LIGHT.items())
    assert all(f"--{name}: {colour};" in dark for name, colour in figures.DARK.items())


def test_class_table_starts_with_the_most_uncertain(page):
    assert [float(row[9]) for row in page.tables[0]] == list(range(1, 11))
    hardest = max(FULL.classes, key=lambda row: row.uncertainty)
    assert page.tables[0][0][0] == hardest.name
    assert page.tables[0][0][4] == f"{100 * hardest.uncertainty:.2f}"
    assert next(row for row in page.tables[0] if row[0] == "class 1")[6] == "–"  # no share of no uncertainty


def test_method_table_keeps_the_order_and_says_what_is_missing(page):
    rows = {row[0]: row for row in page.tables[1]}
    assert list(rows) == ["naive", "cb-rs", "ubrs", "dro"]
    assert rows["naive"][1:3] == ["10.00 ± 0.50", "–"]
    assert rows["cb-rs"][1:6] == ["10.06 ± 0.50", "−0.06", "10.06", "10.06", "–"]
    assert rows["ubrs"][2] == "+2.00"
    assert rows["ubrs"][12] == "0.25 vs cb-rs1"  # 1: the footnote
    assert rows["dro"] == ["dro", *["–"] * 10, "1", "–", "0", "5"]
    assert {row[1] for row in page.tables[3]} == {"0.1", "0.01"}  # learning rates, where there are several


def test_cells_carry_what_they_sort_by(page):
    cells = [attributes["data-sort"] for tag, attributes in page.tags if "data-sort" in attributes]
    first = cells[: len(report.CLASS_COLUMNS)]
    hardest = max(FULL.classes, key=lambda row: row.uncertainty)
    assert (first[0], float(first[4]), float(first[10])) == (hardest.name, hardest.uncertainty, hardest.disagreement)
    lost = cells[cells.index("dro") :][:15]
    assert lost == ["dro", *[""] * 10, "1.0", "", "0", "5"]


def test_footnotes_and_note(html):
    assert "<li>2 scores a side are few</li>" in html
    assert "A &lt;note&gt;." in html


@pytest.mark.parametrize(
    ("methods", "said", "unsaid"),
    [
        ((NAIVE, BETTER, LOST), "<b>ubrs</b> has the lowest mean error: 8.00 ± 0.50 % over 5 runs, 2.00 points below naive’s 10.00", "few"),
        ((NAIVE, BETTER, LOST), "5 runs diverged and are left out", "5 runs are few"),
        ((NAIVE, BETTER), "ranges do not overlap", "diverged"),
        ((NAIVE, method("cb", 9.5)), "ranges overlap", "do not overlap"),
        ((NAIVE, method("cb", 9.5, None, runs=1)), "1 run is few", "overlap"),
        ((NAIVE, WORSE), "No method here has a lower mean error than <b>naive</b>: 10.00", "points"),
        ((method("cb", 10.0), NAIVE), "No method here has a lower mean error than <b>naive</b>", "<b>cb</b>"),
        ((NAIVE,), "<b>naive</b> has a mean error of 10.00 ± 0.50 % over 5 runs.", "lowest"),
        ((BETTER, method("cb", 9.0)), "naive has no result at that learning rate", "below"),
        ((replace(NAIVE, lr=1.0), NAIVE, replace(BETTER, lr=1.0)), "Of 3 pairs of method and learning rate, <b>ubrs</b> at", "few"),
        ((LOST,), "No run of any method finished", "lowest"),
    ],
)  # fmt: skip
def test_sentence_about_methods(methods, said, unsaid):
    (text,) = report._method_lead(methods)
    assert said in str(text).replace("\N{NO-BREAK SPACE}", " ")
    assert unsaid not in text
    assert "significan" not in text


def flat(**same):
    return tuple(replace(row, **same) for row in classes(10))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (classes(10), "&lt;/script&gt; größe 犬</b>: rank 10 of 10 by its 500 training examples, rank 1 by uncertainty, so it is harder"),
        (tuple(replace(row, rank_uncertainty=row.rank_cardinality) for row in classes(10)), "Cardinality ranks all classes just as"),
        (flat(count=7), "equally many training examples"),
        (flat(uncertainty=0.1), "All classes are equally uncertain."),
    ],
)  # fmt: skip
def test_sentence_about_classes(rows, said):
    (text,) = report._class_lead(replace(FULL, classes=rows))
    assert said in text


def test_sentence_about_classes_that_disagree_alike():
    """Harder and easier alike: pairs of neighbours in rank that changed places."""
    rows = [
        replace(row, name=f"n{row.rank_cardinality:g}", rank_uncertainty=(row.rank_cardinality - 1) // 2 * 4 + 3 - row.rank_cardinality)
        for row in classes(10)
    ]
    (text,) = report._class_lead(replace(FULL, classes=tuple(rows)))
    assert "disagree most about <b>n2</b>, <b>n1</b>, <b>n4</b> and 7 more, by 1 rank each." in text


def test_pictures_are_the_training_images(page):
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    decoded = [Image.open(io.BytesIO(base64.b64decode(image["src"].split(",")[1]))) for image in images]
    first, second, third, large = (p.pixels for p in (*GALLERIES[0].most, *GALLERIES[0].least))
    assert np.array_equal(decoded[0], first[0])
    assert np.array_equal(decoded[1], second.transpose(1, 2, 0))
    assert np.array_equal(decoded[2], third[0])
    assert decoded[3].size == (report.THUMBNAIL, report.THUMBNAIL * large.shape[1] // large.shape[2])
    assert [image.get("class") for image in images] == ["tiny", "tiny", "tiny", None]
    wrong, right = [caption for caption in page.captions if "nats" in caption][:2]
    assert "guessed class 1" in wrong
    assert "guessed" not in right


@pytest.mark.parametrize(
    ("section", "drawn"),
    [
        (FULL, ["measures", "errors", "comparison"]),
        (Section("unjudged", classes(10, known=False), (), 5), ["measures"]),
        (Section("unmeasured", (), (NAIVE,), 0), ["comparison"]),
        (Section("diverged", (), (LOST,), 0), []),
        (Section("nothing", (), (), 0, note="Nothing."), []),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_charts_are_those_with_data(section, drawn):
    assert list(figures.charts(section)) == drawn
    text = report.render([section])
    Page(text)
    assert section.name in text


def test_errors_are_titled_with_rho():
    titles = [panel["title"] for panel in figures.charts(FULL)["errors"].to_dict()["concat"]]
    assert [title["text"] for title in titles] == list(figures.MEASURES.values())
    found = [float(title["subtitle"].removeprefix("Spearman’s rho ").replace("−", "-")) for title in titles]
    assert found == pytest.approx([spearman(FULL.classes, measure) for measure in figures.MEASURES], abs=0.005)
    assert any(rho < 0 for rho in found)
    alike = figures.charts(replace(FULL, classes=flat(error=1.0)))["errors"].to_dict()
    assert {panel["title"]["subtitle"] for panel in alike["concat"]} == {"rho not defined"}


def test_hundred_classes_are_all_drawn_and_few_are_named():
    spec = figures.charts(HUNDRED)["measures"].to_dict()
    dots = next(layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == "point")
    assert {value["name"] for value in dots} == {row.name for row in HUNDRED.classes}
    names = [value for layer in spec["layer"] if layer["mark"]["type"] == "text" for value in layer["data"]["values"]]
    assert 0 < len(names) <= figures.NAMED
    assert all(len(value["label"]) <= figures.LABEL for value in names)


def test_names_keep_clear_of_dots_and_of_each_other():
    rows = HUNDRED.classes[1:16]
    column = [(0.5, i / 15) for i in range(15)]
    assert [name["name"] for name in figures._names(rows, column, range(15))] == [row.name for row in rows[: figures.NAMED]]
    assert figures._names(rows, [(0.5, 0.5)] * 15, range(15)) == []
    near = [(0.5, 0.5), (0.5, 0.55), (0.5, 0.9)]  # the second dot is free, its name would touch the first's
    assert [name["name"] for name in figures._names(rows[:3], near, range(3))] == [rows[0].name, rows[2].name]


def test_comparison_keeps_the_order_and_tells_learning_rates_apart():
    spec = figures.charts(replace(HUNDRED, methods=(*HUNDRED.methods, LOST)))["comparison"].to_dict()
    dots = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    assert dots["encoding"]["y"]["scale"]["domain"] == ["naive", "ubrs", "dro"]
    assert {"color", "shape", "yOffset"} <= dots["encoding"].keys()
    assert len([layer for layer in spec["layer"] if layer["mark"].get("text") == "no run finished"]) == 1
    first = dots["data"]["values"][0]
    assert (first["low"], first["error"], first["high"]) == (9.5, 10.0, 10.5)
    alone = figures.charts(FULL)["comparison"].to_dict()["layer"]
    assert all("color" not in layer["encoding"] for layer in alone)


def test_figures_are_files_of_their_kind(tmp_path):
    _, *charts = report.write([FULL], tmp_path / "report.html", tmp_path / "new")
    assert sorted(file.name for file in charts) == sorted(file.name for file in (tmp_path / "new").iterdir())
    assert [file.name for file in charts[:2]] == ["digits-lt-20-measures.svg", "digits-lt-20-measures.png"]
    for drawing, image in zip(charts[::2], charts[1::2], strict=True):
        width, height = (float(n) for n in re.search(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"', drawing.read_text()).groups())
        assert image.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert Image.open(io.BytesIO(image.read_bytes())).size == pytest.approx((2 * width, 2 * height), abs=2)


@pytest.mark.parametrize(
    ("name", "file"), [("", "comparison.svg"), ("../../etc", "etc-comparison.svg"), ("犬" * 200, "犬" * 33 + "-7de621-comparison.svg")]
)
def test_figures_stay_in_their_folder(tmp_path, name, file):
    assert next(iter(figures.files(Section(name, (), (NAIVE,), 0), {"comparison": {}}, tmp_path))) == tmp_path / file


def test_a_name_that_is_not_unicode_is_drawn(tmp_path):
    odd = replace(FULL, classes=tuple(replace(row, name=f"a\udcff{row.count}") for row in FULL.classes))
    report.write([odd], tmp_path / "report.html")
    assert "a?500" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_full_disk_is_a_machine_fault_and_keeps_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineFault, match="No space left on device"):
        report.write([FULL], path, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_unwritable_path_is_a_machine_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(MachineFault, match="could not be written"):
        report.write([Section("nothing", (), (), 0)], tmp_path / "report.html")


@pytest.mark.parametrize(
    ("module", "package"), [("altair", "altair"), ("vl_convert", "vl-convert-python"), ("jinja2", "jinja2"), ("PIL", "pillow")]
)
def test_missing_package_is_named(module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=f"pip install {package}'"):
        report.render([FULL])


def test_import_needs_none_of_them():
    code = "import sys; from class_uncertainty.reporting import report; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "class_uncertainty.reporting.figures" in loaded
    assert not {"altair", "vl_convert", "jinja2", "PIL"} & set(loaded)
