"""Experiments side by side: what has ended is written down, and what still trains is stopped as by Ctrl-C."""

import importlib.util
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from example_results import add_data
from ledgers import DATA, measurement, result, stored

from class_uncertainty.runs.result_lines import export_lines, read_lines
from class_uncertainty.runs.store import Store

TOOL = Path(__file__).parents[1] / "tools" / "side_by_side.py"

# In place of `cu`: imports the file that it is to reproduce; "wait" then waits for Ctrl-C, "fail" fails, "late" has
# no time for more, and "tell" tells what it was given for MPS
FAKE = """
import os, sys, time
from pathlib import Path
from class_uncertainty.runs.result_lines import import_lines, read_lines
from class_uncertainty.runs.store import Store
_, command, file, then, *rest = sys.argv
assert command == "reproduce" and rest[0] == "--store", sys.argv
assert rest[2] == "--budget" and 0 < int(rest[3].removesuffix("s")) <= 300, sys.argv
with Store(Path(rest[1])) as store:
    print("about to", then, "after", store.finished, "results", flush=True)
    import_lines(store, read_lines(Path(file)), file)
if then == "tell":
    for name in ("CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_PIPE_DIRECTORY"):
        print(f"{name}={os.environ.get(name, '')}")
try:
    while then == "wait":
        time.sleep(0.05)
except KeyboardInterrupt:
    sys.exit(130)
sys.exit({"fail": 7, "late": 3}.get(then, 0))
"""

