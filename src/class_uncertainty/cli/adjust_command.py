"""`cu adjust`: correct saved predictions of a model of any framework."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from class_uncertainty.cli.options import EXCEL_SAFE, FORCE, JSON, argument, optional
from class_uncertainty.errors import InputError
from class_uncertainty.io import free_name

if TYPE_CHECKING:
    from class_uncertainty.workflows.adjust_predictions import AdjustedPredictions

UNDER, WORST = "under prior", "worst 10th"
COLUMNS = {  # column -> field of Scores, digits
    UNDER: ("prior_error", 2),
    "error %": ("error", 2),
    "top-1": ("top1_error", 1),
    WORST: ("worst", 1),
    "NLL": ("nll", 3),
    "ECE": ("ece", 1),
}
PREDICTIONS = "A .npz file with probabilities (or logits) and perhaps labels, a .npy file of probabilities, or a .csv "
PREDICTIONS += "file of 'cu predict'."
COUNTS = "Training examples of each class: 500,60,7 or a file (.npy, .txt, .json); by default counts of PREDICTIONS."
UNSEEN = "Predictions with labels, of examples that the model was not trained on: what is chosen is chosen on these."
TAU = "How far to correct, from 0; by default auto with --unseen and 1 without."
PRIOR = "How frequent the classes are where the model is used."
OUT = "The .npz or .csv file to write; by default PREDICTIONS with -adjusted in its name."


def adjust(
    predictions: Annotated[Path, argument(PREDICTIONS, "PREDICTIONS")],
    counts: Annotated[str | None, optional(COUNTS, "NUMBERS|FILE")] = None,
    unseen: Annotated[Path | None, optional(UNSEEN, "FILE")] = None,
    tau: Annotated[str | None, optional(TAU, "auto|NUMBER")] = None,
    bias: Annotated[
        bool, typer.Option("--bias", help="Fit one number a class around tau log N; needs --unseen.")
    ] = False,
    prior: Annotated[str, typer.Option(help=PRIOR, metavar="train|equal|FILE")] = "equal",
    out: Annotated[Path | None, optional(OUT, "FILE")] = None,
    excel_safe: EXCEL_SAFE = False,
    force: FORCE = False,
    as_json: JSON = False,
) -> None:
    """Correct saved predictions for unequal class counts.

    np.savez("val.npz", probabilities=p, labels=y)
    cu adjust test.npz --counts 500,60,7 --unseen val.npz

    A model of any framework will do; nothing is trained. Each probability is divided by its class's count to the power
    of tau. tau and a temperature are chosen on the file of --unseen.
    """
    from class_uncertainty.posthoc.goal import read_numbers
    from class_uncertainty.posthoc.priors import PRIORS
    from class_uncertainty.posthoc.written_predictions import files_read
    from class_uncertainty.reporting import terminal
    from class_uncertainty.workflows.adjust_predictions import adjust_predictions, adjusted_from, check_target

    class_counts = None if counts is None else read_numbers(counts, "--counts")
    strength = _read_tau(tau)
    wanted = prior if prior in PRIORS else read_numbers(prior, "--prior", "train, equal, ")
    made_from = adjusted_from(predictions, class_counts, unseen, strength, bias, wanted, excel_safe)
    read = [*files_read(predictions, unseen), counts, prior]
    check = partial(check_target, made_from=made_from, force=force, read=read)
    if out is None:
        suffix = ".csv" if predictions.suffix.lower() == ".csv" else ".npz"
        out = free_name(predictions.parent / f"{predictions.stem}-adjusted{suffix}", check)
    check(out)
    adjusted = adjust_predictions(
        predictions,
        class_counts,
        unseen=unseen,
        tau=strength,
        bias=bias,
        prior=wanted,
        out=out,
        excel_safe=excel_safe,
        force=force,
    )
    if as_json:
        terminal.print_json(adjusted.document())
    else:
        _print(adjusted, prior, bias, unseen)


def _read_tau(tau: str | None) -> "float | Literal['auto'] | None":
    if tau is None or tau == "auto":
        return tau  # type: ignore[return-value]
    try:
        return float(tau)
    except ValueError:
        raise InputError(f"--tau is {tau!r}: it must be auto or a number from 0.") from None


def _print(adjusted: "AdjustedPredictions", prior: str, bias: bool, unseen: Path | None) -> None:
    from class_uncertainty.posthoc.priors import PRIORS
    from class_uncertainty.reporting import terminal

    if adjusted.absent:
        classes = ", ".join(map(str, adjusted.absent[:5])) + (" and more" if len(adjusted.absent) > 5 else "")
        terminal.say(f"Without unseen examples, and so without a say in what is chosen: class {classes}.")
    if adjusted.before and adjusted.judged_on == unseen:
        terminal.say("The predictions have no labels. On the unseen examples, by which τ was chosen:")
    if adjusted.before:
        _print_scores({"before": adjusted.before, "after": adjusted.after}, prior)
    adjustment = adjusted.adjustment
    bias_note = ""
    if bias:
        bias_note = " with a fitted bias for each class" if adjusted.has_class_bias else " (no class bias helped)"
    chosen_on = f" and temperature {adjustment.temperature:.3g}, by {adjusted.unseen} unseen examples" if unseen else ""
    purpose = PRIORS.get(prior, f"classes of the prior {prior}")
    terminal.say(f"τ {adjustment.tau:g}{bias_note}{chosen_on}, for {purpose}.")
    terminal.say(f"{adjusted.changed} of {len(adjusted.probabilities)} predictions changed class.")
    terminal.say(f"wrote {adjusted.file}")


def _print_scores(scores: dict[str, Any], prior: str) -> None:
    from class_uncertainty.reporting import terminal

    hidden = ([UNDER] if prior == "equal" else []) + ([WORST] if len(scores["before"].class_errors) == 2 else [])
    shown = {name: column for name, column in COLUMNS.items() if name not in hidden}
    rows = [
        (side, *(f"{getattr(score, field):.{digits}f}" for field, digits in shown.values()))
        for side, score in scores.items()
    ]
    drop = [name for name in (WORST, "top-1", "NLL") if name in shown]
    calibration = "ECE" if "NLL" in terminal.print_fitting(("", *shown), rows, drop) else "NLL, ECE"
    under = f" {UNDER.capitalize()}: the error at that prior, which τ is chosen by." if UNDER in shown else ""
    terminal.say(f"Error: mean of the class errors in percent. {calibration}: at the prior of the adjustment.{under}")
