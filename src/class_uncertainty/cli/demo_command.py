"""`cu demo`: measure, fix and compare on data that come with the package."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from class_uncertainty.cli.options import JSON, Command
from class_uncertainty.cli.start import start

# settled before the demo first ran on them: what comes out is shown, whatever it is
DATA = "digits-lt:50"
METHODS = {"naive": "naive training", "cb-literal": "weights by counts", "ubrw": "weights by uncertainty"}
RATES = [0.1, 0.4]  # each method's is chosen by folds of the training examples
ESTIMATOR = "online"
MOST = 3  # classes that are listed by their uncertainty


def demo(
    folder: Annotated[Path, typer.Option("--folder", help="The folder for the results and the page.")] = Path(
        "cu-demo"
    ),
    as_json: JSON = False,
) -> None:
    """Measure, fix and compare long-tailed digits, in half a minute.

    cu demo

    The data come with scikit-learn.
    """
    with start(Command(store=folder / "runs.sqlite", as_json=as_json)) as running:
        from class_uncertainty.io import origin
        from class_uncertainty.reporting.fix_page import fix_page
        from class_uncertainty.reporting.fix_view import change_lines, ending_lines, view_fix
        from class_uncertainty.reporting.measure_view import class_table
        from class_uncertainty.reporting.page import page_place, write
        from class_uncertainty.reporting.page_examples import fix_examples
        from class_uncertainty.reporting.result_pages import compare_page, measure_page
        from class_uncertainty.reporting.terminal import line_width, table_lines
        from class_uncertainty.workflows.compare import compare
        from class_uncertainty.workflows.fix import fix
        from class_uncertainty.workflows.measure import measure

        width = line_width()
        dataset, known = running.prepare(DATA)
        made_from = origin("cu demo", dataset.name)
        page = page_place(made_from, None, folder / "report.html")

        measured = measure(dataset, estimator=ESTIMATOR, **known)
        running.say(f"$ cu measure {DATA} --estimator {ESTIMATOR}")
        most = sorted(measured.rows, key=lambda row: row.rank_uncertainty)[:MOST]
        running.say(*class_table(most, width))

        fixed = fix(dataset, **known)
        view = view_fix(fixed.report, dataset)
        running.say("", f"$ cu fix {DATA}", *change_lines(view, width)[1:])
        running.say(*ending_lines(view, width))

        compared = compare(dataset, methods=[*METHODS], lrs=RATES, choose_lr=True, estimator=ESTIMATOR, **known)
        running.say("", "Class uncertainty in place of counts, learning rates tuned alike, three seeds:")
        cells = [[METHODS[row.method], f"{row.error:.1f} ± {row.error_sd:.1f} %"] for row in compared.rows]
        running.say(*table_lines(["method", "class-mean error"], cells, width))

        shown = fix_page(view, fix_examples(fixed.report, dataset))
        others = [*measure_page(measured).folded("Measured"), *compare_page(compared).folded("Compared")]
        write([replace(shown, blocks=[*shown.blocks, *others])], page, made_from=made_from)
        running.say(f"Page: {page}", "Your data: cu check photos; cu fix photos --save model; cu predict model new")
        answers = {"measure": measured.document(), "fix": fixed.document(), "compare": compared.document()}
        running.answer(answers | {"report": str(page)})
