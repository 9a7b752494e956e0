"""The shape of the package: stages in order, no cycles, a light import, public names that exist."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from contracts import EXCEPTIONS
from loss_contracts import loss_checks, losses_of
from measure_contracts import measure_checks
from method_contracts import method_checks

import class_uncertainty
from class_uncertainty import MEASURES, METHODS
from class_uncertainty.methods import losses

PACKAGE = Path(class_uncertainty.__file__).parent
NAME = "class_uncertainty"
STAGES = (
    "errors", "limits", "text", "checks", "io", "data", "measures", "methods",
    "metrics", "training", "estimation", "posthoc", "scale", "runs", "workflows", "reporting", "integrations", "paper",
    "cli", "__main__",
)  # fmt: skip
FOLDERS = (
    "", "cli", "data", "data/readers", "estimation", "integrations", "integrations/sklearn", "measures", "methods",
    "paper", "posthoc", "reporting", "runs", "scale", "training", "training/augment", "training/kernels",
    "training/networks", "workflows",
)  # fmt: skip
IMPORTERS = {"paper": {"cli"}, "scale": {"runs"}}  # a folder that nobody else imports -> who may
BANNED = {"deepsig": "GPL, and only an oracle of the tests", "torchvision": "a heavy dependency for a few file formats"}
LATE = {"torch", "scipy", "sklearn", "jinja2"}
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@cache
def imports(source: str, module: str) -> list[str]:
    """The full names that a module imports, wherever in it: at the top, in functions, for types alone."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [f"{base}.{alias.name}" for alias in node.names]
    return found


def stage_of(name: str) -> str:
    """'class_uncertainty.data.dataset.Data' -> 'data'; a public name, taken from the top, is of no stage."""
    first = name.split(".")[1] if "." in name else ""
    return first if first in STAGES else ""


def too_early(source: str, module: str) -> list[str]:
    """Imports of a later stage, or of the whole package, which is the latest; its version is free to all."""
    own = STAGES.index(stage_of(module))
    inside = [name for name in imports(source, module) if name.split(".")[0] == NAME and name != f"{NAME}.__version__"]
    return [name for name in inside if not stage_of(name) or STAGES.index(stage_of(name)) > own]


def module_of(file: str) -> str:
    return f"{NAME}.{file.removesuffix('.py').replace('/', '.')}"


@pytest.mark.parametrize("file", [file for file in FILES if file != "__init__.py"])
def test_imports_come_from_stages_before(file):
    assert stage_of(module_of(file)), f"{file} is of no stage: say in STAGES where it stands"
    assert too_early((PACKAGE / file).read_text(), module_of(file)) == []


@pytest.mark.parametrize(
    "line",
    [
        "from class_uncertainty.training.fit import fit",
        "import class_uncertainty.runs.store",
        "from class_uncertainty import training",
        "from class_uncertainty import fit",
        "import class_uncertainty",
        "from ..runs import aso",
        "from .. import cli",
        "def late():\n    from class_uncertainty.cli.app import app",
    ],
)
def test_an_early_import_is_seen(line):
    assert too_early(line, f"{NAME}.measures.measures")


@pytest.mark.parametrize(
    "line",
    [
        "from class_uncertainty.errors import InputError",
        "from class_uncertainty.measures.uncertainty import kwon",
        "from class_uncertainty import data, __version__",
        "from . import uncertainty",
        "from ..data import Data",
        "import numpy",
        "from class_uncertainty_tools import results",
    ],
)
def test_a_timely_import_is_let_be(line):
    assert too_early(line, f"{NAME}.measures.measures") == []


def unasked(source: str, module: str) -> list[str]:
    """Imports of a folder that is for others."""
    own = stage_of(module)
    inside = [name for name in imports(source, module) if name.split(".")[0] == NAME]
    return [name for name in inside if own not in IMPORTERS.get(stage_of(name), {own}) | {stage_of(name)}]


@pytest.mark.parametrize("file", FILES)
def test_a_folder_is_imported_by_those_who_may(file):
    assert unasked((PACKAGE / file).read_text(), module_of(file)) == []


