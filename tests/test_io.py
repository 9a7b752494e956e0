"""Whole files or none, and never in the place of something else."""

import html
import json
import os
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from class_uncertainty import io
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.io import (
    BLOCK,
    MARK,
    BlockCrcs,
    blank_mark,
    check_ending,
    check_replaceable,
    check_writable,
    checksum,
    file_crcs,
    free_name,
    near,
    origin,
    read_sealed,
    scratch_array,
    sealed,
    signed,
    signed_archive,
    write_together,
    write_whole,
)


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


NAMES = ["digits-lt:20", 'csv:a (b) -->\\"<é\n.csv', "csv:t.csv?drop=a&label=b", "x" * 999]


def page_of(made_from, text=b"<p>"):
    """A page as a command writes it."""
    return signed(text + f"<!-- {blank_mark(made_from)} -->".encode(), made_from)


@pytest.mark.parametrize("name", NAMES)
def test_an_origin_stands_in_html_and_json_as_it_is(name):
    made_from = origin(name, "options")
    assert html.escape(made_from) == made_from
    assert json.loads(json.dumps(f'"{made_from}"'))[1:-1] == made_from
    assert MARK.fullmatch(blank_mark(made_from).encode())[1].decode() == made_from


@pytest.mark.parametrize("name", NAMES)
def test_only_a_file_as_the_same_command_wrote_it_is_replaced(name, tmp_path):
    path = tmp_path / "page.html"
    ours, others = origin(name, "options"), origin(name, "other options")
    check_replaceable(path, ours)
    for content in (b"", page_of(ours), page_of(ours, page_of(others)), page_of(ours, bytes(3 * BLOCK))):
        path.write_bytes(content)
        check_replaceable(path, ours)
    written = page_of(ours)
    edited = [
        written + b"\n",
        written[:-1],
        b" " + written,
        written.replace(b"<p>", b"<P>"),
        written.replace(b">", b">>"),
    ]
    blank = f"<p><!-- {blank_mark(ours)} -->".encode()
    for content in (*edited, blank, ours.encode(), b"theirs", page_of(others), page_of(others, written)):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"page\.html .*--force"):
            check_replaceable(path, ours)
        check_replaceable(path, ours, force=True)


def test_an_archive_has_its_mark_behind_it(tmp_path):
    """It is read as before, and what is added or changed is noticed."""
    path, made_from = tmp_path / "p.npz", origin("data")
    np.savez(path, a=np.arange(3), b=np.ones(2))
    path.write_bytes(signed_archive(path.read_bytes(), made_from))
    check_replaceable(path, made_from)
    with np.load(path) as arrays:
        assert (arrays["a"].tolist(), arrays["b"].tolist()) == ([0, 1, 2], [1, 1])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "mine")
    with pytest.raises(InputError, match="--force"):
        check_replaceable(path, made_from)


@pytest.mark.parametrize("make", ["same", "symlink_to", "hardlink_to", "spelling", "folder to come"])
def test_what_is_read_is_not_even_replaced_by_force(make, tmp_path):
    read, path = tmp_path / "data.csv", tmp_path / "out.csv"
    read.write_text("mine")
    if make == "same":
        path = read
    elif make == "spelling":
        path = tmp_path / ".." / tmp_path.name / "data.csv"
    elif make == "folder to come":
        path = tmp_path / "new" / ".." / "data.csv"
    else:
        getattr(path, make)(read)
    with pytest.raises(InputError, match="read"):
        check_replaceable(path, origin("data"), force=True, read=[None, "equal", read])
    check_replaceable(tmp_path / "equal", origin("data"), read=["equal", tmp_path / "missing.csv"])


def test_not_even_force_replaces_stores_and_folders(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "runs.sqlite").write_bytes(b"SQLite format 3\0")
    (tmp_path / "link").symlink_to("runs.sqlite")
    for name in ("folder", "runs.sqlite", "link"):
        with pytest.raises(InputError, match=name):
            check_replaceable(tmp_path / name, origin("digits"), force=True)


def test_a_file_without_a_mark_is_known_by_the_file_beside_it(tmp_path):
    table, beside, ours = tmp_path / "p.csv", tmp_path / "p.json", origin("digits")

    def is_kept():
        with pytest.raises(InputError, match=r"p\.(csv|json)"):
            check_replaceable(table, ours, beside=beside)

    table.write_bytes(page_of(ours))
    is_kept()
    beside.write_bytes(page_of(ours))
    is_kept()
    beside.write_bytes(page_of(ours, checksum(table.read_bytes()).encode()))
    check_replaceable(table, ours, beside=beside)
    table.write_bytes(b"a,b\n")
    is_kept()
    beside.write_bytes(page_of(origin("others"), checksum(b"a,b\n").encode()))
    is_kept()


def test_a_default_name_gives_way(tmp_path):
    """To files of the user's, to folders and links, and to other data; rerun, each finds its own."""
    default, a, b = tmp_path / "churn.html", origin("csv:a/churn.csv"), origin("csv:b/churn.csv")

    def place(made_from):
        return free_name(default, partial(check_replaceable, made_from=made_from))

    assert place(a) == default
    default.write_bytes(page_of(a))
    (tmp_path / "churn-2.html").mkdir()
    (tmp_path / "churn-3.html").symlink_to("nowhere")
    other = place(b)
    assert other.name == "churn-4.html"
    other.write_bytes(page_of(b))
    assert (place(a), place(b)) == (default, other)
    default.write_text("mine")
    assert place(a).name == "churn-5.html"
    default = tmp_path / "churn-4.html" / "page.html"
    assert place(a) == default  # no other name would do


