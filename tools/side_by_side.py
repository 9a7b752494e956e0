"""Train several experiments side by side on one GPU, and write down what has ended.

    python tools/side_by_side.py NEW.jsonl --minutes 25 --root DATA --known results/*.jsonl \
        --behind "reproduce table1 --only cifar100-lt:50" \
        -- "reproduce if1b --only cifar10-lt:1 && reproduce if1b --only cifar10-lt:2" "measure cifar10-lt:100"

Stacks of five networks leave a large GPU idle. Several programs fill it, under NVIDIA MPS where that is installed:
under the server that CUDA_MPS_PIPE_DIRECTORY names, for what else uses it, or one of their own. A program behind the
others has a lower priority: it gets what they leave. Each is a command of `cu` that trains, or several joined by &&,
which run one after the other. All use one store, NEW.sqlite, so that a program finds what others have trained before it
began, and each has a log in NEW.logs/. NEW.jsonl gets the results that are not in the known files, every minute, so
that a machine that is taken away takes little with it. The minutes are the --budget of all: a program begins only what
it can end. What still trains then is stopped as by Ctrl-C, and the same command goes on from its checkpoints. No
program is killed while others train: under MPS that would end them all.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from class_uncertainty.errors import InputError
from class_uncertainty.io import write_whole
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.runs.store import Store

CU = [sys.executable, "-m", "class_uncertainty"]
THEN = "&&"
EVERY = 60  # seconds after which what has ended is written down
PATIENCE = 60  # seconds in which a program that is stopped writes its checkpoints
MPS = "nvidia-cuda-mps-control"
PIPE = "CUDA_MPS_PIPE_DIRECTORY"  # of the server that a program uses
QUITS = 30  # seconds in which the MPS server ends
BEHIND = {"CUDA_MPS_CLIENT_PRIORITY": "1"}  # below that of other programs
# by exit code, of Ctrl-C before Python has begun too; others are failures
ENDED = {0: "has ended", 3: "has no time for more", 130: "was stopped", -signal.SIGINT: "was stopped"}
SHARED = {"--budget": "--minutes is that of all", "--store": "all share one", "--root": "give it once, for all"}


@contextmanager
def shared_gpu() -> Iterator[dict[str, str]]:
    """The environment of programs that share a GPU: that of an MPS server, one of their own if none is named."""
    if PIPE in os.environ:
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a server may still write there
        mps = {PIPE: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        if not shutil.which(MPS) or subprocess.run([MPS, "-d"], env=os.environ | mps, check=False).returncode:
            yield dict(os.environ)
            return
        try:
            yield os.environ | mps
        finally:  # all programs have ended: a server that is told to quit waits for them, and takes no new ones
            try:
                subprocess.run([MPS], input="quit\n", text=True, env=os.environ | mps, timeout=QUITS, check=False)
            except subprocess.TimeoutExpired:
                print("other programs still use the MPS server: it ends with them", flush=True)


class Program:
    """Commands of `cu` that run one after the other, each in a process of its own."""

    def __init__(self, commands: Sequence[list[str]], log: Path, end: float, environment: dict[str, str]) -> None:
        self.commands, self.log, self.end, self.environment = list(commands), log, end, environment
        self._begin()

    def _begin(self) -> None:
        """Run the next command."""
        budget = ["--budget", f"{max(1.0, self.end - time.monotonic()):.0f}s"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*CU, *self.commands.pop(0), *budget],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this program, which hands it on
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background ignores it
            )

    def go_on(self) -> bool:
        """Whether it still runs; where a command has ended well before the end, the next one begins."""
        if self.process.poll() == 0 and self.commands and time.monotonic() < self.end:
            self._begin()
        return self.process.poll() is None

    def interrupt(self) -> None:
        """As by Ctrl-C; no other command begins."""
        self.end = time.monotonic()
        self.process.send_signal(signal.SIGINT)  # not the compilers that it may have started

    @property
    def has_failed(self) -> bool:
        return self.process.returncode not in ENDED

    @property
    def outcome(self) -> str:
        """How it has ended, in words."""
        code = self.process.returncode
        if self.has_failed:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            return f"failed with exit code {code}: {lines[-1] if lines else 'it said nothing'}"
        return ENDED[130] if code == 0 and self.commands else ENDED[code]


def new_lines(store: Store, known: set[str]) -> list[str]:
    """What the store has beyond the keys that are known, and the data sets that it is of."""
    kept = dict[str, list[str]]()  # data set -> its lines, that of the data set first
    for text in export_lines(store):
        line = json.loads(text)
        if line["kind"] == "data":
            kept[line["fingerprint"]] = [text]
        elif line["key"] not in known:
            kept[line["data"]].append(text)
    return [text for lines in kept.values() if len(lines) > 1 for text in lines]


def write_new(store: Store, known: set[str], out: Path) -> int:
    """Write what is new, if anything is; returns how many lines it is."""
    if lines := new_lines(store, known):
        write_whole(out, "".join(lines).encode())
    return len(lines)


def train(programs: Sequence[Program], store: Store, known: set[str], out: Path, end: float) -> None:
    """Write down what has ended until all have, or until the time is up."""
    written = time.monotonic()
    try:
        while (running := sum(program.go_on() for program in programs)) and time.monotonic() < end:
            time.sleep(0.2)
            if time.monotonic() - written > EVERY:
                number, written = write_new(store, known, out), time.monotonic()
                print(f"{running} of {len(programs)} programs train, {number:,} lines are new", flush=True)
    except KeyboardInterrupt:
        print("stopping", flush=True)


def stop(programs: Sequence[Program]) -> None:
    """End all programs, as by Ctrl-C."""
    for program in programs:
        program.interrupt()
    end = time.monotonic() + PATIENCE
    while any([program.go_on() for program in programs]) and time.monotonic() < end:
        time.sleep(0.2)
    for program in programs:  # those that are left, all at once
        if program.go_on():
            os.killpg(program.process.pid, signal.SIGKILL)
            program.process.wait()


def commands_of(line: str) -> list[list[str]]:
    """The words of each command of a line; refuses what cannot be commands that share a store and a budget."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(f"{line!r} is no line of commands: {str(error).lower()}.") from None
    commands: list[list[str]] = [[]]
    for word in words:
        if (option := word.partition("=")[0]) in SHARED:
            raise InputError(f"{line!r} has {option}: {SHARED[option]}.")
        if word == THEN:
            commands.append([])
        else:
            commands[-1].append(word)
    if not all(commands):
        raise InputError(f"{line!r} has an empty command: {THEN} stands between two.")
    return commands


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="NEW.jsonl")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--root", type=Path, help="the data folder")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="results that are there already")
    parser.add_argument("--behind", action="append", default=[], metavar="COMMANDS", help="with a lower priority")
    parser.add_argument("commands", nargs="+", metavar="COMMANDS", help=f"of cu; several are joined by {THEN}")
    given = parser.parse_args()
    try:
        front, behind = ([commands_of(line) for line in lines] for lines in (given.commands, given.behind))
        lines = [line for file in given.known for line in read_lines(file)]
    except InputError as error:
        parser.error(str(error))
    known, logs, programs = {line.key for line in lines}, given.out.with_suffix(".logs"), list[Program]()
    logs.mkdir(parents=True, exist_ok=True)
    with Store(given.out.with_suffix(".sqlite")) as store, shared_gpu() as environment:
        import_lines(store, lines, "the known files")
        options = ["--store", str(store.path), *([] if given.root is None else ["--root", str(given.root)])]
        end = time.monotonic() + 60 * given.minutes
        try:
            for number, commands in enumerate([*front, *behind]):
                priority = {} if number < len(front) else BEHIND
                whole = [[*command, *options] for command in commands]
                programs.append(Program(whole, logs / f"{number}.log", end, environment | priority))
            train(programs, store, known, given.out, end)
        finally:
            stop(programs)
        print(f"{given.out}: {write_new(store, known, given.out):,} lines", flush=True)
    for line, program in zip(given.commands + given.behind, programs, strict=True):
        print(f"{line}: {program.outcome}")
    return int(any(program.has_failed for program in programs))


if __name__ == "__main__":
    sys.exit(main())
