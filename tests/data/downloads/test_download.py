"""Fetching: against a server of this machine that is honest, or fails in every way that servers do."""

import re

import pytest
from data.downloads.served import (
    CONTENT,
    HALF,
    NAME,
    TOTAL,
    check_done,
    honest,
    leave,
    offer,
    part,
    send,
    status,
    without_ranges,
)

from class_uncertainty.data import download as module
from class_uncertainty.data.download import fetch


def spanning(span):
    """A wrong Content-Range, to a range request; the body is what was asked for, so that only the header says it."""
    return lambda site, request, start: part(site, request, start, span=span)


def unsatisfiable(site, request, start):
    (status(416) if start else honest)(site, request, start)


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
    site.answers = [
        lambda site, request, start: send(request, 302, b"", Location="/elsewhere", Content_Length=0),
        honest,
    ]
    leave(tmp_path, CONTENT[:HALF])
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [f"bytes={HALF}-"] * 2


def test_the_proxy_of_the_environment_is_used(site, tmp_path, monkeypatch):
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", site.url.rpartition("/")[0])
    offer(monkeypatch, f"http://nowhere.invalid/{NAME}")
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None]


def test_length_is_taken_from_the_table_when_the_server_does_not_say(site, tmp_path):
    site.answers = [
        lambda site, request, start: send(request, 200, CONTENT[:HALF]),
        spanning(f"bytes {HALF}-{TOTAL - 1}/*"),
    ]
    totals = []
    fetch("toy", tmp_path, lambda name, done, total: totals.append(total))
    check_done(tmp_path)
    assert site.asked == [None, f"bytes={HALF}-"]
    assert set(totals) == {TOTAL}


# Resuming.


def test_a_partial_file_is_resumed(site, tmp_path):
    leave(tmp_path, CONTENT[:HALF])
    done = []
    fetch("toy", tmp_path, lambda name, so_far, total: done.append(so_far))
    check_done(tmp_path)
    assert site.asked == [f"bytes={HALF}-"]
    assert HALF < done[0] <= done[-1] == TOTAL


def test_a_server_without_ranges_starts_from_zero(site, tmp_path):
    site.answers = [without_ranges()]
    leave(tmp_path, CONTENT[:HALF])
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [f"bytes={HALF}-"]


@pytest.mark.parametrize(
    "answer",
    [
        unsatisfiable,
        *map(spanning, [f"bytes {HALF - 1}-{TOTAL - 1}/{TOTAL}", f"bytes 0-{TOTAL - 1}/{TOTAL}", "nonsense", " "]),
    ],
    ids=["416", "earlier", "zero", "nonsense", "empty"],
)
def test_another_range_than_asked_for_starts_from_zero(site, tmp_path, answer):
    site.answers = [answer]
    leave(tmp_path, bytes(HALF))  # not the beginning of the file: it must go
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [f"bytes={HALF}-", None]


def test_parts_may_be_shorter_than_asked_for(site, tmp_path):
    def some(site, request, start):
        end = min(start + 8_000, TOTAL)
        send(
            request,
            206,
            CONTENT[start:end],
            Content_Length=end - start,
            Content_Range=f"bytes {start}-{end - 1}/{TOTAL}",
        )

    site.answers = [some]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, "bytes=8000-", "bytes=16000-", "bytes=24000-"]


def test_an_interrupted_call_is_resumed_by_the_next(site, tmp_path):
    def interrupt(name, done, total):
        if done >= HALF:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("toy", tmp_path, interrupt)
    kept = (tmp_path / f"{NAME}.partial").read_bytes()
    assert HALF <= len(kept) < TOTAL
    assert CONTENT.startswith(kept)
    assert not (tmp_path / NAME).exists()
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, f"bytes={len(kept)}-"]


def test_a_whole_partial_file_needs_no_request(site, tmp_path):
    leave(tmp_path, CONTENT)
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == []


@pytest.mark.parametrize("content", [bytes(TOTAL), CONTENT + b"more"], ids=["wrong", "too long"])
def test_a_whole_but_wrong_partial_file_is_started_again(site, tmp_path, content):
    leave(tmp_path, content)
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None]


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
