"""Distillation: what students are taught, by whom, and that nothing else changes it."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import gmean

import class_uncertainty as cu
from class_uncertainty.data import stratified
from class_uncertainty.training.distillation import Teachers

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32, crop=1)
FOLDS = [cu.Lane("naive", 0, fold=(k, 3)) for k in range(3)]


@pytest.fixture(scope="module")
def train(digits):
    return digits.train.take(np.arange(0, len(digits.train), 2))


@pytest.fixture(scope="module")
def members(train):
    """Two that saw everything, and three that left a fold out each."""
    return cu.fit(train, [cu.Lane("naive", 1), cu.Lane("ldam", 2), *FOLDS], recipe=RECIPE, device="cpu")


def student(seed: int = 0, lr: float | None = None, **fields: object) -> cu.Lane:
    return cu.Lane("naive", seed, lr, teaching=cu.Teaching(**fields))


def said(members: cu.Fit, train: cu.Data, chosen: np.ndarray) -> np.ndarray:
    """(teachers, B, C) by the plain networks, in float64."""
    x = torch.from_numpy(train.inputs[chosen])
    with torch.no_grad():
        return np.stack([softmax(members.module(i)(x).double().numpy(), axis=-1) for i in range(len(members.lanes))])


TAUGHT = [
    {},
    {"tau": 0.0, "temperature": 1.0, "mean": "arithmetic"},
    {"tau": 0.7, "temperature": 3.0, "teachers": (1,)},
    {"hard": 0.4, "teachers": (0, 3)},
    {"unseen": True, "teachers": (2, 3, 4)},
]


def test_targets_and_loss_are_the_formulas(members, train):
    students = [student(**fields) for fields in TAUGHT]
    teachers, chosen = Teachers(members, train, students, "cpu"), np.random.default_rng(0).integers(0, len(train), 45)
    x = members.standardise(torch.from_numpy(train.inputs[chosen]))
    targets = teachers.targets(x, torch.from_numpy(chosen))
    p, part, log_n = said(members, train, chosen), stratified(train.labels, 3)[chosen], np.log(train.counts)
    z = np.random.default_rng(1).normal(0, 3, (len(students), 45, len(train.classes)))
    losses = teachers.loss(
        torch.from_numpy(z).float(), targets, torch.from_numpy(train.labels[chosen]).expand(len(students), -1)
    )
    for i, fields in enumerate(TAUGHT):
        one = cu.Teaching(**fields)
        some = p[list(one.teachers) or slice(None)]
        mean = some.mean(axis=0) if one.mean == "arithmetic" else gmean(some, axis=0)
        if one.unseen:
            mean = p[2 + part, np.arange(45)]
        q = softmax((np.log(mean) - one.tau * log_n) / one.temperature, axis=-1)
        np.testing.assert_allclose(targets[i].numpy(), q, rtol=2e-4, atol=1e-6)
        soft = -(q * log_softmax(z[i] / one.temperature, axis=-1)).sum(axis=-1) * one.temperature**2
        hard = -log_softmax(z[i] + one.tau * log_n, axis=-1)[np.arange(45), train.labels[chosen]]
        np.testing.assert_allclose(losses[i].numpy(), (1 - one.hard) * soft + one.hard * hard, rtol=1e-3)


def test_a_student_at_what_it_is_taught_has_no_gradient(members, train):
    """At any temperature: z = log p - tau log N is where the loss is lowest."""
    teachers = Teachers(members, train, [student(temperature=3.0, tau=0.5)], "cpu")
    chosen = torch.arange(40)
    targets = teachers.targets(members.standardise(torch.from_numpy(train.inputs[:40])), chosen)
    log_p = np.log(gmean(said(members, train, chosen.numpy()), axis=0)) - 0.5 * np.log(train.counts)
    z = torch.tensor(log_p[None], dtype=torch.float32, requires_grad=True)
    teachers.loss(z, targets, torch.zeros(1, 40, dtype=torch.int64)).sum().backward()
    assert z.grad is not None
    assert float(z.grad.abs().max()) < 1e-4


def test_a_student_alone_is_the_student_among_others(members, train):
    lanes = [
        student(0),
        student(1, 0.05, temperature=4.0),
        student(2, hard=0.3),
        student(3, unseen=True, teachers=(2, 3, 4)),
        student(4),
        student(5),
    ]
    together = cu.fit(train, [cu.Lane("naive", 9), *lanes], recipe=RECIPE, teachers=members, device="cpu")
    for i in (0, 3, 5):
        alone = cu.fit(train, [lanes[i]], recipe=RECIPE, teachers=members, device="cpu")
        assert all(torch.equal(value, together.states[1 + i][name]) for name, value in alone.states[0].items())
    naive = cu.fit(train, [cu.Lane("naive", 9)], recipe=RECIPE, device="cpu")
    assert all(torch.equal(value, together.states[0][name]) for name, value in naive.states[0].items())


def test_who_teaches_and_what_matters(members, train):
    """Every field changes the student, and so do other teachers."""
    changed = [
        {"mean": "arithmetic"},
        {"tau": 0.5},
        {"temperature": 1.0},
        {"hard": 0.5},
        {"teachers": (0,)},
        {"teachers": (2, 3, 4)},
        {"teachers": (2, 3, 4), "unseen": True},
    ]
    fitted = cu.fit(
        train, [student(), *(student(**fields) for fields in changed)], recipe=RECIPE, teachers=members, device="cpu"
    )
    heads = [state["head.weight"] for state in fitted.states]
    assert all(not torch.equal(a, b) for i, a in enumerate(heads) for b in heads[:i])
    assert len(set(fitted.keys)) == len(fitted.keys)
    other = cu.fit(train, [student()], recipe=RECIPE, teachers=members.take([0, 1]), device="cpu")
    assert other.keys[0] != fitted.keys[0]


def test_it_learns_from_its_teachers_alone(digits):
    """Taught by networks that learnt other labels, it knows those: no label of its own comes in."""
    shift = cu.Data(digits.train.inputs, (digits.train.labels + 1) % 10)
    recipe = dataclasses.replace(RECIPE, epochs=12)
    teachers = cu.fit(shift, [cu.Lane("naive", s) for s in range(2)], recipe=recipe, device="cpu")
    teachers = dataclasses.replace(teachers, results=[])  # whose data are others, which fit() refuses
    fitted = cu.fit(digits.train, [student(tau=0.0)], recipe=recipe, teachers=teachers, device="cpu")
    guesses = fitted.probabilities(digits.train)[0].argmax(axis=1)
    assert (guesses == shift.labels).mean() > 0.8
    assert (guesses == digits.train.labels).mean() < 0.1


def test_stopped_and_gone_on(members, train, tmp_path):
    recipe = dataclasses.replace(RECIPE, epochs=3)
    whole = cu.fit(train, [student()], recipe=recipe, teachers=members, device="cpu")
    with pytest.raises(cu.Unfinished):
        cu.fit(
            train,
            [student()],
            recipe=recipe,
            teachers=members,
            device="cpu",
            checkpoints=tmp_path / "kept",
            budget=1e-6,
        )
    gone_on = cu.fit(train, [student()], recipe=recipe, teachers=members, device="cpu", checkpoints=tmp_path / "kept")
    assert all(torch.equal(value, whole.states[0][name]) for name, value in gone_on.states[0].items())


def test_features(digits):
    """Tables too; and the student may be another kind of network than its teachers."""
    flat = cu.Data(digits.train.inputs.reshape(len(digits.train), -1).astype(np.float32), digits.train.labels)
    teachers = cu.fit(
        flat, [cu.Lane("naive", s) for s in range(3)], recipe=cu.Recipe("mlp", epochs=20, batch=32), device="cpu"
    )
    fitted = cu.fit(
        flat,
        [student(s) for s in range(2)],
        recipe=cu.Recipe("linear", epochs=20, batch=32),
        teachers=teachers,
        device="cpu",
    )
    taught = teachers.probabilities(flat).mean(axis=0)
    agree = (fitted.probabilities(flat).argmax(axis=2) == cu.adjust(taught, flat.counts).argmax(axis=1)).mean()
    assert agree > 0.9


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tau": -1.0}, "tau is -1.0: it must be a finite number from 0"),
        ({"tau": float("nan")}, "tau is nan"),
        ({"temperature": 0.0}, "temperature is 0.0: it must be a finite number above 0"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"hard": 1.5}, "hard is 1.5: it must be a share from 0 to 1"),
        ({"tau": "1"}, "tau is '1': it must be a number"),
        ({"hard": None}, "hard is None: it must be a number"),
        ({"teachers": (0, "a")}, r"teachers is \(0, 'a'\): it must be a tuple"),
        ({"teachers": 1}, "teachers is 1: it must be a tuple"),
        ({"mean": "geometrc"}, "'geometrc'.*geometric"),
    ],
)
def test_fields_are_checked(fields, words):
    with pytest.raises(cu.InputError, match=words):
        cu.Teaching(**fields)


@pytest.mark.parametrize("other", [{"method": "cb"}, {"bootstrap": True}, {"gather": "online"}])
def test_a_student_is_naive(other):
    with pytest.raises(cu.InputError, match=r"teachers .*naive"):
        cu.Lane(**{"method": "naive", "teaching": cu.Teaching()} | other)


def test_teachers_are_checked(members, train, digits):
    def refused(words: str, lane: cu.Lane, data: cu.Data, teachers: cu.Fit | None) -> None:
        with pytest.raises(cu.InputError, match=words):
            cu.fit(data, [lane], recipe=RECIPE, teachers=teachers, device="cpu")

    refused("'distil' .*teachers", student(), train, None)
    refused("trained on other data", student(), digits.train, members)
    refused("take inputs of shape", student(), cu.Data(train.inputs[:, :, :6], train.labels, train.classes), members)
    refused(
        "10 of the teachers, 11 of the data",
        student(),
        cu.Data(train.inputs, np.where(np.arange(len(train)) < 2, 10, train.labels)),
        members,
    )
    refused("teacher 7 is asked for, and there are 5", student(teachers=(7,)), train, members)
    refused("teacher -1 is asked for, and there are 5", student(teachers=(0, -1)), train, members)
    refused(
        "teacher 7 is asked for, and there are 5",
        dataclasses.replace(student(teachers=(7,)), fold=(0, 5)),
        train,
        members,
    )
    refused("seen by all .*out-of-fold", student(unseen=True, teachers=(0, 2, 3)), train, members)
    refused("seen by all .*out-of-fold", student(unseen=True), train, members.take([0, 1, 2]))


def test_teachers_look_at_the_very_images_of_their_students(members, train, monkeypatch):
    """And know which ones they are: `unseen` goes by that."""
    told, targets = [], Teachers.targets

    def spied(self: Teachers, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        told.append((x.clone(), chosen.clone()))
        return targets(self, x, chosen)

    monkeypatch.setattr(Teachers, "targets", spied)
    cu.fit(
        train,
        [student(0), student(1)],
        recipe=dataclasses.replace(RECIPE, crop=0, epochs=1),
        teachers=members,
        device="cpu",
    )
    for x, chosen in told:
        assert torch.equal(x, members.standardise(torch.from_numpy(train.inputs[chosen.numpy()])))
    assert len(np.unique(np.concatenate([chosen.numpy() for _, chosen in told]))) == sum(len(x) for x, _ in told)


def test_costs_count_what_is_seen(members, train):
    """A pass forward is a third of a step: a frozen body's, and a teacher's. DUQ's steps count three."""
    recipe, few = dataclasses.replace(RECIPE, epochs=20), train.take(np.arange(0, len(train), 2))
    lanes = [cu.Lane(name) for name in ("naive", "2s-cb-rs", "crt", "duq")]
    costs = [result.cost for result in cu.fit(few, lanes, recipe=recipe, device="cpu").results]
    assert costs == pytest.approx([1, 1, 1 + 0.15 / 3, 3])
    (taught,) = cu.fit(train, [student()], recipe=RECIPE, teachers=members, device="cpu").results
    assert taught.cost == pytest.approx(1 + 5 / 3)


