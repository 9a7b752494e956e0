"""Pages in a browser: `make test-page`. Accessible in light and dark, on a phone and on a desk, and what clicks do."""

import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from class_uncertainty.reporting.report_examples import report_examples
from reporting.examples import FULL, class_row_examples, fix_report, fix_section
from scipy.special import softmax

import class_uncertainty as cu
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.fix_report import JudgedPredictions
from class_uncertainty.reporting import audit_page, html_page
from class_uncertainty.reporting.section import Section

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from browser import run_in

pytestmark = pytest.mark.page
SIZES = {"phone": (390, 844), "desk": (1280, 900)}
AXE = """
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => answer(violations
  .filter(({impact}) => impact === "serious" || impact === "critical")
  .map(({id, nodes}) => `${id}: ${nodes.map(({html, failureSummary: why}) => html + why).join(" ").slice(0, 600)}`)));
"""
OPENED = "document.getElementById('shown').open"
CARDS = "[...document.querySelectorAll('#shown-examples li')].map((card) => card.textContent)"


def axe() -> str:
    """axe-core, as the package for Playwright has it; AXE may name a newer file."""
    if file := os.environ.get("AXE"):
        return Path(file).read_text()
    found = importlib.util.find_spec("axe_playwright_python")
    assert found, "axe-playwright-python is not installed: run make test-page"
    assert found.origin
    return next(Path(found.origin).parent.rglob("axe.min.js")).read_text()


def audited(seed: int, sharpness: float, classes: int = 12) -> cu.Audit:
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), 60))
    counts = np.geomspace(900, 9, classes).astype(int)
    p = softmax(
        2 * rng.normal(size=(len(labels), classes)) + sharpness * np.eye(classes)[labels] + np.log(counts), axis=1
    )
    images = rng.integers(0, 256, (len(labels), 8, 8, 3), dtype=np.uint8)
    names = [f"<i>{i}</i>.png" for i in range(len(labels))]
    return cu.audit(labels, p, [f"class <{c}>" for c in range(classes)], names, images, counts)


def reported() -> Section:
    """A fix with the predictions that it was judged on; their class names are the report's."""
    rng, report = np.random.default_rng(0), fix_report(12)
    labels = np.repeat(np.arange(12), 20)
    p = softmax(2 * rng.normal(size=(240, 12)) + 3 * np.eye(12)[labels] + np.log(report.counts) / 2, axis=1)
    images = rng.integers(0, 256, (240, 1, 8, 8), dtype=np.uint8)
    test = cu.Data(images, labels, report.classes, names=[f"<i>{i}</i>.png" for i in range(240)])
    report = replace(report, predictions=JudgedPredictions.of(Outcomes.of(p, labels)))
    examples = report_examples(cu.Dataset("x & y", test, test), [], report)
    return replace(fix_section(report), classes=class_row_examples(12), examples=examples)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    now, gate = audited(1, 5.0), audit_page.Gate(("ece > 1", "error < 0"), ("ece > 1: ece is 7.",))
    audit_page.write(now, folder / "audit.html", now.against(audited(2, 3.0)), gate)
    html_page.write([FULL, reported(), reported()], folder / "report.html")
    cu.write_page(audited(3, 5.0, 120), folder / "many.html")
    return {name: folder / f"{name}.html" for name in ("audit", "report", "many")}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["audit", "report"])
def test_axe_finds_nothing_serious(pages, name, dark, size):
    assert run_in(pages[name], f"{axe()}\n{AXE}", size=SIZES[size], dark=dark, wait=True) == []


def test_axe_would_find_something(pages):
    spoilt = "document.querySelector('.lead').style.color = '#eee';"
    assert "color-contrast" in str(run_in(pages["audit"], f"{axe()}\n{spoilt}{AXE}", wait=True))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["audit", "report"])
def test_the_dialog_is_accessible_too(pages, name, dark):
    opened = "document.querySelector('tbody .open').click();"
    assert run_in(pages[name], f"{axe()}\n{opened}{AXE}", size=SIZES["phone"], dark=dark, wait=True) == []


