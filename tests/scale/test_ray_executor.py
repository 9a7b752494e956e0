"""A local Ray cluster: the same bits as one process, also after a kill; what it refuses. The long form is elsewhere."""

import signal
import threading
import time
from importlib.util import find_spec

import numpy as np
import pytest
from clusters import kill_worker
from same_stores import contents

import class_uncertainty as cu
from class_uncertainty.errors import InputError, MachineFault, Unfinished
from class_uncertainty.runs.context import open_executor

INSTALLED = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
RECIPE = cu.Recipe("small-conv", epochs=12, batch=32)
METHODS = ["naive", "ubrs", "crt"]


@INSTALLED
def test_examples_of_the_object_store_are_not_copied(digits):
    """Arrays there are read-only, of which torch would make copies."""
    from class_uncertainty.scale.ray_task import without_copies
    from class_uncertainty.training.fit_result import as_tensor

    locked = digits.train.take(np.arange(20))
    locked.inputs.flags.writeable = False
    view = without_copies(locked).inputs
    assert as_tensor(view).data_ptr() == locked.inputs.ctypes.data
    assert np.array_equal(view, locked.inputs)
    assert without_copies(locked).fingerprint == locked.fingerprint


@INSTALLED
@pytest.mark.filterwarnings("ignore")
def test_a_local_cluster(digits, tmp_path, notices, monkeypatch):
    """One cluster for all of it: starting one takes seconds."""
    import ray

    monkeypatch.setattr("class_uncertainty.scale.ray_executor.BEGINNING", 120.0)  # on a machine that does other things
    about = {"methods": METHODS, "seeds": 2, "members": 2, "recipe": RECIPE}
    cu.compare(digits, **about, device="cpu", store=tmp_path / "here.sqlite")
    with pytest.raises(MachineFault, match=r"no Ray cluster at ray://127\.0\.0\.1:9: Connection refused"):
        cu.measure(digits, recipe=RECIPE, on="ray://127.0.0.1:9")
    own_handler = signal.getsignal(signal.SIGTERM)
    with open_executor("ray", "cpu") as (executor, device):
        assert signal.getsignal(signal.SIGTERM) == own_handler
        assert ray.is_initialized()
        with pytest.raises(InputError, match="has no GPUs"):
            cu.measure(digits, recipe=RECIPE, device="cuda", on="ray")
        with pytest.raises(Unfinished, match="0 of 2 networks trained"):
            cu.measure(digits, members=2, recipe=RECIPE, store=tmp_path / "ray.sqlite", budget=1e-3, on="ray")
        assert list(tmp_path.glob("ray.sqlite.running/*.safetensors"))
        killer = threading.Thread(target=_kill_one)
        killer.start()
        cu.compare(digits, **about, store=tmp_path / "ray.sqlite", on="ray")
        killer.join()
        assert executor.device == device == "cpu"
    assert not ray.is_initialized()
    assert contents(tmp_path / "ray.sqlite") == contents(tmp_path / "here.sqlite")
    assert any("its process was killed; it is tried again" in told for told in notices), notices
    assert not list(tmp_path.glob("*.running"))


def _kill_one() -> None:
    rng, last = np.random.default_rng(0), time.monotonic() + 60
    while time.monotonic() < last and not kill_worker(rng):
        time.sleep(0.01)
