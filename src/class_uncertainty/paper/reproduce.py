"""reproduce(): experiments of the paper beside what this package measures. What is stored is not trained again."""

from collections.abc import Sequence
from dataclasses import replace

from class_uncertainty.data import load
from class_uncertainty.errors import ShardEnded, Unfinished, notice
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.paper.experiments import Selection
from class_uncertainty.paper.ledger import Ledger, Missing, Remaining, data_of
from class_uncertainty.paper.reproduction import Reproduction, summarise
from class_uncertainty.paper.trainer import Read, Trainer, read_known
from class_uncertainty.paper.training_time import TrainingTime
from class_uncertainty.runs.open_executor import On, open_executor
from class_uncertainty.runs.store import Store
from class_uncertainty.runs.watcher import Shown
from class_uncertainty.training import Lane
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import resolve_device
from class_uncertainty.training.networks.network_table import sealed


def reproduce(
    selection: Selection,
    store: Store,
    *,
    read: Read = load,
    device: str | None = None,
    budget: float | Deadline | None = None,
    progress: Shown = None,
    on: On = None,
    shard: str | None = None,
    retrain_older: bool = False,
) -> list[Reproduction]:
    """Train what experiments lack, and put every printed value beside ours.

    Parameters
    ----------
    selection : Selection
        What is asked for, by `select`.
    store, device, budget, progress, on
        As for `cu.measure`. Results of other devices in the store count, too.
    read : callable
        Loads a data set by its name.
    shard : str, optional
        "i/n": train only the i-th of n parts of the rows that are missing.
    retrain_older : bool
        Whether to train results of older revisions of a method again; otherwise they count, and are marked.

    Returns
    -------
    list of Reproduction
        What is stored by then, one for each experiment. `unfinished` says why training stopped early, if it did.
    """
    recipe = sealed(selection.recipe)
    with open_executor(on, device) as executor:
        trainer = Trainer(
            store,
            read,
            recipe,
            device=executor.device if executor else resolve_device(device),
            deadline=Deadline.after(budget),
            progress=progress,
            executor=executor,
            shard=shard,
            retrain_older=retrain_older,
        )
        reproductions = []
        unfinished = ""
        for name, experiment in selection.experiments.items():
            wanted = selection.wanted(experiment)
            try:
                if not unfinished:
                    trainer.train(wanted)
            except ShardEnded as ended:
                notice(str(ended))
            except Unfinished as error:
                unfinished = str(error)
            ledger = trainer.ledger(wanted)
            reproduction = summarise(name, experiment, selection.protocols, ledger, selection.only)
            if ledger.missing(wanted):
                reproduction = replace(reproduction, unfinished=unfinished)
            reproductions.append(reproduction)
        return reproductions


def plan_reproduction(
    selection: Selection, store: Store, *, read: Read = load, device: str | None = None, retrain_older: bool = False
) -> list[Remaining]:
    """What `reproduce` would train at most, by data set. If anything is left, a few steps are timed on the device.

    Lanes whose rate is still to be chosen are counted, too, although they may turn out to be trained already.
    """
    recipe = sealed(selection.recipe)
    wanted = [one for experiment in selection.experiments.values() for one in selection.wanted(experiment)]
    ledger = Ledger.read(store, recipe, data_of(wanted), retrain_older)
    missing = ledger.missing(wanted, assume=True)
    if not missing:
        return []
    return remaining(missing, ledger, store, read, TrainingTime(recipe, resolve_device(device)))


def remaining(
    missing: Sequence[Missing], ledger: Ledger, store: Store, read: Read, training_time: TrainingTime
) -> list[Remaining]:
    """How long what is missing would take."""
    by_data: dict[str, list[Missing]] = {}
    for one in missing:
        by_data.setdefault(one.data, []).append(one)
    rows = []
    for name, listed in by_data.items():
        train = read_known(read, name, ledger, store).train
        groups: dict[tuple[EstimateRequest | None, str], dict[Lane, None]] = {}
        for one in listed:  # a lane by other class uncertainties is another one
            groups.setdefault((one.request, one.score), {}).update(dict.fromkeys(one.lanes(ledger.recipe)))
        lanes = sum(map(len, groups.values()))
        images = sum(training_time.images(list(group), train) for group in groups.values())
        minutes = training_time.seconds(lanes, images, train) / 60
        rows.append(Remaining(name, lanes, images, minutes))
    return rows
