"""cu.predict(): the classes of new examples, by a saved network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from class_uncertainty.boundary import Frame, checked
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.frames import FRAME
from class_uncertainty.data.readers.unlabelled import Unlabelled, read_unlabelled
from class_uncertainty.errors import InputError
from class_uncertainty.metrics import decide
from class_uncertainty.training.fit import default_device
from class_uncertainty.training.model_files import restore
from class_uncertainty.training.networks.backbones import Embedder, fused, same_backbone
from class_uncertainty.training.networks.ensemble_network import Deployed
from class_uncertainty.values import is_frame

BY_COST = "Classes are those of the least expected cost, by the costs that the network was saved with."


@checked
@dataclass(frozen=True, eq=False)
class Predicted:
    """What `cu.predict` returns.

    Attributes
    ----------
    names : sequence of str
        Where each example comes from: its file, line or row.
    classes : tuple of str
        The classes that the columns of `probabilities` stand for.
    probabilities : array (N, C)
        The network's softmax.
    notes : sequence of str
        What is odd about the examples.
    costs : array (C, C), optional
        What the network decides by: of predicting the class of the column for an example of that of the row.
    guesses : list of str
        The most probable class of each or, with costs, the one of the least expected cost.
    confidence : array (N,)
        The probabilities of these classes.

    Examples
    --------
    >>> cu.Predicted(["a.png"], ("cat", "dog"), np.array([[0.2, 0.8]], dtype=np.float32)).guesses
    ['dog']
    """

    names: Sequence[str]
    classes: tuple[str, ...]
    probabilities: NDArray[np.float32]
    notes: Sequence[str] = ()
    costs: NDArray[np.float32] | None = None

    @cached_property
    def _decisions(self) -> NDArray[np.int64]:
        return decide(self.probabilities.astype(np.float64), self.costs)

    @cached_property
    def guesses(self) -> list[str]:
        return [self.classes[c] for c in self._decisions]

    @property
    def confidence(self) -> NDArray[np.float32]:
        return self.probabilities[np.arange(len(self.probabilities)), self._decisions]


@checked
def predict(model: str | Path, examples: str | Path | Frame, *, progress: Progress | None = None) -> Predicted:
    """Predict new examples with the network that `cu train --save` or `cu fix --save` wrote.

    Parameters
    ----------
    model : path
        What --save wrote: model, model.safetensors or model.json.
    examples : path or DataFrame
        An image, a folder of images at any depth, or a .csv, .parquet, .npz or .npy file; or a DataFrame with the
        columns of training. Images are resized, or pass through the network's backbone, and columns become features,
        as they were in training. Files of a folder that cannot be read are skipped, and `notes` name them.
    progress : callable, optional
        Called with (what, done, total) as predicting goes on.

    Returns
    -------
    Predicted

    Examples
    --------
    >>> data = cu.load("digits-lt:20")
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> trained = cu.train(data, recipe=recipe, save="model")
    >>> np.savez("new.npz", x=data.test.inputs[:3])
    >>> cu.predict("model", "new.npz").probabilities.shape
    (3, 10)
    """
    network, device = restore(model), default_device()
    network.to(device)
    place, examples = (examples, FRAME) if is_frame(examples) else (Path(examples), str(examples))
    unlabelled = _read(network, place)
    batches: list[NDArray[np.float32]] = []
    done = 0
    with torch.inference_mode():
        for batch in unlabelled.batches:
            logits = network(torch.from_numpy(batch).to(device))
            if not (finite := logits.isfinite().all(dim=1)).all():
                name = unlabelled.read_names[done + int((~finite).nonzero()[0])]
                advice = "the network's answer is not finite: its values must be like those of training"
                raise InputError(f"{examples}, {name}: {advice}.")
            batches.append(logits.softmax(dim=1).cpu().numpy())
            done += len(batch)
            if progress:
                progress(examples, done, len(unlabelled.names))
    costs = None if network.costs is None else network.costs.cpu().numpy()
    skipped = list(unlabelled.skipped.values())
    if not batches:
        raise InputError(f"{examples} has no file that can be read; the first: {skipped[0]}")
    count = f"Skipped {len(skipped):,} of {len(unlabelled.names):,} files, which cannot be read."
    notes = [*unlabelled.notes, *skipped, *([count] if skipped else []), *([] if costs is None else [BY_COST])]
    return Predicted(unlabelled.read_names, network.classes, np.concatenate(batches), notes, costs)


def _read(network: Deployed, examples: Path | Frame) -> Unlabelled:
    """The examples as the network takes them. Images of an embedding pass through its backbone, features do not."""
    shape, embedding = tuple(network.rebuild["shape"]), network.embedding
    as_it_is = is_frame(examples) or (examples.suffix.lower() in (".npz", ".npy") and network.backbone is None)
    if embedding is None or as_it_is:
        return read_unlabelled(examples, shape, network.encoding)
    unlabelled = read_unlabelled(examples, (3, *embedding.images), None)
    if network.backbone is None:
        backbone = same_backbone(embedding)
        network.backbone = Embedder(replace(backbone, module=fused(backbone.module))).to(network.shift.device)
    return unlabelled
