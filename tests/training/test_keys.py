"""Keys: the same as ever for what is stored, and no slower for a training that never ends."""

import time
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from class_uncertainty import METHODS, Lane, Recipe, Stats, Teaching
from class_uncertainty.training.keys import SAMPLED, WALKED, _hashed_epochs, checkpoint_keys, kind_of, lane_key
from class_uncertainty.training.recipe import MAX_EPOCHS, RECIPES

STATS = Stats(np.array([120.0, 60, 30, 6]), np.array([0.1, 0.2, 0.3, 0.4]))
STORED = {  # epochs -> key, as commits 2e4f029 and 9dfa4a1 had them, which hash the plan of every epoch
    "naive": {
        1: "acc5252b91935a7e8e253b0db957a22f",
        2: "654a502771ad0e983511b3afcb8960de",
        40: "da1201569f4e7aae962a8c91f060157f",
        200: "b8fda9d8e838e42e0ff37ef2ce1ccf65",
        400: "19e5008f0ea9a209006b603a7bb07896",
        4000: "33dce50dc9f2f098dd0bc29f64ff5320",
    },
    "pb-ubrs": {
        1: "6a60382975413b41f2c6eb12b4623c9a",
        2: "9f090efd0d754407d6d24268a5c27b03",
        40: "abd18c9fac486e3c686f286c6efdbe5e",
        200: "7dd80fa8781884351d20322bb8fee5bf",
        400: "542f42c145944a2593405bc15fa5c4d2",
        4000: "1dc08500d638e12e6ef7e879094bc971",
    },
    "ldam-rw": {
        1: "9f51cc219e25438a7e60445ea8960dab",
        2: "bc9203d3bd87e13f5ba68940da356122",
        40: "5957d7ec78881c1b5a0c8aabd93a193c",
        200: "57e8ea7237466b137e48767343747648",
        400: "0500f9404a5504bb0e91950c5fadf37b",
        4000: "59c2e7af946276f09ad93bc874fe364a",
    },
    "cb-focal": {
        1: "19003f7b7b1360b5ad150f23ab4b2db8",
        2: "85d12e3acd87f80b6d0ffbc3bbf602f4",
        40: "ee7e0fefaa0375779bdc2e56f327d07e",
        200: "d558af60d838e86295b950d5b97e93c0",
        400: "9b01ecbf6641cb83873bf1ebd2b8f403",
        4000: "e5720d0c87c407ac5a34a31bc58b21da",
    },
    "2s-ubrs": {
        1: "7c8e820e93174b6620ac5b6b95f7c826",
        2: "da961c507e836ef9105c99bbca8d9bd8",
        40: "b58133278ba420358a563a51422147b2",
        200: "183f3da06f1df94bfddbb2ac60ee70d9",
        400: "b9117e71b63114430d868b2bc60b9a6b",
        4000: "48691f173fd5b5fe6428062400884164",
    },
    "crt": {
        1: "9d45ff7131145f9dc1782721196b2311",
        2: "d4b8fd949ecb0c203ea527fb82038c1a",
        40: "a0ac847eba1eec9879845079b60766a8",
        200: "078d6675854cbef1bc07b036cb559b9e",
        400: "d0fa13277659d3648e3e6515ff66be4d",
        4000: "68febcba42deea5c6f39a1d98fb1faf1",
    },
    "cyclic": {
        1: "66425707d8f00d482002a2f398ecf9aa",
        2: "51be36f14b7a557a603fb1c63a55c01d",
        40: "f061a4fc83074aecd133636bb1d48f92",
        200: "99dbe9cc2f56604f161a2b8c5e783515",
        400: "ab9c026d85691aae4a2a84dfcde5f270",
        4000: "07d617493ff8ff867673e39bb78d99f1",
    },
    "vs": {
        1: "4c5d2493951a35f16a3df1414ba156ae",
        2: "21e03836f7a8c8001f003b1d258deb47",
        40: "97505fd5f0a97be57cde2dae7234eb59",
        200: "60d55de11cfa96a6c3659553db0389fe",
        400: "cc5215d6f6273a7307038d957e43b549",
        4000: "e7d2b3874e1f13d0920695fe0d2228b4",
    },
}


# as commit 1ef9a6e had them, before recipes had a schedule and an average
KINDS = {
    "images": "56bc3d75cac898f05b6f1726dc56ff9f",
    "features": "701cb4601905109b70374daa0be91621",
    "bag-of-tricks": "7eb5036dae0fdb5c682a698f2c51e33c",
    "ldam-drw": "12eed3a589884412ac579d26ae8ea819",
    "embeddings": "e3e0e0119c83519ffe04666dffb50e0d",  # younger
}
STUDENTS = {
    Teaching(): "efad232caa20393a8e07ef4030f44415",
    Teaching(tau=0.5, hard=0.2, teachers=(0, 1)): "37f976f4f8af47c98885b76b05d65c40",
}


