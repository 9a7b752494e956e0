"""`cu measure`: which classes are under-represented."""

from typing import Annotated

from class_uncertainty.cli import options
from class_uncertainty.cli.options import COLUMNS, PLACE, TRAINING, Command, shared
from class_uncertainty.cli.start import start
from class_uncertainty.errors import InputError
from class_uncertainty.estimation.estimators import compared_estimators


@shared(*COLUMNS, *TRAINING, *PLACE)
def measure(
    data: options.DATA,
    command: Command,
    members: options.MEMBERS = 5,
    estimator: options.ESTIMATOR = None,
    score: options.SCORE = None,
    estimators: Annotated[str | None, options.optional("Several, such as ensemble,online,online=predictive.")] = None,
    lrs: options.LRS = None,
    page: options.PAGE = None,
) -> None:
    """Rank classes by how uncertain networks are about them.

    cu measure photos
    cu measure churn.csv --label churned
    cu measure photos --estimators ensemble,online

    Trains an ensemble once; later calls read it from the store. With --estimators, compares what several estimators
    cost and how well they rank the class errors.
    """
    names = options.split("estimator", estimators, str) if estimators is not None else []
    rates = options.read_rates(lrs)
    if rates and len(rates) > 1 and not names:
        raise InputError(f"--lrs is {lrs}: without --estimators give one learning rate.")
    if names and (score or estimator):
        raise InputError("--estimators compares each by its own score: leave out --estimator and --score.")
    if names and page:
        raise InputError("--report shows what one estimator measured: leave out --estimators.")
    lr = rates[0] if rates else None
    options.check_estimate(estimator, members, score, lr)
    if names:
        compared_estimators(names, members, rates or [None])
    with start(command, data) as running:
        from class_uncertainty.reporting.measure_view import estimator_lines, measure_lines
        from class_uncertainty.reporting.page import write
        from class_uncertainty.reporting.result_pages import measure_page
        from class_uncertainty.workflows.measure import compare_estimators
        from class_uncertainty.workflows.measure import measure as measure_classes

        dataset, known = running.prepare(data)
        if names:
            comparison = compare_estimators(dataset, names, members, lrs=rates, **known)
            running.show_lines(estimator_lines(comparison, *running.room))
            running.answer(comparison.document())
        else:
            made_from = running.page_mark(page, dataset, members, estimator, score, lr, known["recipe"])
            measured = measure_classes(dataset, estimator=estimator, members=members, score=score, lr=lr, **known)
            files = write([measure_page(measured)], page, made_from=made_from) if page else []
            running.show_lines(measure_lines(measured, *running.room))
            if files:
                running.say(*(f"wrote {file}" for file in files))
            running.answer(measured.document())
