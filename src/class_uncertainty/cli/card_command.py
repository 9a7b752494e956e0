"""`cu card`: a saved model as a README.md."""

from functools import partial
from pathlib import Path
from typing import Annotated

from class_uncertainty.cli.options import FORCE, JSON, argument, optional


def card(
    model: Annotated[Path, argument("What --save wrote: model, model.safetensors or model.json.", "MODEL")],
    out: Annotated[Path | None, optional("The file to write; by default README.md beside the model.", "FILE")] = None,
    force: FORCE = False,
    as_json: JSON = False,
) -> None:
    """Write the model card of a saved model.

    cu card model

    The card states the errors of each class, the data, the method, the cost and the limits, with the header that
    model hubs read. Nothing is trained.
    """
    from class_uncertainty.io import free_name
    from class_uncertainty.reporting import terminal
    from class_uncertainty.training.saved_model import files_of
    from class_uncertainty.workflows.model_card import check_card, model_card, write_card

    content = model_card(model)
    check = partial(check_card, model=model, force=force)
    target = out or free_name(files_of(model)[0].with_name("README.md"), check)
    check(target)
    write_card(target, model, content)
    if as_json:
        terminal.print_json({"file": str(target)})
    else:
        terminal.say(f"wrote {target}")
