"""What the folds share: who reads a node's output, and taking in the node behind it."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.graph.bounds_symbols import ints
from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.node import FoundNode
from convt_onnx.standard import is_standard


@dataclass(frozen=True, slots=True)
class Tail:
    """The output of a node, or what Transposes and Casts that alone read it make of it.

    Attributes:
        value: The value.
        axis: Its channel axis.
        between: The output and further values before this one.
    """

    value: ir.Value
    axis: int = 1
    between: tuple[ir.Value, ...] = ()


def tail_of(found: FoundNode) -> Tail:
    """The end of the Transposes behind a node, and of Casts to the type that it has."""
    tail, dtype = Tail(found.node.outputs[0]), _float_type(found.node)
    while not read_elsewhere(found, tail):
        (node,) = readers(tail)
        axis = _axis_behind(node, tail.axis, dtype)
        if axis is None:
            break
        tail = Tail(node.outputs[0], axis, (*tail.between, tail.value))
    return tail


def _float_type(node: ir.Node) -> ir.DataType | None:
    """Of what a ConvTranspose reads and writes, which have one type; None where unknown."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    known = (v.dtype if v.const_value is None else v.const_value.dtype for v in values)
    return next((d for d in known if d is not None), None)


def _axis_behind(node: ir.Node, axis: int, dtype: ir.DataType | None) -> int | None:
    """The channel axis behind a Transpose or a Cast that changes nothing, None for others."""
    if is_standard(node, "Transpose"):
        perm = ints(node, "perm")
        return perm.index(axis) if perm is not None and axis in perm else None
    if is_standard(node, "Cast") and dtype is not None:
        return axis if ints(node, "to") == (dtype.value,) else None
    return None


def readers(tail: Tail) -> list[ir.Node]:
    """The nodes that read the value, one entry for each input that does."""
    return [use.node for use in tail.value.uses()]


def read_elsewhere(found: FoundNode, tail: Tail) -> bool:
    """Whether anything but one node of the same graph reads the value."""
    nodes = readers(tail)
    same_graph = all(n.graph is found.node.graph for n in nodes)
    return tail.value.is_graph_output() or len(nodes) != 1 or not same_graph


def without_casts(found: FoundNode, tail: Tail) -> Tail:
    """The same end, after its Casts, which change nothing, are taken out.

    ONNX Runtime takes them out of the middle of a graph but not before an output, where one of
    them may now stand: it would copy, or refuse attributes of Casts to float8.
    """
    for value in (*tail.between, tail.value):
        cast = value.producer()
        if cast is None or cast.graph is None or not is_standard(cast, "Cast"):
            continue
        (before,) = cast.inputs
        if before is not None:
            value.replace_all_uses_with(before)
            cast.graph.remove(cast, safe=True)
    return tail_of(found)


def absorb(found: FoundNode, tail: Tail, behind: ir.Node) -> None:
    """Remove the node behind; its output's name, type and readers become those of the value."""
    node, old = found.node, behind.outputs[0]
    output, graph = tail.value, behind.graph
    if graph is None:
        raise AssertionError("a node that reads a value stands in a graph")
    # Its path must outlive the output's name.
    node.name = node.name or f"ConvTranspose->{node.outputs[0].name}"
    old.replace_all_uses_with(output, replace_graph_outputs=True)
    operands = [v for v in behind.inputs if v is not None and v is not output]
    graph.remove(behind, safe=True)
    output.name = old.name
    output.type, output.shape = old.type or output.type, old.shape
    output.doc_string = old.doc_string
    output.metadata_props.clear()
    output.metadata_props.update(old.metadata_props)
    remove_unused(operands)