@pytest.mark.parametrize(
    ("line", "module", "is_allowed"),
    [
        ("from class_uncertainty.paper.tables import text_tables", "reporting.words", False),
        ("def late():\n    from ..paper import reproduce", "workflows.fix", False),
        ("import class_uncertainty.paper.reproduce", "__init__", False),
        ("from class_uncertainty.paper import tables", "cli.reproduce_command", True),
        ("from class_uncertainty.paper.ledger import Ledger", "paper.outcomes", True),
        ("from class_uncertainty.text import short", "reporting.words", True),
    ],
)
def test_an_import_by_others_is_seen(line, module, is_allowed):
    assert (unasked(line, f"{NAME}.{module}") == []) == is_allowed


def test_the_folders_are_those_of_the_design():
    assert sorted({file.rpartition("/")[0] for file in FILES}) == sorted(FOLDERS)


def module_imports() -> dict[str, set[str]]:
    """Every module of the package, and the modules that it imports anywhere, packages aside."""
    modules = {module_of(file) for file in FILES if not file.endswith("__init__.py")}
    graph = {}
    for file in FILES:
        if (module := module_of(file)) in modules:
            names = imports((PACKAGE / file).read_text(), module)
            graph[module] = {name for name in names if name in modules}
            graph[module] |= {parent for name in names if (parent := name.rpartition(".")[0]) in modules}
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, and those that need them; [] where there is none."""
    graph = dict(graph)
    while leaves := [module for module, needed in graph.items() if not needed & graph.keys()]:
        for module in leaves:
            del graph[module]
    return sorted(graph)


def test_no_modules_import_each_other():
    graph = module_imports()
    assert f"{NAME}.training.fit" in graph[f"{NAME}.runs.context"]  # or nothing would be seen
    assert cycle(graph) == []


def test_a_cycle_is_seen():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "d"]
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("file", FILES)
def test_banned_packages_stay_out(file):
    found = {name.split(".")[0] for name in imports((PACKAGE / file).read_text(), module_of(file))}
    assert not found & BANNED.keys()


@pytest.mark.parametrize("name", class_uncertainty.__all__)
def test_public_name_resolves(name):
    assert getattr(class_uncertainty, name) is not None


def test_public_names_are_sorted_and_unique():
    """Constants, then classes, then functions, as ruff sorts them."""
    names = class_uncertainty.__all__
    assert names == sorted(names, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name))
    assert len(names) == len(set(names))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = class_uncertainty.nonsense


def loaded_with(*modules):
    """All that is loaded once these modules are imported."""
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert loaded.issuperset(modules)
    return loaded


def test_import_is_light():
    """What the first line of every script costs: nothing heavy before it is used."""
    assert not loaded_with(NAME) & {*LATE, "numpy"}


def test_what_uses_a_model_imports_nothing_that_searches():
    """No store, and no workflow that trains."""
    allowed = {f"{NAME}.workflows.{module}" for module in ("predict", "model")}
    loaded = loaded_with(f"{NAME}.workflows.predict", f"{NAME}.workflows.model", f"{NAME}.integrations.export")
    assert {name for name in loaded if name.startswith((f"{NAME}.runs.", f"{NAME}.workflows."))} <= allowed


def test_a_fix_is_planned_without_torch():
    """The command line takes its defaults from there, and refuses before torch is imported."""
    assert "torch" not in loaded_with(f"{NAME}.workflows.fix_plan")


def test_modules_are_there_before_anything_is_imported_from_them():
    code = f"import {NAME} as cu; print(cu.metrics.__name__, cu.training.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [f"{NAME}.metrics", f"{NAME}.training"]


def test_every_exception_names_a_row_and_a_check_of_it():
    """A contract's exception for a row that is gone, or for a check that no longer runs, is deleted with it."""
    held = {(name, check.__name__) for name, row in MEASURES.items() for check in measure_checks(row)}
    held |= {(name, check.__name__) for name, row in METHODS.items() for check in method_checks(name, row)}
    held |= {(name, check.__name__) for name, loss in losses_of(losses).items() for check in loss_checks(loss)}
    assert set(EXCEPTIONS) <= held
    assert all(EXCEPTIONS.values())
