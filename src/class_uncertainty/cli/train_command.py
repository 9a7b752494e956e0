"""`cu train`: one network, to keep."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from class_uncertainty.checks import LARGEST
from class_uncertainty.cli import options
from class_uncertainty.errors import InputError


def train(
    data: options.DATA,
    method: Annotated[str, typer.Option(help="A name from 'cu list methods'.")] = "naive",
    save: options.SAVE = None,
    embed_weights: options.EMBED_WEIGHTS = False,
    force: options.FORCE = False,
    seed: Annotated[
        int, options.whole("--seed", "Of initialisation, order and augmentation.", 0, LARGEST - 1, shown=True)
    ] = 0,
    lr: Annotated[float | None, options.positive("--lr", "Learning rate; by default the recipe's.")] = None,
    members: options.MEMBERS = 5,
    estimator: options.ESTIMATOR = None,
    score: options.SCORE = None,
    epochs: options.EPOCHS = None,
    recipe: options.RECIPE = None,
    backbone: options.BACKBONE = None,
    views: options.VIEWS = None,
    network: options.NETWORK = None,
    pretrained: options.PRETRAINED = False,
    budget: options.BUDGET = None,
    profile: options.PROFILE = None,
    root: options.ROOT = None,
    store: options.STORE = options.RUNS,
    as_json: options.JSON = False,
) -> None:
    """Train one network and, with --save, keep it: weights as safetensors, and a JSON file that rebuilds it.

    It always trains, whatever the store has. **cu predict PATH EXAMPLES** asks the saved network. In Python,
    cu.restore(PATH) gives it back as a plain nn.Module with its preprocessing: raw images or features in, logits out.
    """
    from class_uncertainty.posthoc.remedies import find_remedy
    from class_uncertainty.training import Lane

    if find_remedy(method):
        advice = "'cu fix' saves a network that has learnt from naive ones, 'cu compare' has its row"
        raise InputError(f"{method!r} is a remedy, made of trained networks: {advice}.")
    Lane(method, seed, lr)
    options.check_estimate(estimator, members, score)
    options.check_start(data, root, budget, recipe)
    from class_uncertainty.cli.running import running
    from class_uncertainty.reporting.terminal_tables import print_comparison
    from class_uncertainty.workflows.compare import Comparison
    from class_uncertainty.workflows.train import train as train_network

    with running(store, as_json, root, budget=budget, profile=profile) as now:
        dataset, chosen = now.prepare(
            data, epochs, recipe, backbone=backbone, views=views, network=network, pretrained=pretrained
        )
        measuring: dict[str, Any] = {"estimator": estimator, "members": members, "score": score}
        saving: dict[str, Any] = {"save": save, "embed_weights": embed_weights, "force": force}
        trained = train_network(dataset, method, seed, lr, **saving, **measuring, **now.settings(chosen))
        now.show(Comparison(dataset, (trained.result,), trained.estimate), print_comparison)
        written = [f"wrote {file}" for file in trained.files]
        now.say(*written or ("The network is not kept: --save PATH would write it.",))
        now.answer({"result": asdict(trained.result), "files": [str(file) for file in trained.files]})
