"""The cache of decoded pictures: decoded once, never stale, never half there, and shared by processes."""

import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused

from class_uncertainty.errors import InputError, MachineFault

module = importlib.import_module(
    "class_uncertainty.data.cache"
)  # by this way always the module, whatever the package calls so
cached, Decoding = module.cached, module.Decoding

PIXELS = np.random.default_rng(20231114).integers(0, 256, (7, 3, 4, 5), dtype=np.uint8)
LABELS = np.array([2, 0, 1, 1, 0, 2, 2])
CLASSES = ("cat", "dog\udce9", "fly\nswarm")
PRINTED = ("cat", "dog\\udce9", "fly\\nswarm")
OTHER = 255 - PIXELS


class Build:
    """Makes a Decoding in batches of three, and counts how often it was asked to."""

    def __init__(self, pixels=PIXELS):
        self.pixels, self.calls = pixels, 0

    def __call__(self):
        self.calls += 1
        return Decoding(
            LABELS, CLASSES, self.pixels.shape[1:], (self.pixels[i : i + 3] for i in range(0, len(LABELS), 3))
        )


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "decoded"))
    return tmp_path / "decoded"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "source.bin").write_bytes(b"some content")
    return tmp_path / "source.bin"


def check(data, pixels=PIXELS):
    assert np.array_equal(data.inputs, pixels)
    assert data.inputs.dtype == np.uint8
    assert data.labels.tolist() == LABELS.tolist()
    assert data.classes == PRINTED


def entry(cache):
    (only,) = cache.iterdir()
    return only


# Decoded once.


def test_a_second_load_decodes_nothing(cache, file):
    first, second = Build(), Build(OTHER)
    check(cached("pictures", [file], first, size=4))
    check(cached("pictures", [file], second, size=4))
    assert (first.calls, second.calls) == (1, 0)
    assert not entry(cache).name.startswith("partial-")


def test_what_lies_on_disk_is_plain_numpy(cache, file):
    cached("pictures", [file], Build())
    assert np.array_equal(np.load(entry(cache) / "inputs.npy"), PIXELS)
    assert np.load(entry(cache) / "labels.npy").tolist() == LABELS.tolist()


def test_pixels_are_mapped_not_read(file):
    array = cached("pictures", [file], Build()).inputs
    while not isinstance(array, np.memmap):
        array = array.base
        assert array is not None


def test_writing_into_the_pixels_leaves_the_file_as_it_is(cache, file):
    """torch warns of arrays that cannot be written into, and a warning is an error here."""
    data = cached("pictures", [file], Build())
    before = (entry(cache) / "inputs.npy").read_bytes()
    torch.from_numpy(data.inputs).zero_()
    assert not data.inputs.any()
    assert (entry(cache) / "inputs.npy").read_bytes() == before
    check(cached("pictures", [file], Build(OTHER)))


def test_pixels_stay_when_the_cache_is_emptied(cache, file):
    """On the systems we run on, a mapped file lives until the last reader lets go."""
    data = cached("pictures", [file], Build())
    for path in entry(cache).iterdir():
        path.unlink()
    check(data)


