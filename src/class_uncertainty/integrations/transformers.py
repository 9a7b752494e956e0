"""The Trainer of Transformers with a sampler, a loss and online uncertainty, and an audit at every evaluation."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from class_uncertainty.errors import InputError, missing
from class_uncertainty.estimation.estimate import Estimate
from class_uncertainty.integrations.torch import TrainingParts, audit_figures, mean_in_all
from class_uncertainty.methods import Method

try:
    from transformers import TrainerCallback
except ImportError:
    raise missing("transformers", extra="transformers") from None

ONLINE_FILE = "online_uncertainty.pt"  # in the folder of a checkpoint
INDEX = "index"  # the column that says which training example a row is


class ClassUncertaintyMixin:
    """Put it before Trainer: `class MyTrainer(ClassUncertaintyMixin, Trainer): pass`.

    Training examples may have a column "index": then `estimate` holds their uncertainty once the training has ended.

    Parameters
    ----------
    *args, **kwargs
        Those of Trainer.
    labels : array or tensor (N,)
        The class of each training example, from 0.
    method : str or Method
        A row of METHODS that acts on draws or on the loss, or its name.
    classes : sequence of str, optional
        Their names, for the audit.
    uncertainty : array (C,), optional
        Class uncertainties, for methods that use them.
    epochs : int, optional
        For methods that change over them; by default `num_train_epochs`.

    Attributes
    ----------
    parts : TrainingParts
        `sampler`, `loss` and `online` (OnlineUncertainty, of this process).
    estimate : Estimate or None
        Once the training has ended: uncertainties of examples and classes, of all processes.
    audit : Audit or None
        Of the last evaluation.
    """

    def __init__(
        self,
        *args: Any,
        labels: Any,
        method: str | Method = "naive",
        classes: Sequence[str] | None = None,
        uncertainty: Any = None,
        epochs: int | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("compute_loss_func") is not None:
            raise InputError("compute_loss_func is given, and the method has a loss of its own: leave one out.")
        metrics: Callable[[Any], dict[str, float]] | None = kwargs.pop("compute_metrics", None)
        super().__init__(*args, compute_metrics=self._audited, **kwargs)  # type: ignore[call-arg]
        settings: Any = self.args  # type: ignore[attr-defined]
        if epochs is None and settings.max_steps <= 0:
            epochs = math.ceil(settings.num_train_epochs)
        seed = settings.seed if settings.data_seed is None else settings.data_seed
        self.parts, self.classes = TrainingParts(method, labels, uncertainty, epochs, seed), classes
        self.parts.loss.to(settings.device)
        self.estimate: Estimate | None = None
        self.audit: Any = None
        self._other_metrics = metrics
        self.compute_loss_func = self._loss
        self.add_callback(ClassUncertaintyCallback(self))  # type: ignore[attr-defined]

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return self.parts.sampler

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()  # type: ignore[misc]
        self._signature_columns: list[str]
        if INDEX not in self._signature_columns:
            self._signature_columns += [INDEX]

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **others: Any) -> Any:
        """The loss of Trainer; what a training step predicts is gathered."""
        index, labels = inputs.pop(INDEX, None), inputs.get("labels")
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **others)  # type: ignore[misc]
        if index is not None and labels is not None and model.training:
            self.parts.gather(index, _logits(outputs), labels)
        return (loss, outputs) if return_outputs else loss

    def _loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        """The sum over the batch divided by that of an optimiser step: its parts add up to one batch."""
        loss, logits = self.parts.loss, _logits(outputs)
        return loss(logits, labels) if num_items_in_batch is None else loss.total(logits, labels) / num_items_in_batch

    def _get_num_items_in_batch(self, batch_samples: list, device: Any) -> Any:
        """Of an optimiser step: the examples of its batches or, for rows that divide by weights, their sum."""
        items = super()._get_num_items_in_batch(batch_samples, device)  # type: ignore[misc]
        if items is None or self.parts.loss.reduction != "weights":
            return items
        weight, labels = self.parts.loss.weight, torch.cat([batch["labels"].flatten() for batch in batch_samples])
        return items * mean_in_all(weight[labels.to(weight.device)])

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)  # type: ignore[misc]
        state = self.parts.online_state()
        if self.args.should_save:  # type: ignore[attr-defined]
            torch.save(state, Path(output_dir) / ONLINE_FILE)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[misc]
        if checkpoint is not None and (path := Path(checkpoint) / ONLINE_FILE).exists():
            self.parts.load_online_state(torch.load(path, map_location="cpu", weights_only=True))

    def _audited(self, evaluated: Any) -> dict[str, float]:
        """Metrics from predictions that Trainer has gathered from all processes."""
        predictions = evaluated.predictions
        logits = torch.as_tensor(predictions[0] if isinstance(predictions, tuple) else predictions)
        self.audit = self.parts.audit_of(logits, torch.as_tensor(np.asarray(evaluated.label_ids)), self.classes)
        return audit_figures(self.audit) | (self._other_metrics(evaluated) if self._other_metrics else {})


class ClassUncertaintyCallback(TrainerCallback):
    """Tells the loss of the epochs, and estimates uncertainties after the last; the mixin adds it."""

    def __init__(self, trainer: ClassUncertaintyMixin) -> None:
        self.trainer = trainer

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self.trainer.parts.loss.set_epoch(math.floor((state.epoch or 0) + 1e-6))

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        total = self.trainer.parts.online_in_all()
        self.trainer.estimate = total.estimate() if total else None


def _logits(outputs: Any) -> Tensor:
    return outputs["logits"] if isinstance(outputs, dict) else outputs[0]
