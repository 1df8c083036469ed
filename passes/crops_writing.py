"""What both crop passes write."""

from __future__ import annotations

import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter, NamePool
from convt_onnx.graph.node import FoundNode


def own_name(node: ir.Node) -> str:
    """The node's name, or the one that its path is made of, which a new output must not change."""
    return node.name or f"{node.op_type}->{node.outputs[0].name}"


def emitter_at(model: ir.Model, found: FoundNode, names: NamePool) -> Emitter:
    """For nodes around a ConvTranspose."""
    if found.node.graph is None:
        raise AssertionError("it was found in a graph")
    return Emitter(
        found.node.graph,
        opset=found.opset,
        inline_constants=found.function_body or model.ir_version < 4,
        names=names,
        prefix=found.path,
        cache={},
    )
