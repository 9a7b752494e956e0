"""A class without test examples, from the data to the page: trained on, named once, blank, and in no mean."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SHORT, SHORT_FIX
from pictures import tree
from sklearn.metrics import recall_score

import class_uncertainty as cu
from class_uncertainty.runs import Store

CLASSES = ["ant", "bee", "cow", "dog"]
COUNTS, TESTED = [24, 12, 8, 6], [9, 0, 5, 4]
TABLE, FOLDER = "csv:train.csv?test=test.csv", "folder:pets"
NAMED = "1 of 4 classes has no test examples, and so no error (bee)"


def write_data(place: Path) -> None:
    rng = np.random.default_rng(0)
    for name, counts in (("train", COUNTS), ("test", TESTED)):
        lines = ["a,b,label"]
        for c, number in enumerate(counts):
            lines += [f"{x:.4f},{y:.4f},{CLASSES[c]}" for x, y in rng.normal((c, -c), 1.5, (number, 2))]
        (place / f"{name}.csv").write_text("\n".join(lines))
    folders = {f"train/{name}": 4 for name in CLASSES} | {f"test/{name}": 2 for name in CLASSES if name != "bee"}
    tree(place / "pets", folders)


@pytest.fixture
def data(run, tmp_path):
    """The folder that `run` works in."""
    write_data(tmp_path)
    return tmp_path


def strict(text: str) -> Any:
    """JSON as the standard has it, which knows neither NaN nor infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


