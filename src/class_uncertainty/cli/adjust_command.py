"""`cu adjust`: correct saved predictions of a model of any framework."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from class_uncertainty.cli.options import EXCEL_SAFE, EXPLAIN, FORCE, JSON, QUIET, VERBOSE, argument, optional
from class_uncertainty.errors import InputError
from class_uncertainty.io import free_name

PREDICTIONS = "A .npz file with probabilities (or logits) and perhaps labels, a .npy file of probabilities, or a .csv "
PREDICTIONS += "file of 'cu predict'."
COUNTS = "Training examples of each class: 500,60,7 or a file (.npy, .txt, .json); by default counts of PREDICTIONS."
UNSEEN = "Labelled predictions of examples that the model was not trained on, to choose tau and a temperature."
TAU = "Strength of the correction, from 0; by default auto with --unseen, else 1."
PRIOR = "How frequent the classes are where the model is used."
OUT = "The .npz or .csv file to write; by default PREDICTIONS with -adjusted in its name."


def adjust(
    predictions: Annotated[Path, argument(PREDICTIONS, "PREDICTIONS")],
    counts: Annotated[str | None, optional(COUNTS, "NUMBERS|FILE")] = None,
    unseen: Annotated[Path | None, optional(UNSEEN, "FILE")] = None,
    tau: Annotated[str | None, optional(TAU, "auto|NUMBER")] = None,
    bias: Annotated[
        bool, typer.Option("--bias", help="Fit a bias for each class around tau log N; needs --unseen.")
    ] = False,
    prior: Annotated[str, typer.Option(help=PRIOR, metavar="train|equal|FILE")] = "equal",
    out: Annotated[Path | None, optional(OUT, "FILE")] = None,
    excel_safe: EXCEL_SAFE = False,
    force: FORCE = False,
    verbose: VERBOSE = False,
    quiet: QUIET = False,
    explain: EXPLAIN = False,
    as_json: JSON = False,
) -> None:
    """Correct saved predictions for unequal class counts.

    np.savez("val.npz", probabilities=p, labels=y)
    cu adjust test.npz --counts 500,60,7 --unseen val.npz

    Works with models of any framework and trains nothing. Each probability is divided by its class's count to the
    power of tau. tau and a temperature are chosen on the --unseen file.
    """
    from class_uncertainty.posthoc.goal import read_numbers
    from class_uncertainty.posthoc.priors import PRIORS
    from class_uncertainty.posthoc.written_predictions import files_read
    from class_uncertainty.reporting import terminal
    from class_uncertainty.reporting.predict_view import adjust_lines
    from class_uncertainty.workflows.adjust_predictions import adjust_predictions, adjusted_from, check_target

    verbosity = terminal.Verbosity.of(verbose, quiet)
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
        lines = adjust_lines(adjusted, verbosity, terminal.line_width(), prior, unseen, bias)
        terminal.show_lines(lines, explain)


def _read_tau(tau: str | None) -> "float | Literal['auto'] | None":
    if tau is None or tau == "auto":
        return tau  # type: ignore[return-value]
    try:
        return float(tau)
    except ValueError:
        raise InputError(f"--tau is {tau!r}: it must be auto or a number from 0.") from None
