"""Which name an error offers, and what it says of a package that is missing."""

import pytest

from class_uncertainty.errors import missing, nearest, unknown

METHODS = ["naive", "cb-rs", "ubrs", "ubrw", "ldam"]


@pytest.mark.parametrize(("given", "name"), [("ubsr", "ubrs"), ("ubwr", "ubrw"), ("LDAM", "ldam"), ("ldma", "ldam")])
def test_a_transposition_is_nearer_than_another_letter(given, name):
    assert nearest(given, METHODS) == name
    assert repr(name) in str(unknown("method", given, iter(METHODS)))


def test_nothing_is_offered_where_nothing_is_near():
    assert nearest("", METHODS) is None
    assert str(unknown("method", "", METHODS)).startswith("unknown method '': there are naive, ")


def test_of_many_names_those_that_are_alike_are_listed():
    many = [*METHODS, *(f"column {number}" for number in range(1000))]
    text = str(unknown("name", "ubrz", many, listing="'cu names' lists all"))
    six = "ubrw, ubrs, naive, cb-rs, ldam, column 0"
    assert text.endswith(f"did you mean 'ubrw'? There are 1,005, among them {six}; 'cu names' lists all.")
    assert "among them ldam, " in str(unknown("name", "LDAM", many))  # whatever the case
    text = str(unknown("name", "", many))
    assert text.endswith("there are 1,005, among them naive, cb-rs, ubrs, ubrw, ldam, column 0.")


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    needed = "the report's pictures need Pillow, which is not installed: run 'pip install pillow'."
    assert str(missing("Pillow", needed_by="the report's pictures need")) == needed
    by_extra = "onnxscript is not installed: run pip install 'class-uncertainty[onnx]'."
    assert str(missing("onnxscript", extra="onnx")) == by_extra
