"""The contracts of a loss: per example, stacked as in a loop, cross-entropy at rest, finite on huge logits."""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import torch
from contracts import Check, global_random_untouched, orders
from torch.nn import functional as F

Loss = Callable[..., torch.Tensor]  # z (..., C), targets (..., C), labels (...), gamma (...) -> (...)
GAMMAS = (0.0, 0.5, 1.0, 2.0)


def losses_of(module: ModuleType) -> dict[str, Loss]:
    """Every loss of the module by name: what takes logits and targets. One with `sigmoid` counts in both forms."""
    found: dict[str, Loss] = {}
    for name, function in inspect.getmembers(module, inspect.isfunction):
        names = inspect.signature(function).parameters.keys()
        if function.__module__ != module.__name__ or name.startswith("_") or not {"z", "targets"} <= names:
            continue
        if "sigmoid" in names:
            found |= {f"{name}[{form}]": _by_name(function, form == "sigmoid") for form in ("softmax", "sigmoid")}
        else:
            found[name] = _by_name(function)
    return found


def _by_name(function: Loss, sigmoid: bool = False) -> Loss:
    """The loss, called with those of the arguments it takes."""
    names = inspect.signature(function).parameters.keys()

    def loss(z: torch.Tensor, targets: torch.Tensor, labels: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
        given = {"z": z, "targets": targets, "labels": labels, "gamma": gamma, "sigmoid": torch.tensor(sigmoid)}
        return function(**{name: value for name, value in given.items() if name in names})

    return loss


def loss_checks(loss: Loss) -> Iterator[Check]:
    yield check_loss_is_per_example
    yield check_loss_at_rest_is_cross_entropy
    yield check_loss_ignores_the_order_of_the_batch
    yield check_loss_stacked_is_the_loop
    yield check_loss_gradient
    yield check_loss_is_finite_on_huge_logits


def batch(
    *shape: int, classes: int = 4, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits (*shape, C), one-hot targets (*shape, C), labels (*shape)."""
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(rng.integers(classes, size=shape))
    return torch.from_numpy(rng.normal(0, 3, (*shape, classes))).to(dtype), F.one_hot(labels, classes).to(dtype), labels


def each_gamma(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Iterator[torch.Tensor]:
    for gamma in GAMMAS:
        yield torch.full(shape, gamma, dtype=dtype)


def check_loss_is_per_example(loss: Loss) -> None:
    z, targets, labels = batch(9)
    for gamma in each_gamma((9,)):
        with global_random_untouched():
            values = loss(z, targets, labels, gamma)
        assert values.shape == (9,)
        assert (values >= 0).all()
        assert values.isfinite().all()


def check_loss_at_rest_is_cross_entropy(loss: Loss) -> None:
    """At gamma 0 it is torch's own, bit for bit."""
    for dtype in (torch.float32, torch.float64):
        z, targets, labels = batch(33, classes=10, dtype=dtype)
        assert torch.equal(
            loss(z, targets, labels, torch.zeros(33, dtype=dtype)), F.cross_entropy(z, labels, reduction="none")
        )


def check_loss_ignores_the_order_of_the_batch(loss: Loss) -> None:
    z, targets, labels = batch(9)
    gamma = torch.linspace(0, 2, 9, dtype=torch.float64)
    for order in map(torch.from_numpy, (o.copy() for o in orders(9))):
        torch.testing.assert_close(
            loss(z[order], targets[order], labels[order], gamma[order]), loss(z, targets, labels, gamma)[order]
        )


def check_loss_stacked_is_the_loop(loss: Loss) -> None:
    """Lanes at once, gamma (lanes, 1), and one lane at a time, gamma a number."""
    z, targets, labels = batch(4, 6)
    gamma = torch.tensor(GAMMAS, dtype=torch.float64)
    loop = torch.stack([loss(z[i], targets[i], labels[i], gamma[i]) for i in range(4)])
    torch.testing.assert_close(loss(z, targets, labels, gamma[:, None]), loop, rtol=1e-13, atol=1e-13)


def check_loss_gradient(loss: Loss) -> None:
    z, targets, labels = batch(5)
    for gamma in each_gamma((5,)):
        assert torch.autograd.gradcheck(
            lambda logits, g=gamma: loss(logits, targets, labels, g), (z.clone().requires_grad_(),)
        )


def check_loss_is_finite_on_huge_logits(loss: Loss) -> None:
    """p -> 1 and p -> 0: finite value and gradient, also where (1 - p) ** gamma has an infinite slope (gamma 0.5)."""
    pattern = [[1.0, -1, 0], [-1, 1, 0], [1, 1, 1], [0, 0, 1], [-1, -1, -1], [0, 0, 0]]
    labels = torch.tensor([0, 0, 1, 2, 1, 0])
    for dtype in (torch.float32, torch.float64):
        for size in (50.0, 200.0, 1e4, 1e30):
            for gamma in each_gamma((6,), dtype):
                z = (size * torch.tensor(pattern, dtype=dtype)).requires_grad_()
                values = loss(z, F.one_hot(labels, 3).to(dtype), labels, gamma)
                (gradient,) = torch.autograd.grad(values.sum(), z)
                assert values.isfinite().all()
                assert gradient.isfinite().all()
