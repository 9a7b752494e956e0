"""StackAugmentation: lanes of different augmentations in one stack, each augmentation on the lanes that have it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from class_uncertainty.methods import MIXING
from class_uncertainty.training.augment.crops import augmented, mixed, remixed
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.recipe import Recipe

Places = slice | Tensor | None  # of lanes in their stack; None where all lanes are meant


@dataclass(frozen=True, eq=False)
class Mixture:
    """The second labels of a batch, and the share of the first ones: (lanes, B) each."""

    partners: Tensor
    share: Tensor
    plain: Tensor | None  # (lanes, 1) lanes without a second label; None where all lanes have one

    def of(self, labels: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """A loss of every example by both its labels: (lanes, B)."""
        first, second = loss(labels), loss(self.partners)
        both = self.share * first + (1 - self.share) * second
        return both if self.plain is None else torch.where(self.plain, first, both)


class StackAugmentation:
    """What the lanes of a stack add to crop and flip.

    Places are found once for a stack and stay where they are, so a CUDA graph can hold every step. The numbers drawn
    for an augmentation are those of the lanes that have it, (those lanes, B, ...).
    """

    def __init__(self, lanes: Sequence[Lane], recipe: Recipe, device: str, side: int | None = None) -> None:
        def having(*names: str) -> list[int]:
            return [i for i, lane in enumerate(lanes) if set(names) & set(lane.value.augment)]

        self.recipe, self.side, mixing, remixing = recipe, side, having(*MIXING), having("remix")
        self.autoaugment = _places(having("autoaugment"), len(lanes), device)
        self.cutout = _places(having("cutout"), len(lanes), device)
        self.mixing = _places(mixing, len(lanes), device)
        # of the lanes that mix: those whose labels favour the rarer class
        self.remixing = torch.tensor([i in remixing for i in mixing], device=device).view(-1, 1) if remixing else None
        plain = [i not in mixing for i in range(len(lanes))]
        self.plain = torch.tensor(plain, device=device).view(-1, 1) if any(plain) else None

    def images(self, x: Tensor, drawn: Mapping[str, Tensor]) -> Tensor:
        """Raw inputs (lanes, B, ...) cropped and flipped in every lane, then augmented further where lanes do that."""

        def by(*names: str) -> Callable[[Tensor], Tensor]:
            numbers = {name: drawn[name].flatten(0, 1) for name in names if name in drawn}
            return lambda part: augmented(part.flatten(0, 1), numbers, self.recipe, self.side).unflatten(
                0, part.shape[:2]
            )

        x = by("shifts", "boxes", "mirrored", "colours")(x)
        if "policy" in drawn:
            x = _changed(x, self.autoaugment, by("policy", "applied", "sign"))
        return _changed(x, self.cutout, by("holes")) if "holes" in drawn else x

    def mixed(self, x: Tensor, drawn: Mapping[str, Tensor]) -> Tensor:
        """Standardised inputs (lanes, B, ...), mixed with their partners in lanes that mix."""
        return _changed(x, self.mixing, lambda part: mixed(part, drawn)) if "mixed" in drawn else x

    def mixture(self, labels: Tensor, drawn: Mapping[str, Tensor], counts: Tensor) -> Mixture | None:
        """Both labels of the examples, from labels (lanes, B) and class counts (lanes, C); None where no lane mixes."""
        if "mixed" not in drawn:
            return None
        counts = counts.expand(len(labels), -1)
        if self.mixing is None:
            return Mixture(*self._pairs(labels, drawn, counts), None)
        partners, share = labels.clone(), torch.ones_like(labels, dtype=drawn["mixed"].dtype)
        pairs = self._pairs(labels[self.mixing], drawn, counts[self.mixing])
        partners[self.mixing], share[self.mixing] = pairs
        return Mixture(partners, share, self.plain)

    def _pairs(self, labels: Tensor, drawn: Mapping[str, Tensor], counts: Tensor) -> tuple[Tensor, Tensor]:
        """The partners' labels and the shares of the first labels in the lanes that mix."""
        partners, share = labels.gather(1, drawn["partner"]), drawn["mixed"]
        if self.remixing is None:
            return partners, share
        by_counts = remixed(share, counts.gather(1, labels), counts.gather(1, partners))
        return partners, torch.where(self.remixing, by_counts, share)


def _places(lanes: list[int], count: int, device: str) -> Places:
    """A slice where the lanes are neighbours, which copies nothing; else their indices."""
    if len(lanes) == count:
        return None
    if lanes and lanes[-1] - lanes[0] == len(lanes) - 1:
        return slice(lanes[0], lanes[-1] + 1)
    return torch.tensor(lanes, dtype=torch.int64, device=device)


def _changed(x: Tensor, places: Places, change: Callable[[Tensor], Tensor]) -> Tensor:
    """x (lanes, B, ...) with the lanes at those places changed, in place; all of them where None."""
    if places is None:
        return change(x)
    x[places] = change(x[places])
    return x
