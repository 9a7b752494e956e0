"""Recipe, Lane and Result need no torch; fit() is in `training.loop`, restore() in `training.saving`."""

from class_uncertainty.training.recipe import DEARER, DISTIL, RECIPES, Lane, Recipe, Result, Teaching, default_recipe, describe

__all__ = ["DEARER", "DISTIL", "RECIPES", "Lane", "Recipe", "Result", "Teaching", "default_recipe", "describe"]
