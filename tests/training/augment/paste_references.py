"""Pastes of one image at a time, (channels, H, W) with a foreground (H, W), by Pillow, SciPy and NumPy."""

import numpy as np
from PIL import Image
from scipy import ndimage

from class_uncertainty.training.augment.cam_resampling import FLIP, TRANSLATE


def box(mask):
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return rows[0], rows[-1], columns[0], columns[-1]


def first_two(mask):
    """The box of the released code, whose loops stop at the second row and column of the foreground."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return *rows[[0, min(1, len(rows) - 1)]], *columns[[0, min(1, len(columns) - 1)]]


def turning(mask, angle, scale, box=box):
    """Where Pillow is to look, (3, 3): turned and shrunk back about the centre of the box; a pixel has its own centre
    at 0.5."""
    top, bottom, left, right = box(mask)
    centre = np.array([[1, 0, (left + right + 1) / 2], [0, 1, (top + bottom + 1) / 2], [0, 0, 1]])
    cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    forth = np.diag([scale / 100, scale / 100, 1]) @ [[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]]
    return centre @ np.linalg.inv(forth) @ np.linalg.inv(centre)


def ambiguous(matrix, shape):
    """Pixels that come from the border of two, where rounding decides: the reference then says nothing."""
    rows, columns = np.indices(shape) + 0.5
    x, y, _ = np.tensordot(matrix, np.stack([columns, rows, np.ones(shape)]), axes=1)
    return (abs(x - np.rint(x)) < 1e-3) | (abs(y - np.rint(y)) < 1e-3)


def by_pillow(plane, matrix):
    """Pillow's affine transform is in fixed point, its perspective one in doubles: it takes the same map."""
    picture, data = Image.fromarray(plane), [*matrix.ravel()[:8]]
    return np.asarray(picture.transform(picture.size, Image.Transform.PERSPECTIVE, data, Image.Resampling.NEAREST))


def translated(image, mask, u, v):
    top, bottom, left, right = box(mask)
    height, width = mask.shape
    aside, down = list(range(-left, width - right)), list(range(-top, height - bottom))
    x, y = aside[int(u * len(aside))], down[int(v * len(down))]
    assert min(top + y, left + x) >= 0
    here, there = np.s_[top : bottom + 1, left : right + 1], np.s_[top + y : bottom + 1 + y, left + x : right + 1 + x]
    out = image.copy()
    for plane, before in zip(out, image, strict=True):
        plane[there][mask[here]] = before[here][mask[here]]
    return out


def reference(image, mask, kind, angle, scale, u, v):
    """The picture, and where it is certain."""
    certain = np.ones(mask.shape, dtype=bool)
    if kind == TRANSLATE:
        return translated(image, mask, u, v), certain
    if kind == FLIP:
        return np.where(mask[:, ::-1], image[:, :, ::-1], image), certain
    matrix = turning(mask, angle, scale)
    taken = np.stack([by_pillow(plane, matrix) for plane in image])
    moved = by_pillow(mask.astype(np.uint8), matrix).astype(bool)
    return np.where(moved, taken, image), ~ambiguous(matrix, mask.shape)


def released_reference(image, mask, kind, angle, scale, u, v):
    """As in the released code: the whole image moves, what is background before and after becomes black, and black is
    transparent."""
    certain = np.ones(mask.shape, dtype=bool)
    if kind == TRANSLATE:
        top, second_row, left, second_column = first_two(mask)
        down = range(-top, mask.shape[0] - second_row)
        aside = range(-left, mask.shape[1] - second_column)
        shift = (down[int(v * len(down))], aside[int(u * len(aside))])
        moved, *planes = (ndimage.shift(plane, shift, order=0) for plane in (mask.astype(np.uint8), *image))
    elif kind == FLIP:
        moved, *planes = (plane[:, ::-1] for plane in (mask, *image))
    else:
        matrix = turning(mask, angle, scale, first_two)
        moved, *planes = (by_pillow(plane, matrix) for plane in (mask.astype(np.uint8), *image))
        certain = ~ambiguous(matrix, mask.shape)
    black = np.where(mask | moved.astype(bool), np.stack(planes), 0)
    return np.where(black == 0, image, black), certain
