"""A callback of Lightning: sampler, loss, online uncertainty, and an audit after every validation."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike
from torch.utils._pytree import tree_leaves
from torch.utils.data.distributed import DistributedSampler

from class_uncertainty.checks import Tensorlike, take
from class_uncertainty.errors import InputError, missing
from class_uncertainty.estimation.estimate import Estimate
from class_uncertainty.integrations.online_uncertainty import OnlineUncertainty
from class_uncertainty.integrations.torch import ClassSampler, Loss, TrainingParts, audit_figures
from class_uncertainty.methods import Method

try:
    from lightning.pytorch import Callback
except ImportError:
    raise missing("lightning", extra="lightning") from None

LOGGED = "val_"  # before the names of what is logged


class ClassUncertaintyCallback(Callback):
    """Brings a row of METHODS and an audit into a LightningModule.

    Give `sampler` to the DataLoader of the training examples and take `loss` in `training_step`. Let the steps return
    dictionaries: "logits" and "labels" in `validation_step` for the audit, and beside the "loss" of `training_step`
    "logits", "labels" and "index" for the uncertainty of classes (`WithIndex` gives data sets an index).

    Parameters
    ----------
    labels : array or tensor (N,)
        The class of each training example, from 0.
    method : str or Method
        A row of METHODS that acts on draws or on the loss, or its name.
    classes : sequence of str, optional
        Their names, for the audit.
    uncertainty : array (C,), optional
        Class uncertainties, for methods that use them.
    epochs : int, optional
        How many there are, for methods that change over them.
    seed : int
        Of the sampler.

    Attributes
    ----------
    sampler : ClassSampler
    loss : Loss
    online : OnlineUncertainty
        Of this process.
    estimate : Estimate or None
        Once the training has ended: uncertainties of examples and classes, of all processes.
    audit : Audit or None
        Of the last validation.
    """

    def __init__(
        self,
        labels: Tensorlike,
        *,
        method: str | Method = "naive",
        classes: Sequence[str] | None = None,
        uncertainty: ArrayLike | None = None,
        epochs: int | None = None,
        seed: int = 0,
    ) -> None:
        classes = take(list[str] | None, classes=classes)
        self.parts, self.classes = TrainingParts(method, labels, uncertainty, epochs, seed), classes
        self.estimate: Estimate | None = None
        self.audit: Any = None

    @property
    def sampler(self) -> ClassSampler:
        return self.parts.sampler

    @property
    def loss(self) -> Loss:
        return self.parts.loss

    @property
    def online(self) -> OnlineUncertainty:
        return self.parts.online

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.loss.to(pl_module.device)
        self.loss.across_processes = trainer.world_size > 1

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.accumulate_grad_batches > 1 and self.loss.reduction == "weights":
            given = f"accumulate_grad_batches is {trainer.accumulate_grad_batches}"
            reason = "divides by the weights of a whole step, and Lightning shows one batch at a time"
            raise InputError(f"{given}, and {self.loss.schedule.name} {reason}: take larger batches in place of it.")

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.loss.set_epoch(trainer.current_epoch)  # the sampler's is set by Lightning

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if isinstance(outputs, Mapping) and {"index", "logits", "labels"} <= outputs.keys():
            self.parts.gather(outputs["index"], outputs["logits"], outputs["labels"])

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        total = self.parts.online_in_all()
        self.estimate = total.estimate() if total else None

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        has_predictions = isinstance(outputs, Mapping) and {"logits", "labels"} <= outputs.keys()
        if has_predictions and not trainer.sanity_checking:
            loader = tree_leaves(trainer.val_dataloaders)[dataloader_idx]
            most = _distinct_rows(loader)
            self.parts.predictions.add(outputs["logits"], outputs["labels"], dataloader_idx, most)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if (audit := self.parts.audit(self.classes)) is not None:
            self.audit = audit
            figures = {LOGGED + name: value for name, value in audit_figures(audit).items()}
            pl_module.log_dict(figures, rank_zero_only=True)

    def state_dict(self) -> dict[str, Any]:
        """What all processes gathered: Lightning asks each of them for it."""
        return {"online": self.parts.online_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        self.parts.load_online_state(state_dict["online"])


def _distinct_rows(loader: Any) -> int | None:
    """How many rows of a process are no repeats, which DistributedSampler appends to have as many in each."""
    sampler = getattr(getattr(loader, "batch_sampler", None), "sampler", getattr(loader, "sampler", None))
    if not isinstance(sampler, DistributedSampler):
        return None
    return len(range(sampler.rank, len(sampler.dataset), sampler.num_replicas))  # type: ignore[arg-type]
