"""`cu fix`: from data to one better balanced network."""

from pathlib import Path
from typing import Annotated

import typer

from class_uncertainty.cli import options
from class_uncertainty.errors import InputError


def fix(
    data: options.DATA,
    members: Annotated[int, typer.Option(help="Folds that measure, and networks that teach.")] = 5,
    save: options.SAVE = None,
    seeds: Annotated[int, typer.Option(help="Networks before and after, for the ±; the best student is saved.")] = 3,
    lrs: Annotated[str | None, options.optional("To choose from; by default the recipe's and four times it.")] = None,
    page: Annotated[Path, typer.Option("--report", help="The HTML file that shows what changed.")] = options.PAGE,
    epochs: options.EPOCHS = None,
    recipe: options.RECIPE = None,
    budget: options.BUDGET = None,
    profile: options.PROFILE = None,
    root: options.ROOT = None,
    store: options.STORE = options.RUNS,
    as_json: options.JSON = False,
) -> None:
    """Train one better balanced network, and write a page that shows what changed.

    Measures by networks that each leave a fold out and says which classes are wrong and why. Chooses the learning rate,
    the adjustment for the counts and a temperature on what those networks never saw. Trains naive networks, and one
    network that learns from all of them, adjusted. Before and after are judged on the test split, or by folds without
    one.

    **--save model** writes model.safetensors and model.json: one ordinary network with its preprocessing, whose softmax
    is for equally frequent classes. **cu predict model new-photos** asks it about new examples; in Python
    cu.restore("model") gives it back. What has finished is in the store: after Ctrl-C or a --budget the same command
    goes on.
    """
    rates = options.read_rates(lrs)
    options.check_estimate("out-of-fold", members, None)
    from class_uncertainty.cli.running import running
    from class_uncertainty.reporting.html_page import check_place, write
    from class_uncertainty.reporting.report_data import sections
    from class_uncertainty.reporting.terminal_tables import print_fix
    from class_uncertainty.training.model_files import check_savable, files_of
    from class_uncertainty.workflows.fix import fix as fix_classes

    with running(store, as_json, root, budget=budget, profile=profile) as now:
        dataset, chosen = now.prepare(data, epochs, recipe)
        check_place(page)
        if save:
            check_savable(save)
            if page.resolve() in [file.resolve() for file in files_of(save)]:
                raise InputError(f"--report is {page}, which --save {save} writes: give it another name.")
        fixed = fix_classes(dataset, members, lrs=rates, seeds=seeds, save=save, **now.settings(chosen))
        with now.loader() as load:
            shown = sections(now.store, data, load)
        files = [*fixed.files, *write(shown, page)]
        document = now.show(fixed, print_fix)
        now.say(*(f"wrote {file}" for file in files))
        now.answer(document | {"files": [str(file) for file in files]})
