"""The command that asks a saved network."""

import csv
import re
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from class_uncertainty.errors import InputError
from class_uncertainty.files import check_writable, same_file, write_whole
from class_uncertainty.limits import check_address_space
from class_uncertainty.options import JSON
from class_uncertainty.text import printable

if TYPE_CHECKING:
    from class_uncertainty.training.predicting import Predicted

app = typer.Typer()

OURS = re.compile(rb"example,class,probability,")  # how _lines begins
UNSURE = 5  # examples that are named


@app.command()
def predict(
    model: Annotated[
        Path,
        typer.Argument(help="What --save wrote: model, model.safetensors or model.json.", metavar="MODEL", show_default=False),
    ],
    examples: Annotated[
        Path,
        typer.Argument(
            help="A picture, a folder of pictures at any depth, or a .csv, .parquet, .npz or .npy file.",
            metavar="EXAMPLES",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The CSV file to write.")] = Path("predictions.csv"),
    as_json: JSON = False,
) -> None:
    """What a saved network says of new examples: a class and a probability for each, no labels needed.

    **cu predict model new-photos** writes predictions.csv, a line for each example: its file, line or row, the class, its
    probability, and those of all classes. Pictures are resized, and the columns of a table become features, as they were in
    training; columns that the network does not know are not looked at.

    Probabilities of a network that 'cu fix' saved are for classes that are equally frequent.
    """
    check_address_space()
    from class_uncertainty.reporting import terminal
    from class_uncertainty.training.predicting import predict as ask
    from class_uncertainty.training.saving import files_of

    if any(same_file(out, read) for read in (examples, *files_of(model))):
        raise InputError(f"--out is {out}, which is read: give another name.")
    check_writable(out, OURS, "file of predictions")
    with terminal.progress_bars("examples") as progress:
        found = ask(model, examples, progress=progress)
    write_whole(out, _lines(found).encode())
    guesses, sure = found.guesses, found.probabilities.max(axis=1)
    counts = Counter(guesses)
    if as_json:
        said = zip(found.names, guesses, sure.tolist(), strict=True)
        rows = [{"example": printable(name), "class": guess, "probability": p} for name, guess, p in said]
        about = {"file": str(out), "examples": len(rows), "classes": {name: counts[name] for name in found.classes}}
        terminal.print_json(about | {"notes": list(found.notes), "predictions": rows})
        return
    lines = [(name, f"{counts[name]:,}", f"{100 * counts[name] / len(sure):.1f}") for name in found.classes]
    terminal.print_fitting(("class", "predicted", "%"), lines, drop=("%",))
    least = [f"{found.names[i]} ({guesses[i]} {sure[i]:.2f})" for i in sure.argsort(kind="stable")[:UNSURE]]
    terminal.say(*found.notes, f"Least sure of: {', '.join(least)}.", f"wrote {out}")


def _lines(found: "Predicted") -> str:
    """Names as a terminal would show them: a line of the file is an example, whatever its file is called."""
    writer = csv.writer(text := StringIO(), lineterminator="\n")
    writer.writerow(["example", "class", "probability", *(f"p({printable(name)})" for name in found.classes)])
    for name, guess, p in zip(found.names, found.guesses, found.probabilities, strict=True):
        writer.writerow([printable(name), printable(guess), f"{p.max():.6g}", *(f"{each:.6g}" for each in p)])
    return text.getvalue()
