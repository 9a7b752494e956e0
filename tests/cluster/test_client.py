"""`--on ray://HOST:PORT`: the same bits through Ray's client, its token, and addresses at which no head answers."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest
from clusters import free_port, head, newest
from same_stores import contents

pytest.importorskip("ray")
pytestmark = pytest.mark.cluster
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}


def start(store: Path, *options: str, epochs: int = 4, **environment: str) -> subprocess.Popen[str]:
    about = ["digits-lt:20", "--methods", "naive,ubrs", "--seeds", "2", "--members", "2", "--epochs", str(epochs)]
    command = [sys.executable, "-m", "class_uncertainty", "compare", *about, "--store", str(store), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=PLAIN | environment, text=True, **pipes)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and what it said."""
    try:
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, said


def compare(store: Path, *options: str, epochs: int = 4, **environment: str) -> tuple[int, str]:
    return end(start(store, *options, epochs=epochs, **environment))


def refusal(address: str, store: Path, **environment: str) -> tuple[int, str]:
    """The exit code of a command that no cluster takes, and its one sentence, beside lines of progress."""
    code, said = compare(store, "--on", address, **environment)
    (sentence,) = [line for line in said.splitlines() if not line.startswith("after ")]
    return code, sentence


@pytest.fixture(scope="module")
def address():
    """Of a head that asks for a token. Its folder has a short name: those of sockets may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder, head(Path(folder), PLAIN | TOKEN) as address:
        yield address


def test_a_client_gives_the_same_bits(address, tmp_path):
    for name, options in (("here", []), ("there", ["--on", address])):
        code, said = compare(tmp_path / f"{name}.sqlite", *options, **TOKEN)
        assert code == 0, said
    assert contents(tmp_path / "there.sqlite") == contents(tmp_path / "here.sqlite")
    assert not (tmp_path / "there.sqlite.running").exists()


def test_a_missing_token_is_said(address, tmp_path):
    code, said = refusal(address, tmp_path / "store.sqlite")
    assert code == 1
    assert said.startswith(f"cu: the Ray cluster at {address} cannot be used: ")
    assert "or it asks for a token: set RAY_AUTH_MODE=token" in said


def test_a_wrong_token_is_said(address, tmp_path):
    wrong = TOKEN | {"RAY_AUTH_TOKEN": uuid.uuid4().hex}
    code, said = refusal(address, tmp_path / "store.sqlite", **wrong)
    assert code == 1
    assert "does not take the token" in said


def test_a_head_that_goes_is_said_and_the_command_goes_on_elsewhere(tmp_path):
    """Ray's client tries to connect again for half a minute, here for three seconds."""
    store, soon = tmp_path / "store.sqlite", {"RAY_AUTH_MODE": "disabled", "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "3"}
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        with head(Path(folder), PLAIN | soon) as address:
            process, last = start(store, "--on", address, epochs=200, **soon), time.monotonic() + 120
            while not newest(tmp_path / "store.sqlite.running") and process.poll() is None and time.monotonic() < last:
                time.sleep(0.2)
            checkpointed = newest(tmp_path / "store.sqlite.running")
        code, said = end(process)
    assert checkpointed
    assert code == 1
    assert re.search("cu: the (connection to the Ray cluster at .* is lost|head node of the cluster is gone)", said)
    assert "Traceback" not in said
    code, said = compare(store, epochs=200)
    assert code == 0, said


def test_an_address_without_a_head_is_refused_soon(tmp_path):
    """A port that nothing listens on, and nine seconds later one that takes connections and never answers."""
    seconds = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = server.getsockname()[1]
        for port, why in ((free_port(), "Connection refused"), (silent, "no head of Ray answers there")):
            address = f"ray://127.0.0.1:{port}"
            began = time.monotonic()
            code, said = refusal(address, tmp_path / "store.sqlite")
            seconds.append(time.monotonic() - began)
            assert code == 1
            assert address in said
            assert why in said
    assert seconds[1] - seconds[0] < 20  # a busy machine may need as long to start Python and torch
