"""The command that asks a saved network."""

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from class_uncertainty.errors import InputError
from class_uncertainty.options import JSON

if TYPE_CHECKING:
    from class_uncertainty.training.predicting import Predicted

app = typer.Typer()

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
    from class_uncertainty.files import check_writable, same_file, write_whole
    from class_uncertainty.reporting import terminal
    from class_uncertainty.training.predicting import predict as ask
    from class_uncertainty.training.saving import files_of

    if any(same_file(out, read) for read in (examples, *files_of(model))):
        raise InputError(f"--out is {out}, which is read: give another name.")
    check_writable(out)
    with terminal.progress_bars("examples") as progress:
        found = ask(model, examples, progress=progress)
    write_whole(out, _lines(found).encode())
    if as_json:
        terminal.print_json({"file": str(out), "examples": len(found.names), "classes": _counts(found)})
        return
    rows = [(name, f"{count:,}", f"{100 * count / len(found.names):.1f}") for name, count in _counts(found).items()]
    terminal.print_fitting(("class", "predicted", "%"), rows, drop=("%",))
    sure, said = found.probabilities.max(axis=1), found.probabilities.argmax(axis=1)
    least = [f"{found.names[i]} ({found.classes[said[i]]} {sure[i]:.2f})" for i in sure.argsort(kind="stable")[:UNSURE]]
    terminal.console().print(f"Least sure of: {', '.join(least)}.\nwrote {out}", markup=False)


def _counts(found: "Predicted") -> dict[str, int]:
    """Examples by the class that is most probable."""
    import numpy as np

    counts = np.bincount(found.probabilities.argmax(axis=1), minlength=len(found.classes))
    return dict(zip(found.classes, counts.tolist(), strict=True))


def _lines(found: "Predicted") -> str:
    writer = csv.writer(text := StringIO(), lineterminator="\n")
    writer.writerow(["example", "class", "probability", *(f"p({name})" for name in found.classes)])
    for name, p in zip(found.names, found.probabilities, strict=True):
        writer.writerow([name, found.classes[p.argmax()], f"{p.max():.6g}", *(f"{each:.6g}" for each in p)])
    return text.getvalue()
