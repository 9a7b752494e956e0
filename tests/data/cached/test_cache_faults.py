"""Entries are never half there: damage, and builds that fail."""

import errno
import os

import numpy as np
import pytest
from data.cached.builds import CLASSES, LABELS, OTHER, PIXELS, Build, Decoding, cached, check, entry
from refusals import refused

from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.io import SEAL_LENGTH


def flipped(place):
    """Damage to one bit of the file, that leaves its times as they are."""

    def damage(file):
        before, content = file.stat(), bytearray(file.read_bytes())
        content[place] ^= 1
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    return damage


def cut(size):
    return lambda file: os.truncate(file, size)


def described(old, new):
    """A description that was edited, and is as long as before."""
    return lambda file: file.write_bytes(file.read_bytes().replace(old, new))


DAMAGE = {
    "cut": cut(150),
    "cut by one byte": lambda file: os.truncate(file, file.stat().st_size - 1),
    "one byte longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "empty": cut(0),
    "shorter than a checksum": cut(20),
    "of zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "of garbage": lambda file: file.write_bytes(b"\xff\x00{]" * 500),
    "the first bit": flipped(0),
    "the last bit of the inputs": flipped(PIXELS.nbytes - 1),
    "a bit of the description": flipped(PIXELS.nbytes + 30),
    "a bit of the checksum": flipped(-1),
    "the length of the description": flipped(-SEAL_LENGTH - 1),
    "other labels": described(b'"labels": [2', b'"labels": [0'),
    "other classes": described(b'"cat"', b'"cow"'),
    "no checksum": lambda file: file.write_bytes(file.read_bytes()[:-SEAL_LENGTH]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_made_again(cache, file, damage, notices):
    cached("pictures", [file], Build())
    DAMAGE[damage](entry(cache))
    build = Build()
    check(cached("pictures", [file], build))
    assert build.calls == 1
    assert len(notices) == 1
    check(cached("pictures", [file], Build(OTHER)))  # and stays
    assert len(notices) == 1


def test_an_entry_under_another_name_is_none(cache, file, notices):
    cached("pictures", [file], Build(), size=4)
    other, build = entry(cache), Build()
    cached("pictures", [file], Build(), size=5)
    (mine,) = [place for place in cache.iterdir() if place != other]
    mine.write_bytes(other.read_bytes())
    check(cached("pictures", [file], build, size=5))
    assert build.calls == 1
    assert len(notices) == 1
    assert mine.name in notices[0]


def test_all_is_synced_before_an_entry_has_its_name(cache, file, monkeypatch):
    told, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda d: [told.append("sync"), fsync(d)])
    monkeypatch.setattr(os, "replace", lambda a, b: [told.append("rename"), replace(a, b)])
    cached("pictures", [file], Build())
    assert told == ["sync", "rename", "sync"]  # the file, then the folder


def test_a_file_that_cannot_be_mapped_is_a_machine_fault(file, monkeypatch):
    def no_memory(*_, **__):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(np, "memmap", no_memory)
    with refused("cache", os.strerror(errno.ENOMEM), kind=MachineFault):
        cached("pictures", [file], Build())


class Gone(Exception):
    pass


@pytest.mark.parametrize("kind", [Gone, InputError, OSError, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_what_fails_between_batches_leaves_nothing(cache, file, kind):
    def batches():
        yield PIXELS[:3]
        assert 0 < entry(cache).stat().st_size < PIXELS.nbytes  # half-written now
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
