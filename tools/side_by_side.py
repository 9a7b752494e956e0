"""Train several experiments side by side on one GPU, and write down what has ended.

    python tools/side_by_side.py NEW.jsonl --minutes 25 --root DATA --behind "table1 --only cifar100-lt:50" \
        --known results/*.jsonl -- "if1b --only cifar10-lt:1" "if1b --only cifar10-lt:2"

Stacks of five networks leave a large GPU idle. Several programs fill it, under NVIDIA MPS where that is installed. A
program behind the others has a lower priority: it gets what they leave. Each experiment is what follows `cu reproduce`,
and has a store and a log of its own in NEW.stores/. NEW.jsonl gets the results that are not in the known files, every
minute, so that a machine that is taken away takes little with it. The minutes are each program's --budget: it begins
only what it can end. What still trains then is stopped as by Ctrl-C, and the same command goes on from its checkpoints.
No program is killed while others train: under MPS that would end them all.
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
from class_uncertainty.files import write_whole
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.runs.store import Store

CU = [sys.executable, "-m", "class_uncertainty"]
EVERY = 60  # seconds after which what has ended is written down
PATIENCE = 60  # seconds in which a program that is stopped writes its checkpoints
MPS = "nvidia-cuda-mps-control"
QUITS = 30  # seconds in which the MPS server ends
BEHIND = {"CUDA_MPS_CLIENT_PRIORITY": "1"}  # below that of other programs
ENDED = {0: "has ended", 3: "has no time for more", 130: "was stopped"}  # by exit code; others are failures


@contextmanager
def shared_gpu() -> Iterator[dict[str, str]]:
    """The environment of programs that share a GPU: that of an MPS server of their own, where there can be one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a server may still write there
        mps = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
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
    """One experiment that trains in a process of its own."""

    def __init__(
        self, experiment: str, store: Path, root: Path | None, minutes: float, environment: dict[str, str]
    ) -> None:
        self.experiment, self.store, self.log = experiment, store, store.with_suffix(".log")
        where = [] if root is None else ["--root", str(root)]
        budget = ["--budget", f"{60 * minutes:.0f}s"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*CU, "reproduce", *shlex.split(experiment), *where, *budget, "--store", str(store)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this program, which hands it on
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background ignores it
            )

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    @property
    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def new_lines(stores: Sequence[Path], known: set[str]) -> list[str]:
    """What the stores have beyond the keys that are known: each result once, and the data sets that they are of."""
    kept, keys = dict[str, list[str]](), set(known)  # data set -> its lines, that of the data set first
    for path in stores:
        with Store(path, create=False) as store:
            for text in export_lines(store):
                line = json.loads(text)
                of_data = kept.setdefault(line.get("data") or line["fingerprint"], [])
                if line["kind"] == "data":
                    of_data += [] if of_data else [text]
                elif line["key"] not in keys:
                    keys.add(line["key"])
                    of_data.append(text)
    return [text for lines in kept.values() if len(lines) > 1 for text in lines]


def write_new(programs: Sequence[Program], known: set[str], out: Path) -> int:
    """Write what is new; returns how many lines it is."""
    lines = new_lines([program.store for program in programs], known)
    write_whole(out, "".join(lines).encode())
    return len(lines)


def train(programs: Sequence[Program], known: set[str], out: Path, seconds: float) -> None:
    """Write down what has ended until all have, or until the time is up."""
    end, written = time.monotonic() + seconds, time.monotonic()
    try:
        while any(program.runs for program in programs) and time.monotonic() < end:
            time.sleep(0.2)
            if time.monotonic() - written > EVERY:
                number, written = write_new(programs, known, out), time.monotonic()
                train_on = sum(program.runs for program in programs)
                print(f"{train_on} of {len(programs)} experiments train, {number:,} lines are new", flush=True)
    except KeyboardInterrupt:
        print("stopping", flush=True)
    running = [program for program in programs if program.runs]
    for program in running:
        program.process.send_signal(signal.SIGINT)  # not the compilers that it may have started
    end = time.monotonic() + PATIENCE
    while any(program.runs for program in running) and time.monotonic() < end:
        time.sleep(0.2)
    for program in running:  # those that are left, all at once
        if program.runs:
            os.killpg(program.process.pid, signal.SIGKILL)
            program.process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="NEW.jsonl")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--root", type=Path, help="the data folder")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="results that are there already")
    parser.add_argument("--behind", action="append", default=[], metavar="EXPERIMENT", help="with a lower priority")
    parser.add_argument("experiments", nargs="+", help="what follows `cu reproduce`")
    given = parser.parse_args()
    if any("--budget" in shlex.split(name) for name in given.experiments + given.behind):
        parser.error("an experiment has a --budget of its own: --minutes is that of all.")
    try:
        lines = [line for file in given.known for line in read_lines(file)]
    except InputError as error:
        parser.error(str(error))
    folder = given.out.with_suffix(".stores")
    folder.mkdir(parents=True, exist_ok=True)
    front: dict[str, str] = {}
    experiments = [(name, front) for name in given.experiments] + [(name, BEHIND) for name in given.behind]
    stores = [folder / f"{number}.sqlite" for number in range(len(experiments))]
    for path in stores:
        with Store(path) as store:
            import_lines(store, lines, "the known files")
    known = {line.key for line in lines}
    with shared_gpu() as environment:
        programs = [
            Program(name, store, given.root, given.minutes, environment | priority)
            for (name, priority), store in zip(experiments, stores, strict=True)
        ]
        train(programs, known, given.out, 60 * given.minutes)
        print(f"{given.out}: {write_new(programs, known, given.out):,} lines", flush=True)
    for program in programs:
        code = program.process.returncode
        print(f"{program.experiment}: {ENDED.get(code, f'failed with exit code {code}: {program.last_words}')}")
    return 0 if all(program.process.returncode in ENDED for program in programs) else 1


if __name__ == "__main__":
    sys.exit(main())
