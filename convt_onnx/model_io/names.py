"""Check that every name is defined once, and before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from convt_onnx.errors import ModelError
from convt_onnx.model_io.advice import EXPORT_AGAIN
from convt_onnx.model_io.ordering import sort_nodes
from convt_onnx.model_io.walk import node_words, shown, subgraphs


@dataclass(frozen=True, slots=True)
class _Body:
    """What a graph and a function have in common.

    `visible` holds the names of the outer graphs that the nodes may read but not define.
    """

    where: str
    inputs: Sequence[str]
    initializers: Sequence[str]
    nodes: Iterable[NodeProto]
    outputs: Sequence[str]
    visible: tuple[set[str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Use:
    """Names that a body reads but does not define, and whether its nodes are in order."""

    free: dict[str, str]
    in_order: bool


def check_names(model: ModelProto) -> None:
    """Check the names of the main graph, its subgraphs and the functions.

    A main graph whose nodes are out of order is sorted in place, because ONNX Runtime
    runs such models; elsewhere it refuses them, and so does this.

    Raises:
        ModelError: A name is undefined, defined twice, or used before it is defined.
    """
    for function in model.functions:
        _require_closed(_function_body(function))
    use = _check_body(_graph_body(model.graph, "the main graph", ()))
    _refuse_undefined(use.free)
    if not use.in_order:
        sort_nodes(model.graph)
        _check_body(_graph_body(model.graph, "the main graph", ()))


def _graph_body(graph: GraphProto, where: str, visible: tuple[set[str], ...]) -> _Body:
    return _Body(
        where,
        [value.name for value in graph.input],
        [tensor.name for tensor in graph.initializer],
        graph.node,
        [value.name for value in graph.output],
        visible,
    )


def _function_body(function: FunctionProto) -> _Body:
    where = f"function {shown(function.name)} of domain {shown(function.domain)}"
    return _Body(where, function.input, (), function.node, function.output)


def _require_closed(body: _Body) -> None:
    use = _check_body(body)
    _refuse_undefined(use.free)
    if not use.in_order:
        raise ModelError(
            "the nodes of a function are not in execution order",
            where=body.where,
            help="put each node behind those whose outputs it reads, as exporters do",
        )


def _refuse_undefined(free: dict[str, str]) -> None:
    for name, user in free.items():
        raise ModelError(
            f"the model uses the value {shown(name)}, which nothing defines",
            where=user,
            help=EXPORT_AGAIN,
        )


def _check_body(body: _Body) -> _Use:
    defined = _check_entries(body)
    produced = _check_outputs(body, defined)
    free: dict[str, str] = {}
    in_order = True
    for node in body.nodes:
        reads = dict.fromkeys(node.input, "")
        if node.attribute:
            reads |= _subgraph_reads(node, (*body.visible, defined))
        for name, user in reads.items():
            if name in defined or not name:
                continue
            if name in produced:
                in_order = False
            else:
                free.setdefault(name, user or f"{node_words(node)} in {body.where}")
        defined.update(node.output)
    for name in body.outputs:
        if not name or name not in defined:
            raise ModelError(
                f"the output {shown(name)} is produced by no node",
                where=body.where,
                help=EXPORT_AGAIN,
            )
    return _Use(free, in_order)


def _check_entries(body: _Body) -> set[str]:
    """Check the inputs and initializers, and return their names."""
    for kind, names in (("input", body.inputs), ("initializer", body.initializers)):
        seen: set[str] = set()
        for name in names:
            if not name:
                raise ModelError(f"an {kind} has no name", where=body.where, help=EXPORT_AGAIN)
            if name in seen:
                raise _defined_twice(name, f"{kind}s of {body.where}")
            seen.add(name)
    return {*body.inputs, *body.initializers}


def _check_outputs(body: _Body, entries: set[str]) -> set[str]:
    """Check what the nodes define, and return the names."""
    produced: set[str] = set()
    for node in body.nodes:
        for name in node.output:
            if not name:
                continue
            if name in produced or name in entries or _is_visible(name, body):
                raise _defined_twice(name, f"{node_words(node)} in {body.where}")
            produced.add(name)
    return produced


def _is_visible(name: str, body: _Body) -> bool:
    return any(name in outer for outer in body.visible)


def _subgraph_reads(node: NodeProto, visible: tuple[set[str], ...]) -> dict[str, str]:
    reads: dict[str, str] = {}
    for attribute, graph in subgraphs(node):
        where = f"subgraph {shown(attribute.name)} of {node_words(node)}"
        use = _check_body(_graph_body(graph, where, visible))
        if not use.in_order:
            raise ModelError(
                "the nodes of a subgraph are not in execution order",
                where=where,
                help="put each node behind those whose outputs it reads, as exporters do",
            )
        reads |= use.free
    return reads


def _defined_twice(name: str, where: str) -> ModelError:
    return ModelError(
        f"the value {shown(name)} is defined more than once", where=where, help=EXPORT_AGAIN
    )
