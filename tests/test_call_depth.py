"""No command goes deep: whoever follows a call from a command to a training step passes few functions."""

import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

import numpy as np
import pytest
from commands import SHORT, SHORT_FIX, Call, Run
from example_results import export_text
from ledgers import use_toys

import class_uncertainty as cu

PACKAGE = str(Path(cu.__file__).parent)
DEEPEST = 15  # functions of the package on the stack of any thread
CHECKS = str(Path(PACKAGE) / "boundary.py")  # argument checks of public calls: not where anybody looks for what happens
INLINE = {
    "<module>",
    "<lambda>",
    "<listcomp>",
    "<dictcomp>",
    "<setcomp>",
    "<genexpr>",
}  # part of the function they stand in
DATA = ("digits-lt:20", *SHORT)
COMMANDS = {
    "measure": ("measure", *DATA),
    "measure, estimators": ("measure", *DATA, "--estimators", "single,out-of-fold,duq"),
    "compare": ("compare", *DATA, "--methods", "naive,ubrs,crt,distil", "--seeds", "1", "--estimator", "out-of-fold"),
    "compare, chosen rates": (
        "compare",
        *DATA,
        "--methods",
        "ubrs,crt,distil",
        "--seeds",
        "1",
        "--lrs",
        "0.1,0.2",
        "--choose-lr",
    ),
    "train": ("train", *DATA, "--method", "ubrw", "--save", "other"),
    "train, no test split": ("train", "csv:t.csv", "--epochs", "2"),
    "fix": ("fix", "digits-lt:20", *SHORT_FIX, "--save", "fixed"),
    "fix, ensemble": (
        "fix",
        "digits-lt:20",
        *SHORT_FIX[:2],
        "--candidates",
        "ubrs,ldam-rw",
        "--seeds",
        "1",
        "--deploy",
        "ensemble",
    ),
    "fix, no test split": ("fix", "csv:t.csv", *SHORT_FIX),
    "fix, a table": ("fix", "csv:t.csv", "--candidates", "naive?recipe=forest&trees=3,naive?recipe=logistic"),
    "predict": ("predict", "model", "new.npy"),
    "adjust": ("adjust", "p.npz", "--counts", "9,3", "--unseen", "unseen.npz", "--bias"),
    "report": ("report",),
    "reproduce": ("reproduce", "table1", "--protocol", "paper"),
    "results export": ("results", "export", "r.jsonl"),
    "results import": ("results", "import", "a.jsonl", "--store", "other.sqlite"),
}


class Depth:
    """A profiler that keeps the longest stack of package functions that any thread has had."""

    def __init__(self) -> None:
        self.stacks = threading.local()
        self.longest: list[str] = []
        self.counts: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if (counts := self.counts.get(code)) is None:
            file = code.co_filename
            counts = self.counts[code] = file.startswith(PACKAGE) and file != CHECKS and code.co_name not in INLINE
        if counts:
            stack: list[CodeType] = self.stacks.__dict__.setdefault("codes", [])
            if event == "return":
                stack.pop()
                return
            stack.append(code)
            if len(stack) > len(self.longest):
                self.longest = [f"{Path(code.co_filename).stem}.{code.co_qualname}" for code in stack]

    def __enter__(self) -> "Depth":
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture
def files(run: Run, rng: np.random.Generator, digits: cu.Dataset) -> Run:
    """What the commands read."""
    Path("t.csv").write_text("a,label\n" + "".join(f"{rng.normal():.3f},{'uv'[i % 4 == 0]}\n" for i in range(40)))
    Path("a.jsonl").write_bytes(export_text())
    np.save("new.npy", digits.test.inputs[:9])
    for name in ("p", "unseen"):
        np.savez(f"{name}.npz", probabilities=rng.dirichlet(np.ones(2), 12), labels=np.arange(12) % 2)
    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_goes_through_few_functions(
    command: str, files: Run, blank_charts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_toys(monkeypatch)
    blank_charts()  # another process draws them
    if command in ("predict", "report", "results export"):
        files("train", "digits-lt:20", "--epochs", "1", "--save", "model")
    with Depth() as depth:
        code, _, err = files(*COMMANDS[command])
    assert code == 0, err
    assert len(depth.longest) >= 5  # or nothing was seen
    assert len(depth.longest) <= DEEPEST, f"{len(depth.longest)} frames: " + " > ".join(depth.longest)


def test_depth_is_seen() -> None:
    """Of threads too; a function that has returned does not count."""
    with Depth() as depth:
        cu.adjust([0.5, 0.5], [3, 1])
        alone = list(depth.longest)
        thread = threading.Thread(target=lambda: [cu.fit_adjustment([[0.5, 0.5]], [0], [3, 1]) for _ in range(2)])
        thread.start()
        thread.join()
    assert any(name.startswith("adjustment.") for name in alone)
    assert len(depth.longest) > len(alone)
    assert any("fit_adjustment" in name for name in depth.longest)
