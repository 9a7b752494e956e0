"""How tests call `cu`: by the fixture `run`, with options that make it quick."""

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]  # words after `cu` -> exit code, stdout, stderr
Call = Callable[[], None]  # of a fixture that changes something from the call on
SHORT = ("--epochs", "2", "--members", "2")
SHORT_FIX = ("--epochs", "2", "--candidates", "naive", "--seeds", "1")
