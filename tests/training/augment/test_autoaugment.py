"""AutoAugment and Cutout: Pillow's pixels, the published policy, and nothing that waits for the device."""

import platform

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy.stats import binom, chisquare
from sklearn.datasets import load_digits

from class_uncertainty.training.augment.autoaugment import (
    POLICIES,
    PROBABILITIES,
    autoaugment,
    cutout,
    draw_holes,
    draw_policy,
)

pytestmark = pytest.mark.usefixtures("no_global_random")

PUBLISHED = """
    invert 1 7 contrast 2 6        rotate 7 2 translateX 3 9        sharpness 8 1 sharpness 9 3
    shearY 5 8 translateY 7 9      autocontrast 5 8 equalize 9 2    shearY 2 7 posterize 3 7
    color 4 3 brightness 6 7       sharpness 3 9 brightness 7 9     equalize 6 5 equalize 5 1
    contrast 6 7 sharpness 6 5     color 7 7 translateX 5 8         equalize 3 7 autocontrast 4 8
    translateY 4 3 sharpness 2 6   brightness 9 6 color 2 8         solarize 5 2 invert 0 3
    equalize 2 0 autocontrast 6 0  equalize 2 8 equalize 6 4        color 9 9 equalize 6 6
    autocontrast 8 4 solarize 2 8  brightness 1 3 color 7 0         solarize 4 5 autocontrast 9 3
    translateY 9 9 translateY 7 9  autocontrast 9 2 solarize 8 3    equalize 8 8 invert 1 3
    translateY 7 9 autocontrast 9 1
"""  # operation, tenths of probability, magnitude
WORDS = PUBLISHED.split()
OPERATIONS = [
    (WORDS[i], int(WORDS[i + 1]) / 10, int(WORDS[i + 2])) for i in range(0, len(WORDS), 3)
]  # 50, two a sub-policy
FUSED = platform.machine() not in (
    "x86_64",
    "AMD64",
)  # where Pillow's compiler may round a product and a sum once, not twice
SHAPES = [(3, 32, 32), (3, 24, 41), (1, 28, 28), (3, 7, 5), (1, 2, 9), (3, 1, 1)]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads wait for each other at every small operation, and long where tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pictures(channels, height, width):
    """Noise, waves, and the corner cases of histograms: one level, two levels, a black channel, few levels, nearly all
    one level."""
    rng = np.random.default_rng(20231114)
    noise = rng.integers(0, 256, (4, channels, height, width), dtype=np.uint8)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = np.stack([np.sin(7 * x + 3 * y + c) * 110 + 128 for c in range(channels)]).astype(np.uint8)
    constant = np.full_like(waves, 77)
    lone = np.full_like(waves, 200)
    lone[:, -1, -1] = 3
    no_red = waves.copy()
    no_red[0] = 0
    faint = waves // 16 + 90
    two = np.where(noise[0] < 100, 12, 250)
    return torch.from_numpy(
        np.stack([*noise, waves, constant, 0 * waves, 0 * waves + 255, two, no_red, lone, faint]).astype(np.uint8)
    )


def by_pillow(image, operation, magnitude, minus):
    """One operation on an array (channels, H, W), as the port calls Pillow."""
    picture = Image.fromarray(
        image.transpose(1, 2, 0).squeeze(2) if len(image) == 1 else image.transpose(1, 2, 0).copy()
    )
    sign = -1 if minus else 1
    fill = 128 if len(image) == 1 else (128,) * 3

    def value(first, last):
        return np.linspace(first, last, 10)[magnitude]

    def affine(*matrix, resample=Image.Resampling.NEAREST):
        return picture.transform(picture.size, Image.Transform.AFFINE, matrix, resample, fillcolor=fill)

    result = {
        "shearY": lambda: affine(1, 0, 0, value(0, 0.3) * sign, 1, 0, resample=Image.Resampling.BICUBIC),
        "translateX": lambda: affine(1, 0, value(0, 150 / 331) * picture.width * sign, 0, 1, 0),
        "translateY": lambda: affine(1, 0, 0, 0, 1, value(0, 150 / 331) * picture.height * sign),
        "rotate": lambda: picture.rotate(value(0, 30), fillcolor=fill),  # no sign
        "color": lambda: ImageEnhance.Color(picture).enhance(1 + value(0, 0.9) * sign),
        "contrast": lambda: ImageEnhance.Contrast(picture).enhance(1 + value(0, 0.9) * sign),
        "sharpness": lambda: ImageEnhance.Sharpness(picture).enhance(1 + value(0, 0.9) * sign),
        "brightness": lambda: ImageEnhance.Brightness(picture).enhance(1 + value(0, 0.9) * sign),
        "posterize": lambda: ImageOps.posterize(picture, int(np.round(value(8, 4)))),
        "solarize": lambda: ImageOps.solarize(picture, value(256, 0)),
        "invert": lambda: ImageOps.invert(picture),
        "autocontrast": lambda: ImageOps.autocontrast(picture),
        "equalize": lambda: ImageOps.equalize(picture),
    }[operation]()
    return np.atleast_3d(np.asarray(result)).transpose(2, 0, 1)


