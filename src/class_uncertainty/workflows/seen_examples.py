"""Whether examples are those that a model was trained on, as far as the model tells."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.examples import inputs_digest, row_digests
from class_uncertainty.data.readers.unlabelled import Unlabelled
from class_uncertainty.training.networks.classifier import Deployed


def watch_seen(examples: Unlabelled, module: Deployed) -> tuple[Unlabelled, Callable[[], bool]]:
    """The same examples, and what tells, once they are read, whether the model was trained on just these.

    The model keeps one hash of all its training inputs, so that a part of them is not recognised, nor are photographs
    that passed through a backbone.
    """
    judged = module.about.get("judged")
    known = judged.get("inputs") if isinstance(judged, dict) else None
    if known is None or module.purpose is None or len(examples.names) != sum(module.purpose.counts):
        return examples, lambda: False
    digests = list[NDArray[np.void]]()

    def batches() -> Iterator[NDArray]:
        for batch in examples.batches:
            digests.append(row_digests(batch))
            yield batch

    return replace(examples, batches=batches()), lambda: inputs_digest(np.concatenate(digests)) == known
