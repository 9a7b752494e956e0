"""Centroids of DUQ: moving averages, classes that no batch holds, and what a trained head is certain of."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training.networks.rbf_stacks import DOUBLE, GAMMA, apart, in_double, lane_states, normal, stack_of

from class_uncertainty.training.networks.bodies import mlp
from class_uncertainty.training.networks.heads import PENALTY, gradient_penalty, initial_rbf_head, kernel_loss


def test_centroids_are_moving_averages(rng: np.random.Generator) -> None:
    """N_c and m_c of every lane and class, example by example, over several batches."""
    states = lane_states(rng, 3, 4, 5)
    head, expected = stack_of(states).double(), in_double(states)
    for _ in range(6):
        x, labels = normal(rng, 9, 12, dtype=DOUBLE), torch.from_numpy(rng.integers(0, 5, (3, 9)))
        head.update(x.requires_grad_(), labels)
        for state, fs, ys in zip(expected, apart(x.detach(), 3), labels, strict=True):
            for c in range(5):
                own = [state["weight"][4 * c : 4 * c + 4] @ f for f, y in zip(fs, ys, strict=True) if y == c]
                state["count"][c] = GAMMA * state["count"][c] + (1 - GAMMA) * len(own)
                state["total"][c] = GAMMA * state["total"][c] + (1 - GAMMA) * sum(own, torch.zeros(4, dtype=DOUBLE))
    for name, value in head.named_buffers():
        torch.testing.assert_close(value, torch.cat([state[name] for state in expected]), rtol=1e-12, atol=1e-13)
        assert not value.requires_grad


def test_updates_stay_in_place(rng: np.random.Generator) -> None:
    """A captured graph writes where it did; and a pass whose gradient is still to come is not disturbed."""
    head, x = stack_of(lane_states(rng, 2, 4, 3)), normal(rng, 8, 8)
    places = {name: value.data_ptr() for name, value in head.state_dict().items()}
    before, weight = head.total.clone(), head.weight.detach().clone()
    z = head(x)
    head.update(x, torch.zeros(2, 8, dtype=torch.int64))
    z.sum().backward()
    assert {name: value.data_ptr() for name, value in head.state_dict().items()} == places
    assert not torch.equal(head.total, before)
    assert torch.equal(head.weight, weight)


def test_a_class_that_no_batch_holds_keeps_its_centroid(rng: np.random.Generator) -> None:
    """Both its averages fade by the same factor; in another lane, and in other classes, centroids move."""
    head = stack_of(lane_states(rng, 2, 4, 3))
    start, count, total = head.total / head.count.unsqueeze(-1), head.count.clone(), head.total.clone()
    for _ in range(200):
        labels = torch.from_numpy(
            np.stack([rng.integers(0, 2, 16), rng.integers(1, 3, 16)])
        )  # lane 0 lacks class 2, lane 1 class 0
        head.update(normal(rng, 16, 8) + 1, labels)
        count[[2, 3]], total[[2, 3]] = count[[2, 3]] * GAMMA, total[[2, 3]] * GAMMA
    assert torch.equal(head.count[[2, 3]], count[[2, 3]])
    assert torch.equal(head.total[[2, 3]], total[[2, 3]])
    moved = (head.total / head.count.unsqueeze(-1) - start).abs().amax(dim=1)
    assert moved[[2, 3]].max() < 1e-6
    assert moved[[0, 1, 4, 5]].min() > 1e-3


def test_a_class_that_is_never_seen_does_not_vanish(rng: np.random.Generator) -> None:
    """100,000 steps would take N_c below the smallest number, and the whole lane with it."""
    head, labels = stack_of(lane_states(rng, 1, 4, 2)), torch.zeros(1, 8, dtype=torch.int64)
    start = head.total / head.count.unsqueeze(-1)
    with torch.no_grad():
        for value in (head.count, head.total):
            value[1] *= 1.5e-6 / 13
    for _ in range(1500):
        head.update(normal(rng, 8, 4), labels)
    assert 0.9e-6 < head.count[1] <= 1e-6
    torch.testing.assert_close(head.total[1] / head.count[1], start[1], rtol=1e-4, atol=0)
    head.update(torch.ones(8, 4), labels + 1)
    embedded = head.embed(torch.ones(1, 4))[0, 0, 1]
    torch.testing.assert_close(head.total[1] / head.count[1], embedded, rtol=1e-3, atol=1e-4)  # once seen, it is there


@pytest.mark.parametrize(("features", "classes"), [(64, 10), (32, 50)])
def test_the_initial_state(features: int, classes: int, rng: np.random.Generator) -> None:
    """W as torch's kaiming_normal_ makes one (size, C, D), and centroids of standard deviation 0.05 that thirteen
    examples hold."""
    state = initial_rbf_head(rng, features, classes)
    theirs = nn.init.kaiming_normal_(
        torch.empty(features, classes, features), generator=torch.Generator().manual_seed(0)
    )
    assert all(value.dtype == np.float32 for value in state.values())
    assert state["weight"].std() == pytest.approx(float(theirs.std()), rel=0.03)
    assert state["weight"].mean() == pytest.approx(
        0, abs=5 * float(state["weight"].std()) / state["weight"].size ** 0.5
    )
    assert (state["weight"] ** 4).mean() / (state["weight"] ** 2).mean() ** 2 == pytest.approx(3, rel=0.1)  # normal
    assert (state["count"] == 13).all()
    centroids = state["total"] / 13
    assert centroids.std() == pytest.approx(0.05, rel=0.1)
    assert centroids.mean() == pytest.approx(0, abs=5 * 0.05 / centroids.size**0.5)
    again, other = (
        initial_rbf_head(np.random.default_rng(20231114), features, classes),
        initial_rbf_head(rng, features, classes),
    )
    assert all(np.array_equal(value, again[name]) for name, value in state.items())
    assert not np.array_equal(state["weight"], other["weight"])


def test_it_is_certain_on_the_data_and_not_far_away(rng: np.random.Generator) -> None:
    """Two blobs, two lanes: after training the largest K is high on either blob and near zero anywhere far off."""
    lanes, centres = 2, np.array([[-1.5, 0], [1.5, 0]])
    body, head = (
        mlp((2,), lanes),
        stack_of([{n: torch.from_numpy(v) for n, v in initial_rbf_head(rng, 64, 2).items()} for _ in range(lanes)]),
    )
    with torch.no_grad():
        body[0].weight.copy_(normal(rng, lanes * 64, 2))
    optimiser = torch.optim.SGD([*body.parameters(), *head.parameters()], 0.05, 0.9, weight_decay=5e-4)

    def certainty(points: np.ndarray) -> tuple[Tensor, Tensor]:
        body.eval()
        with torch.no_grad():
            z = head(body(torch.from_numpy(points).float().repeat(1, lanes)))
        return z.exp().amax(dim=-1), z.argmax(dim=-1)

    for _ in range(150):
        labels = rng.integers(0, 2, (lanes, 64))
        points = centres[labels] + 0.3 * rng.standard_normal((lanes, 64, 2))  # (lanes, B, 2)
        x = torch.from_numpy(points.transpose(1, 0, 2).reshape(64, -1)).float().requires_grad_()
        body.train()
        z = head(body(x))
        targets = F.one_hot(torch.from_numpy(labels), 2).float()
        loss = kernel_loss(z, targets).mean(1) + PENALTY * gradient_penalty(x, z).mean(1)
        optimiser.zero_grad()
        loss.sum().backward()
        optimiser.step()
        body.eval()
        with torch.no_grad():
            head.update(body(x), torch.from_numpy(labels))
    held = rng.integers(0, 2, 200)
    near, predicted = certainty(centres[held] + 0.3 * rng.standard_normal((200, 2)))
    angles = np.linspace(0, 2 * np.pi, 100)
    far, _ = certainty(15 * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    assert (predicted == torch.from_numpy(held)).float().mean(dim=1).min() > 0.98
    assert near.mean(dim=1).min() > 0.7
    assert far.amax(dim=1).max() < 0.05
