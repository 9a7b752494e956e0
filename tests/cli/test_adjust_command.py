"""cu adjust, as a user types it."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import class_uncertainty as cu
from class_uncertainty.metrics import Scores, evaluate
from class_uncertainty.posthoc.calibration import fit_adjustment

COUNTS = np.array([500, 60, 7])
GIVEN = "--counts 500,60,7"


def judge(p: np.ndarray, labels: np.ndarray, prior: object = None) -> Scores:
    return evaluate(p, labels, COUNTS, np.full(3, 1 / 3) if prior is None else prior)


def assert_scores(document: dict, scores: Scores) -> None:
    for name, value in dataclasses.asdict(scores).items():
        assert document[name] == pytest.approx(value), name


def drawn(rng: np.random.Generator, examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits (N, C) that are twice too sharp and lean to what is frequent, and labels."""
    labels = np.concatenate([np.arange(3), rng.choice(3, examples - 3, p=COUNTS / COUNTS.sum())])
    return 3 * (rng.normal(0, 1, (examples, 3)) + 1.5 * np.eye(3)[labels]) + np.log(COUNTS), labels


@pytest.fixture
def files(run, rng):
    """test.npz and val.npz in the folder, and what is in them."""
    arrays = {}
    for name, examples in (("test", 300), ("val", 400)):
        z, arrays[f"{name}_labels"] = drawn(rng, examples)
        arrays[name], arrays[f"{name}_logits"] = softmax(z, axis=1), z
        np.savez(f"{name}.npz", probabilities=arrays[name], labels=arrays[f"{name}_labels"])
    return arrays


def written(name: str = "test-adjusted.npz") -> dict[str, np.ndarray]:
    with np.load(name) as loaded:
        return dict(loaded)


def test_without_unseen_examples_tau_is_1(run, files):
    code, out, err = run(f"adjust test.npz {GIVEN}")
    assert (code, err) == (0, "")
    file = written()
    np.testing.assert_allclose(file["probabilities"], cu.adjust(files["test"], COUNTS), rtol=1e-12)
    assert np.array_equal(file["labels"], files["test_labels"])
    assert (file["tau"], file["temperature"]) == (1, 1)
    np.testing.assert_allclose(file["bias"], np.log(COUNTS))
    changed = (file["probabilities"].argmax(axis=1) != files["test"].argmax(axis=1)).sum()
    assert changed > 0
    assert "tau = 1; for equally frequent classes" in " ".join(out.split())
    assert f"in {changed} of 300 predictions\nWrote  test-adjusted.npz" in out


@pytest.mark.parametrize("options", ["", "--bias", "--tau 0.5", "--prior train", "--prior 0.2,0.3,0.5 --tau auto"])
def test_it_fits_on_what_is_unseen(run, files, options):
    """The file, the table and the JSON are fit_adjustment's and judge's."""
    prior = COUNTS / COUNTS.sum() if "train" in options else [0.2, 0.3, 0.5] if "--prior" in options else None
    tau = 0.5 if "--tau 0.5" in options else "auto"
    fitted = fit_adjustment(files["val"], files["val_labels"], COUNTS, tau=tau, prior=prior, bias="--bias" in options)
    command = f"adjust test.npz {GIVEN} --unseen val.npz {options}"
    code, out, err = run(f"{command} --verbose")
    assert (code, err) == (0, "")
    file = written()
    np.testing.assert_allclose(file["probabilities"], fitted(files["test"]), rtol=1e-9)
    document = json.loads(run(f"{command} --json")[1])
    assert (document["file"], document["examples"]) == ("test-adjusted.npz", 300)
    for name in ("tau", "temperature", "bias", "prior"):
        np.testing.assert_allclose(document[name], getattr(fitted, name))
        np.testing.assert_allclose(file[name], getattr(fitted, name))
    assert document["changed"] == (fitted(files["test"]).argmax(axis=1) != files["test"].argmax(axis=1)).sum()
    table = out[: out.index("\n\n")]
    rows = [line.split()[-3:-1] for line in table.splitlines()[1:]]
    for side, (name, p) in enumerate((("before", files["test"]), ("after", fitted(files["test"])))):
        one = judge(p, files["test_labels"], prior)
        assert_scores(document[name], one)
        shown = [f"{one.error:.1f}", f"{one.top1_error:.1f}"] + (
            [f"{one.prior_error:.1f}"] if prior is not None else []
        )
        shown += [f"{one.worst:.1f}", f"{one.ece:.1f}", f"{one.nll:.3f}"]
        assert [row[side] for row in rows] == shown
    assert f"temperature {fitted.temperature:.3g}, chosen on 400 unseen examples" in " ".join(out.split())


