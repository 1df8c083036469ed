"""Removal of what a rewrite left without a reader, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir


def remove_unused(values: Iterable[ir.Value]) -> None:
    """Remove values that nothing reads, and what only they read; inputs and outputs stay."""
    pending = list(values)
    while pending:
        value = pending.pop()
        if value.uses() or value.is_graph_output() or value.is_graph_input():
            continue
        node = value.producer()
        if node is None:
            if value.is_initializer() and value.graph is not None and value.name is not None:
                value.graph.initializers.pop(value.name, None)
            continue
        if node.graph is None or any(v.uses() or v.is_graph_output() for v in node.outputs):
            continue
        pending += [v for v in node.inputs if v is not None]
        node.graph.remove(node, safe=True)
