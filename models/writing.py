"""Writes an exported model without a trace of the machine that made it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx_ir as ir

SINGLE_FILE_LIMIT = 1_500_000_000
"""Bytes of weights from which on they get a file of their own; protobuf ends at 2 GB."""


def strip(model: ir.Model) -> None:
    """Removes doc strings and metadata: torch keeps the stack trace of every node there."""
    graphs = [model.graph, *model.graph.subgraphs()]
    for function in model.functions.values():
        graphs += [function.graph, *function.subgraphs()]
        _forget(function)
    _forget(model)
    for graph in graphs:
        _forget(graph)
        for value in (*graph.inputs, *graph.initializers.values()):
            _forget(value)
        for node in graph:
            _forget(node)
            for value in node.outputs:
                _forget(value)


def write(model: ir.Model, path: Path) -> None:
    """Writes `model` beside `path` and moves it there, so that no half of it is ever seen."""
    weights = (value.const_value for value in model.graph.initializers.values())
    size = sum(weight.nbytes for weight in weights if weight is not None)
    data = f"{path.name}.data" if size >= SINGLE_FILE_LIMIT else None
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        draft = Path(folder)
        ir.save(model, draft / path.name, format="protobuf", external_data=data)
        if data is not None:
            (draft / data).replace(path.with_name(data))
        (draft / path.name).replace(path)


def _forget(part: ir.Model | ir.Graph | ir.Function | ir.Node | ir.Value) -> None:
    part.doc_string = None
    part.metadata_props.clear()
