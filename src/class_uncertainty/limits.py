"""A limit of address space (`ulimit -v`): where it is tight, NumPy's and torch's threads end the process without a sentence of ours.

Importing this module, which must come before NumPy's import, leaves them as many threads as a limit has room for, and ends the process
with a sentence where NumPy's import would end it without one.
"""

import os
import sys

from class_uncertainty.errors import MachineFault

LEAST = 150  # MB in which NumPy can be imported
FLOOR = 1500  # MB for torch and a small network; at 1,050 its import aborts: `python benchmarks/limits.py`
THREAD = 200  # MB that each thread of OpenBLAS and OpenMP takes besides: its stack, its arena, its buffers


def address_space() -> int | None:
    """MB that this process may have; None where there is no limit, or no such thing, as on Windows."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit // 10**6


def check_address_space() -> None:
    """Say at once that there is too little for torch, which may crash half way through its import."""
    limit = address_space()
    if limit is not None and limit < FLOOR:
        raise MachineFault(_sentence(limit))


def _sentence(limit: int) -> str:
    return f"the address space is limited to {limit} MB (ulimit -v), and torch needs {FLOOR} MB at least."


def _prepare() -> None:
    """Numbers of threads that are set in the environment stay."""
    limit = address_space()
    if limit is not None and limit < LEAST:
        sys.exit(f"cu: {_sentence(limit)}")
    if limit is not None and (threads := max(1, (limit - FLOOR) // THREAD)) < (os.cpu_count() or 1):
        for library in ("OPENBLAS", "OMP", "MKL"):
            os.environ.setdefault(f"{library}_NUM_THREADS", str(threads))


_prepare()
