"""`--network` and `--pretrained`, as a user types them."""

import json
from pathlib import Path

import numpy as np
import pytest
from own_networks import swin_folder

import class_uncertainty as cu

FILE = """
import torch
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Dropout(0.1))

def fails():
    raise KeyError("weights")
"""


@pytest.fixture
def own_file(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    "command",
    [
        ("train", "--save", "model"),
        ("measure", "--members", "2"),
        ("compare", "--methods", "naive,distil", "--seeds", "1", "--members", "2"),
        ("fix", "--trainings", "6", "--seeds", "1", "--candidates", "naive,cb-rs", "--save", "model"),
    ],
    ids=lambda command: command[0],
)
def test_commands_train_a_network_of_a_users_own(command, run, own_file):
    name, *options = command
    more = ("--network", "mine.py:small", "--epochs", "1", "--json")
    code, out, err = run(name, "digits-lt:20", *options, *more)
    assert (code, err) == (0, "")
    assert "mine.py:small" in out
    if "--save" in options:
        assert json.loads(Path("model.json").read_text())["network"] == "mine.py:small"
        np.save("new.npy", np.zeros((2, 1, 8, 8), np.uint8))
        assert run("predict model new.npy --trust-code")[0] == 0
        own_file.unlink()
        code, _, err = run("predict model new.npy --trust-code")
        assert code == 2
        assert "'mine.py:small', which is not here" in err


def test_pretrained_means_the_recipe_fine_tune(run, tmp_path):
    swin_folder(tmp_path)
    digits = cu.load("digits-lt:20").train
    few = np.concatenate([np.flatnonzero(digits.labels == c)[:6] for c in range(10)])
    np.savez("few.npz", x=digits.inputs[few], y=digits.labels[few])
    arguments = "train npz:few.npz?test=0.2 --network hf:swin --pretrained --epochs 1 --json"
    code, out, _ = run(arguments)
    assert code == 0
    recipe = json.loads(out)["result"]["recipe"]
    assert (recipe["optimizer"], recipe["pretrained"], recipe["network"]) == ("adamw", True, "hf:swin")
    assert recipe["fingerprint"]


@pytest.mark.parametrize("options", [("--network", "resnet23"), ("--recipe", "images?network=resnet23")])
@pytest.mark.parametrize("command", ["train", "measure", "compare", "fix"])
def test_an_unknown_network_is_refused_before_data_are_read(command, options, run):
    code, _, err = run(command, "npz:nowhere.npz", *options)
    assert code == 2
    assert "did you mean 'resnet32'?" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--network", "mine.py:fails"], "fails() of mine.py raised KeyError"),
        (["--network", "mine.py:smal"], "did you mean 'small'?"),
        (["--network", "nowhere.py:small"], "nowhere.py is not a Python file"),
        (["--network", "small-conv", "--pretrained"], "no pretrained weights"),
        (["--network", "mlp", "--recipe", "images?network=small-conv"], "network is given twice"),
        (["--network", "resnet23"], "did you mean 'resnet32'?"),
    ],
)
def test_networks_that_do_not_work_end_in_one_sentence(options, words, run, own_file):
    code, out, err = run("train digits-lt:20", *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
