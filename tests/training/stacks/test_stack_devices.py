"""Stacks that diverge, on devices that are small, not there or without a compiler; and the last batch."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from fits import same_fits
from refusals import refused
from training.stacks.stacked import LANES, RECIPE

import class_uncertainty as cu
from class_uncertainty.training import train_step
from class_uncertainty.training.networks.classifier import Standardise
from class_uncertainty.training.networks.network_table import NETWORKS
from class_uncertainty.training.networks.stack import FAILED, SGD, Stack
from class_uncertainty.training.sampling import Examples, LaneSampler, draw_epoch
from class_uncertainty.training.stage_runner import StageRunner
from class_uncertainty.training.stages import ResolvedStage
from class_uncertainty.training.train_step import StepProgram


def test_a_lane_that_diverges_is_frozen_and_leaves_the_others_as_they_are(digits, stats, trained):
    lanes = [*LANES[:2], cu.Lane("naive", 9, lr=1e12), *LANES[2:]]
    told = []
    options = {"recipe": trained.recipe, "stats": stats, "test": digits.test, "device": "cpu"}
    fitted = cu.fit(digits.train, lanes, **options, progress=told.append)
    assert fitted.results[2].diverged == 0
    assert fitted.results[2].scores is None
    rates = [
        news.lr[news.lanes.index(lanes[2])]
        for news in sorted(told, key=lambda news: news.epoch)
        if lanes[2] in news.lanes
    ]
    assert rates[0] > 0
    assert rates[1:] == [0] * (RECIPE.epochs - 1)
    same_fits(fitted.take([0, 1, 3, 4, 5, 6]), trained)


def test_a_gpu_with_little_memory_gets_smaller_stacks(digits, stats, whole, monkeypatch):
    """As if two lanes were all that fit."""
    run, tried = StageRunner.run, []

    def with_little_memory(job, places, started):
        tried.append(len(places))
        if len(places) > 2:
            raise torch.OutOfMemoryError
        return run(job, places, started)

    monkeypatch.setattr(StageRunner, "run", with_little_memory)
    same_fits(cu.fit(digits.train, LANES, recipe=RECIPE, stats=stats, test=digits.test, device="cpu"), whole)
    assert sorted(tried) == [1, 1, 2, 2, 3, 5]


def test_a_gpu_too_small_for_one_lane_says_so(digits, monkeypatch):
    def nothing_fits(job, places, started):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(StageRunner, "run", nothing_fits)
    with pytest.raises(cu.MachineFault, match="too little memory for one lane of network 'small-conv' with batch 32"):
        cu.fit(digits.train, LANES[:1], recipe=RECIPE, device="cpu")


def test_a_trace_of_one_epoch(digits, tmp_path):
    trace = tmp_path / "trace.json"
    for _ in range(2):
        cu.fit(digits.train, LANES[:1], recipe=RECIPE, device="cpu", profile=trace)
        assert json.loads(trace.read_text())["traceEvents"]
    trace.write_text("mine")
    with refused(trace):
        cu.fit(digits.train, LANES[:1], recipe=RECIPE, device="cpu", profile=trace)
    assert trace.read_text() == "mine"
    cu.fit(digits.train, LANES[:1], recipe=RECIPE, device="cpu", profile=trace, force=True)
    assert json.loads(trace.read_text())["traceEvents"]


@pytest.mark.parametrize(("asked", "taken"), [("cpu", "cpu"), ("cpu:0", "cpu"), (torch.device("cpu"), "cpu")])
def test_a_device_may_be_said_in_many_ways(digits, asked, taken):
    fitted = cu.fit(digits.train, LANES[:1], recipe=dataclasses.replace(RECIPE, epochs=1), device=asked)
    assert fitted.device == fitted.results[0].device == taken


@pytest.mark.parametrize("asked", ["gpu", "cpu:1", "cuda:1", "meta"])
def test_a_device_that_is_not_there(digits, asked):
    with refused("device", asked, "'c"):  # 'cpu' or 'cuda' is offered
        cu.fit(digits.train, LANES[:1], recipe=RECIPE, device=asked)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, when it imports its compiler
def test_a_compiler_that_does_not_work_is_done_without(tmp_path, monkeypatch):
    """It is there and fails: training goes on, says so once, and comes to what it comes to without.

    Only large networks are compiled: here one that is not, to have little to compile.
    """
    monkeypatch.setitem(NETWORKS, "small-conv", dataclasses.replace(NETWORKS["small-conv"], large=True))
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    data = cu.Data(np.random.default_rng(0).integers(0, 256, (32, 3, 8, 8)).astype(np.uint8), np.arange(32) % 2)
    recipe = cu.Recipe("small-conv", epochs=2, batch=16)
    plain = cu.fit(data, [cu.Lane("naive")], recipe=recipe, device="cpu")
    for name in ("PATH", "CXX"):
        monkeypatch.setenv(name, str(tmp_path) if name == "PATH" else str(compiler))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(train_step, "COMPILED", 0)
    monkeypatch.setitem(FAILED, "compile", False)
    with pytest.warns(RuntimeWarning, match="torch.compile does not work here"):
        again = cu.fit(data, [cu.Lane("naive")], recipe=recipe, device="cpu")
    cu.fit(data, [cu.Lane("naive", 1)], recipe=recipe, device="cpu")  # says nothing: here a warning is an error
    assert all(torch.equal(value, again.states[0][name]) for name, value in plain.states[0].items())


@pytest.mark.parametrize(("drop_last", "steps", "examples"), [(True, 3, 96), (False, 4, 110)])
def test_the_last_batch(drop_last, steps, examples):
    recipe = cu.Recipe("linear", epochs=1, batch=32, drop_last=drop_last)
    lanes = [cu.Lane("naive")] * 2
    stack = Stack(recipe, (4,), ("a", "b"), lanes)
    counts = torch.tensor([[55, 55]])
    data = Examples(torch.randn(110, 4), torch.arange(110) % 2, Standardise(torch.zeros(4), torch.ones(4)), counts)
    train, leg = cu.Data(np.asarray(data.inputs), np.arange(110) % 2), ResolvedStage(recipe)
    assert leg.length(train) == examples
    plans, draws = draw_epoch([LaneSampler(lane, train, None, 4) for lane in lanes], leg, 0, examples)
    program = StepProgram(stack, SGD(stack, recipe), leg, data, lanes, draws)
    seen = []
    program._step, step = lambda size: (seen.append(size), step(size)), program._step
    assert program.length == examples
    losses, errors = program.epoch(plans, draws, torch.full((2,), 0.1), lambda: None).numpy()
    assert (len(seen), sum(seen)) == (steps, examples)
    assert np.isfinite(losses).all()
    assert (errors >= 0).all()
