"""The command that corrects saved predictions of a model of any framework."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from class_uncertainty.errors import InputError
from class_uncertainty.files import check_writable, same_file, write_whole
from class_uncertainty.options import JSON

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from class_uncertainty.remedies.adjust import Adjustment
    from class_uncertainty.remedies.calibration import Judged
    from class_uncertainty.remedies.predictions import Predictions

app = typer.Typer()

OURS = re.compile(rb"PK.{28}tau\.npy.{,300}temperature\.npy", re.DOTALL)  # how _packed begins
UNDER = "under prior"
SHOWN = {
    UNDER: ("prior_error", 2),
    "error %": ("class_mean_error", 2),
    "top-1": ("error", 1),
    "worst 10th": ("worst", 1),
    "NLL": ("nll", 3),
    "ECE": ("ece", 1),
}  # column -> field of Judged, digits
PRIORS = {"equal": "classes that are equally frequent", "train": "classes that are as frequent as in training"}


@app.command()
def adjust(
    predictions: Annotated[
        Path,
        typer.Argument(
            help="A .npz file with probabilities (or logits) and, if they are known, labels; or a .npy file of probabilities.",
            metavar="PREDICTIONS",
            show_default=False,
        ),
    ],
    counts: Annotated[
        str | None,
        typer.Option(
            "--counts",
            help="Training examples of each class: 500,60,7 or a file (.npy, .txt, .json); the array counts of PREDICTIONS if not given.",
            metavar="NUMBERS|FILE",
            show_default=False,
        ),
    ] = None,
    unseen: Annotated[
        Path | None,
        typer.Option(
            "--unseen",
            help="Predictions with labels, of examples that the model was not trained on: what is chosen is chosen on these.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    tau: Annotated[
        str | None,
        typer.Option(
            "--tau",
            help="How far to correct, from 0; auto with --unseen and 1 without if not given.",
            metavar="auto|NUMBER",
            show_default=False,
        ),
    ] = None,
    bias: Annotated[bool, typer.Option("--bias", help="Fit one number a class around tau log N; needs --unseen.")] = False,
    prior: Annotated[
        str, typer.Option("--prior", help="How frequent the classes are where the model is used.", metavar="train|equal|FILE")
    ] = "equal",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The .npz file to write; PREDICTIONS with -adjusted in its name if not given.",
            metavar="FILE.npz",
            show_default=False,
        ),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Correct saved predictions for unequal class counts: p_c / N_c ** tau, renormalised. No network, no training.

    A model of any framework will do. In Python, save what it says of its validation and of its test examples:

    **np.savez("val.npz", probabilities=p, labels=y)** with p of the shape (examples, classes), or (members, examples, classes) for
    an ensemble, whose geometric mean is taken; **logits=z** in the place of probabilities is fine too. Then, with three classes of
    500, 60 and 7 training examples:

    **cu adjust test.npz --counts 500,60,7 --unseen val.npz**

    writes test-adjusted.npz. tau, and a temperature that keeps the probabilities calibrated, are chosen on val.npz, for classes as
    frequent as --prior says. Labels in test.npz, where there are any, only judge; where there are none, before and after are shown of
    val.npz. Without --unseen, tau is 1 and no temperature is fitted.
    """
    from class_uncertainty.remedies.adjust import Adjustment
    from class_uncertainty.remedies.predictions import read_predictions
    from class_uncertainty.reporting import terminal

    target = out or predictions.parent / f"{predictions.stem}-adjusted.npz"
    _check_places(predictions, unseen, target, [counts, prior])
    strength = _tau(tau, unseen, bias)
    given, other = read_predictions(predictions), read_predictions(unseen) if unseen else None
    known = _counts(counts, [given, other])
    found = _fitted(known, other, unseen, strength, _prior(prior, known), bias)
    adjusted = found(given.probabilities)
    check_writable(target, OURS, "file of adjusted predictions")
    judged, on = (given, predictions) if given.labels is not None else (other, unseen)
    sides = _sides(judged, found)
    write_whole(target, _packed(adjusted, given.labels, found))
    changed = int((adjusted.argmax(axis=1) != given.probabilities.argmax(axis=1)).sum())
    if as_json:
        about = {"file": str(target), "examples": len(adjusted), "changed": changed, "judged on": str(on) if on else None}
        _print_document(found, sides, about)
        return
    seen = f" and temperature {found.temperature:.3g}, by {len(other.probabilities)} unseen examples" if other else ""
    around = ""
    if bias:
        own = (found.bias != Adjustment.of(known, found.tau).bias).any()
        around = " with a bias of each class's own around it" if own else " (no bias of a class's own helped)"
    if other and other.labels is not None and (absent := sorted(set(range(len(known))) - set(other.labels.tolist()))):
        some = ", ".join(map(str, absent[:5])) + (" and more" if len(absent) > 5 else "")
        terminal.say(f"Without unseen examples, and so without a say in what is chosen: class {some}.")
    if sides and judged is other:
        terminal.say("The predictions have no labels. Of the unseen examples, which it was chosen on:")
    _print_text(sides, f"τ {found.tau:g}{around}{seen}, for {PRIORS.get(prior, f'classes of the prior {prior}')}.", prior)
    terminal.say(f"{changed} of {len(adjusted)} predictions changed class.", f"wrote {target}")


