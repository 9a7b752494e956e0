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

EXAMPLES = Path(__file__).parent.parent / "examples"
# What KubeRay's reference of ray.io/v1 lists: the fields that must be given, and more that may be
REQUIRED = {
    "RayJobSpec": {"entrypoint", "rayClusterSpec"},
    "RayClusterSpec": {"headGroupSpec"},
    "HeadGroupSpec": {"rayStartParams", "template"},
    "WorkerGroupSpec": {"groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}
OPTIONAL = {
    "RayJobSpec": {"activeDeadlineSeconds", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"},
    "RayClusterSpec": {"autoscalerOptions", "enableInTreeAutoscaling", "rayVersion", "workerGroupSpecs"},
    "HeadGroupSpec": {"serviceType"},
    "WorkerGroupSpec": {"numOfHosts", "replicas"},
}


def commands(workflow: str) -> list[list[str]]:
    """The words of every `cu` command of a workflow, in order; folded lines are one."""
    text = re.sub(r"run: >-\n\s+", "run: ", workflow)
    text = re.sub(r"\n\s+(?=--)", " ", text)
    return [shlex.split(line)[1:] for line in re.findall(r"run: (cu .*)", text)]


def test_the_ci_gate_passes_and_breaks(run):
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
def test_a_slurm_job_stops_before_its_allocation_ends(tmp_path):
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


def test_the_ray_job_has_the_fields_that_are_documented(run):
    job = pytest.importorskip("yaml").safe_load((EXAMPLES / "rayjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    groups = [("HeadGroupSpec", cluster["headGroupSpec"])]
    groups += [("WorkerGroupSpec", workers) for workers in cluster["workerGroupSpecs"]]
    for kind, given in [("RayJobSpec", job["spec"]), ("RayClusterSpec", cluster), *groups]:
        assert REQUIRED[kind] <= set(given) <= REQUIRED[kind] | OPTIONAL[kind], kind
    for _, group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pod = group["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert all(mount["name"] in volumes for one in pod["containers"] for mount in one["volumeMounts"])
    workers = cluster["workerGroupSpecs"][0]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    program, command, *words = shlex.split(job["spec"]["entrypoint"])
    code, explained, _ = run(command, "--help")
    assert (program, command, code) == ("cu", "compare", 0)
    assert all(word in explained for word in words if word.startswith("--"))
