"""`cu demo`, shortened."""

import json
from pathlib import Path

import class_uncertainty as cu
from class_uncertainty.cli import demo_command


def test_demo(run, monkeypatch, forbid_training, blank_charts):
    """The whole tour, an epoch and three methods long; a second one trains nothing."""
    monkeypatch.setattr(demo_command, "ROWS", ["naive", "cb-rs", "ubrs"])
    recipes = {"images": cu.Recipe("small-conv", epochs=1, batch=32)}
    monkeypatch.setattr(cu.training.recipe, "RECIPES", recipes)
    blank_charts()
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "cu-demo/report.html" in out
    steps = [line.split("  ")[0].strip() for line in out.splitlines()[:24]]
    assert "naive" in steps  # the ladder is on the first screen
    assert out.index("best single") < out.index("rank rarity")
    assert "digits-lt:20" in Path("cu-demo/report.html").read_text()
    forbid_training()
    code, out, _ = run("demo --json")
    assert code == 0
    assert list(json.loads(out)) == ["fix", "measure", "compare", "report"]
