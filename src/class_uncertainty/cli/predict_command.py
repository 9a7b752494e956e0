"""The command that asks a saved model."""

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from class_uncertainty.cli.options import EXCEL_SAFE, FORCE, JSON, TRUST_CODE, argument, optional, split
from class_uncertainty.io import free_name, origin
from class_uncertainty.limits import check_address_space
from class_uncertainty.text import in_list, number, printable

if TYPE_CHECKING:
    from class_uncertainty.workflows.predict import Predicted

UNSURE = 5  # examples that are named
SCORED = ["true %", "examples", "error %", "precision %"]  # columns of examples with labels
PRIOR = "What probabilities are for: classes as frequent as in training, equally frequent, or as FILE says."
KEEP = "Columns of the table to write beside the predictions, such as an id."
OUT = "The CSV file to write; by default EXAMPLES-predictions.csv."
LABEL = "The column to score by; by default that of training, or folders with names of classes."


def predict(
    model: Annotated[Path, argument("What --save wrote: model, model.safetensors or model.json.", "MODEL")],
    examples: Annotated[
        Path, argument("An image, a folder of images, or a .csv, .parquet, .npz or .npy file.", "EXAMPLES")
    ],
    out: Annotated[Path | None, optional(OUT, "FILE.csv")] = None,
    force: FORCE = False,
    prior: Annotated[str, typer.Option(help=PRIOR, metavar="train|equal|FILE")] = "train",
    keep: Annotated[str | None, optional(KEEP, "COLUMN,...")] = None,
    label: Annotated[str | None, optional(LABEL, "COLUMN")] = None,
    excel_safe: EXCEL_SAFE = False,
    trust_code: TRUST_CODE = False,
    as_json: JSON = False,
) -> None:
    """Predict new examples with a saved model.

    cu predict model new-photos
    cu predict model new.csv --out scores.csv

    The CSV file has a line for each example: its class, and the probabilities of all classes. Columns that the model
    does not know are ignored. Rows and files that cannot be read are skipped and counted.
    """
    check_address_space()
    from class_uncertainty.posthoc.goal import read_numbers
    from class_uncertainty.posthoc.priors import PRIORS
    from class_uncertainty.posthoc.written_predictions import check_kept, check_places, write_predictions
    from class_uncertainty.reporting import terminal
    from class_uncertainty.training.saved_model import files_of
    from class_uncertainty.workflows.predict import predict as predict_examples

    wanted = prior if prior in PRIORS else read_numbers(prior, "--prior", "train, equal, ")
    options = (examples.resolve(), files_of(model)[0].resolve(), wanted, keep, label, excel_safe)
    made_from = origin(f"{examples} by {model}", *options)
    check = partial(check_places, made_from=made_from, force=force, read=(examples, prior, *files_of(model)))
    out = out or free_name(Path(f"{examples.resolve().stem}-predictions.csv"), check)
    check(out)
    columns = split("column", keep, str) if keep else ()
    check_kept(columns)
    with terminal.progress_bars("examples") as progress:
        predicted = predict_examples(
            model, examples, prior=wanted, keep=columns, label=label, trust_code=trust_code, progress=progress
        )
    files = write_predictions(out, predicted.table(), predicted.document(), excel_safe, made_from)
    if as_json:
        rows = {"examples": len(predicted.names), "predictions": _rows(predicted)}
        terminal.print_json({"file": str(out)} | predicted.document() | rows)
        return
    _print_classes(predicted)
    terminal.say(*_scored(predicted), *predicted.meaning, *predicted.notes, _least_sure(predicted))
    terminal.say(*(f"wrote {file}" for file in files))


def _least_sure(predicted: "Predicted") -> str:
    """The examples whose predictions have the lowest probabilities, under the prior that predictions are made for."""
    from class_uncertainty.posthoc.priors import at_prior

    purpose, prior, under = predicted.purpose, predicted.prior, ""
    if purpose is not None and prior is not None and _differ(predicted) and prior.all():
        decided = at_prior(predicted.probabilities, prior, purpose.prior)
        predicted, under = replace(predicted, probabilities=decided), ", by the probabilities that decide"
    confidence = predicted.confidence
    least = confidence.argsort(kind="stable")[:UNSURE]
    examples = [(in_list(predicted.names[i]), in_list(predicted.labels[i]), confidence[i]) for i in least]
    return f"Least sure of{under}: {', '.join(f'{name} ({label} {p:.2f})' for name, label, p in examples)}."


def _differ(predicted: "Predicted") -> bool:
    """Whether a predicted class is not the most probable one."""
    return [predicted.classes[c] for c in predicted.probabilities.argmax(axis=1)] != list(predicted.labels)


def _rows(predicted: "Predicted") -> list[dict[str, Any]]:
    rows = []
    for i, (name, label, p) in enumerate(
        zip(predicted.names, predicted.labels, predicted.confidence.tolist(), strict=True)
    ):
        kept = {column: cells[i] for column, cells in predicted.kept.items()}
        truth = {"label": predicted.truth[i] or None} if predicted.truth else {}
        rows.append({"example": printable(name), **kept, **truth, "class": label, "probability": p})
    return rows


def _print_classes(predicted: "Predicted") -> None:
    """How often each class was predicted and, where there are labels, its error and precision."""
    from class_uncertainty.reporting import terminal

    examples, counts = len(predicted.labels), Counter(predicted.labels)
    truth, means = Counter(predicted.truth or ()), 100 * predicted.probabilities.mean(axis=0)
    scored = examples - truth[""]
    lines = []
    for c, name in enumerate(predicted.classes):
        line = [name, f"{counts[name]:,}", f"{100 * counts[name] / examples:.1f}", f"{means[c]:.1f}"]
        if predicted.scores and predicted.class_precisions:
            line += [f"{100 * truth[name] / scored:.1f}", f"{truth[name]:,}"]
            line += [number(predicted.scores.class_errors[c]), number(predicted.class_precisions[c])]
        lines.append(line)
    columns = ["class", "predicted", "%", "mean p %", *(SCORED if predicted.scores else [])]
    dropped = terminal.print_fitting(columns, lines, drop=("%", "true %", "precision %", "mean p %", "examples"))
    if predicted.scores and scored < examples:
        of_labelled = [column for column in SCORED if column not in dropped]
        terminal.say(f"Of the {scored:,} of {examples:,} examples that are scored: {', '.join(of_labelled)}.")


def _scored(predicted: "Predicted") -> list[str]:
    from class_uncertainty.reporting.two_class_view import cost_sentence, two_class_sentence

    if not predicted.scores or not predicted.truth:
        return []
    scores, labelled = predicted.scores, sum(map(bool, predicted.truth))
    errors = f"overall error {scores.top1_error:.1f} %, class-mean error {scores.error:.1f} %"
    weighing = "" if predicted.prior is None else ", with classes weighed by the prior that they are for"
    decided = " of the predicted classes" if _differ(predicted) else ""
    calibration = f"NLL {scores.nll:.3f}, ECE{decided} {scores.ece:.1f} %"
    judged = sum(error == error for error in scores.class_errors)
    if judged < len(predicted.classes):
        errors += f" over {judged:,} of {len(predicted.classes):,} classes"
    scored = f"Scored by {predicted.scored_by}, {labelled:,} examples: {errors}"
    sentences = [f"{scored}; of the probabilities{weighing}: {calibration}."]
    if predicted.two:
        sentences.append(two_class_sentence(predicted.two, predicted.classes[predicted.two.positive]))
    return sentences if predicted.mean_cost is None else [*sentences, cost_sentence(predicted.mean_cost)]
