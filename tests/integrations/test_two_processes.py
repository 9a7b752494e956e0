"""Class counts over two processes are those of one: bare torch, Accelerate, Lightning, Transformers."""

from collections import Counter

import numpy as np
import pytest
import torch
from integrations.two_processes import run_in_two
from optional import optional, slow

import class_uncertainty as cu

LABELS = np.repeat([0, 1, 2], [150, 40, 10])
EPOCHS = 2
START = """
import numpy as np, torch
from torch.utils.data import DataLoader, TensorDataset
import class_uncertainty as cu
labels = np.repeat([0, 1, 2], [150, 40, 10])
data = TensorDataset(torch.arange(200), torch.tensor(labels))
sampler = cu.ClassSampler.for_method("pb-rs", labels, epochs=2, seed=4)
drawn, steps = [], []
def step_of(logits, y, loss):
    steps.append([logits.tolist(), y.tolist(), loss.item()])
"""
SCRIPTS = {
    "torch": START
    + """
torch.distributed.init_process_group("gloo")
online = cu.OnlineUncertainty(200, 3)
mine, loss = sampler.shard(rank, 2), cu.Loss("cb", [150, 40, 10])
loss.across_processes = True
for epoch in range(2):
    mine.set_epoch(epoch)
    for index, y in DataLoader(data, batch_size=10, sampler=mine):
        drawn += index.tolist()
        logits = torch.nn.functional.one_hot(y, 3).float() * (1 + 2 * epoch + index[:, None] / 100)
        online.update(index, logits, y)
        step_of(logits, y, loss(logits, y))
total = online.across_processes()
gathered = {"mu": total.mu.tolist(), "seen": total.sums["seen"].tolist()}
report({"drawn": drawn, "steps": steps, **gathered})
torch.distributed.destroy_process_group()
""",
    "accelerate": START
    + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(data, batch_size=10, sampler=sampler))
for epoch in range(2):
    loader.set_epoch(epoch)
    drawn += [i for index, _ in loader for i in index.tolist()]
report({"drawn": drawn, "processes": accelerator.num_processes})
torch.distributed.destroy_process_group()
""",
    "lightning": START
    + """
from lightning.pytorch import LightningModule, Trainer
from class_uncertainty.integrations.lightning import ClassUncertaintyCallback
imbalance = ClassUncertaintyCallback(labels, method="cb")
class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 3)
    def training_step(self, batch, _):
        index, y = batch
        drawn.extend(index.tolist())
        logits = self.layer(index[:, None] / 200)
        loss = imbalance.loss(logits, y)
        step_of(logits, y, loss)
        return loss
    def validation_step(self, batch, _, dataloader_idx=0):
        index, y = batch
        return {"logits": self.layer(index[:, None] / 200), "labels": y}
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)
trainer = Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False,
                  enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                  callbacks=[imbalance])
validation = [torch.utils.data.Subset(data, range(59, 160)), torch.utils.data.Subset(data, range(193, 200))]
loaders = [DataLoader(part, batch_size=10) for part in validation]  # 101 and 7: both odd
trainer.fit(Net(), DataLoader(data, batch_size=10, sampler=sampler), loaders)
judged = [row.examples for row in imbalance.audit.classes]
report({"drawn": drawn, "processes": trainer.world_size, "steps": steps, "judged": judged})
""",
    "transformers": START
    + """
from transformers import Trainer, TrainingArguments
from class_uncertainty.integrations.transformers import ClassUncertaintyMixin
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 200
    def __getitem__(self, i): return {"x": torch.tensor([i / 200.0]), "labels": int(labels[i]), "index": i}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 3)
    def forward(self, x, labels=None):
        return {"logits": self.layer(x)}
