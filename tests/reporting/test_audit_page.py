"""The page of an audit: what it holds, what it escapes, and that a thousand classes fit."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from audits import CLASSES, COUNTS, audited, predictions
from PIL import Image

import class_uncertainty as cu
from class_uncertainty.reporting import audit_page
from class_uncertainty.reporting.page import Page, render
from class_uncertainty.reporting.page_examples import PICTURES, _link, audit_examples, page_data
from class_uncertainty.workflows import audit as audit_module


def data_of(html: str) -> dict:
    return json.loads(re.search(r'class="examples" data-page="0">(.*?)</script>', html, re.DOTALL)[1])


def rendered(audit: cu.Audit, *given) -> str:
    return render([audit_page.audit_page(audit, *given)], Path())


def headings(page: Page) -> list[str]:
    return [block.heading for block in page.blocks]


def table_of(page: Page, heading: str) -> list[dict[str, str]]:
    (block,) = (block for block in page.blocks if block.heading == heading)
    return [dict(zip(block.table.columns, (cell.text for cell in row), strict=True)) for row in block.table.rows]


def test_the_verdict_and_the_classes_come_first():
    audit = audited()
    page = audit_page.audit_page(audit)
    assert page.lead == audit.summary
    assert headings(page)[0] == "Classes"
    assert [block.is_folded for block in page.blocks].count(False) == 1
    rows = table_of(page, "Classes")
    assert [row["Class"] for row in rows] == [row.name for row in audit.worst_first]
    assert [row["Error, %"] for row in rows] == [f"{row.error:.1f}" for row in audit.worst_first]


def test_intervals_hold_for_all_classes_at_once():
    """Against the baseline, too: as the verdicts beside them, on the page and in a notebook."""
    now, before = audited(1), audited(0)
    changes = now.against(before)
    page = audit_page.audit_page(now, changes)
    for row, shown in zip(now.worst_first, table_of(page, "Classes"), strict=True):
        ends = f"{row.low_together:.0f} to {row.high_together:.0f}"
        assert shown["95 % interval"] == ends
        assert ends in now._repr_html_()
    for change, shown in zip(changes.classes, table_of(page, "Against the baseline"), strict=True):
        low, high = (float(end.replace("−", "-")) for end in shown["95 % interval"].split(" to "))
        assert (low, high) == pytest.approx((change.low_together, change.high_together), abs=0.051)


def test_without_a_judged_class_nothing_is_drawn():
    labels, p = predictions(each=5, sharpness=20.0)
    page = audit_page.audit_page(cu.audit(labels, p, CLASSES, counts=COUNTS))
    assert page.chart is None
    assert "4 classes have fewer than 10 examples" in " ".join(page.blocks[0].text)


def test_two_classes_have_figures_and_thresholds_of_their_own():
    rare = np.linspace(0.05, 0.95, 40)
    labels = (rare > 0.4).astype(np.int64)
    audit = cu.audit(
        labels, np.stack([1 - rare, rare], axis=1), classes=["no", "<b>"], counts=[90, 10], costs=1 - np.eye(2)
    )
    page = audit_page.audit_page(audit)
    assert "Choosing a threshold" in headings(page)
    figures = {row["all classes"]: row["value"] for row in table_of(page, "All figures")}
    two = audit.figures.two
    assert figures["recall of <b> %"] == f"{two.recall:.1f}"
    assert figures["mean cost of an example"] == "0.1"
    many = audit_page.audit_page(audited())
    assert "Choosing a threshold" not in headings(many)


def test_a_label_that_is_not_listed_is_not_called_wrong():
    """Of a class that networks do not know no label is listed, however likely each is to be wrong."""
    labels, p = np.repeat([0, 1, 2], 100), np.full((300, 3), 0.001)
    p[np.arange(300), np.where(labels == 2, 1, labels)] = 0.998
    p[0] = p[150]
    audit = cu.audit(labels, p, list("abc"))
    assert audit.noise is not None
    assert (audit.noise.p_wrong[labels == 2] > 0.5).any()
    doubts = audit_examples(audit).doubts
    assert doubts is not None
    assert np.flatnonzero(doubts > 0.5).tolist() == audit.noise.ranked.tolist()


def test_files_whose_names_are_no_text_are_linked(tmp_path):
    assert _link(tmp_path / os.fsdecode(b"b\xff 1.png"), tmp_path) == "b%FF%201.png"


def test_names_are_text_never_markup():
    labels, p = predictions()
    evil = "</script><script>alert(1)</script>"
    html = rendered(cu.audit(labels, p, [evil, "b", "c", "d"], names=[evil] * 400, counts=COUNTS))
    assert "alert(1)</script>" not in html
    assert data_of(html)["classes"][0] == evil


def test_the_page_loads_nothing():
    html = rendered(audited(), audited().against(audited(1)))
    assert "default-src 'none'" in html
    assert not re.search(r'(?:src|href)="(?!data:|#)', html)
    assert not re.search(r"https?:|@import|fetch\(|XMLHttpRequest", html)


def test_every_class_and_confusion_has_examples_to_show():
    audit = audited()
    data = data_of(rendered(audit))
    pairs = {(label, guess) for label, guess, *_ in data["examples"]}
    places = {name: c for c, name in enumerate(CLASSES)}
    assert {(places[row.label], places[row.prediction]) for row in audit.confusions} <= pairs
    assert {label for label, _ in pairs} == {0, 1, 2, 3}
    by_name = {name: (label, guess) for label, guess, *_, name, _, _ in data["examples"]}
    i = int(next(iter(by_name)).removeprefix("no. "))
    assert by_name[f"no. {i}"] == (audit.labels[i], audit.guesses[i])


def test_a_broken_gate_and_a_passed_one_are_told_apart():
    conditions = ("ece > 1", "error < 0")
    broken, passed, none = (
        audit_page.audit_page(audited(), gate=gate).notes
        for gate in (audit_page.Gate(conditions, ("ece > 1: no.",)), audit_page.Gate(conditions), audit_page.Gate())
    )
    assert ("is broken" in broken[0], broken[1]) == (True, "ece > 1: no.")
    assert "is passed" in passed[0]
    assert not any("gate" in note for note in none)


def test_files_without_room_for_a_thumbnail_are_linked_from_the_page(tmp_path):
    labels, p = predictions(each=200)
    (tmp_path / "some pictures").mkdir()
    for c, name in enumerate(CLASSES):
        Image.new("RGB", (200, 150), (60 * c, 0, 0)).save(tmp_path / "some pictures" / f"{name}.png")
    (tmp_path / "some pictures" / "cat.png").write_bytes(b"damaged")
    images = [tmp_path / "some pictures" / f"{CLASSES[c]}.png" for c in labels]
    audit = cu.audit(labels, p, CLASSES, images=images, counts=COUNTS)
    rows = page_data(audit_examples(audit), tmp_path / "pages")["examples"]
    for label, *_, thumb, link in rows:
        assert (thumb < 0) == (link == f"../some%20pictures/{CLASSES[label]}.png")
        assert label or thumb < 0  # what cannot be read as an image is linked
    assert sum(thumb >= 0 for *_, thumb, _ in rows) > 10


def test_a_thousand_classes_fit(monkeypatch, tmp_path, rng):
    """Below 5 MB, with at most 300 pictures in it."""
    monkeypatch.setattr(audit_module, "CHECKED", 0)
    labels = np.repeat(np.arange(1000), 3)
    p = np.full((3000, 1000), 1e-4)
    p[np.arange(3000), np.where(rng.random(3000) < 0.4, rng.integers(1000, size=3000), labels)] = 0.9
    images = rng.integers(0, 256, (3000, 64, 64, 3), dtype=np.uint8)  # noise: PNG does not get smaller
    names = [f"a/rather/long/path/to/photographs/of/animals/{i:08d}.png" for i in range(3000)]
    classes = [f"a class with a rather long name, no. {c}" for c in range(1000)]
    audit = cu.audit(labels, p / p.sum(axis=1, keepdims=True), classes, names, images)
    page = cu.write_page(audit, tmp_path / "page.html")
    html = page.read_text()
    assert page.stat().st_size < 5_000_000
    assert 0 < len(data_of(html)["thumbs"]) <= PICTURES
    assert html.count("data-open") >= 1000


def test_what_is_left_out_is_counted(monkeypatch):
    """With room for 2 confusions and 1 label that looks wrong, the page says of how many."""
    labels, p = predictions()
    p[:6] = np.eye(4)[(labels[:6] + 1) % 4] * 0.9999 + 0.000025
    audit = cu.audit(labels, p, CLASSES, counts=COUNTS)
    issues = audit.figures.label_issues
    assert issues > 1
    monkeypatch.setattr(audit_page, "MOST_CONFUSIONS", 2)
    monkeypatch.setattr(audit_page, "MOST_ISSUES", 1)
    page = audit_page.audit_page(audit)
    pairs = {(label, guess) for label, guess in zip(labels, p.argmax(axis=1), strict=True) if label != guess}
    blocks = {block.heading: block for block in page.blocks}
    assert len(blocks["Confusions"].table.rows) == 2
    assert f"2 largest of {len(pairs)}" in blocks["Confusions"].text[0]
    assert len(blocks["Labels worth a look"].table.rows) == 1
    assert f"1 likeliest of {issues};" in blocks["Labels worth a look"].text[0]
    assert audit.document()["all_confusions"] == len(pairs)


def test_totals_count_examples_that_the_page_does_not_hold():
    labels, p = predictions(each=200, sharpness=0.5)
    data = page_data(audit_examples(cu.audit(labels, p, CLASSES, counts=COUNTS)), Path())
    guesses = p.argmax(axis=1)
    yak, as_cat = labels == 3, guesses == 0
    assert data["totals"][3][:2] == [(yak & (guesses != 3)).sum(), (yak & (guesses == 3)).sum()]
    assert data["totals"][0][2] == (as_cat & (labels != 0)).sum()
    assert sum(label == 3 and guess != 3 for label, guess, *_ in data["examples"]) < data["totals"][3][0]