def test_labels_of_the_predictions_only_judge(run, files):
    """Other labels, or none, and every number that is written stays."""
    run(f"adjust test.npz {GIVEN} --unseen val.npz --bias")
    before = written()
    np.savez("test.npz", probabilities=files["test"], labels=(files["test_labels"] + 1) % 3)
    run(f"adjust test.npz {GIVEN} --unseen val.npz --bias --out other.npz")
    np.save("test.npy", files["test"])
    code, out, _ = run(f"adjust test.npy {GIVEN} --unseen val.npz --bias --out none.npz")
    assert code == 0
    assert "none.npz" in out
    assert "labels" not in written("none.npz")
    for name in ("probabilities", "tau", "temperature", "bias", "prior"):
        assert np.array_equal(written("other.npz")[name], before[name])
        assert np.array_equal(written("none.npz")[name], before[name])
    document = json.loads(run(f"adjust test.npy {GIVEN} --json")[1])
    assert (document["before"], document["after"]) == (None, None)


def test_logits_and_members(run, files):
    """Logits are softmaxed, the mean of members is geometric, and counts may stand in the file."""
    z = np.stack([files["test_logits"], 0.2 * files["test_logits"]])
    expected = cu.adjust(softmax(z.mean(axis=0), axis=-1), COUNTS)
    np.savez("z.npz", logits=z.astype(np.float32), counts=COUNTS)
    np.savez("p.npz", probabilities=softmax(z, axis=-1), counts=COUNTS)
    np.savez("alone.npz", whatever=softmax(z, axis=-1))
    for name, options in (("z", ""), ("p", ""), ("alone", GIVEN)):
        assert run(f"adjust {name}.npz {options}")[0] == 0
        np.testing.assert_allclose(written(f"{name}-adjusted.npz")["probabilities"], expected, atol=1e-6)
    assert written("z-adjusted.npz")["probabilities"].dtype == np.float32
    assert written("p-adjusted.npz")["probabilities"].dtype == np.float64


def test_without_labels_the_unseen_examples_show_what_changed(run, files):
    np.savez("test.npz", probabilities=files["test"])
    code, out, _ = run(f"adjust test.npz {GIVEN} --unseen val.npz")
    assert code == 0
    assert "errors are on the unseen examples" in out
    document = json.loads(run(f"adjust test.npz {GIVEN} --unseen val.npz --json")[1])
    assert document["judged on"] == "val.npz"
    fitted = fit_adjustment(files["val"], files["val_labels"], COUNTS)
    for name, p in (("before", files["val"]), ("after", fitted(files["val"]))):
        assert_scores(document[name], judge(p, files["val_labels"]))
    assert json.loads(run(f"adjust test.npz {GIVEN} --json")[1])["judged on"] is None
    assert "class mean" not in run(f"adjust test.npz {GIVEN}")[1]


def test_half_precision_is_written_in_single(run, files):
    np.save("half.npy", files["test"].astype(np.float16))
    assert run(f"adjust half.npy {GIVEN}")[0] == 0
    p = written("half-adjusted.npz")["probabilities"]
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)


