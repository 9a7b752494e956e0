"""CAM-based pastes, against loops over single images with Pillow and NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from scipy import stats
from training.augment.paste_references import ambiguous, box, reference, released_reference, turning

from class_uncertainty.training.augment.cam_resampling import (
    FLIP,
    KINDS,
    ROTATE,
    TRANSLATE,
    Pastes,
    draw_pastes,
    foreground,
    paste,
    wanted,
)

SHAPES = [(1, 9, 14), (3, 14, 9), (3, 16, 16)]
COUNTS = st.lists(st.integers(1, 60), min_size=1, max_size=6).map(np.array)


def shuffled(counts):
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))


def drawn(counts, seed=0):
    return draw_pastes(np.random.default_rng(seed), shuffled(counts), np.array(counts))


def batch(seed, number, shape):
    """Images of noise with blobs of foreground somewhere in them, and draws for each."""
    rng, (channels, height, width) = np.random.default_rng(seed), shape
    images = rng.integers(0, 256, (number, channels, height, width), dtype=np.uint8)
    masks = np.zeros((number, height, width), dtype=bool)
    for mask in masks:
        top, left = rng.integers(height - 1), rng.integers(width - 1)
        blob = mask[top : top + rng.integers(2, 9), left : left + rng.integers(2, 9)]
        blob[:] = rng.random(blob.shape) < 0.8
        mask[top, left] = True
    return images, masks, draw_pastes(rng, np.arange(number), np.ones(number, dtype=np.int64))


def pasted(images, masks, draws, released=False):
    return paste(torch.from_numpy(images), torch.from_numpy(masks), draws, released).numpy()


def moves(number, kind, angle=0, scale=100, u=0.0, v=0.0):
    ones = np.ones(number, dtype=np.int64)
    return Pastes(ones, kind * ones, angle * ones, scale * ones, np.broadcast_to(u, number), np.broadcast_to(v, number))


# What is drawn.


@given(COUNTS, st.integers(0, 5))
def test_with_the_made_images_all_classes_have_the_same_number(counts, seed):
    labels, draws = shuffled(counts), drawn(counts, seed)
    after = counts + np.bincount(labels[draws.source], minlength=len(counts))
    assert after.tolist() == [counts.max() + counts.min()] * len(counts)
    assert len(draws) == wanted(counts).sum()
    np.testing.assert_array_equal(labels[draws.source], np.repeat(np.arange(len(counts)), wanted(counts)))


def test_draws_are_uniform_over_their_ranges():
    """What is drawn is 60,000 images of one class and 20 of the other: sources, kinds, angles, scales; u and v in 20
    bins."""
    counts = [20, 60_000]
    labels, draws = shuffled(counts), drawn(counts)
    few = np.flatnonzero(labels == 0)
    tallies = {
        "source": np.bincount(draws.source[:60_000], minlength=len(labels))[few],
        "kind": np.bincount(draws.kind, minlength=3),
        "angle": np.bincount(draws.angle + 45, minlength=90),
        "scale": np.bincount(draws.scale - 80, minlength=40),
        "u": np.bincount((draws.u * 20).astype(int), minlength=20),
        "v": np.bincount((draws.v * 20).astype(int), minlength=20),
        "pairs": np.bincount(draws.kind * 40 + draws.scale - 80, minlength=120),
    }
    assert {name: len(tally) for name, tally in tallies.items()} == dict(
        source=20, kind=3, angle=90, scale=40, u=20, v=20, pairs=120
    )
    assert {name: stats.chisquare(tally).pvalue > 0.01 for name, tally in tallies.items()} == dict.fromkeys(
        tallies, True
    )
    assert abs(stats.pearsonr(draws.u, draws.v).statistic) < 0.02


@pytest.mark.usefixtures("no_global_random")
def test_draws_follow_the_generator_alone():
    one, same, other = drawn([9, 4], 1), drawn([9, 4], 1), drawn([9, 4], 2)
    assert all(np.array_equal(getattr(one, name), getattr(same, name)) for name in Pastes.__annotations__)
    assert not any(np.array_equal(getattr(one, name), getattr(other, name)) for name in Pastes.__annotations__)


def test_a_class_without_examples_is_refused():
    with pytest.raises(ValueError, match="high"):
        draw_pastes(np.random.default_rng(0), np.zeros(5, dtype=np.int64), np.array([5, 0]))


def test_a_part_of_the_draws():
    draws = drawn([9, 4])
    part = draws[3:7]
    assert len(part) == 4
    assert all(np.array_equal(getattr(part, name), getattr(draws, name)[3:7]) for name in Pastes.__annotations__)


# The foreground.


@pytest.mark.parametrize(
    ("before", "after"), [((8, 8), (32, 32)), ((4, 6), (16, 24)), ((2, 8), (16, 8)), ((5, 3), (5, 3))]
)
def test_foreground_is_what_pillow_and_numpy_find(rng, before, after):
    """Factors are powers of two, for which both resize without rounding errors."""
    maps = rng.normal(size=(40, *before)).astype(np.float32)
    expected = []
    for one in maps:
        levels = np.uint8((one - one.min()) / (one.max() - one.min()) * 255)
        resized = np.rint(
            np.asarray(Image.fromarray(levels.astype(np.float32)).resize(after[::-1], Image.Resampling.BILINEAR))
        )
        expected.append(resized >= 0.75 * resized.mean())
    found = foreground(torch.from_numpy(maps), after)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert found.dtype == torch.bool
    assert 0.1 < found.float().mean() < 0.9


@given(hnp.arrays(np.float32, (3, 4, 5), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_a_foreground_is_never_empty(maps):
    """The largest level is no less than the mean, and no level is negative."""
    for size in [(8, 10), (9, 7), (2, 2)]:
        assert foreground(torch.from_numpy(maps), size).flatten(1).any(1).all()


def test_a_constant_map_is_all_foreground_and_leaves_the_others_alone(rng):
    maps = torch.from_numpy(rng.normal(size=(3, 8, 8)).astype(np.float32))
    alone = foreground(maps, (32, 32))
    for constant in (0.0, -3.0, 1e-38, 7e4):
        maps[1] = constant
        together = foreground(maps, (32, 32))
        assert together[1].all()
        assert torch.equal(together[[0, 2]], alone[[0, 2]])


# The paste.


@pytest.mark.parametrize(("released", "reference"), [(False, reference), (True, released_reference)])
@given(st.integers(0, 10**6), st.sampled_from(SHAPES), st.sampled_from(KINDS))
def test_paste_is_the_references(released, reference, seed, shape, kind):
    images, masks, draws = batch(seed, 5, shape)
    images[:, :, ::3] = 0  # transparent in the released code
    draws.kind[:] = kind
    out, before = pasted(images, masks, draws, released), images.copy()
    assert (out.dtype, out.shape) == (images.dtype, images.shape)
    for i in range(len(images)):
        single = (draws.kind[i], draws.angle[i], draws.scale[i], draws.u[i], draws.v[i])
        expected, certain = reference(images[i], masks[i], *single)
        np.testing.assert_array_equal(out[i][:, certain], expected[:, certain])
    np.testing.assert_array_equal(images, before)


def test_the_reference_is_nearly_always_certain():
    shares = []
    for seed in range(100):
        _, masks, draws = batch(seed, 1, (1, 16, 16))
        shares.append(ambiguous(turning(masks[0], draws.angle[0], draws.scale[0]), masks[0].shape).mean())
    assert np.mean(shares) < 0.02


@pytest.mark.parametrize("angle", [-45, -30, -7, 0, 13, 44])
def test_a_turn_is_pillows_rotation_about_the_boxs_centre(angle):
    """Counterclockwise, as OpenCV's too."""
    images, masks, _ = batch(3, 8, (1, 20, 26))
    out = pasted(images, masks, moves(8, ROTATE, angle))
    for (image,), mask, (found,) in zip(images, masks, out, strict=True):
        top, bottom, left, right = box(mask)
        centre = ((left + right + 1) / 2, (top + bottom + 1) / 2)
        taken, moved = (
            np.asarray(Image.fromarray(plane).rotate(angle, center=centre)) for plane in (image, mask.astype(np.uint8))
        )
        certain = ~ambiguous(turning(mask, angle, 100), mask.shape)
        np.testing.assert_array_equal(found[certain], np.where(moved, taken, image)[certain])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [ROTATE, TRANSLATE])
