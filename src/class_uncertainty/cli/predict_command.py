"""The command that asks a saved model."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from class_uncertainty.cli.options import (
    EXCEL_SAFE,
    EXPLAIN,
    FORCE,
    JSON,
    QUIET,
    TRUST_CODE,
    VERBOSE,
    argument,
    optional,
    split,
)
from class_uncertainty.io import free_name, origin
from class_uncertainty.limits import check_address_space
from class_uncertainty.text import printable

if TYPE_CHECKING:
    from class_uncertainty.workflows.predict import Predicted

PRIOR = "Class frequencies to predict for: about those of the goal, those of training, equal ones, or those in FILE."
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
    prior: Annotated[str, typer.Option(help=PRIOR, metavar="goal|train|equal|FILE")] = "goal",
    keep: Annotated[str | None, optional(KEEP, "COLUMN,...")] = None,
    label: Annotated[str | None, optional(LABEL, "COLUMN")] = None,
    excel_safe: EXCEL_SAFE = False,
    trust_code: TRUST_CODE = False,
    verbose: VERBOSE = False,
    quiet: QUIET = False,
    explain: EXPLAIN = False,
    as_json: JSON = False,
) -> None:
    """Predict new examples with a saved model.

    cu predict model new-photos
    cu predict model new.csv --out scores.csv

    The CSV file has a line for each example: its class, and the probabilities that decide it. Columns that the model
    does not know are ignored. Rows and files that cannot be read are skipped and counted. Predictions of labelled
    examples are scored. With --prior train, classes and probabilities are for the class frequencies of training.
    """
    check_address_space()
    from class_uncertainty.posthoc.goal import read_numbers
    from class_uncertainty.posthoc.priors import OWN, PRIORS
    from class_uncertainty.posthoc.written_predictions import check_kept, check_places, write_predictions
    from class_uncertainty.reporting import terminal
    from class_uncertainty.reporting.predict_view import predict_lines
    from class_uncertainty.training.saved_model import files_of
    from class_uncertainty.workflows.predict import predict as predict_examples

    verbosity = terminal.Verbosity.of(verbose, quiet)
    wanted = prior if prior in (OWN, *PRIORS) else read_numbers(prior, "--prior", "goal, train, equal, ")
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
    terminal.show_lines(predict_lines(predicted, verbosity, terminal.line_width(), files), explain)


def _rows(predicted: "Predicted") -> list[dict[str, Any]]:
    rows = []
    costs = predicted.expected_costs
    for i, (name, label, p) in enumerate(
        zip(predicted.names, predicted.labels, predicted.confidence.tolist(), strict=True)
    ):
        kept = {column: cells[i] for column, cells in predicted.kept.items()}
        cost = {} if costs is None else {"cost": float(costs[i])}
        truth = {"label": predicted.truth[i] or None} if predicted.truth else {}
        rows.append({"example": printable(name), **kept, **truth, "class": label, "probability": p} | cost)
    return rows