def test_counts_and_priors_from_files(run, files):
    np.save("counts.npy", COUNTS)
    Path("lines.txt").write_text("500\n60\n7\n")
    Path("row.csv").write_text("500, 60, 7")
    Path("list.json").write_text("[500, 60, 7]")
    Path("prior.json").write_text("[0.2, 0.3, 0.5]")
    expected = cu.adjust(files["test"], COUNTS, prior=[0.2, 0.3, 0.5])
    for name in ("counts.npy", "lines.txt", "row.csv", "list.json", "500, 60, 7"):
        code, out, err = run("adjust test.npz --counts", name, "--prior", "prior.json")
        assert (code, err) == (0, "")
        assert "for the prior prior.json" in " ".join(out.split())
        np.testing.assert_allclose(written()["probabilities"], expected, rtol=1e-12)


def test_a_thousand_classes_on_the_command_line(run, rng):
    """Longer than any file's name may be."""
    counts = rng.integers(1, 500, 1000)
    np.save("p.npy", rng.dirichlet(np.ones(1000), 5))
    assert run("adjust p.npy --counts", ",".join(map(str, counts)))[::2] == (0, "")
    np.testing.assert_allclose(
        written("p-adjusted.npz")["probabilities"], cu.adjust(np.load("p.npy"), counts), rtol=1e-12
    )


def test_labels_that_lack_a_class(run, files):
    some = files["test_labels"] != 2
    np.savez("some.npz", probabilities=files["test"][some], labels=files["test_labels"][some])
    code, _, err = run(f"adjust some.npz {GIVEN} --unseen some.npz")
    assert (code, "unseen is some.npz" in err) == (2, True)
    document = json.loads(run(f"adjust test.npz {GIVEN} --unseen some.npz --bias --json")[1])
    assert np.isfinite([*document["bias"], *document["after"]["class_errors"], document["after"]["nll"]]).all()
    assert run(f"adjust some.npz {GIVEN}")[::2] == (0, "")


