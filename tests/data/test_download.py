"""Fetching: against a server of this machine that is honest, or fails in every way that servers do."""

import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from class_uncertainty.data import download as module
from class_uncertainty.data.download import fetch
from class_uncertainty.errors import InputError, MachineFault

CONTENT = np.random.default_rng(20231114).bytes(30_000)
TOTAL = len(CONTENT)
HALF = TOTAL // 2
NAME = "original.bin"


class Site:
    """What is served, how, and what was asked for: one Range header or None a request."""

    def __init__(self):
        self.content, self.asked, self.over = CONTENT, [], threading.Event()
        self.answers = [honest]  # of the first request, the second, ...; the last one goes on

    def answer(self, request):
        self.asked.append(request.headers["Range"])
        start = int(re.fullmatch(r"bytes=(\d+)-", request.headers["Range"] or "bytes=0-")[1])
        self.answers[min(len(self.asked), len(self.answers)) - 1](self, request, start)


def send(request, status, body, **headers):
    request.send_response(status)
    for key, value in headers.items():
        request.send_header(key.replace("_", "-"), str(value))
    request.end_headers()
    request.wfile.write(body)


def part(site, request, start, upto=None, span=None):
    """From the byte asked for, with all the length promised but nothing sent after byte `upto`."""
    total = len(site.content)
    headers = {"Content_Range": span or f"bytes {start}-{total - 1}/{total}"} if request.headers["Range"] else {}
    send(request, 206 if headers else 200, site.content[start:upto], Content_Length=total - start, **headers)


def honest(site, request, start):
    part(site, request, start)


def cut(upto):
    return lambda site, request, start: part(site, request, start, upto)


def without_ranges(upto=None):
    return lambda site, request, start: send(request, 200, site.content[:upto], Content_Length=len(site.content))


def spanning(span):
    """A wrong Content-Range, to a range request; the body is what was asked for, so that only the header says it."""
    return lambda site, request, start: part(site, request, start, span=span)


def status(code):
    return lambda site, request, start: send(request, code, b"no", Content_Length=2)


def unsatisfiable(site, request, start):
    (status(416) if start else honest)(site, request, start)


def stall(upto):
    def answer(site, request, start):
        if upto is not None:
            part(site, request, start, upto)
        if not site.over.wait(3):
            site.asked.append("waited for")  # for longer than any test has the patience

    return answer


@pytest.fixture
def site(monkeypatch):
    """A server for 'toy', a data set of one file, which waits for nobody."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with suppress(ConnectionError):
                site.answer(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False  # so that closing it waits for them
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        site.url = f"http://127.0.0.1:{server.server_port}/{NAME}"
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setattr(urllib.request, "_opener", None)  # it remembers the proxies of the first request ever
        monkeypatch.setattr(module, "PAUSE", 0)
        monkeypatch.setattr(module, "BLOCK", 4_000)
        offer(monkeypatch, site.url)
        yield site
        site.over.set()
        server.shutdown()
        thread.join()


def offer(monkeypatch, *urls):
    md5 = hashlib.md5(CONTENT).hexdigest()
    row = tuple(module.Original(url, md5, TOTAL) for url in urls)
    monkeypatch.setattr(module, "ORIGINALS", {"toy": row})


def names(root):
    return sorted(path.name for path in root.iterdir())


def leave(root, content, ending=".partial"):
    path = root / (NAME + ending)
    path.write_bytes(content)
    return path


def check_done(root):
    """The file, and nothing beside it."""
    assert fetch("toy", root) == [root / NAME]  # by its checksum; a further request would be seen by the caller
    assert (root / NAME).read_bytes() == CONTENT
    assert names(root) == [NAME]


def refusal(kind, root, *words):
    with pytest.raises(kind) as caught:
        fetch("toy", root)
    message = str(caught.value)
    for word in words:
        assert str(word) in message
    assert re.fullmatch(r"[^\n]+\.", message)
    return message


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
