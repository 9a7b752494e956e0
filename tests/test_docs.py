"""The documents tell the truth: their code runs, their commands and links exist, and their lists are the package's."""

import re
import runpy
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import class_uncertainty
from class_uncertainty.cli.list_commands import KINDS
from class_uncertainty.data import SOURCES
from class_uncertainty.paper.experiments import EXPERIMENTS
from class_uncertainty.paper.printed_tables import TABLES
from class_uncertainty.posthoc.gate import CHANGES, FIGURES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
LISTS = {
    "api.md": {"api"},
    "data.md": {"sources", "options", "findings"},
    "estimators.md": {"estimators"},
    "glossary.md": {"glossary"},
    "methods.md": {"methods", "candidates", "measures", "augmentations", "networks"},
    "performance.md": {"speed"},
    "reproduction.md": {"summary", *(f"reproduce {name}" for name in EXPERIMENTS if name != "places")},
}
AFTER = {
    "README.md": """
assert np.allclose((*fixed.before.errors, *fixed.after.errors), (23.4, 19.6), atol=1)  # scikit-learn's versions differ
""",
    "CONTRIBUTING.md": """
import class_uncertainty as cu
from measure_contracts import measure_checks
from method_contracts import method_checks
for check in measure_checks(MEASURES["log-cardinality"]): check(MEASURES["log-cardinality"])
for check in method_checks("log-rs", METHODS["log-rs"]): check(METHODS["log-rs"])
data = cu.load("digits-steep")
recipe = cu.Recipe("small-conv", epochs=1, batch=32)
estimate = cu.estimate(data, "balanced-ensemble", members=2, recipe=recipe)
assert [result.method for result in estimate.results] == ["cb-rs", "cb-rs"]
votes = cu.estimate(data, "balanced-ensemble", members=2, recipe=recipe, score="votes")
assert set(np.round(votes.uncertainty, 3)) <= {0.001, 0.501, 1.001}
longer = cu.Recipe("small-conv", epochs=4, batch=32)
assert cu.fit(data.train, [cu.Lane("log-crt")], recipe=longer, test=data.test).results[0].scores
assert cu.fit(data.train, [cu.Lane("log-rs")], recipe=recipe, test=data.test).results[0].scores
""",
}


def ids(page: Path) -> str:
    return page.name


@cache
def tables() -> dict[str, Any]:
    """What docs/tables.py defines."""
    return runpy.run_path(str(DOCS / "tables.py"))


@pytest.mark.parametrize("name", AFTER)
def test_code_runs_as_it_stands(name, tmp_path, monkeypatch):
    """What it adds to a table is gone when it has run."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)
    assert blocks
    (tmp_path / "script.py").write_text("\n".join(["import torch", *blocks, AFTER[name]]))
    monkeypatch.chdir(tmp_path)
    registries = [class_uncertainty.MEASURES, class_uncertainty.METHODS, class_uncertainty.ESTIMATORS, SOURCES]
    before = [dict(table) for table in registries]
    try:
        runpy.run_path("script.py", run_name="__main__")
    finally:
        for table, rows in zip(registries, before, strict=True):
            table.clear()
            table.update(rows)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_command_exists(page):
    from class_uncertainty.cli.app import app

    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    commands |= {str(group.name) for group in app.registered_groups}
    used = set(re.findall(r"(?:^|`|^\$ )cu ([a-z]+)", page.read_text(), flags=re.MULTILINE))
    assert used <= commands
    assert set(re.findall(r"`cu list ([a-z]+)", page.read_text())) <= set(KINDS)
    assert used or (page.name not in {"README.md", "index.md"} and page.parent.name != "guides")


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_benchmark_and_test_file_exists(page):
    named = re.findall(r"\b((?:benchmarks|examples|tests|docs)/[\w/]+\.(?:py|md|png))", page.read_text())
    assert [file for file in named if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_lines_are_short(page):
    """Rows of tables cannot be wrapped, nor what commands print."""
    text = re.sub(r"^```console\n.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > 120 and line[0] != "|"] == []


def anchor(heading: str) -> str:
    """The anchor that both GitHub and MkDocs give a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-")


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_leads_somewhere(page):
    """Within the repository, anchors included; pages of the site link only to its own files."""
    broken = []
    for target in re.findall(r"\]\(\s*([^)\s]+)\s*\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        anchors = set(map(anchor, re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE))) if fragment else set()
        if (
            not file.is_file()
            or (fragment and fragment not in anchors)
            or (DOCS in page.parents and DOCS not in file.parents)
        ):
            broken.append(target)
    assert broken == []


def test_the_site_lists_every_page():
    """Without YAML's reader, which only the extra `docs` installs."""
    navigation = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert sorted(navigation) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_the_site_s_tools_are_pinned():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert set(extras["docs"]) <= pins


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=ids)
def test_lists_that_come_from_the_package_are_the_package_s(page):
    """`make tables` would change nothing."""
    script = tables()
    text = page.read_text()
    assert script["filled"](text) == text
    assert {name for name in script["TABLES"] if f"<!-- {name} -->" in text} == LISTS.get(page.name, set())


