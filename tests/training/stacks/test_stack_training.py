"""Long trainings: checkpoints, budgets, faults and traces."""

import dataclasses
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fits import same_fits
from training.stacks.stacked import LANES, RECIPE

import class_uncertainty as cu
from class_uncertainty.training import fit
from class_uncertainty.training.checkpoints import Checkpoints


@pytest.mark.parametrize("budget", [3, 4, 9, 10])
def test_a_budget_stops_at_an_epochs_end_and_the_same_call_goes_on(digits, stats, whole, tmp_path, monkeypatch, budget):
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))  # a second is a look at the clock
    told, kept = [], []
    options = {
        "recipe": RECIPE,
        "stats": stats,
        "test": digits.test,
        "device": "cpu",
        "checkpoints": tmp_path / "running",
    }
    while True:
        try:
            fitted = cu.fit(digits.train, LANES, **options, budget=budget, progress=told.append)
            break
        except cu.Unfinished:
            kept.append(len(list((tmp_path / "running").glob("*.safetensors"))))
    assert kept[0] >= 1
    same_fits(fitted, whole)
    assert not (tmp_path / "running").exists()
    done = [(lane, news.epoch) for news in told for lane in news.lanes]
    assert len(done) == len(set(done)) == len(LANES) * RECIPE.epochs  # nothing was trained twice


def test_lanes_that_another_process_went_on_with(digits, stats, whole, tmp_path, monkeypatch):
    """Between grouping and training, some are further than they were, and one has lost its file."""
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu"}
    for folder, epoch in (("running", 1), ("further", 3)):
        with pytest.raises(KeyboardInterrupt):
            cu.fit(digits.train, LANES, **options, checkpoints=tmp_path / folder, every=1, progress=interrupt_in(epoch))
    fitting = fit._run_group
    *further, lost = sorted(file.name for file in (tmp_path / "further").iterdir())[:3]
    begins, begun = threading.Lock(), threading.Event()

    def meanwhile(job, places):
        with begins:  # stacks begin side by side, and one that has ended removes its files
            if not begun.is_set():
                for name in further:
                    shutil.copy(tmp_path / "further" / name, tmp_path / "running" / name)
                (tmp_path / "running" / lost).unlink()
                begun.set()
        return fitting(job, places)

    monkeypatch.setattr(fit, "_run_group", meanwhile)
    same_fits(cu.fit(digits.train, LANES, **options, checkpoints=tmp_path / "running"), whole)


CHILD = """
import sys, time
import numpy as np
import class_uncertainty as cu
sys.path.insert(0, sys.argv[1])
from stacked import LANES, RECIPE, every_third_digit

digits = every_third_digit()
stats = cu.Stats(digits.train.counts, np.linspace(1, 3, 10))
slow = lambda news: (print(f"{news.epoch}\\n", end="", flush=True), time.sleep(0.2))
options = {"device": "cpu", "checkpoints": sys.argv[2], "every": 1, "progress": slow}
cu.fit(digits.train, LANES, recipe=RECIPE, stats=stats, test=digits.test, **options)
"""


def test_two_processes_train_the_same_at_once(digits, stats, whole, tmp_path):
    """This one and a child, which has just begun."""
    here, environment = str(Path(__file__).parent), os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD, here, str(tmp_path / "running")]
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu", "every": 1}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as child:
        assert child.stdout.readline() == "0\n"
        fitted = cu.fit(digits.train, LANES, **options, checkpoints=tmp_path / "running")
        assert (child.communicate()[1], child.returncode) == ("", 0)
    same_fits(fitted, whole)
    assert not (tmp_path / "running").exists()


def test_a_caller_may_keep_the_checkpoints_of_lanes_that_have_ended(digits, trained, tmp_path):
    """Then the same call trains nothing."""
    kept, told = Checkpoints(tmp_path / "running"), []
    options = {"recipe": trained.recipe, "test": digits.test, "device": "cpu", "checkpoints": kept}
    same_fits(cu.fit(digits.train, LANES[:1], **options), trained.take([0]))
    same_fits(cu.fit(digits.train, LANES[:1], **options, progress=told.append), trained.take([0]))
    assert told == []


def test_a_damaged_checkpoint_costs_time_and_nothing_else(digits, stats, whole, tmp_path, notices):
    """A bit in the middle of every file, where the weights are: told of, trained again, and the same bits as
    without."""
    kept = Checkpoints(tmp_path / "running")
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu", "checkpoints": kept, "every": 1}
    with pytest.raises(cu.Unfinished):
        cu.fit(digits.train, LANES, **options, budget=1e-9)
    files = list(kept.folder.iterdir())
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 16
        file.write_bytes(content)
    same_fits(cu.fit(digits.train, LANES, **options), whole)
    assert files
    assert len(notices) == len(files)


