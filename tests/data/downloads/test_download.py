"""Fetching: against a server of this machine that is honest, or fails in every way that servers and disks do."""

import hashlib
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from data.downloads.served import (
    CONTENT,
    HALF,
    NAME,
    TOTAL,
    check_done,
    cut,
    honest,
    names,
    offer,
    part,
    refusal,
    send,
    status,
    whole,
)

from class_uncertainty.data import download as module
from class_uncertainty.data.download import fetch
from class_uncertainty.errors import InputError, MachineFault

# An honest server.


def test_a_file_is_fetched_once(site, tmp_path):
    root, calls = tmp_path / "new" / "folder", []
    assert fetch("toy", root, lambda *call: calls.append(call)) == [root / NAME]
    check_done(root)
    assert site.asked == [None]
    assert {(name, total) for name, _, total in calls} == {(NAME, TOTAL)}
    done = [done for _, done, _ in calls]
    assert done == sorted(set(done))
    assert done[-1] == TOTAL
    assert len(done) >= TOTAL / 4_000


def test_all_files_of_a_data_set(site, tmp_path, monkeypatch):
    offer(monkeypatch, site.url, site.url + ".second")
    assert fetch("toy", tmp_path) == [tmp_path / NAME, tmp_path / f"{NAME}.second"]
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {CONTENT}
    assert site.asked == [None, None]


def test_a_redirection_is_followed_and_keeps_the_range(site, tmp_path):
    elsewhere = lambda site, request, start: send(request, 302, b"", Location="/elsewhere", Content_Length=0)  # noqa: E731
    site.answers = [cut(HALF), elsewhere, honest]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, f"bytes={HALF}-", f"bytes={HALF}-"]


def test_the_proxy_of_the_environment_is_used(site, tmp_path, monkeypatch):
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", site.url.rpartition("/")[0])
    offer(monkeypatch, f"http://nowhere.invalid/{NAME}")
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None]


def test_a_server_need_not_tell_the_length(site, tmp_path):
    site.answers = [lambda site, request, start: send(request, 200, CONTENT)]
    totals = []
    fetch("toy", tmp_path, lambda name, done, total: totals.append(total))
    check_done(tmp_path)
    assert set(totals) == {TOTAL}


# Connections that break.


def test_a_broken_connection_is_resumed(site, tmp_path):
    site.answers = [cut(1_000), cut(2_500), honest]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, "bytes=1000-", "bytes=2500-"]


def test_a_server_without_ranges_sends_the_beginning_again(site, tmp_path):
    site.answers = [cut(9_000), whole(500), whole()]
    done = []
    fetch("toy", tmp_path, lambda name, so_far, total: done.append(so_far))
    check_done(tmp_path)
    assert site.asked == [None, "bytes=9000-", "bytes=9000-"]
    assert done == sorted(set(done))


def test_parts_may_be_shorter_than_asked_for(site, tmp_path):
    def some(site, request, start):
        end = min(start + 8_000, TOTAL)
        span = f"bytes {start}-{end - 1}/{TOTAL}"
        code = 206 if start else 200
        send(request, code, CONTENT[start:end], Content_Length=end - start, Content_Range=span)

    site.answers = [some]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, "bytes=8000-", "bytes=16000-", "bytes=24000-"]


def test_progress_sets_the_count_of_tries_back(site, tmp_path):
    idle = [cut(0)] * (module.ATTEMPTS - 2)
    site.answers = [*idle, cut(1_000), *idle, cut(2_000), *idle, honest]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert len(site.asked) == len(site.answers)


@pytest.mark.parametrize("answer", [cut(HALF), whole(HALF)], ids=["ranges", "no ranges"])
def test_tries_without_progress_come_to_an_end(site, tmp_path, answer):
    site.answers = [answer]
    by_hand = f"or fetch {site.url} yourself and put it into {tmp_path}."
    refusal(MachineFault, tmp_path, "15,000 of 30,000 bytes", NAME, by_hand)
    assert site.asked == [None] + [f"bytes={HALF}-"] * (module.ATTEMPTS - 1)
    assert names(tmp_path) == []


def test_pauses_grow(site, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(module, "PAUSE", 2.0)
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    site.answers = [cut(1_000)]
    refusal(MachineFault, tmp_path, "1,000 of 30,000 bytes")
    assert pauses == [2, 4, 6, 8]


@pytest.mark.parametrize("upto", [None, 1_000], ids=["before the answer", "within it"])
def test_a_server_that_stalls_is_asked_again(site, tmp_path, monkeypatch, upto):
    def stall(site, request, start):
        if upto is not None:
            part(site, request, start, upto)
        if not site.over.wait(3):
            site.asked.append("waited for")  # for longer than any test has the patience

    monkeypatch.setattr(module, "TIMEOUT", 0.5)
    site.answers = [stall, honest]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, f"bytes={upto}-" if upto else None]


def test_a_connection_that_is_kept_open_is_not_waited_for(site, tmp_path):
    def answer(site, request, start):
        send(request, 200, CONTENT)  # without a length: that all is there is known from the table
        if not site.over.wait(3):
            site.asked.append("waited for")

    site.answers = [answer]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None]


def test_an_interrupted_call_leaves_nothing(site, tmp_path):
    def interrupt(name, done, total):
        if done >= HALF:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("toy", tmp_path, interrupt)
    assert names(tmp_path) == []


