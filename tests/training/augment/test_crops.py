"""Crops and mirror images against NumPy. Mixup and Remix: what is drawn, what is mixed, whose label it is, and the
loss of two labels, against loops and torch's own."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from contracts import LONG_TAIL
from scipy.stats import chisquare, kstest
from torch.nn import functional as F

from class_uncertainty import METHODS, Recipe, plan
from class_uncertainty.methods import named
from class_uncertainty.training import Lane
from class_uncertainty.training.augment.crops import KAPPA, TAU, augmented, crop, draw, draw_pairs, flip, mixed, remixed
from class_uncertainty.training.streams import stream
from class_uncertainty.training.train_step import LossTensors

pytestmark = pytest.mark.usefixtures("no_global_random")
RECIPE = Recipe("mlp", epochs=3, batch=16)


# Crops and mirror images.


def test_crop_is_a_window_of_the_padded_image(rng):
    pictures = rng.integers(0, 256, (9, 2, 5, 4), dtype=np.uint8)
    offsets = rng.integers(0, 5, (9, 2))
    cropped = crop(torch.from_numpy(pictures), torch.from_numpy(offsets), 2).numpy()
    padded = np.pad(pictures, ((0, 0), (0, 0), (2, 2), (2, 2)))
    for i, (row, column) in enumerate(offsets):
        assert np.array_equal(cropped[i], padded[i, :, row : row + 5, column : column + 4])


def test_crop_in_the_middle_is_the_image(rng):
    pictures = torch.from_numpy(rng.integers(0, 256, (3, 1, 4, 4), dtype=np.uint8))
    assert torch.equal(crop(pictures, torch.full((3, 2), 1), 1), pictures)


def test_flip_mirrors_left_and_right_where_asked(rng):
    pictures = rng.integers(0, 256, (4, 2, 3, 5), dtype=np.uint8)
    flipped = flip(torch.from_numpy(pictures), torch.tensor([True, False, True, False])).numpy()
    assert np.array_equal(flipped[[0, 2]], pictures[[0, 2]][..., ::-1])
    assert np.array_equal(flipped[[1, 3]], pictures[[1, 3]])


# What is drawn.


@pytest.mark.parametrize(("length", "batch"), [(64, 16), (70, 16), (17, 16), (5, 16), (16, 16)])
def test_partners_are_a_permutation_of_each_batch(rng, length, batch):
    drawn = draw_pairs(rng, length, batch)
    assert drawn["partner"].shape == drawn["mixed"].shape == (length,)
    for start in range(0, length, batch):
        size = min(batch, length - start)
        assert sorted(drawn["partner"][start : start + size]) == list(range(size))


def test_a_batch_has_one_share_and_batches_differ(rng):
    shares = draw_pairs(rng, 70, 16)["mixed"]
    in_batches = [set(shares[start : start + 16].tolist()) for start in range(0, 70, 16)]
    assert [len(found) for found in in_batches] == [1] * 5
    assert len(set.union(*in_batches)) == 5


def test_shares_are_uniform():
    """Beta(1, 1), by the test of Kolmogorov and Smirnov; it would see a Beta(1.1, 1)."""
    shares = draw_pairs(stream(3, "mixup"), 5000, 1)["mixed"]
    assert shares.dtype == np.float32
    assert ((shares >= 0) & (shares < 1)).all()
    assert kstest(shares, "uniform").pvalue > 0.01
    assert kstest(shares ** (1 / 1.1), "uniform").pvalue < 0.01


def test_every_place_is_a_partner_equally_often():
    drawn = draw_pairs(stream(3, "mixup"), 20_000, 5)["partner"].reshape(-1, 5)
    for place in range(5):
        assert chisquare(np.bincount(drawn[:, place], minlength=5)).pvalue > 0.01


@pytest.mark.parametrize("name", ["mixup", "remix"])
def test_an_epoch_draws_pairs_by_seed_and_epoch(name):
    first, again, other_epoch, other_seed = (
        draw(seed, epoch, 70, RECIPE, (name,)) for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert set(first) == {"partner", "mixed"}
    for part in first:
        assert np.array_equal(first[part], again[part])
        assert not np.array_equal(first[part], other_epoch[part])
        assert not np.array_equal(first[part], other_seed[part])


def test_mixup_and_remix_draw_alike():
    """They differ in the label alone."""
    a, b = (draw(1, 0, 70, RECIPE, (name,)) for name in ("mixup", "remix"))
    assert all(np.array_equal(a[part], b[part]) for part in a)


def test_nothing_is_drawn_for_nothing():
    assert draw(1, 0, 70, RECIPE) == {}


def test_one_augmentation_does_not_move_another():
    """Each has a stream of its own: crops and flips with mixup and dropout are those without."""
    recipe = replace(RECIPE, crop=2, flip=True)
    alone, beside = draw(1, 0, 20, recipe), draw(1, 0, 20, recipe, ("mixup",), features=4)
    assert set(beside) - set(alone) == {"partner", "mixed", "dropout"}
    assert all(np.array_equal(alone[part], beside[part]) for part in alone)
    pairs = draw(1, 0, 20, recipe, ("cutout", "mixup", "autoaugment"))
    assert np.array_equal(pairs["partner"], beside["partner"])


# What is mixed.


@pytest.mark.parametrize("shape", [(4,), (3, 2, 2)], ids=["features", "images"])
def test_mixed_is_the_loop(rng, shape):
    lanes, size = 3, 6
    x = rng.normal(0, 1, (lanes, size, *shape))
    partner = np.stack([rng.permutation(size) for _ in range(lanes)])
    share = rng.random((lanes, size))
    found = mixed(torch.from_numpy(x), {"partner": torch.from_numpy(partner), "mixed": torch.from_numpy(share)})
    for lane, i in product(range(lanes), range(size)):
        expected = share[lane, i] * x[lane, i] + (1 - share[lane, i]) * x[lane, partner[lane, i]]
        np.testing.assert_allclose(found[lane, i], expected, rtol=1e-14, atol=1e-15)


def test_a_share_of_one_leaves_an_example_alone(rng):
    x = torch.from_numpy(rng.normal(0, 1, (2, 4, 3)))
    partner = torch.tensor([[1, 2, 3, 0]] * 2)
    assert torch.equal(mixed(x, {"partner": partner, "mixed": torch.ones(2, 4, dtype=x.dtype)}), x)
    assert torch.equal(mixed(x, {"partner": partner, "mixed": torch.zeros(2, 4, dtype=x.dtype)}), x.roll(-1, dims=1))


# Remix.


def paper(share, mine, theirs, kappa=3, tau=Fraction(1, 2)):
    """Chou et al. 2020, Eq. 6, in whole numbers and fractions."""
    if Fraction(mine, theirs) >= kappa and share < tau:
        return 0
    if Fraction(mine, theirs) <= Fraction(1, kappa) and 1 - share < tau:
        return 1
    return share


COUNTS = (1, 2, 3, 5, 6, 9, 10, 14, 15, 16, 29, 30, 31, 90, 5000)
SHARES = [Fraction(k, 16) for k in range(17)]  # floats hold these as they are, the boundary 1/2 among them


def test_remix_is_the_paper():
    """Over all pairs of counts and shares, those exactly at kappa, 1 / kappa and tau included."""
    cases = list(product(SHARES, COUNTS, COUNTS))
    share, mine, theirs = (torch.tensor([[float(case[i]) for case in cases]]) for i in range(3))
    found = remixed(share, mine, theirs)[0].tolist()
    assert found == [float(paper(*case)) for case in cases]
    assert {0.0, 1.0} <= {
        value for value, case in zip(found, cases, strict=True) if value != case[0]
    }  # both cases have come up


@pytest.mark.parametrize(
    ("share", "mine", "theirs", "expected"),
    [
        (0.4, 30, 10, 0.0),  # three times as many, and less than half of it: the rarer class has the label
        (0.4, 29, 10, 0.4),  # not three times as many
        (0.5, 30, 10, 0.5),  # not less than half
        (0.6, 30, 10, 0.6),
        (0.6, 10, 30, 1.0),  # a third as many, and less than half of the other
        (0.6, 11, 30, 0.6),
        (0.5, 10, 30, 0.5),
        (0.4, 10, 30, 0.4),
        (0.3, 20, 20, 0.3),
    ],
)
def test_remix_by_hand(share, mine, theirs, expected):
    found = remixed(torch.tensor([[share]]), torch.tensor([[mine]]), torch.tensor([[theirs]]))
    assert found.item() == pytest.approx(expected)


def test_remix_has_the_constants_of_bag_of_tricks():
    assert (KAPPA, TAU) == (3, 0.5)


def test_remix_of_a_pair_the_other_way_round():
    """Whoever comes first, the rarer class has the same share."""
    for share, mine, theirs in product(SHARES, COUNTS, COUNTS):
        assert paper(share, mine, theirs) == 1 - paper(1 - share, theirs, mine)
    share, mine, theirs = (
        torch.rand(1, 500, generator=torch.Generator().manual_seed(0)),
        torch.tensor([[30]]),
        torch.tensor([[7]]),
    )
    torch.testing.assert_close(remixed(share, mine, theirs), 1 - remixed(1 - share, theirs, mine))


# The loss of two labels.


def knobs(*names, epoch=4):
    found = LossTensors([Lane(name) for name in names], 10, "cpu")
    found.set([plan(named(name), LONG_TAIL, epoch, 5) for name in names])
    return found


def pairs(lanes, size=12, seed=0):
    """Logits (lanes, B, C), labels and their partners' (lanes, B), a share for each batch (lanes, B)."""
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(rng.integers(10, size=(lanes, size)))
    partner = torch.from_numpy(np.stack([rng.permutation(size) for _ in range(lanes)]))
    share = torch.from_numpy(rng.random((lanes, 1), dtype=np.float32)).expand(lanes, size)
    return torch.from_numpy(rng.normal(0, 2, (lanes, size, 10))).float(), labels, labels.gather(1, partner), share


