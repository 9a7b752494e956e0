"""The contracts of a measure. For the rows of the package, and for your own: see contracts.py."""

from collections.abc import Iterator

import numpy as np
from contracts import EXAMPLES, UNORDERED, Check, _close, _refusal, global_random_untouched, orders, shuffled

from class_uncertainty.measures import Measure, Stats, normalise
from class_uncertainty.measures.uncertainty import class_uncertainty


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
