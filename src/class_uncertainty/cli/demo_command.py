"""`cu demo`: the whole tour on data that come with the package."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from class_uncertainty.cli.options import JSON

ROWS = ["naive", "cb-rs", "ubrs", "pb-rs", "pb-ubrs", "cb", "ubrw-bot", "ldam-rw", "ubm-ldam-rw", "balanced-softmax"]


def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where results and report go.")] = Path("cu-demo"),
    as_json: JSON = False,
) -> None:
    """Take the whole tour in a minute: fix, measure, compare and report on long-tailed handwritten digits.

    Searches for the best network, trains a five-member ensemble that measures, and ten methods with three seeds each,
    on real digits from scikit-learn.
    """
    from class_uncertainty.cli.running import running
    from class_uncertainty.reporting import html_page, terminal_tables
    from class_uncertainty.reporting.report_data import galleries_of
    from class_uncertainty.reporting.section import fix_section
    from class_uncertainty.workflows.compare import compare
    from class_uncertainty.workflows.fix import fix
    from class_uncertainty.workflows.measure import measure

    with running(folder / "runs.sqlite", as_json) as now:
        dataset, recipe = now.prepare("digits-lt:20")
        page, made_from = html_page.page_place(dataset.name, None, folder / "report.html")
        now.say("Real handwritten digits, made long-tailed: 120 examples of the digit 0, 6 of the digit 9.")
        now.say("naive -> adjusted -> best single -> ensemble -> student: what each step buys")
        fixed = fix(dataset, **now.settings(recipe))
        document: dict[str, Any] = {"fix": now.show(fixed, terminal_tables.print_fix)}
        now.say("", "How rare is each class, and how unsure are five networks of it?")
        measured = measure(dataset, **now.settings(recipe))
        document["measure"] = now.show(measured, terminal_tables.print_measured)
        now.say("", "The same network trained by ten methods, three seeds each:")
        comparison = compare(dataset, ROWS, **now.settings(recipe))
        document["compare"] = now.show(comparison, terminal_tables.print_comparison)
        section = replace(
            fix_section(fixed),
            classes=measured.rows,
            methods=comparison.rows,
            members=measured.estimate.members,
            galleries=tuple(galleries_of(dataset.train, measured.estimate, measured.rows)),
        )
        html_page.write([section], page, made_from=made_from)
        document["report"] = str(page)
        now.say("", f"The report, to open in a browser: {document['report']}")
        now.say("Next, on your own data: cu fix --help, cu measure --help, cu compare --help.")
        now.answer(document)
