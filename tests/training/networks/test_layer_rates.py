"""Learning rates by layer: the items of the outermost lists, from the head to the stem."""

import pytest

import class_uncertainty as cu
from class_uncertainty.training.networks.stack import layers_of, rate_factors


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (["body.0.weight", "body.0.bias", "body.2.weight"], [0, 0, 1]),
        (["body.module.conv1.weight", "body.module.layer1.0.conv.weight", "body.module.layer1.1.b.weight"], [0, 1, 2]),
        (
            ["body.m.embed.linear.weight", "body.m.list.0.blocks.0.a", "body.m.list.0.blocks.1.a", "body.m.list.1.a"],
            [0, 1, 1, 2],
        ),
        (["body.module.weight"], [0]),
        ([], []),
    ],
)  # fmt: skip
def test_layers(names, layers):
    assert list(layers_of(names).values()) == layers


def test_factors_fall_from_the_head_to_the_stem():
    recipe = cu.Recipe("small-conv", 1, 8, layer_decay=0.5, head_rate=10)
    names = ["body.0.weight", "body.1.weight", "head.weight", "head.bias", "margins"]
    assert rate_factors(names, recipe) == [0.25, 0.5, 10, 10, 1]
    assert rate_factors(names, cu.Recipe("small-conv", 1, 8)) == [1] * 5
