"""`--on ray`: a cluster of this machine that no other can reach, and that ends with the command, however that ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import descendants, listening, newest
from same_stores import contents

pytest.importorskip("ray")
pytestmark = pytest.mark.cluster
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
EPOCHS = 150


def start(store: Path, epochs: int, *options: str) -> subprocess.Popen[str]:
    about = ["digits-lt:20", "--methods", "naive,cb-rs", "--seeds", "2", "--epochs", str(epochs)]
    command = [sys.executable, "-m", "class_uncertainty", "compare", *about, "--store", str(store), *options]
    return subprocess.Popen(command, env=PLAIN, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(happened: Callable[[], object], process: subprocess.Popen[str]) -> None:
    last = time.monotonic() + 120
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < last
        time.sleep(0.05)


def left(processes: list[int]) -> list[str]:
    """The command lines of those that have not ended within a minute; what has ended may wait for its parent."""
    last = time.monotonic() + 60
    while lines := [line for process in processes if (line := command_line(process))]:
        if time.monotonic() > last:
            break
        time.sleep(0.1)
    return lines


def command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What a process without Ray stores."""
    store = tmp_path_factory.mktemp("alone") / "store.sqlite"
    start(store, EPOCHS).communicate(timeout=300)
    return contents(store)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_that_goes_on_later(number, code, alone, tmp_path):
    """Checkpoints are kept, one sentence says so, and neither a stack trace nor a process is left."""
    store = tmp_path / "store.sqlite"
    process = start(store, EPOCHS, "--on", "ray")
    wait_for(lambda: newest(tmp_path / "store.sqlite.running"), process)
    cluster = descendants(process.pid)
    addresses = listening([process.pid, *cluster])
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == code, said
    assert list(addresses) == ["127.0.0.1"]
    assert addresses["127.0.0.1"] >= 5  # of the driver, the head's two processes and two workers
    told = [line for line in said.splitlines() if line]
    assert told[-1].startswith("cu: stopped; ")
    assert "checkpoints keep what has not" in told[-1]
    assert all(line.startswith(("cu: ", "after ", "training ")) for line in told), said
    assert newest(tmp_path / "store.sqlite.running")
    assert left(cluster) == []

    _, said = start(store, EPOCHS, "--on", "ray").communicate(timeout=300)
    assert contents(store) == alone, said


@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 4.0, 6.0])
def test_sigterm_at_some_moment(seconds, tmp_path):
    """While modules are imported, while Ray starts, while its first workers do."""
    process = start(tmp_path / "store.sqlite", 4000, "--on", "ray")
    time.sleep(seconds)
    cluster = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 143, said
    told = [line for line in said.splitlines() if line]
    assert all(line.startswith(("cu: stopped", "after ", "training ")) for line in told), said
    assert not out
    assert left(cluster) == []
