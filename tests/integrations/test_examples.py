"""The scripts under examples/ run as they stand, and say what their pages say they do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from optional import optional, slow

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {
    "plain_pytorch": (),
    "sklearn_pipeline": (),
    "imbalanced_learn": ("imblearn",),
    "hf_datasets": ("datasets",),
    "lightning_module": ("lightning",),
    "transformers_text": ("accelerate", "transformers"),
}
BY_CLASS = r"uncertainty by class: \[([^\]]+)\]"
SAYS = {
    "plain_pytorch": (BY_CLASS,),
    "sklearn_pipeline": (r"random forest +0\.\d+ -> 0\.\d+   tau", r"9: 0\.\d+  6", r"by a grid search: 0\.\d+"),
    "imbalanced_learn": (r"as they are +0\.\d+  405", r"to equal counts +0\.\d+  1,200", r"same size.* 0\.\d+  405"),
    "hf_datasets": (r"405 training images, 597 test images of zero, one", r"nine +0\.\d+  6"),
    "lightning_module": (BY_CLASS,),
    "transformers_text": (BY_CLASS,),
}


@slow
@pytest.mark.parametrize("name", NEEDS)
def test_it_runs(name, tmp_path):
    for package in NEEDS[name]:
        optional(package)
    command, environment = [sys.executable, str(EXAMPLES / f"{name}.py")], os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [pattern for pattern in SAYS[name] if not re.search(pattern, done.stdout)] == []
    for mu in re.findall(BY_CLASS, done.stdout):
        assert sum(map(float, mu.split(","))) == pytest.approx(1, abs=0.01)
    assert all(float(error) < 50 for error in re.findall(r"class-mean error.*: ([\d.]+) %", done.stdout))
