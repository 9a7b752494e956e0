"""`cu demo`: the whole tour on data that come with the package."""

from dataclasses import replace
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
        from class_uncertainty.io import origin
        from class_uncertainty.reporting import html_page, terminal_tables
        from class_uncertainty.reporting.report_data import galleries_of
        from class_uncertainty.reporting.section import fix_section
        from class_uncertainty.workflows.compare import compare
        from class_uncertainty.workflows.fix import fix
        from class_uncertainty.workflows.measure import measure

        dataset, known = running.prepare("digits-lt:20")
        made_from = origin("cu demo", dataset.name)
        page = html_page.page_place(made_from, None, folder / "report.html")
        running.say("Real handwritten digits, made long-tailed: 120 examples of the digit 0, 6 of the digit 9.")
        running.say("naive -> adjusted -> best single -> ensemble -> student: what each step buys")
        fixed = fix(dataset, **known)
        document = {"fix": running.show(fixed, terminal_tables.print_fix)}
        running.say("", "How rare is each class, and how unsure are five networks of it?")
        measured = measure(dataset, **known)
        document["measure"] = running.show(measured, terminal_tables.print_measured)
        running.say("", "The same network trained by ten methods, three seeds each:")
        comparison = compare(dataset, methods=ROWS, **known)
        document["compare"] = running.show(comparison, terminal_tables.print_comparison)
        section = replace(
            fix_section(fixed),
            classes=measured.rows,
            methods=comparison.rows,
            members=measured.estimate.members,
            galleries=tuple(galleries_of(dataset.train, measured.estimate, measured.rows)),
        )
        html_page.write([section], page, made_from=made_from)
        document["report"] = str(page)
        running.say("", f"The report, to open in a browser: {page}")
        running.say("Next, on your own data: cu fix --help, cu measure --help, cu compare --help.")
        running.answer(document)
