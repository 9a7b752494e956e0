"""The scripts under examples/ run as they stand, and say what their pages say they do."""

import re
import runpy
from pathlib import Path

import pytest
from optional import optional, slow

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {"sklearn_pipeline": (), "imbalanced_learn": ("imblearn",), "hf_datasets": ("datasets",)}
SAYS = {
    "sklearn_pipeline": (r"random forest +0\.\d+ -> 0\.\d+   tau", r"9: 0\.\d+  6", r"by a grid search: 0\.\d+"),
    "imbalanced_learn": (r"as they are +0\.\d+  405", r"to equal counts +0\.\d+  1,200", r"same size.* 0\.\d+  405"),
    "hf_datasets": (r"405 training images, 597 test images of zero, one", r"nine +0\.\d+  6"),
}


@slow
@pytest.mark.parametrize("name", NEEDS)
def test_it_runs(name, capsys):
    for module in NEEDS[name]:
        optional(module)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [pattern for pattern in SAYS[name] if not re.search(pattern, printed)] == []
