"""Commands under limits of address space (`ulimit -v`).

Each must end rightly or in one sentence, and none in a traceback or by a signal.

    python benchmarks/limits.py [MEGABYTES ...]

Prints a line a limit and the counts behind docs/reliability.md. Right: the exit code is 0, and the JSON that is printed
has the same numbers as without a limit. One sentence: the exit code is 1, and stderr has one line besides progress.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

COMMANDS = {
    "compare": ("compare", "digits-lt:20", "--epochs", "2"),
    "measure": ("measure", "digits-lt:20", "--epochs", "2", "--members", "2"),
    "fix": ("fix", "digits-lt:20", "--epochs", "2", "--candidates", "naive", "--seeds", "1"),
    "report": ("report",),
}
MEGABYTES = (*range(100, 1000, 50), *range(1000, 3000, 100), *range(3000, 8000, 500), 16_000, 64_000)
PROGRESS = re.compile(r"^after [\d:]+: ")  # which a slow machine prints
RIGHT, SENTENCE = "right", "one sentence"


def limited(megabytes: int | None) -> list[str]:
    """What to put before a command; the shell counts in KiB."""
    return ["sh", "-c", 'ulimit -v "$0" && exec "$@"', str(-(-megabytes * 10**6 // 1024))] if megabytes else []


def ended(folder: Path, name: str, megabytes: int | None = None, store: Path | None = None) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command under a limit, in an empty store or in one that has results."""
    command = [
        *limited(megabytes),
        sys.executable,
        "-m",
        "class_uncertainty.cli.app",
        *COMMANDS[name],
        "--json",
        "--store",
        str(store or folder / "runs.sqlite"),
    ]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=300)
    return run.returncode, run.stdout, run.stderr


def judged(end: tuple[int, str, str], expected: str) -> str:
    """RIGHT, SENTENCE, or what else it was."""
    code, out, err = end
    if code == 0:
        return RIGHT if json.loads(out) == json.loads(expected) else "another result"
    lines = [line for line in err.splitlines() if not PROGRESS.search(line)]
    if code == 1 and not out and len(lines) == 1 and re.fullmatch(r"cu: .+\.", lines[0]):
        return SENTENCE
    return f"exit code {code}: {lines[-1][:100] if lines else ''}"


def tried(megabytes: Sequence[int], expected: Mapping[str, str], store: Path) -> dict[int, dict[str, str]]:
    """Limit -> command -> how it ended, by what each prints without a limit; all but the report start without results.

    The report is of `store`.
    """
    ends: dict[int, dict[str, str]] = {}
    for limit in megabytes:
        ends[limit] = {}
        for command, printed in expected.items():
            with tempfile.TemporaryDirectory() as empty:
                results = store if command == "report" else None
                ends[limit][command] = judged(ended(Path(empty), command, limit, results), printed)
        print(f"{limit:>6} MB", *(f"{command}: {end}" for command, end in ends[limit].items()), sep="  ", flush=True)
    return ends


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        expected = {command: ended(Path(name), command)[1] for command in COMMANDS}
        limits = [int(argument) for argument in sys.argv[1:]] or MEGABYTES
        ends = tried(limits, expected, Path(name) / "runs.sqlite")
    every = [end for by_command in ends.values() for end in by_command.values()]
    counts = Counter(end if end in (RIGHT, SENTENCE) else "anything else" for end in every)
    print(
        f"tried {counts.total()}", *(f"{what} {counts[what]}" for what in (RIGHT, SENTENCE, "anything else")), sep=", "
    )


if __name__ == "__main__":
    main()
