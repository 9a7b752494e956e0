"""Two classes in words: how well the rarer one is found, for pages."""

from class_uncertainty.posthoc.evaluation import FIGURES, TwoClasses


def named_figures(two: TwoClasses, name: str) -> list[tuple[str, str]]:
    """('precision of churn', '42.1') and the like, in percent."""
    return [(f"{word} of {name}", f"{getattr(two, figure):.1f}") for figure, word in FIGURES.items()]
