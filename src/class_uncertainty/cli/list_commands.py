"""Commands that list what can be named: methods, candidates, remedies, measures, estimators, networks, data sets."""

from collections.abc import Sequence
from typing import Annotated, Any

from class_uncertainty.cli.options import JSON, ROOT, argument


def methods(as_json: JSON = False) -> None:
    """List the methods: which classes each draws more often (alpha), weighs more (weight) or gives a margin.

    A name is row:constant=value@measure:constant=value^power+augmentation\\*N, of which all but the row may be left
    out. So **cb-focal:beta=0.99:gamma=1** sets two constants, **cb@mix:gamma=0.3** is driven by another measure, and
    **cb+mixup** has more augmentation (autoaugment, cutout, mixup, remix).
    """
    from class_uncertainty.measures import constants_of
    from class_uncertainty.methods import MAKERS, METHODS
    from class_uncertainty.training import describe

    rows, documents = [], []
    for name, row in METHODS.items():
        knobs = dict.fromkeys(knob for stage in row.stages for knob in (*stage.knobs, *("focal",) * bool(stage.focal)))
        constants = constants_of(name, MAKERS)
        rows.append((name, _in_words(constants), ", ".join(knobs) or "–", row.about, row.counterpart or "–"))
        fields = {"name": name, "about": row.about, "counterpart": row.counterpart, "constants": constants}
        documents.append({**fields, **describe(row)})
    _list(("method", "constants", "acts on", "what it does", "its cardinality counterpart"), rows, documents, as_json)


