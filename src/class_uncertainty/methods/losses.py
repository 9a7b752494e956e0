"""Losses as pure functions, unreduced until `reduce`. Leading axes (lanes, batch) are free; classes come last."""

import torch
from torch import Tensor
from torch.nn import functional as F


def adjust_logits(z: Tensor, labels: Tensor, margin: Tensor, divisor: Tensor, beta: Tensor, scale: Tensor) -> Tensor:
    """scale (z_c / divisor_c - Delta_c [c = y or beta]) (Eq. 5).

    z (..., C), labels (...); margin and divisor (..., C), beta and scale (..., 1), each broadcast against z.
    """
    own = F.one_hot(labels, z.shape[-1]).to(z.dtype)
    return scale * (z / divisor - margin * torch.maximum(own, beta))


def cross_entropy(z: Tensor, targets: Tensor) -> Tensor:
    """-sum_c t_c log softmax(z)_c: (..., C), (..., C) -> (...)."""
    return -(targets * F.log_softmax(z, dim=-1)).sum(dim=-1)


def softmax_focal(z: Tensor, targets: Tensor, labels: Tensor, gamma: Tensor) -> Tensor:
    """(1 - p_y) ** gamma times the cross entropy (Lin et al.); gamma (...) broadcasts. At gamma 0, cross entropy."""
    own = F.one_hot(labels, z.shape[-1]).bool()
    log_rest = z.masked_fill(own, -torch.inf).logsumexp(dim=-1) - z.logsumexp(dim=-1)  # log(1 - p_y), never log(0)
    return torch.exp(gamma * log_rest) * cross_entropy(z, targets)


def sigmoid_focal(z: Tensor, targets: Tensor, labels: Tensor, gamma: Tensor) -> Tensor:
    """sum_c m_c ** gamma BCE(z_c, t_c), m_y = 1 - p_y and m_c = p_c elsewhere, p = sigmoid(z) (Cui et al., Bag-of-Tricks)."""
    bce = F.binary_cross_entropy_with_logits(z, targets, reduction="none")
    log_miss = F.logsigmoid(torch.where(F.one_hot(labels, z.shape[-1]).bool(), -z, z))
    return (torch.exp(gamma.unsqueeze(-1) * log_miss) * bce).sum(dim=-1)


def per_example(z: Tensor, targets: Tensor, labels: Tensor, gamma: Tensor, sigmoid: Tensor) -> Tensor:
    """The focal loss in the form that `sigmoid` (...) picks for each lane; naive lanes have gamma 0, softmax form."""
    return torch.where(sigmoid, sigmoid_focal(z, targets, labels, gamma), softmax_focal(z, targets, labels, gamma))


def reduce(losses: Tensor, weights: Tensor, by_weights: Tensor) -> Tensor:
    """sum_i w_i l_i over the batch (..., B), divided by m (Eq. 4) or, where `by_weights` (...), by sum_i w_i as torch does."""
    size = torch.full_like(by_weights, losses.shape[-1], dtype=losses.dtype)
    return (weights * losses).sum(dim=-1) / torch.where(by_weights, weights.sum(dim=-1), size)
