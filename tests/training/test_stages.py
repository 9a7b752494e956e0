"""Stages: how long each is, by which recipe and at which rates; cycles of the learning rate; trainings that are cut
short."""

import math
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
import torch

from class_uncertainty import METHODS, Data, Method, Recipe
from class_uncertainty.methods import named
from class_uncertainty.training import Lane
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.stages import ResolvedStage, resolve_stages, stack_key, staged

pytestmark = pytest.mark.usefixtures("no_global_random")
BAG_OF_TRICKS = RECIPES["bag-of-tricks"]
DROPPING = [name for name, recipe in RECIPES.items() if recipe.dropped]


def of(epochs, base=BAG_OF_TRICKS):
    return replace(base, epochs=epochs)


def rates(name, recipe, lr=None):
    """Of every epoch of every stage."""
    lane, found = Lane(name, lr=lr), []
    for leg in resolve_stages(lane.value, recipe):
        own = staged(lane, recipe, leg.number)
        found.append([own.rate_at(leg.recipe, epoch) for epoch in range(leg.recipe.epochs)])
    return found


EPOCHS = {  # of the stages, by the recipe's
    "crt": {200: [200, 30], 40: [40, 6], 2: [2, 1], 1: [1, 1]},
    "ub-crt": {200: [200, 30], 40: [40, 6], 2: [2, 1], 1: [1, 1]},
    "dro": {200: [200, 80, 20], 40: [40, 16, 4], 2: [2, 1, 1], 1: [1, 1, 1]},
    "ubm-dro": {200: [200, 80, 20], 40: [40, 16, 4], 2: [2, 1, 1], 1: [1, 1, 1]},
    "2s-cam-rs": {200: [160, 40], 40: [32, 8], 2: [2, 1], 1: [1, 1]},
    "2s-cam-sqrt-rs": {200: [160, 40], 40: [32, 8], 2: [2, 1], 1: [1, 1]},
    "2s-cam-pb-rs": {200: [160, 40], 40: [32, 8], 2: [2, 1], 1: [1, 1]},
    "naive": {200: [200], 40: [40], 2: [2], 1: [1]},
    "2s-cb-rs": {200: [200], 40: [40], 2: [2], 1: [1]},
}


@pytest.mark.parametrize("epochs", [200, 40, 2, 1])
@pytest.mark.parametrize("name", EPOCHS)
def test_epochs_of_the_stages(name, epochs):
    """None is empty; each knows how many came before it, and how many there are in all."""
    found, expected = resolve_stages(named(name), of(epochs)), EPOCHS[name][epochs]
    assert [leg.recipe.epochs for leg in found] == expected
    assert [leg.number for leg in found] == list(range(len(expected)))
    assert [leg.before for leg in found] == [sum(expected[:i]) for i in range(len(expected))]
    assert {leg.total for leg in found} == {sum(expected)}


@pytest.mark.parametrize("name", METHODS)
def test_legs_are_the_stages(name):
    method = METHODS[name]
    first, *rest = resolve_stages(method, BAG_OF_TRICKS)
    kind = attrgetter("trains", "fresh", "pasted", "released", "balanced")
    assert kind(first) == ("all", False, False, False, False)
    assert [kind(leg) for leg in rest] == [kind(stage) for stage in method.then]


@pytest.mark.parametrize("name", METHODS)
def test_a_stage_changes_what_it_names_and_nothing_else(name):
    first, *rest = resolve_stages(METHODS[name], BAG_OF_TRICKS)
    assert replace(first.recipe, epochs=200, drops=BAG_OF_TRICKS.drops) == BAG_OF_TRICKS
    for leg, stage in zip(rest, METHODS[name].then, strict=True):
        assert leg.recipe == replace(BAG_OF_TRICKS, epochs=leg.recipe.epochs, **dict(stage.recipe))


AVERAGED = replace(BAG_OF_TRICKS, schedule="cosine", average=0.25)


@pytest.mark.parametrize("name", METHODS)
def test_only_the_last_stage_averages_weights(name):
    *earlier, last = resolve_stages(METHODS[name], AVERAGED)
    assert last.recipe.average == 0.25
    assert {leg.recipe.average for leg in earlier} <= {0}


@pytest.mark.parametrize("name", METHODS)
def test_a_stage_that_names_drops_keeps_them(name):
    first, *rest = resolve_stages(METHODS[name], AVERAGED)
    assert first.recipe.schedule == "cosine"
    for leg, stage in zip(rest, METHODS[name].then, strict=True):
        assert leg.recipe.schedule == ("drops" if "drops" in dict(stage.recipe) else "cosine")


def test_constants_of_the_stages():
    """recipes.md 1.7, 1.8 and 5."""
    (_, crt), (_, cam), (_, features, head) = (
        resolve_stages(named(name), BAG_OF_TRICKS) for name in ("crt", "2s-cam-rs", "dro")
    )
    assert (crt.recipe.weight_decay, crt.recipe.warmup, crt.recipe.drop, crt.recipe.nesterov) == (5e-4, 0, 0.1, True)
    assert (cam.recipe.weight_decay, cam.recipe.warmup, cam.recipe.drop, cam.recipe.nesterov) == (2e-4, 0, 0.01, True)
    for leg in (features, head):
        assert (leg.recipe.weight_decay, leg.recipe.warmup, leg.recipe.drops, leg.recipe.nesterov) == (
            1e-4,
            0,
            (),
            False,
        )
    assert {leg.recipe.momentum for leg in (crt, cam, features, head)} == {0.9}


