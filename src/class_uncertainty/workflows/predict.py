"""cu.predict(): the classes of new examples, by a model that was saved or that is at hand."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Frame, check, check_distinct, is_frame, shortly, take
from class_uncertainty.data.cache import Progress
from class_uncertainty.data.examples import inputs_digest, row_digests
from class_uncertainty.data.frames import FRAME
from class_uncertainty.data.readers.unlabelled import FOLDERS, Unlabelled, read_unlabelled
from class_uncertainty.data.tabular import Cells, row_cells, row_labels
from class_uncertainty.errors import InputError, nearest
from class_uncertainty.metrics import Outcomes, Scores, decide, mean_cost, precisions_by_class, score
from class_uncertainty.posthoc.evaluation import TwoClasses, two_classes
from class_uncertainty.posthoc.priors import GIVEN, OWN, PRIORS, Prior, at_prior, find_prior
from class_uncertainty.posthoc.written_predictions import LABEL, SEEN, PredictionTable
from class_uncertainty.text import amount_of, enumerated, in_list, listed
from class_uncertainty.training.fit import default_device
from class_uncertainty.training.model_files import restore
from class_uncertainty.training.networks.backbones import Embedder, fused, same_backbone
from class_uncertainty.training.networks.classifier import Deployed
from class_uncertainty.training.purpose import Purpose
from class_uncertainty.workflows.model import AnyModel, module_of

NAMED = 5  # classes in a sentence or a repr, and examples that cannot be read


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """The classes of examples (N,), -1 where there is no label or it is no class; where labels are from; the labels."""

    classes: NDArray[np.int64]
    source: str
    labels: Sequence[str]  # "" where none is given

    def at(self, places: Sequence[int]) -> "GivenLabels":
        return GivenLabels(self.classes[places], self.source, [self.labels[place] for place in places])

    def unscored(self, classes: Sequence[str]) -> list[str]:
        """How many examples have no label, and how many have one that is no class, in sentences."""
        without = [label for label, place in zip(self.labels, self.classes.tolist(), strict=True) if place < 0]
        unknown = [label for label in without if label]
        sentences = []
        if missing := len(without) - len(unknown):
            examples = amount_of(missing, "example has no label and is", "examples have no label and are")
            sentences.append(f"{examples} not scored.")
        if unknown:
            examples = amount_of(len(unknown), "example is", "examples are")
            they = f"by {self.source} {'it is' if len(unknown) == 1 else 'they are'} {_named(unknown, classes)}"
            sentences.append(f"{examples} not scored: {they}, which the model does not know.")
        return sentences

    def scores(
        self, p: NDArray, decisions: NDArray[np.int64], counts: ArrayLike, prior: ArrayLike | None
    ) -> Scores | None:
        """Of the labelled examples, by decisions (N,) and probabilities (N, C); calibration is for that prior."""
        rows, truth, guesses = self._labelled(decisions)
        if not len(rows):
            return None
        p_label, p_guess = (p[rows, classes].astype(np.float64) for classes in (truth, guesses))
        return score(Outcomes(truth, guesses, p_label, p_guess), counts, prior)

    def precisions(self, decisions: NDArray[np.int64], classes: int) -> tuple[float, ...] | None:
        """Of the labelled examples, in percent; NaN for a class that is never predicted."""
        rows, truth, guesses = self._labelled(decisions)
        return tuple(precisions_by_class(guesses, truth, classes).tolist()) if len(rows) else None

    def two(self, p: NDArray, counts: ArrayLike, costs: NDArray | None) -> TwoClasses | None:
        """How well the rarer of two classes is found; None where there are others, or examples of one alone."""
        rows = np.flatnonzero(self.classes >= 0)
        return two_classes(p[None, rows].astype(np.float64), self.classes[rows], counts, costs)

    def mean_cost(self, decisions: NDArray[np.int64], costs: NDArray | None) -> float | None:
        """Of the labelled examples as they are; None without costs."""
        rows, truth, guesses = self._labelled(decisions)
        return mean_cost(guesses, truth, costs) if costs is not None and len(rows) else None

    def _labelled(self, decisions: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """The places of the examples that have labels, their labels, and the decisions on them."""
        rows = np.flatnonzero(self.classes >= 0)
        return rows, self.classes[rows], decisions[rows]


def find_labels(
    examples: Unlabelled, classes: Sequence[str], column: str | None, usual: str | None
) -> tuple[GivenLabels | None, list[str]]:
    """The labels of all examples, read or not: of the column that is asked for, or of what looks like them.

    That is the column that training had, the array y, or folders with the names of classes. Where all names are no
    classes, a column that was asked for is refused; otherwise nothing is scored, and a sentence says why.
    """
    labels: tuple[str, Sequence[str]]
    table = examples.table() if examples.table and (column or usual) else None
    if column is not None and table is None:
        raise InputError(f"label is {column!r}, the name of a column: these examples are not rows of a table.")
    if table and (column or usual in table.columns):
        name = column or str(usual)
        labels = f"column {name!r}", row_labels(table, name)
    elif examples.labels is not None:
        labels = examples.labels
    else:
        return None, []
    source, names = labels
    places = {name: place for place, name in enumerate(classes)}
    if source == FOLDERS and not any(name in places for name in names):
        return None, []  # they mean something else
    numbers = np.array([places.get(name, -1) for name in names], dtype=np.int64)
    if (numbers >= 0).any():
        return GivenLabels(numbers, source, names), []
    if not any(names):
        return None, [f"Not scored: {source} is empty."]
    sentence = f"{source} names {_named(names, classes)}, and the classes are {listed(classes, 2 * NAMED)}"
    if column:
        raise InputError(f"{sentence}: correct the labels, or leave out the label.")
    return None, [f"Not scored: {sentence}."]


def _named(labels: Sequence[str], classes: Sequence[str]) -> str:
    """Labels that are no classes, with the nearest class of each, where one is near."""
    names = sorted({label for label in labels if label})
    hints = (f" (did you mean {near!r}?)" if (near := nearest(name, classes)) else "" for name in names[:NAMED])
    return enumerated([f"{name!r}{hint}" for name, hint in zip(names, hints, strict=False)], NAMED, len(names))


def keep_columns(examples: Unlabelled, names: Sequence[str]) -> dict[str, Cells]:
    """The columns of these names, row by row."""
    if names and examples.table is None:
        raise InputError(f"keep names {', '.join(map(repr, names))}: these examples have no columns to keep.")
    table = examples.table() if examples.table and names else None
    return {name: row_cells(table, name, "keep") for name in names} if table else {}


MOST_PROBABLE, LEAST_COST = "the most probable one", "the one of the least expected cost"  # rules of decision
NO_PRIOR = "The model does not say which prior its softmax stands for"


@dataclass(frozen=True, eq=False)
class Predicted:
    """What `cu.predict` returns.

    Attributes
    ----------
    names : sequence of str
        Where each example comes from: its file, line or row.
    classes : tuple of str
        The classes that the columns of `probabilities` stand for.
    probabilities : array (N, C)
        Of the classes, if they are as frequent as `prior` says.
    labels : sequence of str
        The class that is decided on by these probabilities: the most probable one or, for a model with costs, the one
        of the least expected cost.
    prior : array (C,), optional
        What probabilities and labels are for; None where the model does not say what its softmax stands for.
    purpose : Purpose, optional
        The model's: `goal`, `method`, `counts` of the training examples, and the `prior` of its softmax.
    kept : dict
        The columns that were to be kept, by name.
    truth : sequence of str, optional
        The class of each example where the examples have labels; "" where one has none, or one that is no class.
    scored_by : str
        Where `truth` comes from.
    scores : Scores, optional
        Errors and calibration, by `truth`.
    prior_name : str
        "goal" (as measured, about the goal's), "train", "equal" or "given": which prior that is.
    class_precisions : tuple of float, optional
        Percent of the predictions of each class that are right, by `truth`; NaN for a class that is never predicted.
    seen : bool
        Whether these are known to be the examples that the model was trained on.
    two : TwoClasses, optional
        Of two classes, how well the rarer one is found, by `truth`: precision, recall, F1, AUC, average precision.
    mean_cost : float, optional
        Of an example, by `truth` and the costs that the model decides by.
    costs : array (C, C), optional
        These costs: of predicting the class of the column for an example of the class of the row.
    meaning : sequence of str
        What labels and probabilities stand for, in sentences.
    notes : sequence of str
        What is odd about the examples.
    confidence : array (N,)
        The probabilities of the labels.

    Examples
    --------
    >>> cu.Predicted(["a.png"], ("cat", "dog"), np.array([[0.2, 0.8]], dtype=np.float32), ["dog"]).confidence
    array([0.8], dtype=float32)
    """

    names: Sequence[str]
    classes: tuple[str, ...]
    probabilities: NDArray[np.float32]
    labels: Sequence[str]
    prior: NDArray[np.float64] | None = None
    purpose: Purpose | None = None
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    truth: Sequence[str] | None = None
    scored_by: str = ""
    scores: Scores | None = None
    meaning: Sequence[str] = ()
    notes: Sequence[str] = ()
    seen: bool = False
    two: TwoClasses | None = None
    mean_cost: float | None = None
    costs: NDArray[np.float64] | None = None
    class_precisions: tuple[float, ...] | None = None
    prior_name: str = OWN

    @property
    def rule(self) -> str:
        """How a class follows from the probabilities."""
        return MOST_PROBABLE if self.costs is None else LEAST_COST

    @property
    def expected_costs(self) -> NDArray[np.float64] | None:
        """(N,) of the classes that are decided on; None without costs."""
        return None if self.costs is None else (self.probabilities.astype(np.float64) @ self.costs).min(axis=1)

    def table(self) -> PredictionTable:
        """What `cu predict` writes as CSV."""
        kept = {name: cells for name, cells in self.kept.items() if name != LABEL or self.truth is None}
        return PredictionTable(
            self.names, self.classes, self.probabilities, self.labels, kept, self.truth, costs=self.expected_costs
        )

    def document(self) -> dict[str, Any]:
        """What `cu predict` writes beside it: what labels and probabilities stand for, and how good they are."""
        purpose, predicted = self.purpose, Counter(self.labels)
        return {
            "classes": {name: predicted[name] for name in self.classes},
            "goal": purpose.goal if purpose else None,
            "method": purpose.method if purpose else None,
            "counts": list(purpose.counts) if purpose else None,
            "prior": None if self.prior is None else self.prior.tolist(),
            "prior_name": self.prior_name,
            "rule": self.rule,
            "meaning": list(self.meaning),
            "scored by": self.scored_by or None,
            "scores": asdict(self.scores) if self.scores else None,
            "class_precisions": self.class_precisions,
            "two": asdict(self.two) if self.two else None,
            "mean_cost": self.mean_cost,
            "costs": None if self.costs is None else self.costs.tolist(),
            "seen": self.seen,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        predicted = [f"{in_list(name)} {number:,}" for name, number in Counter(self.labels).most_common()]
        error = f", class-mean error {self.scores.error:.1f} %" if self.scores else ""
        return f"Predicted({len(self.labels):,} examples: {enumerated(predicted, NAMED)}{error})"

    @property
    def confidence(self) -> NDArray[np.float32]:
        places = {name: place for place, name in enumerate(self.classes)}
        return self.probabilities[np.arange(len(self.labels)), [places[name] for name in self.labels]]


def predict(
    model: str | Path | AnyModel,
    examples: str | Path | Frame,
    *,
    prior: Prior | Literal["goal"] = OWN,
    keep: Sequence[str] = (),
    label: str | None = None,
    trust_code: bool = False,
    progress: Progress | None = None,
) -> Predicted:
    """Predict new examples with a model of `cu.fix` or `cu.train`.

    Probabilities p_c of its softmax, which holds for the prior `purpose.prior`, become p_c prior_c / purpose.prior_c,
    renormalised. Labels follow from them: the most probable class or, for a model with costs, the one of the least
    expected cost.

    Parameters
    ----------
    model : path, Fix, Trained, Model or module
        What --save wrote (model, model.safetensors or model.json), what `cu.fix`, `cu.train` or `cu.restore` returned,
        or the `model` of a Fix.
    examples : path or DataFrame
        An image, a folder of images at any depth, or a .csv, .parquet, .npz or .npy file; or a DataFrame with the
        columns of training. Images are resized, or pass through the network's backbone, and columns become features,
        as they were in training. Files of a folder and rows of a table that cannot be read are skipped, and `notes`
        name them.
    prior : "goal", "train", "equal" or array (C,)
        How frequent the classes are, for probabilities and labels: about as the goal that the model was made for counts
        them (`purpose.prior`, which is measured), as in training, equally frequent, or as given. Only with "goal" are
        labels best for that goal.
    keep : sequence of str
        Columns of the table to return beside the predictions, such as an id.
    label : str, optional
        The column to score predictions by. By default that of training, an array y, or folders with names of classes,
        where there are any.
    trust_code : bool
        As in `cu.restore`, for a model that names code.
    progress : callable, optional
        Called with (what, done, total) as predicting goes on.

    Returns
    -------
    Predicted

    Examples
    --------
    >>> data = cu.load("digits-lt:20")
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> trained = cu.train(data, recipe=recipe, save="model")
    >>> np.savez("new.npz", x=data.test.inputs[:3])
    >>> cu.predict("model", "new.npz", prior="equal").probabilities.shape
    (3, 10)
    """
    check(Path | Frame, examples=examples)
    keep = take(list[str], keep=keep)
    check(str | None, label=label)
    check(Callable | None, progress=progress)
    if keep:
        check_distinct("column", keep)
    network = _at_hand(model, trust_code)
    purpose = network.purpose
    costs = None if network.costs is None else network.costs.cpu().double().numpy()
    wanted = _wanted(network, prior)
    place, source = (examples, FRAME) if is_frame(examples) else (Path(examples), str(examples))
    unlabelled, is_seen = _watch_seen(_read(network, place), network)
    given, unscored = find_labels(unlabelled, network.classes, label, purpose.label if purpose else None)
    kept = keep_columns(unlabelled, keep)
    parts: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
    done = 0
    for p in _softmaxes(network, unlabelled, source):
        converted = p if purpose is None or wanted is None else at_prior(p, purpose.prior, wanted)
        parts.append((decide(converted.astype(np.float64), costs), converted))
        done += len(p)
        if progress:
            progress(source, done, len(unlabelled.names))
    skipped, places = list(unlabelled.skipped.values()), unlabelled.read_places
    unit = "rows" if unlabelled.table else "files"
    if not parts:
        raise InputError(f"{source} has no {unit} that can be read; the first: {skipped[0]}")
    decisions, shown = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    count = f"Skipped {len(skipped):,} of {len(unlabelled.names):,} {unit}, which cannot be read."
    seen = is_seen()
    truth = given.at(places) if given else None
    unscored = truth.unscored(network.classes) if truth else unscored
    notes = [*unlabelled.notes, *skipped[:NAMED], *([count] if skipped else []), *unscored]
    counts = purpose.counts if purpose else np.ones(len(network.classes))
    prior_name = prior if isinstance(prior, str) else "given"
    return Predicted(
        [unlabelled.names[place] for place in places],
        network.classes,
        shown,
        [network.classes[c] for c in decisions],
        wanted,
        purpose,
        kept={name: [cells[place] for place in places] for name, cells in kept.items()},
        truth=[network.classes[c] if c >= 0 else "" for c in truth.classes] if truth else None,
        scored_by=truth.source if truth else "",
        scores=truth.scores(shown, decisions, counts, wanted) if truth else None,
        meaning=_meaning(network, prior_name, wanted),
        notes=[*notes, *([SEEN] if seen and truth else [])],
        seen=seen,
        two=truth.two(shown, counts, costs) if truth else None,
        mean_cost=truth.mean_cost(decisions, costs) if truth else None,
        costs=costs,
        class_precisions=truth.precisions(decisions, len(network.classes)) if truth else None,
        prior_name=prior_name,
    )


def _at_hand(model: str | Path | AnyModel, trust_code: bool) -> Deployed:
    """The module: on the best device where it comes from files, else where it is, and never changed."""
    if isinstance(model, str | Path):
        return restore(model, trust_code).to(default_device())
    module = copy(module_of(model))
    module._modules = dict(module._modules)  # it may get a backbone
    return module.eval()


def _wanted(network: Deployed, prior: Prior | Literal["goal"]) -> NDArray[np.float64] | None:
    """The prior that is asked for, (C,); None where the model does not say what its own is."""
    is_own = isinstance(prior, str) and prior == OWN
    if network.purpose is None and is_own:
        return None
    if network.purpose is None:
        raise InputError(f"{NO_PRIOR}: leave the prior out, or train it by cu.train.")
    if is_own:
        return np.array(network.purpose.prior, dtype=np.float64)
    if isinstance(prior, str) and prior not in PRIORS:
        allowed = ", ".join(map(repr, (OWN, *PRIORS)))
        raise InputError(f"prior is {shortly(prior)}: it must be one of {allowed}, or a probability of each class.")
    return find_prior(prior, network.purpose.counts)


def _softmaxes(network: Deployed, unlabelled: Unlabelled, source: str) -> Iterator[NDArray[np.float32]]:
    """The network's probabilities, batch after batch."""
    device, done = network.shift.device, 0
    with torch.inference_mode():
        for batch in unlabelled.batches:
            logits = network(torch.from_numpy(batch).to(device))
            if not (finite := logits.isfinite().all(dim=1)).all():
                name = unlabelled.read_names[done + int((~finite).nonzero()[0])]
                advice = "the network's answer is not finite: its values must be like those of training"
                raise InputError(f"{source}, {name}: {advice}.")
            done += len(batch)
            yield logits.softmax(dim=1).cpu().numpy()


def _meaning(network: Deployed, prior_name: str, wanted: NDArray[np.float64] | None) -> list[str]:
    """What labels and probabilities stand for, in sentences."""
    purpose = network.purpose
    rule = MOST_PROBABLE if network.costs is None else LEAST_COST
    if purpose is None or wanted is None:
        return [f"The class is {rule}. {NO_PRIOR}: probabilities are that softmax."]
    if prior_name != OWN:
        under = PRIORS.get(prior_name, GIVEN)
    elif purpose.goal is None:
        under = f"the prior of a network trained by {purpose.method!r}"
    else:
        under = f"classes about as frequent as the goal {purpose.goal!r} counts them"
    lost = [network.classes[c] for c in np.flatnonzero((np.array(purpose.prior) == 0) & (wanted > 0))]
    never = [f"The goal rules out {', '.join(map(repr, lost))}, whose probability stays 0."] if lost else []
    return [f"The class is {rule}, for {under}.", *never]


def _read(network: Deployed, examples: Path | Frame) -> Unlabelled:
    """The examples as the network takes them. Images of an embedding pass through its backbone, features do not."""
    shape, embedding = tuple(network.rebuild["shape"]), network.embedding
    as_it_is = is_frame(examples) or (examples.suffix.lower() in (".npz", ".npy") and network.backbone is None)
    if embedding is None or as_it_is:
        return read_unlabelled(examples, shape, network.encoding)
    unlabelled = read_unlabelled(examples, (3, *embedding.images), None)
    if network.backbone is None:
        backbone = same_backbone(embedding)
        network.backbone = Embedder(replace(backbone, module=fused(backbone.module))).to(network.shift.device)
    return unlabelled


def _watch_seen(examples: Unlabelled, module: Deployed) -> tuple[Unlabelled, Callable[[], bool]]:
    """The same examples, and what tells, once they are read, whether the model was trained on just these.

    The model keeps one hash of all its training inputs, so that a part of them is not recognised, nor are photographs
    that passed through a backbone.
    """
    judged = module.about.get("judged")
    known = judged.get("inputs") if isinstance(judged, dict) else None
    if known is None or module.purpose is None or len(examples.names) != sum(module.purpose.counts):
        return examples, lambda: False
    digests = list[NDArray[np.void]]()

    def batches() -> Iterator[NDArray]:
        for batch in examples.batches:
            digests.append(row_digests(batch))
            yield batch

    return replace(examples, batches=batches()), lambda: inputs_digest(np.concatenate(digests)) == known
