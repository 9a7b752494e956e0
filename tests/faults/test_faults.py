"""A spread sample of what run.py tries completely."""

from itertools import cycle, islice

import pytest
from faults.harness import FAULTS, SCENES, Played, Stage, build_shim, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())

CASES = {"report": 2, "report, pictures": 1, "fix": 2}  # of the slow ones; of the others EACH
EACH = 5
GOLDEN = 0.618  # its multiples are spread evenly


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    stage = Stage(folder / "stage", build_shim(folder))
    yield stage
    stage.close()


def sample(scene, calls):
    """Faults that go on where the scene before has ended, each at another part of the command."""
    names = list(SCENES)
    first = sum(CASES.get(name, EACH) for name in names[: names.index(scene)])
    possible = ((name, sum(calls[kind] for kind in FAULTS[name].kinds)) for name in islice(cycle(FAULTS), first, None))
    chosen = islice((case for case in possible if case[1]), CASES.get(scene, EACH))
    return [(name, 1 + int(number * ((first + i) * GOLDEN % 1))) for i, (name, number) in enumerate(chosen)]


@pytest.mark.parametrize("scene", SCENES)
def test_a_call_that_fails_costs_a_sentence_and_nothing_else(scene, stage):
    played = Played(stage, SCENES[scene])
    assert {(fault, k): broken for fault, k in sample(scene, played.calls) if (broken := played.broken(fault, k))} == {}


def test_what_breaks_is_seen(stage):
    """Were the right result another, or the fault one that cannot be met, it would be said."""
    played = Played(stage, SCENES["predict"])
    fired = stage.run(played.scene.words, played.start, FAULTS["write: no space"], 1)
    assert (fired.code, fired.faults) == (1, 1)
    assert fired.calls["write"] >= 1  # what is still in a buffer is written again as its file is closed
    played.right = None
    assert played.broken("read: half", 1) == ["exit code 0 and another result, []", "then another result"]
