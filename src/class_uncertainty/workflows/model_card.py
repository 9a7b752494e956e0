"""A saved model as a README.md: what it is, what it reaches on each class, how it was made, and its limits."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from class_uncertainty.data import Dataset
from class_uncertainty.data.examples import inputs_digest
from class_uncertainty.errors import InputError
from class_uncertainty.files import (
    REPLACE,
    check_ending,
    check_writable,
    parse_json,
    read_regular,
    same_file,
    starts_with,
)
from class_uncertainty.notebook import number
from class_uncertainty.posthoc.clusters import error_intervals
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.posthoc.intervals import share_interval
from class_uncertainty.text import in_list, listed, printable
from class_uncertainty.training.folds import judged_groups, judged_labels
from class_uncertainty.training.saved_model import SavedModel, files_of, read_model
from class_uncertainty.values import shortly

OURS = re.compile(rb'---\nlibrary_name: "class-uncertainty"\n')  # how a card begins
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
CHECKSUM = re.compile(r"^- Checksum of the model: `(\w+)`$", re.MULTILINE)
FEW = 20  # examples: with fewer, a class's error is hardly known
NAMED = 5  # classes in a sentence
Intervals = Sequence[tuple[float, float]]  # (C,)
NOT_RECORDED = "not recorded: the model was saved by an earlier version"


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
    saved, name = read_model(path), files_of(path)[0].stem
    judged = _judged(saved)
    sections = {
        "Results": _results(saved, judged),
        "Data": _data(saved, judged),
        "Method": _method(saved, judged, _checksum(path)),
        "Use": _use(name),
        "Limits": _limits(saved, judged),
    }
    body = "\n\n".join(f"## {title}\n\n{chr(10).join(lines)}" for title, lines in sections.items())
    networks = " + ".join(dict.fromkeys(member["network"] for member in saved.members))
    lead = f"A classifier of {len(saved.classes)} classes (network {_inline(networks)}), made by class-uncertainty."
    return f"{_header(saved, name, judged)}# {_plain(name)}\n\n{lead}\n\n{body}\n"


def check_card(path: Path, model: Path, force: bool = False) -> None:
    """Refuse a file that is no card, and the card of another model: models of one folder share its README.md."""
    check_ending(path, "model card", (".md", ".markdown", ""))
    check_writable(path)
    if any(same_file(path, part) for part in files_of(model)):
        raise InputError(f"{path} is part of the model: give another name.")
    if force or not path.is_file() or not path.stat().st_size:
        return
    if not starts_with(path, OURS):
        raise InputError(f"{path} exists and is not a model card: {REPLACE}.")
    card, weights = read_regular(path).decode(errors="replace"), files_of(model)[0]
    title, checksum = ((match := pattern.search(card)) and match[1] for pattern in (TITLE, CHECKSUM))
    if checksum and checksum == _checksum(model):
        return
    is_beside = path.resolve().parent == weights.resolve().parent  # its model may have been saved again
    if (checksum and not is_beside) or title not in (None, _plain(weights.stem)):
        raise InputError(f"{path} is the card of another model ({title}): {REPLACE}.")


def _checksum(model: Path) -> str:
    """What its description says of both files; "" where an earlier version saved it."""
    return str(parse_json(read_regular(files_of(model)[1])).get("checksum", ""))


def _judged(saved: SavedModel) -> dict[str, Any]:
    """What the model keeps of how it was judged; what is not as it was written counts as not recorded."""
    judged, number = saved.about.get("judged"), len(saved.classes)
    if not isinstance(judged, dict):
        return {}
    lists = {name: judged.get(name) for name in ("examples", "class_errors", "before", "low", "high")}
    usable = {
        name: values
        for name, values in lists.items()
        if isinstance(values, list) and len(values) == number and all(isinstance(v, int | float | None) for v in values)
    }
    texts = {name: printable(judged[name]) for name in ("fingerprint", "on") if isinstance(judged.get(name), str)}
    values = judged.get("values")
    if isinstance(values, list) and [type(value) for value in values] == [float, float]:
        usable["values"] = values
    numbers = {name: judged[name] for name in ("cost", "groups") if isinstance(judged.get(name), int | float)}
    return usable | texts | numbers


def _mean(errors: Sequence[float | None] | None) -> float | None:
    """Of the classes that have an error."""
    known = [error for error in errors or () if error is not None]
    return sum(known) / len(known) if known else None


def _overall(errors: Sequence[float | None], examples: Sequence[int]) -> float:
    """Of all examples."""
    return float(np.average(np.nan_to_num(np.array(errors, dtype=float)), weights=examples))


def _header(saved: SavedModel, name: str, judged: Mapping[str, Any]) -> str:
    """YAML, in which JSON's strings and lists are valid."""
    is_image = len(saved.document["shape"]) == 3 or saved.embedding is not None
    task = "image-classification" if is_image else "tabular-classification"
    tags = ["class-uncertainty", "imbalanced-data", "calibration"]
    lines = ["---", 'library_name: "class-uncertainty"', f"pipeline_tag: {task}", f"tags: {json.dumps(tags)}"]
    error = _mean(judged.get("class_errors"))
    if error is not None:
        data = json.dumps(printable(saved.about.get("data", "")))
        metric = f'{{type: balanced_accuracy, value: {(100 - error) / 100:.4f}, name: "balanced accuracy"}}'
        result = f"{{task: {{type: {task}}}, dataset: {{name: {data}, type: {data}}}, metrics: [{metric}]}}"
        lines.append(f"model-index: [{{name: {json.dumps(name)}, results: [{result}]}}]")
    return "\n".join([*lines, "---", "", ""])