def test_figures_are_drawn_from_the_project_s_results():
    """Each file says what it was drawn from; `make tables` would draw none anew."""
    script, wanted = tables(), {}
    for name in script["REPRODUCED"]:
        wanted |= script["figures"](script["reproduced"](name))
    files = {name: DOCS / "figures" / f"{name}.svg" for name in wanted}
    assert sorted((DOCS / "figures").iterdir()) == sorted(files.values())
    assert [name for name, figure in wanted.items() if not script["is_drawn"](files[name], figure)] == []


def test_a_bad_line_of_the_results_is_one_sentence(tmp_path, capsys):
    for name, text in (("docs/tables.py", (DOCS / "tables.py").read_text()), ("results/bad.jsonl", "no line")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "docs/tables.py"), run_name="__main__")
    err = capsys.readouterr().err
    assert (ended.value.code, err.count("\n"), "bad.jsonl, line 1," in err) == (2, 1, True)


def test_the_naive_error_on_svci_20_is_that_of_the_project_s_results():
    """Which the page on the reproduction is rendered from."""
    halves = (DOCS / "reproduction.md").read_text().partition("**The halves of SVCI-20")[2]
    error = next(line for line in halves.splitlines() if line.startswith("| SVCI-20 (100) |")).split("|")[2].strip()
    page = (DOCS / "measured.md").read_text()
    naive = page[page.index("| data | naive |") :]
    assert f"| SVCI-20 (100) | {error} |" in naive


def test_the_verdict_on_the_paper_is_the_same_in_both_places():
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/reproduction.md"))
    verdict = readme[readme.index("**The verdict on the paper**") :].partition("\n\n|")[0]
    counts, ranks = re.findall(r"\d+ of (?:the )?\d+", verdict), re.findall(r"0\.\d+", verdict)
    assert len(counts) == 3
    assert len(ranks) == 2
    assert [fact for fact in counts + ranks if fact not in page] == []


def test_the_readme_is_short_and_its_output_is_the_guide_s():
    readme, site = ((ROOT / name).read_text() for name in ("README.md", "docs/index.md"))
    blocks = re.findall(r"^```\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    output = next(block for block in blocks if "before" in block)
    shown = (DOCS / "guides" / "photographs.md").read_text().splitlines()
    assert len(readme.splitlines()) < 150
    assert [line for line in output.splitlines() if line not in shown] == []
    assert output in site


def test_every_number_of_the_reproduction_s_prose_is_in_its_results():
    """In a table of the page, by a benchmark too, or of the paper, or as the error of one run; or as one, rounded."""
    script, text = tables(), (DOCS / "reproduction.md").read_text()
    marked = [*script["TABLES"], "measured"]  # the last by a benchmark, which the page names
    rendered = re.compile("|".join(f"<!-- {name} -->.*?<!-- end of {name} -->" for name in marked), re.DOTALL)
    printed = (row.printed.replace("±", " ") for table in TABLES.values() for row in table.rows)
    number, shown = re.compile(r"(?<![\w.:=])\d+\.\d+(?![\w.])"), " ".join([*rendered.findall(text), *printed])
    errors = {result.error for data in script["results"]() for result in script["trained_on"](data)}
    values = {float(value) for value in number.findall(shown)} | errors - {None}
    stated = set(number.findall(rendered.sub("", text)))
    assert len(stated) > 150
    assert stated - {f"{value:.{digits}f}" for value in values for digits in (1, 2, 3)} == set()


def test_the_api_page_has_every_public_name():
    directives = re.findall(r"^::: .*\.(\w+)$", (DOCS / "api.md").read_text(), flags=re.MULTILINE)
    assert sorted(directives) == sorted(class_uncertainty.__all__)


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_and_option_is_documented(name):
    text = (DOCS / "data.md").read_text()
    assert f"- `{SOURCES[name].example}`" in text
    assert [option for option in SOURCES[name].options if f"- `{option}` (" not in text] == []


def test_every_figure_of_the_gate_is_described():
    rows = re.findall(r"^\| `([\w\[\]]+)` \|", (DOCS / "audit.md").read_text(), re.MULTILINE)
    assert rows == [*FIGURES, *CHANGES]
