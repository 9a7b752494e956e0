"""Two classes in words: how well the rarer one is found, for terminals and pages."""

from class_uncertainty.posthoc.evaluation import FIGURES, TwoClasses
from class_uncertainty.text import enumerated


def named_figures(two: TwoClasses, name: str) -> list[tuple[str, str]]:
    """('precision of churn', '42.1') and the like, in percent."""
    return [(f"{word} of {name}", f"{getattr(two, figure):.1f}") for figure, word in FIGURES.items()]


def two_class_sentence(two: TwoClasses, name: str) -> str:
    """'Class churn: precision 42.1 %, ..., average precision 52.7 %; predicted from p(churn) = 0.24 on.'"""
    figures = enumerated([f"{word} {getattr(two, figure):.1f} %" for figure, word in FIGURES.items()], len(FIGURES))
    threshold = "" if two.threshold is None else f"; predicted from p({name}) = {two.threshold:.2g} on"
    return f"Class {name}: {figures}{threshold}."


def cost_sentence(mean_cost: float, least_cost: float | None = None, name: str = "Mean cost of an example") -> str:
    """'Mean cost of an example: 0.51; 0.46 by decisions for the least expected cost.'"""
    lower = "" if least_cost is None else f"; {least_cost:.4g} by decisions for the least expected cost"
    return f"{name}: {mean_cost:.4g}{lower}."
