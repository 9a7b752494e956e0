"""How tests call `cu`: by the fixture `run`, with options that make it quick."""

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]  # words after `cu` -> exit code, stdout, stderr
Forbid = Callable[[], None]  # from now on every training fails the test
SHORT = ("--epochs", "2", "--members", "2")
SHORT_FIX = ("--epochs", "2", "--candidates", "naive", "--seeds", "1")
