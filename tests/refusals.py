"""How every refusal of a wrong input reads."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from class_uncertainty import InputError


@contextmanager
def refused(*parts: object, kind: type[Exception] = InputError) -> Iterator[pytest.ExceptionInfo]:
    """In one sentence on one line, with every part in it."""
    with pytest.raises(kind) as caught:
        yield caught
    text = str(caught.value)
    assert [part for part in map(str, parts) if part not in text] == [], text
    assert text.endswith(".")
    assert not text.endswith("..")
    assert "\n" not in text
