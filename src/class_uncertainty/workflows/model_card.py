"""A saved model as a README.md: what it is, what it reaches on each class, how it was made, and its limits."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from class_uncertainty.data import Dataset
from class_uncertainty.data.examples import inputs_digest
from class_uncertainty.io import (
    blank_mark,
    check_ending,
    check_replaceable,
    origin,
    parse_json,
    read_regular,
    signed,
    write_whole,
)
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.posthoc.intervals import error_intervals
from class_uncertainty.text import in_list, interval, listed, number, printable
from class_uncertainty.training.folds import judged_groups, judged_labels
from class_uncertainty.training.saved_model import SavedModel, files_of, read_model

FEW = 20  # examples: with fewer, a class's error is hardly known
NAMED = 5  # classes in a sentence
Intervals = Sequence[tuple[float, float]]  # (C,)


def judged_about(
    dataset: Dataset,
    class_errors: Sequence[float] | None,
    cost: float,
    before: Sequence[float] | None = None,
    intervals: Intervals = (),
) -> dict[str, Any]:
    """What a saved model keeps of how it was judged, for its card. Errors are in percent.

    Without intervals of the errors, those that hold whoever of a group was wrong.
    """
    groups = judged_groups(dataset)
    if class_errors is not None and not intervals:
        intervals = error_intervals(class_errors, None, judged_labels(dataset), len(dataset.classes), groups)
    return {
        "fingerprint": dataset.fingerprint,
        "inputs": inputs_digest(dataset.train.digests),
        "on": "test split" if dataset.test else "folds of the training data",
        "examples": np.bincount(judged_labels(dataset), minlength=len(dataset.classes)).tolist(),
        "class_errors": None if class_errors is None else list(map(float, class_errors)),
        "before": None if before is None else list(map(float, before)),
        "low": [low for low, _ in intervals],  # ends of the errors' intervals
        "high": [high for _, high in intervals],
        "groups": None if groups is None else len(np.unique(groups)),
        "cost": cost,
    }


def model_card(path: Path) -> str:
    """The card of the model that --save wrote there, as Markdown with the header that model hubs read."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("class_uncertainty", "workflows"),
        undefined=StrictUndefined,
        finalize=_escaped,  # what the template prints, unless a filter made it Markdown
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"code": _code, "json": _json, "line": _line, "number": number}
    saved = read_model(path)
    judged = _judged(saved)
    values = _values(saved, judged) | {"name": files_of(path)[0].stem, "checksum": _checksum(path)}
    return environment.get_template("card.md.jinja").render(values, saved=saved, purpose=saved.purpose, judged=judged)


def card_origin(model: Path) -> str:
    """What a card is made from: the model at this path."""
    weights = files_of(model)[0]
    return origin(weights.stem, weights.resolve())


def check_card(path: Path, model: Path, force: bool = False) -> None:
    """Refuse what is not the card of this model: models of one folder share its README.md."""
    check_ending(path, "model card", (".md", ".markdown", ""))
    check_replaceable(path, card_origin(model), force, read=files_of(model))


def write_card(path: Path, model: Path, card: str) -> None:
    """Write a card with its mark."""
    made_from = card_origin(model)
    content = f"{card}\n<!-- {blank_mark(made_from)} -->\n"
    write_whole(path, signed(content.encode(), made_from))


def _checksum(model: Path) -> str:
    """What its description says of both files; "" where an earlier version saved it."""
    return str(parse_json(read_regular(files_of(model)[1])).get("checksum", ""))


def _judged(saved: SavedModel) -> dict[str, Any]:
    """What the model keeps of how it was judged; None for what it does not, or not as it was written."""
    judged = saved.about.get("judged")
    if not isinstance(judged, dict):
        judged = {}

    def is_usable(name: str, value: Any) -> bool:
        if name in ("examples", "class_errors", "before", "low", "high"):
            is_whole = isinstance(value, list) and len(value) == len(saved.classes)
            return is_whole and all(isinstance(part, int | float | None) for part in value)
        if name == "values":
            return isinstance(value, list) and [type(part) for part in value] == [float, float]
        return isinstance(value, str if name in ("fingerprint", "on") else int | float)

    names = ("examples", "class_errors", "before", "low", "high", "values", "fingerprint", "on", "cost", "groups")
    return {name: judged[name] if is_usable(name, judged.get(name)) else None for name in names}


