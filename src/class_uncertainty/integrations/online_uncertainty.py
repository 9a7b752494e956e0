"""OnlineUncertainty: class uncertainty from one training, gathered in anyone's loop."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from class_uncertainty.checks import Tensorlike, check, check_least, check_number, shortly
from class_uncertainty.errors import InputError, memory_faults
from class_uncertainty.estimation.estimate import Estimate
from class_uncertainty.estimation.estimators import ESTIMATORS
from class_uncertainty.estimation.members import means_of
from class_uncertainty.integrations.method_parts import in_several_processes
from class_uncertainty.measures import Stats, Vector
from class_uncertainty.training.train_step import to_sum

ONLINE = "online"  # the row of ESTIMATORS that it is
MOST = 2**48  # probabilities


class OnlineUncertainty:
    """Means over the epochs of each example's training probabilities: the estimator "online", for any loop.

    Parameters
    ----------
    n : int
        Training examples.
    classes : int
        Number of classes.

    Examples
    --------
    >>> import torch
    >>> online = cu.OnlineUncertainty(n=4, classes=2)
    >>> online.update([0, 3], torch.tensor([[2.0, 0.0], [0.0, 0.0]]), [0, 1])
    >>> online.mu.round(3)
    array([0.193, 0.807])
    """

    def __init__(self, n: int, classes: int) -> None:
        check_least("n", n, 1)
        check_least("classes", classes, 2)
        check_number("n", n, f"fewer for {classes} classes", lambda number: number * classes < MOST)
        self.n, self.classes = n, classes
        with memory_faults():  # NumPy's zeros take memory only where they are written to
            shapes = {"p": (n, classes), "entropy": (n,), "seen": (n,)}
            self.sums = {name: torch.from_numpy(np.zeros(shape, np.float32)) for name, shape in shapes.items()}
            self.marks = torch.from_numpy(np.zeros(n, np.int64))  # 1 + the label; 0 where an example was never drawn

    def __repr__(self) -> str:
        drawn = int(torch.count_nonzero(self.marks))
        return f"OnlineUncertainty({self.n:,} examples, {self.classes:,} classes, {drawn:,} examples drawn)"

    @torch.no_grad()
    def update(self, indices: Tensorlike, logits: Tensor, labels: Tensorlike) -> None:
        """Take over a batch.

        Parameters
        ----------
        indices : array or tensor (B,)
            Which training examples, from 0; one that repeats counts as often.
        logits : tensor (B, C)
            Before the softmax, without margins; those of a `Loss` with a scale times that scale.
        labels : array or tensor (B,)
        """
        check(Tensorlike, indices=indices, labels=labels)
        check(Tensor, logits=logits)
        if logits.ndim != 2 or logits.shape[1] != self.classes:
            raise InputError(f"logits have shape {tuple(logits.shape)}: they must be (B, {self.classes}).")
        places = _whole("indices", indices, len(logits), self.n)
        marks = 1 + _whole("labels", labels, len(logits), self.classes)
        before = self.marks[places]
        for i in torch.nonzero((before > 0) & (before != marks)).flatten().tolist():
            was = f"example {int(places[i])} had the label {int(before[i]) - 1} and now has {int(marks[i]) - 1}"
            raise InputError(f"{was}: indices must be those of the training set.")
        terms = {name: values.cpu() for name, values in to_sum(logits.float()).items()}
        for i in torch.nonzero(terms["entropy"].isnan()).flatten().tolist():
            given = f"the logits of example {int(places[i])} are {shortly(logits[i].tolist())}"
            raise InputError(f"{given}: they must be finite numbers.")
        for name, values in terms.items():
            self.sums[name].index_add_(0, places, values)
        self.marks[places] = marks

    def across_processes(self) -> "OnlineUncertainty":
        """What all processes of torch.distributed gathered together; each of them must call it."""
        total = OnlineUncertainty(self.n, self.classes)
        total.load_state_dict(self.state_dict())
        if in_several_processes():
            for tensor in total.sums.values():
                torch.distributed.all_reduce(tensor)
            torch.distributed.all_reduce(total.marks, torch.distributed.ReduceOp.MAX)
        return total

    def estimate(self) -> Estimate:
        """The uncertainty of all examples that were drawn, and of classes, as `cu.estimate(data, "online")` has it."""
        drawn = self.marks > 0
        if not drawn.any():
            raise InputError("no batch was given yet: call update() in the training loop.")
        output = means_of({name: tensor[drawn] for name, tensor in self.sums.items()})
        labels, natural = self.marks[drawn].numpy() - 1, ESTIMATORS[ONLINE].natural
        return Estimate(ONLINE, output.probabilities, labels, (), natural, output.extra_scores, 1.0)

    @property
    def mu(self) -> Vector:
        """(C,) class uncertainties, normalised to sum 1 (Eq. 10)."""
        return self.estimate().mu

    @property
    def stats(self) -> Stats:
        """Counts and raw class uncertainties of the examples that were drawn: what methods need."""
        return self.estimate().stats

    def state_dict(self) -> dict[str, Tensor]:
        """Everything gathered so far, to go on from in another process."""
        return {"marks": self.marks.clone(), **{name: tensor.clone() for name, tensor in self.sums.items()}}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` returned."""
        check(dict, state=state)
        tensors = {"marks": self.marks, **self.sums}
        shapes = {name: getattr(state.get(name), "shape", None) for name in tensors}
        if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
            given = "is not what OnlineUncertainty.state_dict returned, or of other examples or classes"
            raise InputError(f"the state {given}: there are {self.n} examples and {self.classes} classes here.")
        for name, tensor in tensors.items():
            tensor.copy_(state[name])


def _whole(name: str, values: Any, number: int, below: int) -> Tensor:
    """Whole numbers from 0 as int64 (number,), on the host."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # NumPy has no bfloat16
    whole = np.asarray(values)
    if whole.shape != (number,) or whole.dtype.kind not in "iu":
        given = f"{whole.dtype} of shape {whole.shape}"
        raise InputError(f"{name} are {given}: give a whole number for each of {number} rows of logits.")
    for wrong in whole[(whole < 0) | (whole >= below)].tolist():
        raise InputError(f"{name} hold {wrong}: they run from 0 to {below - 1}.")
    return torch.from_numpy(whole.astype(np.int64))


class WithIndex(Dataset):
    """A data set whose items also say their index: (index, item), or in dictionaries under the key "index"."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        return {**item, "index": index} if isinstance(item, Mapping) else (index, item)
