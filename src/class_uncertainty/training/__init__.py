"""Recipe, Lane and Result need no torch; fit() is in `training.loop`, restore() in `training.saving`."""

from class_uncertainty.training.recipe import RECIPES, Lane, Recipe, Result, default_recipe, describe

__all__ = ["RECIPES", "Lane", "Recipe", "Result", "default_recipe", "describe"]
