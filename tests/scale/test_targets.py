"""Targets: places to train on that are none, and shards, whose stores together are the store of one process."""

import pytest
from refusals import refused
from same_stores import contents

import class_uncertainty as cu
from class_uncertainty.errors import InputError, ShardEnded
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.runs.store import Store
from class_uncertainty.scale import targets
from class_uncertainty.scale.targets import Shard, check_target

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)


@pytest.fixture(autouse=True)
def ray_is_there(monkeypatch):
    monkeypatch.setattr(targets, "find_spec", lambda name: object())


def test_without_ray_it_is_said_before_data_are_read(monkeypatch, run):
    monkeypatch.setattr(targets, "find_spec", lambda name: None)
    code, _, said = run("measure", "npz:unread.npz", "--on", "ray")
    assert code == 2
    assert "pip install 'class-uncertainty[ray]'" in said


@pytest.mark.parametrize(
    ("on", "sentence"),
    [
        ("rya", "did you mean 'ray'"),
        ("", "unknown place"),
        ("ray://", "an address is ray://HOST:PORT"),
        ("ray://head", "an address is ray://HOST:PORT"),
        ("ray://head:99999", "an address is ray://HOST:PORT"),
    ],
)
def test_places_that_are_none(on, sentence):
    with pytest.raises(InputError, match=sentence):
        check_target(on)


def test_a_trace_of_a_cluster_is_refused():
    with pytest.raises(InputError, match="a trace is of one process"):
        check_target("ray", profiles=True)


def test_a_device_that_no_cluster_has_is_refused_before_one_is_started():
    for device in (None, "cpu", "cuda"):
        check_target("ray", device=device)
    with refused("'mps'", "'cpu'", "'cuda'"):
        check_target("ray", device="mps")


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3", "", "1/9999999"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(InputError, match="write i/n with i from 1 to n"):
        Shard.parse(text)


def test_every_key_belongs_to_one_shard(rng):
    keys = [rng.bytes(16).hex() for _ in range(300)]
    for count in (1, 2, 7):
        shards = [Shard(number, count) for number in range(1, count + 1)]
        assert all(sum(shard.has(key) for shard in shards) == 1 for key in keys)
        assert all(any(shard.has(key) for key in keys) for shard in shards)


def test_shards_joined_are_the_whole(digits, tmp_path, forbid_training):
    about = {"methods": ["naive", "cb-rs", "cb"], "seeds": 2, "recipe": RECIPE, "device": "cpu"}
    cu.compare(digits, **about, store=tmp_path / "whole.sqlite")
    with Store(tmp_path / "joined.sqlite") as joined:
        for number in (1, 2):
            path = tmp_path / f"part-{number}.sqlite"
            advice = "rows? (is|are) for other shards; 'cu results export' .* 'cu results import' joins them"
            with pytest.raises(ShardEnded, match=f"shard {number}/2 of .* is trained: .* {advice}"):
                cu.compare(digits, **about, store=path, shard=f"{number}/2")
            with Store(path) as part:
                lines = tmp_path / f"part-{number}.jsonl"
                lines.write_text("".join(export_lines(part)))
            import_lines(joined, read_lines(lines), str(lines))
    forbid_training()
    cu.compare(digits, **about, store=tmp_path / "joined.sqlite")
    whole = {key: value for key, value in contents(tmp_path / "whole.sqlite").items() if key[0] == "results"}
    assert contents(tmp_path / "joined.sqlite") == whole