def test_two_labels_are_cross_entropy_of_mixed_targets():
    """As torch computes it from probabilities; the share may be another for each example, as in Remix."""
    z, labels, others, share = pairs(3)
    uneven = torch.linspace(0, 1, 36).view(3, 12)
    for part in (share, uneven):
        found = knobs("naive", "mixup", "remix").mixed(z, labels, others, part)
        targets = part[..., None] * F.one_hot(labels, 10) + (1 - part[..., None]) * F.one_hot(others, 10)
        expected = torch.stack([F.cross_entropy(z[i], targets[i]) for i in range(3)])
        torch.testing.assert_close(found, expected)


ROWS = [
    "cb",
    "ubrw",
    "focal",
    "cb-focal",
    "ldam",
    "balanced-softmax",
    "vs",
    "cb-literal",
    "ubrw-bot",
    "ldam-rw",
    "2s-csce",
]


@pytest.mark.parametrize("name", ROWS)
def test_two_labels_are_the_losses_of_both(name):
    """lambda L(y_a) + (1 - lambda) L(y_b), with margins, weights and focal of each label in its own term.

    By weights too: partners are a permutation, so that both labels of a batch have the same sum of weights.
    """
    z, labels, others, share = pairs(1)
    own = knobs(name)
    expected = share[:, 0] * own.loss(z, labels) + (1 - share[:, 0]) * own.loss(z, others)
    torch.testing.assert_close(own.mixed(z, labels, others, share), expected)


