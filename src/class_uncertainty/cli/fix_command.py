"""`cu fix`: from data to the best network that a number of trainings buys."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from class_uncertainty.cli import options
from class_uncertainty.cli.options import COLUMNS, PLACE, TRAINING, Command, shared
from class_uncertainty.cli.start import start
from class_uncertainty.errors import InputError, notice
from class_uncertainty.runs.comparison import MAX_SEEDS
from class_uncertainty.workflows.fix_plan import HEAD_TRAININGS, TRAININGS

CANDIDATES_HELP = "Names from 'cu list candidates', or METHOD?field=value; +NAME and -NAME change the list."
PRIORS = {"equal": "--goal mean", "train": "--goal overall"}  # what other commands call the priors of these goals
GOAL = "What to minimise: mean (every class alike), worst, overall, cost:FILE.csv or prior:FILE."
DEPLOY = "Keep one network, or an ensemble where that is better (tables: ensemble, else one)."
PAGE = "The HTML page; by default named after the saved model, or the data."
SPENT = f"Training budget, in naive trainings: {TRAININGS:g}, or {HEAD_TRAININGS:g} for tables and embeddings."
LABEL_ISSUES = "Look for wrong labels; by default only in images."
SEEDS = "Networks before and after: 3, or 1 for tables; the first is saved."


@shared(*COLUMNS, *TRAINING, *PLACE)
def fix(
    data: options.DATA,
    command: Command,
    goal: Annotated[str, typer.Option(help=GOAL)] = "mean",
    candidates: Annotated[str | None, options.optional(CANDIDATES_HELP)] = None,
    deploy: Annotated[str | None, options.optional(DEPLOY)] = None,
    trainings: Annotated[float | None, options.positive("--trainings", SPENT)] = None,
    seeds: Annotated[int | None, options.whole("--seeds", SEEDS, 1, MAX_SEEDS)] = None,
    save: options.SAVE = None,
    embed_weights: options.EMBED_WEIGHTS = False,
    label_issues: Annotated[bool | None, options.optional(LABEL_ISSUES)] = None,
    page: Annotated[Path | None, options.optional(PAGE, "PAGE.html", "--report")] = None,
    costs: Annotated[str | None, options.elsewhere("--costs", "--cost", instead="--goal cost:")] = None,
    prior: Annotated[str | None, options.elsewhere("--prior", instead="--goal prior:", **PRIORS)] = None,
) -> None:
    """Find the training that serves every class best, and keep its model.

        cu fix photos --save model
        cu fix churn.csv --label churned
        cu fix churn.csv --label churned --goal cost:costs.csv

    Candidates are compared out-of-fold within a budget of trainings; the test split, or outer folds, only judge. An
    HTML page shows what changed. After Ctrl-C, the same command resumes.
    """
    names = options.read_candidates(candidates)
    options.check_fix(goal, deploy)
    with start(command, data) as running:
        from class_uncertainty.data.spec import file_stem, paths_named
        from class_uncertainty.io import origin
        from class_uncertainty.reporting.fix_page import fix_page
        from class_uncertainty.reporting.fix_view import fix_lines, view_fix
        from class_uncertainty.reporting.page import page_place, write
        from class_uncertainty.reporting.page_examples import fix_examples
        from class_uncertainty.reporting.section import describe_findings
        from class_uncertainty.training.model_files import files_of
        from class_uncertainty.workflows.fix import fix as fix_classes

        dataset, known = running.prepare(data, writes=files_of(save) if save else ())
        default = Path(f"{file_stem(dataset.name)}.html")
        if save:
            default = Path(files_of(save)[0].with_suffix(".html").name)
        asked = (names, goal, deploy, trainings, seeds, label_issues, embed_weights, known["recipe"])
        read = paths_named(dataset.name, goal, command.network, root=command.root)
        made_from = origin(f"a fix of {dataset.name}", read, *asked)
        page = page_place(made_from, page, default, command.force, read)
        store = running.store
        stored = store.finished + store.networks
        fixed = fix_classes(
            dataset,
            candidates=names,
            goal=goal,
            deploy=deploy,
            trainings=trainings,
            seeds=seeds,
            save=save,
            embed_weights=embed_weights,
            label_issues=label_issues,
            **known,
        )
        view = view_fix(fixed.report, dataset)
        files = [*fixed.files]
        try:
            shown = fix_page(view, fix_examples(fixed.report, dataset), fixed.files, describe_findings(dataset))
            files += write([shown], page, made_from=made_from)
        except InputError as error:  # a package that pages need is missing: what was found is told all the same
            notice(f"{page} was not written: {error}")
        trained = store.finished + store.networks - stored
        running.show_lines(fix_lines(view, *running.room, files, trained))
        left_out = [asdict(part) for part in dataset.left_out]
        running.answer(fixed.document() | {"left_out": left_out, "files": [str(file) for file in files]})
