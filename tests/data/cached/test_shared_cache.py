"""A cache that other processes use too, on disks that are full or closed."""

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from data.cached.builds import CLASSES, LABELS, PIXELS, Build, Decoding, cached, check, entry
from refusals import refused

from class_uncertainty import io
from class_uncertainty.errors import MachineFault

# What others left.


def test_what_a_killed_process_left_is_removed_after_a_day(cache, file):
    ages = {"a.cache.1-2.partial": 25, "b.cache.1-2.partial": 23, "an-old-entry.cache": 25, "notes.partial": 25}
    cache.mkdir()
    for name, hours in ages.items():
        (cache / name).write_bytes(b"pixels")
        os.utime(cache / name, (time.time() - hours * 3600,) * 2)
    check(cached("pictures", [file], Build()))
    left = {path.name for path in cache.iterdir()}
    assert left & ages.keys() == ages.keys() - {"a.cache.1-2.partial"}
    assert len(left) == len(ages)  # the new entry, less the old file


# Several processes.


def test_another_may_decode_all_of_it_meanwhile(cache, file):
    def batches():
        yield PIXELS[:3]
        with ThreadPoolExecutor(1) as other:
            early.append(other.submit(cached, "pictures", [file], Build()).result())
        yield PIXELS[3:]

    early = []
    check(cached("pictures", [file], lambda: Decoding(LABELS, CLASSES, PIXELS.shape[1:], batches())))
    check(early[0])  # its pixels stay mapped when the file is replaced
    assert entry(cache).suffix == ".cache"


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
    assert entry(cache).suffix == ".cache"


# A folder that cannot be used.


FULL = {  # most bytes of a file, pictures, their side
    "no room at all": (1, 9, 8),
    "the first batch": (50, 9, 8),
    "a batch in the middle": (200_000, 9, 200),
    "the description": (600, 9, 8),
    "the checksum": (750, 9, 8),
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

    monkeypatch.setattr(io, "open", no_room, raising=False)
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
