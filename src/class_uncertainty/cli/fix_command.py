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

CANDIDATES_HELP = "What to choose from, as METHOD?field=value; '+NAME' and '-NAME' change 'cu list candidates'."
PRIORS = {"equal": "--goal mean", "train": "--goal overall"}  # what other commands call the priors of these goals
GOAL = "What is best: mean, worst, overall, cost:FILE.csv or prior:FILE."
DEPLOY = (
    "What may be kept: one network, or an ensemble where that is better; by default one, and of tables an ensemble."
)
PAGE = "The HTML file that shows what changed; by default named after the saved model, or the data."
SPENT = "What may be spent, in trainings of one naive network: "
SPENT += f"{TRAININGS:g}, or {HEAD_TRAININGS:g} for tables and with the recipe embeddings."
LABEL_ISSUES = "Whether to look for wrong labels: by default for images, as labels of tables are often facts."
SEEDS = "Networks before and after, for the ±, which --trainings does not count: 3, or 1 for tables; seed 0 is saved."


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
    """Train the best network that a number of trainings buys, and write a page that shows what changed.

    Candidates are ways to train one network. All of them are judged on a fold of the training examples that their
    networks never saw, and the best few on more folds. Then an ensemble of the best, and a student that learns from it,
    are tried on a fold that none of them saw. The result is a ladder, which says what each step gains and costs: naive,
    adjusted for the counts, best single, ensemble, student. The step that clearly gains is kept. For the goals overall
    and cost, naive training is kept where the choice is worse on folds that it was not chosen on. Before and after are
    judged on the test split, or by folds without one.

    **--goal** is what counts. *mean*: every class alike, the class-mean error. *worst*: the worst tenth of the classes.
    *overall*: classes as frequent as in training. *cost:FILE.csv*: what each mistake costs, a row for each class and a
    column for each prediction. *prior:FILE*: classes as frequent as the file says.

    **--candidates** names them: *"balanced-softmax,cb-rs?rate=2&schedule=cosine"* are two. A sign changes the list that
    **cu list candidates** shows: *"+cb-rs,-ldam-rw"* adds one and removes one. **--trainings 8** is a small search:
    fewer finalists, then no student, then fewer candidates.

    **--save model** writes model.safetensors and model.json: an ordinary network with its preprocessing, whose softmax
    is calibrated for the goal. **cu predict model new-photos** asks it about new examples; in Python
    cu.restore("model") gives it back. What has finished is in the store: after Ctrl-C or a --budget the same command
    goes on.
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
        from class_uncertainty.reporting.terminal import line_width
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
            shown = fix_page(view, fix_examples(fixed.report, dataset), fixed.files)
            files += write([shown], page, made_from=made_from)
        except InputError as error:  # a package that pages need is missing: what was found is told all the same
            notice(f"{page} was not written: {error}")
        running.show_lines(fix_lines(view, running.verbosity, line_width(), files))
        left_out = [asdict(part) for part in dataset.left_out]
        running.answer(fixed.document() | {"left_out": left_out, "files": [str(file) for file in files]})
