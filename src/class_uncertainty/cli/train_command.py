"""`cu train`: one network, to keep."""

from dataclasses import asdict
from typing import Annotated

import typer

from class_uncertainty.checks import LARGEST
from class_uncertainty.cli import options
from class_uncertainty.cli.options import COLUMNS, TRAINING, Command, shared
from class_uncertainty.cli.start import start
from class_uncertainty.errors import InputError


@shared(*COLUMNS, *TRAINING)
def train(
    data: options.DATA,
    command: Command,
    method: Annotated[str, typer.Option(help="A name from 'cu list methods'.")] = "naive",
    save: options.SAVE = None,
    embed_weights: options.EMBED_WEIGHTS = False,
    seed: Annotated[
        int, options.whole("--seed", "Seed of initialisation, order and augmentation.", 0, LARGEST - 1, shown=True)
    ] = 0,
    lr: Annotated[float | None, options.positive("--lr", "Learning rate; by default the recipe's.")] = None,
    members: options.MEMBERS = 5,
    estimator: options.ESTIMATOR = None,
    score: options.SCORE = None,
) -> None:
    """Train one network by one method, and save it.

    cu train photos --save model
    cu train digits-lt:20 --method cb-rs --lr 0.1 --save model

    Always trains, even if the store has the result. In Python, cu.restore("model") returns the network with its
    preprocessing.
    """
    from class_uncertainty.posthoc.remedies import find_remedy
    from class_uncertainty.training import Lane

    if find_remedy(method):
        advice = "'cu fix' saves a network that has learnt from naive ones, 'cu compare' has its row"
        raise InputError(f"{method!r} is a remedy, made of trained networks: {advice}.")
    Lane(method, seed, lr)
    options.check_estimate(estimator, members, score)
    with start(command, data) as running:
        from class_uncertainty.reporting.compare_view import compare_lines
        from class_uncertainty.training.saved_model import files_of
        from class_uncertainty.workflows.compare import Comparison
        from class_uncertainty.workflows.train import train as train_network

        dataset, known = running.prepare(data, writes=files_of(save) if save else ())
        trained = train_network(
            dataset,
            method,
            seed,
            lr,
            estimator=estimator,
            members=members,
            score=score,
            save=save,
            embed_weights=embed_weights,
            **known,
        )
        running.show_lines(compare_lines(Comparison(dataset, (trained.result,), trained.estimate), *running.room))
        if trained.files:
            running.say(*(f"wrote {file}" for file in trained.files))
        else:
            running.say("The network was not saved: add --save PATH.")
        running.answer({"result": asdict(trained.result), "files": [str(file) for file in trained.files]})
