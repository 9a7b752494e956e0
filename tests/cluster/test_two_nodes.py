"""A comparison on two nodes of one core each: the same bits as in one process, whatever is killed or removed.

`make test-ray` runs these; they take minutes.
"""

import time
from pathlib import Path

import pytest
from clusters import at_random_moments, kill_worker, newest, two_nodes
from same_stores import contents

import class_uncertainty as cu

pytest.importorskip("ray")
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]
METHODS = ["naive", "cb-rs", "ubrs", "crt", "cb+mixup"]
RECIPE = cu.Recipe("small-conv", epochs=120, batch=32)
KILLS, REMOVALS = 10, 5


def compare(folder: Path, name: str, on: str | None = None) -> dict:
    store = folder / f"{name}.sqlite"
    cu.compare(
        cu.load("digits-lt:20"), methods=METHODS, seeds=5, members=3, recipe=RECIPE, device="cpu", store=store, on=on
    )
    assert not store.with_name(f"{name}.sqlite.running").exists()
    return contents(store)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process trains."""
    return compare(tmp_path_factory.mktemp("alone"), "alone")


def test_two_nodes_give_the_same_bits(alone, tmp_path):
    with two_nodes():
        assert compare(tmp_path, "two", "auto") == alone


def test_killed_workers_change_nothing(alone, tmp_path):
    """At ten random moments, each after a checkpoint since the last: three kills without progress would end a lane."""
    last = [0.0]

    def kill(rng) -> bool:
        if newest(tmp_path / "killed.sqlite.running") <= last[0] or not kill_worker(rng):
            return False
        last[0] = time.time()
        return True

    with two_nodes():
        stored, kills = at_random_moments(lambda: compare(tmp_path, "killed", "auto"), KILLS, (0.5, 4), 1, kill)
    assert stored == alone
    assert kills == KILLS


def test_removed_nodes_change_nothing(alone, tmp_path):
    with two_nodes() as cluster:

        def replace_node(rng) -> bool:
            cluster.remove_node(cluster.second, allow_graceful=False)
            time.sleep(rng.uniform(0, 2))
            cluster.second = cluster.add_node(num_cpus=1)
            return True

        work = lambda: compare(tmp_path, "removed", "auto")  # noqa: E731
        stored, removals = at_random_moments(work, REMOVALS, (5, 12), 2, replace_node)
    assert stored == alone
    assert removals == REMOVALS
