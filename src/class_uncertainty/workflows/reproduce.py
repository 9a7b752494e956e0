"""cu.reproduce(): an experiment of the paper beside what this package measures. What is stored is not trained again."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from class_uncertainty.data import Dataset, load
from class_uncertainty.errors import InputError, ShardEnded, Unfinished, notice, unknown
from class_uncertainty.experiments.catalogue import Experiment, check_only, find_experiments
from class_uncertainty.experiments.needs import PROTOCOLS
from class_uncertainty.experiments.reproduction import Reproduction, summarise
from class_uncertainty.runs.comparison_checks import check_seeds
from class_uncertainty.runs.open_executor import open_executor
from class_uncertainty.runs.store import Store
from class_uncertainty.runs.watcher import Shown
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import resolve_device
from class_uncertainty.training.networks.network_table import sealed
from class_uncertainty.training.recipe import RECIPES, Recipe
from class_uncertainty.workflows.train_missing import ExperimentTrainer, Remaining

Read = Callable[[str], Dataset]
RECIPE = RECIPES["bag-of-tricks"]


def reproduce(
    experiment: str,
    protocol: str | None = None,
    only: str | None = None,
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    network: str | None = None,
    *,
    train: bool = True,
    read: Read = load,
    store: Store | str | Path = "runs.sqlite",
    device: str | None = None,
    budget: float | Deadline | None = None,
    progress: Shown = None,
    on: str | None = None,
    shard: str | None = None,
    retrain_older: bool = False,
) -> tuple[Reproduction, ...]:
    """Run an experiment of the paper, and put every printed value beside ours.

    Parameters
    ----------
    experiment : str
        "table1", "svci20", "if1a" and so on, or "all"; `cu reproduce --help` lists them.
    protocol : str, optional
        "paper" chooses learning rates for the paper's own rows alone, as it did, "equal" for all rows. By default both.
    only : str, optional
        One data set.
    seeds : int, optional
        Runs of every row; by default the table's number.
    methods : list of str, optional
        Only rows of these methods, as "ubrw-focal"; by default all.
    network : str, optional
        The pretrained network of "architectures" and "places".
    train : bool
        Whether to train what the store lacks; otherwise only what it has is shown.
    read : callable
        Loads a data set by its name.
    store, device, budget, progress, on
        As for `cu.measure`. Results of other devices in the store count, too.
    shard : str, optional
        "i/n": train only the i-th of n parts of the rows that are missing.
    retrain_older : bool
        Whether to train results of older revisions of a method again; otherwise they count, and are marked.

    Returns
    -------
    tuple of Reproduction
        What is stored by then, one for each experiment. `unfinished` says why training stopped early, if it did.
    """
    experiments, protocols = check_request(experiment, protocol, only, seeds, methods, network)
    with ExitStack() as stack:
        recipe = recipe_of(experiments, network, None if train else store)
        executor = stack.enter_context(open_executor(on if train else None, device))
        device = executor.device if executor else resolve_device(device)
        about = (Deadline.after(budget), progress, executor, shard, retrain_older)
        trainer = ExperimentTrainer(_opened(stack, store), read, recipe, device, *about)
        reproduced, unfinished = [], ""
        for name, row in experiments.items():
            wanted = row.wanted(protocols, seeds, recipe.lr, only)
            try:
                if train and not unfinished:
                    trainer.train(wanted)
            except ShardEnded as ended:
                notice(str(ended))
            except Unfinished as error:
                unfinished = str(error)
            lookup = trainer.lookup(wanted)
            reproduction = summarise(name, row, protocols, lookup, only)
            reproduced.append(replace(reproduction, unfinished=unfinished if lookup.missing(wanted) else ""))
        return tuple(reproduced)


def plan_reproduction(
    experiment: str,
    protocol: str | None = None,
    only: str | None = None,
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    network: str | None = None,
    *,
    read: Read = load,
    store: Store | str | Path = "runs.sqlite",
    device: str | None = None,
) -> list[Remaining]:
    """What `reproduce` would train, by data set, and how long this device would take. A few steps are timed."""
    experiments, protocols = check_request(experiment, protocol, only, seeds, methods, network)
    recipe = recipe_of(experiments, network)
    with ExitStack() as stack:
        trainer = ExperimentTrainer(_opened(stack, store), read, recipe, resolve_device(device))
        wanted = [one for row in experiments.values() for one in row.wanted(protocols, seeds, recipe.lr, only)]
        return trainer.remaining(wanted)


def recipe_of(
    experiments: dict[str, Experiment], network: str | None, shown: Store | str | Path | None = None
) -> Recipe:
    """What all of these experiments are trained by: those that name a network are asked for one by one.

    Results tell networks apart by their weights. Where those are not on this machine, the results of a store that is
    only shown are found by the network's name, unless it names several.
    """
    if network is None:
        return RECIPE
    (experiment,) = experiments.values()
    recipe = replace(RECIPES[experiment.recipe], network=network)
    try:
        return sealed(recipe)
    except InputError:
        if shown is None:
            raise
        with ExitStack() as stack:
            opened = _opened(stack, shown, create=False)
            results = [result for data in opened.data() for result in opened.results(data.fingerprint)]
        stored = {one.recipe for one in results if replace(one.recipe, fingerprint="") == recipe}
        if len(stored) != 1:
            raise
        return stored.pop()


def check_request(
    experiment: str,
    protocol: str | None,
    only: str | None,
    seeds: int | None,
    methods: Sequence[str] | None,
    network: str | None = None,
) -> tuple[dict[str, Experiment], tuple[str, ...]]:
    """The experiments of a name with the rows that are asked for, and the protocols."""
    experiments = find_experiments(experiment, network)
    if methods is not None:
        experiments = {name: row.restricted(methods) for name, row in experiments.items()}
    if protocol is not None and protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    check_only(experiments, only)
    if seeds is not None:
        check_seeds(seeds, alternative="")
    return experiments, PROTOCOLS if protocol is None else (protocol,)


def _opened(stack: ExitStack, store: Store | str | Path, create: bool = True) -> Store:
    return store if isinstance(store, Store) else stack.enter_context(Store(store, create))
