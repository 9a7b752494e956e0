"""The examples run as they stand."""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
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


@pytest.mark.skipif(sys.platform == "win32", reason="Slurm runs on Linux")
def test_a_slurm_job_stops_before_its_allocation_ends(tmp_path: Path) -> None:
    """By a budget: the signal of a batch job does not reach `cu`."""
    command = tmp_path / "cu"
    command.write_text('#!/bin/sh\necho "$@"\n')
    command.chmod(0o755)
    job = {"SLURM_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "8", "RUNS": str(tmp_path)}

    def submit(seconds: int) -> subprocess.CompletedProcess[str]:
        job["SLURM_JOB_END_TIME"] = str(int(time.time()) + seconds)
        environment = os.environ | job | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        script = ["bash", str(EXAMPLES / "slurm.sh")]
        return subprocess.run(script, capture_output=True, text=True, env=environment, timeout=60, check=False)

    budget = re.search(r"--budget (\d+)s .*--shard 2/8", submit(3600).stdout)
    assert budget
    assert 3200 < int(budget[1]) <= 3300
    short = submit(200)
    assert short.returncode == 2
    assert "ask for more --time" in short.stderr
