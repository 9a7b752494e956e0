"""Many trainings as one program against the usual loop: model-images a second, memory, and the error that both reach.

    make bench-engine DATA=FOLDER     FOLDER is a data folder with CIFAR-10 in it

The usual loop is what public code bases run: plain eager PyTorch, one network, torch.optim.SGD, float32 with tf32 where
a GPU has it, crop and flip in a DataLoader, with workers where there is a GPU. Both train the same ResNet-32 by the
recipe "bag-of-tricks" on CIFAR-10-LT (100). On a CPU the two run in turns on a part of the data, and only their ratio
means anything.
"""

import argparse
import dataclasses
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import class_uncertainty as cu
from class_uncertainty.training import RECIPES, train_step
from class_uncertainty.training.networks.classifier import Classifier

RECIPE = RECIPES["bag-of-tricks"]


class Pictures(Dataset):
    """As a torchvision pipeline gives them: one by one, cropped, mirrored, standardised."""

    def __init__(self, data: cu.Data) -> None:
        self.data = data
        mean, std = data.statistics or data.measured_statistics()
        self.mean, self.std = (torch.tensor(value, dtype=torch.float32).view(-1, 1, 1) for value in (mean, std))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        image = F.pad(torch.from_numpy(np.array(self.data.inputs[i])), (RECIPE.crop,) * 4)
        top, left = torch.randint(0, 2 * RECIPE.crop + 1, (2,)).tolist()
        image = image[:, top : top + 32, left : left + 32]
        image = image.flip(2) if torch.rand(()) < 0.5 else image
        return (image.float() - self.mean) / self.std, int(self.data.labels[i])


