"""What to do with members once they are trained."""

from class_uncertainty.remedies.adjust import adjust, best_tau

__all__ = ["adjust", "best_tau"]
