"""Renders the parts of the documentation that come from the package's registries and results: `make tables`."""

import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path

from figures import Figure, figures
from verdict_tables import printed_gains, published_baselines, verdicts

import class_uncertainty
from class_uncertainty.data import SOURCES
from class_uncertainty.data.finding import KINDS
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import ESTIMATORS
from class_uncertainty.measures import MEASURE_MAKERS, MEASURES, constants_of
from class_uncertainty.methods import AUGMENTATIONS, MAKERS, METHODS, Method
from class_uncertainty.paper.experiments import EXPERIMENTS, PROTOCOLS, select
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.reproduction import Reproduction, summarise
from class_uncertainty.paper.tables import TextTable, text_tables
from class_uncertainty.reporting.candidate_words import describe_candidate
from class_uncertainty.reporting.glossary import GLOSSARY
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import check_same_data, read_lines
from class_uncertainty.runs.store import StoredDataset
from class_uncertainty.text import amount, short
from class_uncertainty.training import RECIPES, Lane, Result, describe
from class_uncertainty.training.candidate import CANDIDATES
from class_uncertainty.training.network_size import listed_parameters
from class_uncertainty.training.networks.network_table import BUILT_IN, NETWORKS, sealed
from class_uncertainty.training.shared_epochs import spared_epochs

HERE = Path(__file__).parent
RESULTS, FIGURES = HERE.parent / "results", HERE / "figures"
NETWORK = "efficientnet-lite0?size=96"  # of the table of another architecture
REPRODUCED = [name for name, experiment in EXPERIMENTS.items() if not experiment.needs] + ["architectures"]
WIDTH = 120
KNOBS = ("alpha", "weight", "margin", "divisor", "focal", "augment", "dropout", "cycles")
# The API page, in the order of the stages. A public name that no row lists goes under the last heading.
STAGES = {
    "Commands as functions": "check Check Finding measure Measured compare_estimators EstimatorComparison compare "
    "Comparison train Trained fix Fix Choice predict Predicted save export adjust_predictions AdjustedPredictions "
    "audit Audit write_page",
    "Data": "load Data Dataset long_tail duplicate mix_hardness svci20 validation_split",
    "Measures and scores": "MEASURES Stats normalise class_uncertainty predictive aleatoric epistemic kwon",
    "Methods": "METHODS Method Plan plan",
    "Training": "fit Fit Lane Recipe CANDIDATES Candidate Result Teaching restore",
    "Estimation": "ESTIMATORS estimate Estimate",
    "In your own training loop": "ClassSampler Loss OnlineUncertainty",
    "Remedies": "REMEDIES adjust fit_adjustment Adjustment label_noise LabelNoise",
    "Significance": "aso",
    "Errors": "InputError MachineFault Unfinished",
    "More": "",
}


def plain(text: str) -> str:
    """Text without Markdown's asterisks, apart from what stands in backticks."""
    return "".join(part if part.startswith("`") else part.replace("*", r"\*") for part in re.split("(`[^`]*`)", text))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(plain(cell).replace('|', '/') for cell in line)} |" for line in lines)


def bullets(items: Iterable[str]) -> str:
    """A list whose lines are wrapped, for entries that are too long for the row of a table."""
    wrapped = textwrap.TextWrapper(
        WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrapped.fill(plain(item)) for item in items)


def knobs(method: Method) -> str:
    """What a method does to the knobs, in a few words."""
    words = describe(method)
    actions = [f"{name}: {words[name]}" for name in KNOBS if name in words]
    actions += [f"then {knobs(stage.method) or 'naive'} ({stage.trains})" for stage in method.then]
    return "; ".join(actions)


def methods() -> str:
    """What each method does, its constants and knobs, its place in the paper, and where public code differs."""
    rows = []
    for name, method in METHODS.items():
        turned, origin = knobs(method), method.origin
        details = {"Constants": constants(constants_of(name, MAKERS)), "Knobs": turned and f"`{turned}`"}
        details |= {"Paper": origin.paper, "Public code": origin.released}
        rows.append(f"`{name}` – {method.about}.")
        rows[-1] += "".join(f" {label}: {text}." for label, text in details.items() if text)
    return bullets(rows)


