"""What a saved network says of examples that nobody has labelled."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from class_uncertainty.boundary import checked
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.unlabelled import unlabelled
from class_uncertainty.errors import InputError
from class_uncertainty.training.loop import default_device
from class_uncertainty.training.saving import restore


@checked
@dataclass(frozen=True, eq=False)
class Predicted:
    """Probabilities (N, C), the classes that their columns stand for, and the name of each example: its file, line or row."""

    names: Sequence[str]
    classes: tuple[str, ...]
    probabilities: NDArray[np.float32]
    notes: Sequence[str] = ()  # on what is odd about the examples

    @cached_property
    def guesses(self) -> list[str]:
        """The most probable class of each."""
        return [self.classes[c] for c in self.probabilities.argmax(axis=1)]


@checked
def predict(model: str | Path, examples: str | Path, *, progress: Progress | None = None) -> Predicted:
    """What the network that `cu train --save` or `cu fix --save` wrote says of pictures, of a table's rows or of arrays.

    `examples` is a picture, a folder of them at any depth, or a .csv, .parquet, .npz or .npy file. Pictures are resized, and columns
    become features, as they were in training. `progress(what, done, of)` is told how it goes on.
    """
    network, device = restore(model), default_device()
    network.to(device)
    found = unlabelled(Path(examples), tuple(network.rebuild["shape"]), network.encoding)
    parts: list[NDArray[np.float32]] = []
    done = 0
    with torch.inference_mode():
        for batch in found.batches:
            logits = network(torch.from_numpy(batch).to(device))
            if not (finite := logits.isfinite().all(dim=1)).all():
                name = found.names[done + int((~finite).nonzero()[0])]
                raise InputError(f"{examples}, {name}: the network's answer is not finite: its values must be like those of training.")
            parts.append(logits.softmax(dim=1).cpu().numpy())
            done += len(batch)
            if progress:
                progress(str(examples), done, len(found.names))
    return Predicted(found.names, network.classes, np.concatenate(parts), found.notes)
