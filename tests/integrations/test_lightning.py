"""The callback of Lightning: the method's loss and draws, what it gathers, and audits."""

import warnings

import numpy as np
import pytest
import torch
from optional import optional, slow
from refusals import refused
from torch.utils.data import DataLoader, TensorDataset

import class_uncertainty as cu
from class_uncertainty.integrations.torch import WithIndex

pytestmark = slow
LABELS = np.repeat([0, 1, 2], [90, 30, 12])
EPOCHS = 5


def callback(**about):
    optional("lightning")
    from class_uncertainty.integrations.lightning import ClassUncertaintyCallback

    return ClassUncertaintyCallback(LABELS, classes=["a", "b", "c"], epochs=EPOCHS, **about)


def fitted(watcher, folder, resume=None, epochs=EPOCHS, **settings):
    """A network on numbers that say their class, trained; what it drew and lost in each epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.pytorch import LightningModule, Trainer

        class Net(LightningModule):
            def __init__(self):
                super().__init__()
                self.layer, self.steps, self.lost = torch.nn.Linear(3, 3), [], []

            def training_step(self, batch, _):
                index, (x, y) = batch
                logits = self.layer(x)
                loss = watcher.loss(logits, y)
                self.steps.append((self.current_epoch, index, logits.detach(), y, loss.detach()))
                return {"loss": loss, "logits": logits, "labels": y, "index": index}

            def validation_step(self, batch, _):
                x, y = batch
                return {"logits": self.layer(x), "labels": y}

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        torch.manual_seed(0)
        data = TensorDataset(torch.eye(3)[LABELS] + 0.5 * torch.randn(len(LABELS), 3), torch.tensor(LABELS))
        network = Net()
        quiet = {
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "num_sanity_val_steps": 1,
        } | settings
        trainer = Trainer(
            max_epochs=epochs, accelerator="cpu", callbacks=[watcher], enable_checkpointing=False, **quiet
        )
        loaders = DataLoader(WithIndex(data), batch_size=11, sampler=watcher.sampler), DataLoader(data, batch_size=50)
        trainer.fit(network, *loaders, ckpt_path=resume, weights_only=False)
        trainer.save_checkpoint(folder / "state.ckpt")
        return network, trainer, data


def test_loss_and_uncertainty_are_those_of_a_plain_loop(tmp_path):
    watcher = callback(method="2s-csce")
    network, _, _ = fitted(watcher, tmp_path)
    online, loss = cu.OnlineUncertainty(len(LABELS), 3), cu.Loss("2s-csce", np.bincount(LABELS), epochs=EPOCHS)
    for epoch, index, logits, labels, lost in network.steps:
        loss.set_epoch(epoch)
        torch.testing.assert_close(lost, loss(logits, labels))
        online.update(index, logits, labels)
    np.testing.assert_allclose(watcher.estimate.mu, online.mu, rtol=1e-6)


def test_draws_are_the_method_s_in_every_epoch(tmp_path):
    watcher = callback(method="pb-rs")
    network, _, _ = fitted(watcher, tmp_path)
    expected = cu.ClassSampler.for_method("pb-rs", LABELS, epochs=EPOCHS)
    for epoch in range(EPOCHS):
        expected.set_epoch(epoch)
        drawn = torch.cat([index for number, index, *_ in network.steps if number == epoch])
        assert drawn.tolist() == list(expected)


def test_the_audit_is_of_the_last_validation(tmp_path):
    from class_uncertainty.workflows.audit import audit

    watcher = callback()
    network, trainer, data = fitted(watcher, tmp_path)
    with torch.no_grad():
        p = network.layer(data.tensors[0]).double().softmax(dim=1).numpy()
    expected = audit(LABELS, p, classes=["a", "b", "c"], counts=np.bincount(LABELS))
    assert watcher.audit.figures.examples == len(LABELS)  # the sanity check is no part of it
    assert watcher.audit.figures.error == pytest.approx(expected.figures.error)
    assert [row.name for row in watcher.audit.classes] == ["a", "b", "c"]
    assert float(trainer.callback_metrics["val_class_mean_error"]) == pytest.approx(expected.figures.error, rel=1e-5)


def test_it_goes_on_from_a_checkpoint(tmp_path):
    whole, first, second = callback(), callback(), callback()
    fitted(whole, tmp_path)
    fitted(first, tmp_path, epochs=2)
    fitted(second, tmp_path, resume=tmp_path / "state.ckpt")
    np.testing.assert_allclose(second.estimate.mu, whole.estimate.mu, rtol=1e-6)


def test_accumulation_is_refused_for_rows_that_divide_by_weights(tmp_path):
    with refused("accumulate_grad_batches is 2", "'2s-csce'", "larger batches"):
        fitted(callback(method="2s-csce"), tmp_path, accumulate_grad_batches=2)
    fitted(callback(method="cb-focal"), tmp_path, epochs=1, accumulate_grad_batches=2)


def test_rows_that_need_more_are_refused():
    with refused("'mixup' needs", "cu.fit"):
        callback(method="mixup")
    with refused("'ubrs'", "uncertainty="):
        callback(method="ubrs")
