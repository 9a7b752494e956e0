"""WeightAverage: the mean of a stack's weights over its last epochs (Izmailov et al., UAI 2018)."""

from collections.abc import Sequence

import torch

from class_uncertainty.training.lbfgs import LBFGS
from class_uncertainty.training.networks.heads import StackedRBFHead
from class_uncertainty.training.networks.stack import SGD, Stack, State, apart, joined
from class_uncertainty.training.recipe import Recipe


class WeightAverage:
    """Sums of the trained weights at the ends of the recipe's last epochs; nothing where it averages none.

    DUQ's centroids are moving averages beside the weights: the sums N_c and m_c that they are made of are averaged
    like weights. A mean is a sum divided once: sums have the same bits wherever a lane is in its stack.
    """

    def __init__(self, stack: Stack, optimiser: SGD | LBFGS, recipe: Recipe) -> None:
        self.lanes, self.count, self.first = stack.lanes, recipe.averaged, recipe.epochs - recipe.averaged
        averaged = dict(zip(optimiser.names, (p.data for p in optimiser.parameters), strict=True))
        if isinstance(stack.head, StackedRBFHead):
            averaged |= {"head.count": stack.head.count, "head.total": stack.head.total}
        self.averaged = averaged if self.count else {}
        self.sums = {name: torch.zeros_like(value) for name, value in self.averaged.items()}

    def load(self, summed: Sequence[State]) -> None:
        """Go on from the sums of the lanes; a lane that is not yet averaged has none."""
        if all(summed):
            for name, value in self.sums.items():
                value.copy_(joined([lane[name] for lane in summed]).view_as(value))

    def states(self) -> list[State]:
        """Each lane's sums, apart."""
        return apart(self.sums, self.lanes)

    @torch.no_grad()
    def add(self, epoch: int) -> None:
        """Add the weights at the end of an epoch, if it is one of the last."""
        if self.count and epoch >= self.first:
            torch._foreach_add_(list(self.sums.values()), list(self.averaged.values()))

    @torch.no_grad()
    def replace_weights(self) -> None:
        """The means in place of the weights."""
        torch._foreach_copy_(list(self.averaged.values()), torch._foreach_div(list(self.sums.values()), self.count))
