"""A cache that other processes use too, on disks that are full or closed."""

import errno
import os
import shutil
import subprocess
import sys
import time

import pytest
from data.cached.builds import CLASSES, LABELS, PIXELS, Build, Decoding, cached, check, entry, module
from refusals import refused

from class_uncertainty.errors import MachineFault

# What others left.


def test_what_a_killed_process_left_is_removed_after_a_day(cache, file):
    ages = {"partial-old": 25, "partial-young": 23, "an-old-entry": 25, "partial": 25}
    for name, hours in ages.items():
        (cache / name).mkdir(parents=True)
        (cache / name / "inputs.npy").write_bytes(b"pixels")
        os.utime(cache / name, (time.time() - hours * 3600,) * 2)
    check(cached("pictures", [file], Build()))
    left = {path.name for path in cache.iterdir()}
    assert left & ages.keys() == ages.keys() - {"partial-old"}
    assert len(left) == len(ages)  # the new entry, less the old folder


def test_an_old_partial_file_is_no_hindrance(cache, file):
    cache.mkdir()
    (cache / "partial-file").write_bytes(b"")
    os.utime(cache / "partial-file", (0, 0))
    check(cached("pictures", [file], Build()))


# Several processes.


def test_the_first_to_end_wins(cache, file):
    """While one decodes, another does all of it."""

    def batches():
        yield PIXELS[:3]
        cached("pictures", [file], Build())
        found.append(
            (next(path for path in cache.iterdir() if not path.name.startswith("partial-")) / "inputs.npy")
            .stat()
            .st_ino
        )
        yield PIXELS[3:]

    found = []
    check(cached("pictures", [file], lambda: Decoding(LABELS, CLASSES, PIXELS.shape[1:], batches())))
    assert found == [(entry(cache) / "inputs.npy").stat().st_ino]


def test_another_may_end_at_the_very_last_moment(cache, file, monkeypatch):
    def later(*names):
        monkeypatch.setattr(module.os, "rename", rename)
        cached("pictures", [file], Build())
        rename(*names)

    rename = os.rename
    monkeypatch.setattr(module.os, "rename", later)
    check(cached("pictures", [file], Build()))
    assert os.rename is rename  # it came to that
    assert not entry(cache).name.startswith("partial-")


def test_a_damaged_entry_that_another_mends_meanwhile(cache, file, monkeypatch):
    """Between looking at it and taking it away, another puts a whole one in its place: it is not lost."""
    cached("pictures", [file], Build())
    (entry(cache) / "about.json").write_text("{")
    seen, look = [], module._open

    def looked(place):
        found = look(place)
        seen.append(found is not None)
        if len(seen) == 2:  # ours is built, and the place is damaged still
            shutil.rmtree(place)
            cached("pictures", [file], Build())
        return found

    monkeypatch.setattr(module, "_open", looked)
    check(cached("pictures", [file], Build()))
    assert len([path for path in cache.iterdir() if not path.name.startswith("partial-")]) == 1


PROCESS = """
import importlib, resource, signal, sys, time
from pathlib import Path
import numpy as np
cache = importlib.import_module("class_uncertainty.data.cache")
here, me, limit, n, side = Path(sys.argv[1]), *map(int, sys.argv[2:])
pixels = (np.arange(n * side * side) % 251).astype(np.uint8).reshape(n, 1, side, side)
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

def batches():
    (here / f"started-{me}").touch()
    until = time.monotonic() + 30
    while len(list(here.glob("started-*"))) < (1 if limit else 2) and time.monotonic() < until:
        time.sleep(0.01)
    for i in range(0, n, 5):
        yield pixels[i : i + 5]

build = lambda: cache.Decoding(np.arange(n) % 2, ["a", "b"], pixels.shape[1:], batches())
try:
    data = cache.cached("pictures", [here / "source.bin"], build)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
assert np.array_equal(data.inputs, pixels)
assert data.labels.tolist() == [i % 2 for i in range(n)] and data.classes == ("a", "b")
"""


def process(file, me=0, limit=0, n=9, side=8):
    arguments = [sys.executable, "-c", PROCESS, str(file.parent), *map(str, (me, limit, n, side))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process):
    said, _ = process.communicate(timeout=60)
    return process.returncode, said.strip()


def test_two_processes_at_once(cache, file):
    both = [process(file, me) for me in range(2)]  # neither goes on before both have begun
    assert [ended(one) for one in both] == [(0, ""), (0, "")]
    assert not entry(cache).name.startswith("partial-")


# A folder that cannot be used.


FULL = {  # most bytes of a file, pictures, their side
    "no room for the header": (50, 9, 8),
    "a small file, written when it is flushed": (300, 9, 8),
    "a batch in the middle": (200_000, 9, 200),
    "the labels": (1000, 200, 1),
    "the labels, written when they are flushed": (140, 4, 1),
}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files to set")
@pytest.mark.parametrize("case", FULL)
def test_a_full_disk(cache, file, case):
    limit, n, side = FULL[case]
    code, said = ended(process(file, 0, limit, n, side))
    assert code == 1
    assert said.startswith(f"MachineFault: cache folder {cache} could not be written")
    assert os.strerror(errno.EFBIG) in said
    assert "CLASS_UNCERTAINTY_CACHE" in said
    assert list(cache.iterdir()) == []


def test_a_disk_without_room_for_another_file(cache, file, monkeypatch):
    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "open", no_room, raising=False)
    with refused(
        f"cache folder {cache} could not be written",
        os.strerror(errno.ENOSPC),
        "CLASS_UNCERTAINTY_CACHE",
        kind=MachineFault,
    ):
        cached("pictures", [file], Build())
    assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, file):
    for path in (file, file / "below"):
        monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(path))
        with refused(f"cache folder {path} could not be written", "CLASS_UNCERTAINTY_CACHE", kind=MachineFault):
            cached("pictures", [file], Build())
    assert file.read_bytes() == b"some content"
    assert [path.name for path in tmp_path.iterdir()] == ["source.bin"]


def test_a_folder_without_permission(cache, file):
    cache.mkdir(mode=0o500)
    if os.access(cache, os.W_OK):
        pytest.skip("permissions do not bind this user")
    with refused(f"cache folder {cache} could not be written", "CLASS_UNCERTAINTY_CACHE", kind=MachineFault):
        cached("pictures", [file], Build())
