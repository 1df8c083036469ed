"""What the folds share: who reads a node's output, and taking in the node behind it."""

from __future__ import annotations

import onnx_ir as ir

from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.node import FoundNode


def is_standard(node: ir.Node, *op_types: str) -> bool:
    """Whether it is one of these operators of ONNX itself."""
    return node.op_type in op_types and node.domain in ("", "ai.onnx")


def readers(found: FoundNode) -> list[ir.Node]:
    """The nodes that read the output, one entry for each input that does."""
    return [use.node for use in found.node.outputs[0].uses()]


def read_elsewhere(found: FoundNode) -> bool:
    """Whether anything but one node of the same graph reads the output."""
    output, nodes = found.node.outputs[0], readers(found)
    same_graph = all(n.graph is found.node.graph for n in nodes)
    return output.is_graph_output() or len(nodes) != 1 or not same_graph


def absorb(found: FoundNode, behind: ir.Node) -> None:
    """Remove the node behind; its output's name, type and readers become those of `found`."""
    node, old = found.node, behind.outputs[0]
    output, graph = node.outputs[0], behind.graph
    if graph is None:
        raise AssertionError("a node that reads a value stands in a graph")
    # Its path must outlive the output's name.
    node.name = node.name or f"ConvTranspose->{output.name}"
    old.replace_all_uses_with(output, replace_graph_outputs=True)
    operands = [v for v in behind.inputs if v is not None and v is not output]
    graph.remove(behind, safe=True)
    output.name = old.name
    output.type, output.shape = old.type or output.type, old.shape
    output.doc_string = old.doc_string
    output.metadata_props.clear()
    output.metadata_props.update(old.metadata_props)
    remove_unused(operands)
