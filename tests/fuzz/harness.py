"""What every reader must do with any file: make something valid of it, or refuse it in one sentence, soon."""

import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from time import perf_counter

from class_uncertainty.errors import InputError, MachineFault
from fuzz.mutations import mutated
from fuzz.targets import TARGETS, Files

LIMIT = 10.0  # seconds for one file, on a machine that others use too


class Late(BaseException):
    """No Exception: readers catch those."""


@cache
def files_of(name: str) -> Files:
    return TARGETS[name].files()


def try_one(name: str, case: int, place: Path) -> bool:
    """Whether the reader read what `case` makes of its files, or refused it; any other outcome is raised."""
    write(name, case, place)
    with held() as outcome:
        TARGETS[name].read(place)
    return "refused" not in outcome


def write(name: str, case: int, place: Path) -> None:
    """Its files with one of them changed: what is packed, the pack, or both. Case 0 is as it should be."""
    shutil.rmtree(place, ignore_errors=True)
    rng, target = Random(f"{name} {case}"), TARGETS[name]
    changed = rng.choice(sorted(files_of(name))) if case else ""
    ways = rng.choice([(True, False), (False, True), (True, True)])
    for file, content in files_of(name).items():
        inner, outer = ways if file == changed else (False, False)
        content = target.pack(mutated(content, rng) if inner else content)
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_bytes(mutated(content, rng) if outer else content)


@contextmanager
def held() -> Iterator[set[str]]:
    """That what is done within ends in time, without a warning, and if it is refused then in one sentence."""
    outcome: set[str] = set()
    began = perf_counter()
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        with warnings.catch_warnings(record=True) as told:  # not as errors, which a reader would catch
            warnings.simplefilter("always")
            try:
                yield outcome
            except (InputError, MachineFault) as error:
                outcome.add("refused")
                text = str(error)
        assert not outcome or (text.endswith(".") and len(text.splitlines()) == 1), text
        assert not told, told[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert perf_counter() - began < LIMIT


def _late(*_: object) -> None:
    raise Late(f"after {LIMIT} seconds")
