"""Candidates: every row of the table keeps its promises, and users change the list."""

from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.methods import named
from class_uncertainty.training.candidate import CANDIDATES, SUITS, default_candidates, find_candidates
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.recipe import RECIPES

LABELS = np.arange(12) % 3
COLOURS = cu.Data(np.zeros((12, 3, 8, 8), np.uint8), LABELS)
GREY = cu.Data(np.zeros((12, 1, 8, 8), np.uint8), LABELS)
FEATURES = cu.Data(np.zeros((12, 4), np.float32), LABELS)
IMAGES = cu.Recipe("small-conv", epochs=8, batch=4, lr=0.3, drops=(0.5, 0.75))
TABLE = replace(IMAGES, network="linear")
ALL = {
    "colours": (COLOURS, IMAGES),
    "grey": (GREY, IMAGES),
    "features": (FEATURES, TABLE),
    "embeddings": (FEATURES, RECIPES["embeddings"]),
    "tables": (FEATURES, RECIPES["forest"]),
}
OTHERS = [
    "naive",
    "ubrw+mixup?epochs=3",
    "cb-focal:beta=0.99?lr=0.05&drops=none",
    "ldam-rw?drops=0.5/0.7&nesterov=false",
]
NAMES = [*CANDIDATES, *OTHERS]


@pytest.mark.parametrize("name", CANDIDATES)
def test_a_row_trains_on_the_data_that_it_suits(name):
    candidate = CANDIDATES[name]
    assert candidate.name == name
    assert candidate.data in SUITS
    suited = [(data, recipe) for data, recipe in ALL.values() if candidate.suits(data, recipe)]
    assert suited
    for data, recipe in suited:
        lane, stats = candidate.lane(recipe, 0), cu.Stats(data.counts, [0.1, 0.2, 0.3])
        check_fit(data, [lane], candidate.recipe(recipe), stats, None)
        assert candidate in default_candidates(data, recipe)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_all(name):
    """A field that it names is changed, every other is the recipe's, and the learning rate goes to the lane."""
    candidate = cu.Candidate(name)
    assert named(candidate.method).about
    text = dict(pair.split("=") for pair in name.partition("?")[2].split("&") if pair)
    rate, lr = float(text.pop("rate", 1)), text.pop("lr", None)
    base = RECIPES.get(text.pop("recipe", ""), IMAGES)
    assert set(candidate.changes) == set(text)
    changed = candidate.recipe(IMAGES)
    assert {field for field in vars(IMAGES) if getattr(changed, field) != getattr(base, field)} <= set(text)
    for field, value in candidate.changes.items():
        assert getattr(changed, field) == value
        assert not isinstance(value, str) or value == text[field]
        assert not isinstance(value, float) or value == float(text[field])
    assert changed.lr == base.lr
    lane = candidate.lane(IMAGES, seed=4, fold=(1, 5))
    assert (lane.name, lane.seed, lane.fold) == (name.partition("?")[0], 4, (1, 5))
    assert lane.rate(changed) == pytest.approx(float(lr) if lr else rate * base.lr)
    assert cu.Candidate(candidate.name) == candidate


