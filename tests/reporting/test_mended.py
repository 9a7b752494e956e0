"""Before and after: rows, charts, the block of the page, lines for a terminal."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from scipy.special import softmax

from class_uncertainty import Data
from class_uncertainty.remedies.diagnosis import Finding, Mended, Suspect, side, suspects
from class_uncertainty.reporting import figures, mended, report
from class_uncertainty.reporting.drawing import draw
from class_uncertainty.reporting.tables import Section
from class_uncertainty.session import session

NASTY = '<script>alert("x")&\'</script> größe 犬'


def made(number: int, seeds: int = 3, after: float = 2.0, **others) -> Mended:
    """A long tail that one side leans against less; the first class has a name that must be escaped."""
    rng = np.random.default_rng(0)
    labels, counts = np.repeat(np.arange(number), 20), np.geomspace(500, 5, number).astype(int)
    lean = np.log(counts / counts.mean())
    z = rng.normal(0, 1, (2, seeds, len(labels), number)) + 2 * np.eye(number)[labels]
    before, later = (
        side(softmax(2 * (each + tilt * lean), axis=-1), labels, counts) for each, tilt in zip(z, (1, 1 - after / 2), strict=True)
    )
    names = (NASTY, *(f"class {c}" for c in range(1, number)))
    blank = {"findings": (), "suspects": (), "note": ""}
    parts = blank | {"findings": (Finding("class 1", "few", "class 1: <b>bad</b>"),)} | others
    return Mended("digits", "distil", seeds, names, tuple(map(int, counts)), 1.0, 2.0, 12, "five networks", before, later, **parts)


TEN, HUNDRED = made(10), made(100)


def drawn(found: Mended, name: str) -> dict:
    return figures.charts(Section("x", (), (), 0, mended=found))[name].to_dict()


def marks(spec: dict, kind: str) -> list[dict]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


def page(found: Mended) -> str:
    return report.render([Section("x & y", (), (), 0, mended=found)])


def text(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<script.*?</script>|<style.*?</style>|<svg.*?</svg>|<[^>]*>", " ", html, flags=re.DOTALL)))


def test_changes_are_the_class_means():
    rows = mended.changes(TEN)
    assert [row.before for row in rows] == sorted((row.before for row in rows), reverse=True)
    for row in rows:
        c = TEN.classes.index(row.name)
        before, after = (np.array(each.class_errors)[:, c].mean() for each in (TEN.before, TEN.after))
        assert (row.count, row.before, row.after) == (TEN.counts[c], pytest.approx(before), pytest.approx(after))
        assert row.change == pytest.approx(after - before)


def test_a_mean_in_another_order_is_no_change():
    errors = ((0.1, 10.0), (0.2, 10.0), (0.3, 10.0))
    same = replace(TEN.before, class_errors=errors)
    other = replace(TEN.before, class_errors=errors[::-1])
    assert [row.change for row in mended.changes(replace(TEN, classes=("a", "b"), counts=(1, 1), before=same, after=other))] == [0, 0]


def test_confusions_are_those_that_cost_most_on_either_side():
    rows = mended.confusions(HUNDRED)
    for confusion, field in ((HUNDRED.before.confusion, "before"), (HUNDRED.after.confusion, "after")):
        off = np.array(confusion)
        np.fill_diagonal(off, 0)
        largest = np.sort(off.ravel())[::-1][:8]
        np.testing.assert_allclose(sorted((getattr(row, field) for row in rows), reverse=True)[:8], largest)
    for row in rows:
        c, k = HUNDRED.classes.index(row.name), HUNDRED.classes.index(row.called)
        assert (row.before, row.after) == (HUNDRED.before.confusion[c][k], HUNDRED.after.confusion[c][k])


def test_slopes_draw_every_class_from_before_to_after():
    for found in (TEN, HUNDRED):
        values = [value for layer in marks(drawn(found, "slopes"), "line") for value in layer["data"]["values"]]
        ends = {(value["name"], value["at"]): value["error"] for value in values}
        assert len(values) == len(ends) == 2 * len(found.classes)
        for row in mended.changes(found):
            assert (ends[row.name, 0], ends[row.name, 1]) == (row.before, row.after)
        assert all(
            value["way"] == ("error falls" if value["after"] < value["before"] else "error rises") for value in values if value["change"]
        )


def test_slopes_tell_directions_by_more_than_colour():
    spec = drawn(HUNDRED, "slopes")
    _, faint, bold = marks(spec, "line")
    for layer in (faint, bold):
        assert {"color", "strokeDash"} <= layer["encoding"].keys()
    assert faint["mark"]["strokeWidth"] < bold["mark"]["strokeWidth"]
    assert [layer["encoding"]["color"]["legend"] is None for layer in (faint, bold)] == [True, False]
    (dots,) = marks(spec, "point")
    assert dots["encoding"]["shape"]["scale"]["range"] == ["triangle-down", "triangle-up"]


def test_of_many_classes_the_worst_tenths_are_named_and_of_few_all():
    for found, named in ((HUNDRED, 10), (made(20), 20), (made(21), 3)):
        for layer, field in zip(marks(drawn(found, "slopes"), "text"), ("before", "after"), strict=True):
            worst = sorted((getattr(row, field) for row in mended.changes(found)), reverse=True)[:named]
            assert [value["error"] for value in layer["data"]["values"]] == worst
            heights = [value["height"] for value in layer["data"]["values"]]
            gaps = -np.diff(heights)
            top = layer["encoding"]["y"]["scale"]["domain"][1]
            assert gaps.min() >= 0.999 * mended.APART * top
            assert min(heights) >= 0
            assert max(heights) < 1.1 * top


def test_names_stay_where_there_is_room():
    rows = [mended.Change(str(e), 1, e, e) for e in (90.0, 50.0, 49.0, 0.0, 0.0)]
    assert mended._spread(rows, "before", 100) == pytest.approx([90.0, 50.0, 46.5, 3.5, 0.0])
    assert mended._spread([], "before", 100) == []


def test_reliability_has_both_sides_and_the_diagonal():
    spec = drawn(TEN, "reliability")
    diagonal, lines, dots = spec["layer"]
    assert [value["both"] for value in diagonal["data"]["values"]] == [0, 1]
    assert lines["data"] == dots["data"]
    for name in ("before", "after"):
        values = [value for value in dots["data"]["values"] if value["side"] == name]
        assert [(v["share"], v["confidence"], v["accuracy"]) for v in values] == [
            (each.share, each.confidence, each.accuracy) for each in getattr(TEN, name).bins
        ]
    assert {"color", "shape", "size"} <= dots["encoding"].keys()
    assert dots["encoding"]["color"]["legend"]["values"] == ["before", "after"]


def test_charts_have_no_colour_of_their_own_and_compile_with_the_pages():
    names = ("slopes", "reliability") * 2
    specs = [drawn(found, name) | {"config": {}} for found, name in zip((TEN, TEN, HUNDRED, HUNDRED), names, strict=True)]
    pictures = draw([("svg", spec | {"config": report._theme()}) for spec in specs])
    for name, spec, picture in zip(names, specs, pictures, strict=True):
        assert not re.search(r"#[0-9a-f]{6}", json.dumps(spec))
        assert f"var(--{'c1' if name == 'slopes' else 'c4'})" in picture.decode()


def test_no_change_and_no_error_can_be_drawn():
    right = side(np.eye(3)[None, [0, 1, 2]], [0, 1, 2], [5, 5, 5])
    found = replace(TEN, classes=("a", "b", "c"), counts=(5, 5, 5), seeds=1, before=right, after=right, findings=())
    html = page(found)
    assert "The class-mean error stays at 0.00 % over 1 seed: it falls for 0 of 3 classes and rises for 0." in text(html)
    assert "There are none." in html
    assert mended.confusions(found) == []
    assert mended.lines(found)[0].split() == ["class", "examples", "before", "%", "after", "%", "change"]
    assert draw([("svg", drawn(found, "slopes"))])[0].startswith(b"<svg")


def test_block_comes_first_and_is_escaped():
    measured = page(TEN)
    assert 'alert("x")' not in measured
    assert "class 1: &lt;b&gt;bad&lt;/b&gt;" in measured
    assert measured.index("Before and after") < measured.index("All classes before and after") < measured.index("cost most</h3>")
    assert "Nothing is stored" not in measured
    assert measured.count('<figure class="chart') == measured.count('class="still"') == 2
    assert "probably wrong" not in measured
    assert "Before and after" not in report.render([Section("x", (), (), 0)])


def test_numbers_are_means_with_their_spread():
    shown = text(page(TEN))
    for each in (TEN.before.errors, TEN.after.errors, TEN.before.worst, TEN.after.worst):
        assert f"{np.mean(each):.2f} ± {np.std(each, ddof=1):.2f}" in shown
    for each in (TEN.before, TEN.after):
        assert f"{each.ece:.1f}" in shown
    assert "12 trainings of one network" in shown
    assert "1 training of one network" in text(page(replace(TEN, cost=1.0)))
    assert "distil, with five networks; τ = 1, T = 2." in shown
    assert "τ = 1, T = 2, logits divided by 1.46." in text(page(replace(TEN, cooling=1.457)))
    assert f"falls from {np.mean(TEN.before.errors):.2f} ±" in shown
    fell = sum(row.after < row.before for row in mended.changes(TEN))
    rose = sum(row.after > row.before for row in mended.changes(TEN))
    assert fell != rose
    assert f"it falls for {fell} of 10 classes and rises for {rose}." in shown
    swapped = text(page(replace(TEN, before=TEN.after, after=TEN.before)))
    assert f"rises from {np.mean(TEN.after.errors):.2f} ±" in swapped
    alone = made(10, seeds=1)
    assert f"from {alone.before.errors[0]:.2f} % to {alone.after.errors[0]:.2f} % over 1 seed:" in text(page(alone))


def test_tables_hold_what_the_charts_do():
    html = page(TEN)
    cells = [re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)]
    rows = [[unescape(re.sub("<[^>]*>", "", cell)) for cell in row] for row in cells]
    assert rows[0] == ["Class", "Training examples", "Error before, %", "Error after, %", "Change"]
    for shown, row in zip(rows[1:11], mended.changes(TEN), strict=True):
        change = f"{row.change:+.1f}".replace("-", "−") if round(row.change, 1) else "0.0"
        assert shown == [row.name, str(row.count), f"{row.before:.1f}", f"{row.after:.1f}", change]
    assert rows[12][:2] == [mended.confusions(TEN)[0].name, mended.confusions(TEN)[0].called]


@pytest.mark.parametrize(("size", "tiny"), [(8, True), (200, False)])
def test_suspects_are_shown_as_pictures(size, tiny):
    labels = np.repeat(np.arange(2), 20)
    p = np.eye(2)[labels]
    p[7] = 0, 1
    found = suspects(p, labels, Data(np.full((40, 1, size, size), 99, np.uint8), labels, [NASTY, "seal"]))
    html = page(replace(TEN, suspects=tuple(found)))
    looks = ' class="tiny"' if tiny else ""
    assert f'<img src="{found[0].picture}"{looks} alt="Training image no. 7, labelled &lt;script' in html.replace("&#43;", "+")
    assert "rather seal 100 % no. 7" in text(html)
    assert 'alert("x")' not in html


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "examples that a network which never saw them takes for another class, the clearest"),
        (5, "examples that 5 networks which never saw them agree to be of another class, the clearest"),
        (None, "examples that networks which never saw them agree"),  # stored before they were counted
    ],
)
def test_who_suspects_is_said(number, words):
    assert words in page(replace(TEN, witnesses=number, suspects=(Suspect(1234, "wolf", "dog", 0.012, 0.98, ""),)))


def test_suspects_among_features_are_a_table():
    html = page(replace(TEN, suspects=(Suspect(1234, "wolf", "dog", 0.012, 0.98, ""),)))
    assert "Training image" not in html
    assert "no. 1234 wolf 1.2 dog 98.0" in text(html)
    html = page(replace(TEN, suspects=(Suspect(1234, "wolf", "dog", 0.012, 0.98, "", "line 1236"),)))
    assert "line 1236 wolf 1.2 dog 98.0" in text(html)


def test_lines_are_the_findings_then_the_classes_that_changed_most():
    lines = mended.lines(HUNDRED)
    assert lines[:2] == ["class 1: <b>bad</b>", ""]
    names = [line[1:15].strip() for line in lines[4:14]]
    ordered = [row.name for row in sorted(mended.changes(HUNDRED), key=lambda row: row.change)]
    shown = [name[:13] for name in (*ordered[:5], *ordered[-5:])]
    assert [name[:13] for name in names] == shown
    assert [line.split()[0] for line in lines[14:]] == ["class-mean", "worst", "balanced", "balanced"]
    assert f"{np.mean(HUNDRED.before.errors):.2f} ± {np.std(HUNDRED.before.errors, ddof=1):.2f}" in lines[14]
    assert all(line == line.rstrip() for line in lines)


def test_lines_show_names_as_they_are_and_drop_columns_without_room(monkeypatch):
    monkeypatch.setenv("COLUMNS", "45")
    monkeypatch.setattr("class_uncertainty.reporting.terminal.PIPE_WIDTH", 45)
    odd = replace(TEN, classes=("[red]", *TEN.classes[1:]), findings=())
    lines = mended.lines(odd)
    assert any("[red]" in line for line in lines)
    assert all(len(line) <= 45 for line in lines[:-1])
    assert lines[-1].startswith("No room for examples")
    assert "examples" not in lines[0]


def test_a_name_that_is_not_unicode_is_drawn(tmp_path):
    odd = replace(TEN, classes=("a\udcff", *TEN.classes[1:]))
    report.write([Section("x", (), (), 0, mended=odd)], tmp_path / "report.html")
    assert "a?" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_class_that_was_found_wrong_is_in_the_table_though_it_did_not_change():
    """Of the classes that stay as they are, no other is."""
    same = replace(TEN, after=TEN.before)
    shown = [line for line in mended.lines(same) if re.match(r"\s*class \d+ ", line)]
    assert len(shown) == 1
    assert shown[0].split()[:3] == ["class", "1", str(TEN.counts[1])]


def test_where_nothing_is_gained_it_says_how_to_keep_a_naive_network(tmp_path, capsys):
    worse = replace(TEN, before=TEN.after, after=TEN.before, data="csv:a.csv?label=b&test=0.2", lr=0.4)
    for shown, said in ((worse, True), (TEN, False)):
        with session(tmp_path / "runs.sqlite", as_json=False) as now:
            now.show_fix(shown)
        told = " ".join(capsys.readouterr().out.split())
        assert (
            "keep a naive network (cu train 'csv:a.csv?label=b&test=0.2' --lr 0.4 --save MODEL, with the same --recipe and --epochs)"
            in told
        ) == said
