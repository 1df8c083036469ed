"""Open sizes behind a Slice of opset 10, which onnx infers to be those in front of it.

Its rule for that version alone copies the name of an open size to an axis that is cut, so that one
name stands for two sizes (onnx 1.23). ONNX Runtime plans its memory by these names.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from onnx import GraphProto, ModelProto, OperatorSetIdProto, TensorShapeProto, ValueInfoProto

from convt_onnx.model_io.walk import graphs
from convt_onnx.standard import STANDARD, opset_of

SLICE_COPIES_NAMES = 10

# Operators by domain and type.
Operators = frozenset[tuple[str, str]]


def misnaming(model: ModelProto) -> Operators:
    """The operators of a model behind which names of sizes say nothing.

    All functions count where one of them is of that opset, since functions call each other.
    """
    found = {(domain, "Slice") for domain in STANDARD if _copies_names(model.opset_import)}
    if any(_copies_names(f.opset_import) for f in model.functions):
        found |= {(f.domain, f.name) for f in model.functions}
    used = {(n.domain, n.op_type) for graph in graphs(model.graph) for n in graph.node}
    return frozenset(found & used)


def forget_names(model: ModelProto) -> None:
    """Drop the names that values inside the graphs declare, since inference may have put them."""
    for graph in graphs(model.graph):
        for value in graph.value_info:
            for dim in _dims(value):
                if dim.dim_param:
                    dim.ClearField("dim_param")


def name_apart(model: ModelProto, inferred: ModelProto, operators: Operators, fresh: str) -> bool:
    """Declare a name of its own for each open size of what some operators make.

    Args:
        model: A model whose sizes were inferred.
        inferred: The same with these sizes, which get the names too.
        operators: What `misnaming` says of the model.
        fresh: How names begin that say nothing.

    Returns:
        Whether any was declared: the sizes are to be inferred anew.
    """
    changed = False
    for graph, known in zip(graphs(model.graph), graphs(inferred.graph), strict=True):
        values = {v.name: v for v in chain(known.value_info, known.output)}
        for name in _made_by(graph, operators):
            value = values.get(name, ValueInfoProto())
            for axis, dim in enumerate(_dims(value)):
                if dim.dim_param and not dim.dim_param.startswith(fresh):
                    dim.dim_param = f"{fresh}{name}:{axis}"
                    _declared(graph, name).CopyFrom(value)
                    changed = True
    return changed


def _copies_names(imports: Iterable[OperatorSetIdProto]) -> bool:
    return opset_of({o.domain: o.version for o in imports}) == SLICE_COPIES_NAMES


def _made_by(graph: GraphProto, operators: Operators) -> list[str]:
    nodes = [n for n in graph.node if (n.domain, n.op_type) in operators]
    return [name for n in nodes for name in n.output]


def _dims(value: ValueInfoProto) -> list[TensorShapeProto.Dimension]:
    return list(value.type.tensor_type.shape.dim) if value.type.HasField("tensor_type") else []


def _declared(graph: GraphProto, name: str) -> ValueInfoProto:
    known = (value for value in chain(graph.value_info, graph.output) if value.name == name)
    value: ValueInfoProto = next(known, None) or graph.value_info.add(name=name)
    return value
