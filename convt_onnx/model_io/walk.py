"""Walk through every part of a model proto, subgraphs and functions included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
import onnx_ir as ir
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from convt_onnx.standard import is_standard

Owner = GraphProto | FunctionProto

_GRAPH_TYPES = {AttributeProto.GRAPH, AttributeProto.GRAPHS}
_TENSOR_TYPES = {AttributeProto.TENSOR, AttributeProto.TENSORS}
_SHOWN_CHARACTERS = 100


def subgraphs(node: NodeProto) -> list[tuple[AttributeProto, GraphProto]]:
    """The graphs that a node holds, each with the attribute that it is in."""
    return [
        (attribute, graph)
        for attribute in node.attribute
        if attribute.type in _GRAPH_TYPES
        for graph in (attribute.graphs or (attribute.g,))
    ]


def owners(model: ModelProto) -> Iterator[Owner]:
    """The main graph, the functions, and every subgraph below them."""
    for root in (model.graph, *model.functions):
        yield from _below(root)


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """`graph` and every subgraph below it."""
    yield graph
    for node in graph.node:
        for _, inner in subgraphs(node):
            yield from graphs(inner)


def _below(owner: Owner) -> Iterator[Owner]:
    yield owner
    for node in owner.node:
        for _, inner in subgraphs(node):
            yield from _below(inner)


def tensors(owner: Owner) -> Iterator[tuple[TensorProto, str]]:
    """The dense tensors that `owner` itself holds, each with words that say where."""
    if isinstance(owner, GraphProto):
        for tensor in owner.initializer:
            yield tensor, f"initializer {shown(tensor.name)}"
    else:
        words = f"function {shown(owner.name)}"
        yield from _attribute_tensors(owner.attribute_proto, words)
    for node in owner.node:
        found = [attribute for attribute in node.attribute if attribute.type in _TENSOR_TYPES]
        if found:
            yield from _attribute_tensors(found, node_words(node))


def _attribute_tensors(
    attributes: Iterable[AttributeProto], words: str
) -> Iterator[tuple[TensorProto, str]]:
    for attribute in attributes:
        if attribute.type in _TENSOR_TYPES:
            for tensor in attribute.tensors or (attribute.t,):
                yield tensor, f"{words}, attribute {shown(attribute.name)}"


def value_infos(owner: Owner) -> Iterator[onnx.ValueInfoProto]:
    """The typed values that `owner` itself declares."""
    if isinstance(owner, GraphProto):
        yield from owner.input
        yield from owner.output
    yield from owner.value_info


def node_words(node: NodeProto) -> str:
    """Name a node for a message."""
    name = node.name or next((output for output in node.output if output), "")
    return f"node {shown(name)} ({shown(node.op_type)[1:-1]})"


def shown(name: object) -> str:
    """A name of the model as it goes into a message: on one line, and not too long."""
    text = repr(name)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…'"


def is_conv_transpose(node: NodeProto | ir.Node) -> bool:
    """The standard operator, not somebody's own of the same name."""
    return is_standard(node, "ConvTranspose")