@pytest.mark.parametrize("name", ["audit", "report", "many"])
def test_a_phone_does_not_scroll_sideways(pages, name):
    wide = run_in(pages[name], "answer(document.documentElement.scrollWidth)", size=SIZES["phone"])
    assert wide <= max(SIZES["phone"][0], 500)  # Chromium's narrowest window may be 500 pixels


@pytest.mark.parametrize("name", ["audit", "report", "many"])
def test_tables_fit_a_desk(pages, name):
    wide = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth)"
    assert run_in(pages[name], f"answer({wide}.map((box) => box.ariaLabel))", size=SIZES["desk"]) == []


@pytest.mark.parametrize("size", SIZES)
def test_charts_are_drawn_readable_and_whole_without_scrolling(pages, size):
    """All charts are drawn in the end; no text of theirs is scaled down or reaches beyond the drawing."""
    script = """const whenDrawn = () => {
        if (document.querySelector(".still")) return setTimeout(whenDrawn, 100);
        const texts = [...document.querySelectorAll("figure.chart svg")].flatMap((svg) => {
            const inside = svg.getBoundingClientRect(), scale = inside.width / svg.width.baseVal.value;
            return [...svg.querySelectorAll("text")].filter((text) => text.textContent).map((text) => {
                const box = text.getBoundingClientRect();
                const beyond = Math.max(inside.left - box.left, box.right - inside.right, inside.top - box.top,
                    box.bottom - inside.bottom);
                return [text.textContent, scale * parseFloat(getComputedStyle(text).fontSize), beyond];
            });
        });
        answer(texts);
    };
    whenDrawn();"""
    texts = run_in(pages["report"], script, size=SIZES[size], wait=True)
    assert len(texts) > 100
    assert [text for text in texts if text[1] < 10.5 or text[2] > 1] == []


