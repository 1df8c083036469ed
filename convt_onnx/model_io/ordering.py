"""Put the nodes of a graph into execution order."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator

from onnx import GraphProto, NodeProto

from convt_onnx.errors import ModelError
from convt_onnx.model_io.walk import node_words, subgraphs


def sort_nodes(graph: GraphProto) -> None:
    """Sort the nodes of `graph` in place; among those that could go next, file order decides.

    Raises:
        ModelError: The graph has a cycle.
    """
    producer = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    waiting: list[int] = []
    consumers: dict[int, list[int]] = defaultdict(list)
    for i, node in enumerate(graph.node):
        sources = {producer[name] for name in _reads(node) if name in producer}
        waiting.append(len(sources))
        for source in sources:
            consumers[source].append(i)
    ready = [i for i, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for consumer in consumers[order[-1]]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                heapq.heappush(ready, consumer)
    if len(order) < len(waiting):
        stuck = next(i for i, count in enumerate(waiting) if count)
        raise ModelError(
            "the graph has a cycle",
            where=node_words(graph.node[stuck]),
            help="export the model again; what repeats belongs into a Loop or a Scan",
        )
    nodes = [graph.node[i] for i in order]
    copies = GraphProto(node=nodes)
    del graph.node[:]
    graph.node.extend(copies.node)


def _reads(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, those that its subgraphs read included."""
    yield from node.input
    for _, graph in subgraphs(node):
        own = {value.name for value in graph.input}
        own.update(tensor.name for tensor in graph.initializer)
        for inner in graph.node:
            yield from (name for name in _reads(inner) if name not in own)
            own.update(inner.output)