def constants(defaults: dict[str, float]) -> str:
    return ", ".join(f"`{name}={short(value)}`" for name, value in defaults.items())


def measures() -> str:
    rows = ((f"`{name}`", row.about, constants(constants_of(name, MEASURE_MAKERS))) for name, row in MEASURES.items())
    return table(("name", "formula", "constants"), rows)


def augmentations() -> str:
    return table(("name", "what it does"), ((f"`+{name}`", about) for name, about in AUGMENTATIONS.items()))


def candidates() -> str:
    """What `cu fix` chooses between, and for which data."""
    return bullets(f"`{name}` ({row.data}) – {describe_candidate(row)}." for name, row in CANDIDATES.items())


def estimators() -> str:
    return bullets(f"`{name}` – {row.about}. Its score is `{row.natural}`." for name, row in ESTIMATORS.items())


def networks() -> str:
    """Every network with its parameters."""
    rows = []
    counts = listed_parameters()
    for name in BUILT_IN:
        row, count = NETWORKS[name], counts[name]
        size, inputs = "–" if count is None else amount(count), "images" if row.images else "features"
        rows.append((f"`{name}`", row.about, size, inputs))
    return table(("name", "what it is", "parameters", "inputs"), rows)


def sources() -> str:
    rows = []
    for source in SOURCES.values():
        options = ", ".join(f"`{option}`" for option in source.options) or "none"
        rows.append(f"`{source.example}` – {source.about}. On disk: {source.expects}. Options: {options}.")
    return bullets(rows)


def options() -> str:
    """Each option with what it does; sources that give an option another meaning have a line of their own."""
    meanings: dict[tuple[str, str], list[str]] = {}
    for name, source in SOURCES.items():
        for key, option in source.options.items():
            meanings.setdefault((key, option.about), []).append(f"`{name}`")
    return bullets(
        f"`{option}` ({'every source' if len(names) == len(SOURCES) else ', '.join(names)}): {about}."
        for (option, about), names in sorted(meanings.items())
    )


def path_of(name: str) -> str:
    """Where a public name is defined: some packages hold a module and a function of one name."""
    value = getattr(class_uncertainty, name)
    return f"{value.__module__}.{name}" if callable(value) else f"{class_uncertainty.__name__}.{name}"


def api() -> str:
    """A heading for each stage, and below it a directive of mkdocstrings for each public name."""
    unlisted = [name for name in class_uncertainty.__all__ if name not in " ".join(STAGES.values()).split()]
    sections = []
    for heading, names in STAGES.items():
        public = [name for name in names.split() if name in class_uncertainty.__all__]
        public += unlisted if heading == "More" else []
        if public:
            sections.append("\n\n".join([f"## {heading}", *(f"::: {path_of(name)}" for name in public)]))
    return "\n\n".join(sections)


@lru_cache
def results() -> dict[StoredDataset, list[Result | Measurement]]:
    """The project's own results by data set."""
    by_name: dict[str, StoredDataset] = {}
    by_data: dict[str, list[Result | Measurement]] = {}
    for path in sorted(RESULTS.glob("*.jsonl")):
        for value, _, data in read_lines(path):
            if isinstance(value, StoredDataset):
                check_same_data(by_name.get(value.name), value, str(path))
                by_name[value.name] = value
            else:
                by_data.setdefault(data, []).append(value)
    return {data: by_data.get(data.fingerprint, []) for data in by_name.values()}


def trained_on(data: StoredDataset) -> list[Result]:
    return [value for value in results()[data] if isinstance(value, Result)]


@lru_cache
def reproduced(name: str) -> Reproduction:
    """An experiment of the paper, as far as the project has run it."""
    selection = select(name, network=NETWORK if EXPERIMENTS[name].needs else None)
    ledger = Ledger(sealed(selection.recipe))
    for data, values in results().items():
        ledger.add(data, trained_on(data), [value for value in values if isinstance(value, Measurement)])
    return summarise(name, EXPERIMENTS[name], PROTOCOLS, ledger)


def markdown(text_table: TextTable, hidden: Sequence[str] = ()) -> str:
    """A table of a reproduction with its notes, under its title."""
    columns = [column for column in text_table.columns if column not in hidden]
    lines = table(columns, ([line[column] for column in columns] for line in text_table.lines))
    notes = bullets(text_table.notes) if text_table.notes else ""
    return "\n\n".join(filter(None, [f"**{text_table.title}**", lines, notes]))