def test_adjusted_twice(run, files):
    """What was written can be read; a prior of train on equal priors goes back."""
    run(f"adjust test.npz {GIVEN}")
    assert (
        run("adjust test-adjusted.npz --counts 1,1,1 --prior", ",".join(map(repr, (COUNTS / COUNTS.sum()).tolist())))[0]
        == 0
    )
    np.testing.assert_allclose(written("test-adjusted-adjusted.npz")["probabilities"], files["test"], atol=1e-12)


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (f"none.npz {GIVEN}", ["none.npz", "not exist"]),
        (f". {GIVEN}", ["folder"]),
        ("test.npz", ["counts", "500,60,7"]),
        ("test.npz --counts 500,60", ["(300, 3)", "2 classes"]),
        ("test.npz --counts 500,60 --unseen val.npz", ["(2,)", "3 classes"]),
        ("test.npz --counts 500,60,0", ["counts of class 2 is 0"]),
        ("test.npz --counts 500,60,nan", ["counts of class 2 is nan"]),
        ("test.npz --counts 500,60,-7", ["counts of class 2 is -7"]),
        ("test.npz --counts ''", ["--counts is ''"]),
        ("test.npz --counts none.txt", ["--counts is 'none.txt'"]),
        ("test.npz --counts none.npy", ["none.npy", "not exist"]),
        ("test.npz --counts words.txt", ["words.txt"]),
        ("test.npz --counts words.json", ["words.json"]),
        ("test.npz --counts bytes.txt", ["bytes.txt"]),
        ("test.npz --counts words.npy", ["words.npy"]),
        ("test.npz --counts .", ["folder"]),
        (f"test.npz {GIVEN} --tau auto", ["'auto'", "unseen"]),
        (f"test.npz {GIVEN} --bias", ["bias", "unseen"]),
        (f"test.npz {GIVEN} --tau much", ["--tau is 'much'", "auto"]),
        (f"test.npz {GIVEN} --tau -1", ["tau is -1.0"]),
        (f"test.npz {GIVEN} --tau nan", ["tau is nan"]),
        (f"test.npz {GIVEN} --unseen val.npz --tau nan", ["tau is nan"]),
        (f"test.npz {GIVEN} --prior 0.5,0.5,0.5", ["prior", "3 probabilities"]),
        (f"test.npz {GIVEN} --prior 0.5,0.5", ["prior", "3 probabilities"]),
        (f"test.npz {GIVEN} --prior even", ["--prior is 'even'", "train", "equal"]),
        (f"test.npz {GIVEN} --prior eqal", ["--prior is 'eqal': did you mean 'equal'? It must be train"]),
        (f"test.npz {GIVEN} --unseen plain.npz", ["plain.npz", "labels"]),
        (f"test.npz {GIVEN} --unseen test.npz", ["unseen is test.npz"]),
        (f"test.npz {GIVEN} --out test.npz", ["test.npz is read"]),
        (f"test.npz {GIVEN} --out link.npz", ["link.npz is read"]),
        (f"test.npz {GIVEN} --unseen val.npz --out ./val.npz", ["val.npz is read"]),
        ("test.npz --counts counts.npz --out counts.npz", ["counts.npz"]),
        (f"test.npz {GIVEN} --out out.csv", ["out is out.csv", ".npz"]),
        (f"twice.npz {GIVEN}", ["twice.npz", "example 0", "sum to 2"]),
        (f"nothing.npz {GIVEN}", ["nothing.npz", "probabilities", "logits"]),
        (f"flat.npy {GIVEN}", ["flat.npy", "(3,)"]),
        (f"empty.npy {GIVEN}", ["empty.npy", "(0, 3)"]),
        (f"nan.npz {GIVEN}", ["nan.npz", "logits", "finite"]),
        (f"labels.npz {GIVEN}", ["labels.npz", "label of example 1 is 3"]),
        (f"words.npy {GIVEN}", ["words.npy"]),
        ("odd.npz", ["counts of class 1 is nan"]),
    ],
)
def test_refusals(run, files, args, parts):
    """One sentence, exit code 2, nothing written and nothing lost."""
    Path("words.txt").write_text("many few")
    Path("words.json").write_text('{"a": 1}')
    Path("words.npy").write_text("many few")
    Path("bytes.txt").write_bytes(b"\xff\xfe\x00")
    os.link("test.npz", "link.npz")
    np.savez("counts.npz", counts=COUNTS)
    np.savez("plain.npz", probabilities=files["val"])
    np.savez("twice.npz", probabilities=2 * files["val"])
    np.savez("nothing.npz", first=files["val"], second=files["val"])
    np.save("flat.npy", files["val"][0])
    np.save("empty.npy", np.zeros((0, 3)))
    np.savez("nan.npz", logits=np.full((3, 3), np.nan))
    np.savez("labels.npz", probabilities=files["val"][:2], labels=np.array([0, 3]))
    np.savez("odd.npz", probabilities=files["val"], counts=np.array([1, np.nan, 3]))
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, out, err = run(f"adjust {args}")
    assert (code, out) == (2, "")
    assert [part for part in parts if part not in err] == []
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_help_teaches(run):
    code, out, _ = run("adjust --help")
    assert code == 0
    for words in (
        'np.savez("val.npz", probabilities=p, labels=y)',
        "cu adjust test.npz --counts 500,60,7 --unseen val.npz",
        "--prior",
    ):
        assert words in " ".join(out.split())


def test_two_classes_have_no_worst_tenth(run):
    p, labels = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), np.array([0, 1, 1])
    np.savez("two.npz", probabilities=p, labels=labels)
    code, out, _ = run("adjust two.npz --counts 9,3 --verbose")
    assert code == 0
    assert "overall" in out
    assert "worst" not in out
