"""Trainings that must be the same."""

import dataclasses

import torch

import class_uncertainty as cu


def same_results(one: cu.Fit, other: cu.Fit) -> None:
    """But for the clock."""
    for a, b in zip(one.results, other.results, strict=True):
        assert dataclasses.replace(a, seconds=0) == dataclasses.replace(b, seconds=0)


def same_fits(one: cu.Fit, other: cu.Fit) -> None:
    """Results and weights, to the last bit."""
    same_results(one, other)
    for a, b in zip(one.states, other.states, strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)
