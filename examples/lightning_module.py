"""Class uncertainty in a LightningModule: one callback has the sampler, the loss and an audit of every validation.

Run it with `python examples/lightning_module.py`; it needs `pip install 'class-uncertainty[lightning]'`.
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import class_uncertainty as cu
from class_uncertainty.integrations.lightning import ClassUncertaintyCallback
from class_uncertainty.integrations.torch import WithIndex

EPOCHS = 8


class Digits(LightningModule):
    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.loss = loss

    def training_step(self, batch, batch_idx):
        index, (images, labels) = batch
        logits = self.network(images)
        return {"loss": self.loss(logits, labels), "logits": logits, "labels": labels, "index": index}

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        return {"logits": self.network(images), "labels": labels}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main() -> None:
    digits = cu.load("digits-lt:20")
    train, test = (
        TensorDataset(torch.tensor(d.inputs) / 255, torch.tensor(d.labels)) for d in (digits.train, digits.test)
    )
    imbalance = ClassUncertaintyCallback(
        digits.train.labels, method="2s-csce", classes=digits.train.classes, epochs=EPOCHS
    )
    torch.manual_seed(0)
    trainer = Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        callbacks=[imbalance],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loaders = DataLoader(WithIndex(train), batch_size=32, sampler=imbalance.sampler), DataLoader(test, batch_size=256)
    trainer.fit(Digits(imbalance.loss), *loaders)
    print("uncertainty by class:", imbalance.estimate.mu.round(3).tolist())
    print(f"class-mean error: {trainer.callback_metrics['val_class_mean_error']:.1f} %")
    print(imbalance.audit.summary)


if __name__ == "__main__":
    main()