class Balanced(ClassUncertaintyMixin, Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        drawn.extend(inputs["index"].tolist())
        return super().compute_loss(model, inputs, *args, **kwargs)
class Weighted(ClassUncertaintyMixin, Trainer):
    def _loss(self, outputs, labels, num_items_in_batch=None):
        loss = super()._loss(outputs, labels, num_items_in_batch)
        step_of(outputs["logits"], labels, 2 * loss)  # Trainer multiplies it by the processes, and DDP divides by them
        return loss
def settings(epochs, accumulate):
    return TrainingArguments("out", num_train_epochs=epochs, per_device_train_batch_size=10, use_cpu=True, report_to=[],
                             save_strategy="no", logging_strategy="no", disable_tqdm=True, data_seed=4,
                             gradient_accumulation_steps=accumulate)
trainer = Balanced(Net(), settings(2, 1), train_dataset=Rows(), labels=labels, method="pb-rs")
trainer.train()
gathered = {"mu": trainer.estimate.mu.tolist(), "seen": trainer.parts.online_in_all().sums["seen"].tolist()}
Weighted(Net(), settings(1, 2), train_dataset=Rows(), labels=labels, method="cb").train()
report({"drawn": drawn, "processes": trainer.args.world_size, "steps": steps, "accumulated": 2, **gathered})
torch.distributed.destroy_process_group()
""",
}
PACKAGES = {"accelerate": ["accelerate"], "lightning": ["lightning"], "transformers": ["accelerate", "transformers"]}


@pytest.mark.parametrize("framework", ["torch", *(pytest.param(name, marks=slow) for name in PACKAGES)])
def test_two_processes_draw_what_one_draws(framework, tmp_path):
    for package in PACKAGES.get(framework, ()):
        optional(package)
    reported = run_in_two(SCRIPTS[framework], tmp_path)
    sampler, whole = cu.ClassSampler.for_method("pb-rs", LABELS, epochs=EPOCHS, seed=4), []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        whole += list(sampler)
    assert [len(part["drawn"]) for part in reported] == [200, 200]
    drawn = Counter(index for part in reported for index in part["drawn"])
    assert drawn == Counter(whole)
    assert np.bincount(LABELS[whole]).tolist() != np.bincount(np.tile(LABELS, EPOCHS)).tolist()  # something is balanced
    assert {part.get("processes", 2) for part in reported} == {2}
    assert len({str(part.get("mu")) for part in reported}) == 1  # the same in each process
    if "seen" in reported[0]:
        assert reported[0]["seen"] == np.bincount(whole, minlength=200).tolist()
    if framework == "torch":
        np.testing.assert_allclose(reported[0]["mu"], online_of_one(whole).mu, rtol=1e-5)
    if "judged" in reported[0]:  # each example once: of 101 and 7 validation examples, none is repeated
        assert [part["judged"] for part in reported] == [[91, 10, 7]] * 2
    if "steps" in reported[0]:
        check_steps([part["steps"] for part in reported], reported[0].get("accumulated", 1))


def online_of_one(drawn: list[int]) -> cu.OnlineUncertainty:
    """What one process gathers that draws two epochs."""
    online = cu.OnlineUncertainty(200, 3)
    for epoch, indices in enumerate((drawn[:200], drawn[200:])):
        labels = torch.tensor(LABELS[indices])
        factors = 1 + 2 * epoch + torch.tensor(indices)[:, None] / 100
        online.update(indices, torch.nn.functional.one_hot(labels, 3).float() * factors, labels)
    return online


def check_steps(steps: list[list[tuple]], accumulated: int) -> None:
    """The mean over the processes of what batches of a step add is the loss of one large batch: for "cb"."""
    loss = cu.Loss("cb", np.bincount(LABELS))
    assert len(steps[0]) == len(steps[1]) >= 10
    for first in range(0, len(steps[0]), accumulated):
        batches = [batch for part in steps for batch in part[first : first + accumulated]]
        logits = torch.tensor([row for batch in batches for row in batch[0]])
        labels = torch.tensor([label for batch in batches for label in batch[1]])
        added = sum(batch[2] for batch in batches) / 2
        assert added == pytest.approx(loss(logits, labels).item(), rel=1e-5)
