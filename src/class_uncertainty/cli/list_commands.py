"""`cu list`: everything that can be named, by kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from class_uncertainty.cli.options import JSON, argument
from class_uncertainty.errors import unknown


@dataclass(frozen=True)
class Kind:
    """What a list holds and how its names are written, and which fields of its rows make the table."""

    about: str
    fields: tuple[str, ...]


KINDS = {
    "data": Kind(
        "what to train on, as SOURCE:ARGUMENT?option=value; 'cu list data SOURCE' explains the options",
        ("name", "example", "about", "expects"),
    ),
    "methods": Kind(
        "ways to train, as METHOD:constant=value@measure^power+augmentation; all but METHOD may be left out",
        ("name", "constants", "about", "counterpart"),
    ),
    "candidates": Kind(
        "what 'cu fix' chooses between, as METHOD?rate=FACTOR&field=value, with fields of the recipe",
        ("name", "data", "about"),
    ),
    "remedies": Kind(
        "what 'cu compare' makes of trained networks, with the cost in naive trainings for five members",
        ("name", "cost", "about"),
    ),
    "measures": Kind(
        "how under-represented a class is, as MEASURE:constant=value^power after the @ of a method",
        ("name", "constants", "about", "uses_uncertainty"),
    ),
    "estimators": Kind(
        "ways to measure uncertainty; 'cu list estimators NAME' shows the scores that it takes",
        ("name", "score", "about"),
    ),
    "networks": Kind(
        "what a recipe trains, with parameters for 10 classes; also timm:NAME, hf:FOLDER and PATH.py:FACTORY",
        ("name", "inputs", "parameters", "about"),
    ),
}


def list_(
    kind: Annotated[str | None, argument("Such as methods; by default the kinds themselves.", "KIND")] = None,
    name: Annotated[str | None, argument("A name of that kind, to see all its fields.", "NAME")] = None,
    as_json: JSON = False,
) -> None:
    """List the names of data, methods, estimators and more.

    cu list methods
    cu list data folder

    Without KIND, lists the kinds and how names of each kind are written.
    """
    if kind is None:
        documents: list[dict[str, Any]] = [{"kind": kind, "about": row.about} for kind, row in KINDS.items()]
        fields: tuple[str, ...] = ("kind", "about")
    elif kind in KINDS:
        documents = _rows(kind)
        fields = KINDS[kind].fields
    else:
        raise unknown("kind", kind, KINDS)

    if name is not None:
        names = [document["name"] for document in documents]
        if name not in names:
            raise unknown(f"name in 'cu list {kind}'", name, names)
        documents = [documents[names.index(name)]]

    from class_uncertainty.reporting import terminal

    if as_json:
        terminal.print_json(documents)
    elif name is not None:
        terminal.print_table(("field", "value"), list(_flat(documents[0])), words=("value",))
    else:
        columns = [field.replace("_", " ") for field in fields]
        cells = [[_text(document[field]) for field in fields] for document in documents]
        longest = max(len(row[0]) for row in cells)
        first = min(longest, 3 * terminal.console().width // 5)  # some candidates have long names
        terminal.print_table(columns, cells, words=columns, widths={columns[0]: first})
        if kind is not None:
            terminal.say(f"{kind}: {KINDS[kind].about}")


def _rows(kind: str) -> list[dict[str, Any]]:
    """A document for every name of a kind, in the order of its registry."""
    match kind:
        case "data":
            from class_uncertainty.data import SOURCES

            return [
                {"name": name, "example": row.example, "about": row.about, "expects": row.expects}
                | {"options": {key: option.about for key, option in row.options.items()}}
                for name, row in SOURCES.items()
            ]
        case "methods":
            from class_uncertainty.measures import constants_of
            from class_uncertainty.methods import MAKERS, METHODS
            from class_uncertainty.training import describe

            return [
                {"name": name, "about": row.about, "counterpart": row.counterpart}
                | {"constants": constants_of(name, MAKERS), **describe(row)}
                for name, row in METHODS.items()
            ]
        case "candidates":
            from class_uncertainty.reporting.candidate_words import describe_candidate
            from class_uncertainty.training.candidate import CANDIDATES

            return [
                {"name": row.name, "about": describe_candidate(row), "data": row.data, "method": row.method}
                | {"rate": row.rate, "recipe": row.kind or None, "changes": row.changes}
                for row in CANDIDATES.values()
            ]
        case "remedies":
            from class_uncertainty.posthoc.remedies import REMEDIES

            return [
                {"name": name, "about": row.about, "cost": row.trainings(5), "adjusts": row.adjusts}
                for name, row in REMEDIES.items()
            ]
        case "measures":
            from class_uncertainty.measures import MEASURE_MAKERS, MEASURES, constants_of

            return [
                {"name": name, "about": row.about, "uses_uncertainty": row.uses_uncertainty}
                | {"constants": constants_of(name, MEASURE_MAKERS)}
                for name, row in MEASURES.items()
            ]
        case "estimators":
            from class_uncertainty.estimation import ESTIMATORS
            from class_uncertainty.measures import SCORES

            return [
                {"name": name, "score": row.natural, "about": row.about, "scores": [*SCORES, *row.scores]}
                for name, row in ESTIMATORS.items()
            ]
        case _:  # networks
            from class_uncertainty.training.network_size import listed_parameters
            from class_uncertainty.training.networks.network_table import NETWORKS

            inputs = {True: "images", False: "features", None: "its own"}
            counts = listed_parameters()
            return [
                {"name": name, "about": row.about, "inputs": inputs[row.images], "parameters": counts.get(name)}
                for name, row in NETWORKS.items()
            ]


def _flat(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The fields of a document and of those within it, each with its value."""
    for field, value in document.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{field}: ")
        else:
            yield prefix + field, _text(value)


def _text(value: Any) -> str:
    """A value as a cell of a table."""
    if isinstance(value, dict):
        return " ".join(f"{key}={_text(part)}" for key, part in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.7g}"
    return f"{value:,}" if isinstance(value, int) else value or "–"
