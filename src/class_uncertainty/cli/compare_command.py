"""`cu compare`: methods side by side."""

from typing import Annotated, Any

import typer

from class_uncertainty.cli import options


def compare(
    data: options.DATA,
    methods: Annotated[
        str, typer.Option(help="Names from 'cu list methods'; more: cb:beta=0.9, cb@product, cb+mixup.")
    ] = "naive,cb-rs,ubrs",
    seeds: Annotated[str, typer.Option(help="How many, or which: 3 means 0,1,2.")] = "3",
    lrs: options.LRS = None,
    members: options.MEMBERS = 5,
    estimator: options.ESTIMATOR = None,
    score: options.SCORE = None,
    epochs: options.EPOCHS = None,
    equal_cost: Annotated[bool, typer.Option("--equal-cost", help="Add ensembles as dear as the dearest row.")] = False,
    choose_lr: Annotated[
        bool, typer.Option("--choose-lr", help="Train each row at its best of --lrs, by folds of the training split.")
    ] = False,
    choose_on: Annotated[
        str | None, options.optional("Choose on what judges these data, as 'folder:PATH?judge=validation'.", "DATA")
    ] = None,
    against: Annotated[
        str, typer.Option(help="Test rows against their cardinality counterpart, or all against one: naive, cb-rs.")
    ] = "counterpart",
    recipe: options.RECIPE = None,
    backbone: options.BACKBONE = None,
    views: options.VIEWS = None,
    network: options.NETWORK = None,
    pretrained: options.PRETRAINED = False,
    budget: options.BUDGET = None,
    on: options.ON = None,
    device: options.DEVICE = None,
    shard: options.SHARD = None,
    retrain_older: options.RETRAIN_OLDER = False,
    profile: options.PROFILE = None,
    root: options.ROOT = None,
    store: options.STORE = options.RUNS,
    as_json: options.JSON = False,
) -> None:
    """Train methods side by side, with the same seeds.

    Prints the class-mean error as mean ± standard deviation over the seeds, the gain over naive, what one network
    costs, and an ASO test: of each uncertainty row of 'cu list methods' against its cardinality counterpart where both
    were trained, or of every row against the one that --against names. The confidence is corrected for the number of
    tests.

    A learning rate that suits naive may not suit others. **--lrs 0.1,0.2,0.4 --choose-lr** trains each row at its best
    rate, chosen by five folds of the training split; the test split, which it needs, only judges. To choose on
    validation examples instead, name data that judge on them: **--choose-on "folder:photos?judge=validation"**,
    **--choose-on "csv:train.csv?test=validation.csv"** or **--choose-on "cifar10-lt:100?validation=500"**.

    Remedies are rows too: **adjusted**, **ensemble**, **ensemble-adjusted**, **distil**, and **cb\\*5** for five
    networks of a method together. With --estimator out-of-fold their tau is chosen on examples that the members never
    saw; otherwise it is 1.
    """
    names, numbers = options.split("method", methods, options.check_method), options.read_seeds(seeds)
    rates = options.read_rates(lrs)
    options.check_estimate(estimator, members, score)
    options.check_comparison(names, numbers, rates, choose_lr, choose_on, against)
    for given in (data, choose_on):
        if given is not None:
            options.check_start(given, root, budget, recipe)
    options.check_on(on, device, profile, shard)
    from class_uncertainty.cli.running import running
    from class_uncertainty.reporting import terminal_tables
    from class_uncertainty.workflows.compare import compare as compare_methods

    with running(store, as_json, root, budget=budget, profile=profile) as now:
        how: dict[str, Any] = {"backbone": backbone, "views": views, "network": network, "pretrained": pretrained}
        dataset, chosen = now.prepare(data, epochs, recipe, **how)
        other = None
        if choose_on is not None:
            other, _ = now.prepare(choose_on, epochs, recipe, **how, prefix=f"{choose_on}: ")
        measuring: dict[str, Any] = {"estimator": estimator, "members": members, "score": score}
        choosing = {"choose_lr": choose_lr, "choose_on": other}
        rows: dict[str, Any] = {"equal_cost": equal_cost, "against": against} | choosing
        where: dict[str, Any] = {"device": device, "on": on, "shard": shard, "retrain_older": retrain_older}
        about = rows | measuring | where
        comparison = compare_methods(dataset, names, numbers, rates, **about, **now.settings(chosen))
        now.answer(now.show(comparison, terminal_tables.print_comparison))
