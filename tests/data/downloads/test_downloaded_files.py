"""What is used of what is on the disk, disks that fail, and two downloads at once."""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from data.downloads.served import CONTENT, HALF, NAME, TOTAL, check_done, honest, leave, names, refusal, send

from class_uncertainty.data import download as module
from class_uncertainty.data.download import fetch
from class_uncertainty.errors import InputError, MachineFault

# What is used, and what is left alone.


@pytest.mark.parametrize("offered", [27, 10 * TOTAL])
def test_another_size_is_refused_before_anything_is_written(site, tmp_path, offered):
    """A page that asks for a password, say: what was fetched before stays."""
    leave(tmp_path, CONTENT[:HALF])
    site.answers = [lambda site, request, start: send(request, 200, b"<html>", Content_Length=offered)]
    refusal(
        MachineFault,
        tmp_path,
        f"the server offers {offered:,} bytes, and it has {TOTAL:,}",
        f"{HALF:,} of {TOTAL:,} bytes",
    )
    assert (tmp_path / f"{NAME}.partial").read_bytes() == CONTENT[:HALF]


def test_wrong_bytes_are_never_used(site, tmp_path):
    site.content = wrong = CONTENT[::-1]
    md5s = hashlib.md5(CONTENT).hexdigest(), hashlib.md5(wrong).hexdigest()
    refusal(
        MachineFault, tmp_path, NAME, *md5s, "try again, or", f"fetch {site.url} yourself and put it into {tmp_path}"
    )
    assert site.asked == [None]
    assert not {NAME, f"{NAME}.partial"} & set(names(tmp_path))
    site.content = CONTENT
    fetch("toy", tmp_path)
    check_done(tmp_path)


def test_a_file_that_is_there_makes_no_request_and_no_other_file(site, tmp_path, monkeypatch):
    leave(tmp_path, CONTENT, "")
    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", None)  # no lock either: the folder may be read-only
    check_done(tmp_path)
    assert site.asked == []


def test_another_file_of_the_name_is_kept(site, tmp_path):
    mine = leave(tmp_path, b"my own", "")
    partial = leave(tmp_path, CONTENT)
    refusal(
        InputError,
        tmp_path,
        mine,
        "not the original's",
        *(hashlib.md5(x).hexdigest() for x in (CONTENT, b"my own")),
        "move it away",
    )
    assert mine.read_bytes() == b"my own"
    assert partial.read_bytes() == CONTENT
    assert site.asked == []


@pytest.mark.parametrize("ending", ["", ".partial", ".lock"])
@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["folder", "dangling link"])
def test_what_is_not_a_file_is_refused(site, tmp_path, ending, make):
    path = tmp_path / (NAME + ending)
    make(path)
    refusal(InputError, tmp_path, path, "is not a regular file")
    assert site.asked == []
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("below", ["", "sub", "sub/sub"])
def test_a_root_that_is_not_a_folder_is_refused(site, tmp_path, below):
    (tmp_path / "file").write_bytes(b"")
    root = tmp_path / "file" / below
    refusal(InputError, root, tmp_path / "file", "is not a folder")


def test_unknown_data_are_refused(tmp_path):
    with pytest.raises(
        InputError,
        match=r"unknown data to fetch 'cifar-10': did you mean 'cifar10'\? There are cifar10, cifar100, svhn\.",
    ):
        fetch("cifar-10", tmp_path / "new")
    assert names(tmp_path) == []


# The disk.


def test_a_root_that_cannot_be_made_is_told(site, tmp_path):
    root = tmp_path / ("long" * 100)
    refusal(MachineFault, root, root, "could not be created")


def test_a_rename_that_fails_is_told_and_loses_nothing(site, tmp_path, monkeypatch):
    def forbid(source, target):
        raise PermissionError(13, "Permission denied", source)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", forbid)
        refusal(MachineFault, tmp_path, tmp_path / f"{NAME}.partial", "could not be read or written: Permission denied")
    assert not (tmp_path / NAME).exists()
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None]


def test_a_full_disk_is_told_and_not_tried_again(site, tmp_path):
    """As far as a file may grow stands for the room on the disk: both are an OSError of the write."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, limits[1]))
    try:
        refusal(MachineFault, tmp_path, tmp_path / f"{NAME}.partial", "could not be read or written: File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert site.asked == [None]
    assert not (tmp_path / NAME).exists()
    fetch("toy", tmp_path)
    check_done(tmp_path)


# Two at once.


def slowly(site, request, start):
    site.over.wait(0.3)
    honest(site, request, start)


def test_two_threads_at_once(site, tmp_path):
    pytest.importorskip("fcntl")
    site.answers = [slowly]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fetch, ["toy"] * 2, [tmp_path] * 2)) == [[tmp_path / NAME]] * 2
    check_done(tmp_path)
    assert site.asked == [None]


def test_two_processes_at_once_and_a_lock_left_by_a_third(site, tmp_path):
    pytest.importorskip("fcntl")
    site.answers = [slowly]
    leave(tmp_path, b"", ".lock")
    code = f"""if True:
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(module.__file__).parents[2])!r})
        from class_uncertainty.data import download as module
        module.ORIGINALS = {{"toy": (module.Original{(site.url, hashlib.md5(CONTENT).hexdigest(), TOTAL)},)}}
        print("ready", flush=True)
        input()
        module.fetch("toy", Path({str(tmp_path)!r}))
    """
    two = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        assert [process.stdout.readline() for process in two] == [b"ready\n"] * 2
        for process in two:
            process.stdin.write(b"go\n")
            process.stdin.flush()
        assert [process.wait(20) for process in two] == [0, 0]
    finally:
        for process in two:
            process.kill()
            process.communicate()
    check_done(tmp_path)
    assert site.asked == [None]