def test_rates_of_classifier_retraining():
    """30 epochs at 0.1, a tenth of it from the 10th and again from the 20th, counted from 1 as Bag-of-Tricks does."""
    first, second = rates("crt", BAG_OF_TRICKS)
    assert first == rates("naive", BAG_OF_TRICKS)[0]
    assert second == pytest.approx([0.1] * 9 + [0.01] * 10 + [0.001] * 11)
    assert rates("crt", of(40))[1] == pytest.approx([0.1] * 2 + [0.01] * 2 + [0.001] * 2)


def test_rates_of_cam_based_resampling():
    """160 epochs as ever, the drop of the 160th included; then 40 at a hundredth, and a hundredth of that from the 20th
    on."""
    first, second = rates("2s-cam-rs", BAG_OF_TRICKS)
    assert first == rates("naive", BAG_OF_TRICKS)[0][:160]
    assert first[158:] == pytest.approx([0.1, 0.001])
    assert second == pytest.approx([0.001] * 19 + [0.00001] * 21)
    first, second = rates("2s-cam-rs", of(40))
    assert first == rates("naive", of(40))[0][:32]
    assert second == pytest.approx([0.001] * 4 + [0.00001] * 4)


@pytest.mark.parametrize("epochs", [200, 40, 2, 1])
def test_rates_of_dro_are_constant(epochs):
    """0.005 for the features and 0.01 for the head, where the recipe has 0.1."""
    first, features, head = rates("dro", of(epochs))
    assert first == rates("naive", of(epochs))[0]
    assert features == pytest.approx([0.005] * len(features))
    assert head == pytest.approx([0.01] * len(head))


@pytest.mark.parametrize("name", ["crt", "dro", "2s-cam-rs", "naive"])
def test_rates_follow_the_lanes_own(name):
    """Twice the learning rate is twice that of every epoch of every stage."""
    for once, twice in zip(rates(name, BAG_OF_TRICKS), rates(name, BAG_OF_TRICKS, lr=0.2), strict=True):
        assert twice == pytest.approx([2 * rate for rate in once])


@pytest.mark.parametrize("name", METHODS)
def test_a_lane_in_a_stage(name):
    """The stage's method; seed, fold and the rest are the lane's; a lane of one stage is itself."""
    lane = Lane(name, seed=7, lr=0.3, fold=(1, 3))
    found = [staged(lane, BAG_OF_TRICKS, leg.number) for leg in resolve_stages(lane.value, BAG_OF_TRICKS)]
    assert [own.value for own in found[1:]] == [stage.method for stage in METHODS[name].then]
    assert found[0].value == replace(METHODS[name], then=(), share=1.0)
    assert {(own.seed, own.fold) for own in found} == {(7, (1, 3))}
    assert [own.rate(BAG_OF_TRICKS) for own in found] == pytest.approx(
        [0.3, *(0.3 * stage.rate for stage in METHODS[name].then)]
    )
    assert METHODS[name].then or found == [lane]


def test_lanes_train_together_that_have_the_same_steps():
    """Knobs and augmentations differ between lanes of a stack; heads of another kind and margins at the features do
    not."""
    alike = [Lane(name) for name in ("naive", "cb-rs", "ldam", "focal", "cyclic", "dropout", "vs")]
    alike += [Lane(name) for name in ("mixup", "remix", "naive+cutout", "cb+autoaugment+cutout")]
    assert len({stack_key(lane) for lane in alike}) == 1
    features = [Lane(METHODS[name].then[0].method) for name in ("dro", "dro-learned", "ubm-dro")]
    assert stack_key(features[0]) == stack_key(features[2])
    apart = [alike[0], *features[:2], Lane("duq")]
    assert len({stack_key(lane) for lane in apart}) == len(apart)


@pytest.mark.parametrize("epochs", [200, 40, 7, 2, 1])
def test_a_whole_first_stage_is_that_of_methods_without_stages(epochs):
    """However many stages follow: lanes of both train in one stack."""
    naive, crt, dro = (resolve_stages(named(name), of(epochs)) for name in ("naive", "crt", "dro"))
    assert naive[0] == crt[0] == dro[0]
    assert len({naive[0], crt[0], dro[0], *dro[1:], crt[1]}) == 4
    assert naive[0].total < crt[0].total < dro[0].total or epochs < 3
    assert epochs < 3 or resolve_stages(named("2s-cam-rs"), of(epochs))[0] != naive[0]


# Lengths of epochs.


