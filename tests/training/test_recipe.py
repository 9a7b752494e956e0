"""Recipes: those of the public code bases, and how they are named."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.training import RECIPES, default_recipe
from class_uncertainty.training.networks.network_table import NETWORKS
from class_uncertainty.training.recipe import parse_recipe


def test_bag_of_tricks_and_ldam_drw():
    ours, theirs = RECIPES["bag-of-tricks"], RECIPES["ldam-drw"]
    for recipe in (ours, theirs):
        assert (recipe.network, recipe.epochs, recipe.batch, recipe.lr, recipe.momentum) == (
            "resnet32",
            200,
            128,
            0.1,
            0.9,
        )
        assert (recipe.weight_decay, recipe.crop, recipe.flip) == (2e-4, 4, True)
    assert (ours.nesterov, theirs.nesterov, ours.drop_last, theirs.drop_last) == (True, False, True, False)
    np.testing.assert_allclose([ours.factor(e) for e in range(5)], [7 / 15, 0.6, 11 / 15, 13 / 15, 1])
    np.testing.assert_allclose([theirs.factor(e) for e in range(5)], [0.2, 0.4, 0.6, 0.8, 1])
    assert [e + 1 for e in range(1, 200) if ours.factor(e) < ours.factor(e - 1)] == [160, 180]  # counted from 1
    assert [e + 1 for e in range(1, 200) if theirs.factor(e) < theirs.factor(e - 1)] == [161, 181]
    assert (ours.factor(199), theirs.factor(199)) == pytest.approx((1e-4, 1e-4))


def test_recipes_by_name(digits):
    assert default_recipe(digits.train, "bag-of-tricks", epochs=3) == dataclasses.replace(
        RECIPES["bag-of-tricks"], epochs=3
    )
    with refused("recipe", "'bag-of-trick'", "'bag-of-tricks'"):
        default_recipe(digits.train, "bag-of-trick")


def test_a_cosine_is_its_formula():
    """After the warm-up; the last epoch still has a rate, and torch's own schedule agrees where there is no warm-up."""
    recipe = cu.Recipe("mlp", epochs=30, batch=32, schedule="cosine", warmup=5, warmup_from=0.2)
    warm = [0.2 + 0.8 * min((epoch + 1) / 5, 1) for epoch in range(30)]
    expected = [w * (1 + math.cos(math.pi * epoch / 30)) / 2 for epoch, w in enumerate(warm)]
    np.testing.assert_allclose([recipe.factor(epoch) for epoch in range(30)], expected, rtol=1e-12)
    assert 0 < recipe.factor(29) < 0.003
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, torchs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=30), []
    for _ in range(30):
        torchs.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    cold = dataclasses.replace(recipe, warmup=0)
    np.testing.assert_allclose([cold.factor(epoch) for epoch in range(30)], torchs, atol=1e-12)


def test_a_cosine_has_no_drops():
    """Cut short it is a whole cosine in fewer epochs; before the first drop is the whole training."""
    recipe = dataclasses.replace(RECIPES["bag-of-tricks"], schedule="cosine", average=0.25)
    assert recipe.dropped == []
    assert recipe.before_drop() is recipe
    short = recipe.cut(160)
    assert (short.epochs, short.schedule, short.average) == (160, "cosine", 0)
    assert short.factor(80) == pytest.approx(0.5)


@pytest.mark.parametrize(("share", "epochs", "averaged"), [(0, 40, 0), (0.25, 40, 10), (0.01, 40, 1), (1, 7, 7)])
def test_averaged_epochs(share, epochs, averaged):
    assert cu.Recipe("mlp", epochs=epochs, batch=32, average=share).averaged == averaged


@pytest.mark.parametrize("average", [-0.1, 1.1, float("nan"), float("inf")])
def test_an_average_that_is_no_share_is_refused(average):
    with refused("average", average, "a share from 0 to 1"):
        cu.Recipe("mlp", epochs=1, batch=32, average=average)


def test_an_unknown_schedule_is_refused():
    with refused("unknown schedule 'cosin'", "did you mean 'cosine'?", "drops, cosine"):
        cu.Recipe("mlp", epochs=1, batch=32, schedule="cosin")


def test_every_recipe_names_a_network():
    others = {"efficientnet-lite0", "timm:resnet152"}
    assert {recipe.network for recipe in RECIPES.values()} <= NETWORKS.keys() | others


# As users type them.


