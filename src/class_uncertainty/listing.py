"""Commands that list what can be named, and the one that gets data."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from class_uncertainty.options import JSON, ROOT

app = typer.Typer()
data_app = typer.Typer(no_args_is_help=True, help="Get data sets.")
app.add_typer(data_app, name="data")


@app.command()
def methods(as_json: JSON = False) -> None:
    """List the methods: what each does to the knobs (which class is drawn, its weight, its margin).

    A name can say more than a row: **cb@product** is driven by another measure, **cb+mixup** has more augmentation
    (autoaugment, cutout, mixup, remix).
    """
    from class_uncertainty.methods import METHODS
    from class_uncertainty.training import describe

    acts_on = {
        name: ", ".join(dict.fromkeys(knob for stage in row.stages for knob in [*stage.knobs, *(["focal"] if stage.focal else [])]))
        for name, row in METHODS.items()
    }
    rows = [(name, acts_on[name] or "–", row.about, row.counterpart or "–") for name, row in METHODS.items()]
    documents = [{"name": name, "about": row.about, "counterpart": row.counterpart, **describe(row)} for name, row in METHODS.items()]
    _list(("method", "acts on", "what it does", "its cardinality counterpart"), rows, documents, as_json)


@app.command()
def remedies(as_json: JSON = False) -> None:
    """List the remedies: what can be made of trained networks, as rows of 'cu compare' beside the methods.

    **cb\\*5** is one too: five networks of a method together. 'cu fix' does it all, with distil.
    """
    from class_uncertainty.remedies.table import REMEDIES
    from class_uncertainty.reporting import terminal

    rows = [(name, f"{row.trainings(5):.3g}", row.about) for name, row in REMEDIES.items()]
    documents = [{"name": name, "about": row.about, "cost": row.trainings(5), "adjusts": row.adjusts} for name, row in REMEDIES.items()]
    _list(("remedy", "cost", "what it is"), rows, documents, as_json)
    if not as_json:
        terminal.say("Cost: in naive trainings with five members; where tau is chosen by out-of-fold networks, theirs come on top.")


@app.command()
def measures(as_json: JSON = False) -> None:
    """List the imbalance measures: larger means more under-represented."""
    from class_uncertainty.measures import MEASURES

    rows = [(name, row.about, "after an estimate" if row.uses_uncertainty else "from the counts") for name, row in MEASURES.items()]
    documents = [{"name": name, "about": row.about, "uses_uncertainty": row.uses_uncertainty} for name, row in MEASURES.items()]
    _list(("measure", "formula", "known"), rows, documents, as_json)


@app.command()
def estimators(as_json: JSON = False) -> None:
    """List the ways to measure uncertainty, and the scores that say what counts as uncertain."""
    from class_uncertainty.estimation import ESTIMATORS
    from class_uncertainty.measures import SCORES
    from class_uncertainty.reporting import terminal

    rows = [(name, row.natural, row.about) for name, row in ESTIMATORS.items()]
    documents = [{"name": name, "score": row.natural, "about": row.about} for name, row in ESTIMATORS.items()]
    _list(("estimator", "its score", "what it is"), rows, documents, as_json)
    if not as_json:
        own = "".join(f"; {score}, of {name} alone" for name, row in ESTIMATORS.items() for score in row.scores if score not in SCORES)
        terminal.say(f"Scores: {', '.join(SCORES)}{own}.")


@app.command()
def datasets(
    source: Annotated[str | None, typer.Argument(help="One of them, with its options.", metavar="SOURCE", show_default=False)] = None,
    as_json: JSON = False,
) -> None:
    """List the data that can be named, with an example of each and what it expects on disk; or one source's options.

    Options follow a question mark: folder:PATH?size=32&test=0.2 (in quotes, for the shell). Data without a test split are
    judged by five stratified folds.
    """
    from class_uncertainty.data import SOURCES
    from class_uncertainty.errors import unknown
    from class_uncertainty.reporting import terminal

    if source is not None and source not in SOURCES:
        raise unknown("source", source, SOURCES)
    chosen = {name: row for name, row in SOURCES.items() if source in (None, name)}
    fields = ("example", "about", "expects", "options")
    documents = [{"name": name} | {field: getattr(row, field) for field in fields} for name, row in chosen.items()]
    if source is None or as_json:
        rows = [(name, row.example, row.about, row.expects) for name, row in chosen.items()]
        _list(("source", "example", "what it is", "what it expects on disk"), rows, documents, as_json)
    else:
        row = chosen[source]
        terminal.say(f"{source}: {row.about}", f"example: {row.example}", f"expects: {row.expects}")
        _list(("option", "what it does"), list(row.options.items()), [], False)


@data_app.command("fetch")
def fetch_data(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100 or svhn.", metavar="NAME", show_default=False)],
    root: ROOT = None,
    as_json: JSON = False,
) -> None:
    """Download the original files of a data set into the data folder and check them.

    What is there is not fetched again, and a download that broke off goes on where it stopped.
    """
    from class_uncertainty.data.fetch import fetch
    from class_uncertainty.data.specs import data_folder
    from class_uncertainty.reporting import terminal

    with terminal.progress_bars("bytes") as progress:
        files = [str(file) for file in fetch(name, data_folder(root), progress)]
    if as_json:
        terminal.print_json({"files": files})
    else:
        terminal.say(*(f"{file} is there, with its published checksum" for file in files))


def _list(columns: Sequence[str], rows: Sequence[Sequence[str]], documents: list[dict[str, Any]], as_json: bool) -> None:
    from class_uncertainty.reporting import terminal

    if as_json:
        terminal.print_json(documents)
    else:
        terminal.console().print(terminal.plain_table(columns, rows, left=len(columns)))
