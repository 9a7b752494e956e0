"""The contracts of a method: plans in every epoch, and what happens when another measure drives it."""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache

import numpy as np
from contracts import (
    EPOCHS,
    EQUAL,
    EXAMPLES,
    LONG_TAIL,
    TAU,
    Check,
    _close,
    _refusal,
    global_random_untouched,
    orders,
    shuffled,
)

from class_uncertainty.measures import Measure, Stats
from class_uncertainty.methods import METHODS, Knob, Method, Plan, plan


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
