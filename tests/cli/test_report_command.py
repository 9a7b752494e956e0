"""`cu report`, from data to a page."""

import json
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import class_uncertainty as cu


def test_own_data_from_a_folder_with_odd_names_to_the_report(run, tmp_path):
    """measure, compare, train and report on a folder of pictures, judged by folds; each output says so."""
    rng = np.random.default_rng(0)
    for c, name in enumerate(["one two", "zwölf", "new\nline"]):
        (tmp_path / "my pictures" / name).mkdir(parents=True)
        for i in range(9 - 3 * c):
            pixels = (rng.integers(0, 60, (10, 12, 3)) + 60 * c).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "my pictures" / name / f"{i}.png")
    Image.fromarray(pixels).save(tmp_path / "my pictures" / "zwölf" / "copy.png")
    judged = "There is no test split: errors come from 5 stratified folds"
    copied = "1 image carries two labels"
    code, out, _ = run("measure 'folder:my pictures' --epochs 1 --members 2")
    assert code == 0
    assert all(text in out for text in ("judged by 5 folds", copied, "zwölf", "new\\nline"))
    document = json.loads(run("compare 'folder:my pictures' --epochs 1 --members 2 --seeds 1 --json")[1])
    assert (document["folds"], document["duplicates"]) == (5, 1)
    assert {row["method"] for row in document["methods"]} == {"naive", "cb-rs", "ubrs"}
    assert "judged by 5 folds" in run("train 'folder:my pictures' --epochs 1 --save model")[1]
    assert cu.restore("model")(torch.zeros(1, 3, 10, 12)).shape == (1, 3)
    assert run("report")[0] == 0
    page = Path("report.html").read_text()
    assert all(text in page for text in (judged, "1 image carries two labels", "data:image/png"))


def test_the_estimator_is_chosen_by_name(run):
    assert run("measure digits --estimators ensemble,snapshot --epochs 1 --members 2")[0] == 0
    assert run("report --estimator snapshot")[0] == 0
    assert "uncertainty by snapshot" in Path("report.html").read_text()
    code, _, err = run("report --estimator snapshott")
    assert (code, "unknown estimator 'snapshott': did you mean 'snapshot'?" in err) == (2, True)
    assert "no estimate by 'duq'; it has ensemble, snapshot." in run("report --estimator duq")[2]


def test_faults_of_the_machine_are_exit_code_1(run, monkeypatch):
    assert run("train digits --epochs 1")[0] == 0

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    code, _, err = run("report")
    assert code == 1
    assert err.endswith("report.html could not be written: No space left on device.\n")
    assert err.count("\n") == 1


def test_stored_data_are_found_by_their_path(run):
    """Where two names have that path, both are named and no page is written."""
    Path("a.csv").write_text("x,y,kind\n" + "1,2,u\n3,4,v\n5,7,u\n6,8,v\n" * 6)
    assert run("measure a.csv --label kind --recipe features --epochs 1 --members 2")[0] == 0
    assert run("report a.csv")[0] == 0
    assert Path("a.html").exists()
    Path("a.html").unlink()
    assert run("measure a.csv --label kind --drop y --recipe features --epochs 1 --members 2")[0] == 0
    code, _, err = run("report a.csv")
    assert code == 2
    assert all(name in err for name in ("csv:a.csv?label=kind", "csv:a.csv?drop=y&label=kind"))
    assert not Path("a.html").exists()
