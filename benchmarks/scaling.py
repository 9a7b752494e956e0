"""What 1, 8, 64 and 512 GPUs need for Table I: a discrete simulation of stacks, from measured step times.

    python benchmarks/scaling.py [--failures 0.1] [--start 20]

The lanes are those of `cu reproduce table1` with an empty store. Stacks are cut by the queue that `--on ray` uses. The
time of a step by the lanes of its stack is that of docs/performance.md (`make bench-engine`, one H200). A failure ends
a stack at a random moment; it goes on from its last checkpoint on the next free GPU. What is assumed: `--start`, the
seconds until a task trains, and `--failures`, those of a GPU in an hour.
"""

import argparse
import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from class_uncertainty import Data
from class_uncertainty.paper.experiments import select
from class_uncertainty.paper.ledger import Ledger, Missing
from class_uncertainty.runs.context import EVERY
from class_uncertainty.runs.stack_queue import StackQueue
from class_uncertainty.training import RECIPES, Lane
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.stages import lane_cost, naive_passes

SPEEDS = {1: 26_396, 4: 84_518, 16: 177_674, 64: 204_277}  # model-images/s by lanes, docs/performance.md
GPUS = (1, 8, 64, 512)
FIRST = {"cifar10": (5000, 10), "cifar100": (500, 100)}  # examples of the largest class, and classes
RECIPE = RECIPES["bag-of-tricks"]
WIDTH = width_of(RECIPE, "cuda")


@dataclass(frozen=True)
class Campaign:
    """Lanes that train at the same time, by their costs in naive trainings; the next ones wait for them."""

    data: str
    costs: tuple[float, ...]
    passes: int  # images of a naive training


def long_tail(name: str) -> Data:
    """As many examples of each class as a data set has; nothing is in them."""
    source, _, rest = name.partition("-lt:")
    ratio, _, options = rest.partition("?")
    largest, classes = FIRST[source]
    held = int(options.removeprefix("validation=")) if options.startswith("validation=") else 0
    counts = [int((largest - held) * float(ratio) ** (-c / (classes - 1))) for c in range(classes)]
    return Data(np.zeros((sum(counts), 1), np.float32), np.repeat(np.arange(classes), counts))


def table_1() -> list[list[Campaign]]:
    """For each data set what trains first, and what waits for the class uncertainties that come of it."""
    selection = select("table1")
    wanted = selection.wanted(selection.experiments["table1"])
    by_data: dict[str, list[Missing]] = {}
    for one in Ledger(RECIPE).missing(wanted, assume=True):
        by_data.setdefault(one.data, []).append(one)
    chains = []
    for name, missing in by_data.items():
        train = long_tail(name)
        costs: tuple[dict[Lane, float], dict[Lane, float]] = {}, {}
        for one in missing:
            for lane in one.lanes(RECIPE):
                costs[one.request is not None][lane] = lane_cost(lane, RECIPE, train)
        passes = naive_passes(RECIPE, train)
        chains.append([Campaign(name, tuple(phase.values()), passes) for phase in costs if phase])
    return chains


def step_seconds(lanes: int) -> float:
    """Of one step of a stack, linear between the widths that were measured."""
    widths = list(SPEEDS)
    return float(np.interp(lanes, widths, [width * RECIPE.batch / SPEEDS[width] for width in widths]))


def simulate(
    chains: Sequence[Sequence[Campaign]], gpus: int, start: float, failures: float, seed: int = 0
) -> tuple[float, float]:
    """(seconds, busy seconds of all GPUs). Campaigns of a chain wait for each other, chains do not."""
    rng, clock, busy = np.random.default_rng(seed), [0.0] * gpus, 0.0
    ends = [0.0] * len(chains)  # of the campaign of each chain that ended last
    for level in range(max(map(len, chains))):
        queues = {}
        for i, chain in enumerate(chains):
            if level < len(chain):
                queues[i] = StackQueue([(list(range(len(chain[level].costs))), WIDTH)], fixed=False)
        share = max(1, gpus // len(queues))  # chains that run at once share the GPUs
        heapq.heapify(clock)
        began, waiting = dict(enumerate(ends)), list[tuple[int, list[int], float]]()
        for i, queue in queues.items():
            while stack := queue.next(share):
                waiting.append((i, stack, _seconds(chains[i][level], stack)))
        waiting.sort(key=lambda one: -one[2])
        while waiting:
            i, stack, left = waiting.pop(0)
            at = max(heapq.heappop(clock), began[i])
            fails = rng.exponential(3600 / failures) if failures else np.inf
            if fails < start + left:
                epoch = _seconds(chains[i][level], stack) / RECIPE.epochs
                saved = max(0.0, (fails - start) // (EVERY * epoch) * EVERY * epoch)
                waiting.insert(0, (i, stack, left - saved))
                ended = at + fails
            else:
                ended = at + start + left
                ends[i] = max(ends[i], ended)
            busy += ended - at
            heapq.heappush(clock, ended)
    return max(ends), busy


def _seconds(campaign: Campaign, stack: list[int]) -> float:
    steps = campaign.passes / RECIPE.batch
    return steps * step_seconds(len(stack)) * float(np.mean([campaign.costs[lane] for lane in stack]))


def rows(start: float, failures: float) -> list[str]:
    """Markdown: time, speed-up and efficiency, data set after data set and all at once."""
    chains = table_1()
    in_order = [[campaign for chain in chains for campaign in chain]]
    one, _ = simulate(in_order, 1, start, failures)
    lines = ["| GPUs | one data set after the other | efficiency | all data sets at once | efficiency |"]
    lines += ["|---|---|---|---|---|"]
    for gpus in GPUS:
        cells = []
        for plan in (in_order, chains):
            seconds, _ = simulate(plan, gpus, start, failures)
            cells += [f"{seconds / 3600:.2f} h", f"{one / gpus / seconds:.0%}"]
        lines.append(f"| {gpus} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", type=float, default=0.0, help="of a GPU in an hour")
    parser.add_argument("--start", type=float, default=20.0, help="seconds until a task trains")
    given = parser.parse_args()
    chains = table_1()
    lanes = sum(len(campaign.costs) for chain in chains for campaign in chain)
    images = sum(campaign.passes * sum(campaign.costs) for chain in chains for campaign in chain)
    print(f"{lanes:,} lanes on {len(chains)} data sets, {images / 1e9:.2f} billion images\n")
    print("\n".join(rows(given.start, given.failures)))


if __name__ == "__main__":
    main()
