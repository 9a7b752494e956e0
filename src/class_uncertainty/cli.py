"""The command line: `cu`. A thin shell over the package; torch and the like are imported when a command needs them."""

import logging
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import class_uncertainty.adjusting as adjusting
import class_uncertainty.listing as listing
import class_uncertainty.mending as mending
import class_uncertainty.predicting as predicting
from class_uncertainty.errors import InputError, MachineFault, memory_faults
from class_uncertainty.options import (
    BUDGET,
    DATA,
    EPOCHS,
    ESTIMATOR,
    JSON,
    LRS,
    MEMBERS,
    PROFILE,
    RECIPE,
    ROOT,
    RUNS,
    SAVE,
    SCORE,
    STORE,
    asked_for,
    known_method,
    read_rates,
    read_seeds,
    split,
)
from class_uncertainty.text import encode_plainly, reason, seconds, tell

if TYPE_CHECKING:
    from class_uncertainty.training import Lane

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="See which classes a classifier under-serves, why, and mend it.\n\nStart with **cu demo**, then **cu measure DATA**.",
)

DEMO = "naive,cb-rs,ubrs,pb-rs,pb-ubrs,cb,ubrw,ldam-rw,ubm-ldam-rw,balanced-softmax"


def _version(asked: bool) -> None:
    if asked:
        from class_uncertainty import __version__

        typer.echo(__version__)
        raise typer.Exit


VERSION = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")]


@app.callback()
def options(version: VERSION = False) -> None:
    pass


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where results and report go.")] = Path("cu-demo"),
    as_json: JSON = False,
) -> None:
    """The whole tour in a minute: measure, compare, fix and report on long-tailed handwritten digits.

    Trains a five-member ensemble, ten methods with three seeds each and a remedy on real digits that come with scikit-learn.
    """
    from class_uncertainty.estimation import Asked
    from class_uncertainty.session import session

    with session(folder / "runs.sqlite", as_json) as now:
        dataset, recipe = now.prepare("digits-lt:20", None)
        now.say("Real handwritten digits, made long-tailed: 120 examples of the digit 0, 6 of the digit 9.")
        now.say("How under-represented is each, by its count (μ^C) and by what five networks are unsure of (μ^U)?")
        found = now.measure(dataset, recipe, Asked())
        document: dict[str, Any] = {"measure": now.show_measure(dataset, found)}
        now.say("", "The same network trained by ten methods, three seeds each:")
        document["compare"] = now.show_comparison(dataset, now.compare(dataset, recipe, found, _lanes(DEMO, "3", None)), found)
        now.say(
            "",
            "Mended: what five naive networks say together, adjusted for the counts, taught to one network. What was wrong, what changed:",
        )
        mended, document["fix"], _ = now.fix(dataset, recipe, 5, 3, None, None)
        now.show_fix(mended)
        document["report"] = str(now.report(None, folder / "report.html")[0])
        now.say("", f"The report, to open in a browser: {document['report']}")
        now.say("Next, on your own data: cu measure --help, cu compare --help, cu fix --help.")
        now.answer(document)