def _values(saved: SavedModel, judged: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows beside the fields of the model."""
    errors, before, examples = judged["class_errors"], judged["before"], judged["examples"]
    is_image = len(saved.document["shape"]) == 3 or saved.embedding is not None
    tau = saved.about.get("tau")
    few = [name for name, count in zip(saved.classes, examples or (), strict=False) if count < FEW]
    return {
        "task": "image-classification" if is_image else "tabular-classification",
        "new": "new-photos" if is_image else "new.csv",
        "data": saved.about.get("data", ""),
        "networks": " + ".join(dict.fromkeys(member["network"] for member in saved.members)),
        "mean": _mean(errors),
        "with_error": sum(error is not None for error in errors or ()),
        "mean_before": _mean(before),
        "overall": _overall(errors, examples),
        "overall_before": _overall(before, examples),
        "intervals": [_interval(judged, c) for c in range(len(saved.classes))],
        "goal": _goal(saved, judged),
        "step": saved.about.get("step"),
        "taus": tau if isinstance(tau, list) else [] if tau is None else [tau],
        "prior": _prior(saved),
        "few": few,
        "few_listed": listed(few, NAMED),
        "least": FEW,
        "not_recorded": "not recorded: the model was saved by an earlier version",
    }


def _mean(errors: Sequence[float | None] | None) -> float | None:
    """Of the classes that have an error."""
    known = [error for error in errors or () if error is not None]
    return sum(known) / len(known) if known else None


def _overall(errors: Sequence[float | None] | None, examples: Sequence[int] | None) -> float | None:
    """Of all examples."""
    if errors is None or examples is None:
        return None
    return float(np.average(np.nan_to_num(np.array(errors, dtype=float)), weights=examples))


def _interval(judged: Mapping[str, Any], c: int) -> str:
    """Of the error of a class; a dash where nothing judges it."""
    if None in (judged["low"], judged["high"]) or not judged["examples"] or not judged["examples"][c]:
        return "–"
    return interval(judged["low"][c], judged["high"][c])


def _goal(saved: SavedModel, judged: Mapping[str, Any]) -> dict[str, str] | None:
    """What the goal of a fix came to; None where that is the class-mean error."""
    if not saved.purpose or saved.purpose.goal in (None, "mean") or judged["values"] is None:
        return None
    costs = saved.weights.get("costs")
    goal = Goal(saved.purpose.goal, np.array(saved.purpose.prior), None if costs is None else costs.double().numpy())
    before, after = (f"{value:.4g} {goal.unit}".rstrip() for value in judged["values"])
    return {"aim": goal.describe(), "before": before, "after": after}


def _prior(saved: SavedModel) -> str:
    """The most frequent classes of the prior that the softmax stands for, with their shares."""
    if not saved.purpose:
        return ""
    shares = sorted(zip(saved.purpose.prior, saved.classes, strict=True), reverse=True)
    most = ", ".join(f"{in_list(name)} {100 * share:.1f} %" for share, name in shares[:NAMED])
    return f"{most} and {len(shares) - NAMED} more" if len(shares) > NAMED else most


class Markdown(str):
    """Text of a card that is not to be escaped."""


def _escaped(value: object) -> str:
    """Text that Markdown shows as it is."""
    return value if isinstance(value, Markdown) else re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", printable(value))


def _code(text: str | None) -> Markdown:
    """Text as code; "" stays empty."""
    return Markdown(f"`{printable(text).replace('`', chr(39)).replace('|', chr(0x2223))}`" if text else "")


def _json(text: str) -> Markdown:
    """A string of YAML, or of Python."""
    return Markdown(json.dumps(printable(text)))


def _line(text: str) -> Markdown:
    """Text within a block of code."""
    return Markdown(printable(text))
