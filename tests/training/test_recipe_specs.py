"""Recipes with changes, as they are typed: every field, and what is refused in which words."""

import dataclasses

import pytest
from commands import Run
from refusals import refused

from class_uncertainty import Recipe
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.recipe_specs import parse_changes, parse_recipe, split_changes

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
    assert EVERY_FIELD.keys() >= {field.name for field in dataclasses.fields(Recipe)}
    changes = parse_changes("&".join(f"{field}={text}" for field, (text, _) in EVERY_FIELD.items()))
    assert changes == {field: value for field, (_, value) in EVERY_FIELD.items()}
    assert [type(value) for value in changes.values()] == [type(value) for _, value in EVERY_FIELD.values()]
    assert dataclasses.asdict(Recipe(**changes)) == changes


def test_names_and_changes():
    assert split_changes("balanced-softmax?lr=0.4&schedule=cosine") == (
        "balanced-softmax",
        {"lr": 0.4, "schedule": "cosine"},
    )
    assert split_changes("naive") == ("naive", {})
    assert parse_recipe("bag-of-tricks?average=0.25") == ("bag-of-tricks", {"average": 0.25})
    assert parse_recipe("?schedule=cosine") == (None, {"schedule": "cosine"})
    assert parse_changes("drops=none") == {"drops": ()}
    assert parse_changes("drops=0.5") == {"drops": (0.5,)}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("shedule=cosine", ("unknown field of a recipe 'shedule'", "did you mean 'schedule'?", "weight_decay")),
        ("schedule=cosin", ("unknown schedule 'cosin'", "did you mean 'cosine'?")),
        ("average=much", ("average is 'much'", "a number")),
        ("average=2", ("average is 2", "a share from 0 to 1")),
        ("epochs=1.5", ("epochs is '1.5'", "a whole number")),
        ("epochs=0", ("epochs is 0", "from 1")),
        ("flip=yes", ("flip is 'yes'", "true or false")),
        ("drops=0.8,0.9", ("drops is '0.8,0.9'", "0.8/0.9")),
        ("drops=2", ("drops", "shares of the epochs")),
        ("lr=nan", ("learning rate is nan", "above 0")),
        ("lr=0.1&lr=0.4", ("lr is given twice",)),
        ("cosine", ("'cosine'", "FIELD=VALUE")),
        ("lr=", ("'lr='", "FIELD=VALUE")),
        ("", ("''", "FIELD=VALUE")),
        ("lr=0.1&", ("''", "FIELD=VALUE")),
        ("epochs=" + "9" * 30, ("epochs", "64 bits")),
    ],
)
def test_refusals(text, parts):
    with refused(*parts):
        parse_changes(text)


def test_a_recipe_must_exist():
    with refused("unknown recipe 'bag-of-trick'", "'bag-of-tricks'"):
        parse_recipe("bag-of-trick?lr=0.4")
    with refused("no recipe", *RECIPES):
        parse_recipe("")


def test_a_command_trains_by_a_changed_recipe(run: Run) -> None:
    """Without a name the recipe is the data's; the result tells of the changes."""
    code, out, err = run("train", "digits-lt:20", "--recipe", "?epochs=2&average=0.5&schedule=cosine", "--json")
    assert code == 0, err
    import json

    recipe = json.loads(out)["result"]["recipe"]
    assert (recipe["epochs"], recipe["average"], recipe["schedule"]) == (2, 0.5, "cosine")
    assert (recipe["network"], recipe["crop"]) == ("small-conv", 1)


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ("?shedule=cosine", "did you mean 'schedule'?"),
        ("images?average=2", "a share from 0 to 1"),
        ("image?lr=0.4", "did you mean 'images'?"),
        ("?network=mpl", "did you mean 'mlp'?"),
        ("?epochs=3", "epochs is given twice"),
    ],
)
def test_a_command_refuses_a_wrong_change(run: Run, recipe: str, sentence: str) -> None:
    code, out, err = run("train", "digits-lt:20", "--recipe", recipe, "--epochs", "1")
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.split())
