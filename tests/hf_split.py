"""A table with the calls of a split of the Hugging Face library `datasets`, where that is not installed."""

from typing import Any

import pyarrow


class Split:
    """What `Data.from_hf` asks of a datasets.Dataset; tests/integrations has the real one."""

    def __init__(self, frame: Any) -> None:
        self.table = frame if isinstance(frame, pyarrow.Table) else pyarrow.Table.from_pandas(frame)
        self.features: dict[str, Any] = dict(zip(self.table.column_names, self.table.schema.types, strict=True))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, rows: slice) -> pyarrow.Table:
        return self.table.slice(*rows.indices(len(self))[:2])

    def select_columns(self, names: list[str]) -> "Split":
        return Split(self.table.select(names))

    def with_format(self, kind: str) -> "Split":
        assert kind == "arrow"
        return self