def test_a_budget_without_checkpoints_loses_only_what_runs(digits):
    told = []
    with pytest.raises(cu.Unfinished, match="with 0 of 1 networks trained"):
        cu.fit(digits.train, [cu.Lane("naive")], recipe=RECIPE, device="cpu", budget=1e-9, progress=told.append)
    assert len(told) == 1  # an epoch at least, so that short budgets come to an end too


@pytest.mark.parametrize(
    "options",
    [
        {"every": 0},
        {"every": "3"},
        {"every": 1.5},
        {"budget": 0},
        {"budget": -1},
        {"budget": float("nan")},
        {"budget": "1m"},
    ],
)
def test_wrong_options_are_refused(digits, options):
    ((name, value),) = options.items()
    with pytest.raises(cu.InputError, match=f"{name} (is )?{value!r}.* must be .*number"):
        cu.fit(digits.train, [cu.Lane("naive")], recipe=RECIPE, **options)


@pytest.mark.parametrize("content", [b"", b"not safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_a_damaged_checkpoint_is_begun_anew(digits, stats, whole, tmp_path, content):
    options = {
        "recipe": RECIPE,
        "stats": stats,
        "test": digits.test,
        "device": "cpu",
        "checkpoints": tmp_path / "running",
    }
    with pytest.raises(KeyboardInterrupt):
        cu.fit(digits.train, LANES, **options, every=1, progress=interrupt_in(3))
    files = sorted((tmp_path / "running").glob("*.safetensors"))
    files[0].write_bytes(content)
    same_fits(cu.fit(digits.train, LANES, **options), whole)


def interrupt_in(epoch):
    def progress(news):
        if news.epoch == epoch:
            raise KeyboardInterrupt

    return progress


def test_a_checkpoint_belongs_to_its_lane_recipe_and_data(digits, stats, tmp_path):
    options = {"stats": stats, "device": "cpu", "checkpoints": tmp_path / "running"}
    with pytest.raises(KeyboardInterrupt):
        cu.fit(digits.train, LANES[:1], recipe=RECIPE, **options, every=1, progress=interrupt_in(3))
    (file,) = (tmp_path / "running").iterdir()
    for lane, recipe, train in (
        (cu.Lane("naive", 1), RECIPE, digits.train),
        (LANES[0], dataclasses.replace(RECIPE, lr=0.2), digits.train),
        (LANES[0], RECIPE, cu.long_tail(cu.load("digits").train, 10)),
    ):
        told = []
        cu.fit(train, [lane], recipe=recipe, **options, progress=told.append)
        assert [news.epoch for news in told] == list(range(RECIPE.epochs))
        assert file.exists()  # another's


def test_a_checkpoint_folder_that_cannot_be_made(digits, tmp_path):
    (tmp_path / "running").write_text("a file")
    with pytest.raises(cu.InputError, match="running is not a folder"):
        cu.fit(digits.train, LANES[:1], recipe=RECIPE, device="cpu", checkpoints=tmp_path / "running", every=1)


def test_a_long_epoch_ends_in_a_checkpoint(digits, tmp_path, monkeypatch):
    """However many epochs lie between checkpoints: on a CPU ten of a large network may take an hour."""
    monkeypatch.setattr("class_uncertainty.training.stack_training.UNSAVED", 0.0)
    kept = Checkpoints(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        cu.fit(
            digits.train, LANES[:1], recipe=RECIPE, device="cpu", checkpoints=kept, every=1000, progress=interrupt_in(2)
        )
    assert list(tmp_path.iterdir())


def test_a_short_budget_goes_on_with_what_an_earlier_one_began(digits, tmp_path, monkeypatch):
    """Every call has time for one epoch: the lane that is furthest comes first."""
    monkeypatch.setattr("class_uncertainty.training.stage_context.width_of", lambda *_: 1)
    monkeypatch.setattr("class_uncertainty.training.fit_result.width_of", lambda *_: 1)
    monkeypatch.setattr("class_uncertainty.training.fit.SMALL", 0)  # one stack at a time
    seen = []
    for _ in range(2):
        options = {"checkpoints": Checkpoints(tmp_path), "budget": 1e-6, "progress": seen.append, "device": "cpu"}
        with pytest.raises(cu.Unfinished):
            cu.fit(digits.train, [cu.Lane("naive", 0), cu.Lane("naive", 1)], recipe=RECIPE, **options)
    assert [(news.lanes[0].seed, news.epoch) for news in seen] == [(0, 0), (0, 1)]
