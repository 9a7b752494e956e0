"""Class counts over two processes are those of one: bare torch, Accelerate, Lightning, Transformers."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
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
drawn = []
"""
SCRIPTS = {
    "torch": START
    + """
torch.distributed.init_process_group("gloo")
online = cu.OnlineUncertainty(200, 3)
mine = sampler.shard(rank, 2)
for epoch in range(2):
    mine.set_epoch(epoch)
    for index, y in DataLoader(data, batch_size=10, sampler=mine):
        drawn += index.tolist()
        online.update(index, torch.nn.functional.one_hot(y, 3).float() * (1 + index[:, None] / 100), y)
report({"drawn": drawn, "mu": online.across_processes().mu.tolist()})
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
class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 3)
    def training_step(self, batch, _):
        index, y = batch
        drawn.extend(index.tolist())
        return torch.nn.functional.cross_entropy(self.layer(index[:, None].float()), y)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)
trainer = Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False,
                  enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Net(), DataLoader(data, batch_size=10, sampler=sampler))
report({"drawn": drawn, "processes": trainer.world_size})
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
args = TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=10, use_cpu=True, report_to=[],
                         save_strategy="no", logging_strategy="no", disable_tqdm=True, data_seed=4)
trainer = Balanced(Net(), args, train_dataset=Rows(), labels=labels, method="pb-rs")
trainer.train()
report({"drawn": drawn, "processes": args.world_size, "mu": trainer.estimate.mu.tolist()})
torch.distributed.destroy_process_group()
""",
}
PACKAGES = {"accelerate": ["accelerate"], "lightning": ["lightning"], "transformers": ["accelerate", "transformers"]}


@pytest.mark.parametrize("framework", ["torch", *(pytest.param(name, marks=slow) for name in PACKAGES)])
def test_two_processes_draw_what_one_draws(framework: str, tmp_path: Path) -> None:
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
