"""Renders the parts of the documentation that come from the package's registries: `make tables`."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import class_uncertainty
from class_uncertainty.data import SOURCES
from class_uncertainty.estimation import ESTIMATORS
from class_uncertainty.measures import MEASURES
from class_uncertainty.methods import AUGMENTATIONS, METHODS, Method
from class_uncertainty.training import describe

HERE = Path(__file__).parent
WIDTH = 120
KNOBS = ("alpha", "weight", "margin", "divisor", "focal", "augment", "dropout", "cycles")
# The API page, in the order of the stages. A public name that no row lists goes under the last heading.
STAGES = {
    "Commands as functions": "measure Measured compare_estimators EstimatorComparison compare Comparison train Trained "
    "fix Fix Choice predict Predicted adjust_predictions AdjustedPredictions",
    "Data": "load Data Dataset long_tail duplicate mix_hardness svci20 validation_split",
    "Measures and scores": "MEASURES Stats normalise class_uncertainty predictive aleatoric epistemic kwon",
    "Methods": "METHODS Method Plan plan",
    "Training": "fit Fit Lane Recipe Result Teaching restore",
    "Estimation": "ESTIMATORS estimate Estimate",
    "Remedies": "REMEDIES adjust fit_adjustment Adjustment",
    "Significance": "aso",
    "Errors": "InputError MachineFault Unfinished",
    "More": "",
}


def plain(text: str) -> str:
    """Text without Markdown's asterisks, apart from what stands in backticks."""
    return "".join(part if part.startswith("`") else part.replace("*", r"\*") for part in re.split("(`[^`]*`)", text))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(plain(cell).replace('|', '/') for cell in line)} |" for line in lines)


def bullets(items: Iterable[str]) -> str:
    """A list whose lines are wrapped, for entries that are too long for the row of a table."""
    wrapped = textwrap.TextWrapper(
        WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrapped.fill(plain(item)) for item in items)


def knobs(method: Method) -> str:
    """What a method does to the knobs, in a few words."""
    words = describe(method)
    actions = [f"{name}: {words[name]}" for name in KNOBS if name in words]
    actions += [f"then {knobs(stage.method) or 'naive'} ({stage.trains})" for stage in method.then]
    return "; ".join(actions)


def methods() -> str:
    """What each method does, the knobs it turns, its place in the paper, and where public code differs."""
    rows = []
    for name, method in METHODS.items():
        turned, origin = knobs(method), method.origin
        details = {"Knobs": turned and f"`{turned}`", "Paper": origin.paper, "Public code": origin.released}
        rows.append(f"`{name}` – {method.about}.")
        rows[-1] += "".join(f" {label}: {text}." for label, text in details.items() if text)
    return bullets(rows)


def measures() -> str:
    return table(("name", "formula"), ((f"`{name}`", row.about) for name, row in MEASURES.items()))


def augmentations() -> str:
    return table(("name", "what it does"), ((f"`+{name}`", about) for name, about in AUGMENTATIONS.items()))


def estimators() -> str:
    return bullets(f"`{name}` – {row.about}. Its score is `{row.natural}`." for name, row in ESTIMATORS.items())


def sources() -> str:
    rows = []
    for source in SOURCES.values():
        options = ", ".join(f"`{option}`" for option in source.options) or "none"
        rows.append(f"`{source.example}` – {source.about}. On disk: {source.expects}. Options: {options}.")
    return bullets(rows)


def options() -> str:
    """Each option with what it does; sources that give an option another meaning are named."""
    meanings: dict[tuple[str, str], list[str]] = {}
    for name, source in SOURCES.items():
        for option, about in source.options.items():
            meanings.setdefault((option, about), []).append(f"`{name}`")
    return bullets(f"`{option}` ({', '.join(names)}): {about}." for (option, about), names in sorted(meanings.items()))


def path_of(name: str) -> str:
    """Where a public name is defined: some packages hold a module and a function of one name."""
    value = getattr(class_uncertainty, name)
    return f"{value.__module__}.{name}" if callable(value) else f"{class_uncertainty.__name__}.{name}"


def api() -> str:
    """A heading for each stage, and below it a directive of mkdocstrings for each public name."""
    unlisted = [name for name in class_uncertainty.__all__ if name not in " ".join(STAGES.values()).split()]
    sections = []
    for heading, names in STAGES.items():
        public = [name for name in names.split() if name in class_uncertainty.__all__]
        public += unlisted if heading == "More" else []
        if public:
            sections.append("\n\n".join([f"## {heading}", *(f"::: {path_of(name)}" for name in public)]))
    return "\n\n".join(sections)


RENDERERS = (methods, measures, augmentations, estimators, sources, options, api)
TABLES = {renderer.__name__: renderer for renderer in RENDERERS}


def filled(text: str) -> str:
    """The page with everything between a pair of markers rendered anew."""
    for name, render in TABLES.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        if begin:
            _, end, after = rest.partition(f"<!-- end of {name} -->\n")
            text = f"{before}{begin}\n{render()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    for page in sorted(HERE.glob("*.md")):
        page.write_text(filled(page.read_text()))
