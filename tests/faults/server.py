"""Run with the shim preloaded: import everything once, then fork a child for each command, with its fault.

Importing costs seconds, a fork milliseconds. Nothing is computed before a fork, so no threads of torch or NumPy run
then. A request and its answer are a line of JSON each. The child ends as `cu` does: see `end`.
"""

import atexit
import ctypes
import gc
import importlib
import json
import mmap
import os
import pkgutil
import signal
import sys
import threading
import warnings
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import class_uncertainty
from class_uncertainty.cli import app

KINDS = ("write", "sync", "rename", "read", "open", "unlink", "truncate", "mkdir", "map")  # in the order of shim.c
WAYS = ("pass", "fail", "short", "kill")
HEAVY = ("jinja2", "safetensors.torch", "scipy.optimize", "scipy.stats", "sklearn.datasets", "PIL.PngImagePlugin")
OPTIONAL = (".kernels.", ".integrations.", ".ray_")  # these import triton, Lightning, Ray and others
HANGS = 120  # seconds until a command counts as hanging, and is ended by SIGALRM


def main() -> None:
    for module in pkgutil.walk_packages(class_uncertainty.__path__, "class_uncertainty."):
        if not module.name.endswith("__main__") and not any(part in module.name for part in OPTIONAL):
            importlib.import_module(module.name)
    for name in HEAVY:
        importlib.import_module(name)
    with suppress(SystemExit), redirect_stdout(StringIO()):
        app.app(["list", "--json"])  # typer imports what it parses with when it parses
    gc.freeze()
    shared = mmap.mmap(-1, 8 * (len(KINDS) + 2))
    counts = (ctypes.c_long * (len(KINDS) + 2)).from_buffer(shared)
    answers = os.dup(1)
    for line in sys.stdin:
        ctypes.memset(counts, 0, ctypes.sizeof(counts))
        job = json.loads(line)
        if not (child := os.fork()):
            os.close(answers)
            command(job, counts)
            return
        _, status = os.waitpid(child, 0)
        *calls, _, faults = counts
        answer = {
            "code": os.waitstatus_to_exitcode(status),
            "calls": dict(zip(KINDS, calls, strict=True)),
            "faults": faults,
        }
        os.write(answers, json.dumps(answer).encode() + b"\n")


def end(code: int) -> None:
    """End as an interpreter does, but clear no modules of others: that takes longer than most commands.

    What the command has left open is closed and told of, be it in a cycle, or held by the package's modules.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    warnings.simplefilter("always", ResourceWarning)
    for name in [name for name in sys.modules if name.partition(".")[0] == "class_uncertainty"]:
        vars(sys.modules.pop(name)).clear()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def command(job: dict, counts: ctypes.Array) -> None:
    """`cu` with these words, in that folder, where the k-th call of these kinds fails."""
    signal.alarm(HANGS)
    for descriptor, file in enumerate((os.devnull, job["out"], job["err"])):
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(job["cwd"])
    os.environ["CLASS_UNCERTAINTY_CACHE"] = str(Path(job["cwd"]) / "cache")
    sys.argv = ["cu", *job["words"]]
    kinds = sum(1 << KINDS.index(kind) for kind in job["kinds"])
    numbers = (kinds, job["k"], WAYS.index(job["way"]), job["error"], job["sticky"])
    ctypes.CDLL(None).faults_arm(os.fsencode(job["folder"]), counts, *map(ctypes.c_long, numbers))
    code = 0
    try:
        app.main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    end(code)


if __name__ == "__main__":
    main()
