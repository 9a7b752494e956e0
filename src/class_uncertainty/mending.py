"""The command that mends: from data to one better balanced network."""

from pathlib import Path
from typing import Annotated

import typer

from class_uncertainty.options import BUDGET, DATA, EPOCHS, JSON, PROFILE, RECIPE, ROOT, RUNS, SAVE, STORE, asked_for, split
from class_uncertainty.text import seconds

app = typer.Typer()


@app.command()
def fix(
    data: DATA,
    members: Annotated[int, typer.Option("--members", help="Folds that measure, and networks that teach.")] = 5,
    save: SAVE = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Networks before and after, for the ±; the one that learnt best is saved.")] = 3,
    lrs: Annotated[
        str | None,
        typer.Option("--lrs", help="Learning rates to choose from; the recipe's and four times it if not given.", show_default=False),
    ] = None,
    page: Annotated[Path, typer.Option("--report", help="The HTML file that shows what changed.")] = Path("report.html"),
    epochs: EPOCHS = None,
    recipe: RECIPE = None,
    budget: BUDGET = None,
    profile: PROFILE = None,
    root: ROOT = None,
    store: STORE = RUNS,
    as_json: JSON = False,
) -> None:
    """From data to one better balanced network, and a page that shows what changed.

    Measures by networks that each leave a fold out, says which classes are wrong and why, chooses the learning rate, the
    adjustment for the counts and a temperature on what those networks never saw, trains members and one network that learns from
    all of them, adjusted. Before and after are judged on the test split, or by folds where there is none.

    **--save model** writes model.safetensors and model.json: one ordinary network with its preprocessing, whose softmax is
    for equally frequent classes. **cu predict model new-photos** asks it about new examples; in Python cu.restore("model") gives it
    back. What has finished is in the store: after Ctrl-C or a --budget the same command goes on.
    """
    rates = split("learning rate", lrs, float) if lrs is not None else None
    asked_for("out-of-fold", members, None)
    from class_uncertainty.reporting.report import check_place
    from class_uncertainty.session import session

    with session(store, as_json, root, budget=seconds(budget), profile=profile) as now:
        dataset, chosen = now.prepare(data, epochs, recipe)
        check_place(page)
        if save:
            now.check_savable(save, page)
        mended, document, files = now.fix(dataset, chosen, members, seeds, rates, save)
        files += now.report(data, page)
        now.show_fix(mended)
        now.say(*(f"wrote {file}" for file in files))
        now.answer(document | {"files": [str(file) for file in files]})