@app.command()
def measure(
    data: DATA,
    members: MEMBERS = 5,
    estimator: ESTIMATOR = "ensemble",
    score: SCORE = None,
    estimators: Annotated[
        str | None,
        typer.Option("--estimators", help="Several, as ensemble,online,online=predictive: what each costs and knows.", show_default=False),
    ] = None,
    lrs: LRS = None,
    epochs: EPOCHS = None,
    recipe: RECIPE = None,
    budget: BUDGET = None,
    profile: PROFILE = None,
    root: ROOT = None,
    store: STORE = RUNS,
    as_json: JSON = False,
) -> None:
    """Which classes are under-represented, by count and by how uncertain networks are about them.

    Trains an ensemble (once: later calls find it in the store) and lists every class with its count, the cardinality
    measure μ^C, the effective number, the uncertainty measure μ^U, how much of it is disagreement between the members,
    its rank by each (1 = most under-represented), and the classes on which cardinality and uncertainty disagree most.

    With --estimators it compares several: what each costs, and how its class uncertainties go with a deep ensemble's and
    with the class errors.
    """
    names = split("estimator", estimators, str) if estimators is not None else []
    rates = read_rates(lrs)
    if len(rates) > 1 and not names:
        raise InputError(f"--lrs is {lrs}: without --estimators give one learning rate.")
    if names and (score or estimator != "ensemble"):
        raise InputError("--estimators compares each by its own score: leave out --estimator and --score.")
    asked = asked_for(estimator, members, score, rates[0])
    from class_uncertainty.session import session

    with session(store, as_json, root, budget=seconds(budget), profile=profile) as now:
        dataset, chosen = now.prepare(data, epochs, recipe)
        if names:
            now.answer(now.compare_estimators(dataset, chosen, names, members, rates))
            return
        now.answer(now.show_measure(dataset, now.measure(dataset, chosen, asked, score)))


@app.command()
def compare(
    data: DATA,
    methods: Annotated[
        str, typer.Option("--methods", help="Names from 'cu methods', separated by commas; more: cb@product, cb+mixup.")
    ] = "naive,cb-rs,ubrs",
    seeds: Annotated[str, typer.Option("--seeds", help="How many, or which: 3 means 0,1,2.")] = "3",
    lrs: LRS = None,
    members: MEMBERS = 5,
    estimator: ESTIMATOR = "ensemble",
    score: SCORE = None,
    epochs: EPOCHS = None,
    equal_cost: Annotated[
        bool, typer.Option("--equal-cost", help="Also ensembles of as many networks of each cheap row as the dearest costs.")
    ] = False,
    recipe: RECIPE = None,
    budget: BUDGET = None,
    profile: PROFILE = None,
    root: ROOT = None,
    store: STORE = RUNS,
    as_json: JSON = False,
) -> None:
    """Train methods side by side, every one with the same seeds and learning rates.

    Prints the class-mean error as mean ± standard deviation over the seeds, the gain over naive, what one network costs, and for
    methods driven by uncertainty the ASO test against the method with cardinality in its place.

    Remedies are rows too: **adjusted**, **ensemble**, **ensemble-adjusted**, **distil**, and **cb\\*5** for five networks of
    a method together. With --estimator out-of-fold their tau is chosen on what the members never saw; else it is 1.
    """
    from class_uncertainty.methods import named
    from class_uncertainty.remedies.table import remedy_named

    names, numbers, rates = split("method", methods, known_method), read_seeds(seeds), read_rates(lrs)
    remedies = {name: row for name in names if (row := remedy_named(name))}
    lanes = [_lane(name, seed, rate) for name in names if name not in remedies for rate in rates for seed in numbers]
    asked = asked_for(estimator, members, score)
    from class_uncertainty.session import session

    with session(store, as_json, root, budget=seconds(budget), profile=profile) as now:
        dataset, chosen = now.prepare(data, epochs, recipe)
        driven = [lane.value for lane in lanes] + [named(row.method) for row in remedies.values()]
        found = now.measure(dataset, chosen, asked, score) if any(method.uses_uncertainty for method in driven) else None
        results = now.compare(dataset, chosen, found, lanes) if lanes else []
        results += now.remedies(dataset, chosen, list(remedies), numbers, rates, asked, found)
        results.sort(key=lambda result: names.index(result.method))
        if equal_cost:
            results += now.remedies(dataset, chosen, now.equal_cost(results, found), numbers, rates, asked, found)
        now.answer(now.show_comparison(dataset, results, found))


