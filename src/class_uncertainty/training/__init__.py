"""Training: lanes, their recipe and their results. `training.fit` and `training.model_files` need torch."""

from class_uncertainty.training.lane import DISTIL, DUQ_STEP_COST, Lane, Result, Teaching, describe
from class_uncertainty.training.recipe import RECIPES, Recipe, default_recipe

__all__ = ["DISTIL", "DUQ_STEP_COST", "RECIPES", "Lane", "Recipe", "Result", "Teaching", "default_recipe", "describe"]
