"""`python -m fuzz [TARGET ...]` in tests/: cases until Ctrl-C, or for FUZZ_SECONDS; `TARGET=CASE` repeats one."""

import faulthandler
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from itertools import count
from pathlib import Path

from fuzz.harness import Late, files_of, try_one
from fuzz.targets import TARGETS

MEMORY = 4 * 2**30  # bytes of address space beyond what the imports take: a small file must not claim more


def main() -> int:
    names, _, case = " ".join(sys.argv[1:]).partition("=")
    chosen = [names] if case else sys.argv[1:] or list(TARGETS)
    for name in chosen:
        files_of(name)
    limit_memory()
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        if case:
            print(f"{names}: {'read' if try_one(names, int(case), Path(folder) / 'case') else 'refused'}")
            return 0
        return fuzz(chosen, Path(folder) / "case", float(os.environ.get("FUZZ_SECONDS") or "inf"))


def fuzz(names: list[str], place: Path, seconds: float) -> int:
    """The targets in turn, with new cases each time; how many cases failed."""
    print(f"after a crash, {place.parent}/last names the case", file=sys.stderr)
    ends, start = time.monotonic() + seconds, int(os.environ.get("FUZZ_START", time.time()))
    outcomes: Counter[tuple[str, str]] = Counter()
    try:
        for case in count(start):
            for name in names:
                if time.monotonic() > ends:
                    raise KeyboardInterrupt
                (place.parent / "last").write_text(f"{name}={case}")
                try:
                    outcomes[name, "read" if try_one(name, case, place) else "refused"] += 1
                except KeyboardInterrupt:
                    raise
                except (Exception, Late):
                    outcomes[name, "failed"] += 1
                    print(
                        f"failed: python -m fuzz '{name}={case}'\n{traceback.format_exc()}", file=sys.stderr, flush=True
                    )
    except KeyboardInterrupt:
        pass
    print(f"{'target':28}{'read':>9}{'refused':>9}{'failed':>9}")
    for name in names:
        print(f"{name:28}" + "".join(f"{outcomes[name, outcome]:9,}" for outcome in ("read", "refused", "failed")))
    failed = sum(number for (_, outcome), number in outcomes.items() if outcome == "failed")
    print(f"{outcomes.total():,} cases, {failed} failed")
    return min(failed, 1)


def limit_memory() -> None:
    import resource

    taken = (
        int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        if os.path.exists("/proc/self/statm")
        else 0
    )
    if taken:
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, -1))


if __name__ == "__main__":
    sys.exit(main())
