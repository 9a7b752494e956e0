"""Commands in which one system call fails: what must hold then, and when the same command runs again.

A scene is a command in a small folder; a fault is what the k-th call of some kinds meets. After it the command has
given the right result, or has ended with exit code 1 and a sentence. The store opens and is intact, and the same
command, undisturbed, gives the same bits.
"""

import errno
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from commands import told
from example_results import export_text
from PIL import Image

from class_uncertainty.io import MARK

HERE = Path(__file__).parent
SHORT = ("--epochs", "2", "--members", "2", "--json")
COMPARE = ("compare", "digits-lt:20", "--methods", "naive,ubrs", "--seeds", "1", *SHORT)
MEASURE = ("measure", "folder:../pictures", *SHORT)
TRAIN = ("train", "digits-lt:20", "--save", "model", *SHORT)
FIX_SHORT = ("--epochs", "2", "--candidates", "naive", "--trainings", "8", "--seeds", "1", "--json")
FIX = ("fix", "digits-lt:20", "--save", "model", *FIX_SHORT)
TIMES = re.compile(rb'<td data-sort="[0-9.e-]+">[0-9.]+ (s|min|h)</td>')  # of the steps of a fix, in its report
Words = tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """A command, what runs before it, a file of that to remove, and the rename at which a first try was killed."""

    words: Words
    before: Words = ()
    without: str | None = None
    killed: int = 0


SCENES = {
    "compare": Scene(COMPARE),
    "compare, resumed": Scene(COMPARE, killed=2),  # one member's checkpoint is there
    "compare, stored": Scene(COMPARE, COMPARE),
    "measure, pictures": Scene(MEASURE),
    "measure, cached": Scene(MEASURE, MEASURE, without="runs.sqlite"),
    "train": Scene(TRAIN),
    "predict": Scene(("predict", "model", "../pictures", "--json"), TRAIN),
    "report": Scene(("report", "--json"), COMPARE),
    "report, pictures": Scene(("report", "--figures", "charts", "--json"), MEASURE),
    "fix": Scene(FIX),
    "results export": Scene(("results", "export", "a.jsonl", "--json"), COMPARE),
    "results import": Scene(("results", "import", "../results.jsonl", "--json")),
}


@dataclass(frozen=True)
class Fault:
    """What the k-th call of these kinds meets; if it is sticky, all later ones too."""

    kinds: Words
    way: str = "fail"
    error: int = errno.EIO
    sticky: bool = False

    @property
    def is_harmless(self) -> bool:
        """Cut-short reads are every program's to go on from."""
        return self.kinds == ("read",) and self.way == "short"


NOTHING = Fault((), "pass")
FAULTS = {
    "write: no space": Fault(("write",), error=errno.ENOSPC),
    "write: no space from then on": Fault(("write",), error=errno.ENOSPC, sticky=True),
    "write: half, then no space": Fault(("write",), "short", errno.ENOSPC),
    "write: I/O error": Fault(("write",)),
    "sync: I/O error": Fault(("sync",)),
    "sync: I/O error from then on": Fault(("sync",), sticky=True),
    "rename: I/O error": Fault(("rename",)),
    "read: I/O error": Fault(("read",)),
    "read: I/O error from then on": Fault(("read",), sticky=True),
    "read: half": Fault(("read",), "short"),
    "open: no permission": Fault(("open",), error=errno.EACCES),
    "open: too many files": Fault(("open",), error=errno.EMFILE),
    "unlink: no permission": Fault(("unlink",), error=errno.EACCES),
    "truncate: I/O error": Fault(("truncate",)),
    "mkdir: no space": Fault(("mkdir",), error=errno.ENOSPC),
    "map: no memory": Fault(("map",), error=errno.ENOMEM),
    "kill -9": Fault(("write", "sync", "rename", "open", "unlink", "truncate", "mkdir"), "kill"),
}


@cache
def unavailable() -> str:
    """Why no faults can be made here; "" where they can."""
    if not sys.platform.startswith("linux"):
        return "faults are made by LD_PRELOAD, which needs Linux"
    return "" if shutil.which("cc") else "the shim is C, and there is no compiler called cc"


