"""The learning rate that suits a method, by errors at several."""

import pytest

from class_uncertainty.runs.rate_choice import RateChoice, best_rate


@pytest.mark.parametrize(
    ("errors", "lr"),
    [
        ({0.4: 20.0, 0.1: 30.0}, 0.4),
        ({0.4: 20.0, 0.1: 20.0, 0.2: 20.0}, 0.1),
        ({0.1: None, 0.4: 99.0}, 0.4),
        ({0.4: None, 0.1: None, 0.2: None}, 0.1),
    ],
    ids=["lowest error", "a tie", "diverged", "all diverged"],
)
def test_the_best_rate(errors: dict, lr: float) -> None:
    assert best_rate(errors) == lr
    assert RateChoice.of("ldam", errors) == RateChoice("ldam", lr, errors)
