"""How tests call `cu`: by the fixture `run`, which takes a line as a user types it, and options that make it quick."""

import re
from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]  # a line after `cu`, more words -> exit code, stdout, stderr
Call = Callable[[], None]  # of a fixture that changes something from the call on
SHORT = "--epochs 2 --members 2"
SHORT_FIX = "--epochs 2 --candidates naive --seeds 1"
PROGRESS = re.compile(r"after \d+:\d\d: .*")  # a line that a slow machine sees on stderr


def told(err: str) -> list[str]:
    """The lines on stderr without those of progress."""
    return [line for line in err.split("\n")[:-1] if not PROGRESS.fullmatch(line)]
