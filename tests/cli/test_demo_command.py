"""`cu demo`, shortened."""

import json
from pathlib import Path

import class_uncertainty as cu


def test_demo(run, monkeypatch, forbid_training):
    """The whole demo, one epoch long; a second one trains nothing."""
    monkeypatch.setattr(cu.training.recipe, "RECIPES", {"images": cu.Recipe("small-conv", epochs=1, batch=32)})
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 30  # 25 once the networks have learnt
    assert len(out.split()) <= 280
    for words in ("digits-lt:50", "class mean", "weights by counts", "weights by uncertainty", "cu-demo/report.html"):
        assert words in out
    assert Path("cu-demo/report.html").stat().st_size > 10_000
    forbid_training()
    code, out, _ = run("demo --json")
    assert code == 0
    assert list(json.loads(out)) == ["measure", "fix", "compare", "report"]
