"""The contracts of design.md as checks. A check takes one row and raises AssertionError where the row breaks a promise.

For a row of your own:

    for check in measure_checks(my_measure):
        check(my_measure)

`measure_checks`, `method_checks` and `loss_checks` of measure_contracts.py, method_contracts.py and loss_contracts.py
yield the checks that apply. Where a row of the package breaks one for a good reason, the reason stands in EXCEPTIONS;
the tests then demand that it does break it.
"""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats

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