Run = Callable[..., int]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("side_by_side", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fake = tmp_path / "fake.py"
    fake.write_text(textwrap.dedent(FAKE))
    monkeypatch.setattr(module, "CU", [sys.executable, str(fake)])
    monkeypatch.setattr(module, "EVERY", 0.3)
    return module


@pytest.fixture
def run(tool, tmp_path, monkeypatch):
    def run(*arguments: object) -> int:
        words = [str(tmp_path / "new.jsonl"), "--minutes", "5", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", [str(TOOL), *words])
        return tool.main()

    return run


def write(path: Path, *methods: str) -> Path:
    """Results of these methods, and the class uncertainties of their data, as `cu results export` writes them."""
    with Store(path.with_suffix(".sqlite")) as store:
        data = add_data(store, stored(DATA))
        store.add_measurement("a measurement", data.fingerprint, measurement())
        for method in methods:
            store.add(f"key of {method}", data.fingerprint, result(method, 20.0))
        path.write_text("".join(export_lines(store)))
    return path


def methods_in(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    return sorted(line["document"]["method"] for line in lines if line["kind"] == "result")


def test_what_is_new_is_written_once(run, tmp_path, capsys):
    known = write(tmp_path / "known.jsonl", "naive")
    first, second = write(tmp_path / "first.jsonl", "naive", "cb"), write(tmp_path / "second.jsonl", "cb", "ubrs")
    assert run("--known", known, "--", f"reproduce {first} end", f"reproduce {second} end") == 0
    new = tmp_path / "new.jsonl"
    assert methods_in(new) == ["cb", "ubrs"]
    assert read_lines(new)[0].value == stored(DATA)
    assert len(new.read_text().splitlines()) == 3  # the data set, and both results: the measurement was known
    assert f"reproduce {first} end: has ended" in capsys.readouterr().out
    log = (tmp_path / "new.logs" / "0.log").read_text()
    assert log.startswith("about to end after ")
    assert "after 0 results" not in log  # what is known is not trained again


def test_commands_of_a_program_run_in_turn(run, tmp_path):
    """Each finds what those before it have stored; after one that has no time for more, none begins."""
    first, second = write(tmp_path / "first.jsonl", "naive", "cb"), write(tmp_path / "second.jsonl", "ubrs")
    commands = [f"reproduce {first} end", f"reproduce {second} late", f"reproduce {first} end"]
    assert run(" && ".join(commands)) == 0
    log = (tmp_path / "new.logs" / "0.log").read_text().splitlines()
    assert log == ["about to end after 0 results", "about to late after 2 results"]
    assert methods_in(tmp_path / "new.jsonl") == ["cb", "naive", "ubrs"]


def test_programs_are_stopped_as_this_one_is(run, tool, tmp_path, monkeypatch):
    """By Ctrl-C, once both have results and these are written down; when the time is up it is the same."""
    first, second = write(tmp_path / "first.jsonl", "cb"), write(tmp_path / "second.jsonl", "ubrs")
    said = list[str]()

    def interrupt(text: str, flush: bool = False) -> None:
        said.append(text)
        if text == "2 of 2 programs train, 4 lines are new":
            assert methods_in(tmp_path / "new.jsonl") == ["cb", "ubrs"]
            raise KeyboardInterrupt

    monkeypatch.setattr(tool, "print", interrupt, raising=False)
    assert run(f"reproduce {first} wait", f"reproduce {second} wait") == 0
    assert [text for text in said if "was stopped" in text] == [
        f"reproduce {file} wait: was stopped" for file in (first, second)
    ]


def test_when_the_time_is_up_programs_are_stopped(run, tmp_path, capsys):
    first = write(tmp_path / "first.jsonl", "cb")
    began = time.monotonic()
    assert run("--minutes", 0.1, f"reproduce {first} wait && reproduce {first} end") == 0
    assert 6 <= time.monotonic() - began < 60
    assert f"reproduce {first} end: was stopped" in capsys.readouterr().out
    assert "end" not in (tmp_path / "new.logs" / "0.log").read_text()  # nothing begins after that
    assert methods_in(tmp_path / "new.jsonl") == ["cb"]


def test_a_fault_of_this_program_stops_the_others(run, tool, tmp_path, monkeypatch):
    first, programs = write(tmp_path / "first.jsonl", "cb"), []

    def break_off(running: list, *_: object) -> None:
        programs.extend(running)
        raise OSError("no space left")

    monkeypatch.setattr(tool, "train", break_off)
    with pytest.raises(OSError, match="no space"):
        run(f"reproduce {first} wait")
    assert [program.process.poll() is None for program in programs] == [False]


IGNORES = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(5)"


def test_one_that_ignores_ctrl_c_is_killed(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "CU", [sys.executable, "-c", IGNORES])
    monkeypatch.setattr(tool, "PATIENCE", 0.2)
    log = tmp_path / "0.log"
    program = tool.Program([["reproduce"]], log, time.monotonic() + 60, dict(os.environ))
    while "deaf" not in log.read_text() and program.go_on():
        time.sleep(0.02)
    tool.stop([program])
    assert program.process.returncode == -signal.SIGKILL


def test_every_command_gets_the_data_folder(run, tool, tmp_path, monkeypatch):
    begun = list[list[str]]()

    def begin(commands: list[list[str]], *_: object) -> SimpleNamespace:
        begun.extend(commands)
        return SimpleNamespace(go_on=lambda: False, interrupt=lambda: None, has_failed=False, outcome="has ended")

    monkeypatch.setattr(tool, "Program", begin)
    assert run("--root", "photos", "--behind", "reproduce if2", "--", "reproduce if1a && measure digits") == 0
    shared = ["--store", str(tmp_path / "new.sqlite"), "--root", "photos"]
    commands = (["reproduce", "if1a"], ["measure", "digits"], ["reproduce", "if2"])
    assert begun == [[*command, *shared] for command in commands]


def test_a_program_between_two_commands_has_not_ended(tool, tmp_path):
    stopped = object.__new__(tool.Program)
    stopped.process, stopped.log = SimpleNamespace(returncode=0), tmp_path / "none"
    stopped.commands = [["reproduce"]]
    assert stopped.outcome == "was stopped"
    stopped.commands = []
    assert stopped.outcome == "has ended"


def test_one_that_fails_is_named_with_its_last_words(run, tmp_path, capsys):
    first = write(tmp_path / "first.jsonl", "cb")
    assert run(f"reproduce {first} fail", f"reproduce {first} end") == 1
    said = capsys.readouterr().out
    assert f"reproduce {first} fail: failed with exit code 7: about to fail after" in said
    assert methods_in(tmp_path / "new.jsonl") == ["cb"]


FAKE_MPS = """#!/bin/sh
[ "$1" = -d ] && exit 0
while :; do sleep 0.1; done
"""


def test_the_ones_behind_have_a_lower_priority(run, tool, tmp_path, monkeypatch, capsys):
    """All of them are under one server. One that does not quit, as somebody else uses it, loses no result."""
    fake = tmp_path / "mps"
    fake.write_text(FAKE_MPS)
    fake.chmod(0o700)
    monkeypatch.setattr(tool, "MPS", str(fake))
    monkeypatch.setattr(tool, "QUITS", 0.3)
    first, second = write(tmp_path / "first.jsonl", "cb"), write(tmp_path / "second.jsonl", "ubrs")
    assert run("--behind", f"reproduce {second} tell", "--", f"reproduce {first} tell") == 0
    logs = [(tmp_path / "new.logs" / f"{number}.log").read_text().splitlines() for number in range(2)]
    (front, pipe), (behind, same_pipe) = ([line.partition("=")[2] for line in log[1:]] for log in logs)
    assert (front, behind) == ("", "1")
    assert pipe
    assert pipe == same_pipe
    assert methods_in(tmp_path / "new.jsonl") == ["cb", "ubrs"]
    assert "other programs still use the MPS server" in capsys.readouterr().out


def test_a_server_that_is_named_is_used(run, tool, tmp_path, monkeypatch):
    """It is there for other programs too: none is started, and it is not told to quit."""
    fake = tmp_path / "mps"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    fake.chmod(0o700)
    monkeypatch.setattr(tool, "MPS", str(fake))
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "pipe"))
    assert run(f"reproduce {write(tmp_path / 'first.jsonl', 'cb')} tell") == 0
    assert f"CUDA_MPS_PIPE_DIRECTORY={tmp_path / 'pipe'}" in (tmp_path / "new.logs" / "0.log").read_text()
    assert not (tmp_path / "called").exists()


def test_one_whose_budget_is_spent_has_not_failed(run, tmp_path, capsys):
    first = write(tmp_path / "first.jsonl", "cb")
    assert run(f"reproduce {first} late") == 0
    assert f"reproduce {first} late: has no time for more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("reproduce if1a --budget 3m",), "--minutes"),
        (("--behind", "reproduce if1a --budget=3m", "--", "reproduce if1a"), "--minutes"),
        (("reproduce if1a --store mine.sqlite",), "--store"),
        (("reproduce if1a &&",), "empty command"),
        (("measure 'folder:a && b",), "no closing quotation"),
    ],
)
def test_lines_that_cannot_run_are_refused(given, said, run, tmp_path, capsys):
    with pytest.raises(SystemExit) as refused:
        run(*given)
    assert refused.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new.sqlite").exists()


def test_a_quoted_name_may_hold_what_joins_commands(tool):
    assert tool.commands_of("measure 'folder:a && b' && reproduce if2") == [
        ["measure", "folder:a && b"],
        ["reproduce", "if2"],
    ]


def test_a_known_file_that_is_not_there(run, tmp_path, capsys):
    with pytest.raises(SystemExit) as refused:
        run("--known", tmp_path / "nowhere.jsonl", "--", "reproduce if1a")
    assert refused.value.code == 2
    assert "nowhere.jsonl does not exist" in capsys.readouterr().err
