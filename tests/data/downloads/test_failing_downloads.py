"""Servers that cut, stall or refuse: what is tried again, and for how long."""

import socket

import pytest
from data.downloads.served import (
    CONTENT,
    HALF,
    NAME,
    TOTAL,
    check_done,
    honest,
    leave,
    names,
    offer,
    part,
    refusal,
    send,
    status,
    without_ranges,
)

from class_uncertainty.data import download as module
from class_uncertainty.data.download import fetch
from class_uncertainty.errors import MachineFault


def cut(upto):
    return lambda site, request, start: part(site, request, start, upto)


def stall(upto):
    def answer(site, request, start):
        if upto is not None:
            part(site, request, start, upto)
        if not site.over.wait(3):
            site.asked.append("waited for")  # for longer than any test has the patience

    return answer


# Connections that break.


def test_a_truncated_answer_is_resumed(site, tmp_path):
    site.answers = [cut(1_000), cut(2_500), honest]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, "bytes=1000-", "bytes=2500-"]


def test_progress_sets_the_count_of_tries_back(site, tmp_path):
    idle = [cut(0)] * (module.ATTEMPTS - 1)
    site.answers = [*idle, cut(1_000), *idle, cut(2_000), *idle, honest]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert len(site.asked) == 3 * module.ATTEMPTS


def test_tries_without_progress_come_to_an_end(site, tmp_path):
    site.answers = [cut(HALF)]
    partial = leave(tmp_path, CONTENT[:HALF])
    message = refusal(MachineFault, tmp_path, "15,000 of 30,000 bytes", NAME, "the same command resumes")
    assert message.endswith(f"or fetch {site.url} yourself and put it into {tmp_path}.")
    assert site.asked == [f"bytes={HALF}-"] * module.ATTEMPTS
    assert partial.read_bytes() == CONTENT[:HALF]
    assert not (tmp_path / NAME).exists()


def test_bytes_that_were_there_before_are_no_progress(site, tmp_path):
    """A server without ranges that breaks off here and there would be asked for ever."""
    site.answers = [*map(without_ranges, [1_000, 500] * module.ATTEMPTS), honest]
    refusal(MachineFault, tmp_path, "500 of 30,000 bytes")
    assert len(site.asked) == 1 + module.ATTEMPTS


def test_parts_that_nobody_asked_for_come_to_an_end(site, tmp_path):
    site.answers = [
        lambda site, request, start: send(request, 206, CONTENT, Content_Range=f"bytes 5-{TOTAL - 1}/{TOTAL}")
    ]
    refusal(MachineFault, tmp_path, "0 of 30,000 bytes", "a part that was not requested", site.url)
    assert site.asked == [None] * module.ATTEMPTS
    assert not (tmp_path / NAME).exists()


def test_pauses_grow(site, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(module, "PAUSE", 2.0)
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    site.answers = [cut(1_000)]
    refusal(MachineFault, tmp_path, "1,000 of 30,000 bytes")
    assert pauses == [2, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("upto", "then"), [(None, None), (1_000, "bytes=1000-")], ids=["before the answer", "within it"]
)
def test_a_server_that_stalls_is_asked_again(site, tmp_path, monkeypatch, upto, then):
    monkeypatch.setattr(module, "TIMEOUT", 0.5)
    site.answers = [stall(upto), honest]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None, then]


def test_a_connection_that_is_kept_open_is_not_waited_for(site, tmp_path):
    def answer(site, request, start):
        send(request, 200, CONTENT)  # without a length: that all is there is known from the table
        stall(None)(site, request, start)

    site.answers = [answer]
    fetch("toy", tmp_path)
    check_done(tmp_path)
    assert site.asked == [None]


def test_nobody_is_listening(site, tmp_path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/{NAME}"
        offer(monkeypatch, url)
        refusal(
            MachineFault,
            tmp_path,
            "0 of 30,000 bytes",
            "refused",
            f"or fetch {url} yourself and put it into {tmp_path}",
        )
    assert NAME not in names(tmp_path)
    assert f"{NAME}.partial" not in names(tmp_path)


def test_no_network(site, tmp_path, monkeypatch):
    def lookup(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    partial = leave(tmp_path, CONTENT[:HALF])
    refusal(MachineFault, tmp_path, "15,000 of 30,000 bytes", "Name or service not known", site.url, tmp_path)
    assert partial.read_bytes() == CONTENT[:HALF]


@pytest.mark.parametrize("code", [403, 404, 416, 500])
def test_a_status_that_refuses_is_told(site, tmp_path, code):
    site.answers = [status(code)]
    partial = leave(tmp_path, CONTENT[:HALF])
    refusal(
        MachineFault, tmp_path, NAME, f"HTTP status {code}", f"or fetch {site.url} yourself and put it into {tmp_path}"
    )
    assert site.asked == [f"bytes={HALF}-", None][: 1 + (code == 416)]
    assert partial.read_bytes() == CONTENT[:HALF]
    assert not (tmp_path / NAME).exists()
