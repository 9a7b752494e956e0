"""`cu predict`, as a user types it."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import SHORT_FIX
from PIL import Image
from sklearn.metrics import precision_score, roc_auc_score

import class_uncertainty as cu
from class_uncertainty.training.model_files import save
from class_uncertainty.training.networks.classifier import Classifier


@pytest.fixture
def pictures(run):
    """A network saved as 'model', 20 pictures in 'new', and what it says of them."""
    assert run("train digits-lt:20 --epochs 2 --save model")[0] == 0
    Path("new").mkdir()
    test = cu.load("digits-lt:20").test
    assert test is not None
    for i in range(20):
        Image.fromarray(test.inputs[i][0]).save(f"new/{i}, \u00e9.png")
    return cu.predict("model", "new")


def test_a_line_for_every_picture(run, pictures):
    code, out, err = run("predict model new")
    assert (code, err) == (0, "")
    with open("new-predictions.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["example"] for row in rows] == list(pictures.names)
    assert [row["class"] for row in rows] == list(pictures.labels)
    table = np.array([[float(row[f"p({name})"]) for name in pictures.classes] for row in rows])
    np.testing.assert_allclose(table, pictures.probabilities, rtol=1e-5)
    np.testing.assert_allclose([float(row["probability"]) for row in rows], pictures.confidence, rtol=1e-5)
    least = pictures.confidence.argmin()
    assert f"Unsure {pictures.names[least]!r} (" in " ".join(out.split())  # with a comma
    assert "Wrote  new-predictions.csv, new-predictions.json" in out
    assert len(out.splitlines()) <= 5
    assert run("predict model new --quiet")[1] == out.splitlines(keepends=True)[-1]
    assert "Terms" in run("predict model new --explain")[1]
    assert run("predict model new --verbose --quiet")[0] == 2


def test_json(run, pictures):
    document = json.loads(run("predict model new --out deep/p.csv --json")[1])
    assert (document["file"], document["examples"], sum(document["classes"].values())) == ("deep/p.csv", 20, 20)
    assert Path("deep/p.csv").is_file()
    assert [row["class"] for row in document["predictions"]] == pictures.labels
    assert [row["example"] for row in document["predictions"]] == list(pictures.names)
    np.testing.assert_allclose([row["probability"] for row in document["predictions"]], pictures.confidence)
    assert document["prior"] == pytest.approx(pictures.prior)
    assert document["meaning"] == pictures.meaning == json.loads(Path("deep/p.json").read_text())["meaning"]
    assert run("predict model new --out deep/p.csv")[0] == 0  # over an earlier one


def test_odd_names_and_other_files(run, pictures):
    """A name that is no text, as old archives have them; what is no picture by its name is left out with a note."""
    os.rename(b"new/3, \xc3\xa9.png", b"new/\xe4.png")
    os.rename("new/4, \u00e9.png", "new/4.PNG")
    Path("new/notes.txt").write_text("not a picture")
    Path("new/t.parquet").write_text("nor this")
    code, out, err = run("predict model new")
    assert (code, err) == (0, "")
    assert "2 of 22 files" in " ".join(out.split())
    with open("new-predictions.csv", newline="", encoding="utf-8") as file:
        names = [row["example"] for row in csv.DictReader(file)]
    assert len(names) == 20
    assert "\\udce4.png" in names


def test_what_fix_saves_can_be_asked(run):
    """A table with text and missing values: `cu predict` on its rows agrees with the network on its features."""
    rng = np.random.default_rng(0)
    with open("t.csv", "w", newline="") as file:
        csv.writer(file).writerow(("age", "city", "label"))
        for i, age in enumerate(rng.normal(0, 1, 90)):
            csv.writer(file).writerow(
                (f"{age:.2f}" if i % 9 else "", "Oslo" if i % 4 else "", "yes" if age > 1 else "no")
            )
    assert run(f"fix csv:t.csv?missing=fill {SHORT_FIX} --save model")[0] == 0
    assert run("predict model t.csv")[0] == 0
    with open("t-predictions.csv", newline="") as file:
        p = np.array([[float(row["p(no)"]), float(row["p(yes)"])] for row in csv.DictReader(file)])
    with torch.inference_mode():
        expected = (
            cu.restore("model")(torch.from_numpy(cu.load("csv:t.csv?missing=fill").train.inputs)).softmax(1).numpy()
        )
    np.testing.assert_allclose(p, expected, rtol=1e-4, atol=1e-6)


REFUSED = [
    ("modle new", "modle.safetensors does not exist (did you mean 'model.safetensors'?):"),
    ("model newer", "did you mean 'new'?"),
    ("model new --out new", "new is read"),
    ("model new --out model.json", "model.json"),
    ("model new --out x.json", ".csv"),
    ("model new --out x.xlsx", ".csv"),
    ("model new --out model.csv", "model.json is read"),
    ("model 'new/0, é.png' --out 'new/0, é.png'", "new/0, é.png"),
    ("model new --out 'new/1, é.png'", ".csv"),
    ("model new --out runs.sqlite", "must end in .csv"),
]


def test_refusals(run, pictures):
    before = {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}
    for args, sentence in REFUSED:
        code, out, err = run(f"predict {args}")
        assert (code, out, err.count("\n")) == (2, "", 1), args
        assert sentence in err
        assert {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()} == before, args


def test_precisions_are_scikit_learn_s(run, pictures):
    """In the table, the file beside the predictions and the JSON document; none for a class that is not predicted."""
    test = cu.load("digits-lt:20").test
    assert test is not None
    np.savez("test.npz", x=test.inputs, y=test.labels)
    found, names = cu.predict("model", "test.npz"), list(pictures.classes)
    options = {"labels": names, "average": None, "zero_division": np.nan}
    expected = 100 * precision_score([names[c] for c in test.labels], found.labels, **options)
    assert found.class_precisions == pytest.approx(expected.tolist(), nan_ok=True)
    shown = [None if np.isnan(precision) else pytest.approx(precision) for precision in expected]
    assert json.loads(run("predict model test.npz --json")[1])["class_precisions"] == shown
    out = run("predict model test.npz --verbose")[1]
    assert json.loads(Path("test-predictions.json").read_text())["class_precisions"] == shown
    rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in names]
    assert [row[-1] for row in rows] == ["-" if np.isnan(precision) else f"{precision:.1f}" for precision in expected]
    assert pictures.class_precisions is None


def test_classes_by_cost(run, pictures):
    """The class, its probability and its cost are those of the least expected cost, and a sentence says so."""
    costs = 1 - np.eye(10)
    costs[:, 3] *= 0.01
    module = cu.restore("model")
    rebuilt = Classifier("small-conv", (1, 8, 8), module.classes, costs=torch.tensor(costs, dtype=torch.float32))
    rebuilt.load_state_dict(module.state_dict() | {"costs": torch.tensor(costs, dtype=torch.float32)})
    save(rebuilt.eval(), "by-cost", {})
    code, out, err = run("predict by-cost new")
    assert (code, err) == (0, "")
    assert "least expected cost" in " ".join(out.split())
    with open("new-predictions.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    softmax = cu.predict(module, "new", prior=module.purpose.prior).probabilities
    decided = (softmax @ costs).argmin(axis=1)
    assert [row["class"] for row in rows] == [pictures.classes[c] for c in decided]
    assert (decided != softmax.argmax(axis=1)).any()
    expected = softmax[np.arange(20), decided]
    np.testing.assert_allclose([float(row["probability"]) for row in rows], expected, rtol=1e-4)
    np.testing.assert_allclose([float(row["cost"]) for row in rows], (softmax @ costs).min(axis=1), rtol=1e-4)
    assert run("predict model new --keep cost")[0] == 2


def test_the_mean_cost_of_a_labelled_file(run, pictures):
    """By the costs that the model decides by; the file beside the predictions keeps them for `cu audit`."""
    module, data = cu.restore("model"), cu.load("digits-lt:20").test
    costs = 1 - np.eye(10)
    costs[2] *= 7
    rebuilt = Classifier("small-conv", (1, 8, 8), module.classes, costs=torch.tensor(costs, dtype=torch.float32))
    rebuilt.load_state_dict(module.state_dict() | {"costs": torch.tensor(costs, dtype=torch.float32)})
    rebuilt.purpose = module.purpose
    save(rebuilt.eval(), "by-cost", {})
    np.savez("new.npz", x=data.inputs[:60], y=data.labels[:60])
    code, out, err = run("predict by-cost new.npz")
    assert (code, err) == (0, "")
    decided = [int(name) for name in cu.predict("by-cost", "new.npz").labels]
    expected = costs[data.labels[:60], decided].mean()
    assert f"mean cost of an example {expected:.4g}" in " ".join(out.split())
    code, out, err = run("audit new-predictions.csv --json")
    assert (code, err) == (0, "")
    assert json.loads(out)["figures"]["mean_cost"] == pytest.approx(expected)


def adjustable(prior: str) -> str | list[float]:
    return [float(part) for part in prior.split(",")] if "," in prior else prior


def test_a_table_with_an_id_and_labels(run):
    """Kept, scored, and read again by `cu adjust`, whatever prior the probabilities were written for."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(200) < 50)
    rows = [f"c{i},{x:.3f},{'yes' if c else 'no'}" for i, (x, c) in enumerate(zip(rng.normal(y), y, strict=True))]
    Path("t.csv").write_text("\n".join(["id,x,churn", *rows]))
    assert run("train csv:t.csv?label=churn&drop=id --epochs 2 --save model")[0] == 0
    adjusted = []
    for prior in ("train", "equal", "0.1,0.9"):
        code, out, err = run("predict model t.csv --keep id --prior", prior, "--out", "predictions.csv", "--force")
        assert (code, err) == (0, "")
        text = " ".join(out.split())
        scored = cu.predict("model", "t.csv", prior=adjustable(prior))
        labels, yes = (np.array(names) == "yes" for names in (scored.truth, scored.labels))
        np.testing.assert_array_equal(scored.probabilities[:, 1] > 0.5, yes)
        precision = 100 * labels[yes].mean() if yes.any() else 0.0
        assert f"yes: precision {precision:.1f} %, recall {100 * yes[labels].mean():.1f} %, F1 " in text
        assert (
            f"class mean {scored.scores.error:.1f} %, overall {scored.scores.top1_error:.1f} %, of 200 examples" in text
        )
        two = json.loads(Path("predictions.json").read_text())["two"]
        assert two["auc"] == pytest.approx(100 * roc_auc_score(labels, scored.probabilities[:, 1]))
        header, first, *_ = Path("predictions.csv").read_text().splitlines()
        assert header == "example,id,label,class,probability,p(no),p(yes)"
        assert first.startswith(f"line 2,c0,{'yes' if y[0] else 'no'},")
        assert run("adjust predictions.csv --prior 0.3,0.7")[0] == 0
        with open("predictions-adjusted.csv", newline="") as file:
            adjusted.append(list(csv.DictReader(file)))
    assert [row["id"] for row in adjusted[0]] == [f"c{i}" for i in range(200)]
    p = np.array([[[float(row["p(no)"]), float(row["p(yes)"])] for row in rows] for rows in adjusted])
    expected = cu.predict("model", "t.csv", prior=[0.3, 0.7])
    for of_prior in p:
        np.testing.assert_allclose(of_prior, expected.probabilities, atol=2e-5)
    assert json.loads(Path("predictions-adjusted.json").read_text())["prior"] == pytest.approx([0.3, 0.7])
    assert "must end in .npz or .csv" in run("adjust predictions.csv --out x.txt")[2]
    for name in ("p(old)", "class"):  # before the examples are read
        code, _, err = run("predict model none.csv --keep", name)
        assert (code, err.count("\n")) == (2, 1)
        assert f"column '{name}' cannot be kept" in err
    code, out, _ = run("predict model t.csv --keep id --json")
    document = json.loads(out)
    assert document["scores"]["top1_error"] == pytest.approx(cu.predict("model", "t.csv").scores.top1_error)
    assert document["predictions"][0]["id"] == "c0"