def classes_of(*counts):
    return Data(np.zeros((sum(counts), 2), dtype=np.float32), np.repeat(np.arange(len(counts)), counts))


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_length_of_an_epoch(balanced, drop_last):
    """All examples, or as many as if every class had those of the largest: 100 + 30 + 7, or 3 x 100; in whole batches
    if so asked."""
    leg = ResolvedStage(Recipe("mlp", epochs=1, batch=32, drop_last=drop_last), balanced=balanced)
    count = 300 if balanced else 137
    assert leg.length(classes_of(100, 30, 7)) == (count // 32 * 32 if drop_last else count)


def test_a_batch_is_no_larger_than_the_data():
    assert ResolvedStage(Recipe("mlp", epochs=1, batch=128)).length(classes_of(20, 7)) == 27
    assert ResolvedStage(Recipe("mlp", epochs=1, batch=128), balanced=True).length(classes_of(33, 4, 3, 3)) == 128


def test_an_epoch_leaves_no_batch_of_one():
    leg = ResolvedStage(Recipe("mlp", epochs=1, batch=32, drop_last=False))
    assert [leg.length(classes_of(n, 7)) for n in (25, 26, 27)] == [32, 32, 34]


# Trainings that are cut short.


def test_cut_keeps_the_epochs_in_which_the_rate_drops():
    """160 of 200: the drop in epoch 159 stays there, the one in epoch 179 is never reached."""
    short = BAG_OF_TRICKS.cut(160)
    assert BAG_OF_TRICKS.dropped == [159, 179]
    assert (short.epochs, short.dropped) == (160, [159])
    assert [short.factor(epoch) for epoch in range(160)] == [BAG_OF_TRICKS.factor(epoch) for epoch in range(160)]


@pytest.mark.parametrize("name", DROPPING)
@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 10, 40, 200, 333])
def test_cut_is_the_same_training_up_to_there(name, epochs):
    recipe = of(epochs, RECIPES[name])
    for until in {1, epochs // 3 + 1, math.ceil(0.85 * epochs), epochs}:
        short = recipe.cut(until)
        assert short == replace(recipe, epochs=until, drops=short.drops)
        assert [short.factor(epoch) for epoch in range(until)] == [recipe.factor(epoch) for epoch in range(until)]


@pytest.mark.parametrize("name", DROPPING)
@pytest.mark.parametrize("epochs", [1, 2, 5, 40, 200])
def test_before_drop_ends_where_the_rate_would_drop(name, epochs):
    recipe = of(epochs, RECIPES[name])
    first = max(1, min(round(share * epochs) for share in recipe.drops))
    assert recipe.before_drop() == replace(recipe, epochs=first, drops=())


def test_before_drop_without_drops_is_the_whole_training():
    recipe = replace(BAG_OF_TRICKS, drops=())
    assert recipe.before_drop() is recipe


# Cycles.


@pytest.mark.parametrize(("epochs", "cycles"), [(200, 5), (40, 5), (10, 2), (12, 1), (5, 5)])
def test_cycles_are_cosine_annealing_with_restarts(epochs, cycles):
    """(lr / 2) (1 + cos(pi t / T)) with t the epoch of its cycle, which is torch's too."""
    length, recipe, lane = epochs // cycles, of(epochs), Lane(Method(cycles=cycles), lr=0.3)
    found = [lane.rate_at(recipe, epoch) for epoch in range(epochs)]
    assert found == pytest.approx(
        [0.15 * (1 + math.cos(math.pi * (epoch % length) / length)) for epoch in range(epochs)], abs=1e-15
    )
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    schedule, torchs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimiser, T_0=length), []
    for _ in range(epochs):
        torchs.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert found == pytest.approx(torchs, abs=1e-12)


@pytest.mark.parametrize(
    ("epochs", "cycles", "ends"),
    [
        (200, 5, [40, 80, 120, 160, 200]),
        (7, 2, [4, 7]),
        (7, 3, [2, 5, 7]),
        (3, 5, [1, 2, 3]),
        (1, 5, [1]),
        (12, 5, [2, 5, 7, 10, 12]),
    ],
)
def test_cycles_end_in_whole_epochs(epochs, cycles, ends):
    """The last at the end of the training; each starts at the full rate and falls."""
    recipe, lane = of(epochs), Lane(Method(cycles=cycles), lr=0.3)
    assert recipe.cycle_ends(cycles) == ends
    found = [lane.rate_at(recipe, epoch) for epoch in range(epochs)]
    starts = [0, *ends[:-1]]
    assert [found[start] for start in starts] == pytest.approx([0.3] * len(starts))
    assert all(found[epoch] < found[epoch - 1] for epoch in range(1, epochs) if epoch not in starts)
    assert min(found) > 0


def test_cyclic_row_has_five_and_no_warm_up():
    assert METHODS["cyclic"].cycles == 5
    assert Lane("cyclic").rate_at(BAG_OF_TRICKS, 0) == pytest.approx(0.1)
    assert Lane("naive").rate_at(BAG_OF_TRICKS, 0) == pytest.approx(0.1 * (1 / 3 * 0.8 + 0.2))


def test_rate_without_cycles_is_the_recipes():
    for epoch in range(200):
        assert Lane("naive", lr=0.3).rate_at(BAG_OF_TRICKS, epoch) == 0.3 * BAG_OF_TRICKS.factor(epoch)
