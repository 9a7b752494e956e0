"""cu audit, as a user and as a CI job type it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from audits import CLASSES, COUNTS, audited, predictions
from sklearn.metrics import precision_score

from class_uncertainty.posthoc.written_predictions import PredictionTable, write_predictions


@pytest.fixture
def files(run):
    """now.npz and earlier.npz in the folder."""
    for name, seed, sharpness in (("now", 1, 1.5), ("earlier", 0, 5.0)):
        labels, p = predictions(seed, sharpness=sharpness)
        np.savez(f"{name}.npz", probabilities=p, labels=labels, classes=CLASSES, counts=COUNTS)


@pytest.mark.usefixtures("files")
def test_the_verdict_comes_last_and_every_class_is_there(run):
    code, out, err = run("audit now.npz")
    assert (code, err) == (0, "")
    assert " ".join(out.split()).endswith(audited(1, sharpness=1.5).summary)
    assert all(name in out for name in CLASSES)
    assert run("audit now.npz --quiet")[1] == out[out.rindex("\n\n") + 2 :]
    assert "Imbalance: A class that is worse" in run("audit now.npz --explain")[1]
    assert run("audit now.npz --quiet --verbose")[0] == 2


@pytest.mark.usefixtures("files")
def test_a_broken_condition_exits_with_4_and_a_line_each(run):
    conditions = "--fail-if 'worst_class_error > 40' --fail-if 'error[cat] > 99' --fail-if 'ece > 1'"
    code, out, err = run(f"audit now.npz {conditions} --report page.html")
    assert code == 4
    assert [line.partition(":")[2].strip().partition(":")[0] for line in err.splitlines()] == [
        "worst_class_error > 40",
        "ece > 1",
    ]
    page = Path("page.html").read_text()  # nothing is lost
    assert "The gate is broken" in page
    assert "Wrote  page.html" in out
    assert run("audit now.npz --fail-if 'error[cat] > 99'")[0] == 0


@pytest.mark.usefixtures("files")
def test_the_baseline_says_what_got_worse(run):
    assert run("audit earlier.npz --save main.json")[0] == 0
    command = "audit now.npz --baseline main.json --fail-if 'worse_classes > 0' --report page.html"
    code, out, err = run(command)
    assert code == 4
    assert "worse_classes > 0: worse_classes is" in err
    assert "on examples with the same labels in the same order" in out
    assert "got clearly worse: " in out
    assert "Against the baseline" in Path("page.html").read_text()
    document = json.loads(run(f"{command} --json")[1])
    assert document["changes"]["paired"]
    assert document["changes"]["worse"]
    assert len(document["broken"]) == 1


@pytest.mark.usefixtures("files")
def test_a_prior_is_reported_beside_the_counts(run):
    code, out, _ = run("audit now.npz --prior 0.1,0.1,0.1,0.7 --report page.html --verbose")
    assert code == 0
    rows = [line for line in out.splitlines() if line.startswith("  tau for")]
    assert [re.search(r"  [\d.]+( to [\d.]+)?$", row) is not None for row in rows] == [True, True]
    assert "under the prior" in rows[1]
    page = Path("page.html").read_text()
    assert "tau for the class mean by adjusting" in page
    assert "tau for the error under the prior by adjusting" in page


@pytest.mark.usefixtures("files")
def test_every_class_has_its_precision(run):
    labels, p = predictions(1, sharpness=1.5)
    expected = 100 * precision_score(labels, p.argmax(axis=1), average=None)
    document = json.loads(run("audit now.npz --json")[1])
    assert [row["precision"] for row in document["classes"]] == pytest.approx(expected)
    _, out, _ = run("audit now.npz --report page.html --verbose")
    page = Path("page.html").read_text()
    for name, precision in zip(CLASSES, expected, strict=True):
        lines = [line.split() for line in out.splitlines() if line.startswith(f"  {name} ")]
        assert lines[1][1] == f"{precision:.1f}"
        assert f">{precision:.1f}<" in page
    assert "<dt>Precision, recall, F1</dt>" in page


def test_the_advice_on_a_baseline_of_predictions_can_be_followed(run):
    """The description that `cu predict` writes beside p.csv is p.json, which is not overwritten."""
    labels, p = predictions()
    truth, guesses = ([CLASSES[c] for c in side] for side in (labels, p.argmax(axis=1)))
    table = PredictionTable([f"n{i}" for i in range(len(p))], CLASSES, p, guesses, truth=truth)
    write_predictions(Path("p.csv"), table, {"counts": COUNTS})
    code, _, err = run("audit p.csv --baseline p.csv")
    assert code == 2
    _, command, _ = err.split("'")
    assert run(command.removeprefix("cu "))[0] == 0
    assert run("audit p.csv --baseline", command.split()[-1])[0] == 0


@pytest.mark.usefixtures("files")
def test_json_is_what_save_wrote(run):
    code, out, _ = run("audit now.npz --json --save now.json")
    assert code == 0
    saved = json.loads(Path("now.json").read_text())
    assert "now.npz" in saved.pop("mark")
    assert json.loads(out) == saved
    assert run("audit now.npz --baseline now.json")[0] == 0


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--fail-if 'ecce > 10'", "did you mean 'ece'?"),
        ("--fail-if 'error[dogg] > 10'", "did you mean 'dog'?"),
        ("--fail-if 'worse_classes > 0'", "give an earlier audit (--baseline"),
        ("--report same.out --save ./same.out", "both name same.out"),
        ("--report page.pdf", "page.html"),
        ("--report page", "page.html"),
        ("--save audit.xml", "audit.json"),
        ("--baseline missing.json", "missing.json does not exist"),
        ("--baseline missing.npz", "missing.npz does not exist"),
        ("--baseline now.npz", "'cu audit now.npz --save now-audit.json' writes one"),
        ("--costs missing.csv", "missing.csv does not exist"),
        ("--report now.npz", "now.npz"),
        ("--save now.npz", "now.npz"),
        ("--counts 1,2", "2 classes"),
        ("--prior 0.5,0.6,1,1", "sum to 1"),
    ],
)
def test_bad_input_exits_with_2_and_one_sentence(run, words, part):
    before = Path("now.npz").read_bytes()
    code, out, err = run(f"audit now.npz {words}")
    assert (code, out) == (2, "")
    assert part in err
    assert len(err.splitlines()) == 1
    assert Path("now.npz").read_bytes() == before


@pytest.mark.usefixtures("files")
def test_a_foreign_file_is_not_overwritten(run):
    Path("mine.html").write_text("my page")
    Path("mine.json").write_text('{"my": "file"}')
    for words in ("--report mine.html", "--save mine.json"):
        code, _, err = run(f"audit now.npz {words}")
        assert code == 2
        assert "not" in err or "no " in err
    assert Path("mine.html").read_text() == "my page"
    assert Path("mine.json").read_text() == '{"my": "file"}'