@app.command()
def train(
    data: DATA,
    method: Annotated[str, typer.Option("--method", help="A name from 'cu methods'.")] = "naive",
    save: SAVE = None,
    seed: Annotated[int, typer.Option("--seed", help="Of initialisation, order and augmentation.")] = 0,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate; the recipe's own if not given.", show_default=False)] = None,
    members: MEMBERS = 5,
    estimator: ESTIMATOR = "ensemble",
    score: SCORE = None,
    epochs: EPOCHS = None,
    recipe: RECIPE = None,
    budget: BUDGET = None,
    profile: PROFILE = None,
    root: ROOT = None,
    store: STORE = RUNS,
    as_json: JSON = False,
) -> None:
    """Train one network and, with --save, keep it: weights as safetensors, and a JSON file that rebuilds it with its preprocessing.

    It always trains, whatever the store has.
    'cu predict PATH EXAMPLES' asks it. In Python, cu.restore(PATH) gives it back as a plain nn.Module: raw images or features in,
    logits out.
    """
    from class_uncertainty.remedies.table import remedy_named

    if remedy_named(method):
        raise InputError(f"{method!r} is made of several networks: 'cu fix' saves one that has learnt from them, 'cu compare' has its row.")
    lane = _lane(method, seed, lr)
    asked = asked_for(estimator, members, score)
    from class_uncertainty.session import session

    with session(store, as_json, root, budget=seconds(budget), profile=profile) as now:
        dataset, chosen = now.prepare(data, epochs, recipe)
        if save:
            now.check_savable(save)
        found = now.measure(dataset, chosen, asked, score) if lane.value.uses_uncertainty else None
        result, files = now.train(dataset, chosen, found, lane, save)
        now.show_comparison(dataset, [result], found)
        now.say(*(f"wrote {file}" for file in files) if files else ("The network is not kept: --save PATH would write it.",))
        now.answer({"result": asdict(result), "files": [str(file) for file in files]})


@app.command()
def report(
    data: Annotated[str | None, typer.Argument(help="Only this data set; all that are stored if not given.", show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", help="The HTML file to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option("--figures", help="A folder for the charts as SVG and PNG.", show_default=False)] = None,
    root: ROOT = None,
    store: STORE = RUNS,
    as_json: JSON = False,
) -> None:
    """Render what is stored as one self-contained HTML file, to open in any browser, no network needed."""
    from class_uncertainty.session import session

    with session(store, as_json, root, create=False) as now:
        files = now.report(data, out, figures)
        now.say(*(f"wrote {file}" for file in files))
        now.answer({"files": [str(file) for file in files]})


for part in (mending, predicting, adjusting, listing):
    app.registered_commands += part.app.registered_commands
app.registered_groups += listing.app.registered_groups


def _lane(method: str, seed: int, lr: float | None) -> "Lane":
    from class_uncertainty.training import Lane

    return Lane(method, seed, lr)


def _lanes(methods: str, seeds: str, lrs: str | None) -> "list[Lane]":
    """Every method with every learning rate and every seed."""
    return [_lane(name, seed, rate) for name in split("method", methods, str) for rate in read_rates(lrs) for seed in read_seeds(seeds)]


class _Notices(logging.Handler):
    """What the package tells of, a line each on stderr as it is when they are told: a live table may have taken its place."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(record.getMessage())


def main() -> None:
    """Exit code 2 for a wrong input, 1 for a fault of the machine, 3 for a budget that is spent; one sentence on stderr, no traceback."""
    encode_plainly()
    notices = logging.getLogger("class_uncertainty")
    notices.handlers, notices.propagate = [_Notices()], False
    try:
        with memory_faults():
            app()
    except InputError as error:
        tell(error)
        sys.exit(2)
    except MachineFault as error:
        tell(error)
        sys.exit(1)
    except OSError as error:
        tell(f"{'output' if error.filename is None else os.fsdecode(error.filename)}: {error.strerror or reason(error)}.")
        sys.exit(1)
    except UnicodeEncodeError as error:
        tell(f"{error.object!r} is not text that can be written as {error.encoding}: give it another name.")
        sys.exit(2)


if __name__ == "__main__":
    main()
