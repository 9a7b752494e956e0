"""The documents tell the truth: their Python runs as it stands, and what they add passes the contracts."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from class_uncertainty.data import SOURCES
from class_uncertainty.methods import METHODS
from class_uncertainty.methods.origins import ORIGINS

ROOT = Path(__file__).parent.parent
AFTER = {
    "README.md": "assert network(torch.tensor(wine.data)).shape == (178, 3)",
    "CONTRIBUTING.md": """
import class_uncertainty as cu
from contracts import measure_checks, method_checks
for check in measure_checks(MEASURES["log-cardinality"]): check(MEASURES["log-cardinality"])
for check in method_checks("log-rs", METHODS["log-rs"]): check(METHODS["log-rs"])
data = cu.load("digits-steep")
recipe = cu.Recipe("small-conv", epochs=1, batch=32)
found = cu.estimate(data, "balanced-ensemble", members=2, recipe=recipe)
assert [result.method for result in found.results] == ["cb-rs", "cb-rs"]
votes = cu.estimate(data, "balanced-ensemble", members=2, recipe=recipe, score="votes")
assert set(np.round(votes.uncertainty, 3)) <= {0.001, 0.501, 1.001}
assert cu.fit(data.train, [cu.Lane("log-crt")], recipe=cu.Recipe("small-conv", epochs=4, batch=32), test=data.test).results[0].scores
assert cu.fit(data.train, [cu.Lane("log-rs")], recipe=recipe, test=data.test).results[0].scores
""",
}


@pytest.mark.parametrize("name", AFTER)
def test_code_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)
    assert blocks
    script = tmp_path / "script.py"
    script.write_text("\n".join(["import sys, torch", f"sys.path.insert(0, {str(ROOT / 'tests')!r})", *blocks, AFTER[name]]))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_in_the_readme_is_known() -> None:
    from class_uncertainty.cli import app

    known = {command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups}
    used = re.findall(r"^cu (\w+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert used
    assert set(used) <= known


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs").glob("*.md")))
def test_tables_that_come_from_the_package_are_the_package_s(page: str) -> None:
    """`make docs` would change nothing."""
    run = runpy.run_path(str(ROOT / "docs" / "tables.py"))
    text = (ROOT / "docs" / page).read_text()
    assert run["filled"](text) == text
    named = {name for name in run["TABLES"] if f"<!-- {name} -->" in text}
    assert named == {"methods.md": {"methods", "measures", "augmentations"}, "estimators.md": {"estimators"}}.get(page, set())


def test_every_method_says_where_it_comes_from() -> None:
    assert ORIGINS.keys() == METHODS.keys()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_and_option_is_documented(name):
    rows = [line for line in (ROOT / "docs/data.md").read_text().splitlines() if line.startswith("|")]
    (row,) = [line for line in rows if f"`{SOURCES[name].example.partition('?')[0]}" in line]
    assert [option for option in SOURCES[name].options if f"`{option}`" not in row] == []
