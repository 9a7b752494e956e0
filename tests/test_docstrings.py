"""Public names explain themselves: NumPy-style sections, and examples that run."""

import doctest
import inspect
import pkgutil
import re
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest

import class_uncertainty as cu

CALLABLES = [name for name in cu.__all__ if callable(getattr(cu, name))]
NEEDS = {"class_uncertainty.training.kernels.programs": "triton"}
NEEDS |= {"class_uncertainty.integrations.lightning": "lightning"}
NEEDS |= {f"class_uncertainty.scale.ray_{part}": "ray" for part in ("cluster", "executor", "task")}
MODULES = [module.name for module in pkgutil.walk_packages(cu.__path__, prefix="class_uncertainty.")]
MODULES = [name for name in MODULES if name not in NEEDS or (NEEDS[name] != "triton" and find_spec(NEEDS[name]))]


def sections(name: str) -> set[str]:
    """The underlined headings of the docstring of a public name."""
    return set(re.findall(r"^(\w+)\n-{3,}$", inspect.getdoc(getattr(cu, name)) or "", flags=re.MULTILINE))


def missing_sections(name: str) -> list[str]:
    value, present = getattr(cu, name), sections(name)
    wanted = ["Examples"]
    if not inspect.isclass(value):
        wanted = [*(["Parameters"] if inspect.signature(value).parameters else []), "Returns", "Examples"]
    elif not issubclass(value, Exception) and not present & {"Attributes", "Parameters"}:
        wanted = ["Attributes", "Examples"]
    return [section for section in wanted if section not in present]


@pytest.mark.parametrize("name", CALLABLES)
def test_public_names_are_documented(name):
    assert missing_sections(name) == [], f"the docstring of cu.{name} lacks sections"


@pytest.mark.parametrize("name", CALLABLES)
def test_the_first_line_is_a_summary(name):
    first, *rest = (inspect.getdoc(getattr(cu, name)) or "").splitlines() or [""]
    assert first.endswith(".")
    assert not rest or rest[0] == "", f"the summary of cu.{name} is longer than its first line"


def doctests(module: ModuleType) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(module, module.__name__, extraglobs={"cu": cu, "np": np})
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    for test in doctests(import_module(name)):
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        runner.run(test, out=report.append)
    assert report == [], "".join(report)


def test_examples_of_public_names_are_found():
    """A decorator may hide where a function is defined, and with it its examples."""
    tests = {test.name for module in MODULES for test in doctests(import_module(module))}
    hidden = [
        name
        for name in CALLABLES
        if "Examples" in sections(name) and f"{getattr(cu, name).__module__}.{name}" not in tests
    ]
    assert hidden == []