def _results(saved: SavedModel, judged: Mapping[str, Any]) -> list[str]:
    """The class-mean error, and every class with its interval."""
    errors, examples, before = (judged.get(name) for name in ("class_errors", "examples", "before"))
    counts = saved.purpose.counts if saved.purpose else None
    if errors is None or examples is None:
        return [f"Errors are {NOT_RECORDED}."]
    earlier = f" ({_mean(before):.1f} % before the fix)" if before else ""
    earlier_overall = f" ({_overall(before, examples):.1f} %)" if before else ""
    overall = f"overall error: {_overall(errors, examples):.1f} %{earlier_overall}"
    lines = [f"Class-mean error on the {judged.get('on', 'examples')}: {_mean(errors):.1f} %{earlier}, {overall}.", ""]
    if saved.purpose and (goal := saved.purpose.goal) not in (None, "mean") and "values" in judged:
        costs = saved.weights.get("costs")
        aim = Goal(goal, np.array(saved.purpose.prior), None if costs is None else costs.double().numpy())
        before_fix, after_fix = (f"{value:.4g} {aim.unit}".rstrip() for value in judged["values"])
        lines.insert(1, f"By the goal, {_plain(aim.describe())}: {after_fix} ({before_fix} before the fix).")
    heads = [
        "class",
        "training examples",
        "judged examples",
        "error, %",
        "95 % interval",
        *(["before, %"] if before else []),
    ]
    lines += [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    low, high = _ends(judged)
    for c, name in enumerate(saved.classes):
        ends = f"{low[c]:.0f} to {high[c]:.0f}" if examples[c] else "–"
        cells = [_plain(name), f"{counts[c]:,}" if counts else "–", f"{examples[c]:,}", number(errors[c]), ends]
        cells += [number(before[c])] if before else []
        lines.append(_line(cells))
    return lines


def _ends(judged: Mapping[str, Any]) -> tuple[Any, Any]:
    """(C,) low and high ends of the errors' intervals; models of earlier versions do not know groups."""
    if "low" in judged and "high" in judged:
        return judged["low"], judged["high"]
    examples = np.array(judged["examples"])
    return share_interval(np.nan_to_num(np.array(judged["class_errors"], dtype=float)) * examples / 100, examples)


def _data(saved: SavedModel, judged: Mapping[str, Any]) -> list[str]:
    purpose, about = saved.purpose, saved.about
    data = _inline(printable(about["data"])) if about.get("data") else NOT_RECORDED
    lines = [f"- Data: {data}", f"- Fingerprint: {_inline(judged.get('fingerprint', '')) or NOT_RECORDED}"]
    if purpose:
        least, most = min(purpose.counts), max(purpose.counts)
        lines.append(f"- Training examples: {sum(purpose.counts):,}, from {least:,} to {most:,} a class")
        lines += [f"- Label: the column {_inline(purpose.label)}"] if purpose.label else []
    if saved.encoding:
        lines.append(f"- Columns: {', '.join(_inline(column.name) for column in saved.encoding)}")
    if saved.embedding:
        lines.append(f"- Features: by the frozen network {_inline(saved.embedding.backbone)}")
    return lines


def _method(saved: SavedModel, judged: Mapping[str, Any], checksum: str) -> list[str]:
    purpose, about, networks = saved.purpose, saved.about, len(saved.members)
    lines = [f"- Trained by: {_inline(purpose.method) if purpose else NOT_RECORDED}"]
    if purpose and purpose.goal:
        lines.append(f"- Goal that it was chosen for: {_inline(purpose.goal)}")
    lines += [f"- Step that was kept: {_plain(shortly(about['step'])).strip(chr(39))}"] if about.get("step") else []
    if (tau := about.get("tau")) is not None:
        taus = [shortly(one) for one in tau] if isinstance(tau, list) else [shortly(tau)]
        of_several = ", of these models in turn" if len(taus) > 1 else ""
        lines.append(f"- Strength of the adjustment for the counts (τ): {_plain(', '.join(taus))}{of_several}")
    lines += [
        f"- Networks that run for a prediction: {networks}, of {saved.parameters:,} parameters in all",
        f"- Decides by: {saved.document['decides_by']}",
    ]
    cost = f"{judged['cost']:.3g} × the training of one naive network" if "cost" in judged else NOT_RECORDED
    return [*lines, f"- Cost: {cost}", f"- Checksum of the model: {_inline(checksum) or NOT_RECORDED}"]


def _use(name: str) -> list[str]:
    code = f'predicted = cu.predict({json.dumps(name)}, "new-examples")  # or: cu predict {name} new-examples'
    return ["```python", "import class_uncertainty as cu", "", code, "```"]


def _limits(saved: SavedModel, judged: Mapping[str, Any]) -> list[str]:
    lines = ["- It predicts one of its classes, whatever it is given: it does not know what it has never seen."]
    if saved.purpose:
        prior = sorted(zip(saved.purpose.prior, saved.classes, strict=True), reverse=True)
        most = ", ".join(f"{_plain(in_list(name))} {100 * share:.1f} %" for share, name in prior[:NAMED])
        more = f" and {len(prior) - NAMED} more" if len(prior) > NAMED else ""
        lines.append(f"- Its softmax stands for classes as frequent as this: {most}{more}.")
    examples = judged.get("examples")
    if examples and (few := [name for name, number in zip(saved.classes, examples, strict=True) if number < FEW]):
        verb = "was" if len(few) == 1 else "were"
        lines.append(
            f"- {_plain(listed(few, NAMED))} {verb} judged by fewer than {FEW} examples: their errors are hardly known."
        )
    lines.append(
        "- Errors are of examples like those it was judged on. Intervals cover their choice, not another source."
    )
    if judged.get("groups"):
        lines.append(f"- Intervals allow for groups whose examples err alike, of which there are {judged['groups']:,}.")
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: object) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", printable(text))


def _inline(text: str) -> str:
    """Text as code; "" stays empty."""
    return f"`{printable(text).replace('`', chr(39)).replace('|', chr(0x2223))}`" if text else ""
