"""Open sizes behind a Slice of opset 10, which onnx infers to be those in front of it.

Its rule for that version alone copies the name of an open size to an axis that is cut, so that one
name stands for two sizes (onnx 1.22). ONNX Runtime plans its memory by these names.
"""

from __future__ import annotations

from itertools import chain

from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto

from convt_onnx.model_io.walk import graphs
from convt_onnx.standard import is_standard, opset_of

SLICE_COPIES_NAMES = 10


def has_slices(model: ModelProto) -> bool:
    """Whether a model has a Slice behind which names of sizes say nothing."""
    opset = opset_of({o.domain: o.version for o in model.opset_import})
    return opset == SLICE_COPIES_NAMES and any(map(_sliced, graphs(model.graph)))


def forget_names(model: ModelProto) -> None:
    """Drop the names that values inside the graphs declare, since inference may have put them."""
    for graph in graphs(model.graph):
        for value in graph.value_info:
            for dim in _dims(value):
                if dim.dim_param:
                    dim.ClearField("dim_param")


def name_sliced(model: ModelProto, inferred: ModelProto, fresh: str) -> bool:
    """Declare a name of its own for each open size of what a Slice makes.

    Args:
        model: A model whose sizes were inferred.
        inferred: The same with these sizes, which get the names too.
        fresh: How names begin that say nothing.

    Returns:
        Whether any was declared: the sizes are to be inferred anew.
    """
    changed = False
    for graph, known in zip(graphs(model.graph), graphs(inferred.graph), strict=True):
        values = {v.name: v for v in chain(known.value_info, known.output)}
        for name in _sliced(graph):
            value = values.get(name, ValueInfoProto())
            for axis, dim in enumerate(_dims(value)):
                if dim.dim_param and not dim.dim_param.startswith(fresh):
                    dim.dim_param = f"{fresh}{name}:{axis}"
                    _declared(graph, name).CopyFrom(value)
                    changed = True
    return changed


def _sliced(graph: GraphProto) -> list[str]:
    """What the Slices of a graph make."""
    return [n.output[0] for n in graph.node if is_standard(n, "Slice") and n.output]


def _dims(value: ValueInfoProto) -> list[TensorShapeProto.Dimension]:
    return list(value.type.tensor_type.shape.dim) if value.type.HasField("tensor_type") else []


def _declared(graph: GraphProto, name: str) -> ValueInfoProto:
    known = (value for value in chain(graph.value_info, graph.output) if value.name == name)
    value: ValueInfoProto = next(known, None) or graph.value_info.add(name=name)
    return value
