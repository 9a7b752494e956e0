"""What is summed over the epochs of a training for each example: its probabilities, their entropy, its draws."""

import torch
from torch import Tensor


def to_sum(z: Tensor) -> dict[str, Tensor]:
    """Of logits (..., C): p (..., C), its entropy and a one for the draw, (...) each."""
    p = z.softmax(dim=-1)
    entropy = torch.special.entr(p).sum(dim=-1)
    return {"p": p, "entropy": entropy, "seen": torch.ones_like(entropy)}