def test_labels_of_a_part(run):
    """How many examples are scored is said, and an empty column of labels is not passed over."""
    classes = np.where(np.arange(600) % 4 == 0, "subscribes", "unsubscribes")
    rows = [f"{len(name) + i % 3},{name}" for i, name in enumerate(classes)]
    Path("t.csv").write_text("\n".join(["x,kind", *rows]))
    assert run("train csv:t.csv?label=kind --epochs 1 --save model")[0] == 0
    Path("part.csv").write_text("\n".join(["x,kind", *rows[:400], *(f"{row.split(',')[0]}," for row in rows[400:])]))
    code, out, err = run("predict model part.csv")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "of 400 examples" in text
    assert "200 examples have no label and are not scored." in text
    Path("empty.csv").write_text("\n".join(["x,kind", *(f"{row.split(',')[0]}," for row in rows)]))
    assert "Not scored: column 'kind' is empty." in " ".join(run("predict model empty.csv")[1].split())


def test_what_a_spreadsheet_would_compute_is_text_on_request(run):
    """Classes and kept columns of someone else's table, and the predictions adjusted, audited and kept as they are."""
    rows = [f"{i},=1+{i},{'=yes' if i % 2 else 'no'}" for i in range(16)]
    Path("new.csv").write_text("\n".join(["x,note,label", *rows]))
    data = "csv:new.csv?drop=note"
    assert run("train", data, "--network", "mlp", "--epochs", "1", "--save", "model")[0] == 0
    for option, stem, note, risky in ((["--excel-safe"], "safe", "'=1+0", False), ([], "plain", "=1+0", True)):
        code, _, err = run("predict model new.csv --keep note --out", f"{stem}.csv", *option)
        assert (code, err) == (0, "")
        assert run(f"adjust {stem}.csv", *option)[0] == 0
        assert run(f"audit {stem}.csv")[0] == 0
        for name in (f"{stem}.csv", f"{stem}-adjusted.csv"):
            with open(name, newline="") as file:
                rows = list(csv.DictReader(file))
            assert rows[0]["note"] == note
            assert any(cell.startswith("=") for row in rows for cell in row.values()) is risky
    code, _, err = run("adjust plain.csv --out x.npz --excel-safe")
    assert (code, ".csv" in err, Path("x.npz").exists()) == (2, True, False)
