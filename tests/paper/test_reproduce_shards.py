"""An experiment in shards: stores joined twice, the second time with the rows at the chosen rates, are the whole."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ledgers import use_toys
from same_stores import contents
from watching import no_training

from class_uncertainty.errors import InputError
from class_uncertainty.paper.experiments import select
from class_uncertainty.paper.reproduce import reproduce
from class_uncertainty.paper.reproduction import Reproduction
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.runs.store import Store


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    use_toys(monkeypatch)


def results(store: Path) -> dict:
    return {key: value for key, value in contents(store).items() if key[0] == "results"}


def join(store: Path, parts: Iterable[Path]) -> None:
    """As `cu results export` and `cu results import` do."""
    with Store(store) as joined:
        for part in parts:
            lines = part.with_suffix(".jsonl")
            with Store(part) as opened:
                lines.write_text("".join(export_lines(opened)))
            import_lines(joined, read_lines(lines), str(lines))


def run(path: Path, **options: Any) -> Reproduction:
    with Store(path) as store:
        (shown,) = reproduce(select("table1", "paper"), store, device="cpu", **options)
    return shown


def test_shards_joined_are_the_whole(tmp_path, notices):
    whole, joined = tmp_path / "whole.sqlite", tmp_path / "joined.sqlite"
    run(whole)
    parts = {f"{number}/2": tmp_path / f"part-{number}.sqlite" for number in (1, 2)}
    for _ in range(2):
        for shard, part in parts.items():
            assert not run(part, shard=shard).unfinished
            assert f"shard {shard}" in notices[-1]
        assert len(results(tmp_path / "part-1.sqlite")) < len(results(whole))
        join(joined, parts.values())
        for part in parts.values():
            join(part, [joined])
    run(joined, progress=no_training)
    assert results(joined) == results(whole)


def test_what_is_no_shard_is_refused(tmp_path):
    with pytest.raises(InputError, match="write i/n with i from 1 to n"):
        run(tmp_path / "runs.sqlite", shard="3/2")
