"""A server on this machine that answers as it is told."""

import hashlib
import re
import threading

import numpy as np
import pytest

from class_uncertainty.data import download as module
from class_uncertainty.data.download import fetch

CONTENT = np.random.default_rng(20231114).bytes(30_000)
TOTAL = len(CONTENT)
HALF = TOTAL // 2
NAME = "original.bin"


class Site:
    """What is served, how, and what was asked for: one Range header or None a request."""

    def __init__(self):
        self.content = CONTENT
        self.asked = []
        self.over = threading.Event()
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


def part(site, request, start, upto=None):
    """From the byte asked for, with all the length promised but nothing sent after byte `upto`."""
    total = len(site.content)
    headers = {"Content_Range": f"bytes {start}-{total - 1}/{total}"} if request.headers["Range"] else {}
    send(request, 206 if headers else 200, site.content[start:upto], Content_Length=total - start, **headers)


def honest(site, request, start):
    part(site, request, start)


def cut(upto):
    return lambda site, request, start: part(site, request, start, upto)


def whole(upto=None):
    """Of a server without ranges."""
    return lambda site, request, start: send(request, 200, site.content[:upto], Content_Length=len(site.content))


def status(code):
    return lambda site, request, start: send(request, code, b"no", Content_Length=2)


def offer(monkeypatch, *urls):
    md5 = hashlib.md5(CONTENT).hexdigest()
    row = tuple(module.Original(url, md5, TOTAL) for url in urls)
    monkeypatch.setattr(module, "ORIGINALS", {"toy": row})


def names(root):
    return sorted(path.name for path in root.iterdir())


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