def test_without_movement_the_picture_stays(shape, kind):
    """A foreground that is the whole picture has nowhere to be translated to, whatever is drawn."""
    images, masks, _ = batch(0, 6, shape)
    draws = moves(6, kind, u=np.linspace(0, 0.999, 6), v=np.linspace(0.999, 0, 6))
    np.testing.assert_array_equal(pasted(images, np.ones_like(masks), draws), images)
    if kind == ROTATE:
        np.testing.assert_array_equal(pasted(images, masks, draws), images)


@pytest.mark.parametrize("kind", [ROTATE, TRANSLATE])
def test_a_foreground_of_one_pixel_is_its_own_box_as_released(kind):
    images, masks, draws = batch(5, 8, (3, 16, 16))
    masks[:] = False
    masks[:, 5, 9] = True
    draws.kind[:] = kind
    for i, out in enumerate(pasted(images, masks, draws, released=True)):
        single = (kind, draws.angle[i], draws.scale[i], draws.u[i], draws.v[i])
        expected, certain = released_reference(images[i], masks[i], *single)
        np.testing.assert_array_equal(out[:, certain], expected[:, certain])


@given(st.integers(0, 10**6), st.sampled_from(SHAPES))
def test_pixels_outside_the_moved_foreground_are_the_originals(seed, shape):
    """With a white foreground on black, what comes out white was or is foreground: any other picture changes there
    alone."""
    images, masks, draws = batch(seed, 6, shape)
    white = pasted(np.repeat(masks[:, None] * np.uint8(255), shape[0], axis=1), masks, draws) == 255
    np.testing.assert_array_equal(pasted(images, masks, draws)[~white], images[~white])
    assert white.mean() < 0.9


