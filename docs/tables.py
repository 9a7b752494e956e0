"""Writes the tables of docs/methods.md and docs/estimators.md that come from the package's own: `make docs`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from class_uncertainty.estimation import ESTIMATORS
from class_uncertainty.measures import MEASURES
from class_uncertainty.methods import AUGMENTATIONS, METHODS, Method
from class_uncertainty.methods.origins import ORIGINS
from class_uncertainty.training import describe

HERE = Path(__file__).parent


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def acts(method: Method) -> str:
    """What a method does to the knobs, in a few words."""
    words = describe(method)
    known = [
        f"{name}: {words[name]}"
        for name in ("alpha", "weight", "margin", "divisor", "focal", "augment", "dropout", "cycles")
        if name in words
    ]
    known += [f"then {acts(stage.method) or 'naive'} ({stage.trains})" for stage in method.then]
    return "; ".join(known)


def methods() -> str:
    rows = ((f"`{name}`", row.about, acts(row), ORIGINS[name].paper, ORIGINS[name].released) for name, row in METHODS.items())
    return table(("name", "what it does", "knobs", "the paper", "public code, where it differs"), rows)


def measures() -> str:
    return table(("name", "formula"), ((f"`{name}`", row.about) for name, row in MEASURES.items()))


def augmentations() -> str:
    return table(("name", "what it does"), ((f"`+{name}`", about) for name, about in AUGMENTATIONS.items()))


def estimators() -> str:
    return table(("name", "its score", "what it is"), ((f"`{name}`", row.natural, row.about) for name, row in ESTIMATORS.items()))


TABLES = {"methods": methods, "measures": measures, "augmentations": augmentations, "estimators": estimators}


def filled(text: str) -> str:
    """The text with each table between its markers made anew."""
    for name, make in TABLES.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        if begin:
            _, end, after = rest.partition(f"<!-- end of {name} -->\n")
            text = f"{before}{begin}{make()}\n{end}{after}"
    return text


if __name__ == "__main__":
    for page in sorted(HERE.glob("*.md")):
        page.write_text(filled(page.read_text()))
