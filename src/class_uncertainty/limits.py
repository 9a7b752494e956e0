"""Limits of address space (`ulimit -v`): under a tight one, threads of NumPy and torch kill the process silently.

Import this module before NumPy. It gives NumPy and torch as many threads as a limit has room for, lets idle ones sleep,
and exits with one sentence where importing NumPy would crash.
"""

import os
import sys

LEAST = 150  # MB that importing NumPy takes
FLOOR = 1500  # MB for torch and a small network; at 1,050 importing torch aborts: `python benchmarks/limits.py`
THREAD = 200  # MB more for each thread of OpenBLAS and OpenMP: its stack, arena and buffers


def address_space() -> int | None:
    """MB that this process may take; None without a limit, and on Windows, which has none."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit // 10**6


def check_address_space() -> None:
    """Refuse a limit that is too low for torch, whose import may crash half-way."""
    limit = address_space()
    if limit is not None and limit < FLOOR:
        from class_uncertainty.errors import MachineFault  # late: this module is imported before all others

        raise MachineFault(_sentence(limit))


def _sentence(limit: int) -> str:
    return f"the address space is limited to {limit} MB (ulimit -v), and torch needs at least {FLOOR} MB."


def _prepare() -> None:
    """Limit the threads, and let idle ones sleep, unless the environment says otherwise."""
    limit = address_space()
    if limit is not None and limit < LEAST:
        sys.exit(f"cu: {_sentence(limit)}")
    # idle threads of OpenMP sleep: where other programs run, those that spin made training 4 to 6 times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if limit is not None and (threads := max(1, (limit - FLOOR) // THREAD)) < (os.cpu_count() or 1):
        for library in ("OPENBLAS", "OMP", "MKL"):
            os.environ.setdefault(f"{library}_NUM_THREADS", str(threads))


_prepare()