def test_a_teacher_that_has_seen_the_fold_or_diverged_is_refused(members, train):
    taught = cu.Teaching(teachers=(2,))
    fine = cu.Lane("naive", fold=(0, 3), teaching=taught)
    cu.fit(train, [fine], recipe=RECIPE, teachers=members, device="cpu")
    with pytest.raises(cu.InputError, match=r"leaves out fold \(1, 3\), and a teacher has seen it"):
        cu.fit(train, [dataclasses.replace(fine, fold=(1, 3))], recipe=RECIPE, teachers=members, device="cpu")
    lost = dataclasses.replace(members, results=[dataclasses.replace(result, diverged=1) for result in members.results])
    with pytest.raises(cu.InputError, match="diverged in epoch 2: it has nothing to teach"):
        cu.fit(train, [student()], recipe=RECIPE, teachers=lost, device="cpu")
    with pytest.raises(cu.InputError, match="must be a Fit"):
        cu.fit(train, [student()], recipe=RECIPE, teachers=[members.module(0)], device="cpu")


def test_labels_of_mixed_images_are_mixed(members, train, monkeypatch):
    """Of a student with mixup and labels: both labels of a pair come into its loss."""
    asked, loss = [], Teachers.loss

    def spied(self: Teachers, z: torch.Tensor, targets: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        asked.append(labels.clone())
        return loss(self, z, targets, labels)

    monkeypatch.setattr(Teachers, "loss", spied)
    lane = cu.Lane("naive+mixup", teaching=cu.Teaching(hard=0.5))
    cu.fit(train, [lane], recipe=dataclasses.replace(RECIPE, epochs=1), teachers=members, device="cpu")
    own, partners = asked[::2], asked[1::2]
    assert len(own) == len(partners) > 2
    for a, b in zip(own, partners, strict=True):
        assert not torch.equal(a, b)
        assert torch.equal(a.sort(dim=1).values, b.sort(dim=1).values)  # the same examples in another order