class Usual:
    """One network in the usual loop."""

    def __init__(self, data: cu.Data, device: str, seed: int = 0) -> None:
        torch.manual_seed(seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.data, self.device = data, device
        self.module = Classifier("resnet32", data.shape, data.classes).to(device)
        for layer in self.module.modules():
            if isinstance(layer, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(layer.weight)
        options = {"momentum": RECIPE.momentum, "weight_decay": RECIPE.weight_decay, "nesterov": RECIPE.nesterov}
        self.optimiser = torch.optim.SGD(self.module.parameters(), RECIPE.lr, **options)  # type: ignore[arg-type]

    def loader(self) -> DataLoader:
        on_gpu = self.device == "cuda"  # on a CPU workers would only take the cores away from the training
        workers = (
            {"num_workers": min(8, os.cpu_count() or 1), "pin_memory": True, "persistent_workers": True}
            if on_gpu
            else {}
        )
        return DataLoader(Pictures(self.data), RECIPE.batch, shuffle=True, drop_last=True, **workers)  # type: ignore[arg-type]

    def step(self, x: Tensor, labels: Tensor) -> None:
        self.optimiser.zero_grad()
        F.cross_entropy(self.module.head(self.module.body(x)), labels).backward()  # pictures come standardised
        self.optimiser.step()

    def without_loading(self, steps: int) -> float:
        """Images a second where every batch is already there."""
        x = torch.randn(RECIPE.batch, *self.data.shape, device=self.device)
        labels = torch.randint(len(self.data.classes), (RECIPE.batch,), device=self.device)
        for _ in range(max(steps // 5, 1)):
            self.step(x, labels)
        wait(self.device)
        began = time.perf_counter()
        for _ in range(steps):
            self.step(x, labels)
        wait(self.device)
        return steps * RECIPE.batch / (time.perf_counter() - began)

    def train(self, epochs: int) -> Iterator[float]:
        """Images a second in each epoch."""
        recipe, loader = dataclasses.replace(RECIPE, epochs=epochs), self.loader()
        for epoch in range(epochs):
            self.optimiser.param_groups[0]["lr"] = recipe.lr * recipe.factor(epoch)
            began, seen = time.perf_counter(), 0
            for x, labels in loader:
                self.step(x.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True))
                seen += len(labels)
            wait(self.device)
            yield seen / (time.perf_counter() - began)

    @torch.no_grad()
    def error(self, test: cu.Data) -> float:
        mean, std = self.data.statistics or self.data.measured_statistics()
        for name, value in (("mean", mean), ("std", std)):
            getattr(self.module.preprocess, name).copy_(torch.tensor(value).view(-1, 1, 1))
        self.module.eval()
        parts = torch.from_numpy(np.array(test.inputs)).split(500)
        wrong = (
            torch.cat([self.module(part.to(self.device)).argmax(dim=1).cpu() for part in parts]).numpy() != test.labels
        )
        return 100 * float(wrong.mean())


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def ours(
    data: cu.Data, lanes: int, epochs: int, device: str, of: Callable[[list[float]], float] = statistics.median
) -> float:
    """Model-images a second, of the epochs after the first."""
    told: list[float] = []
    recipe = dataclasses.replace(RECIPE, epochs=epochs)
    cu.fit(
        data,
        [cu.Lane("naive", seed) for seed in range(lanes)],
        recipe=recipe,
        device=device,
        progress=lambda news: told.append(news.speed),
    )
    return of(told[1:])


def on_gpu(dataset: cu.Dataset, epochs: int, check: int) -> None:
    train, test = dataset.train, dataset.test
    assert test is not None
    bare = Usual(train, "cuda").without_loading(200)
    loaded = max(Usual(train, "cuda").train(3))
    print(f"usual loop, batches there already: {bare:10,.0f} model-images/s", flush=True)
    print(f"usual loop, DataLoader:            {loaded:10,.0f}", flush=True)
    for lanes in (1, 4, 16, 64):
        torch.cuda.reset_peak_memory_stats()
        speed = ours(train, lanes, epochs, "cuda")
        memory = torch.cuda.max_memory_allocated() / 2**30
        step = lanes * RECIPE.batch / speed * 1e3
        told = f"{speed / bare:5.1f} x and {speed / loaded:5.1f} x; {memory:5.1f} GiB; {step:.2f} ms a step"
        print(f"ours, {lanes:2} lanes:                    {speed:10,.0f}   {told}", flush=True)
    usual = Usual(train, "cuda")
    for _ in usual.train(check):
        pass
    recipe = dataclasses.replace(RECIPE, epochs=check)
    fitted = cu.fit(train, [cu.Lane("naive", seed) for seed in range(8)], recipe=recipe, test=test, device="cuda")
    errors = [result.top1_error for result in fitted.results if result.top1_error is not None]
    mean, spread = statistics.mean(errors), statistics.stdev(errors)
    reached = usual.error(test)
    print(f"error after {check} epochs: usual loop {reached:.2f}, ours {mean:.2f} ± {spread:.2f} (8 seeds)")
    assert abs(reached - mean) < max(3 * spread, 1), "the two loops do not train alike"


def on_cpu(dataset: cu.Dataset) -> None:
    """In turns; the fastest epoch of each, since whatever else runs on a machine only slows it down."""
    part = dataset.train.take(np.arange(0, len(dataset.train), max(len(dataset.train) // 1024, 1)))
    fastest = {"usual": 0.0, "as it is": 0.0, "with torch.compile": 0.0}
    for _ in range(5):
        fastest["usual"] = max(fastest["usual"], *Usual(part, "cpu").train(3))
        for name, images in (("as it is", 10**12), ("with torch.compile", 0)):
            train_step.COMPILED = images
            fastest[name] = max(fastest[name], ours(part, 1, 3, "cpu", max))
    for name in ("as it is", "with torch.compile"):
        print(f"ours, one lane, {name}: {fastest[name] / fastest['usual']:.2f} x the usual loop")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="data folder")
    parser.add_argument("--data", default="cifar10-lt:100")
    parser.add_argument("--epochs", type=int, default=4, help="of the measurements of speed")
    parser.add_argument("--check", type=int, default=20, help="epochs of the comparison of errors")
    arguments = parser.parse_args()
    warnings.simplefilter("error", RuntimeWarning)  # nothing may fall back unseen
    dataset = cu.load(arguments.data, root=arguments.root)
    if torch.cuda.is_available():
        on_gpu(dataset, arguments.epochs, arguments.check)
    else:
        on_cpu(dataset)
