"""ONNX programs that take the columns of a table: numbers, and texts that become one feature a category."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.table import Column

ML = "ai.onnx.ml"  # the operators of ONNX that know texts
ML_VERSION = 3
COLUMNS = "the columns of a table, (batch, 1) each"
UNKNOWN = "a category that training did not have"

Rows = dict[str, NDArray]  # (N, 1) by the name of a column: float32, or texts


def some_rows(columns: Sequence[Column], number: int) -> Rows:
    """Rows to check a program by: numbers around the median, any category, and one that training did not have."""
    rng, rows = np.random.default_rng(number), Rows()
    for column in columns:
        if column.categories is None:
            values: NDArray = (rng.normal(column.median or 0, 1 + abs(column.median or 0), number)).astype(np.float32)
        else:
            values = rng.choice(np.array([*column.categories, UNKNOWN], dtype=object), number)
        rows[column.name] = values[:, None]
    return rows


def features_of(columns: Sequence[Column], rows: Rows) -> NDArray[np.float32]:
    """(N, D) as the model takes them."""
    return np.hstack([column.encoded(rows[column.name][:, 0]) for column in columns]).astype(np.float32)


def take_columns(document: Any, columns: Sequence[Column]) -> dict[str, str]:
    """Put the encoding before a program of features, in place -> the names of the inputs by column."""
    from onnx import TensorProto, helper

    graph = document.graph
    (features,) = graph.input
    batch = features.type.tensor_type.shape.dim[0].dim_param
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    names, nodes, inputs, parts = dict[str, str](), list[Any](), list[Any](), list[str]()
    for i, column in enumerate(columns):
        name = names[column.name] = f"column {column.name}" if column.name in taken else column.name
        is_number = column.categories is None
        kind = TensorProto.FLOAT if is_number else TensorProto.STRING
        inputs.append(helper.make_tensor_value_info(name, kind, [batch, 1]))
        parts.append(name)
        if column.categories is not None:
            code, places, equal, part = (f"{what}_of_column_{i}" for what in ("code", "places", "equal", "part"))
            size = len(column.categories)
            keys = {"keys_strings": list(column.categories), "values_int64s": list(range(size)), "default_int64": -1}
            nodes.append(helper.make_node("LabelEncoder", [name], [code], domain=ML, **keys))
            graph.initializer.append(helper.make_tensor(places, TensorProto.INT64, [1, size], list(range(size))))
            nodes.append(helper.make_node("Equal", [code, places], [equal]))
            nodes.append(helper.make_node("Cast", [equal], [part], to=TensorProto.FLOAT))
            parts[-1] = part
    nodes.append(helper.make_node("Concat", parts, [features.name], axis=1))
    before = list(graph.node)
    del graph.node[:], graph.input[:]
    graph.input.extend(inputs)
    graph.node.extend([*nodes, *before])
    document.opset_import.append(helper.make_opsetid(ML, ML_VERSION))
    return names