@pytest.mark.parametrize("name", ["cb", "cb-literal"])
def test_two_labels_of_uneven_shares_by_a_loop(name):
    """Remix: sum_i (s w_a l_a + (1 - s) w_b l_b), over m or over the weights as they are shared."""
    z, labels, others, _ = pairs(1)
    share, weight = torch.linspace(0, 1, 12)[None], plan(METHODS[name], LONG_TAIL, 4, 5).weight
    total = weights = 0.0
    for i in range(12):
        for part, y in ((share[0, i], labels[0, i]), (1 - share[0, i], others[0, i])):
            total += part.item() * weight[y] * F.cross_entropy(z[0, i], y).item()
            weights += part.item() * weight[y]
    expected = total / (weights if METHODS[name].reduction == "weights" else 12)
    assert knobs(name).mixed(z, labels, others, share).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["naive", *ROWS])
def test_a_share_of_one_is_the_loss_of_one_label(name):
    z, labels, others, _ = pairs(1)
    own = knobs(name)
    torch.testing.assert_close(own.mixed(z, labels, others, torch.ones(1, 12)), own.loss(z, labels))
    torch.testing.assert_close(own.mixed(z, labels, others, torch.zeros(1, 12)), own.loss(z, others))


def test_two_labels_stacked_are_the_loop():
    names = ["naive", "cb", "ldam", "focal"]
    z, labels, others, share = pairs(4)
    stacked = knobs(*names).mixed(z, labels, others, share)
    alone = [
        knobs(name).mixed(*(part[i : i + 1] for part in (z, labels, others, share))) for i, name in enumerate(names)
    ]
    assert torch.equal(stacked, torch.cat(alone))


