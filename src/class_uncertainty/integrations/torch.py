"""Class uncertainty in a PyTorch loop: what to draw, what to minimise, and how uncertain classes are."""

from class_uncertainty.integrations.class_loss import Loss
from class_uncertainty.integrations.class_sampler import ClassSampler
from class_uncertainty.integrations.online_uncertainty import OnlineUncertainty, WithIndex
from class_uncertainty.training.networks.heads import CosineHead

__all__ = ["ClassSampler", "CosineHead", "Loss", "OnlineUncertainty", "WithIndex"]