def candidates(
    data: Annotated[str | None, argument("Only those that suit these data, e.g. digits-lt:20.", "DATA")] = None,
    root: ROOT = None,
    as_json: JSON = False,
) -> None:
    """List the candidates: ways to train one network that 'cu fix' chooses between, the simplest first.

    A name is METHOD?field=value&field=value (in quotes, for the shell): a method as 'cu methods' names it, then fields
    of the recipe that it changes, where *rate* is a factor of the learning rate and *recipe* names another recipe.
    **cu fix DATA --candidates
    "+cb-rs?rate=2,-ldam-rw"** adds one and removes one.
    """
    from class_uncertainty.data import load
    from class_uncertainty.reporting import terminal
    from class_uncertainty.reporting.candidate_words import describe_candidate
    from class_uncertainty.training.candidate import CANDIDATES, default_candidates

    chosen = list(CANDIDATES.values()) if data is None else default_candidates(load(data, root=root).train)
    rows, documents = [], []
    for row in chosen:
        about = describe_candidate(row)
        rows.append((row.name, row.data, about))
        fields = {"name": row.name, "about": about, "data": row.data, "method": row.method, "rate": row.rate}
        documents.append({**fields, "recipe": row.kind or None, "changes": row.changes})
    width, longest = terminal.console().width, max(len(row.name) for row in chosen)
    widths = [width // 2] if longest > 3 * width // 5 else ()  # so that there is room for what it does
    _list(("candidate", "data", "what it does"), rows, documents, as_json, widths)
    if not as_json:
        images = "on images that are only cropped and mirrored"
        terminal.say(f"A student trains as its teachers did, at their learning rate or half of it, {images}.")


def remedies(as_json: JSON = False) -> None:
    """List the remedies: what can be made of trained networks, as rows of 'cu compare' beside the methods.

    **cb\\*5** is one too: five networks of a method together. 'cu fix' chooses between one
    network, an ensemble and a student.
    """
    from class_uncertainty.posthoc.remedies import REMEDIES
    from class_uncertainty.reporting import terminal

    rows, documents = [], []
    for name, row in REMEDIES.items():
        cost = row.trainings(5)
        rows.append((name, f"{cost:.3g}", row.about))
        documents.append({"name": name, "about": row.about, "cost": cost, "adjusts": row.adjusts})
    _list(("remedy", "trainings", "what it is"), rows, documents, as_json)
    if not as_json:
        terminal.say("Trainings: in naive ones, with five members, without the out-of-fold networks that choose tau.")


def measures(as_json: JSON = False) -> None:
    """List the imbalance measures: larger means more under-represented.

    A measure stands behind @ in the name of a method, with its constants and a power where it has any:
    **ubrw@mix:gamma=0.3**, **ubrw@uncertainty^0.5**.
    """
    from class_uncertainty.measures import MEASURE_MAKERS, MEASURES, constants_of

    rows, documents = [], []
    for name, row in MEASURES.items():
        constants = constants_of(name, MEASURE_MAKERS)
        available = "after an estimate" if row.uses_uncertainty else "from the counts"
        rows.append((name, _in_words(constants), row.about, available))
        fields = {"name": name, "about": row.about, "uses_uncertainty": row.uses_uncertainty}
        documents.append({**fields, "constants": constants})
    _list(("measure", "constants", "formula", "known"), rows, documents, as_json)


def estimators(as_json: JSON = False) -> None:
    """List the ways to measure uncertainty, and the scores that say what counts as uncertain."""
    from class_uncertainty.estimation import ESTIMATORS
    from class_uncertainty.measures import SCORES
    from class_uncertainty.reporting import terminal

    rows = [(name, row.natural, row.about) for name, row in ESTIMATORS.items()]
    documents = [{"name": name, "score": row.natural, "about": row.about} for name, row in ESTIMATORS.items()]
    _list(("estimator", "its score", "what it is"), rows, documents, as_json)
    if not as_json:
        special = [(score, name) for name, row in ESTIMATORS.items() for score in row.scores if score not in SCORES]
        terminal.say(f"Scores: {', '.join([*SCORES, *(f'{score} ({name} only)' for score, name in special)])}.")


def networks(as_json: JSON = False) -> None:
    """List the networks that a recipe can train, with their parameters for 10 classes.

    Images are taken to have 3 channels, features to be 64 numbers. **--network** takes other networks, too:
    efficientnet-lite0, timm:NAME, hf:FOLDER and PATH.py:FACTORY, a function that returns a torch.nn.Module.
    """
    from class_uncertainty.text import amount
    from class_uncertainty.training.network_size import listed_parameters
    from class_uncertainty.training.networks.network_table import NETWORKS

    rows, documents, counts = [], [], listed_parameters()
    for name, row in NETWORKS.items():
        inputs, count = {True: "images", False: "features", None: "its own"}[row.images], counts.get(name)
        rows.append((name, inputs, "–" if count is None else amount(count), row.about))
        documents.append({"name": name, "about": row.about, "inputs": inputs, "parameters": count})
    _list(("network", "inputs", "parameters", "what it is"), rows, documents, as_json)


def datasets(
    source: Annotated[str | None, argument("One of them, with its options.", "SOURCE")] = None, as_json: JSON = False
) -> None:
    """List the data that can be named, with an example of each and what it expects on disk; or one source's options.

    Options follow a question mark: folder:PATH?size=32&test=0.2 (in quotes, for the shell). Without a test split,
    errors come from five stratified folds. **?group=** keeps a patient or a video on one side of every split;
    **?skip=unreadable** and **?min=2** leave out files and classes that cannot be used, and count them.
    """
    from class_uncertainty.data import SOURCES
    from class_uncertainty.errors import unknown
    from class_uncertainty.reporting import terminal

    if source is not None and source not in SOURCES:
        raise unknown("source", source, SOURCES)
    chosen = {name: row for name, row in SOURCES.items() if source in (None, name)}
    fields = ("example", "about", "expects", "options")
    documents = [{"name": name} | {field: getattr(row, field) for field in fields} for name, row in chosen.items()]
    if source is None or as_json:
        rows = [(name, row.example, row.about, row.expects) for name, row in chosen.items()]
        _list(("source", "example", "what it is", "what it expects on disk"), rows, documents, as_json)
    else:
        row = chosen[source]
        terminal.say(f"{source}: {row.about}", f"example: {row.example}", f"expects: {row.expects}")
        _list(("option", "what it does"), list(row.options.items()), [], False)


def _in_words(constants: dict[str, float]) -> str:
    """Constants with their defaults, as a name gives them."""
    from class_uncertainty.text import short

    return " ".join(f"{name}={short(value)}" for name, value in constants.items()) or "–"


def _list(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    documents: Sequence[Any],
    as_json: bool,
    widths: Sequence[int] = (),
) -> None:
    from class_uncertainty.reporting import terminal

    if as_json:
        terminal.print_json(documents)
    else:
        terminal.console().print(terminal.plain_table(columns, rows, left=len(columns), widths=widths))


COMMANDS = (methods, candidates, remedies, measures, estimators, networks, datasets)
