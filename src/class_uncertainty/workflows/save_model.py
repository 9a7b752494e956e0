"""cu.save(): what was trained in Python, as the files that --save writes."""

from pathlib import Path

from class_uncertainty.checks import check
from class_uncertainty.io import origin
from class_uncertainty.training.model_files import check_embeds, check_savable
from class_uncertainty.training.model_files import save as save_module
from class_uncertainty.training.networks.classifier import Deployed
from class_uncertainty.workflows.fitted_model import Model
from class_uncertainty.workflows.fix import Fix
from class_uncertainty.workflows.train import Trained

AnyModel = Fix | Trained | Model | Deployed


def save(model: AnyModel, path: str | Path, *, embed_weights: bool = False, force: bool = False) -> tuple[Path, ...]:
    """Write a model to PATH.safetensors and PATH.json, as `--save` does.

    Parameters
    ----------
    model : Fix, Trained, Model or module
        What `cu.fix`, `cu.train` or `cu.restore` returned, or the `model` of a Fix.
    path : path
        Where to; `cu.restore` and `cu.predict` take the same path.
    embed_weights : bool
        Whether the files hold the weights of the backbone too, where features come from one.
    force : bool
        Whether to replace a model of other data or options.

    Returns
    -------
    tuple of Path
        The files that were written.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> trained = cu.train(cu.load("digits-lt:20"), recipe=recipe)
    >>> [file.name for file in cu.save(trained, "model")]
    ['model.safetensors', 'model.json']
    """
    check(Path, path=path)
    module = module_of(model)
    made_from = origin_of(module)
    check_savable(path, made_from, force)
    check_embeds(module, embed_weights)
    return save_module(module, path, module.about | {"made_from": made_from}, embed_weights)


def origin_of(module: Deployed) -> str:
    """What it was made from; of a network that a workflow did not make, its classes."""
    made_from = module.about.get("made_from")
    if isinstance(made_from, str):  # a file may hold anything
        return made_from
    return origin("a network", module.classes, module.about)


def module_of(model: AnyModel) -> Deployed:
    check(AnyModel, model=model)
    return model.module if isinstance(model, Fix | Trained | Model) else model