@pytest.mark.parametrize("name", ["audit", "report"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_tile_stands_alone(pages, name, width):
    """The last row of tiles has two at least, or one that fills it."""
    script = """answer([...document.querySelectorAll(".shift")].map((tiles) => {
        const last = [...tiles.children].at(-1).getBoundingClientRect(), all = tiles.getBoundingClientRect();
        const row = [...tiles.children].filter((tile) => tile.getBoundingClientRect().top === last.top);
        return row.length > 1 || last.width > all.width - 1;
    }))"""
    assert all(run_in(pages[name], script, size=(width, 900)))


def test_dark_is_dark(pages):
    colour = "answer(getComputedStyle(document.body).backgroundColor)"
    assert run_in(pages["audit"], colour, dark=True) != run_in(pages["audit"], colour)


@pytest.mark.parametrize("name", ["audit", "report"])
def test_a_class_opens_its_examples(pages, name):
    pictures = "document.querySelectorAll('#shown img').length"
    script = f"document.querySelector('tbody .open').click(); answer([{OPENED}, {CARDS}, {pictures}])"
    is_open, cards, images = run_in(pages[name], script)
    assert is_open
    assert 0 < images <= len(cards)
    assert "<i>" in cards[0]  # a name is text, never markup
    assert all("labelled " in card for card in cards)


@pytest.mark.parametrize("name", ["audit", "report"])
def test_the_keyboard_goes_into_the_dialog_and_back(pages, name):
    """Enter, Space and Escape are the browser's, as what opens is a button and what it opens is a modal dialog."""
    script = "const first = document.querySelector('tbody .open'); first.focus(); first.click();"
    script += (
        "const inside = document.querySelector('dialog:modal :focus')?.textContent; document.activeElement.click();"
    )
    script += f"answer([first.tagName, inside, {OPENED}, document.activeElement === first])"
    assert run_in(pages[name], script) == ["BUTTON", "Close", False, True]


def test_each_section_of_a_report_opens_examples_of_its_data(pages):
    script = "const found = [...document.querySelectorAll('section')].map((section) => {"
    script += "const button = section.querySelector('tbody .open'); button?.click();"
    script += f"const shown = [button !== null, {CARDS}.length > 0];"
    script += "document.getElementById('shown').close(); document.getElementById('shown-examples').replaceChildren();"
    assert run_in(pages["report"], f"{script} return shown; }}); answer(found)") == [
        [False, False],  # its data could not be read again
        [True, True],
        [True, True],
    ]


@pytest.mark.parametrize("name", ["audit", "report"])
def test_a_confusion_opens_examples_of_it_alone(pages, name):
    script = "const first = document.querySelector('[data-open*=\\'-\\']'); first.click();"
    script += f"answer([first.closest('tr').cells[1].textContent, first.textContent, {CARDS}])"
    guess, label, cards = run_in(pages[name], script)
    assert cards
    assert all(f"labelled {label}" in card and f"predicted {guess}" in card for card in cards)


def test_search_finds_hidden_rows_and_all_can_be_shown(pages):
    table = "const box = document.querySelector('[aria-label=\\'Search All classes\\']');"
    table += "const body = box.closest('.tools').nextElementSibling.querySelector('tbody');"
    search = (
        "const at = (text) => { box.value = text; box.dispatchEvent(new Event('input')); return body.rows.length; };"
    )
    all_rows = (
        "[...box.closest('.tools').querySelectorAll('button')].find((b) => b.textContent === 'Show all').click();"
    )
    script = f"{table}{search} const first = body.rows.length; const some = at('<1'), one = at('<119>'); at('');"
    assert run_in(pages["many"], f"{script}{all_rows} answer([first, some, one, body.rows.length])") == [50, 31, 1, 120]


def test_tables_download_as_csv_and_json(pages):
    catch = "const texts = []; URL.createObjectURL = (blob) => { texts.push(blob); return '#'; };"
    click = (
        "for (const kind of ['CSV', 'JSON']) document.querySelector(`[aria-label='All classes as ${kind}']`).click();"
    )
    script = f"{catch}{click} Promise.all(texts.map((blob) => blob.text())).then(answer);"
    as_csv, as_json = run_in(pages["many"], script, wait=True)
    lines, rows = as_csv.splitlines(), json.loads(as_json)
    assert len(lines) == 121
    assert len(rows) == 120
    assert lines[0].startswith("Class,Training examples,Examples")
    assert isinstance(rows[0]["Error, %"], float)
    assert rows[0]["Training examples"] == int(lines[1].split(",")[1])


def test_a_csv_holds_no_formula_and_a_dialog_says_what_it_leaves_out(tmp_path):
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], 200)
    p = rng.dirichlet([1, 1], 400)
    page = cu.write_page(cu.audit(labels, p, ["=1+1", "@sum"], counts=[90, 10]), tmp_path / "page.html")
    catch = "const texts = []; URL.createObjectURL = (blob) => { texts.push(blob); return '#'; };"
    click = "document.querySelector(`[aria-label='All classes as CSV']`).click();"
    click += "document.querySelector('tbody .open').click();"
    titles = "[...document.querySelectorAll('#shown-examples h3')].map((title) => title.textContent)"
    script = f"{catch}{click} texts[0].text().then((text) => answer([text, {titles}]));"
    as_csv, headings = run_in(page, script, wait=True)
    assert sorted(line[:6] for line in as_csv.splitlines()[1:]) == ["'=1+1,", "'@sum,"]
    assert ": 24 of " in headings[0]


def test_headings_sort(pages):
    table = "const table = document.querySelector('[aria-label=\\'All classes\\'] table');"
    click = "table.tHead.rows[0].cells[1].querySelector('button').click();"
    counts = "[...table.tBodies[0].rows].map((row) => Number(row.cells[1].textContent.replace(',', '')))"
    shown, order = run_in(pages["many"], f"{table}{click} answer([{counts}, table.tHead.rows[0].cells[1].ariaSort])")
    assert shown == sorted(shown, reverse=True)
    assert order == "descending"
    assert shown[0] == 900
