"""Losses as pure functions, unreduced until `reduce`. Leading axes (lanes, batch) are free; classes come last."""

import torch
from torch import Tensor
from torch.nn import functional as F


def adjust_logits(z: Tensor, labels: Tensor, margin: Tensor, divisor: Tensor, beta: Tensor, scale: Tensor) -> Tensor:
    """scale (z_c / divisor_c - Delta_c [c = y or beta]) (Eq. 5).

    z (..., C), labels (...); margin and divisor (..., C), beta and scale (..., 1), each broadcast against z.
    """
    one_hot = F.one_hot(labels, z.shape[-1]).to(z.dtype)
    return scale * (z / divisor - margin * torch.maximum(one_hot, beta))


def cross_entropy(z: Tensor, targets: Tensor) -> Tensor:
    """-sum_c t_c log softmax(z)_c: (..., C), (..., C) -> (...)."""
    return -(targets * F.log_softmax(z, dim=-1)).sum(dim=-1)


def softmax_focal(z: Tensor, targets: Tensor, labels: Tensor, gamma: Tensor) -> Tensor:
    """(1 - p_y) ** gamma times the cross entropy (Lin et al.); gamma (...) broadcasts. At gamma 0, cross entropy."""
    one_hot = F.one_hot(labels, z.shape[-1]).bool()
    log_rest = z.masked_fill(one_hot, -torch.inf).logsumexp(dim=-1) - z.logsumexp(dim=-1)  # log(1 - p_y), never log(0)
    return torch.exp(gamma * log_rest) * cross_entropy(z, targets)


def sigmoid_focal(z: Tensor, targets: Tensor, labels: Tensor, gamma: Tensor) -> Tensor:
    """sum_c m_c ** gamma BCE(z_c, t_c), m_y = 1 - p_y, else m_c = p_c, p = sigmoid(z) (Cui et al., Bag-of-Tricks)."""
    bce = F.binary_cross_entropy_with_logits(z, targets, reduction="none")
    log_miss = F.logsigmoid(torch.where(F.one_hot(labels, z.shape[-1]).bool(), -z, z))
    return (torch.exp(gamma.unsqueeze(-1) * log_miss) * bce).sum(dim=-1)


def per_example(z: Tensor, targets: Tensor, labels: Tensor, gamma: Tensor, sigmoid: Tensor) -> Tensor:
    """The focal loss in the form that `sigmoid` (...) picks for each lane; naive lanes have gamma 0, softmax form."""
    return torch.where(sigmoid, sigmoid_focal(z, targets, labels, gamma), softmax_focal(z, targets, labels, gamma))


def robust(features: Tensor, labels: Tensor, centroids: Tensor, margin: Tensor) -> Tensor:
    """DRO-LT's loss, whose sum over the batch is the mean over its classes c of -mean_{z in c} log p(z | c), (..., B).

    p(z | c) is the softmax over the examples z of the batch of -(||m_c - z|| + margin_c [c = y_z]).
    features (..., B, D), labels (..., B), centroids m (..., C, D), margin (..., C). Each example has the margin of its
    own class: the released code pairs them in another order.
    """
    one_hot = F.one_hot(labels, centroids.shape[-2]).to(features.dtype)  # (..., B, C)
    distance = torch.linalg.vector_norm(features.unsqueeze(-2) - centroids.unsqueeze(-3), dim=-1)  # (..., B, C)
    log_p = F.log_softmax(-(distance + margin.unsqueeze(-2) * one_hot), dim=-2)
    sizes = one_hot.sum(dim=-2, keepdim=True)  # (..., 1, C)
    share = (one_hot / sizes.clamp(min=1)).sum(dim=-1) / (sizes > 0).sum(dim=-1)  # (..., B) / (..., 1)
    return -(log_p * one_hot).sum(dim=-1) * share


def reduce(losses: Tensor, weights: Tensor, by_weights: Tensor, mean_weight: Tensor | None = None) -> Tensor:
    """sum_i w_i l_i over the batch (..., B), divided by m (Eq. 4) or, where `by_weights` (...), by sum_i w_i.

    For a part of a larger batch, `mean_weight` (...) is that of the whole batch, and takes the place of the part's own.
    """
    size = torch.full_like(by_weights, losses.shape[-1], dtype=losses.dtype)
    total = weights.sum(dim=-1) if mean_weight is None else size * mean_weight
    return (weights * losses).sum(dim=-1) / torch.where(by_weights, total, size)
