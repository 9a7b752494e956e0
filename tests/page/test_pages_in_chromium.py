"""Pages in a browser: `make test-page`. Accessible in light and dark, on a phone and on a desk, and what clicks do."""

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reporting.examples import fix_report
from scipy.special import softmax

import class_uncertainty as cu
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.fix_report import JudgedPredictions
from class_uncertainty.reporting import audit_page
from class_uncertainty.reporting.fix_page import fix_page
from class_uncertainty.reporting.fix_view import view_fix
from class_uncertainty.reporting.page import Page, write
from class_uncertainty.reporting.page_examples import fix_examples

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


def reported() -> Page:
    """A fix with the predictions that it was judged on; their class names are the report's."""
    rng, report = np.random.default_rng(0), fix_report(12)
    labels = np.repeat(np.arange(12), 20)
    p = softmax(2 * rng.normal(size=(240, 12)) + 3 * np.eye(12)[labels] + np.log(report.counts) / 2, axis=1)
    images = rng.integers(0, 256, (240, 1, 8, 8), dtype=np.uint8)
    test = cu.Data(images, labels, report.classes, names=[f"<i>{i}</i>.png" for i in range(240)])
    dataset = cu.Dataset("x & y", test, test)
    report = replace(report, predictions=JudgedPredictions.of(Outcomes.of(p, labels)))
    return fix_page(view_fix(report, dataset), fix_examples(report, dataset))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    now, gate = audited(1, 5.0), audit_page.Gate(("ece > 1", "error < 0"), ("ece > 1: ece is 7.",))
    audit_page.write(now, folder / "audit.html", now.against(audited(2, 3.0)), gate)
    write([fix_page(view_fix(fix_report(10))), reported(), reported()], folder / "report.html")
    write([reported()], folder / "fix.html")
    cu.write_page(audited(3, 5.0, 120), folder / "many.html")
    return {name: folder / f"{name}.html" for name in ("audit", "report", "fix", "many")}


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


def test_a_fix_fits_a_few_screens(pages):
    height = "answer(document.documentElement.scrollHeight)"
    assert run_in(pages["fix"], height, size=SIZES["desk"]) <= 3500


@pytest.mark.parametrize("size", SIZES)
def test_charts_are_readable_and_whole(pages, size):
    """No text of theirs is small or reaches beyond the page, and no mark beyond the drawing."""
    script = """answer([...document.querySelectorAll("svg.chart")].flatMap((svg) => {
        const inside = svg.getBoundingClientRect(), wide = document.documentElement.clientWidth;
        return [...svg.querySelectorAll("text, circle")].filter((mark) => mark.getClientRects().length).map((mark) => {
            const box = mark.getBoundingClientRect();
            const beyond = Math.max(-box.left, box.right - wide, inside.top - box.top, box.bottom - inside.bottom);
            return [mark.textContent, parseFloat(getComputedStyle(mark).fontSize), beyond];
        });
    }))"""
    marks = run_in(pages["report"], script, size=SIZES[size])
    assert len(marks) > 100
    assert [mark for mark in marks if mark[1] < 10.5 or mark[2] > 1] == []


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
    script = "const found = [...document.querySelectorAll('article')].map((section) => {"
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


def test_headings_sort(pages):
    table = "const table = document.querySelector('[aria-label=\\'Classes\\'] table');"
    click = "table.tHead.rows[0].cells[1].querySelector('button').click();"
    counts = "[...table.tBodies[0].rows].map((row) => Number(row.cells[1].textContent.replace(',', '')))"
    shown, order = run_in(pages["many"], f"{table}{click} answer([{counts}, table.tHead.rows[0].cells[1].ariaSort])")
    assert shown == sorted(shown, reverse=True)
    assert order == "descending"
    assert shown[0] == 900
