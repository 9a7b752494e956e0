"""Loss: what the package's own loop minimises, for every row that has a loss of its own."""

import copy

import numpy as np
import pytest
import torch
from refusals import refused
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.integrations.method_parts import needs
from class_uncertainty.integrations.torch import CosineHead
from class_uncertainty.training.train_step import LossTensors

COUNTS, UNCERTAINTY, EPOCHS = [400, 90, 20, 5], [0.1, 0.7, 0.3, 0.5], 10
STATS = cu.Stats(COUNTS, UNCERTAINTY)
DRAWN = [name for name, method in cu.METHODS.items() if method.alpha and not needs(method)]
LOSSES = [name for name, method in cu.METHODS.items() if not method.alpha and not needs(method)]
NEITHER = [name for name, method in cu.METHODS.items() if needs(method)]
LABELS = np.repeat(np.arange(4), COUNTS)


def batch(rng: np.random.Generator, cosines: bool) -> tuple[torch.Tensor, torch.Tensor]:
    z = rng.uniform(-1, 1, (37, 4)) if cosines else rng.normal(0, 3, (37, 4))
    return torch.tensor(z, dtype=torch.float32), torch.tensor(rng.integers(0, 4, 37))


def own_loss(method: str, epoch: int, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """That of the package's own training loop."""
    lane = cu.Lane(method)
    objective = LossTensors([lane], 4, "cpu")
    objective.set([cu.plan(lane.value, STATS, epoch, EPOCHS)])
    return objective.loss(z[None], labels[None])[0]


@pytest.mark.parametrize("method", [*LOSSES, "cb-focal:beta=0.99@mix:gamma=0.3", "ubrw@cardinality^0.5"])
def test_it_is_the_loss_of_the_package_s_own_loop_in_every_epoch(method, rng):
    loss = cu.Loss(method, COUNTS, UNCERTAINTY, epochs=EPOCHS)
    for epoch in range(EPOCHS):
        z, labels = batch(rng, loss.head == "cosine")
        loss.set_epoch(epoch)
        (mine, own), gradients = (z.clone().requires_grad_() for _ in range(2)), []
        for values, value in ((mine, loss(mine, labels)), (own, own_loss(method, epoch, own, labels))):
            value.backward()
            gradients.append(values.grad)
        torch.testing.assert_close(loss(z, labels), own_loss(method, epoch, z, labels), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)
        parts = [(z[:5], labels[:5]), (z[5:], labels[5:])]  # add up to one large batch
        denominator = sum(loss.denominator(part) for _, part in parts)
        added = sum(loss.total(*part) for part in parts) / denominator
        torch.testing.assert_close(added, loss(z, labels), rtol=1e-5, atol=1e-6)


def test_every_row_has_its_place():
    """A loss, draws, or a sentence that says by name what is missing."""
    assert sorted([*LOSSES, *DRAWN, *NEITHER]) == sorted(cu.METHODS)
    acting = {name for name, method in cu.METHODS.items() if method.focal or method.weight or method.margin}
    assert acting | {"naive"} == set(LOSSES)
    assert {"cb-rs", "pb-rs", "power-rs", "ubrs", "pb-ubrs", "2s-cb-rs", "2s-pb-rs", "2s-ubrs"} == set(DRAWN)


@pytest.mark.parametrize("method", [*DRAWN, "naive"])
def test_rows_that_act_on_draws_have_a_sampler(method):
    options = {"uncertainty": UNCERTAINTY, "epochs": EPOCHS}
    sampler = cu.ClassSampler.for_method(method, LABELS, **options)
    for epoch in (0, EPOCHS - 1):
        sampler.set_epoch(epoch)
        expected = cu.plan(cu.METHODS[method], STATS, epoch, EPOCHS).alpha
        np.testing.assert_allclose(sampler.alpha, expected, rtol=1e-12)
    if method != "naive":
        with refused(f"'{method}'", "cu.ClassSampler.for_method"):
            cu.Loss(method, COUNTS, **options)


@pytest.mark.parametrize("method", [name for name in LOSSES if name != "naive"])
def test_rows_that_act_on_the_loss_have_no_sampler(method):
    with refused(f"'{method}'", "cu.Loss"):
        cu.ClassSampler.for_method(method, LABELS, uncertainty=UNCERTAINTY, epochs=EPOCHS)


@pytest.mark.parametrize("method", NEITHER)
def test_other_rows_are_refused_by_name_with_what_they_need(method):
    for make in (lambda: cu.Loss(method, COUNTS, UNCERTAINTY), lambda: cu.ClassSampler.for_method(method, LABELS)):
        with refused(f"'{method}' needs", "cu.fit"):
            make()


def test_naive_is_cross_entropy_and_others_their_closed_forms(rng):
    z, labels = batch(rng, False)
    torch.testing.assert_close(cu.Loss("naive", COUNTS)(z, labels), F.cross_entropy(z, labels))
    prior = torch.tensor(COUNTS, dtype=torch.float32).log()
    torch.testing.assert_close(cu.Loss("balanced-softmax", COUNTS)(z, labels), F.cross_entropy(z + prior, labels))
    weights = torch.tensor([1 / count for count in COUNTS])
    late = cu.Loss("2s-csce", COUNTS, epochs=10)
    torch.testing.assert_close(late(z, labels), F.cross_entropy(z, labels))
    late.set_epoch(9)
    torch.testing.assert_close(late(z, labels), F.cross_entropy(z, labels, weight=weights))


def test_logits_of_any_shape_and_half_precision_are_taken(rng):
    loss = cu.Loss("cb-focal", COUNTS)
    z, labels = batch(rng, False)
    torch.testing.assert_close(loss(z[:36].view(2, 18, 4), labels[:36].view(2, 18)), loss(z[:36], labels[:36]))
    assert loss(z.bfloat16(), labels).dtype == torch.float32
    assert loss(z.double(), labels).dtype == torch.float64


def test_it_moves_and_copies_with_a_network_and_leaves_no_trace_in_its_state():
    loss = cu.Loss("ubrw", COUNTS, UNCERTAINTY)
    network = torch.nn.ModuleDict({"body": torch.nn.Linear(2, 4), "loss": loss})
    assert not [name for name in network.state_dict() if name.startswith("loss")]
    moved = copy.deepcopy(network).to("meta")
    assert moved["loss"].weight.device.type == "meta"
    moved["loss"].set_epoch(3)
    assert moved["loss"].weight.device.type == "meta"


def test_ldam_takes_cosines_alone(rng):
    loss, head = cu.Loss("ldam", COUNTS), CosineHead(8, 4)
    torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(5, dtype=torch.int64)
    assert loss(head(torch.tensor(rng.normal(size=(5, 8)), dtype=torch.float32)), labels).item() > 0
    assert (loss.head, loss.scale.item()) == ("cosine", 30)
    with refused("'ldam'", "cosines", "CosineHead"):
        cu.Loss("ldam", COUNTS)(torch.full((5, 4), 3.0), labels)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: cu.Loss("ubrw", COUNTS), ["'ubrw'", "uncertainty="]),
        (lambda: cu.Loss("2s-csce", COUNTS), ["'2s-csce'", "epochs="]),
        (lambda: cu.Loss("2s-csce", COUNTS, epochs=0), ["epochs is 0"]),
        (lambda: cu.Loss("2s-csce", COUNTS, epochs=5).set_epoch(5), ["epoch is 5", "to 4"]),
        (lambda: cu.Loss("cbb", COUNTS), ["did you mean 'cb'"]),
        (lambda: cu.Loss("cb", [1, 0]), ["counts of class 1 is 0"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 3), torch.zeros(2).long()), ["(2, 3)", "(..., 4)"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 4), torch.zeros(3).long()), ["labels", "(3,)"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 4), torch.zeros(2)), ["labels", "float32"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 4), torch.tensor([0, 4])), ["label is 4", "0 to 3"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(0, 4), torch.zeros(0).long()), ["no examples"]),
    ],
)
def test_wrong_input_is_refused(make, parts):
    with refused(*parts):
        make()


def test_its_repr_says_what_it_minimises():
    assert repr(cu.Loss("2s-csce", [9, 4, 2], epochs=8)) == "Loss(method '2s-csce', 3 classes, linear head, 8 epochs)"
    assert repr(cu.Loss(cu.METHODS["ldam"], [9, 4, 2])) == "Loss(method 'ldam', 3 classes, cosine head)"
