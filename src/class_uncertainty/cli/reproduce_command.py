"""`cu reproduce`: the paper's tables beside what is measured here."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from class_uncertainty.cli import options
from class_uncertainty.cli.options import PLACE, ROWS, STORED, Command, shared
from class_uncertainty.cli.start import start
from class_uncertainty.errors import InputError, Unfinished
from class_uncertainty.runs.comparison import MAX_SEEDS

if TYPE_CHECKING:
    from class_uncertainty.cli.running import Running
    from class_uncertainty.paper.reproduction import Reproduction


@shared("budget", *PLACE, *ROWS, *STORED)
def reproduce(
    experiment: Annotated[
        str,
        options.argument(
            "table1, svci20, if1a, if1b, if2, measures, figure1, epistemic, gamma, readings, duq, significance, or "
            "all; architectures or places, with --network.",
            "EXPERIMENT",
        ),
    ],
    command: Command,
    protocol: Annotated[str | None, options.optional("paper or equal; by default both.", "paper|equal")] = None,
    only: Annotated[str | None, options.optional("One data set, as cifar100-lt:50.", "DATA")] = None,
    methods: Annotated[str | None, options.optional("Only these rows, such as naive,ubrw-focal.")] = None,
    seeds: Annotated[
        int | None,
        options.whole("--seeds", "Runs of every row; by default 3, and 5 for svci20 and significance.", 1, MAX_SEEDS),
    ] = None,
    network: Annotated[
        str | None, options.optional("The pretrained network of architectures and places, as hf:FOLDER.", "NAME")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Train nothing: list lanes, images and time left.")] = False,
    stored: Annotated[bool, typer.Option("--stored", help="Train nothing: show what is stored.")] = False,
) -> None:
    """Run an experiment of the paper beside its printed values.

    cu reproduce table1 --only cifar100-lt:50 --budget 25m
    cu reproduce table1 --stored

    Main tables: table1, svci20. Figures: if1a, if1b, if2, measures, figure1. Supplement: epistemic, gamma, duq,
    significance, readings, architectures, places. Stored results are not trained again; cu results import adds the
    project's own. architectures and places start from pretrained weights that you supply: name them with --network.
    docs/reproduction.md has the protocols.
    """
    if plan and stored:
        raise InputError(
            "--plan and --stored are both given: give --plan for what is left, or --stored for what is stored."
        )
    names = None if methods is None else options.split("method", methods, str)
    started = start(command, create=not stored)
    from class_uncertainty.data import load
    from class_uncertainty.paper.experiments import select

    selection = select(experiment, protocol, only, seeds, names, network)
    with started as running:
        if stored:
            from class_uncertainty.paper.reproduction import stored_reproductions

            _show(running, stored_reproductions(selection, running.store, without_older=command.retrain_older))
            return
        from class_uncertainty.paper.reproduce import plan_reproduction
        from class_uncertainty.paper.reproduce import reproduce as run
        from class_uncertainty.paper.tables import print_remaining

        if plan:
            with running.loader(load) as read:
                rows = plan_reproduction(
                    selection, running.store, read=read, device=command.device, retrain_older=command.retrain_older
                )
            if not command.as_json:
                print_remaining(rows)
            running.answer({"remaining": [asdict(row) for row in rows]})
            return
        with running.loader(load) as read:
            reproductions = run(
                selection,
                running.store,
                read=read,
                device=command.device,
                budget=running.deadline,
                progress=running.watch,
                on=command.on,
                shard=command.shard,
                retrain_older=command.retrain_older,
            )
        _show(running, reproductions)


def _show(running: "Running", reproductions: "Sequence[Reproduction]") -> None:
    """All experiments, as far as they have been run; then why they are unfinished, if they are."""
    from class_uncertainty.paper.tables import print_reproduction

    if not running.command.as_json:
        for reproduction in reproductions:
            print_reproduction(reproduction)
    running.answer({"experiments": [reproduction.document() for reproduction in reproductions]})
    for reproduction in reproductions:
        if reproduction.unfinished:
            raise Unfinished(reproduction.unfinished)
