"""Duplicate lanes: which lanes train once, and how they are told of."""

from dataclasses import replace

import class_uncertainty as cu
from class_uncertainty.training.fit import find_duplicates, report_duplicates
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.recipe import RECIPES

HEADS = RECIPES["embeddings"]


def test_only_seeds_that_change_nothing_make_duplicates():
    lanes = [
        cu.Lane("naive", 0),
        cu.Lane("ldam", 0),
        cu.Lane("naive", 1),
        cu.Lane("ldam", 1),  # a cosine head starts at random
        cu.Lane("naive", 2, fold=(0, 5)),
        cu.Lane("naive", 2, bootstrap=True),
        cu.Lane("naive", 3, fold=(0, 5)),
        cu.Lane("naive", 3, bootstrap=True),
        cu.Lane("crt", 4),
        cu.Lane("crt", 5),
    ]
    assert find_duplicates(lanes, HEADS) == {0: [0, 2], 1: [1], 3: [3], 4: [4, 6], 5: [5], 7: [7], 8: [8, 9]}
    by_sgd = replace(HEADS, optimizer="sgd")
    assert find_duplicates([*lanes, lanes[0]], by_sgd) == {place: [place] for place in range(11)}


def test_duplicates_are_told_of_together():
    lanes, told = [cu.Lane("naive", 0), cu.Lane("cb-rs", 0), cu.Lane("naive", 1)], list[Epoch]()
    report = report_duplicates(told.append, find_duplicates(lanes, HEADS), lanes)
    assert report is not None
    report(Epoch((lanes[0], lanes[1]), 3, 10, (0.5, 0.6), (10.0, 20.0), (0.1, 0.2), 1.0, 100.0))
    assert told[0].lanes == (lanes[0], lanes[2], lanes[1])
    assert (told[0].loss, told[0].error, told[0].lr) == ((0.5, 0.5, 0.6), (10.0, 10.0, 20.0), (0.1, 0.1, 0.2))
    assert report_duplicates(None, {}, lanes) is None
    assert report_duplicates(told.append, find_duplicates(lanes[:2], HEADS), lanes[:2]) == told.append