def _check_places(predictions: Path, unseen: Path | None, target: Path, others: Sequence[str | None]) -> None:
    """That nothing is judged by what it was chosen on, and that nothing which is read is written over."""
    if unseen and same_file(predictions, unseen):
        raise InputError(f"--unseen is {unseen}, the predictions themselves: nothing may be chosen on what it is judged by.")
    if target.suffix != ".npz":
        raise InputError(f"--out is {target}: its name must end in .npz.")
    if any(place and same_file(target, place) for place in (predictions, unseen, *others)):
        raise InputError(f"--out is {target}, which is read: give another name.")


def _tau(tau: str | None, unseen: Path | None, bias: bool) -> "float | Literal['auto']":
    """As it was given; what has to be chosen needs something to be chosen on."""
    if not unseen and (bias or tau == "auto"):
        option = "--bias" if bias else "--tau auto"
        raise InputError(f"{option} needs examples that the model has not seen: give --unseen FILE.npz with probabilities and labels.")
    if tau in (None, "auto"):
        return "auto" if unseen else 1.0
    try:
        return float(str(tau))
    except ValueError:
        raise InputError(f"--tau is {tau!r}: it must be auto or a number from 0.") from None


def _counts(counts: str | None, files: "Sequence[Predictions | None]") -> "NDArray":
    """From the option, or from the first file that has them."""
    from class_uncertainty.remedies.predictions import read_numbers

    if counts is not None:
        return read_numbers(counts, "--counts")
    found = next((file.counts for file in files if file is not None and file.counts is not None), None)
    if found is None:
        raise InputError("how many training examples each class has is not known: give --counts 500,60,7, or a file of numbers.")
    return found


def _prior(prior: str, counts: "NDArray") -> "NDArray | None":
    from class_uncertainty.measures import Stats
    from class_uncertainty.remedies.predictions import read_numbers

    if prior == "equal":
        return None
    if prior == "train":
        known = Stats(counts).counts
        return known / known.sum()
    return read_numbers(prior, "--prior", "train, equal, ")


def _fitted(
    counts: "NDArray", other: "Predictions | None", unseen: Path | None, tau: "float | Literal['auto']", prior: "NDArray | None", bias: bool
) -> "Adjustment":
    """By the unseen examples where there are any."""
    from class_uncertainty.remedies.adjust import Adjustment
    from class_uncertainty.remedies.calibration import fit_adjustment

    if other is None:
        assert tau != "auto"
        return Adjustment.of(counts, tau, prior)
    if other.labels is None:
        raise InputError(f"{unseen} has no array called labels: nothing can be chosen on examples without them.")
    return fit_adjustment(other.probabilities, other.labels, counts, tau=tau, prior=prior, bias=bias)


def _sides(judged: "Predictions | None", found: "Adjustment") -> "dict[str, Judged]":
    """Before and after, of predictions with labels."""
    from class_uncertainty.remedies.calibration import judge

    if judged is None or judged.labels is None:
        return {}
    p = judged.probabilities
    return {name: judge(each, judged.labels, found.prior) for name, each in (("before", p), ("after", found(p)))}


def _packed(adjusted: "NDArray", labels: "NDArray | None", found: "Adjustment") -> bytes:
    """A .npz file that is read as the one which was given is, with what was chosen in it."""
    import numpy as np

    arrays: dict[str, Any] = {"tau": found.tau, "temperature": found.temperature, "bias": found.bias, "prior": found.prior}
    arrays |= {"probabilities": adjusted} | ({} if labels is None else {"labels": labels})
    np.savez(packed := BytesIO(), **arrays)
    return packed.getvalue()


def _print_document(found: "Adjustment", sides: "dict[str, Judged]", about: dict[str, Any]) -> None:
    from class_uncertainty.reporting import terminal

    fitted = asdict(found) | {"bias": found.bias.tolist(), "prior": found.prior.tolist()}
    terminal.print_json(about | fitted | {name: asdict(sides[name]) if sides else None for name in ("before", "after")})


def _print_text(sides: "dict[str, Judged]", sentence: str, prior: str) -> None:
    from class_uncertainty.reporting import terminal

    if sides:
        columns = [column for column in SHOWN if prior != "equal" or column != UNDER]  # for equal classes it is the class mean
        rows = [(name, *(f"{getattr(one, SHOWN[column][0]):.{SHOWN[column][1]}f}" for column in columns)) for name, one in sides.items()]
        terminal.print_fitting(("", *columns), rows, drop=("worst 10th", "top-1", "NLL"))
        under = f" {UNDER.capitalize()}: the error with the classes that frequent, which τ is chosen by." if UNDER in columns else ""
        terminal.say(f"Error: mean of the class errors in percent. NLL, ECE: with the classes as frequent as the adjustment is for.{under}")
    terminal.say(sentence)