def port(image, policy, applied, sign):
    for step in range(2):
        if applied[step]:
            operation, _, magnitude = OPERATIONS[2 * policy + step]
            image = by_pillow(image, operation, magnitude, sign[step])
    return image


def repeated(length, policy, applied, sign):
    return torch.full((length,), policy), torch.tensor([applied] * length), torch.tensor([sign] * length)


def drawn(rng, length, device="cpu"):
    return {name: torch.from_numpy(array).to(device) for name, array in draw_policy(rng, length).items()}


# The policy.


def test_the_published_policy():
    assert [operation for pair in POLICIES for operation in pair] == OPERATIONS
    assert len(POLICIES) == 25


def test_draws_are_as_frequent_as_published(rng):
    length = 100_000
    draws = draw_policy(rng, length)
    counts = np.bincount(draws["policy"], minlength=25)
    assert chisquare(counts).pvalue > 0.001
    for step in range(2):
        applied = np.bincount(draws["policy"], draws["applied"][:, step], minlength=25)
        probability = np.array([OPERATIONS[2 * policy + step][1] for policy in range(25)])
        never = probability == 0
        assert applied[never].sum() == 0
        tails = binom.cdf(applied, counts, probability)[~never]
        assert tails.min() > 0.0005
        assert tails.max() < 0.9995
    signs = draws["sign"] @ [2, 1]
    assert chisquare(np.bincount(signs, minlength=4)).pvalue > 0.001  # each half, and one tells nothing of the other
    both = PROBABILITIES[draws["policy"]].prod(1)
    assert abs(draws["applied"].all(1).sum() - both.sum()) < 4 * np.sqrt((both * (1 - both)).sum())


def test_draws_are_the_same_for_the_same_seed():
    first, second, other = (draw_policy(np.random.default_rng(seed), 50) for seed in (1, 1, 2))
    for name in ("policy", "applied", "sign"):
        assert np.array_equal(first[name], second[name])
        assert not np.array_equal(first[name], other[name])


# Operations, against Pillow.


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("operation", sorted({name for name, *_ in OPERATIONS}))
def test_each_operation_is_pillows(operation, shape):
    """Pixel for pixel, at every place in the policy and with both signs; a level off where Pillow's arithmetic is the
    machine's."""
    images, places = pictures(*shape), [place for place, (name, *_) in enumerate(OPERATIONS) if name == operation]
    cases = [(*divmod(place, 2), minus) for place in places for minus in (False, True)]
    policy, step, minus = torch.tensor(cases).repeat_interleave(len(images), 0).T
    alone = step[:, None] == torch.arange(2)
    result = autoaugment(images.repeat(len(cases), 1, 1, 1), policy, alone, minus.bool()[:, None].expand(-1, 2)).numpy()
    for (first, second, sign), mine in zip(cases, result.reshape(len(cases), *images.shape), strict=True):
        magnitude = OPERATIONS[2 * first + second][2]
        expected = np.stack([by_pillow(image, operation, magnitude, sign) for image in images.numpy()])
        assert np.abs(mine.astype(int) - expected).max() <= FUSED, (magnitude, sign)


@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 96, 75), (3, 224, 224)], ids=str)
def test_large_images_turn_as_pillows(shape, rng):
    """Pillow rounds the rotation itself, which shows from some 40 pixels on."""
    images = torch.from_numpy(rng.integers(0, 256, (1, *shape), dtype=np.uint8))
    result = autoaugment(images, *repeated(1, 1, [True, False], [False, False]))
    assert np.array_equal(result[0].numpy(), by_pillow(images[0].numpy(), "rotate", 2, False))


@pytest.mark.skipif(FUSED, reason="a level off before an equalisation is many after it")
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_operations_one_after_the_other_are_pillows(shape, rng):
    """Every sub-policy and mixture of signs, each image with its own, in one batch."""
    images = pictures(*shape).repeat(40, 1, 1, 1)
    draws = drawn(rng, len(images))
    draws["applied"] |= torch.from_numpy(rng.random((len(images), 2)) < 0.5)
    assert len(torch.unique(torch.cat([draws["policy"][:, None], draws["applied"], draws["sign"]], 1), dim=0)) > 180
    result = autoaugment(images, **draws).numpy()
    expected = np.stack(
        [port(*each) for each in zip(images.numpy(), *(draw.numpy() for draw in draws.values()), strict=True)]
    )
    assert np.array_equal(result, expected)


@pytest.mark.skipif(FUSED, reason="a level off before an equalisation is many after it")
def test_real_digits_are_pillows(rng):
    images = torch.from_numpy(np.rint(load_digits().images[:250, None] * (255 / 16)).astype(np.uint8))
    draws = drawn(rng, len(images))
    expected = [port(*each) for each in zip(images.numpy(), *(draw.numpy() for draw in draws.values()), strict=True)]
    assert np.array_equal(autoaugment(images, **draws).numpy(), np.stack(expected))


