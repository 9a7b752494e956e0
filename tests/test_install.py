"""pyproject.toml, constraints.txt and the Makefile agree; `make test-install` and `make dist` try what they say."""

import os
import re
import runpy
import tarfile
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = [Requirement(line) for line in PROJECT["dependencies"]]
OPTIONAL = [Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines]
LINES = (ROOT / "constraints.txt").read_text().splitlines()
INSTALL = runpy.run_path(str(ROOT / "tools/install.py"))
PINS = [Requirement(line) for line in LINES if not line.startswith("#")]


def decided_by_torch(name: str) -> bool:
    """CUDA packages are in the metadata of torch's CUDA builds alone."""
    required = {canonicalize_name(Requirement(line).name) for line in requires("torch") or ()}
    return name in required or name.startswith(("triton", "nvidia-", "cuda-"))


@pytest.mark.parametrize("name", ["sympy", "jinja2", "triton", "nvidia-nccl-cu13", "cuda-bindings"])
def test_torch_decides(name):
    assert decided_by_torch(name)


@pytest.mark.parametrize("pin", PINS, ids=str)
def test_pins(pin):
    """Exact, none that torch decides, each within the bounds of pyproject.toml."""
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    assert not decided_by_torch(canonicalize_name(pin.name))
    bounds = [wanted.specifier for wanted in CORE + OPTIONAL if wanted.name == pin.name]
    assert bounds or pin.name == "build"
    assert all(bound.contains(specifier.version) for bound in bounds)


@pytest.mark.parametrize("dependency", CORE, ids=str)
def test_dependencies(dependency):
    """A lower bound and nothing else, so that the lowest can be tried; pinned for the checks, unless torch decides."""
    assert [specifier.operator for specifier in dependency.specifier] == [">="]
    assert (dependency.name in {pin.name for pin in PINS}) != decided_by_torch(dependency.name)


def test_lowest():
    lowest = {pin.name: pin for pin in map(Requirement, INSTALL["lowest"]())}
    assert lowest.keys() == {dependency.name for dependency in CORE}
    assert str(lowest.pop("torch")) in LINES
    for dependency in CORE:
        if dependency.name in lowest:
            assert str(lowest[dependency.name].specifier) == str(dependency.specifier).replace(">=", "==")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive and the wheel, as `make dist` builds them, without a virtual environment."""
    from hatchling import build

    folder = tmp_path_factory.mktemp("dist")
    before = os.getcwd()
    os.chdir(ROOT)  # where a build looks for pyproject.toml
    try:
        return folder / build.build_sdist(str(folder)), folder / build.build_wheel(str(folder))
    finally:
        os.chdir(before)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="outside a Git checkout nothing says which files there are")
def test_archives_hold_the_files_of_the_repository(built):
    assert INSTALL["wrong_files"](*built) == []


def test_archives_hold_what_a_user_needs(built):
    archive, wheel = built
    package = [
        "py.typed",
        "reporting/page.html",
        "reporting/page_style.css",
        "reporting/page_script.js",
        "reporting/chart_style.css",
        "workflows/card.md.jinja",
        "training/kernels/whole_images.cu",
        "cli/entry.py",
    ]
    with zipfile.ZipFile(wheel) as packed:
        installed = packed.namelist()
    assert {f"class_uncertainty/{name}" for name in package} <= set(installed)
    assert [name for name in installed if name.endswith(".dist-info/licenses/LICENSE")]
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "tests/test_install.py", "pyproject.toml"} <= names
    assert not [name for name in (*installed, *names) if name.startswith(("results/", "tests/__pycache__"))]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="outside a Git checkout nothing says which files there are")
def test_files_that_are_missing_or_too_many_are_named(built, tmp_path):
    archive, wheel = built
    changed = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(changed, "w") as other:
        for name in packed.namelist():
            if name != "class_uncertainty/py.typed":
                other.writestr(name, "")
        other.writestr("class_uncertainty/runs.sqlite", "")
    missing, foreign = INSTALL["wrong_files"](archive, changed)
    assert "class_uncertainty/py.typed" in missing
    assert "class_uncertainty/runs.sqlite" in foreign


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_targets_that_are_named_exist(page):
    text = (ROOT / "Makefile").read_text()
    targets = {name for line in re.findall(r"^([a-z][\w -]*):", text, flags=re.MULTILINE) for name in line.split()}
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(), flags=re.MULTILINE))
    assert named >= {"README.md": {"demo", "test"}, "CONTRIBUTING.md": {"test-install", "dist"}}[page]
    assert named <= targets
