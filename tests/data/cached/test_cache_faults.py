"""Entries are never half there: damage, and builds that fail."""

import json
import os
import shutil
import time

import pytest
from data.cached.builds import CLASSES, LABELS, OTHER, PIXELS, Build, Decoding, cached, check, entry
from refusals import refused

from class_uncertainty.errors import InputError, MachineFault


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
