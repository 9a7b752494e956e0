"""Checkpoints come back as they were written, or not at all: no damage is taken for a lane."""

import json
from dataclasses import replace

import pytest
import torch

from class_uncertainty.errors import MachineFault
from class_uncertainty.training import checkpoints
from class_uncertainty.training.checkpoints import Checkpoints, LaneState

SUMS = {"w": torch.full((3, 2), 4.0)}
LANE = LaneState(7, {"w": torch.arange(6.0).view(3, 2)}, {"w": torch.ones(3, 2)}, None, 0.5, 1.5)


def test_checkpoints_are_read_as_they_were_written(tmp_path):
    kept, tensors = Checkpoints(tmp_path / "a" / "b"), {"w": torch.randn(3, 2), "b": torch.tensor([float("nan"), 1])}
    assert (kept.load("x"), kept.epoch("x")) == (None, 0)
    kept.save({"x": LaneState(7, tensors, {"w": -tensors["w"]}, 3, float("inf"), 1.5, {"p": 2 * tensors["w"]}, SUMS)})
    found = kept.load("x")
    assert (found.epoch, found.diverged, found.loss, found.seconds, kept.epoch("x")) == (7, 3, float("inf"), 1.5, 7)
    assert torch.equal(found.state["w"], tensors["w"])
    assert torch.equal(found.momenta["w"], -tensors["w"])
    assert torch.equal(found.gathered["p"], 2 * tensors["w"])
    assert (found.summed.keys(), found.summed["w"].tolist()) == ({"w"}, SUMS["w"].tolist())
    assert (found.state.keys(), found.momenta.keys(), found.gathered.keys()) == ({"w", "b"}, {"w"}, {"p"})
    assert torch.equal(found.state["b"].isnan(), torch.tensor([True, False]))
    (tmp_path / "a" / "b" / "x.safetensors.123-4.partial").touch()
    kept.remove(["x"])
    assert not (tmp_path / "a" / "b").exists()


@pytest.fixture
def kept(tmp_path):
    kept = Checkpoints(tmp_path / "running")
    kept.save({"lane": LANE, "other": LANE})
    return kept


def test_every_bit_of_a_checkpoint_is_sealed(kept, notices):
    """One flipped bit, wherever it is: in the header, a tensor, or the seal itself."""
    file = kept.folder / "lane.safetensors"
    whole = file.read_bytes()
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        assert kept.load("lane") is None, place
        assert not file.exists()
    assert len(notices) == 8 * len(whole)
    assert all("lane.safetensors" in line and "again" in line for line in notices)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content + b"\0",
        lambda content: content[:-42],  # without its checksum
        lambda content: b"\0" * len(content),
    ],
)
def test_a_torn_checkpoint_counts_as_none(damage, kept, notices):
    file = kept.folder / "lane.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    assert kept.load("lane") is None
    assert len(notices) == 1
    assert kept.load("lane") is None  # and is gone: nothing more to say
    assert len(notices) == 1
    assert kept.load("other") is not None


def test_a_checkpoint_is_of_one_lane_only(kept, notices):
    """The key is sealed too: a file under another's name is nobody's."""
    (kept.folder / "lane.safetensors").write_bytes((kept.folder / "other.safetensors").read_bytes())
    assert kept.load("lane") is None
    assert len(notices) == 1


@pytest.mark.parametrize("header", [b"[" * 200_000, b"{}", b'{"__metadata__": {"about": "[1]"}}', b"\xff" * 90])
def test_how_far_a_lane_is_can_be_asked_of_anything(header, kept):
    (kept.folder / "lane.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert kept.epoch("lane") == 0


def test_an_epoch_that_is_no_number_is_no_epoch(kept):
    header = json.dumps({"__metadata__": {"about": '{"epoch": Infinity}'}}).encode()
    (kept.folder / "lane.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert kept.epoch("lane") == 0


def test_what_another_process_takes_away_is_written_again(kept, monkeypatch):
    """It ends, and removes its files and those of a kill, or the empty folder."""
    real, tries = checkpoints.write_together, []

    def taken(contents):
        tries.append(len(contents))
        if len(tries) == 1:
            raise MachineFault("a partial file is gone.") from FileNotFoundError()
        return real(contents)

    monkeypatch.setattr(checkpoints, "write_together", taken)
    kept.save({"lane": replace(LANE, epoch=8)})
    assert tries == [1, 1]
    assert kept.load("lane").epoch == 8
