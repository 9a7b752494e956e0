"""DRO-LT's loss against recipes.md 5 as a plain loop, and against the released code, which pairs examples with margins
wrongly."""

import math

import numpy as np
import pytest
import torch
from contracts import orders

from class_uncertainty.methods.losses import robust

pytestmark = pytest.mark.usefixtures("no_global_random")
CLASSES, SIZE, DEPTH = 5, 9, 3
MARGINS = [0.1, 0.7, 0.3, 1.5, 0.0]
LABELS = [3, 0, 1, 0, 3, 3, 1, 0, 0]  # classes 2 and 4 are not in the batch


def batch(*lanes, labels=LABELS, seed=0):
    """features (*lanes, B, D), labels (*lanes, B), centroids (*lanes, C, D), margins (*lanes, C)."""
    rng = np.random.default_rng(seed)
    return (
        torch.from_numpy(rng.normal(0, 1, (*lanes, SIZE, DEPTH))),
        torch.tensor(labels).expand(*lanes, SIZE),
        torch.from_numpy(rng.normal(0, 1, (*lanes, CLASSES, DEPTH))),
        torch.tensor(MARGINS, dtype=torch.float64).expand(*lanes, CLASSES),
    )


def reference(features, labels, centroids, margin):
    """(1 / classes in the batch) sum_c -mean_{z in c} log p(c, z), with l(c, z) = -(d(c, z) + eps_c [y_z = c])."""
    present, total = sorted(set(labels)), 0.0
    for c in present:
        exponents = [
            -(math.dist(centroids[c], z) + (margin[c] if y == c else 0)) for z, y in zip(features, labels, strict=True)
        ]
        log_sum = math.log(sum(math.exp(e) for e in exponents))
        own = [e - log_sum for e, y in zip(exponents, labels, strict=True) if y == c]
        total += -sum(own) / len(own)
    return total / len(present)


def plain(*tensors):
    return [part.tolist() for part in tensors]


def released(features, labels, centroids, margin):
    """losses.py of DRO-LT: entries of the mask (classes in the batch, batch) in row-major order, margins in the order
    of the batch."""
    classes = labels.unique()
    pairwise = -torch.cdist(centroids[classes], features)
    mask = classes[:, None] == labels[None]
    a = pairwise.clone()
    pairwise[mask] = a[mask] - margin[labels]
    log_p = pairwise - pairwise.exp().sum(dim=1, keepdim=True).log()
    return torch.stack([-log_p[i, labels == c].mean() for i, c in enumerate(classes)]).mean()


