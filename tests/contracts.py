"""The contracts of design.md as checks. A check takes one row and raises AssertionError where the row breaks a promise.

For a row of your own:

    for check in measure_checks(my_measure):
        check(my_measure)

`measure_checks`, `method_checks` and `loss_checks` yield the checks that apply. Where a row of the package breaks one
for a good reason, the reason stands in EXCEPTIONS; the tests then demand that it does break it.
"""

import inspect
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from class_uncertainty.errors import InputError
from class_uncertainty.measures import Measure, Stats, normalise
from class_uncertainty.measures.scores import class_uncertainty
from class_uncertainty.methods import METHODS, Knob, Method, Plan, plan

Check = Callable[[Any], None]

LONG_TAIL = Stats(
    [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100], [0.02, 0.03, 0.25, 0.61, 0.2, 0.3, 0.08, 0.11, 0.13, 0.4]
)
UNORDERED = Stats([40, 7, 300], [0.5, 0.9, 0.1])
TWO = Stats([2, 900], [0.3, 0.6])
EXAMPLES = (LONG_TAIL, UNORDERED, TWO)
EQUAL = (Stats([60] * 7), Stats([5] * 3), Stats([5000] * 10))
EPOCHS = (1, 2, 7, 40)
TAU = 0.5

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("uniform", "check_measure_falls_as_counts_grow"): "the same for every class by definition",
    ("uniform", "check_measure_moves_with_duplicates"): "it does not look at the data",
    ("mix", "check_measure_unmoved_by_duplicates"): "half of it is the effective number, which counts duplicates",
    ("product", "check_measure_unmoved_by_duplicates"): "one of its factors is 1 / N_c, which counts duplicates",
    ("geometric", "check_measure_unmoved_by_duplicates"): "one of its factors is 1 / N_c, which counts duplicates",
    ("2s-focal", "check_weights_sum_to_the_classes"): "Bag-of-Tricks weighs by N_min / N_c, which is 1 at most",
    ("2s-focal", "check_first_stage_is_naive"): "Bag-of-Tricks has the focal loss in both stages",
    ("2s-cb-focal", "check_first_stage_is_naive"): "Bag-of-Tricks has the focal loss in both stages",
    ("2s-ubrw-focal", "check_first_stage_is_naive"): "as its counterpart 2s-cb-focal: the focal loss in both stages",
    ("2s-cb-focal-softmax", "check_first_stage_is_naive"): "as 2s-cb-focal: the focal loss in both stages",
    ("2s-ubrw-focal-softmax", "check_first_stage_is_naive"): "as 2s-cb-focal: the focal loss in both stages",
    ("balanced-softmax", "check_margin_within_tau"): "its margin is -log prior as it is, for all logits",
    ("logit-adjust", "check_margin_within_tau"): "its margin is -log prior as it is, for all logits",
    ("vs", "check_margin_within_tau"): "its margin is -log prior as it is, for all logits",
    (
        "ldam-rw",
        "check_using_the_same_vector",
    ): "margins and weights follow two measures: one vector cannot stand for both",
    (
        "ubm-ldam-cbrw",
        "check_using_the_same_vector",
    ): "margins and weights follow two measures: one vector cannot stand for both",
    ("vs", "check_using_the_same_vector"): "margins and divisors follow two measures: one vector cannot stand for both",
    ("sigmoid_focal", "check_loss_at_rest_is_cross_entropy"): "at gamma 0 it is the sum of binary cross entropies",
    (
        "per_example[sigmoid]",
        "check_loss_at_rest_is_cross_entropy",
    ): "at gamma 0 it is the sum of binary cross entropies",
}


def verify(name: str, check: Check, row: Any) -> None:
    """Run a check; where an exception is declared for the row, the check must fail: no reason outlives its cause."""
    reason = EXCEPTIONS.get((name, check.__name__))
    if reason is None:
        check(row)
        return
    try:
        check(row)
    except AssertionError:
        return
    raise AssertionError(f"{name!r} passes {check.__name__}: its exception ({reason}) can go.")


@contextmanager
def global_random_untouched() -> Iterator[None]:
    """What runs inside leaves the random states of Python, NumPy and torch (where it is loaded) as they were."""
    before = _global_random()
    yield
    after = _global_random()
    assert after[:2] == before[:2], "the global random state of Python or NumPy has moved"
    assert before[2] is None or torch.equal(before[2], after[2]), "the global random state of torch has moved"


def _global_random() -> tuple[Any, bytes, Any]:
    kind, keys, *rest = np.random.get_state()
    return (
        random.getstate(),
        repr((kind, rest)).encode() + keys.tobytes(),
        torch.get_rng_state() if "torch" in sys.modules else None,
    )


