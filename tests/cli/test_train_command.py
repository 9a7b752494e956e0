"""`cu train`, as a user types it."""

import json
from pathlib import Path

import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.runs import Store


def test_train_restore_and_report(run, tmp_path):
    code, out, _ = run("train digits-lt:20 --method ubrw --save models/digits --epochs 2 --members 2")
    assert code == 0
    assert "wrote models/digits.safetensors" in out
    module, test = cu.restore(tmp_path / "models/digits"), cu.load("digits-lt:20").test
    error = 100 * (module(torch.from_numpy(test.inputs)).argmax(1).numpy() != test.labels).mean()
    code, out, _ = run("train digits-lt:20 --method ubrw --epochs 2 --members 2 --json")
    assert json.loads(out)["result"]["scores"]["top1_error"] == pytest.approx(error)
    code, out, err = run("report --figures figures --json")
    assert (code, err) == (0, "")
    files = [Path(file) for file in json.loads(out)["files"]]
    assert files[0].read_text().startswith("<!doctype html>")
    assert {file.suffix for file in files[1:]} == {".svg"}
    assert all(file.stat().st_size > 1000 for file in files)


def test_a_network_that_diverged_is_not_saved(run, tmp_path):
    code, _, err = run("train digits --epochs 2 --lr 1e30 --save model")
    assert code == 2
    assert "naive diverged in epoch 1" in err
    assert not list(tmp_path.glob("model*"))


def test_saving_is_tried_before_anything_is_trained(run, tmp_path):
    (tmp_path / "file").write_text("")
    assert run("train digits --method ubrw --save file/model")[0] == 2
    with Store("runs.sqlite") as store:
        assert (store.data(), store.networks) == ([], 0)