BOT = RECIPES["bag-of-tricks"]
# as commit da2d08a had them, before methods had a revision
TRAINED = [
    (Lane("focal", 1), RECIPES["images"], "cpu", "17ad89edb7d1f31200d07a22a5eb93c1"),
    (Lane("cb-rs", 2, 0.2, (1, 5)), BOT, "cuda", "17ef13d0a9990494e8ead6a7bc2b3764"),
    (Lane("naive", 3, bootstrap=True), RECIPES["features"], "cpu", "907c891ae247b294c717d25bad724133"),
    (Lane("ubm-ldam+mixup"), BOT, "cuda", "9c1c0a2921801a19291420c42513377a"),
    (Lane("2s-cam-rs"), BOT, "cuda", "c8cbeeade469e35fb4b57d191f62c479"),
    (Lane("duq", lr=0.01), replace(BOT, accumulate=2), "cuda", "30e85daee4fd03cb68021ede6d553a22"),
    (Lane(METHODS["cb-rs"].augmented("cutout")), RECIPES["images"], "cpu", "76a0782b6918a0bf791ff796af3a9699"),
]
REVISED = [
    (Lane("dro", 1), "69ea9fbd10cbe9075ad6ce3cb48cb444"),
    (Lane("dro-learned", 1), "ae4000c8197821a650b4ec177dbbeb49"),
    (Lane("ubm-dro:epsilon=0.5", 1), "1b3192df5cc52fe9e33c2e7a7ec516b1"),
    (Lane("dro@product+autoaugment", 1), "7ee29a4e206955860d37e59956d3cb49"),
    (Lane(METHODS["dro"]), "ea86cb7d5bdb1030e1d4d686698172a1"),
]


def key(method: str, epochs: int) -> str:
    return lane_key("data", Lane(method), replace(RECIPES["images"], epochs=epochs), STATS, "cpu")


@pytest.mark.parametrize("method", STORED)
def test_what_is_stored_is_found_again(method):
    assert {epochs: key(method, epochs) for epochs in STORED[method]} == STORED[method]


def test_what_was_trained_alike_is_found_again():
    assert {name: kind_of(RECIPES[name], "cuda") for name in KINDS} == KINDS


@pytest.mark.parametrize("teaching", STUDENTS)
def test_stored_students_are_found_again(teaching):
    lane = Lane(teaching=teaching)
    assert lane_key("data", lane, RECIPES["images"], STATS, "cpu", ["a", "b"]) == STUDENTS[teaching]


@pytest.mark.parametrize(("lane", "recipe", "device", "stored"), TRAINED)
def test_a_method_that_was_never_revised_keeps_its_keys(lane, recipe, device, stored):
    assert lane_key("data", lane, recipe, STATS, device) == stored
    assert checkpoint_keys("data", lane, recipe, STATS, device)[0] == stored


def test_checkpoints_of_later_stages_keep_their_keys():
    stored = ["1d991c77edfc38cdfa33e44fbbae4fda", "713c0d1d00c23f87fc5c3578ece92bf3"]
    assert checkpoint_keys("data", Lane("crt"), BOT, STATS, "cuda") == stored


@pytest.mark.parametrize(("lane", "stored"), REVISED)
def test_a_revised_method_has_another_key_beside_the_one_it_had(lane, stored):
    assert lane.value.revision == 1
    assert lane_key("data", lane, BOT, STATS, "cuda", revision=0) == stored
    newest = lane_key("data", lane, BOT, STATS, "cuda")
    assert newest == lane_key("data", lane, BOT, STATS, "cuda", revision=1)
    assert newest != stored


def test_every_row_that_uses_centroids_is_revised_and_no_other():
    with_centroids = {name for name, row in METHODS.items() if any(stage.level == "features" for stage in row.stages)}
    assert {name for name, row in METHODS.items() if row.revision} == with_centroids


def test_a_revision_does_not_rename_a_method_without_a_name():
    assert Lane(METHODS["dro"]).name == "custom-eab435"


@pytest.mark.parametrize(
    "change",
    [
        *({"schedule": "cosine"}, {"average": 0.25}, {"average": 0.5}, {"optimizer": "adamw"}, {"pretrained": True}),
        *({"head_rate": 2.0}, {"layer_decay": 0.9}, {"accumulate": 2}, {"resized_crop": 0.1}, {"jitter": 0.1}),
        {"fingerprint": "0123abcd"},
    ],
)
def test_a_younger_field_counts_where_it_is_set(change):
    """And at its default, however it is given, it does not."""
    recipe = RECIPES["images"]
    changed = replace(recipe, **change)
    assert lane_key("data", Lane(), changed, STATS, "cpu") != lane_key("data", Lane(), recipe, STATS, "cpu")
    assert kind_of(changed, "cpu") != kind_of(recipe, "cpu")
    at_rest = replace(recipe, schedule="drops", average=0)
    assert lane_key("data", Lane(), at_rest, STATS, "cpu") == lane_key("data", Lane(), recipe, STATS, "cpu")


def test_every_epoch_counts_up_to_a_number_and_then_a_spread_sample():
    assert list(_hashed_epochs(WALKED)) == list(range(WALKED))
    for epochs in (WALKED + 1, 10**6 + 7, MAX_EPOCHS):
        epochs_hashed_epochs = list(_hashed_epochs(epochs))
        assert (len(set(epochs_hashed_epochs)), epochs_hashed_epochs[0], epochs_hashed_epochs[-1]) == (
            SAMPLED,
            0,
            epochs - 1,
        )
        steps = np.diff(epochs_hashed_epochs)
        assert steps.max() - steps.min() <= 1


@pytest.mark.parametrize("method", ["naive", "pb-ubrs", "crt", "cyclic"])
def test_a_key_takes_no_longer_for_more_epochs(method):
    began = time.perf_counter()
    assert key(method, MAX_EPOCHS) != key(method, MAX_EPOCHS - 1)
    assert time.perf_counter() - began < 5  # to walk over them takes days


def test_more_epochs_than_anyone_trains_are_refused():
    with refused("epochs", MAX_EPOCHS + 1, f"{MAX_EPOCHS:,}"):
        Recipe("mlp", epochs=MAX_EPOCHS + 1, batch=32)
    with refused("epochs", 10**30):
        Recipe("mlp", epochs=10**30, batch=32)
