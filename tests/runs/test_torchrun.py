"""Two processes of torchrun train as one does: the same examples, and the same losses up to rounding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torchrun_script
from own_networks import registered

from class_uncertainty.errors import InputError
from class_uncertainty.runs.open_executor import open_executor
from class_uncertainty.runs.torchrun import unshared
from class_uncertainty.training import RECIPES, Lane, Recipe

SCRIPT = Path(torchrun_script.__file__)
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone")


def start(*launcher: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    paths = os.pathsep.join([str(SCRIPT.parent), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def test_two_processes_train_as_one_does():
    ended = start(*TORCHRUN)
    assert ended.returncode == 0, ended.stderr
    with registered("plain", torchrun_script.plain), registered("normed", torchrun_script.normed):
        one, two = torchrun_script.train_all(), json.loads(ended.stdout)
    assert list(one["plain"]["seen"]) == ["cb-rs"]
    for network in ("plain", "normed"):  # without batch statistics, and with those of all processes
        assert two[network]["seen"] == one[network]["seen"]
        for name, losses in one[network]["losses"].items():
            assert two[network]["losses"][name] == pytest.approx(losses, rel=2e-3), name
    assert one["plain"]["losses"] != two["plain"]["losses"]  # or the batches would not have been shared
    assert "the budget is spent" in two["unfinished"]["error"]  # and the processes went on together


def test_a_fault_of_the_first_process_ends_all():
    """The others wait in the middle of a step: nothing that they were told could reach them."""
    ended = start(*TORCHRUN, arguments=("fault",))  # within its limit of time
    assert ended.returncode == 1
    assert "the disk is full" in ended.stderr


@pytest.mark.parametrize(
    ("lane", "recipe", "reason"),
    [
        (Lane("naive"), RECIPES["embeddings"], "all examples at once"),
        (Lane("naive"), Recipe("small-conv", epochs=1, batch=6), "batch is 6"),
        (Lane("dro"), RECIPES["images"], "compares the examples"),
        (Lane("duq"), RECIPES["images"], "compares the examples"),
        (Lane("cb+mixup"), RECIPES["images"], "mixes the examples"),
        (Lane("ldam-rw"), RECIPES["images"], ""),
    ],
)
def test_what_cannot_be_shared_is_said(lane, recipe, reason):
    why = unshared(lane, recipe, 4)
    assert reason in why
    assert bool(reason) == bool(why)


def test_a_cluster_under_torchrun_is_refused(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="under torchrun"):
        open_executor("ray", None)
