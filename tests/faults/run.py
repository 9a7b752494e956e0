"""Every k of every fault in every scene.

    python tests/faults/run.py [--scenes TEXT] [--faults TEXT] [--k K] [--seconds N] [--jobs N]

Prints what broke as it happens, with the words that repeat it, and a table of counts at the end.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from harness import FAULTS, SCENES, Played, Stage, build_shim, unavailable


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", default="", help="only those whose name has this in it")
    parser.add_argument("--faults", default="", help="only those whose name has this in it")
    parser.add_argument("--k", type=int, help="only the k-th call")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="at most for each scene, whose cases come in a mixed order"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    if unavailable():
        sys.exit(unavailable())
    tried, failed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    scenes = [name for name in SCENES if given.scenes in name]
    began = time.monotonic()

    def play(number: int, place: Path, shim: Path) -> None:
        """Every scene, of whose cases each job has its share."""
        stage = Stage(place / str(number), shim)
        for scene in scenes:
            played = Played(stage, SCENES[scene])
            cases = [case for case in played.cases() if given.faults in case[0] and given.k in (None, case[1])]
            Random(0).shuffle(cases)
            ends = time.monotonic() + given.seconds
            for fault, k in cases[number :: given.jobs]:
                if time.monotonic() > ends:
                    break
                tried[scene, fault] += 1
                if broken := played.broken(fault, k):
                    failed[scene, fault] += 1
                    print(f"--scenes {scene!r} --faults {fault!r} --k {k}: {'; '.join(broken)}", flush=True)
        stage.close()

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        shim = build_shim(Path(folder))
        for job in [pool.submit(play, number, Path(folder), shim) for number in range(given.jobs)]:
            job.result()

    print("\n| command | fault | calls failed | held | broken |\n|---|---|---|---|---|")
    for scene in scenes:
        for fault in FAULTS:
            if total := tried[scene, fault]:
                bad = failed[scene, fault]
                print(f"| {scene} | {fault} | {total} | {total - bad} | {bad} |")
    total, bad = tried.total(), failed.total()
    print(
        f"| all | all | {total} | {total - bad} | {bad} |\n\n{time.monotonic() - began:.0f} seconds, {given.jobs} jobs"
    )
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
