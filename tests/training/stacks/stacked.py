"""The lanes of these tests, their recipe and their data."""

import dataclasses

import numpy as np

import class_uncertainty as cu

RECIPE = cu.Recipe("small-conv", epochs=6, batch=32, crop=1, flip=True)
LANES = [
    cu.Lane("naive", 0),
    cu.Lane("ubrs", 1),
    cu.Lane("ldam-rw", 2, lr=0.3),
    cu.Lane("cb", 3, fold=(1, 5)),
    *map(cu.Lane, ("pb-rs", "focal")),
]


def every_third_digit() -> cu.Dataset:
    """Four batches an epoch."""
    digits = cu.load("digits-lt:20")
    return dataclasses.replace(digits, train=digits.train.take(np.arange(0, len(digits.train), 3)))
