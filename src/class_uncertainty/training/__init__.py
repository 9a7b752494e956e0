"""Recipe, Lane and Result need no torch; fit() is in `training.loop`, restore() in `training.saving`."""

from class_uncertainty.training.recipe import DISTIL, RECIPES, Lane, Recipe, Result, Teaching, default_recipe, describe

__all__ = ["DISTIL", "RECIPES", "Lane", "Recipe", "Result", "Teaching", "default_recipe", "describe"]