def shuffled(stats: Stats, order: Any) -> Stats:
    """The same classes in another order."""
    return Stats(stats.counts[order], None if stats.uncertainty is None else stats.uncertainty[order])


def orders(classes: int) -> list[np.ndarray]:
    """A reversal and two shuffles."""
    return [np.arange(classes)[::-1], *(np.random.default_rng(i).permutation(classes) for i in range(2))]


def _refusal(call: Callable[[], object]) -> str:
    """What the call says when it refuses; it must refuse."""
    try:
        call()
    except InputError as error:
        return str(error)
    raise AssertionError("it was not refused")


def _close(actual: Any, expected: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# Measures


def measure_checks(measure: Measure) -> Iterator[Check]:
    yield check_measure_is_a_positive_vector
    yield check_measure_follows_a_permutation
    yield check_measure_normalises
    yield check_measure_is_pure
    if measure.uses_uncertainty:
        yield check_measure_asks_for_uncertainty
        yield check_measure_unmoved_by_duplicates
    else:
        yield check_measure_needs_counts_only
        yield check_measure_falls_as_counts_grow
        yield check_measure_moves_with_duplicates


def check_measure_is_a_positive_vector(measure: Measure) -> None:
    for stats in EXAMPLES:
        mu = measure(stats)
        assert mu.shape == stats.counts.shape
        assert mu.dtype == np.float64
        assert np.isfinite(mu).all()
        assert (mu > 0).all()


def check_measure_follows_a_permutation(measure: Measure) -> None:
    for stats in EXAMPLES:
        for order in orders(len(stats.counts)):
            _close(measure(shuffled(stats, order)), measure(stats)[order])


def check_measure_normalises(measure: Measure) -> None:
    for stats in EXAMPLES:
        mu = normalise(measure(stats))
        _close(mu.sum(), 1.0)
        _close(mu * measure(stats).sum(), measure(stats))


def check_measure_is_pure(measure: Measure) -> None:
    counts, uncertainty = np.array([40.0, 7.0, 300.0]), np.array([0.5, 0.9, 0.1])
    stats = Stats(counts, uncertainty)
    with global_random_untouched():
        first = np.array(measure(stats))
        counts[:], uncertainty[:] = 1, 1  # the Stats keep their own
        assert np.array_equal(measure(stats), first)
    assert np.array_equal(measure(UNORDERED), first)


def check_measure_asks_for_uncertainty(measure: Measure) -> None:
    message = _refusal(lambda: measure(Stats([40, 7, 300])))
    assert measure.name in message
    assert "uncertaint" in message


def check_measure_needs_counts_only(measure: Measure) -> None:
    for stats in EXAMPLES:
        assert np.array_equal(measure(Stats(stats.counts)), measure(stats))


def check_measure_falls_as_counts_grow(measure: Measure) -> None:
    """IF1: with one more example the measure of a class falls; with fewer than another class it is the higher one."""
    for stats in EXAMPLES:
        for c in range(len(stats.counts)):
            more = stats.counts.copy()
            more[c] += 1
            assert measure(Stats(more))[c] < measure(stats)[c]
        assert (np.diff(measure(stats)[np.argsort(stats.counts)]) < 0).all()


def check_measure_moves_with_duplicates(measure: Measure) -> None:
    """Counts cannot tell a duplicate from a new example: that is what IF2 holds against them."""
    for stats in EXAMPLES:
        doubled = stats.counts * np.where(np.arange(len(stats.counts)) == 0, 2, 1)
        assert normalise(measure(Stats(doubled)))[0] < normalise(measure(stats))[0] - 1e-5


def check_measure_unmoved_by_duplicates(measure: Measure) -> None:
    """IF2: at a fixed model, duplicates of examples change nothing."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(4, 0.4), size=(5, 30))  # (T, N, C)
    labels = np.arange(30) % 4
    times = np.array([1, 2, 5, 17])[labels]  # the same factor for all examples of a class, so that class means stay
    once, often = (
        Stats(np.bincount(y), class_uncertainty(q, y))
        for q, y in ((p, labels), (np.repeat(p, times, axis=1), np.repeat(labels, times)))
    )
    assert not np.array_equal(once.counts, often.counts)
    _close(measure(often), measure(once))


# Methods


def with_stages(rows: dict[str, Method]) -> dict[str, Method]:
    """The rows and the stages behind them, "crt/1" and so on: each is a training with plans of its own."""
    return {
        name if number == 0 else f"{name}/{number}": method
        for name, row in rows.items()
        for number, method in enumerate(row.stages)
    }


def method_checks(name: str, method: Method) -> Iterator[Check]:
    """Of a row, or of a stage behind a row, whose name has a slash: it has no counterpart but the row's."""
    yield check_plan_units
    yield check_weights_sum_to_the_classes
    yield check_plan_natural
    yield check_plan_follows_a_permutation
    yield check_plan_is_pure
    if method.knobs:
        yield check_knobs_reach_their_target
        yield check_swapping_for_the_same_vector
    if any(free(each) for each in method.stages):
        yield check_using_the_same_vector
        yield check_using_reaches_every_knob
    else:
        yield check_using_is_refused
    if method.uses_uncertainty:
        yield check_method_asks_for_uncertainty
    else:
        yield check_equal_counts_sample_and_weigh_naively
        if method.margin:
            yield check_equal_counts_have_equal_margins
    if method.uses_uncertainty and "/" not in name:
        yield check_uncertainty_row_has_a_counterpart
    if method.margin and method.level == "logits":
        yield check_margin_within_tau
    if name.startswith("2s-") and "/" not in name:
        yield check_first_stage_is_naive


def free(method: Method) -> dict[str, Knob]:
    """The knobs that another measure may drive."""
    return {name: knob for name, knob in method.knobs.items() if not knob.fixed}


@cache
def plans(method: Method, examples: tuple[Stats, ...] = EXAMPLES) -> list[tuple[Stats, int, int, Plan]]:
    """(stats, epoch, epochs, plan) over the examples and over every epoch of short and long trainings."""
    spans = [(stats, epochs) for stats in examples for epochs in EPOCHS]
    return [
        (stats, epoch, epochs, plan(method, stats, epoch, epochs)) for stats, epochs in spans for epoch in range(epochs)
    ]


def same_plan(a: Plan, b: Plan, tolerance: float = 0.0) -> bool:
    """Every field alike, the form of the loss included."""
    pairs = [(getattr(a, f.name), getattr(b, f.name)) for f in fields(Plan)]
    return all(
        np.array_equal(x, y) if tolerance == 0 else np.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in pairs
    )


def check_plan_units(method: Method) -> None:
    """At every epoch alpha is a distribution, no knob is on the wrong side of its rest, and nothing is infinite."""
    for stats, _, _, at in plans(method):
        classes = len(stats.counts)
        for vector in (at.alpha, at.weight, at.margin, at.divisor):
            assert vector.shape == (classes,)
            assert np.isfinite(vector).all()
        assert (at.alpha > 0).all()
        assert (at.weight > 0).all()
        assert (at.margin >= 0).all()
        assert (at.divisor >= 1).all()
        assert abs(at.alpha.sum() - 1) < 1e-12
        assert at.gamma >= 0
        assert at.gamma > 0 or not at.sigmoid
        assert at.scale == method.scale


def check_weights_sum_to_the_classes(method: Method) -> None:
    """Eq. 11, at every epoch."""
    for stats, _, _, at in plans(method):
        assert abs(at.weight.sum() - len(stats.counts)) < 1e-10


def check_plan_natural(method: Method) -> None:
    """`natural` says that alpha is the data's own, neither more nor less."""
    for stats, _, _, at in plans(method, (*EXAMPLES, Stats([30, 30], [0.2, 0.2]))):
        assert at.natural == np.allclose(at.alpha, stats.counts / stats.counts.sum(), rtol=1e-9, atol=0)


def check_plan_follows_a_permutation(method: Method) -> None:
    for stats in EXAMPLES:
        for order in orders(len(stats.counts)):
            for epoch in (0, 3, 4):
                here, there = plan(method, stats, epoch, 5), plan(method, shuffled(stats, order), epoch, 5)
                for name in ("alpha", "weight", "margin", "divisor"):
                    _close(getattr(there, name), getattr(here, name)[order])


def check_plan_is_pure(method: Method) -> None:
    with global_random_untouched():
        first = plan(method, LONG_TAIL, 4, 5)
        again = plan(method, LONG_TAIL, 4, 5)
    assert same_plan(first, again)


def check_knobs_reach_their_target(method: Method) -> None:
    """In the last epoch every knob stands where its measure and unit say, however it came there."""
    for stats in EXAMPLES:
        for epochs in (3, 5, 40, 200):
            at = plan(method, stats, epochs - 1, epochs)
            for name, knob in method.knobs.items():
                _close(getattr(at, name), knob.unit(knob.measure(stats)))


def check_swapping_for_the_same_vector(method: Method) -> None:
    """A knob driven by another measure that returns the same vector is the same knob."""
    for name, knob in method.knobs.items():
        swapped = replace(method, **{name: replace(knob, measure=_twin(knob.measure))})
        assert all(same_plan(plan(swapped, stats, epoch, epochs), at) for stats, epoch, epochs, at in plans(method))


def check_using_the_same_vector(method: Method) -> None:
    """Method.using(a measure that returns the same vector) changes nothing, in any of its stages."""
    driven = [knob.measure for each in method.stages for knob in free(each).values()]
    for mine, theirs in zip(method.using(_twin(driven[0])).stages, method.stages, strict=True):
        assert all(same_plan(plan(mine, stats, epoch, epochs), at) for stats, epoch, epochs, at in plans(theirs))


def check_using_reaches_every_knob(method: Method) -> None:
    """Method.using(measure) changes the measure of every knob that is not fixed, in every stage, and nothing else."""
    swapped = method.using(_FIRST)
    for mine, theirs in zip(swapped.stages, method.stages, strict=True):
        assert mine.knobs.keys() == theirs.knobs.keys()
        assert all(mine.knobs[name].measure is _FIRST for name in free(theirs))
        assert all(mine.knobs[name] is knob for name, knob in theirs.knobs.items() if knob.fixed)
    stages = zip(swapped.then, method.then, strict=True)
    then = tuple(replace(now, method=replace(now.method, **before.method.knobs)) for now, before in stages)
    assert replace(swapped, **method.knobs, then=then) == method


def check_using_is_refused(method: Method) -> None:
    assert "knob" in _refusal(lambda: method.using(_FIRST))


_FIRST = Measure("first", "the first class alone", lambda stats: np.where(np.arange(len(stats.counts)) == 0, 9.0, 1.0))


def _twin(measure: Measure) -> Measure:
    return Measure("twin", "the same vector by another name", lambda stats: np.array(measure(stats)))


def check_method_asks_for_uncertainty(method: Method) -> None:
    """The stages that need it do."""
    asking = [each for each in method.stages if any(knob.measure.uses_uncertainty for knob in each.knobs.values())]
    assert asking
    for each in asking:
        assert "uncertaint" in _refusal(lambda at=each: plan(at, Stats([40, 7, 300]), 4, 5))


def check_uncertainty_row_has_a_counterpart(method: Method) -> None:
    """A row that differs in the measure alone: the same stages, knobs, units and ramps, the same of everything else."""
    assert method.counterpart in METHODS
    other = METHODS[method.counterpart]
    assert not other.uses_uncertainty
    for mine, theirs in zip(method.stages, other.stages, strict=True):
        assert mine.knobs.keys() == theirs.knobs.keys()
        for name, knob in mine.knobs.items():
            assert knob.ramp is theirs.knobs[name].ramp, name
            assert knob.fixed == theirs.knobs[name].fixed, name
            assert not knob.fixed or knob.measure.name == theirs.knobs[name].measure.name, name
            if mine.level == "logits":  # DRO-LT's margins are as they are, or sum to 1: the paper's own choice
                assert knob.unit.__name__ == theirs.knobs[name].unit.__name__, name
        at_rest = dict.fromkeys(mine.knobs) | {"about": "", "counterpart": "", "then": ()}
        assert replace(mine, **at_rest) == replace(theirs, **at_rest)
    assert [replace(stage, method=Method()) for stage in method.then] == [
        replace(stage, method=Method()) for stage in other.then
    ]


def check_equal_counts_sample_and_weigh_naively(method: Method) -> None:
    """Table II: with equal counts a cardinality row has the naive alpha and w, and the naive plan if it has no more."""
    for stats, epoch, epochs, at in plans(method, EQUAL):
        naive = plan(Method(), stats, epoch, epochs)
        _close(at.alpha, naive.alpha)
        _close(at.weight, naive.weight)
        assert at.natural
        if method.focal is None and method.knobs.keys() <= {"alpha", "weight"}:
            assert same_plan(at, naive, 1e-12)


def check_equal_counts_have_equal_margins(method: Method) -> None:
    for _, _, _, at in plans(method, EQUAL):
        _close(at.margin, at.margin[0])
        _close(at.divisor, 1.0)


def check_margin_within_tau(method: Method) -> None:
    """LDAM's 0 <= Delta <= tau, with tau reached by the class that is worst off."""
    for _, _, _, at in plans(method):
        assert (at.margin >= 0).all()
        assert abs(at.margin.max() - TAU) < 1e-12


def check_first_stage_is_naive(method: Method) -> None:
    """Before the switch all of the plan is naive, the form of the loss too; epoch 160 of 200 is the first that is not.

    Where the second stage is a training of its own, the first is the naive method for as many epochs.
    """
    if method.then:
        assert replace(method, about="", counterpart="", share=1.0, then=()) == Method()
        assert method.share == 0.8
        assert method.stages[1].knobs
        return
    for stats in EXAMPLES:
        for epoch in range(200):
            at, naive = plan(method, stats, epoch, 200), plan(METHODS["naive"], stats, epoch, 200)
            assert same_plan(at, naive) == (epoch < 160), f"epoch {epoch}"


# Losses

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
