"""Trees from a file are checked before they are walked."""

import pytest
import torch

from class_uncertainty.training.networks.tree_heads import LARGEST, BoostingHead, ForestHead


def one_split(head, **changes):
    """Is feature 1 at most 0.5? Then the first row of values, otherwise the second."""
    tensors = {
        "roots": torch.tensor([0]),
        "feature": torch.tensor([1, 0, 0]),
        "threshold": torch.tensor([0.5, LARGEST, LARGEST]),
        "below": torch.tensor([1, 1, 2]),
        "values": torch.tensor([[0.75, 0.25], [0.0, 1.0]]),
    }
    if isinstance(head, BoostingHead):
        more = {"target": torch.tensor([1]), "baseline": torch.zeros(2), "values": torch.tensor([[-1.0], [2.0]])}
        tensors |= more
    head.load_state_dict({name: value.to(getattr(head, name).dtype) for name, value in (tensors | changes).items()})
    return head


def test_a_forest_gives_the_logarithms_of_its_leaves():
    head = one_split(ForestHead(2, 2))
    head.check()
    p = head(torch.tensor([[9.0, 0.5], [9.0, 0.6]])).exp()
    torch.testing.assert_close(p, torch.tensor([[0.75, 0.25], [0.0, 1.0]]))


def test_boosting_adds_scores_to_the_class_of_a_tree():
    head = one_split(BoostingHead(2, 2), baseline=torch.tensor([0.0, 0.5]))
    head.check()
    torch.testing.assert_close(head(torch.tensor([[0.0, 0.0], [0.0, 1.0]])), torch.tensor([[0.0, -0.5], [0.0, 2.5]]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"roots": torch.tensor([3])}, "no roots"),
        ({"roots": torch.tensor([], dtype=torch.long)}, "no roots"),
        ({"threshold": torch.tensor([0.5])}, "not as many"),
        ({"values": torch.tensor([[0.5]])}, "not as many"),
        ({"below": torch.tensor([1, 0, 2])}, "not as many"),
        ({"below": torch.tensor([2, 1, 2])}, "does not stand behind it"),
        ({"below": torch.tensor([9, 1, 2])}, "does not stand behind it"),
        ({"feature": torch.tensor([2, 0, 0])}, "a feature that is not there"),
        ({"threshold": torch.tensor([0.5, LARGEST, 0.5])}, "a leaf asks"),
        ({"target": torch.tensor([2])}, "a class that is not there"),
    ],
)
def test_trees_that_lead_nowhere_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        one_split(BoostingHead(2, 2), **changes).check()
