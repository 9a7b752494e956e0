"""OnlineUncertainty: the estimator "online" in anyone's loop."""

import numpy as np
import pytest
import torch
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.integrations.torch import WithIndex
from class_uncertainty.training.train_step import StepProgram

LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.0, 0.0], [0.0, 3.0, 0.0], [1.0, 1.0, 4.0]])


def test_it_is_the_mean_over_the_epochs(rng):
    """Against NumPy's softmax and entropy, with draws that repeat within a batch."""
    draws = [rng.integers(0, 4, 10) for _ in range(5)]
    labels, online = np.array([0, 1, 2, 0]), cu.OnlineUncertainty(5, 3)
    logits = [rng.normal(size=(10, 3)) for _ in draws]
    for order, z in zip(draws, logits, strict=True):
        online.update(order, torch.tensor(z), torch.tensor(labels[order]))
    order, z = np.concatenate(draws), np.concatenate(logits)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    mean = np.stack([p[order == i].mean(axis=0) for i in range(4)])
    entropy = -(p * np.log(p)).sum(axis=1)
    estimate = online.estimate()
    np.testing.assert_allclose(estimate.probabilities[0], mean, rtol=1e-5)
    np.testing.assert_allclose(estimate.uncertainty, 1 - mean[np.arange(4), labels], rtol=1e-5)
    aleatoric = [entropy[order == i].mean() for i in range(4)]
    np.testing.assert_allclose(estimate.using("aleatoric").uncertainty, aleatoric, rtol=1e-5)
    wrong = 1 - mean[np.arange(4), labels]
    raw = np.array([(wrong[0] + wrong[3]) / 2, wrong[1], wrong[2]])
    np.testing.assert_allclose(online.mu, raw / raw.sum(), rtol=1e-5)
    np.testing.assert_allclose(online.stats.uncertainty, raw, rtol=1e-5)
    assert online.stats.counts.tolist() == [2, 1, 1]  # the fifth example was never drawn


def test_it_is_what_the_package_s_own_loop_gathers(digits, monkeypatch):
    train = cu.Data(digits.train.inputs.reshape(len(digits.train), -1).astype(np.float32), digits.train.labels)
    online, gather = cu.OnlineUncertainty(len(train), 10), StepProgram._gather

    def both(program, z, order):
        online.update(order[0], z[0].detach(), train.labels[order[0].numpy()])
        gather(program, z, order)

    monkeypatch.setattr(StepProgram, "_gather", both)
    monkeypatch.setattr(StepProgram, "_compile", lambda _: None)
    recipe = cu.Recipe("linear", epochs=3, batch=32)
    own = cu.estimate(train, "online", recipe=recipe, device="cpu")
    np.testing.assert_allclose(online.estimate().mu, own.mu, rtol=1e-5)
    for score in ("true-class", "predictive", "epistemic"):
        mine = online.estimate().using(score).uncertainty
        np.testing.assert_allclose(mine, own.using(score).uncertainty, rtol=1e-4, atol=1e-6)


def test_it_goes_on_from_a_state():
    first, second = cu.OnlineUncertainty(4, 3), cu.OnlineUncertainty(4, 3)
    first.update([0, 1], LOGITS[:2], [0, 1])
    second.load_state_dict(first.state_dict())
    for online in (first, second):
        online.update([2, 3], LOGITS[2:], [2, 2])
    assert np.array_equal(first.mu, second.mu)
    assert np.array_equal(first.across_processes().mu, first.mu)  # of one process
    before = first.mu
    with refused("the state", "4 examples", "3 classes"):
        first.load_state_dict(cu.OnlineUncertainty(4, 2).state_dict())
    assert np.array_equal(first.mu, before)


def test_asking_changes_nothing():
    online = cu.OnlineUncertainty(4, 3)
    online.update([0, 1, 2, 3], LOGITS, [0, 1, 2, 2])
    before = online.mu
    assert np.array_equal(online.mu, before)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: cu.OnlineUncertainty(0, 3), ["n is 0"]),
        (lambda: cu.OnlineUncertainty(4, 1), ["classes is 1"]),
        (lambda: cu.OnlineUncertainty(4, 3).mu, ["update()"]),
        (lambda: cu.OnlineUncertainty(4, 3).update([0], LOGITS, [0]), ["indices", "4 rows"]),
        (lambda: cu.OnlineUncertainty(3, 3).update([0, 1, 2, 3], LOGITS, [0, 1, 2, 2]), ["indices hold 3", "to 2"]),
        (lambda: cu.OnlineUncertainty(4, 3).update([0, 1, 2, 3], LOGITS, [0, 1, 2, 3]), ["labels hold 3", "to 2"]),
        (lambda: cu.OnlineUncertainty(4, 4).update([0, 1, 2, 3], LOGITS, [0, 1, 2, 3]), ["(4, 3)", "(B, 4)"]),
    ],
)
def test_wrong_input_is_refused(make, parts):
    with refused(*parts):
        make()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_logits_without_a_softmax_are_refused_and_nothing_changes(wrong):
    online = cu.OnlineUncertainty(4, 3)
    online.update([0, 1], LOGITS[:2], [0, 1])
    before, logits = online.state_dict(), LOGITS.clone()
    logits[2, 1] = wrong
    with refused("the logits of example 3 are", str(wrong), "finite"):
        online.update([1, 0, 3, 2], logits, [1, 0, 2, 2])
    assert all(torch.equal(tensor, before[name]) for name, tensor in online.state_dict().items())
    assert repr(online) == "OnlineUncertainty(4 examples, 3 classes, 2 examples drawn)"
    logits[2, 1] = -float("inf")  # a class that is ruled out has the probability 0
    online.update([1, 0, 3, 2], logits, [1, 0, 2, 2])
    assert np.isfinite(online.estimate().uncertainty).all()


def test_an_index_that_changes_its_label_is_refused():
    online = cu.OnlineUncertainty(4, 3)
    online.update([0, 1], LOGITS[:2], [0, 1])
    with refused("example 1", "label 1", "now has 2"):
        online.update([1], LOGITS[:1], [2])


def test_a_class_that_was_never_drawn_is_named():
    online = cu.OnlineUncertainty(4, 3)
    online.update([0, 1], LOGITS[:2], [0, 1])
    with refused("class 2"):
        _ = online.mu


def test_items_say_their_index():
    assert WithIndex([("x", 1)])[0] == (0, ("x", 1))
    assert WithIndex([{"x": 1}])[0] == {"x": 1, "index": 0}
