"""Losses against Eqs. 4 and 5 and the formulas of recipes.md 1.6, written out as plain loops in float64."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contracts import LONG_TAIL, orders, verify
from loss_contracts import GAMMAS, batch, loss_checks, losses_of
from method_contracts import with_stages
from torch.nn import functional as F

from class_uncertainty import METHODS, plan
from class_uncertainty.methods import losses
from class_uncertainty.methods.losses import adjust_logits, cross_entropy, per_example, reduce, softmax_focal

pytestmark = pytest.mark.usefixtures("no_global_random")
LOSSES, ROWS = losses_of(losses), with_stages(METHODS)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check.__name__}")
        for name, loss in LOSSES.items()
        for check in loss_checks(loss)
    ],
)
def test_contract(name, check):
    verify(name, check, LOSSES[name])


def test_every_loss_is_found():
    assert set(LOSSES) >= {
        "cross_entropy",
        "softmax_focal",
        "sigmoid_focal",
        "per_example[softmax]",
        "per_example[sigmoid]",
    }


# References: one example at a time, z and t plain lists.


def shifted(z, y, margin, divisor, beta, scale):
    """The exponents of Eq. 5: s_y - Delta_y, and s_k - beta Delta_k for the others; VS divides, LDAM scales."""
    return [scale * (z[k] / divisor[k] - margin[k] * (1 if k == y else beta)) for k in range(len(z))]


def softmax(z):
    powers = [math.exp(v - max(z)) for v in z]
    return [power / sum(powers) for power in powers]


def reference_cross_entropy(z, t):
    return -sum(share * math.log(p) for share, p in zip(t, softmax(z), strict=True) if share)


def reference_softmax_focal(z, t, y, gamma):
    return (1 - softmax(z)[y]) ** gamma * reference_cross_entropy(z, t)


def reference_sigmoid_focal(z, t, y, gamma):
    """sum_c m BCE with m = ((1 - p) y + p (1 - y)) ** gamma; y is the label, one-hot, whatever the target is."""
    total = 0.0
    for c, (logit, share) in enumerate(zip(z, t, strict=True)):
        p, own = 1 / (1 + math.exp(-logit)), float(c == y)
        bce = -(share * math.log(p) + (1 - share) * math.log(1 - p))
        total += ((1 - p) * own + p * (1 - own)) ** gamma * bce
    return total


def reference_reduce(values, weights, by_weights):
    return sum(w * v for w, v in zip(weights, values, strict=True)) / (sum(weights) if by_weights else len(values))


def reference_of(method, at, z, labels):
    """The loss of a batch (B, C) by a row of the table: Eq. 5, then focal, then Eq. 4."""
    values = []
    for row, y in zip(z, labels, strict=True):
        s = shifted(row, y, at.margin, at.divisor, at.beta, at.scale)
        t = [float(k == y) for k in range(len(s))]
        values.append(
            reference_sigmoid_focal(s, t, y, at.gamma) if at.sigmoid else reference_softmax_focal(s, t, y, at.gamma)
        )
    return reference_reduce(values, [at.weight[y] for y in labels], method.reduction == "weights")


def slope(function, z, step=1e-5):
    """Central differences of a function of an array, entry by entry."""
    gradient = np.zeros_like(z)
    for at in np.ndindex(z.shape):
        up, down = z.copy(), z.copy()
        up[at] += step
        down[at] -= step
        gradient[at] = (function(up) - function(down)) / (2 * step)
    return gradient


def tensor(values):
    return torch.as_tensor(np.asarray(values), dtype=torch.float64)


def torch_of(method, at, z, labels):
    """The same batch through the package."""
    s = adjust_logits(z, labels, tensor(at.margin), tensor(at.divisor), tensor([at.beta]), tensor([at.scale]))
    targets = F.one_hot(labels, z.shape[-1]).to(z.dtype)
    each = per_example(s, targets, labels, tensor(at.gamma), torch.tensor(at.sigmoid))
    return reduce(each, tensor(at.weight)[labels], torch.tensor(method.reduction == "weights"))


@pytest.mark.parametrize("epoch", [2, 4], ids="epoch{}".format)
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.head != "rbf"])
def test_the_loss_of_every_row(name, epoch, rng):
    """Values and gradients against the loops; cosine heads have logits in [-1, 1], then the scale of 30. DUQ has no
    logits."""
    method, at = ROWS[name], plan(ROWS[name], LONG_TAIL, epoch, 5)
    if method.level == "features":
        at = replace(at, margin=np.zeros(10))  # those are `robust`'s
    logits = rng.uniform(-1, 1, (6, 10)) if method.head == "cosine" else rng.normal(0, 2, (6, 10))
    labels = np.array([0, 9, 3, 3, 5, 8])
    z = tensor(logits).requires_grad_()
    value = torch_of(method, at, z, torch.from_numpy(labels))
    value.backward()
    assert value.item() == pytest.approx(reference_of(method, at, logits, labels), rel=1e-12)
    np.testing.assert_allclose(
        z.grad, slope(lambda v: reference_of(method, at, v, labels), logits), rtol=1e-5, atol=1e-8
    )


MARGIN, DIVISOR = [0.5, 0.2, 0.05, 0.3], [1.0, 1.5, 2.0, 1.2]


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_adjusted_logits(beta, scale):
    z, _, labels = batch(5)
    adjusted = adjust_logits(z, labels, tensor(MARGIN), tensor(DIVISOR), tensor([beta]), tensor([scale]))
    expected = [
        shifted(row, y, MARGIN, DIVISOR, beta, scale) for row, y in zip(z.tolist(), labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(adjusted, expected, rtol=1e-14)
    logits = z.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: adjust_logits(v, labels, tensor(MARGIN), tensor(DIVISOR), tensor([beta]), tensor([scale])), (logits,)
    )


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_equation_5(beta):
    """The probability of the own class, as the paper writes it."""
    z, targets, labels = batch(5)
    adjusted = adjust_logits(
        z, labels, tensor(MARGIN), torch.ones(4, dtype=torch.float64), tensor([beta]), tensor([1.0])
    )
    for s, c, value in zip(z.tolist(), labels.tolist(), cross_entropy(adjusted, targets).tolist(), strict=True):
        own = math.exp(s[c] - MARGIN[c])
        others = sum(math.exp(s[k] - MARGIN[k] * beta) for k in range(4) if k != c)
        assert value == pytest.approx(-math.log(own / (own + others)), rel=1e-12)


def test_adjusted_logits_at_rest_are_the_logits():
    z, _, labels = batch(5)
    at_rest = adjust_logits(z, labels, torch.zeros(4), torch.ones(4), torch.zeros(1), torch.ones(1))
    assert torch.equal(at_rest, z)


def test_adjusted_logits_stacked_is_the_loop():
    z, _, labels = batch(3, 5)
    margin, divisor = tensor([MARGIN, MARGIN[::-1], [0.0] * 4]), tensor([DIVISOR, [1.0] * 4, DIVISOR[::-1]])
    beta, scale = tensor([0.0, 1.0, 1.0]), tensor([30.0, 1.0, 2.0])
    stacked = adjust_logits(z, labels, margin[:, None], divisor[:, None], beta.view(3, 1, 1), scale.view(3, 1, 1))
    loop = [adjust_logits(z[i], labels[i], margin[i], divisor[i], beta[i : i + 1], scale[i : i + 1]) for i in range(3)]
    assert torch.equal(stacked, torch.stack(loop))


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_softmax_focal(gamma, scale):
    z, targets, labels = batch(8)
    z = z * scale
    expected = [
        reference_softmax_focal(*row, gamma) for row in zip(z.tolist(), targets.tolist(), labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(softmax_focal(z, targets, labels, tensor(gamma)), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_sigmoid_focal(gamma):
    z, targets, labels = batch(8)
    expected = [
        reference_sigmoid_focal(*row, gamma) for row in zip(z.tolist(), targets.tolist(), labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(LOSSES["sigmoid_focal"](z, targets, labels, tensor(gamma)), expected, rtol=1e-9)


def test_sigmoid_focal_at_gamma_0_is_binary_cross_entropy():
    z, targets, labels = batch(8)
    expected = F.binary_cross_entropy_with_logits(z, targets, reduction="none").sum(dim=-1)
    assert torch.equal(LOSSES["sigmoid_focal"](z, targets, labels, tensor(0.0)), expected)


def test_hand_computed_focal():
    """Two logits 0, 0: p = 1/2 in both forms, (1/2) ** 2 log 2 once for the softmax, twice for the sigmoids."""
    z, targets, labels = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    assert softmax_focal(z, targets, labels, torch.tensor(2.0)).item() == pytest.approx(math.log(2) / 4)
    assert LOSSES["sigmoid_focal"](z, targets, labels, torch.tensor(2.0)).item() == pytest.approx(math.log(2) / 2)


def test_per_example_picks_the_form_of_each_lane():
    z, targets, labels = batch(4, 6)
    gamma, sigmoid = tensor([0.0, 2.0, 0.5, 1.0])[:, None], torch.tensor([False, True, True, False])[:, None]
    picked = per_example(z, targets, labels, gamma, sigmoid)
    for i in range(4):
        form = LOSSES["sigmoid_focal"] if sigmoid[i] else softmax_focal
        torch.testing.assert_close(picked[i], form(z[i], targets[i], labels[i], gamma[i]))


# Soft targets: mixup's and a teacher's.


def soft_targets(kind, labels):
    if kind == "mixup":  # less than half of some examples is their own label
        other, part = F.one_hot(labels.roll(1), 4), torch.linspace(0.3, 1, len(labels), dtype=torch.float64)[:, None]
        return part * F.one_hot(labels, 4) + (1 - part) * other
    return tensor(np.random.default_rng(5).dirichlet(np.ones(4), size=len(labels)))


@pytest.mark.parametrize("kind", ["mixup", "teacher"])
def test_cross_entropy_of_distributions(kind):
    z, _, labels = batch(7)
    t = soft_targets(kind, labels)
    np.testing.assert_allclose(
        cross_entropy(z, t),
        [reference_cross_entropy(*row) for row in zip(z.tolist(), t.tolist(), strict=True)],
        rtol=1e-12,
    )
    torch.testing.assert_close(cross_entropy(z, t), F.cross_entropy(z, t, reduction="none"))


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", ["mixup", "teacher"])
@pytest.mark.parametrize("form", ["softmax", "sigmoid"])
def test_focal_of_distributions_acts_on_the_label(form, kind, gamma):
    """design.md: margins, weights and focal act on the labels behind the targets as before."""
    z, _, labels = batch(7)
    t = soft_targets(kind, labels)
    reference = reference_sigmoid_focal if form == "sigmoid" else reference_softmax_focal
    expected = [reference(*row, gamma) for row in zip(z.tolist(), t.tolist(), labels.tolist(), strict=True)]
    np.testing.assert_allclose(LOSSES[f"per_example[{form}]"](z, t, labels, tensor(gamma)), expected, rtol=1e-9)


# The reduction.

WEIGHTS = [0.4, 0.7, 1.1, 1.8]


def test_reduction_by_weights_is_torchs():
    z, targets, labels = batch(9)
    w = tensor(WEIGHTS)
    ours = reduce(cross_entropy(z, targets), w[labels], torch.tensor(True))
    assert ours.item() == pytest.approx(F.cross_entropy(z, labels, weight=w).item(), rel=1e-14)


def test_reduction_by_the_mean_is_equation_4():
    z, targets, labels = batch(9)
    w, each = tensor(WEIGHTS), cross_entropy(z, targets)
    expected = sum(WEIGHTS[y] * value for y, value in zip(labels.tolist(), each.tolist(), strict=True)) / 9
    assert reduce(each, w[labels], torch.tensor(False)).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("by_weights", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_at_rest_it_is_cross_entropy(dtype, by_weights):
    """Exactly for each example; the mean within the rounding of a sum."""
    z, targets, labels = batch(128, classes=10, dtype=dtype)
    s = adjust_logits(z, labels, torch.zeros(10), torch.ones(10), torch.zeros(1), torch.ones(1))
    each = per_example(s, targets, labels, torch.zeros(128, dtype=dtype), torch.tensor(False))
    assert torch.equal(each, F.cross_entropy(z, labels, reduction="none"))
    mean = reduce(each, torch.ones(128, dtype=dtype), torch.tensor(by_weights))
    assert mean.item() == pytest.approx(F.cross_entropy(z, labels).item(), rel=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("by_weights", [False, True])
def test_reduction_ignores_the_order_of_the_batch(by_weights):
    z, targets, labels = batch(9)
    w, each = tensor(WEIGHTS)[labels], cross_entropy(z, targets)
    for order in orders(9):
        moved = torch.from_numpy(order.copy())
        torch.testing.assert_close(
            reduce(each[moved], w[moved], torch.tensor(by_weights)), reduce(each, w, torch.tensor(by_weights))
        )


def test_reduction_stacked_is_the_loop():
    """A lane by the mean beside one by its weights."""
    z, targets, labels = batch(2, 6)
    each, w, by = cross_entropy(z, targets), tensor(WEIGHTS)[labels], torch.tensor([False, True])
    stacked = reduce(each, w, by)
    assert stacked.shape == (2,)
    torch.testing.assert_close(stacked, torch.stack([reduce(each[i], w[i], by[i]) for i in range(2)]))


@pytest.mark.parametrize("by_weights", [False, True])
def test_reduction_gradient(by_weights):
    z, targets, labels = batch(5)
    w = tensor(WEIGHTS)[labels]
    assert torch.autograd.gradcheck(
        lambda v: reduce(cross_entropy(v, targets), w, torch.tensor(by_weights)), (z.requires_grad_(),)
    )


# Where plain formulas break.


def test_softmax_focal_of_a_sure_prediction_is_not_rounded_to_the_wrong_side():
    """gamma 0.5 at 1 - p = exp(-20): sqrt(1 - p) and -log p, from log1p and exp alone."""
    z, targets, labels = tensor([[20.0, 0.0]]), tensor([[1.0, 0.0]]), torch.tensor([0])
    rest = math.exp(-20) / (1 + math.exp(-20))
    assert softmax_focal(z, targets, labels, tensor(0.5)).item() == pytest.approx(
        math.sqrt(rest) * math.log1p(math.exp(-20)), rel=1e-6
    )


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_sure_and_wrong_prediction_costs_its_logit(gamma):
    """p -> 0: the modulating factor is 1 and the loss the gap of the logits, in both forms."""
    z, targets, labels = tensor([[-1e4, 1e4]]), tensor([[1.0, 0.0]]), torch.tensor([0])
    assert softmax_focal(z, targets, labels, tensor(gamma)).item() == pytest.approx(2e4)
    assert LOSSES["sigmoid_focal"](z, targets, labels, tensor(gamma)).item() == pytest.approx(2e4)


def test_a_sure_and_right_prediction_costs_nothing_in_either_form():
    z, targets, labels = tensor([[1e4, -1e4]]), tensor([[1.0, 0.0]]), torch.tensor([0])
    for gamma in GAMMAS:
        assert softmax_focal(z, targets, labels, tensor(gamma)).item() == 0
        assert LOSSES["sigmoid_focal"](z, targets, labels, tensor(gamma)).item() == 0


@pytest.mark.parametrize("sigmoid", [False, True])
def test_the_form_not_picked_spoils_no_gradient(sigmoid):
    """torch.where passes a NaN of the other branch on; there must be none."""
    z = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    labels = torch.tensor([0, 0])
    per_example(z, F.one_hot(labels, 3).float(), labels, torch.tensor(0.5), torch.tensor(sigmoid)).sum().backward()
    assert z.grad.isfinite().all()