def experiment(name: str) -> str:
    """The tables and figures of an experiment, or that none of it has been run. Of another network, no verdicts."""
    hidden = ["method", "gap", "verdict"] if EXPERIMENTS[name].needs else ["method"]
    parts = [markdown(one, hidden) for one in text_tables(reproduced(name))]
    for file, figure in figures(reproduced(name)).items():
        parts.append(f"![{figure.title}](figures/{file}.svg)\n<!-- drawn from {figure.digest} -->")
    return "\n\n".join(parts) or "Nothing of it has been run yet."


def draw_figures() -> None:
    """Bring docs/figures up to date. A file ends in a hash of what it was drawn from: the same is not drawn again."""
    wanted = {name: figure for one in REPRODUCED for name, figure in figures(reproduced(one)).items()}
    FIGURES.mkdir(exist_ok=True)
    for file in FIGURES.glob("*.svg"):
        if file.stem not in wanted:
            file.unlink()
    files = {FIGURES / f"{name}.svg": figure for name, figure in wanted.items()}
    stale = {file: figure for file, figure in files.items() if not is_drawn(file, figure)}
    for file, figure in stale.items():
        file.write_text(f"{figure.svg}<!-- drawn from {figure.digest} -->\n")


def is_drawn(file: Path, figure: Figure) -> bool:
    return file.is_file() and f"<!-- drawn from {figure.digest} -->" in file.read_text()


def summary() -> str:
    """The verdicts on Table I and on SVCI-20, whose cells the other tables repeat."""
    outcomes = [one for name in ("table1", "svci20") for one in reproduced(name).outcomes]
    return "\n\n".join(markdown(counted(outcomes)) for counted in (verdicts, printed_gains, published_baselines))


def share_epochs(one: Result, other: Result) -> bool:
    """Whether lanes of these results would train some epochs as one."""
    alike = (one.seed, one.lr) == (other.seed, other.lr)
    return alike and spared_epochs([Lane(of.method, of.seed, of.lr) for of in (one, other)], one.recipe) > 0


def speed() -> str:
    """Model-images a second of the lanes behind docs/reproduction.md.

    Of those that see as many images as a naive one and share no epochs: the seconds of the others are of fewer images.
    """
    rows = []
    for data in sorted(results(), key=lambda data: data.name):
        trained = [result for result in trained_on(data) if result.recipe.network == RECIPES["bag-of-tricks"].network]
        plain = [result for result in trained if result.cost == 1 and "networks" not in result.plan]
        for device in sorted({result.device for result in plain}):
            there = [result for result in plain if result.device == device]
            lanes = [one for one in there if not any(share_epochs(one, other) for other in there if other != one)]
            images = sum(one.recipe.epochs * (sum(data.counts) // one.recipe.batch * one.recipe.batch) for one in lanes)
            if seconds := sum(one.seconds for one in lanes):
                rows.append((f"`{data.name}`", device, f"{len(lanes):,}", f"{images / seconds:,.0f}"))
    return table(("data", "device", "lanes", "model-images/s"), rows)


def findings() -> str:
    return bullets(f"`{kind}`: {about}." for kind, about in KINDS.items())


def glossary() -> str:
    return bullets(f"__{term}__ – {meaning}" for term, meaning in GLOSSARY.items())


RENDERERS = (
    methods, candidates, measures, augmentations, estimators, networks, sources, options, findings, api, summary, speed,
    glossary,
)  # fmt: skip
TABLES = {renderer.__name__: renderer for renderer in RENDERERS}
TABLES |= {f"reproduce {name}": partial(experiment, name) for name in REPRODUCED}


def filled(text: str) -> str:
    """The page with everything between a pair of markers rendered anew."""
    for name, render in TABLES.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        if begin:
            _, end, after = rest.partition(f"<!-- end of {name} -->\n")
            text = f"{before}{begin}\n{render()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    try:
        draw_figures()
    except InputError as error:  # of a file of results
        print(error, file=sys.stderr)
        sys.exit(2)
    for page in sorted(HERE.glob("*.md")):
        page.write_text(filled(page.read_text()))
