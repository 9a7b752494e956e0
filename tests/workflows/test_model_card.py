"""Model cards: what was measured when a model was saved, and nothing else."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.training.model_files import save
from class_uncertainty.training.networks.classifier import Classifier, Ensemble
from class_uncertainty.workflows.model_card import model_card

RECIPE = cu.Recipe("linear", epochs=2, batch=16)


def data(seed: int) -> cu.Data:
    rng, labels = np.random.default_rng(seed), np.repeat([0, 1, 2], [40, 20, 10])
    inputs = rng.normal(size=(70, 3)).astype(np.float32) + 2 * np.eye(3, dtype=np.float32)[labels]
    return cu.Data(inputs, labels, ["a|b", "<i>", "c"])


@pytest.fixture
def trained(tmp_path):
    return cu.train(cu.Dataset("toy", data(0), data(1)), recipe=RECIPE, save=tmp_path / "model", device="cpu")


def test_a_card_has_every_class_the_fingerprint_and_the_cost(trained, tmp_path):
    card = model_card(tmp_path / "model")
    for c, (name, count) in enumerate((("a\\|b", 40), ("\\<i\\>", 20), ("c", 10))):
        error = trained.result.class_errors[c]
        assert re.search(
            rf"^\| {re.escape(name)} \| {count} \| {count} \| {error:.1f} \| \d+ to \d+ \|$", card, re.MULTILINE
        )
    assert trained.dataset.fingerprint in card
    assert f"Class-mean error on the test split: {trained.result.error:.1f} %, " in card
    assert f"overall error: {trained.result.top1_error:.1f} %." in card
    assert "- Trained by: `naive`" in card
    assert "- Cost: 1 ×" in card
    assert "c was judged by fewer than 20 examples" in card
    assert [title for title in re.findall(r"^## (.*)$", card, re.MULTILINE)] == [
        "Results",
        "Data",
        "Method",
        "Use",
        "Limits",
    ]
    value = json.loads(re.search(r"balanced_accuracy, value: ([\d.]+)", card)[1])
    assert value == pytest.approx(1 - trained.result.error / 100, abs=1e-4)


def test_a_fix_shows_before_and_after(tmp_path):
    fixed = cu.fix(
        cu.Dataset("toy", data(0), data(1)), recipe=RECIPE, candidates=["naive"], seeds=1, save=tmp_path / "m"
    )
    card = model_card(tmp_path / "m")
    assert f"{np.mean(fixed.after.means):.1f} % ({np.mean(fixed.before.means):.1f} % before the fix)" in card
    after, before = (np.mean(side.overall) for side in (fixed.after, fixed.before))
    assert f"overall error: {after:.1f} % ({before:.1f} %)." in card
    assert f"- Cost: {fixed.report.cost:.3g} ×" in card
    assert "- Goal that it was chosen for: `mean`" in card
    frame = fixed.to_frame()
    assert list(frame["after"]) == pytest.approx(list(fixed.after.means))
    assert "<i>" not in fixed._repr_html_()
    errors = f"{np.mean(fixed.before.means):.1f} -> {np.mean(fixed.after.means):.1f} %"
    assert repr(fixed) == f"Fix(toy: class-mean error {errors}, naive ({fixed.choice.step}), {fixed.network})"


@pytest.mark.parametrize("judged", [None, 3, {"class_errors": [1]}, {"examples": ["x"] * 3, "cost": "much"}])
def test_what_a_model_does_not_record_is_said_to_be_missing(trained, tmp_path, judged):
    save(trained.module, tmp_path / "old", {"data": "toy", "judged": judged})
    card = model_card(tmp_path / "old")
    assert "Errors are not recorded" in card
    assert "- Cost: not recorded" in card


def test_the_command_writes_beside_the_model_and_over_nothing_else(run, tmp_path):
    cu.train(cu.Dataset("toy", data(0), data(1)), recipe=RECIPE, save="model", device="cpu")
    assert run("card", "model") == (0, "wrote README.md\n", "")
    assert run("card", "model.json", "--out", "card.md")[0] == 0
    assert Path("card.md").read_text() == Path("README.md").read_text()
    assert Path("card.md").read_text().startswith(model_card(Path("model")))
    code, _, err = run("card", "model", "--out", "card.pdf")
    assert (code, "card.md" in err) == (2, True)
    Path("README.md").write_text("# Mine\n")
    assert run("card", "model") == run("card", "model") == (0, "wrote README-2.md\n", "")
    code, _, err = run("card", "model --out README.md")
    assert (code, len(err.splitlines())) == (2, 1)
    assert Path("README.md").read_text() == "# Mine\n"
    code, _, err = run("card", "modle")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "there is no model at modle" in err  # and nothing of README.md, which is in the way
    assert run("card", "model", "--force") == (0, "wrote README.md\n", "")


def test_a_card_belongs_to_the_place_of_the_model_and_not_to_its_name(run):
    for seed, folder in enumerate(("a", "b")):
        Path(folder).mkdir()
        cu.train(cu.Dataset("toy", data(seed), data(2)), recipe=RECIPE, save=f"{folder}/model", device="cpu")
    assert run("card", "a/model", "--out", "card.md")[0] == 0
    card = Path("card.md").read_text()
    code, _, err = run("card", "b/model", "--out", "card.md")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "--force" in err
    assert Path("card.md").read_text() == card
    cu.train(cu.Dataset("toy", data(1), data(2)), recipe=RECIPE, save="a/model", force=True, device="cpu")
    assert run("card", "a/model", "--out", "card.md")[0] == 0  # saved again
    assert Path("card.md").read_text() != card
    Path("card.md").write_text(Path("card.md").read_text().replace("# model", "# Sorting letters"))
    for model in ("a/model", "b/model"):
        assert run("card", model, "--out", "card.md")[0] == 2
    assert run("card", "b/model", "--out", "card.md", "--force")[0] == 0


def grouped(seed: int) -> cu.Data:
    """Groups of ten whose examples are all alike, with a little noise: they err together."""
    rng, labels = np.random.default_rng(seed), np.repeat([0, 1], 200)
    inputs = np.repeat(rng.normal(size=(40, 2)), 10, axis=0) + np.repeat(np.eye(2), 200, axis=0)
    inputs = inputs.astype(np.float32) + rng.normal(scale=0.01, size=(400, 2)).astype(np.float32)
    return cu.Data(inputs, labels, ["a", "b"], groups=np.arange(400) // 10 + 40 * seed)


def widths(card: str) -> list[int]:
    return [int(high) - int(low) for low, high in re.findall(r"\| (\d+) to (\d+) \|", card)]


def test_intervals_allow_for_groups(tmp_path):
    """Twenty groups of ten are worth little more than twenty examples, of which intervals are three times as wide."""
    dataset = cu.Dataset("toy", grouped(0), grouped(1))
    apart = cu.Dataset("toy", *(replace(split, groups=None) for split in (dataset.train, dataset.test)))
    fixed = cu.fix(dataset, recipe=RECIPE, candidates=["naive"], seeds=1, save=tmp_path / "fixed")
    cu.train(dataset, recipe=RECIPE, save=tmp_path / "grouped", device="cpu")
    cu.train(apart, recipe=RECIPE, save=tmp_path / "apart", device="cpu")
    cards = {name: model_card(tmp_path / name) for name in ("fixed", "grouped", "apart")}
    assert min(np.divide(widths(cards["grouped"]), widths(cards["apart"]))) > 2
    assert min(np.divide(widths(cards["fixed"]), widths(cards["apart"]))) > 2
    shown = re.findall(r"\| (\d+ to \d+) \|", cards["fixed"])
    assert shown == [f"{low:.0f} to {high:.0f}" for low, high in fixed.report.price.after]
    assert "of which there are 40" in cards["fixed"]
    assert "groups" not in cards["apart"]


def test_a_model_fixed_for_costs_says_what_they_come_to(tmp_path):
    (tmp_path / "costs.csv").write_text("0,1,1\n1,0,1\n9,9,0\n")
    goal, toy = f"cost:{tmp_path / 'costs.csv'}", cu.Dataset("toy", data(0), data(1))
    fixed = cu.fix(toy, recipe=RECIPE, goal=goal, candidates=["naive"], seeds=1, save=tmp_path / "m")
    values = {step.name: np.mean(step.values) for step in fixed.report.ladder if step.values}
    after, before = values[fixed.report.step], values["naive"]
    aim = "mean cost at the training prior"
    assert f"By the goal, {aim}: {after:.4g} ({before:.4g} before the fix)." in model_card(tmp_path / "m")


def test_the_name_of_a_prior_is_shown_as_it_is(trained, tmp_path):
    module = trained.module
    module.purpose = replace(module.purpose, goal="prior:<b>_a_*.txt")
    judged = module.about["judged"] | {"values": [20.0, 10.0]}
    save(module, tmp_path / "m", {"data": "toy", "judged": judged})
    told = "By the goal, error under the prior of \\<b\\>\\_a\\_\\*.txt: 10 % (20 % before the fix)."
    assert told in model_card(tmp_path / "m")


def test_no_value_of_a_file_adds_to_the_structure_of_the_card(trained, tmp_path):
    odd = "x\n# x\n---\n```\n|[a](b)|"
    about = trained.module.about
    save(trained.module, tmp_path / "model", about)
    plain = model_card(tmp_path / "model")
    judged = about["judged"] | {"fingerprint": odd, "on": odd}
    save(trained.module, tmp_path / "model", {"data": odd, "judged": judged, "step": odd, "tau": [odd, 1.0]})
    card = model_card(tmp_path / "model")
    structure = re.compile(r"^(?:#|---|```|\|).*$", re.MULTILINE)
    assert structure.findall(card) == structure.findall(plain)
    assert not re.search(r"(?<!\\)\[a(?<!\\)\]", re.sub("`[^`\n]*`|^model-index.*$", "", card, flags=re.MULTILINE))


def test_every_kind_of_network_of_a_mixture_is_named(tmp_path):
    networks = [Classifier(name, (3,), ("a", "b")) for name in ("linear", "mlp", "linear")]
    save(Ensemble(networks).eval(), tmp_path / "m", {})
    assert "(network `linear + mlp`)" in model_card(tmp_path / "m")