def test_a_check_creates_no_folder(tmp_path):
    check_replaceable(tmp_path / "new" / "page.html", origin("digits"))
    assert os.listdir(tmp_path) == []
    write_whole(tmp_path / "new" / "page.html", b"page")
    assert os.listdir(tmp_path / "new") == ["page.html"]


def test_every_block_counts(tmp_path, rng):
    """Pieces of any size give the CRCs of the file; a flipped bit in any block changes the checksum."""
    content, path = bytearray(rng.bytes(int(2.5 * io.BLOCK))), tmp_path / "file"
    pieces = [content[:7], content[7 : io.BLOCK + 3], b"", content[io.BLOCK + 3 :]]
    counted = BlockCrcs()
    write_together({path: counted.of(pieces)})
    crcs = counted.crcs
    assert path.read_bytes() == content
    assert crcs == file_crcs(path)
    assert len(crcs) == 3
    assert checksum(crcs) == checksum(bytes(content))
    for place in (0, io.BLOCK - 1, io.BLOCK, len(content) - 1):
        content[place] ^= 1
        assert checksum(bytes(content)) != checksum(crcs)
        content[place] ^= 1


def test_a_sealed_file_is_read_as_it_was_written_under_its_key_alone(tmp_path, rng):
    path, content = tmp_path / "file", rng.bytes(io.BLOCK + 5)
    write_together({path: sealed("key", [content[:7], content[7:]])})
    mapped = read_sealed(path, "key")
    assert mapped.tobytes() == content
    mapped[:] = 0  # in memory alone
    assert read_sealed(path, "key").tobytes() == content
    assert read_sealed(path, "other") is None
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole + b"\0", content, whole[1:]):
        path.write_bytes(damaged)
        assert read_sealed(path, "key") is None
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_sealed(path, "key")


def test_what_fails_while_pieces_are_made_is_not_blamed_on_the_disk(tmp_path):
    def pieces():
        yield b"first"
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        write_together({tmp_path / "file": pieces()})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("other", [("ab", "c"), ("a", "bc", ""), (b"ab", "c"), ("c", "ab")])
def test_a_checksum_knows_its_parts_apart(other):
    assert checksum("a", "bc") != checksum(*other)


def test_files_are_synced_before_the_rename_and_their_folder_after_it(tmp_path, monkeypatch):
    told, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda d: [told.append("folder" if os.path.isdir(f"/dev/fd/{d}") else "file"), fsync(d)]
    )
    monkeypatch.setattr(os, "replace", lambda a, b: [told.append("rename"), replace(a, b)])
    write_together({tmp_path / name: [name.encode()] for name in "ab"})
    assert told == ["file", "file", "rename", "rename", "folder"]


def test_the_file_at_fault_is_named(tmp_path, monkeypatch):
    def failing(a, b):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(MachineFault, match=r"/a could not be written: Input/output error"):
        write_together({tmp_path / name: [b""] for name in "ab"})
    assert os.listdir(tmp_path) == []


def test_a_large_array_is_in_a_file_whose_room_is_taken_at_once(tmp_path, monkeypatch):
    assert not isinstance(scratch_array((2, 3), tmp_path), np.memmap)
    monkeypatch.setattr(io, "SCRATCH", 4 * 5)
    large = scratch_array((2, 3), tmp_path)
    assert isinstance(large, np.memmap)
    assert os.listdir(tmp_path) == []  # it has no name
    large[:] = 7
    assert large.sum() == 42
    monkeypatch.setattr(io.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "w+b"))  # noqa: SIM115
    with pytest.raises(MachineFault, match="No space left"):
        scratch_array((2, 3), tmp_path)


def test_what_was_given_is_not_suggested(tmp_path):
    (tmp_path / "data.csv").symlink_to("nowhere")
    assert near(tmp_path / "data.csv") == ""
    (tmp_path / "dada.csv").write_text("")
    assert "dada.csv" in near(tmp_path / "data.csv")


@pytest.mark.parametrize(
    ("given", "suggested"),
    [("fruits.csv", "fruit.csv"), ("Fruit.CSV", "fruit.csv"), ("fruit.cvs", "fruit.csv"), ("nofile.csv", "")],
)
def test_a_name_is_suggested_for_more_than_its_ending(given, suggested, tmp_path):
    (tmp_path / "fruit.csv").touch()
    assert io.near(tmp_path / given) == (f" (did you mean {str(tmp_path / suggested)!r}?)" if suggested else "")


@pytest.mark.parametrize("name", ["page.pdf", "page", "page.html.gz"])
def test_a_name_must_end_as_the_content_does(name, tmp_path):
    with pytest.raises(InputError, match=r"\.html or \.htm"):
        check_ending(tmp_path / name, "report", (".html", ".htm"))
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["page.HTML", "page.htm", "page"])
def test_allowed_endings(name, tmp_path):
    check_ending(tmp_path / name, "report", (".html", ".htm", ""))
