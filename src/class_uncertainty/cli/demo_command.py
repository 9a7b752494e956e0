"""`cu demo`: the whole tour on data that come with the package."""

from pathlib import Path
from typing import Annotated

import typer

from class_uncertainty.cli.options import JSON, Command
from class_uncertainty.cli.start import start

ROWS = ["naive", "cb-rs", "ubrs", "pb-rs", "pb-ubrs", "cb", "ubrw-bot", "ldam-rw", "ubm-ldam-rw", "balanced-softmax"]


def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where results and report go.")] = Path("cu-demo"),
    as_json: JSON = False,
) -> None:
    """Take the whole tour in a minute: fix, measure, compare and report on long-tailed handwritten digits.

    Searches for the best network, trains a five-member ensemble that measures, and ten methods with three seeds each,
    on real digits from scikit-learn.
    """
    with start(Command(store=folder / "runs.sqlite", as_json=as_json)) as running:
        from class_uncertainty.reporting import html_page, terminal_tables
        from class_uncertainty.reporting.report_data import sections
        from class_uncertainty.workflows.compare import compare
        from class_uncertainty.workflows.fix import fix
        from class_uncertainty.workflows.measure import measure

        dataset, known = running.prepare("digits-lt:20")
        page, made_from = html_page.page_place(dataset.name, None, folder / "report.html")
        running.say("Real handwritten digits, made long-tailed: 120 examples of the digit 0, 6 of the digit 9.")
        running.say("naive -> adjusted -> best single -> ensemble -> student: what each step buys")
        document = {"fix": running.show(fix(dataset, **known), terminal_tables.print_fix)}
        running.say("", "How rare is each class, and how unsure are five networks of it?")
        document["measure"] = running.show(measure(dataset, **known), terminal_tables.print_measured)
        running.say("", "The same network trained by ten methods, three seeds each:")
        document["compare"] = running.show(compare(dataset, ROWS, **known), terminal_tables.print_comparison)
        html_page.write(sections(running.store), page, made_from=made_from)
        document["report"] = str(page)
        running.say("", f"The report, to open in a browser: {page}")
        running.say("Next, on your own data: cu fix --help, cu measure --help, cu compare --help.")
        running.answer(document)
