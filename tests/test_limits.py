"""Too little memory ends in one sentence: which errors mean it, what is stored, which limit is too low to start."""

import errno
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from class_uncertainty import MachineFault, limits
from class_uncertainty.errors import memory_faults

BENCHMARK = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "limits.py"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. "
            "DefaultCPUAllocator: can't allocate memory: tried to allocate 8"
        ),
        RuntimeError("could not create a primitive"),
        RuntimeError("could not create a memory object"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError("libgomp.so.1: failed to map segment from shared object"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        ImportError("libtorch_cpu.so: cannot allocate memory in static TLS block"),
    ],
    ids=repr,
)
def test_errors_that_mean_too_little_memory(error):
    with pytest.raises(MachineFault) as caught, memory_faults(lambda: "; all is kept"):
        raise error
    assert "too little memory" in str(caught.value)
    assert str(caught.value).endswith("; all is kept.")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        OSError(errno.ENOSPC, "No space left on device"),
        ImportError("cannot import name 'x'"),
        MachineFault("a.npz could not be read: Cannot allocate memory."),
        ValueError("out of memory"),
    ],
    ids=repr,
)
def test_other_errors_go_on_as_they_are(error):
    with pytest.raises(type(error)) as caught, memory_faults():
        raise error
    assert caught.value is error


def test_out_of_memory_in_training_says_what_is_kept_and_the_same_command_goes_on(run, monkeypatch):
    from class_uncertainty.training.stage_runner import StageRunner

    command = ("compare", "digits-lt:20", "--methods", "naive,cb-rs", "--seeds", "5", "--epochs", "1", "--json")
    _, expected, _ = run(*command, "--store", "whole.sqlite")
    original, calls = StageRunner.run, []

    def short(self, places, started):
        calls.append(places)
        if len(calls) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes")
        return original(self, places, started)

    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # one stack after the other
    monkeypatch.setattr(StageRunner, "run", short)
    code, out, err = run(*command)
    kept = len(calls[0])
    assert (code, out) == (1, "")
    assert f"({kept} results, {kept} networks)" in err
    assert err.count("\n") == 1
    monkeypatch.setattr(StageRunner, "run", original)
    assert run(*command)[:2] == (0, expected)


def test_threads_are_as_many_as_a_limit_has_room_for():
    code = (
        "import os, class_uncertainty; print(os.environ.get('OMP_NUM_THREADS'), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )

    def threads(megabytes: int, **environment: str) -> list[str]:
        few = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        command = [*BENCHMARK["limited"](megabytes), sys.executable, "-c", code]
        return subprocess.run(
            command, env=few | environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout.split()

    assert threads(limits.FLOOR) == ["1", "1"]
    assert threads(limits.FLOOR, OMP_NUM_THREADS="3") == ["3", "1"]
    assert threads(limits.FLOOR + limits.THREAD * (os.cpu_count() or 1)) == ["None", "None"]


def test_idle_threads_sleep_unless_the_environment_says_otherwise():
    """Set before torch is loaded, which reads it once."""
    call = "import os, sys, class_uncertainty; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"

    def policy(**environment):
        there = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | environment
        return subprocess.run([sys.executable, "-c", call], env=there, capture_output=True, text=True).stdout.split()

    assert policy() == ["PASSIVE", "False"]
    assert policy(OMP_WAIT_POLICY="ACTIVE") == ["ACTIVE", "False"]


def test_commands_under_a_limit_end_rightly_or_in_one_sentence(run, tmp_path, monkeypatch):
    """The benchmark in short: too little for NumPy, and too little for torch."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)  # theirs are as many as a user's
    expected = {name: run(*BENCHMARK["COMMANDS"][name], "--json")[1] for name in ("measure", "report")}
    small = BENCHMARK["tried"]([100, limits.FLOOR - 50], {"measure": expected["measure"]}, tmp_path / "runs.sqlite")
    assert small == {megabytes: {"measure": "one sentence"} for megabytes in (100, limits.FLOOR - 50)}
    ends = BENCHMARK["tried"]([4000], expected, tmp_path / "runs.sqlite")
    assert ends == {4000: {"measure": "right", "report": "right"}}