@pytest.mark.skipif(FUSED, reason="a level off before an equalisation is many after it")
@pytest.mark.parametrize("policy", [0, 3, 6, 9, 18])
def test_the_order_of_two_operations_matters(policy):
    images = pictures(3, 32, 32)
    result = autoaugment(images, *repeated(len(images), policy, [True, True], [False, True])).numpy()
    (first, _, one), (second, _, two) = OPERATIONS[2 * policy : 2 * policy + 2]
    for image, mine in zip(images.numpy()[:4], result[:4], strict=True):
        assert np.array_equal(mine, by_pillow(by_pillow(image, first, one, False), second, two, True))
        assert not np.array_equal(mine, by_pillow(by_pillow(image, second, two, True), first, one, False))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_not_applied_changes_nothing(shape):
    images = pictures(*shape).repeat(25, 1, 1, 1)
    _, applied, sign = repeated(len(images), 0, [False, False], [True, False])
    assert torch.equal(autoaugment(images, torch.arange(len(images)) % 25, applied, sign), images)


# Batches.


def test_images_do_not_influence_each_other(rng):
    images = pictures(3, 32, 32).repeat(20, 1, 1, 1)
    draws, holes = drawn(rng, len(images)), torch.from_numpy(draw_holes(rng, len(images))["holes"])
    order = torch.from_numpy(rng.permutation(len(images)))
    result = autoaugment(images, **draws)
    assert torch.equal(autoaugment(images[order], **{name: draw[order] for name, draw in draws.items()}), result[order])
    assert torch.equal(autoaugment(images[:1], **{name: draw[:1] for name, draw in draws.items()}), result[:1])
    assert torch.equal(cutout(images[order], holes[order]), cutout(images, holes)[order])


def test_the_same_draws_give_the_same_and_leave_the_images_alone(rng):
    images = pictures(3, 32, 32).repeat(10, 1, 1, 1)
    before, draws, holes = (
        images.clone(),
        drawn(rng, len(images)),
        torch.from_numpy(draw_holes(rng, len(images))["holes"]),
    )
    result, cut = autoaugment(images, **draws), cutout(images, holes)
    assert torch.equal(autoaugment(images, **draws), result)
    assert torch.equal(cutout(images, holes), cut)
    assert torch.equal(images, before)
    assert not torch.equal(result, images)


def test_nothing_reads_values_on_the_host(rng):
    """Tensors without values: asking one for a value, or for a shape that depends on values, is an error."""
    images = torch.empty(6, 3, 32, 32, dtype=torch.uint8, device="meta")
    with pytest.raises((NotImplementedError, RuntimeError)):
        images[images > 3]  # what must not happen is seen
    holes = torch.from_numpy(draw_holes(rng, 6)["holes"]).to("meta")
    for result in (autoaugment(images, **drawn(rng, 6, "meta")), cutout(images, holes)):
        assert (result.shape, result.dtype, result.device.type) == (images.shape, torch.uint8, "meta")


@pytest.mark.gpu
def test_a_graph_replays_what_the_cpu_does(rng):
    images = pictures(3, 32, 32).repeat(40, 1, 1, 1)
    ours = {name: draw.clone() for name, draw in drawn(rng, len(images), "cuda").items()}
    holes = torch.from_numpy(draw_holes(rng, len(images))["holes"]).cuda()
    still = images.cuda()
    cutout(autoaugment(still, **ours), holes)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = cutout(autoaugment(still, **ours), holes)
    for _ in range(3):
        draws = drawn(rng, len(images))
        for name, draw in draws.items():
            ours[name].copy_(draw)
        graph.replay()
        assert torch.equal(result.cpu(), cutout(autoaugment(images, **draws), holes.cpu()))


# Cutout.


@pytest.mark.parametrize("size", [16, 7, 2, 1])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 9, 20)], ids=str)
def test_cutout_is_a_loop_over_pictures(shape, size, rng):
    images = torch.from_numpy(rng.integers(1, 256, (200, *shape), dtype=np.uint8))
    holes = draw_holes(rng, len(images))["holes"]
    holes[:4] = [[0, 0], [np.nextafter(np.float32(1), np.float32(0))] * 2, [0, 0.5], [0.5, 0.999]]
    expected = images.numpy().copy()
    _, height, width = shape
    for image, (down, across) in zip(expected, holes.astype(np.float64), strict=True):
        y, x, half = int(down * height), int(across * width), size // 2
        image[
            :,
            np.clip(y - half, 0, height) : np.clip(y + half, 0, height),
            np.clip(x - half, 0, width) : np.clip(x + half, 0, width),
        ] = 0
    assert np.array_equal(cutout(images, torch.from_numpy(holes), size).numpy(), expected)


def test_every_pixel_is_a_centre_as_often(rng):
    holes = draw_holes(rng, 50_000)["holes"]
    assert holes.dtype == np.float32
    assert (holes.min() >= 0) & (holes.max() < 1)
    y, x = (holes * [7, 9]).astype(int).T
    assert chisquare(np.bincount(9 * y + x, minlength=63)).pvalue > 0.001
