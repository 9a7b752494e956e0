"""The command that writes a saved model for other programs."""

from functools import partial
from pathlib import Path
from typing import Annotated

from class_uncertainty.cli.options import FORCE, JSON, TRUST_CODE, argument, optional
from class_uncertainty.errors import unknown
from class_uncertainty.integrations.export_formats import FORMATS
from class_uncertainty.limits import check_address_space


def export(
    model: Annotated[Path, argument("What --save wrote: model, model.safetensors or model.json.", "MODEL")],
    to: Annotated[str | None, optional("The format; by default what FILE ends in, or onnx.", "|".join(FORMATS))] = None,
    out: Annotated[Path | None, optional("The file to write; by default MODEL.onnx or MODEL.pt2.", "FILE")] = None,
    trust_code: TRUST_CODE = False,
    force: FORCE = False,
    as_json: JSON = False,
) -> None:
    """Write a saved model as one file that other programs can run.

    cu export model
    cu export model --to pt2

    The file takes raw inputs and returns probabilities and labels: it contains preprocessing, softmax and decision.
    It is run and compared with the model before it is written.
    """
    if to not in (None, *FORMATS):
        raise unknown("format", str(to), FORMATS)
    check_address_space()
    from class_uncertainty.integrations.export import export as export_model
    from class_uncertainty.integrations.export import exported_from
    from class_uncertainty.io import check_replaceable, free_name
    from class_uncertainty.reporting import terminal
    from class_uncertainty.training.saved_model import files_of

    weights, _ = files_of(model)
    ending = to or FORMATS[0]
    made_from = exported_from(model, ending)
    check = partial(check_replaceable, made_from=made_from, force=force, read=files_of(model))
    target = out or free_name(weights.with_suffix(f".{ending}"), check)
    exported = export_model(model, target, to=to, trust_code=trust_code, force=force)
    if as_json:
        terminal.print_json(exported.document())
        return
    terminal.say(
        f"Takes {exported.input}; gives probabilities of {len(exported.classes)} classes, and labels.",
        f"Its probabilities are the model's to {exported.difference:.1g}.",
        f"wrote {exported.file}",
    )
