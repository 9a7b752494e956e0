"""Whether the package installs elsewhere: `make test-install` tries versions, `make dist` builds and tries a wheel."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
PINS = ROOT / "constraints.txt"
RESOLVER = "pip==26.3"  # its dry run downloads no wheel where fast-deps is on
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = (".", ".[dev]", ".[docs]")  # what make demo, make test and make docs install
# A glibc of 2.28, as torch needs, takes wheels for every older one too, but pip wants each named.
PLATFORMS = ["manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(5, 29))]
REACHING = {"PIP_CERT", "PIP_CLIENT_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_PROXY"}  # how an index is reached, not which
PROBES = ((0, "--help"), (0, "measure", "--help"), (2, "measure"))  # exit code, arguments; older typers crash
READERS = "tests/data/own"  # they use most of Pillow and pyarrow, which the demo does not
NOT_SOURCE = (".ci/", "results/")  # folders of the repository that no archive takes along


def run(*command: str | Path, cwd: Path = ROOT, environment: dict[str, str] | None = None, code: int = 0) -> str:
    """What it prints; ends this script, with all that the command said, where its exit code is another."""
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{done.stdout}{done.stderr}{' '.join(map(str, command))}: exit code {done.returncode}, not {code}.")
    return done.stdout


def new_venv(folder: Path) -> Path:
    """The Python of a new virtual environment."""
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def public_index() -> dict[str, str]:
    """The environment without settings of pip, so that local wheels and other indexes cannot hide a conflict."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_") or name in REACHING}
    return {**kept, "PIP_CONFIG_FILE": os.devnull}


def resolve(python: Path, version: str, package: str, folder: Path) -> str:
    """What pip would install on Linux x86_64. It judges markers such as python_version by the Python that runs it."""
    report = folder / f"{version}{package}.json"
    platforms = [f"--platform={platform}" for platform in PLATFORMS]
    # Where the index serves no metadata apart, fast-deps reads it out of wheels without downloading gigabytes.
    dry = ["--dry-run", "--ignore-installed", "--use-feature=fast-deps", f"--report={report}"]
    where = [f"--python-version={version}", *platforms, "--only-binary=:all:", f"--target={folder / 'target'}"]
    run(python, "-m", "pip", "install", *dry, *where, "--constraint", PINS, package, environment=public_index())
    installs = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    versions = {metadata["name"].lower(): metadata["version"] for metadata in installs}
    named = ", ".join(f"{name} {versions[name]}" for name in ("torch", "triton"))
    return f"Python {version}, {package}: {len(versions)} packages, {named}"


def lowest() -> list[str]:
    """The lower bound of each dependency as a pin; torch stays as pinned: older ones bring gigabytes of CUDA."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return [line.replace(">=", "==") for line in dependencies if not line.startswith("torch>=")] + pinned("torch")


def pinned(*names: str) -> list[str]:
    return [line for line in PINS.read_text().splitlines() if line.partition("==")[0] in names]


def without_source() -> dict[str, str]:
    """The environment in which the installed package is found, never its source."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def try_out(python: Path, folder: Path) -> None:
    """The commands of an installed package, in a folder of its own."""
    cu = python.with_name("cu")
    environment = without_source()
    for code, *arguments in PROBES:
        run(cu, *arguments, cwd=folder, environment=environment, code=code)
    document = json.loads(run(cu, "demo", "--json", cwd=folder, environment=environment))
    print(f"cu demo ran and wrote {(folder / document['report']).stat().st_size} bytes of report", flush=True)


def test_install(folder: Path) -> None:
    if sys.version_info >= (3, 13):
        sys.exit("The lowest versions have wheels for Python 3.11 and 3.12; say which with make PYTHON=python3.11.")
    python = new_venv(folder / "resolver")
    run(python, "-m", "pip", "install", RESOLVER, environment=public_index())
    with ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(resolve, python, version, extra, folder) for extra in EXTRAS for version in PYTHONS]
        for attempt in tries:
            print(attempt.result(), flush=True)
    pins = lowest()
    print("Installing the lowest versions:", *pins, flush=True)
    python = new_venv(folder / "lowest")
    run(python, "-m", "pip", "install", "--only-binary=:all:", ".", *pins, *pinned("pytest", "hypothesis"))
    try_out(python, folder)
    run(python, "-m", "pytest", READERS, environment=without_source())
    print(f"{READERS} passed", flush=True)


def wrong_files(archive: Path, wheel: Path) -> list[str]:
    """What a source archive and a wheel lack of the files that Git tracks, and what else they hold, as sentences."""
    tracked = set(run("git", "ls-files").splitlines())
    with tarfile.open(archive) as tar:
        source = {name.partition("/")[2] for name in tar.getnames()} - {"PKG-INFO"}
    with zipfile.ZipFile(wheel) as packed:
        installed = {name for name in packed.namelist() if ".dist-info/" not in name}
    wanted = {name for name in tracked if not name.startswith(NOT_SOURCE)}
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    wrong = []
    for built, held, expected in ((archive, source, wanted), (wheel, installed, package)):
        wrong += [f"{built.name} lacks {name}." for name in sorted(expected - held)]
        wrong += [f"{built.name} holds {name}, which Git does not track." for name in sorted(held - expected)]
    return wrong


def dist(folder: Path) -> None:
    """Only what works gets into dist/."""
    built = folder / "built"
    python = new_venv(folder / "builder")
    run(python, "-m", "pip", "install", "--constraint", PINS, "build")
    run(python, "-m", "build", "--outdir", built)  # the wheel from the source archive
    (archive,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    if wrong := wrong_files(archive, wheel):
        sys.exit("\n".join(wrong))
    print(f"Installing {wheel.name}", flush=True)
    python = new_venv(folder / "clean")
    run(python, "-m", "pip", "install", "--constraint", PINS, wheel)
    try_out(python, folder)
    (ROOT / "dist").mkdir(exist_ok=True)
    for file in (archive, wheel):
        print("wrote", shutil.copy(file, ROOT / "dist"), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix=".install-", dir=ROOT) as temporary:
        {"test-install": test_install, "dist": dist}[sys.argv[1]](Path(temporary))