def test_black_objects_cover_what_they_move_over():
    images, masks = np.full((1, 3, 8, 10), 255, dtype=np.uint8), np.zeros((1, 8, 10), dtype=bool)
    masks[0, 1:3, 1:4] = True
    images[0, :, 1:3, 1:4] = 0
    out = pasted(images, masks, moves(1, TRANSLATE, u=0.999, v=0.999))
    assert (out[0, :, 6:8, 7:10] == 0).all()
    assert (out == 0).sum() == 2 * 3 * 6


@pytest.mark.parametrize("shape", SHAPES)
def test_a_flip_flipped_back(shape):
    images, masks, _ = batch(1, 6, shape)
    flip, mirrored = moves(6, FLIP), np.ascontiguousarray(masks[:, :, ::-1])
    once = pasted(images, masks, flip)
    back = pasted(once, mirrored, flip)
    at = np.repeat(masks[:, None], shape[0], axis=1)
    assert not np.array_equal(once[at], images[at])
    np.testing.assert_array_equal(back[at], images[at])
    np.testing.assert_array_equal(back[~at], once[~at])
    everywhere = np.ones_like(masks)
    np.testing.assert_array_equal(pasted(images, everywhere, flip), images[..., ::-1])
    np.testing.assert_array_equal(pasted(pasted(images, everywhere, flip), everywhere, flip), images)


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_translated_foregrounds_stay_inside(seed, u, v):
    """Each pixel has its own number, so that where it came from can be read from the picture. A double just below 1 is
    1 as a float."""
    _, masks, _ = batch(seed, 5, (1, 12, 20))
    numbered = np.arange(240, dtype=np.uint8).reshape(1, 1, 12, 20).repeat(5, axis=0)
    for mask, (found,) in zip(masks, pasted(numbered, masks, moves(5, TRANSLATE, u=u, v=v)), strict=True):
        rows, columns = np.nonzero(found != numbered[0, 0])
        ways = {*zip(rows - found[rows, columns] // 20, columns - found[rows, columns] % 20, strict=True)} or {(0, 0)}
        assert len(ways) == 1
        (down, aside), (top, bottom, left, right) = ways.pop(), box(mask)
        assert 0 <= top + down <= bottom + down < 12
        assert 0 <= left + aside <= right + aside < 20


def test_translations_reach_every_place_alike():
    """A single pixel on a 3 x 4 picture, at u and v that are the middles of equal parts."""
    numbered = np.full((12, 1, 3, 4), 7, dtype=np.uint8)
    numbered[:, 0, 1, 2], masks = 200, np.zeros((12, 3, 4), dtype=bool)
    masks[:, 1, 2] = True
    v, u = np.indices((3, 4)).reshape(2, 12)
    out = pasted(numbered, masks, moves(12, TRANSLATE, u=(u + 0.5) / 4, v=(v + 0.5) / 3))
    assert (out[np.arange(12), 0, v, u] == 200).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_images_of_a_batch_do_not_touch_each_other(shape):
    images, masks, draws = batch(2, 30, shape)
    assert {*draws.kind} == {*KINDS}
    alone = [pasted(images[i : i + 1], masks[i : i + 1], draws[i : i + 1]) for i in range(30)]
    np.testing.assert_array_equal(pasted(images, masks, draws), np.concatenate(alone))


@pytest.mark.gpu
def test_the_gpu_makes_the_same_images(rng):
    images, _, draws = batch(4, 3000, (3, 32, 32))
    maps = torch.from_numpy(rng.normal(size=(3000, 8, 8)).astype(np.float32))
    masks = foreground(maps, (32, 32))
    there = foreground(maps.cuda(), (32, 32))
    assert torch.equal(there.cpu(), masks)
    assert np.array_equal(
        paste(torch.from_numpy(images).cuda(), there, draws).cpu().numpy(), pasted(images, masks.numpy(), draws)
    )
