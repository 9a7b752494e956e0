"""A server that offers one file."""

import threading
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from data.downloads.served import NAME, Site, offer

from class_uncertainty.data import download as module


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