EVERY_FIELD = {
    "network": ("mlp", "mlp"),
    "epochs": ("12", 12),
    "batch": ("64", 64),
    "lr": ("4e-1", 0.4),
    "momentum": ("0.8", 0.8),
    "nesterov": ("false", False),
    "weight_decay": ("5e-4", 5e-4),
    "warmup": ("0", 0),
    "warmup_from": ("0.5", 0.5),
    "drops": ("0.8/0.9", (0.8, 0.9)),
    "drop": ("0.01", 0.01),
    "drop_last": ("true", True),
    "crop": ("2", 2),
    "flip": ("true", True),
    "schedule": ("cosine", "cosine"),
    "average": ("0.25", 0.25),
    "optimizer": ("adamw", "adamw"),
    "pretrained": ("true", True),
    "head_rate": ("10", 10.0),
    "layer_decay": ("0.75", 0.75),
    "accumulate": ("4", 4),
    "resized_crop": ("0.08", 0.08),
    "jitter": ("0.4", 0.4),
    "trees": ("7", 7),
    "leaf": ("3", 3),
    "leaves": ("8", 8),
    "synchronised": ("false", False),
    "fingerprint": ("0123abcd", "0123abcd"),
}


def test_every_field_can_be_set():
    assert EVERY_FIELD.keys() >= {field.name for field in dataclasses.fields(cu.Recipe)}
    text = "&".join(f"{field}={text}" for field, (text, _) in EVERY_FIELD.items())
    _, changes = parse_recipe(f"?{text}")
    assert changes == {field: value for field, (_, value) in EVERY_FIELD.items()}
    assert [type(value) for value in changes.values()] == [type(value) for _, value in EVERY_FIELD.values()]
    assert dataclasses.asdict(cu.Recipe(**changes)) == changes


def test_names_and_changes():
    assert parse_recipe("bag-of-tricks") == ("bag-of-tricks", {})
    assert parse_recipe("bag-of-tricks?average=0.25") == ("bag-of-tricks", {"average": 0.25})
    assert parse_recipe("?schedule=cosine") == (None, {"schedule": "cosine"})
    assert parse_recipe("?drops=none") == (None, {"drops": ()})
    assert parse_recipe("?drops=0.5") == (None, {"drops": (0.5,)})


def test_a_network_has_options_of_its_own():
    _, changes = parse_recipe("?network=mine.py:make?weights=a%26b&epochs=2")
    assert changes == {"network": "mine.py:make?weights=a%26b", "epochs": 2}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("schedule=cosin", ("unknown schedule 'cosin'", "did you mean 'cosine'?")),
        ("average=much", ("'average' is 'much'", "a number")),
        ("average=2", ("average is 2", "a share from 0 to 1")),
        ("epochs=1.5", ("'epochs' is '1.5'", "a whole number")),
        ("epochs=0", ("epochs is 0", "from 1")),
        ("flip=yes", ("'flip' is 'yes'", "true or false")),
        ("drops=0.8,0.9", ("'drops' is '0.8,0.9'", "0.8/0.9")),
        ("drops=2", ("drops", "shares of the epochs")),
        ("lr=nan", ("learning rate is nan", "above 0")),
        ("epochs=" + "9" * 30, ("epochs", "64 bits")),
    ],
)
def test_refused_changes(text, parts):
    with refused(*parts):
        parse_recipe(f"?{text}")


def test_a_recipe_must_exist():
    with refused("unknown recipe 'bag-of-trick'", "'bag-of-tricks'"):
        parse_recipe("bag-of-trick?lr=0.4")
    with refused("no recipe", *RECIPES):
        parse_recipe("")


def test_a_command_trains_by_a_changed_recipe(run):
    """Without a name the recipe is the data's; the result tells of the changes."""
    code, out, err = run("train", "digits-lt:20", "--recipe", "?epochs=2&average=0.5&schedule=cosine", "--json")
    assert code == 0, err
    recipe = json.loads(out)["result"]["recipe"]
    assert (recipe["epochs"], recipe["average"], recipe["schedule"]) == (2, 0.5, "cosine")
    assert (recipe["network"], recipe["crop"]) == ("small-conv", 1)


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ("image?lr=0.4", "did you mean 'images'?"),
        ("?network=mpl", "did you mean 'mlp'?"),
        ("?epochs=3", "epochs is given twice"),
    ],
)
def test_a_command_refuses_a_wrong_change(run, recipe, sentence):
    code, out, err = run("train", "digits-lt:20", "--recipe", recipe, "--epochs", "1")
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.split())
