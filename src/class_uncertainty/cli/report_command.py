"""`cu report`: what is stored, as one page."""

from pathlib import Path
from typing import Annotated

from class_uncertainty.cli import options
from class_uncertainty.cli.options import STORED, Command, shared
from class_uncertainty.cli.start import start

PAGE = "The HTML file to write; by default named after DATA, or report.html."


@shared(*STORED)
def report(
    command: Command,
    data: Annotated[str | None, options.argument("Only this data set; by default all that are stored.", "DATA")] = None,
    out: Annotated[Path | None, options.optional(PAGE, "PAGE.html")] = None,
    force: options.FORCE = False,
    estimator: options.ESTIMATOR = None,
    figures: Annotated[Path | None, options.optional("A folder for the charts as SVG and PNG.", "FOLDER")] = None,
) -> None:
    """Render what is stored as one self-contained HTML file, to open in any browser, no network needed.

    Where classes were measured in several ways, the page shows the estimator that **cu measure** takes by default, an
    ensemble for images, and the rows that use it. **--estimator** shows another.
    """
    options.check_estimate(estimator, 5, None)
    with start(command, create=False) as running:
        from class_uncertainty.io import check_folder
        from class_uncertainty.reporting import html_page
        from class_uncertainty.reporting.report_data import sections

        default = None if data else Path("report.html")
        out, made_from = html_page.page_place(data or f"all of {command.store}", out, default, force)
        if figures:
            check_folder(figures / "chart")
        with running.loader() as load:
            shown = sections(running.store, data, load, estimator)
        files = html_page.write(shown, out, figures, made_from, force)
        running.say(*(f"wrote {file}" for file in files))
        running.answer({"files": [str(file) for file in files]})