class Page(HTMLParser):
    """The texts of a page that people see, and its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen, self.data, self.within = list[str](), list[str](), ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.within = "data" if tag == "script" and "json" in (dict(attrs).get("type") or "") else tag

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, text: str) -> None:
        if self.within == "data":
            self.data.append(text)
        elif self.within not in ("script", "style"):
            self.seen.append(text)


def check_page(place: Path) -> None:
    page = Page(place.read_text())
    words = " ".join(page.seen)
    assert re.findall(r"(?i)\b(?:nan|null)\b", words) == []
    assert NAMED in words
    assert page.data
    for text in page.data:
        strict(text)


@pytest.mark.parametrize("source", [TABLE, FOLDER])
def test_measure_and_report_leave_its_error_blank(data, run, source):
    code, out, err = run(f"measure {source} {SHORT} --json")
    assert (code, err.count(NAMED)) == (0, 1)
    rows = strict(out)["classes"]
    (bee,) = [row for row in rows if row["name"] == "bee"]
    assert [bee[name] for name in ("error", "low", "high", "examples")] == [None, None, None, 0]
    assert all(0 <= row["low"] <= row["error"] <= row["high"] <= 100 for row in rows if row["name"] != "bee")
    _, out, _ = run(f"measure {source} {SHORT}")
    assert "nan" not in out
    assert " ".join(out.split()).count(NAMED) == 1
    assert run("report --out page.html")[0] == 0
    check_page(data / "page.html")


def test_compare_takes_means_over_the_other_classes(data, run):
    command = f"compare {TABLE} --methods naive,ubrs,adjusted --seeds 2 {SHORT}"
    code, out, err = run(f"{command} --json")
    assert (code, err.count(NAMED)) == (0, 1)
    rows = strict(out)["methods"]
    with Store("runs.sqlite") as store:
        results = store.results(cu.load(TABLE).fingerprint)
    assert {result.method for result in results} >= {"naive", "ubrs"}
    for row in rows[:2]:
        errors = np.array([result.class_errors for result in results if result.method == row["method"]])[:2]
        assert np.isnan(errors).all(axis=0).tolist() == [False, True, False, False]
        assert row["error"] == pytest.approx(np.nanmean(errors, axis=1).mean())
        assert row["worst"] == pytest.approx(np.nanmax(errors, axis=1).mean())
    _, out, _ = run(command)
    assert "nan" not in re.sub("naive", "", out)
    assert run("results export results.jsonl")[0] == 0
    lines = [strict(line) for line in Path("results.jsonl").read_text().splitlines()]
    assert any(line["document"]["scores"]["class_errors"][1] is None for line in lines if line["kind"] == "result")
    assert run("results import results.jsonl --store other.sqlite")[0] == 0
    with Store("other.sqlite") as store:
        imported = store.results(cu.load(TABLE).fingerprint)
    stored = {(result.method, result.seed): result.class_errors for result in results}
    assert len(imported) == len(results)
    for result in imported:
        np.testing.assert_array_equal(result.class_errors, stored[result.method, result.seed])


@pytest.mark.parametrize("source", [TABLE, FOLDER])
def test_fix_judges_on_the_other_classes(data, run, source):
    command = f"fix {source} {SHORT_FIX} --trainings 2"
    code, out, err = run(f"{command} --save model --json")
    assert (code, err.count(NAMED)) == (0, 1)
    document = strict(out)
    for side in ("before", "after"):
        (errors,) = np.array(document[side]["class_errors"], dtype=float)
        assert np.isnan(errors).tolist() == [False, True, False, False]
        assert document[side]["errors"] == [pytest.approx(np.nanmean(errors))]
        assert document[side]["worst"] == [pytest.approx(np.nanmax(errors))]
    change = document["price"]["classes"][1]
    assert set(change.values()) == {None}
    assert document["price"]["mean"]["change"] == pytest.approx(
        document["after"]["errors"][0] - document["before"]["errors"][0]
    )
    judged = strict(Path("model.json").read_text())["about"]["judged"]
    assert judged["class_errors"] == [None if c == 1 else document["after"]["class_errors"][0][c] for c in range(4)]
    check_page(data / "model.html")
    assert run("card model")[0] == 0
    card = (data / "README.md").read_text()
    (bee,) = [line for line in card.splitlines() if line.startswith("| bee ")]
    assert bee.count("–") == 3  # the error, its interval, and the error before
    assert f"Class-mean error on the test split, over 3 of 4 classes: {document['after']['errors'][0]:.1f} %" in card
    assert "nan" not in card
    _, out, _ = run(command)
    assert re.findall(r"(?i)\bnan\b", out) == []


@pytest.mark.parametrize("goal", ["worst", "overall", "prior:0.2,0.5,0.2,0.1"])
def test_every_goal_is_of_the_classes_that_are_judged(data, goal):
    fixed = cu.fix(
        cu.load(TABLE),
        recipe=cu.Recipe("linear", 2, 8),
        candidates=["naive"],
        goal=goal,
        trainings=2,
        seeds=1,
        deploy="one",
    )
    (value,) = next(step for step in fixed.report.ladder if step.kept).values
    errors = fixed.after.means
    weights = np.array({"overall": COUNTS, "worst": errors == np.nanmax(errors)}.get(goal, [0.2, 0.5, 0.2, 0.1]), float)
    weights[1] = 0
    assert value == pytest.approx(np.nansum(weights * errors) / weights.sum())
    assert "nan" not in fixed._repr_html_()
    assert fixed.to_frame()["change_low"].isna().tolist() == [False, True, False, False]


def test_a_prior_of_that_class_alone_is_refused_before_anything_trains(data, forbid_training):
    forbid_training()
    with pytest.raises(cu.InputError, match="prior is 0 for every class"):
        cu.fix(cu.load(TABLE), recipe=cu.Recipe("linear", 2, 8), candidates=["naive"], goal="prior:0,1,0,0")


def test_an_audit_a_card_and_a_fix_say_nothing_of_it(data, run):
    """Null in every number of its examples, a dash in tables, and how many classes a mean is over."""
    assert run("train", TABLE, "--save", "m")[0] == 0
    code, out, _ = run("predict m test.csv --out p.csv")
    assert (code, "3 of 4 classes" in out) == (0, True)
    code, out, _ = run("audit p.csv --save a.json --report a.html")
    assert (code, "3 of 4 classes" in " ".join(out.split())) == (0, True)
    bee = strict(Path("a.json").read_text())["classes"][1]
    of_examples = {"error", "low", "high", "uncertainty", "raw", "ece", "taken_share", "suspect", "adjusted", "change"}
    assert (bee["name"], bee["examples"]) == ("bee", 0)
    assert {bee[name] for name in of_examples | {"change_low", "change_high"}} == {None}
    assert "nan" not in Path("a.html").read_text().partition("<table")[2].partition("</table>")[0]
    assert run("card m --out card.md")[0] == 0
    assert "3 of 4 classes" in Path("card.md").read_text()
    (judged,) = [strict(Path("m.json").read_text())["about"]["judged"]]
    assert [judged[name][1] for name in ("class_errors", "low", "high")] == [None] * 3
    code, out, _ = run(f"fix {TABLE} --candidates naive --seeds 1 --json")
    report = strict(out)
    assert (code, report["price"]["before"][1], report["price"]["after"][1]) == (0, [None, None], [None, None])
    assert report["before"]["confusion"][1] == report["after"]["confusion"][1] == [None] * 4
    (finding,) = [one for one in report["findings"] if one["label"] == "bee"]
    assert finding["evidence"]["examples"] > 0  # training examples that the networks never saw


def test_train_and_predict_score_the_other_classes(data, run):
    code, out, _ = run("train", TABLE, "--epochs", "2", "--save", "model")
    assert (code, " ".join(out.split()).count(NAMED)) == (0, 1)
    strict(Path("model.json").read_text())
    predicted = cu.predict("model", "test.csv")
    labels = np.repeat(CLASSES, TESTED)
    assert predicted.scores is not None
    recalls = recall_score(labels, predicted.labels, labels=["ant", "cow", "dog"], average=None)
    assert predicted.scores.error == pytest.approx(100 * (1 - recalls.mean()))
    code, out, _ = run("predict model test.csv --json")
    strict(out)
