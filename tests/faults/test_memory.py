"""Too little memory at named points: where a function begins, and where the package calls torch or NumPy in it."""

import importlib
import json
import shutil
import sqlite3
import sys
from contextlib import closing

import pytest

COMPARE = "compare digits-lt:20 --methods naive,ubrs --seeds 1 --epochs 1 --members 2 --json"
REPORT = "report --json"
POINTS = {
    "training.train_step:StepProgram.epoch": COMPARE,
    "training.fit_result:Fit.probabilities": COMPARE,
    "training.checkpoints:Checkpoints.save": COMPARE,
    "runs.store:Store.add": COMPARE,
    "runs.store:Store.add_estimate": COMPARE,
    "runs.store:Store.get_estimate": COMPARE,
    "reporting.page:write": REPORT,
}
TORCH = (
    "[enforce fail at alloc_cpu.cpp:118] err == 0. "
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 40 bytes."
)


class Scarce:
    """A function that fails at the k-th call of torch or NumPy in it, at 0 where it begins; None only counts."""

    def __init__(self, function, error, k):
        self.function, self.error, self.k, self.calls = function, error, k, 0

    def __get__(self, instance, owner):
        return lambda *args, **options: self(instance, *args, **options)

    def __call__(self, *args, **options):
        if self.k == 0:
            raise self.error
        sys.setprofile(self.count)
        try:
            return self.function(*args, **options)
        finally:
            sys.setprofile(None)

    def count(self, frame, event, called):
        """An error in a profiler is raised in the place of the call that it is told of."""
        if event != "c_call" or not frame.f_globals.get("__name__", "").startswith("class_uncertainty"):
            return  # what libraries call, they may catch
        of = getattr(called, "__module__", None) or type(getattr(called, "__self__", None)).__module__
        if of.partition(".")[0] in ("numpy", "torch"):
            self.calls += 1
            if self.calls == self.k:
                raise self.error


def timeless(out):
    return json.loads(
        out, object_hook=lambda document: {name: value for name, value in document.items() if name != "seconds"}
    )


@pytest.mark.parametrize("point", POINTS)
def test_too_little_memory_costs_a_sentence_and_nothing_else(point, run, tmp_path, monkeypatch):
    module, _, name = point.partition(":")
    *classes, function = name.split(".")
    place = importlib.import_module(f"class_uncertainty.{module}")
    for part in classes:
        place = getattr(place, part)
    real = getattr(place, function)
    if POINTS[point] != COMPARE:
        run(COMPARE)
    before = set(tmp_path.iterdir())

    def patched(error, k):
        """`cu` in an empty folder, or after COMPARE, with too little memory -> (how it ended, calls)."""
        for file in set(tmp_path.iterdir()) - before:
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        scarce = Scarce(real, error, k)
        with monkeypatch.context() as patch:
            patch.setattr(place, function, scarce)
            return run(POINTS[point]), scarce.calls

    (code, right, _), calls = patched(None, None)
    assert code == 0
    for error, k in ((MemoryError(), 0), (RuntimeError(TORCH), (calls + 1) // 2)):
        (code, out, err), _ = patched(error, k)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert err.startswith("cu: ")
        assert err.endswith(".\n")
        assert "memory" in err
        with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as store:
            assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        code, out, err = run(POINTS[point])
        assert (code, timeless(out), err) == (0, timeless(right), "")