@pytest.mark.parametrize("factor", [1.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_a_student_trains_on_plain_images_at_a_factor_of_its_teachers_rate(name, factor):
    """But for their method: it is naive, on the same images."""
    candidate = cu.Candidate(name)
    student = candidate.student(factor)
    assert student.method == "naive"
    assert student.recipe(IMAGES) == candidate.recipe(IMAGES)
    assert student.lr(IMAGES) == pytest.approx(factor * candidate.lr(IMAGES))
    assert cu.Candidate(student.name) == student  # its name says all of that


def test_a_naive_row_is_one_at_any_learning_rate():
    naive = {name for name in [*NAMES, "naive?rate=4", "naive?lr=1"] if cu.Candidate(name).is_naive}
    kinds = {f"naive?recipe={recipe}" for recipe in ("logistic", "forest", "boosting")}
    assert naive == {"naive", "naive?rate=4", "naive?lr=1", *kinds}


def test_every_kind_of_data_has_candidates():
    """Naive networks among them, so that a fix has a baseline; and all that suits anything is somewhere."""
    rows = {kind: [row.name for row in default_candidates(*of_kind)] for kind, of_kind in ALL.items()}
    assert all(any(cu.Candidate(name).is_naive for name in names) for names in rows.values())
    assert {name for names in rows.values() for name in names} == set(CANDIDATES)
    assert not any("autoaugment" in name for name in rows["grey"] + rows["features"])
    assert any("autoaugment" in name for name in rows["colours"])
    assert rows["features"] == [row.name for row in default_candidates(FEATURES)]  # their own recipe is no other kind
    assert next(iter(CANDIDATES)) == "naive"  # of equals the first is kept


def test_no_row_trains_longer_than_the_recipe():
    """What `cu fix` may spend by default was measured with rows that cost one training each."""
    for recipe in RECIPES.values():
        assert {row.recipe(recipe).epochs for row in CANDIDATES.values() if not row.kind} == {recipe.epochs}


def test_names_replace_the_list_and_signs_change_it():
    defaults = [row.name for row in default_candidates(GREY)]
    assert [row.name for row in find_candidates(["cb", "naive?rate=2"], GREY)] == ["cb", "naive?rate=2"]
    changed = [row.name for row in find_candidates(["+cb", "-ldam-rw", "+cb-rs?rate=2"], GREY)]
    assert changed == [*(name for name in defaults if name != "ldam-rw"), "cb", "cb-rs?rate=2"]
    assert [row.name for row in find_candidates(["+cb", "-cb"], GREY)] == defaults
    only = find_candidates(["+cb", *(f"-{name}" for name in defaults)], GREY)
    assert [row.name for row in only] == ["cb"]


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["cb-rz"], ["unknown method 'cb-rz'", "'cb-rs'"]),
        (["+naive?rat=2"], ["unknown option of a recipe 'rat'", "'rate'"]),
        (["naive?schedule=cosin"], ["'cosin'", "cosine"]),
        (["naive?rate=x"], ["'rate' is 'x'", "a number"]),
        (["naive?rate=0"], ["learning rate is 0"]),
        (["naive?rate=-1"], ["-1"]),
        (["naive?"], ["candidate 'naive?'", "KEY=VALUE"]),
        (["naive?rate=2&lr=0.1"], ["both lr and rate"]),
        (["naive?network=mlp"], ["changes the network", "naive?recipe=forest"]),
        (["naive?recipe=forrest"], ["unknown recipe 'forrest'", "'forest'"]),
        (["naive", "naive"], ["candidate naive is given twice"]),
        (["+naive"], ["candidate naive is given twice"]),
        (["naive", "+cb"], ["'naive' has no sign"]),
        (["-ldam-rv"], ["unknown candidate to remove 'ldam-rv'", "'ldam-rw'"]),
        (["-naive", "-naive"], ["unknown candidate to remove 'naive'"]),
        ([f"-{row.name}" for row in default_candidates(FEATURES)], ["no candidate is left"]),
        ([""], ["method"]),
    ],
)
def test_wrong_names_are_refused(names, parts):
    with refused(*parts):
        find_candidates(names, FEATURES)


def test_a_row_is_for_some_kind_of_data():
    with refused("unknown data 'colour image'", "'colour images'"):
        cu.Candidate("naive", "colour image")
    assert cu.Candidate("naive", "colour images") == cu.Candidate("naive")  # it is the same training


def test_networks_of_methods_that_act_on_the_counts_need_no_adjustment():
    usual = {name: cu.Candidate(name).usual_tau for name in ("naive", "naive+mixup?rate=4", "focal", "dropout")}
    assert set(usual.values()) == {1.0}
    counted = ("cb-rs", "cb", "ldam", "balanced-softmax+cutout", "2s-cb-rs", "crt", "ubrs")
    assert {cu.Candidate(name).usual_tau for name in counted} == {0.0}