def build_shim(folder: Path) -> Path:
    shim = folder / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-o", shim, HERE / "shim.c", "-ldl"], check=True)
    return shim


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (negative: a signal), output, calls by kind, and how many were faults."""

    code: int
    out: str
    err: str
    calls: dict[str, int]
    faults: int


class Stage:
    """A server, and a folder in which scenes are played one at a time. Calls on files below `played` count."""

    def __init__(self, folder: Path, shim: Path) -> None:
        self.folder, self.played = folder, folder / "played"
        self.left: dict[Words, Path] = {}
        self.played.mkdir(parents=True)
        one = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
        )  # and no threads before a fork
        environment = os.environ | one | {"LD_PRELOAD": str(shim)}
        words = [sys.executable, str(HERE / "server.py")]
        self.server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
        for number in range(16):
            path = self.played / "pictures" / ("test" if number > 11 else "train") / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.effect_noise((8, 8), 10 + 5 * number).save(path)
        (self.played / "results.jsonl").write_bytes(export_text())

    def close(self) -> None:
        self.server.communicate()

    def after(self, words: Words) -> Path:
        """The folder that a command leaves, undisturbed: several scenes begin with it."""
        if words not in self.left:
            where = self.played / f"after {len(self.left)}"
            where.mkdir()
            ended = self.run(words, where)
            assert ended.code == 0, ended.err
            self.left[words] = where
        return self.left[words]

    def run(self, words: Words, where: Path, fault: Fault = NOTHING, k: int = 0) -> Ended:
        out, err = self.folder / "out", self.folder / "err"
        job = {"words": words, "cwd": str(where), "out": str(out), "err": str(err), "folder": str(self.played), "k": k}
        job |= {"kinds": fault.kinds, "way": fault.way, "error": fault.error, "sticky": fault.sticky}
        assert self.server.stdin
        assert self.server.stdout
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        answer = json.loads(self.server.stdout.readline())
        return Ended(out=out.read_text(), err=err.read_text(), **answer)


@dataclass
class Played:
    """A scene on a stage: how it goes undisturbed, and how with faults."""

    stage: Stage
    scene: Scene
    start: Path = field(init=False)  # the folder as the command finds it
    calls: dict[str, int] = field(init=False)
    right: Any = field(init=False)  # what it gives

    def __post_init__(self) -> None:
        self.start = self.stage.played / "start"
        shutil.rmtree(self.start, ignore_errors=True)
        self.start.mkdir()
        if self.scene.before:
            shutil.copytree(self.stage.after(self.scene.before), self.start, dirs_exist_ok=True)
        if self.scene.without:
            (self.start / self.scene.without).unlink()
        if self.scene.killed:
            ended = self.stage.run(self.scene.words, self.start, Fault(("rename",), "kill"), self.scene.killed)
            assert ended.code == -9, ended.err
        where = self._fresh()
        ended = self.stage.run(self.scene.words, where)
        assert ended.code == 0, ended.err
        self.calls, self.right = ended.calls, _given(ended, where)

    def _fresh(self) -> Path:
        where = self.stage.played / "here"
        shutil.rmtree(where, ignore_errors=True)
        return shutil.copytree(self.start, where)

    def cases(self) -> Iterator[tuple[str, int]]:
        """Every fault, and every k that it can happen at."""
        for name, fault in FAULTS.items():
            for k in range(1, sum(self.calls[kind] for kind in fault.kinds) + 1):
                yield name, k

    def broken(self, name: str, k: int) -> list[str]:
        """What did not hold when the k-th call met that fault, and after it."""
        where, fault = self._fresh(), FAULTS[name]
        ended = self.stage.run(self.scene.words, where, fault, k)
        lines = told(ended.err)
        broken = [
            f"stderr: {line}"
            for line in lines
            if not (line.startswith("cu: ") and line.endswith(".")) or "None" in line
        ]
        if not ended.faults:
            broken.append(f"there was no {k}-th call, exit code {ended.code}")
        if fault.way == "kill":
            if ended.code != -9:
                broken.append(f"exit code {ended.code} of a killed process")
        elif ended.code == 0:
            if _given(ended, where) != self.right:
                broken.append(f"exit code 0 and another result, {lines}")
        elif ended.code != 1 or fault.is_harmless:
            broken.append(f"exit code {ended.code}, {lines[-1:]}")
        elif not lines or ended.out:
            broken.append(f"exit code 1, {len(lines)} lines on stderr, {len(ended.out)} characters on stdout")
        broken += self._unreadable(where)
        again = self.stage.run(self.scene.words, where)
        if again.code:
            broken.append(f"then exit code {again.code}, {again.err.splitlines()[-1:]}")
        elif _given(again, where) != self.right:
            broken.append("then another result")
        return broken + self._unreadable(where)

    def _unreadable(self, where: Path) -> list[str]:
        """What is wrong with the store; a copy is opened, for opening it repairs what a kill has left."""
        copies = self.stage.folder / "copies"
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir()
        for file in where.glob("runs.sqlite*"):
            if file.is_file():
                shutil.copy(file, copies)
        try:
            with closing(sqlite3.connect(copies / "runs.sqlite")) as connection:
                (state,) = connection.execute("PRAGMA integrity_check").fetchone()
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            state = str(error)
        return [] if state == "ok" else [f"the store: {state}"]


def _given(ended: Ended, where: Path) -> Any:
    """What a command printed and wrote, without the time that it took."""
    try:
        files: dict[str, Any] = {path.name: path.read_bytes() for path in sorted(where.glob("model.*"))}
        files |= {
            path.name: path.read_bytes()
            for form in ("*.html", "*.csv", "*.jsonl", "charts/*.svg", "charts/*.png")
            for path in sorted(where.glob(form))
        }
        files |= {name: _timeless(json.loads(content)) for name, content in files.items() if name.endswith(".json")}
        pages = {name: TIMES.sub(b"", content) for name, content in files.items() if name.endswith(".html")}
        files |= {name: MARK.sub(rb"\1", page) for name, page in pages.items()}  # its checksum is of the times, too
        return _timeless(json.loads(ended.out)), files
    except ValueError as error:
        return str(error)


def _timeless(document: Any) -> Any:
    if isinstance(document, dict):
        # checksum and mark of a saved network are of its seconds too; a try that was killed may have added results
        timed = ("seconds", "checksum", "mark", "added")
        return {name: _timeless(value) for name, value in document.items() if name not in timed}
    return [_timeless(value) for value in document] if isinstance(document, list) else document