def test_a_relative_folder(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", "here/deeper")
    check(cached("pictures", [file], Build()))
    again = Build(OTHER)
    check(cached("pictures", [Path("source.bin")], again))  # the same file by another name
    assert again.calls == 0
    assert len(list((tmp_path / "here" / "deeper").iterdir())) == 1


def test_the_folder_where_none_is_named(tmp_path, monkeypatch, file):
    monkeypatch.delenv("CLASS_UNCERTAINTY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cached("pictures", [file], Build())
    assert len(list((tmp_path / "xdg" / "class-uncertainty" / "decoded").iterdir())) == 1


# Never stale.


def later(change, file):
    """Changes the file until its ctime says so: a file system's clock may tick every few milliseconds only."""
    before = file.stat()
    change(file, before)
    while file.stat().st_ctime_ns == before.st_ctime_ns:
        time.sleep(0.002)
        change(file, before)


def same_size(file, before):
    file.write_bytes(b"SOME CONTENT")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def other_size(file, before):
    file.write_bytes(b"some content and more")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def in_place_with_the_old_time(file, before):
    file.write_bytes(b"SOME CONTENT")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced_with_the_old_time(file, before):
    new = file.with_name("new")
    in_place_with_the_old_time(new, before)
    os.replace(new, file)


@pytest.mark.parametrize("change", [same_size, other_size, in_place_with_the_old_time, replaced_with_the_old_time])
def test_a_changed_source_is_decoded_again(file, change):
    cached("pictures", [file], Build())
    later(change, file)
    check(cached("pictures", [file], Build(OTHER)), OTHER)


def test_every_file_counts_and_their_order_too(tmp_path, file):
    other = tmp_path / "other.bin"
    other.write_bytes(b"some content")
    builds = [Build() for _ in range(5)]
    for files, build in zip(([file], [other], [file, other], [other, file], [file, other]), builds, strict=True):
        cached("pictures", files, build)
    assert [build.calls for build in builds] == [1, 1, 1, 1, 0]


def test_every_option_counts_and_the_name_too(cache, file):
    asked = [
        ("a", {}),
        ("b", {}),
        ("a", {"size": 4}),
        ("a", {"size": 5}),
        ("a", {"side": 4}),
        ("a", {"size": "4"}),
        ("a", {"size": None}),
    ]
    for i, (what, options) in enumerate(asked):
        check(cached(what, [file], Build(PIXELS + np.uint8(i)), **options), PIXELS + np.uint8(i))
    for i, (what, options) in enumerate(asked):
        check(cached(what, [file], Build(OTHER), **options), PIXELS + np.uint8(i))
    assert len(list(cache.iterdir())) == len(asked)


def test_the_order_of_options_does_not_count(file):
    again = Build()
    cached("pictures", [file], Build(), size=4, channels=3)
    cached("pictures", [file], again, channels=3, size=4)
    assert again.calls == 0


# Never half there.


def about(**changes):
    """Damage to about.json that leaves the rest of it as it is."""
    return lambda place: (place / "about.json").write_text(
        json.dumps(json.loads((place / "about.json").read_text()) | changes)
    )


def flip_a_byte(place):
    time.sleep(0.02)  # or the file system's clock may not have gone on since it was written
    with open(place / "inputs.npy", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(bytes([PIXELS.flat[-1] ^ 1]))


def flip_with_the_old_time(place, name, at=-1):
    before, content = (place / name).stat(), bytearray((place / name).read_bytes())
    content[at] ^= 1
    (place / name).write_bytes(content)
    os.utime(place / name, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut_with_the_old_time(place):
    before = (place / "inputs.npy").stat()
    os.truncate(place / "inputs.npy", 150)
    os.utime(place / "inputs.npy", ns=(before.st_atime_ns, before.st_mtime_ns))


DAMAGE = {
    "inputs cut": lambda place: os.truncate(place / "inputs.npy", 150),
    "inputs cut with the old time": cut_with_the_old_time,
    "inputs empty": lambda place: (place / "inputs.npy").write_bytes(b""),
    "a byte of the inputs": flip_a_byte,
    "no inputs": lambda place: (place / "inputs.npy").unlink(),
    "no labels": lambda place: (place / "labels.npy").unlink(),
    "labels of text": lambda place: (place / "labels.npy").write_text("cat, dog"),
    "nothing": lambda place: [file.unlink() for file in place.iterdir()],
    "no about": lambda place: (place / "about.json").unlink(),
    "about is a folder": lambda place: [(place / "about.json").unlink(), (place / "about.json").mkdir()],
    "about empty": lambda place: (place / "about.json").write_bytes(b""),
    "about of garbage": lambda place: (place / "about.json").write_bytes(b"\xff\x00{]"),
    "about half": lambda place: os.truncate(place / "about.json", 20),
    "about a list": lambda place: (place / "about.json").write_text("[1, 2]"),
    "about a number": lambda place: (place / "about.json").write_text("5"),
    "a state of text": about(**{"inputs.npy": "large"}),
    "a state of floats": about(**{"labels.npy": [1.5, 2.5]}),
    "classes a number": about(classes=5),
    "classes null": about(classes=None),
    "classes of text": about(classes="abc"),
    "classes of numbers": about(classes=[7, 8, 9]),
    "about deep": lambda place: (place / "about.json").write_text("[" * 100_000),
    "a byte of the inputs with the old times": lambda place: flip_with_the_old_time(place, "inputs.npy"),
    "a byte of the labels with the old times": lambda place: flip_with_the_old_time(place, "labels.npy"),
    "a bit of the first label": lambda place: flip_with_the_old_time(place, "labels.npy", -8 * len(LABELS)),
    "classes too few": about(classes=["cat", "dog"]),
    "classes twice": about(classes=["cat", "cat", "dog"]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_made_again(cache, file, damage):
    cached("pictures", [file], Build())
    DAMAGE[damage](entry(cache))
    build = Build()
    check(cached("pictures", [file], build))
    assert build.calls == 1
    check(cached("pictures", [file], Build(OTHER)))  # and stays
    assert sorted(path.name for path in entry(cache).iterdir()) == ["about.json", "inputs.npy", "labels.npy"]


def test_an_entry_under_another_name_is_none(cache, file, notices):
    cached("pictures", [file], Build(), size=4)
    other, build = entry(cache), Build()
    cached("pictures", [file], Build(), size=5)
    (mine,) = [place for place in cache.iterdir() if place != other]
    shutil.rmtree(mine)
    shutil.copytree(other, mine)
    check(cached("pictures", [file], build, size=5))
    assert build.calls == 1
    assert len(notices) == 1
    assert mine.name in notices[0]


def test_all_is_synced_before_an_entry_has_its_name(cache, file, monkeypatch):
    told, fsync, rename = [], os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda d: [told.append("sync"), fsync(d)])
    monkeypatch.setattr(os, "rename", lambda a, b: [told.append("rename"), rename(a, b)])
    cached("pictures", [file], Build())
    assert told == ["sync"] * 4 + ["rename", "sync"]  # three files and their folder, then the cache's


class Gone(Exception):
    pass


@pytest.mark.parametrize("kind", [Gone, InputError, OSError, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_what_fails_between_batches_leaves_nothing(cache, file, kind):
    def batches():
        yield PIXELS[:3]
        assert len(list(entry(cache).iterdir())) == 1  # half-written now
        raise kind

    with pytest.raises(kind):
        cached("pictures", [file], lambda: Decoding(LABELS, CLASSES, PIXELS.shape[1:], batches()))
    assert list(cache.iterdir()) == []
    check(cached("pictures", [file], Build()))


def test_a_progress_that_fails_leaves_nothing(cache, file):
    def stop(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("pictures", [file], Build(), stop)
    assert list(cache.iterdir()) == []


def test_a_build_that_fails_leaves_the_folder_alone(cache, file):
    def build():
        raise InputError("no.")

    with refused("no."):
        cached("pictures", [file], build)
    assert not cache.exists()


def test_fewer_pictures_than_promised_are_not_passed_off_as_all(file):
    with pytest.raises(MachineFault, match=r"^cache "):
        cached("pictures", [file], lambda: Decoding(LABELS, CLASSES, PIXELS.shape[1:], iter([PIXELS[:3]])))


# Progress.


def test_progress_is_told_after_every_batch(file):
    told = []
    cached("pictures", [file], Build(), lambda *news: told.append(news))
    assert told == [("pictures", 3, 7), ("pictures", 6, 7), ("pictures", 7, 7)]


def test_progress_is_silent_where_nothing_is_decoded(file):
    told = []
    cached("pictures", [file], Build())
    cached("pictures", [file], Build(), lambda *news: told.append(news))
    assert told == []


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
