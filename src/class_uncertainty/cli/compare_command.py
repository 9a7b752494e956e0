"""`cu compare`: methods side by side."""

from typing import Annotated

import typer

from class_uncertainty.cli import options
from class_uncertainty.cli.options import COLUMNS, PLACE, ROWS, TRAINING, Command, shared
from class_uncertainty.cli.start import start
from class_uncertainty.runs.comparison import check_against, check_choose_on, check_choosing


@shared(*COLUMNS, *TRAINING, *PLACE, *ROWS)
def compare(
    data: options.DATA,
    command: Command,
    methods: Annotated[
        str, typer.Option(help="Names from 'cu list methods'; more: cb:beta=0.9, cb@product, cb+mixup.")
    ] = "naive,cb-rs,ubrs",
    seeds: Annotated[str, typer.Option(help="How many, or which: 3 means 0,1,2.")] = "3",
    lrs: options.LRS = None,
    members: options.MEMBERS = 5,
    estimator: options.ESTIMATOR = None,
    score: options.SCORE = None,
    equal_cost: Annotated[bool, typer.Option("--equal-cost", help="Add ensembles as dear as the dearest row.")] = False,
    choose_lr: Annotated[
        bool, typer.Option("--choose-lr", help="Train each row at its best of --lrs, by folds of the training split.")
    ] = False,
    choose_on: Annotated[
        str | None,
        options.optional("Choose on the test split of these data, such as 'folder:PATH?judge=validation'.", "DATA"),
    ] = None,
    against: Annotated[
        str, typer.Option(help="Test rows against their cardinality counterpart, or all against one: naive, cb-rs.")
    ] = "counterpart",
    page: options.PAGE = None,
) -> None:
    """Train methods side by side, with the same seeds.

    cu compare photos --methods naive,cb-rs,ubrs
    cu compare photos --methods naive,cb-rs --lrs 0.1,0.4 --choose-lr

    With --choose-lr, each method trains at its best rate, chosen by folds of the training examples or on the data of
    --choose-on. Names come from cu list methods and cu list remedies.
    """
    names = options.split("method", methods, options.check_method)
    numbers = options.read_seeds(seeds)
    rates = options.read_rates(lrs)
    options.check_estimate(estimator, members, score)
    check_against(against, names)
    check_choose_on(choose_on, choose_lr)
    if choose_lr:
        check_choosing(rates, numbers)
    with start(command, data, *([] if choose_on is None else [choose_on])) as running:
        from class_uncertainty.reporting.compare_view import compare_lines
        from class_uncertainty.reporting.page import write
        from class_uncertainty.reporting.result_pages import compare_page
        from class_uncertainty.workflows.compare import compare as compare_methods

        dataset, known = running.prepare(data)
        chosen_on = None
        if choose_on is not None:
            chosen_on, _ = running.prepare(choose_on, prefix=f"{choose_on}: ")
        asked = (names, numbers, rates, members, estimator, score, equal_cost, choose_lr, choose_on, against)
        made_from = running.page_mark(page, dataset, *asked, known["recipe"])
        comparison = compare_methods(
            dataset,
            methods=names,
            seeds=numbers,
            lrs=rates,
            estimator=estimator,
            members=members,
            score=score,
            equal_cost=equal_cost,
            choose_lr=choose_lr,
            choose_on=chosen_on,
            against=against,
            shard=command.shard,
            retrain_older=command.retrain_older,
            **known,
        )
        files = write([compare_page(comparison)], page, made_from=made_from) if page else []
        running.show_lines(compare_lines(comparison, *running.room))
        if files:
            running.say(*(f"wrote {file}" for file in files))
        running.answer(comparison.document())
