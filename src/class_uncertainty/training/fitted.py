"""Fit: trained lanes, as results, probabilities and plain networks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.data import Data
from class_uncertainty.training.engine import augmented, precision, settle
from class_uncertainty.training.networks import NETWORKS, WIDEST, Classifier, Standardise
from class_uncertainty.training.recipe import Lane, Recipe, Result
from class_uncertainty.training.stack import Stack, State, stacked
from class_uncertainty.training.streams import draw_augmentation


def width_of(network: str, device: str) -> int:
    """Lanes of a stack: on a CPU always so many, elsewhere at most."""
    return NETWORKS[network].width if device == "cpu" else WIDEST


def as_tensor(inputs: NDArray) -> Tensor:
    """Without a copy where it can be: pixels may be a file mapped into memory."""
    usable = inputs.flags.writeable and min(inputs.strides) >= 0  # torch has no strides backwards, as in bgr[:, ::-1]
    return torch.from_numpy(inputs if usable else np.array(inputs))


@dataclass(eq=False)
class Fit:
    """Trained lanes: their results, their probabilities on any data, and each as a plain network."""

    recipe: Recipe
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    lanes: list[Lane]
    device: str
    standardise: Standardise
    states: list[State] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    unseen: list[NDArray[np.float32] | None] = field(default_factory=list)  # (n, C) of a lane's own fold, where no test split was given

    def padded(self, items: list) -> list:
        """On a CPU the first is repeated to the stack's width, which never depends on how many lanes there are."""
        return items + items[:1] * (width_of(self.recipe.network, self.device) - len(items)) if self.device == "cpu" else items

    def probabilities(self, data: Data, views: int = 0) -> NDArray[np.float32]:
        """(lanes, N, C); with `views` the mean over so many random crops and flips by the recipe, the same for every lane."""
        width, parts = width_of(self.recipe.network, self.device), []
        for start in range(0, len(self.lanes), width):
            group, states = self.lanes[start : start + width], self.states[start : start + width]
            stack = stacked(self.recipe, self.shape, self.classes, self.padded(group), self.padded(states))
            parts.append(self.probabilities_of(settle(stack, self.recipe.network, self.device), group, data, views))
        return np.concatenate(parts)

    @torch.no_grad()
    def probabilities_of(self, stack: Stack, group: Sequence[Lane], data: Data, views: int = 0) -> NDArray[np.float32]:
        """(len(group), N, C) of the first lanes of a stack."""
        stack.eval()
        inputs = as_tensor(data.inputs).to(self.device)
        if not views:
            return self._softmax(stack, group, inputs)
        return sum(self._softmax(stack, group, self._view(inputs, view)) for view in range(views)) / np.float32(views)  # type: ignore[return-value]

    def _view(self, inputs: Tensor, view: int) -> Tensor:
        shifts, mirrored = draw_augmentation(view, 0, len(inputs), self.recipe.crop)
        return augmented(inputs, torch.from_numpy(shifts).to(self.device), torch.from_numpy(mirrored).to(self.device), self.recipe)

    def _softmax(self, stack: Stack, group: Sequence[Lane], inputs: Tensor) -> NDArray[np.float32]:
        scale = torch.tensor([lane.value.scale for lane in group], device=self.device).view(-1, 1, 1)
        parts = []
        for batch in inputs.split(256):
            x = self.standardise(batch).repeat(1, stack.lanes, *[1] * (batch.ndim - 2))
            with precision(stack):
                z = stack(x)
            parts.append((scale * z.float()[: len(group)]).softmax(dim=-1).cpu())
        return torch.cat(parts, dim=1).numpy()

    def module(self, i: int) -> Classifier:
        """Lane i as a plain network in evaluation mode: raw inputs in, logits out."""
        method = self.lanes[i].value
        module = Classifier(self.recipe.network, self.shape, self.classes, method.head, method.scale)
        state = {f"preprocess.{name}": value.cpu() for name, value in self.standardise.named_buffers()} | self.states[i]
        module.load_state_dict({name: value for name, value in state.items() if name in module.state_dict()})
        return module.eval()
