"""Which nodes of one model stand where a node of another model stood, told by value names.

A rewrite keeps the names of the values around what it replaces. So, for a node of model A: go
forward from its output to the first value whose name B has too; what computes that value from
other values that both have is the node's region, in A and in B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

# A longer way to a common name, or a larger region, says that the models are unrelated there.
MAX_STEPS = 8
MAX_REGION_BEFORE, MAX_REGION_AFTER = 64, 256

Scope = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes in graph order without constants, and the values from around that they read."""

    nodes: tuple[ir.Node, ...]
    sources: frozenset[str]


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The regions of both models that compute the value `name`."""

    name: str
    before: Region
    after: Region


def scopes(model: ir.Model) -> dict[Scope, ir.Graph]:
    """Every graph by a key that stays when nodes around it change: what the graph belongs to."""
    found: dict[Scope, ir.Graph] = {}
    for root, graph in _roots(model):
        found[root] = graph
        _add_subgraphs(root, graph, found)
    return found


def _roots(model: ir.Model) -> Iterator[tuple[Scope, ir.Graph]]:
    yield (), model.graph
    for (domain, name, overload), function in model.functions.items():
        yield (domain, name, overload), function.graph


def _add_subgraphs(scope: Scope, graph: ir.Graph, found: dict[Scope, ir.Graph]) -> None:
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.is_ref():
                continue
            graphs: tuple[ir.Graph, ...] = ()
            if attribute.type == ir.AttributeType.GRAPH:
                graphs = (attribute.as_graph(),)
            elif attribute.type == ir.AttributeType.GRAPHS:
                graphs = tuple(attribute.as_graphs())
            for i, inner in enumerate(graphs):
                key = (*scope, node.outputs[0].name or "", f"{attribute.name}[{i}]")
                found[key] = inner
                _add_subgraphs(key, inner, found)


def counterpart(node: ir.Node, after: ir.Graph) -> Counterpart | None:
    """What stands in `after` where `node` stands in its graph; None where nothing can be told."""
    before = node.graph
    if not isinstance(before, ir.Graph):
        return None
    ours, theirs = _values(before), _values(after)
    common = ours.keys() & theirs.keys()
    end = _first_common(node, common)
    if end is None:
        return None
    first = _region(ours[end], common, MAX_REGION_BEFORE)
    second = _region(theirs[end], common, MAX_REGION_AFTER)
    if first is None or second is None or node not in first.nodes:
        return None
    if first.sources | second.sources and not first.sources & second.sources:
        return None
    return Counterpart(end, first, second)


def _values(graph: ir.Graph) -> dict[str, ir.Value]:
    """Inputs and results by name, without constants."""
    values = {v.name: v for v in graph.inputs if v.name}
    for node in graph:
        if node.op_type != "Constant":
            values.update((v.name, v) for v in node.outputs if v.name)
    return {name: v for name, v in values.items() if v.const_value is None}


def _first_common(node: ir.Node, common: set[str]) -> str | None:
    """The nearest common value that is computed from the node's output, or is that output."""
    frontier, seen = [node], {id(node)}
    for _ in range(MAX_STEPS):
        outputs = [v for n in frontier for v in n.outputs]
        for value in outputs:
            if value.name in common:
                return value.name
        consumers = {id(c): c for v in outputs for c in v.consumers() if id(c) not in seen}
        seen |= consumers.keys()
        frontier = list(consumers.values())
    return None


def _region(end: ir.Value, common: set[str], limit: int) -> Region | None:
    nodes: dict[int, ir.Node] = {}
    sources: set[str] = set()
    pending = [end]
    while pending:
        value = pending.pop()
        producer = value.producer()
        outside = producer is None or producer.graph is not end.graph
        if value is not end and (value.name in common or outside):
            if value.const_value is None:
                sources.add(value.name or "")
            continue
        if producer is None or id(producer) in nodes or producer.op_type == "Constant":
            continue
        nodes[id(producer)] = producer
        if len(nodes) > limit:
            return None
        pending += [v for v in producer.inputs if v is not None]
    order = {id(n): i for i, n in enumerate(end.graph or ())}
    ordered = sorted(nodes.values(), key=lambda n: order.get(id(n), -1))
    return Region(tuple(ordered), frozenset(sources))
