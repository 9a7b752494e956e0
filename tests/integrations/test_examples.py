"""The scripts under examples/ run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from optional import optional, slow

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDED = {"lightning_module": ["lightning"], "transformers_text": ["accelerate", "transformers"]}


@pytest.mark.parametrize("name", ["plain_pytorch", *(pytest.param(name, marks=slow) for name in NEEDED)])
def test_example_runs(name: str, tmp_path: Path) -> None:
    for package in NEEDED.get(name, ()):
        optional(package)
    command, environment = [sys.executable, str(EXAMPLES / f"{name}.py")], os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (mu,) = re.findall(r"uncertainty by class: \[([^\]]+)\]", done.stdout)
    assert sum(map(float, mu.split(","))) == pytest.approx(1, abs=0.01)
    assert all(float(error) < 50 for error in re.findall(r"class-mean error.*: ([\d.]+) %", done.stdout))