CASES = {
    "some classes": LABELS,
    "one class": [2] * SIZE,
    "every class": [0, 1, 2, 3, 4, 4, 3, 2, 1],
    "one of a class": [1, 0, 0, 0, 0, 0, 0, 0, 4],
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_loop(case):
    given = batch(labels=CASES[case])
    each = robust(*given)
    assert each.shape == (SIZE,)
    assert (each >= 0).all()
    assert each.sum().item() == pytest.approx(reference(*plain(*given)), rel=1e-13)


def test_each_example_has_its_share():
    """-log p of its own class, over how many of the class there are and how many classes."""
    features, labels, centroids, margin = batch()
    for i, (value, c) in enumerate(zip(robust(features, labels, centroids, margin).tolist(), LABELS, strict=True)):
        exponents = [
            -(math.dist(centroids[c], z) + (MARGINS[c] if y == c else 0)) for z, y in zip(features, LABELS, strict=True)
        ]
        log_p = exponents[i] - math.log(sum(map(math.exp, exponents)))
        assert value == pytest.approx(-log_p / LABELS.count(c) / 3, rel=1e-12)


def test_hand_computed():
    """Centroids at 0 and 3 of a line, an example of each class on its own, margins 1 and 0: log(1 + exp(-3 + 1)) and
    log(1 + exp(-3))."""
    features, centroids = torch.tensor([[3.0], [0.0]]), torch.tensor([[0.0], [3.0]])
    each = robust(features, torch.tensor([1, 0]), centroids, torch.tensor([1.0, 0.0]))
    np.testing.assert_allclose(each, [math.log1p(math.exp(-3)) / 2, math.log1p(math.exp(-2)) / 2], rtol=1e-5)


def test_gradients():
    """Through features and margins; centroids are given, and have one all the same."""
    features, labels, centroids, margin = batch()
    inputs = tuple(part.clone().requires_grad_() for part in (features, centroids, margin))
    assert torch.autograd.gradcheck(lambda f, c, m: robust(f, labels, c, m), inputs)


def test_order_of_the_batch_does_not_matter():
    features, labels, centroids, margin = batch()
    expected = robust(features, labels, centroids, margin)
    for order in (torch.from_numpy(o.copy()) for o in orders(SIZE)):
        torch.testing.assert_close(
            robust(features[order], labels[order], centroids, margin), expected[order], rtol=1e-13, atol=0
        )


def test_order_of_the_classes_does_not_matter():
    features, labels, centroids, margin = batch()
    expected = robust(features, labels, centroids, margin)
    for order in (torch.from_numpy(o.copy()) for o in orders(CLASSES)):
        moved = robust(features, order.argsort()[labels], centroids[order], margin[order])
        torch.testing.assert_close(moved, expected, rtol=1e-13, atol=0)


def test_stacked_is_the_loop():
    """Lanes with batches of other classes, and other margins."""
    features, _, centroids, margin = batch(4)
    labels = torch.tensor(list(CASES.values()))
    margin = margin * torch.arange(4).unsqueeze(-1)
    stacked = robust(features, labels, centroids, margin)
    assert stacked.shape == (4, SIZE)
    loop = torch.stack([robust(features[i], labels[i], centroids[i], margin[i]) for i in range(4)])
    torch.testing.assert_close(stacked, loop, rtol=1e-13, atol=1e-15)


def test_margins_of_classes_outside_the_batch_do_nothing():
    features, labels, centroids, margin = batch()
    moved = margin.clone()
    moved[[2, 4]] = 99.0
    assert torch.equal(robust(features, labels, centroids, moved), robust(features, labels, centroids, margin))


def test_a_margin_makes_the_loss_of_its_class_larger():
    features, labels, centroids, margin = batch()
    more = margin.clone()
    more[3] += 0.5
    grown = robust(features, labels, centroids, more) - robust(features, labels, centroids, margin)
    assert (grown[labels == 3] > 0).all()
    assert (grown[labels != 3] == 0).all()


@pytest.mark.parametrize("scale", [0.0, 1e3, 1e15])
def test_it_is_finite(scale):
    """Also on a centroid, where a distance has no slope, and far away, where the released code's sum of exp is 0."""
    features, labels, centroids, margin = (part.float() if part.is_floating_point() else part for part in batch())
    features = (scale * features).requires_grad_()
    each = robust(features, labels, centroids * (scale > 0), margin)
    each.sum().backward()
    assert each.isfinite().all()
    assert features.grad.isfinite().all()


# The released pairing.


def test_the_released_pairing_is_ours_on_a_sorted_batch():
    features, labels, centroids, margin = batch(labels=sorted(LABELS))
    assert robust(features, labels, centroids, margin).sum().item() == pytest.approx(
        released(features, labels, centroids, margin).item(), rel=1e-12
    )


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_the_released_pairing_is_ours_with_equal_margins(value):
    """So its learned margins, which start at 1, start out right."""
    features, labels, centroids, margin = batch()
    same = torch.full_like(margin, value)
    assert robust(features, labels, centroids, same).sum().item() == pytest.approx(
        released(features, labels, centroids, same).item(), rel=1e-12
    )


def test_the_released_pairing_is_wrong_otherwise():
    """A batch as it comes: another value for each order of the same examples, though the loss is of a set; ours is the
    sorted one's."""
    features, labels, centroids, margin = batch()
    by_label = labels.argsort(stable=True)
    ours, theirs = robust(features, labels, centroids, margin).sum(), released(features, labels, centroids, margin)
    assert abs(ours - theirs) > 1e-3
    assert ours.item() == pytest.approx(
        released(features[by_label], labels[by_label], centroids, margin).item(), rel=1e-12
    )
    found = [
        released(features[order], labels[order], centroids, margin).item() for order in (o.copy() for o in orders(SIZE))
    ]
    assert len({round(value, 9) for value in found}) == 3


def test_the_released_pairing_gives_examples_the_margins_of_others():
    """Its gradient reaches the margin of a class through examples of another."""
    features, labels, centroids, _ = batch(labels=[3, 0, 0, 0, 0, 0, 0, 0, 0])
    margin = torch.tensor(MARGINS, dtype=torch.float64).requires_grad_()
    for loss, right in (
        (robust(features, labels, centroids, margin).sum(), True),
        (released(features, labels, centroids, margin), False),
    ):
        (slope,) = torch.autograd.grad(loss, margin)
        alone = torch.tensor(MARGINS, dtype=torch.float64).requires_grad_()
        log_p = torch.log_softmax(
            -(torch.linalg.vector_norm(features - centroids[3], dim=-1) + alone[3] * (labels == 3)), dim=0
        )
        (expected,) = torch.autograd.grad(-log_p[0] / 2, alone)
        assert torch.allclose(slope[3], expected[3]) == right
