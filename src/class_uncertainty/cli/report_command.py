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
    figures: Annotated[Path | None, options.optional("Folder for the charts as SVG.", "FOLDER")] = None,
) -> None:
    """Write what is stored as one HTML page.

    cu report photos
    cu report photos --out photos.html
    """
    options.check_estimate(estimator, 5, None)
    with start(command, create=False) as running:
        from class_uncertainty.data.spec import file_stem, paths_named
        from class_uncertainty.io import check_folder, origin
        from class_uncertainty.reporting.page import page_place, write
        from class_uncertainty.reporting.stored_views import stored_results

        asked = data or "all"
        default = Path(f"{file_stem(data)}.html" if data else "report.html")
        read = paths_named(data, root=command.root)
        made_from = origin(f"{asked} in {command.store}", read, command.store.resolve(), estimator)
        out = page_place(made_from, out, default, force, read)
        if figures:
            check_folder(figures / "chart")
        with running.loader() as load:
            shown = [stored.page for stored in stored_results(running.store, data, load, estimator)]
        files = write(shown, out, figures, made_from, force)
        running.say(*(f"wrote {file}" for file in files))
        running.answer({"files": [str(file) for file in files]})
