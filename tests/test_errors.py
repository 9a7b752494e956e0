"""Which name an error offers."""

import pytest

from class_uncertainty.errors import nearest, unknown

METHODS = ["naive", "cb-rs", "ubrs", "ubrw", "ldam"]


@pytest.mark.parametrize(("given", "name"), [("ubsr", "ubrs"), ("ubwr", "ubrw"), ("LDAM", "ldam"), ("ldma", "ldam")])
def test_a_transposition_is_nearer_than_another_letter(given, name):
    assert nearest(given, METHODS) == name
    assert repr(name) in str(unknown("method", given, iter(METHODS)))


def test_nothing_is_offered_where_nothing_is_near():
    assert nearest("", METHODS) is None
    assert str(unknown("method", "", METHODS)).startswith("unknown method '': there are naive, ")
