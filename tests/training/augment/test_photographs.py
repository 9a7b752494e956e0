"""Crops of random size and colour jitter: against Pillow, and the same for a lane wherever it is."""

import numpy as np
import pytest
import torch
from own_networks import images
from PIL import Image, ImageEnhance

import class_uncertainty as cu
from class_uncertainty.training.augment.crops import draw_boxes, draw_jitter, jitter, resized_crop

pytestmark = pytest.mark.usefixtures("no_global_random")
PIXELS = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (5, 3, 12, 16), dtype=np.uint8))


def test_the_whole_image_at_its_own_size_is_the_image():
    whole = torch.tensor([[1.0, 4 / 3, 0.3, 0.8]]).expand(5, -1)  # as wide as the image over as high
    assert torch.equal(resized_crop(PIXELS, whole, None), PIXELS)


def test_a_box_is_the_part_of_the_image_that_pillow_cuts():
    """Half of the sides of a square, magnified; Pillow's bilinear magnification is the same interpolation."""
    square = PIXELS[:, :, :, :12]
    boxes = torch.tensor([[0.25, 1.0, 0.5, 1.0]]).expand(5, -1)
    ours = resized_crop(square, boxes, 24).permute(0, 2, 3, 1).numpy().astype(int)
    for image, crop in zip(square.permute(0, 2, 3, 1).numpy(), ours, strict=True):
        theirs = Image.fromarray(image).transform(
            (24, 24), Image.Transform.EXTENT, (6, 3, 12, 9), Image.Resampling.BILINEAR
        )
        inner = np.s_[2:-2, 2:-2]  # Pillow does not interpolate with a border
        assert np.abs(crop[inner] - np.asarray(theirs).astype(int)[inner]).max() <= 1


def test_a_box_is_as_much_wider_than_high_as_it_says():
    """8 x 6 pixels of 16 x 12, from the middle of the right side."""
    boxes = torch.tensor([[0.25, 4 / 3, 0.5, 1.0], [0.25, 3 / 4, 0.5, 1.0]])
    high = 48**0.5 * (4 / 3) ** 0.5  # of the second, 8 pixels high and 6 wide
    corners = [(8, 3, 16, 9), (10, (12 - high) / 2, 16, (12 + high) / 2)]
    ours = resized_crop(PIXELS[:2], boxes, 24).permute(0, 2, 3, 1).numpy().astype(int)
    for image, crop, box in zip(PIXELS.permute(0, 2, 3, 1).numpy(), ours, corners, strict=False):
        theirs = Image.fromarray(image).transform((24, 24), Image.Transform.EXTENT, box, Image.Resampling.BILINEAR)
        inner = np.s_[2:-2, 2:-2]
        assert np.abs(crop[inner] - np.asarray(theirs).astype(int)[inner]).max() <= 1


def test_boxes_stay_within_their_range():
    boxes = draw_boxes(np.random.default_rng(0), 2000, 0.2)
    area, shape, down, across = boxes.T
    assert 0.2 <= area.min() < 0.22
    assert 0.98 < area.max() <= 1
    assert 0.75 - 1e-6 <= shape.min() < 0.76
    assert 1.32 < shape.max() <= 4 / 3 + 1e-6
    assert np.abs(np.log(shape).mean()) < 0.02
    assert all(places.min() >= 0 and places.max() < 1 for places in (down, across))
    assert resized_crop(PIXELS, torch.from_numpy(boxes[:5]), 7).shape == (5, 3, 7, 7)


@pytest.mark.parametrize(
    ("place", "enhance"), [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)]
)
def test_jitter_is_what_pillow_does(place, enhance):
    factors = torch.ones(5, 3)
    factors[:, place] = torch.tensor([0.6, 0.8, 1.0, 1.2, 1.4])
    ours = jitter(PIXELS, factors).permute(0, 2, 3, 1).numpy().astype(int)
    for image, changed, factor in zip(PIXELS.permute(0, 2, 3, 1).numpy(), ours, factors[:, place], strict=True):
        theirs = np.asarray(enhance(Image.fromarray(image)).enhance(float(factor))).astype(int)
        assert np.abs(changed - theirs).max() <= 2  # they round grey, and its mean, to whole numbers on the way


def test_contrast_is_about_the_mean_of_the_brightened_image():
    factors = torch.tensor([[0.5, 0.5, 1.0]]).expand(5, -1)
    ours = jitter(PIXELS, factors).permute(0, 2, 3, 1).numpy().astype(int)
    for image, changed in zip(PIXELS.permute(0, 2, 3, 1).numpy(), ours, strict=True):
        darker = ImageEnhance.Brightness(Image.fromarray(image)).enhance(0.5)
        theirs = np.asarray(ImageEnhance.Contrast(darker).enhance(0.5)).astype(int)
        assert np.abs(changed - theirs).max() <= 2


def test_grey_images_have_no_saturation():
    factors = torch.from_numpy(draw_jitter(np.random.default_rng(0), 5, 0.4))
    grey = PIXELS[:, :1]
    changed = jitter(grey, factors)
    assert torch.equal(changed, jitter(grey, factors * torch.tensor([1, 1, 0])))
    assert changed.dtype == torch.uint8


def test_what_a_lane_sees_depends_on_its_seed_alone():
    data = images(number=48)
    recipe = cu.Recipe("small-conv", 2, 16, resized_crop=0.3, jitter=0.5, flip=True)
    lanes = [cu.Lane(seed=seed) for seed in range(3)]
    together = cu.fit(data, lanes, recipe=recipe)
    alone = cu.fit(data, lanes[2:], recipe=recipe)
    assert all(torch.equal(value, together.states[2][name]) for name, value in alone.states[0].items())
    views = alone.probabilities(data, views=2)
    assert np.allclose(views.sum(2), 1, atol=1e-5)