@pytest.mark.parametrize("zero", [False, True])
def test_plain_lanes_among_mixed_ones_keep_every_bit(zero):
    """Loss and gradient are those of one label, and in the other lanes those of two; weights may be zero."""
    names = ["cb-literal", "mixup", "cb", "focal", "ldam-rw", "cb"]
    z, labels, others, share = pairs(len(names), size=2000)
    own, plain = knobs(*names), torch.tensor([True, False, True, True, True, False])[:, None]
    own.weight.uniform_(0.1, 3, generator=torch.Generator().manual_seed(0))
    if zero:
        own.weight[0, :5] = 0
    others, share = torch.where(plain, labels, others), torch.where(plain, 1.0, share)
    values, gradients = [], []
    for loss in (own.loss, lambda *args: own.mixed(*args, others, share), None):
        logits = z.clone().requires_grad_()
        value = own.mixed(logits, labels, others, share, plain) if loss is None else loss(logits, labels)
        values.append(value.detach())
        gradients.append(torch.autograd.grad(value.sum(), logits)[0])
    assert torch.equal(values[2], torch.where(plain[:, 0], values[0], values[1]))
    assert torch.equal(gradients[2], torch.where(plain[..., None], gradients[0], gradients[1]))
    assert gradients[2].isfinite().all()


def test_two_labels_have_a_gradient_of_both():
    z, labels, others, share = pairs(1)
    z.requires_grad_()
    (slope,) = torch.autograd.grad(knobs("naive").mixed(z, labels, others, share).sum(), z)
    targets = share[..., None] * F.one_hot(labels, 10) + (1 - share[..., None]) * F.one_hot(others, 10)
    torch.testing.assert_close(slope, (z.detach().softmax(dim=-1) - targets) / 12)


def test_margins_at_the_features_leave_the_logits_alone():
    """DRO-LT's stage: its cross entropy is weighted, and has no margin."""
    z, labels, _, _ = pairs(1)
    features = METHODS["dro"].then[0].method
    own = LossTensors([Lane(features)], 10, "cpu")
    own.set([plan(features, LONG_TAIL, 0, 5)])
    assert own.margin.any()
    weight = torch.from_numpy(LONG_TAIL.counts / LONG_TAIL.counts.max()).float()
    torch.testing.assert_close(own.loss(z, labels)[0], F.cross_entropy(z[0], labels[0], weight=weight))


@pytest.mark.parametrize(("side", "most"), [(8, 16), (12, 36), (32, 256)])
def test_cutout_never_takes_more_than_a_quarter_of_a_picture(side, most):
    """A square of half the side: 16 pixels of 32."""
    x = torch.full((200, 1, side, side), 255, dtype=torch.uint8)
    drawn = draw(0, 0, 200, Recipe("small-conv", epochs=1, batch=32), ("cutout",))
    gone = (
        augmented(
            x, {name: torch.from_numpy(part) for name, part in drawn.items()}, Recipe("small-conv", epochs=1, batch=32)
        )
        == 0
    ).sum((1, 2, 3))
    assert gone.max() == most
    assert gone.min() >= 1
