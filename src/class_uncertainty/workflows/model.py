"""Model: a trained network for use, with the calls of scikit-learn's classifiers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import check, check_fields, is_frame, shortly
from class_uncertainty.data import tabular
from class_uncertainty.data.frames import table_of
from class_uncertainty.errors import InputError
from class_uncertainty.io import origin
from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.metrics import decide
from class_uncertainty.training.model_files import check_embeds, check_savable
from class_uncertainty.training.model_files import save as save_module
from class_uncertainty.training.networks.classifier import Deployed

BATCH = 1024


class HasModule(Protocol):
    """What a workflow returns that trained: a Fix, a Trained, a Model."""

    @property
    def module(self) -> Deployed: ...


AnyModel = HasModule | Deployed


@dataclass(frozen=True, eq=False)
class Model:
    """What is deployed, for raw examples: rows of a DataFrame, or an array.

    `predict_proba` gives the probabilities that decide: for the goal of `cu.fix`, or the prior of the method that
    `cu.train` trained by. For another prior, ask `cu.predict(model, rows, prior="train")`.

    Attributes
    ----------
    module : torch.nn.Module
        The network, or several as one.
    classes_ : array (C,)
        The names that the columns of probabilities stand for.

    Examples
    --------
    >>> data = cu.Data(np.eye(8), ["cat", "dog"] * 4)
    >>> trained = cu.train(data, recipe=cu.Recipe("mlp", epochs=1, batch=4))
    >>> cu.Model(trained.module).predict_proba(data.inputs).shape
    (8, 2)
    """

    module: Deployed

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        goal = self.module.purpose and self.module.purpose.goal
        aim = f"; for the goal {goal!r}" if goal else ""
        return f"Model({type(self.module).__name__}, {len(self.module.classes):,} classes{aim})"

    @property
    def classes_(self) -> NDArray[np.str_]:
        return np.array(self.module.classes)

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """(N, C): the probabilities of the classes, as frequent as the goal says: the softmax of `module`.

        Parameters
        ----------
        rows : DataFrame or array
            A table with the columns of training, an array (N, D) of features, or uint8 images (N, channels, H, W).
        """
        inputs, p = self._inputs(rows), list[NDArray]()
        with torch.inference_mode():
            for block in row_blocks(len(inputs), BATCH):
                logits = self.module(torch.from_numpy(np.ascontiguousarray(inputs[block])))
                p.append(logits.double().softmax(dim=1).numpy())
        return np.concatenate(p)

    def predict(self, rows: Any) -> NDArray[np.str_]:
        """(N,): the most probable class of each row or, with costs, the one of the least expected cost."""
        costs = None if self.module.costs is None else self.module.costs.double().numpy()
        return self.classes_[decide(self.predict_proba(rows), costs)]

    def _inputs(self, rows: Any) -> NDArray:
        """As the network takes them."""
        if is_frame(rows) and self.module.encoding is not None:
            inputs, _, left_out = tabular.features(table_of(rows), self.module.encoding)
            for sentence in left_out.values():
                raise InputError(sentence)
            return inputs
        return _checked(rows, tuple(self.module.rebuild["shape"]))


def _checked(rows: ArrayLike, shape: tuple[int, ...]) -> NDArray:
    try:
        inputs = np.asarray(rows)
    except Exception:  # anything may be given
        raise InputError(f"rows are {shortly(rows)}: give a DataFrame or an array.") from None
    is_images = len(shape) == 3
    fits = inputs.dtype == np.uint8 if is_images else inputs.dtype.kind in "fiub"
    if inputs.shape[1:] != shape or not len(inputs) or not fits:
        takes = f"(N, {', '.join(map(str, shape))})"
        given = f"of shape {inputs.shape} and type {inputs.dtype}"
        raise InputError(
            f"rows are {given}: give one at least, as {'uint8' if is_images else 'numbers'} of shape {takes}."
        )
    inputs = inputs if is_images else inputs.astype(np.float32)
    if not np.isfinite(inputs).all():
        raise InputError("rows have numbers that are not finite, as float32 too: fill or remove them.")
    return inputs


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
    """The module of what a workflow returned, or of itself."""
    module = getattr(model, "module", model)
    if not isinstance(module, Deployed):
        returned = "what cu.fix, cu.train or cu.restore returned: a Fix, a Trained, a Model or a module"
        raise InputError(f"model is {shortly(model)}: give {returned}.")
    return module
