"""Recipes: those of the public code bases, and how they are named."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.training import RECIPES, default_recipe
from class_uncertainty.training.networks.network_table import NETWORKS


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


def test_recipes_by_name(digits: cu.Dataset):
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
