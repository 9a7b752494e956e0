"""How tests call `cu`: by the fixture `run`, which takes a line as a user types it, and options that make it quick."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

Run = Callable[..., tuple[int, str, str]]  # a line after `cu`, more words -> exit code, stdout, stderr
Call = Callable[[], None]  # of a fixture that changes something from the call on
SHORT = "--epochs 2 --members 2"
SHORT_FIX = "--epochs 2 --candidates naive --seeds 1"
PROGRESS = re.compile(r"after \d+:\d\d: .*")  # a line that a slow machine sees on stderr


def told(err: str) -> list[str]:
    """The lines on stderr without those of progress."""
    return [line for line in err.split("\n")[:-1] if not PROGRESS.fullmatch(line)]


IN_TURN = """
import json, sys
from class_uncertainty.cli.app import main
for words in sys.argv[1:]:
    sys.argv = ["cu", *words.split()]
    try:
        main()
    except SystemExit as end:
        heavy = {"torch", "scipy", "sklearn", "jinja2"} & set(sys.modules)
        print("ended", json.dumps([end.code, sorted(heavy)]))
"""


def run_in_turn(lines: Sequence[str]) -> list[tuple[int, set[str]]]:
    """The exit code of each line after `cu`, in one process, and the heavy packages that are imported by its end."""
    done = subprocess.run([sys.executable, "-c", IN_TURN, *lines], capture_output=True, text=True, check=True)
    ends = [line.removeprefix("ended ") for line in done.stdout.splitlines() if line.startswith("ended ")]
    return [(code, set(heavy)) for code, heavy in map(json.loads, ends)]
