"""Recipes: those of the public code bases, and how they are named."""

import dataclasses

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.training import RECIPES, default_recipe
from class_uncertainty.training.networks.classifier import NETWORKS


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


def test_every_recipe_names_a_network():
    assert {recipe.network for recipe in RECIPES.values()} <= NETWORKS.keys()
