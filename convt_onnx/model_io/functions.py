"""Check that the functions of a model are distinct and not recursive."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from convt_onnx.errors import ModelError
from convt_onnx.model_io.walk import shown, subgraphs

_Key = tuple[str, str, str]


def check_functions(model: ModelProto) -> None:
    """Check the functions of a model.

    Raises:
        ModelError: Two functions have the same identity, or a function calls itself.
    """
    calls: dict[_Key, set[_Key]] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in calls:
            raise ModelError(
                "the model defines a function twice",
                where=_words(key),
                help="keep one of them, or give each a domain or overload of its own",
            )
        calls[key] = {(node.domain, node.op_type, node.overload) for node in _nodes(function)}
    known = {key: called & calls.keys() for key, called in calls.items()}
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        cycle: list[_Key] = error.args[1]
        where = " -> ".join(map(_words, cycle))
        raise ModelError(
            "a function of the model calls itself",
            where=where,
            help="ONNX functions are not recursive; write the repetition as a Loop",
        ) from None


def _nodes(owner: FunctionProto | GraphProto) -> Iterator[NodeProto]:
    for node in owner.node:
        yield node
        for _, graph in subgraphs(node):
            yield from _nodes(graph)


def _words(key: _Key) -> str:
    return shown("::".join(filter(None, map(str, key))))[1:-1]
