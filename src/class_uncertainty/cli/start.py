"""How a command starts: what is wrong for any data is refused before torch is imported; then its store is opened."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from class_uncertainty.cli.options import Command
from class_uncertainty.errors import InputError

if TYPE_CHECKING:
    from class_uncertainty.cli.running import Running


def start(command: Command, *data: str, create: bool = True) -> "AbstractContextManager[Running]":
    """Check the shared options and the names of data, and open the store, a new one too where `create` is true."""
    from class_uncertainty.data.sources import parse_name
    from class_uncertainty.reporting.terminal import Verbosity
    from class_uncertainty.runs.settings import Settings
    from class_uncertainty.text import seconds

    Verbosity.of(command.verbose, command.quiet)  # refuses both
    budget = seconds(command.budget)
    name, changes = _parse_recipe(command)
    for given in data:
        parse_name(given, command.root)
    Settings(
        store=command.store,
        device=command.device,
        budget=budget,
        profile=command.profile,
        on=command.on,
        shard=command.shard,
    )
    from class_uncertainty.cli.running import open_running

    return open_running(command, name, changes, budget, create)


def _parse_recipe(command: Command) -> tuple[str | None, dict[str, Any]]:
    """The name of the recipe, None where the data's own is meant, and its changes, those by other options included."""
    from class_uncertainty.training.recipe import parse_recipe

    name: str | None = None
    changes: dict[str, Any] = {}
    if command.recipe is not None:
        name, changes = parse_recipe(command.recipe)
    by_option = {"epochs": command.epochs, "network": command.network, "pretrained": command.pretrained or None}
    for field, value in by_option.items():
        if value is None:
            continue
        if field in changes:
            raise InputError(f"{field} is given twice: by --{field} and in --recipe {command.recipe!r}.")
        changes[field] = value
    if command.pretrained and "network" not in changes:
        raise InputError("--pretrained is given, and no network: name one with --network, such as efficientnet-lite0.")
    return name, changes
