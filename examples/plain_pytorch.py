"""Class uncertainty in a plain PyTorch loop: measure it in one training, then train with it.

The first training is naive and gathers how uncertain each example is. The second weighs the loss by the uncertainty of
the classes, the third draws by it. Run it with `python examples/plain_pytorch.py`.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import class_uncertainty as cu
from class_uncertainty.integrations.torch import WithIndex

EPOCHS = 10


def train(data, sampler: cu.ClassSampler, loss: cu.Loss, online: cu.OnlineUncertainty | None = None) -> nn.Module:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    loader = DataLoader(WithIndex(data), batch_size=32, sampler=sampler)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        loss.set_epoch(epoch)
        for index, (images, labels) in loader:
            logits = network(images)
            if online is not None:
                online.update(index, logits, labels)
            optimiser.zero_grad()
            loss(logits, labels).backward()
            optimiser.step()
    return network.eval()


def class_mean_error(network: nn.Module, test: cu.Data) -> float:
    with torch.no_grad():
        wrong = network(torch.tensor(test.inputs) / 255).argmax(dim=1).numpy() != test.labels
    return sum(100 * wrong[test.labels == c].mean() for c in range(10)) / 10


def main() -> None:
    digits = cu.load("digits-lt:20")
    labels = torch.tensor(digits.train.labels)
    data = TensorDataset(torch.tensor(digits.train.inputs) / 255, labels)
    natural, online = cu.ClassSampler(labels), cu.OnlineUncertainty(len(data), classes=10)

    network = train(data, natural, cu.Loss("naive", natural.counts), online)
    print("examples by class:", natural.counts.tolist())
    print("uncertainty by class:", online.mu.round(3).tolist())
    print(f"class-mean error, naive: {class_mean_error(network, digits.test):.1f} %")

    stats = online.stats
    network = train(data, natural, cu.Loss("ubrw", stats.counts, stats.uncertainty))
    print(f"class-mean error, loss weighed by uncertainty: {class_mean_error(network, digits.test):.1f} %")

    drawn = cu.ClassSampler.for_method("pb-ubrs", labels, uncertainty=stats.uncertainty, epochs=EPOCHS)
    network = train(data, drawn, cu.Loss("naive", stats.counts))
    print(f"class-mean error, drawn by uncertainty: {class_mean_error(network, digits.test):.1f} %")


if __name__ == "__main__":
    main()
