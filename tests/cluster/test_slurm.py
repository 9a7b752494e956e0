"""examples/slurm.sh with stand-ins for Slurm's commands, which start everything on this machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from clusters import free_port
from same_stores import contents

pytest.importorskip("ray")
pytestmark = pytest.mark.cluster
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
SCRIPT = Path(__file__).parents[2] / "examples" / "slurm.sh"
STAND_INS = {
    "scontrol": 'printf "127.0.0.1\\n127.0.0.1\\n"',
    "srun": 'echo "$@" >> "$RUNS/steps"; while [ "$1" != ray ]; do shift; done; exec "$@"',
    "cu": f'exec {sys.executable} -m class_uncertainty "$@"',
    "ray": f'exec {Path(sys.executable).with_name("ray")} "$@"',
}


def submit(folder: Path, *arguments: str, **variables: str) -> str:
    """Run the script as a job; what it prints."""
    commands = folder / "commands"
    commands.mkdir(parents=True, exist_ok=True)
    for name, line in STAND_INS.items():
        (commands / name).write_text(f"#!/bin/bash\n{line}\n")
        (commands / name).chmod(0o755)
    job = {"SLURM_JOB_ID": "1", "SLURM_JOB_END_TIME": str(int(time.time()) + 3600), "SLURM_CPUS_ON_NODE": "1"}
    job |= {"RUNS": str(folder), "DATA": "digits-lt:20", "OPTIONS": "--methods naive,cb-rs --seeds 2 --epochs 3"}
    environment = PLAIN | job | variables | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    call = ["bash", SCRIPT, *arguments]
    ended = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """The store that two jobs of an array give."""
    folder = tmp_path_factory.mktemp("array")
    for number in "12":
        submit(folder, SLURM_ARRAY_TASK_ID=number, SLURM_ARRAY_TASK_COUNT="2")
    assert "cb-rs" in submit(folder, "join")
    return results(folder)


def results(folder: Path) -> dict:
    return {key: value for key, value in contents(folder / "base.sqlite").items() if key[0] == "results"}


def test_ray_on_an_allocation_gives_the_results_of_an_array(joined, tmp_path):
    port = free_port()
    assert "cb-rs" in submit(tmp_path, SLURM_JOB_NODELIST="gpu[1-2]", PORT=str(port))
    steps = (tmp_path / "steps").read_text().splitlines()
    for step, address in zip(steps, ["--head", f"--address=127.0.0.1:{port}"], strict=True):
        assert step.startswith(f"--nodes=1 --ntasks=1 --cpus-per-task=1 -w 127.0.0.1 ray start {address} ")
    assert len(joined) == 4
    assert results(tmp_path) == joined
