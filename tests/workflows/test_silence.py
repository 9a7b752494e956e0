"""Workflows return values and never print."""

import numpy as np

import class_uncertainty as cu

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)


def test_no_workflow_prints(digits, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    known = {"recipe": RECIPE, "store": tmp_path / "runs.sqlite"}
    np.save("new.npy", digits.test.inputs[:5])
    np.savez("predictions.npz", probabilities=np.full((4, 2), 0.5), labels=[0, 1, 0, 1])
    cu.measure(digits, members=2, **known)
    cu.compare_estimators(digits, ["single"], 2, **known)
    cu.compare(digits, methods=["naive", "ubrs", "adjusted"], seeds=1, members=2, **known)
    cu.train(digits, save="model", **known)
    cu.fix(digits, candidates=["naive", "ubrs"], deploy="ensemble", seeds=1, save="fixed", **known)
    cu.predict("fixed", "new.npy")
    cu.adjust_predictions("predictions.npz", [3, 1], out="adjusted.npz")
    assert capfd.readouterr() == ("", "")