def test_nobody_is_listening(site, tmp_path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/{NAME}"
        offer(monkeypatch, url)
        by_hand = f"or fetch {url} yourself and put it into {tmp_path}"
        refusal(MachineFault, tmp_path, "0 of 30,000 bytes", "refused", by_hand)
    assert names(tmp_path) == []


def test_no_network(site, tmp_path, monkeypatch):
    def lookup(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    refusal(MachineFault, tmp_path, "0 of 30,000 bytes", "Name or service not known", site.url, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [403, 404, 416, 500])
def test_a_status_that_refuses_is_told_at_once(site, tmp_path, code):
    site.answers = [status(code)]
    by_hand = f"or fetch {site.url} yourself and put it into {tmp_path}"
    refusal(MachineFault, tmp_path, NAME, f"HTTP status {code}", by_hand)
    assert site.asked == [None]
    assert names(tmp_path) == []


# Other files than the original.


def other_range(site, request, start):
    send(request, 206, CONTENT, Content_Range=f"bytes 0-{TOTAL - 1}/{TOTAL}")


@pytest.mark.parametrize(
    "answers",
    [
        [lambda site, request, start: send(request, 200, bytes(TOTAL))],
        [lambda site, request, start: send(request, 200, CONTENT[:HALF] + bytes(20 * TOTAL))],
        [cut(HALF), other_range],
    ],
    ids=["wrong", "too long", "another range"],
)
def test_wrong_bytes_are_never_used(site, tmp_path, answers):
    site.answers = answers
    refusal(MachineFault, tmp_path, NAME, "with the md5", hashlib.md5(CONTENT).hexdigest(), site.url, tmp_path)
    assert len(site.asked) == len(answers)
    assert names(tmp_path) == []


def test_a_page_in_place_of_the_file_is_refused(site, tmp_path):
    """Such as one that asks for a password."""
    site.answers = [lambda site, request, start: send(request, 200, b"<html>", Content_Length=6)]
    refusal(MachineFault, tmp_path, f"6 of {TOTAL:,} bytes")
    assert names(tmp_path) == []


def test_another_file_of_the_name_is_kept(site, tmp_path):
    mine = tmp_path / NAME
    mine.write_bytes(b"my own")
    md5s = [hashlib.md5(content).hexdigest() for content in (CONTENT, b"my own")]
    refusal(InputError, tmp_path, mine, "not the original's", *md5s, "move it away")
    assert mine.read_bytes() == b"my own"
    assert site.asked == []


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["folder", "dangling link"])
def test_what_is_not_a_file_is_refused(site, tmp_path, make):
    make(tmp_path / NAME)
    refusal(InputError, tmp_path, tmp_path / NAME, "is not a regular file")
    assert site.asked == []
    assert names(tmp_path) == [NAME]


@pytest.mark.parametrize("below", ["", "sub", "sub/sub"])
def test_a_root_that_is_not_a_folder_is_refused(site, tmp_path, below):
    (tmp_path / "file").write_bytes(b"")
    refusal(InputError, tmp_path / "file" / below, tmp_path / "file", "is not a folder")


def test_unknown_data_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"'cifar-10': did you mean 'cifar10'\? There are cifar10, cifar100, svhn\."):
        fetch("cifar-10", tmp_path / "new")
    assert names(tmp_path) == []


# The disk.


def test_a_root_that_cannot_be_made_is_told(site, tmp_path):
    root = tmp_path / ("long" * 100)
    refusal(MachineFault, root, root, "could not be created")


def test_a_rename_that_fails_is_told(site, tmp_path, monkeypatch):
    def forbid(source, target):
        raise PermissionError(13, "Permission denied", source)

    monkeypatch.setattr(os, "replace", forbid)
    refusal(MachineFault, tmp_path, tmp_path / NAME, "could not be written: Permission denied")
    assert names(tmp_path) == []


def test_a_full_disk_is_told_and_not_tried_again(site, tmp_path):
    """As far as a file may grow stands for the room on the disk: both are an OSError of the write."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, limits[1]))
    try:
        refusal(MachineFault, tmp_path, tmp_path / NAME, "could not be written: File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert site.asked == [None]
    assert names(tmp_path) == []


def test_two_at_once_do_not_disturb_each_other(site, tmp_path):
    def slowly(site, request, start):
        site.over.wait(0.3)
        honest(site, request, start)

    site.answers = [slowly]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fetch, ["toy"] * 2, [tmp_path] * 2)) == [[tmp_path / NAME]] * 2
    check_done(tmp_path)


# The table.


@pytest.mark.parametrize(
    "original", [original for row in module.ORIGINALS.values() for original in row], ids=lambda original: original.name
)
def test_rows_are_well_formed(original):
    assert re.fullmatch(r"[0-9a-f]{32}", original.md5)
    assert re.fullmatch(rf"https?://[a-z.]+/[^?#]*/?{re.escape(original.name)}", original.url)
    assert original.size > 0


def test_rows_are_told_apart():
    assert {name: len(row) for name, row in module.ORIGINALS.items()} == {"cifar10": 1, "cifar100": 1, "svhn": 2}
    rows = [original for row in module.ORIGINALS.values() for original in row]
    for field in ("name", "url", "md5", "size"):
        assert len({getattr(original, field) for original in rows}) == len(rows)
