"""The examples run as they stand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
from commands import Run

EXAMPLES = Path(__file__).parent.parent / "examples"


def commands(workflow: str) -> list[list[str]]:
    """The words of every `cu` command of a workflow, in order; folded lines are one."""
    text = re.sub(r"run: >-\n\s+", "run: ", workflow)
    text = re.sub(r"\n\s+(?=--)", " ", text)
    return [shlex.split(line)[1:] for line in re.findall(r"run: (cu .*)", text)]


def test_the_ci_gate_passes_and_breaks(run: Run) -> None:
    """The steps of the workflow: predictions, the first audit, the gate; then a model that got worse."""
    folder = EXAMPLES / "ci_gate"
    subprocess.run([sys.executable, folder / "predict.py"], check=True, timeout=60)
    first, gate = commands((folder / ".github" / "workflows" / "classes.yml").read_text())
    assert run(*first)[0] == 0
    code, out, err = run(*gate)
    assert (code, err) == (0, "")
    assert "No class got clearly worse" in out
    assert Path("audit.html").exists()
    with np.load("predictions.npz") as saved:
        arrays = dict(saved)
    arrays["probabilities"] = np.roll(arrays["probabilities"], 1, axis=1)
    np.savez("predictions.npz", **arrays)
    code, _, err = run(*gate)
    assert code == 4
    assert len(err.splitlines()) == gate.count("--fail-if")
