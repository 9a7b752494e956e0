"""The command that asks a saved network."""

import csv
import re
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from class_uncertainty.cli.options import JSON, argument
from class_uncertainty.errors import InputError
from class_uncertainty.files import check_writable, same_file, write_whole
from class_uncertainty.limits import check_address_space
from class_uncertainty.text import printable

if TYPE_CHECKING:
    from class_uncertainty.workflows.predict import Predicted

WRITTEN_HERE = re.compile(rb"example,class,probability,")  # how the file that is written begins
UNSURE = 5  # examples that are named


def predict(
    model: Annotated[Path, argument("What --save wrote: model, model.safetensors or model.json.", "MODEL")],
    examples: Annotated[
        Path, argument("An image, a folder of images, or a .csv, .parquet, .npz or .npy file.", "EXAMPLES")
    ],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("predictions.csv"),
    as_json: JSON = False,
) -> None:
    """Predict new examples with a saved network: a class and a probability for each, no labels needed.

    **cu predict model new-photos** writes predictions.csv, a line for each example: its file, line or row, the class,
    its probability, and those of all classes. Images are resized, and the columns of a table become features, as they
    were in training. Columns that the network does not know are ignored.

    Probabilities of a network that 'cu fix' saved are for equally frequent classes, or as frequent as its --goal says.
    With the goal cost:FILE, the class of an example is the one of the least expected cost.
    """
    check_address_space()
    from class_uncertainty.reporting import terminal
    from class_uncertainty.training.model_files import files_of
    from class_uncertainty.workflows.predict import predict as predict_examples

    if any(same_file(out, place) for place in (examples, *files_of(model))):
        raise InputError(f"--out is {out}, which is read: give another name.")
    check_writable(out, WRITTEN_HERE, "file of predictions")
    with terminal.progress_bars("examples") as progress:
        predicted = predict_examples(model, examples, progress=progress)
    write_whole(out, _csv(predicted).encode())
    guesses, confidence = predicted.guesses, predicted.confidence
    counts = Counter(guesses)
    if as_json:
        examples_read = zip(predicted.names, guesses, confidence.tolist(), strict=True)
        rows = [{"example": printable(name), "class": guess, "probability": p} for name, guess, p in examples_read]
        classes = {name: counts[name] for name in predicted.classes}
        document = {"file": str(out), "examples": len(rows), "classes": classes, "notes": list(predicted.notes)}
        terminal.print_json(document | {"predictions": rows})
        return
    lines = [(name, f"{counts[name]:,}", f"{100 * counts[name] / len(guesses):.1f}") for name in predicted.classes]
    terminal.print_fitting(("class", "predicted", "%"), lines, drop=("%",))
    least = confidence.argsort(kind="stable")[:UNSURE]
    unsure = ", ".join(f"{predicted.names[i]} ({guesses[i]} {confidence[i]:.2f})" for i in least)
    terminal.say(*predicted.notes, f"Least sure of: {unsure}.", f"wrote {out}")


def _csv(predicted: "Predicted") -> str:
    """Names as a terminal would show them: a line of the file is an example, whatever its file is called."""
    writer = csv.writer(text := StringIO(), lineterminator="\n")
    writer.writerow(["example", "class", "probability", *(f"p({printable(name)})" for name in predicted.classes)])
    columns = (predicted.names, predicted.guesses, predicted.confidence, predicted.probabilities)
    for name, guess, confidence, row in zip(*columns, strict=True):
        writer.writerow([printable(name), printable(guess), f"{confidence:.6g}", *(f"{p:.6g}" for p in row)])
    return text.getvalue()
