"""`--on ray://HOST:PORT`: the same bits through Ray's client, its token, and addresses at which no head answers."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import free_port, head
from same_stores import contents

pytest.importorskip("ray")
pytestmark = pytest.mark.cluster
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}


def compare(store: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    about = ["digits-lt:20", "--methods", "naive,ubrs", "--seeds", "2", "--members", "2", "--epochs", "4"]
    command = [sys.executable, "-m", "class_uncertainty", "compare", *about, "--store", str(store), *options]
    return subprocess.run(command, env=PLAIN | environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a head that asks for a token. Its folder has a short name: those of sockets may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder, head(Path(folder), PLAIN | TOKEN) as address:
        yield address


def test_a_client_gives_the_same_bits(address, tmp_path):
    assert compare(tmp_path / "here.sqlite").returncode == 0
    there = compare(tmp_path / "there.sqlite", "--on", address, **TOKEN)
    assert (there.returncode, there.stderr) == (0, "")
    assert contents(tmp_path / "there.sqlite") == contents(tmp_path / "here.sqlite")
    assert not (tmp_path / "there.sqlite.running").exists()


def test_a_missing_token_is_said(address, tmp_path):
    ended = compare(tmp_path / "store.sqlite", "--on", address)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"cu: the Ray cluster at {address} asks for a token: set RAY_AUTH_MODE=token")


def test_a_wrong_token_is_said(address, tmp_path):
    wrong = TOKEN | {"RAY_AUTH_TOKEN": uuid.uuid4().hex}
    ended = compare(tmp_path / "store.sqlite", "--on", address, **wrong)
    assert ended.returncode == 1
    assert "does not take the token" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("listens", [False, True])
def test_an_address_without_a_head_is_refused_soon(tmp_path, listens):
    """A port that nothing listens on, and one that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if listens else free_port()
        began = time.monotonic()
        ended = compare(tmp_path / "store.sqlite", "--on", f"ray://127.0.0.1:{port}")
        seconds = time.monotonic() - began
    why = "no head answered in 4 seconds" if listens else "Connection refused"
    assert ended.returncode == 1
    assert ended.stderr == f"cu: there is no Ray cluster at ray://127.0.0.1:{port}: {why}.\n"
    assert seconds < 15  # of which a busy machine may need ten to start Python and torch
