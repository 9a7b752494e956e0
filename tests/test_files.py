"""Whole files or none, and never in the place of something else."""

import os
import re
from pathlib import Path

import pytest

from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.files import check_writable, write_whole


@pytest.mark.parametrize("check", [lambda path: write_whole(path, b"new"), check_writable])
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: os.mkfifo(path), "a device or a pipe"),
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: path.symlink_to("nowhere"), "a broken link"),
    ],
)
def test_what_is_no_file_is_left_alone(check, make, kind, tmp_path):
    """A pipe stands for a device: a rename would replace either by a file."""
    path = tmp_path / "out"
    make(path)
    before = os.lstat(path)
    with pytest.raises(InputError, match=f"out is {kind}: give the name of a file"):
        check(path)
    assert (os.lstat(path).st_ino, os.lstat(path).st_mode) == (before.st_ino, before.st_mode)
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_to_a_file_stays_a_link(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_fault_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(MachineFault, match="file could not be written: No space left on device"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_path_without_a_name():
    with pytest.raises(InputError, match="names no file"):
        check_writable(Path("."))


def test_only_what_was_written_here_or_is_empty_is_replaced(tmp_path):
    path = tmp_path / "page.html"
    for content, fine in ((b"", True), (b"<ours> and more", True), (b"theirs", False), (b" <ours>", False)):
        path.write_bytes(content)
        if fine:
            check_writable(path, re.compile(rb"<ours>"), "page")
        else:
            with pytest.raises(InputError, match=r"page\.html is there, and is no page that was written here: give another name"):
                check_writable(path, re.compile(rb"<ours>"), "page")
