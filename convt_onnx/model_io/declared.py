"""The shapes that a model proto declares for its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain

from onnx import GraphProto, ModelProto, TensorShapeProto, TypeProto

from convt_onnx.model_io.walk import graphs

Dim = int | str | None
Shape = tuple[Dim, ...]


def declared_shapes(model: ModelProto, *, without: Set[str]) -> dict[str, Shape]:
    """The declared shapes by value name, but for the names in `without`."""
    shapes: dict[str, Shape] = {}
    for graph in graphs(model.graph):
        for name, shape in _graph_shapes(graph):
            if name not in without:
                shapes.setdefault(name, shape)
    return shapes


def repeated_names(model: ModelProto) -> set[str]:
    """Names that several graphs define, such as both branches of an If."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for graph in graphs(model.graph):
        own = {value.name for value in chain(graph.input, graph.initializer)}
        own.update(output for node in graph.node for output in node.output)
        repeated |= seen & own
        seen |= own
    return repeated


def _graph_shapes(graph: GraphProto) -> Iterator[tuple[str, Shape]]:
    for tensor in graph.initializer:
        yield tensor.name, tuple(tensor.dims)
    for value in chain(graph.input, graph.output, graph.value_info):
        shape = _shape(value.type)
        if shape is not None:
            yield value.name, shape


def _shape(type_proto: TypeProto) -> Shape | None:
    if not type_proto.HasField("tensor_type") or not type_proto.tensor_type.HasField("shape"):
        return None
    return tuple(map(_dim, type_proto.tensor_type.shape.dim))


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        value: int = dim.dim_value
        return value if value >= 0 else None
    return dim.dim_param or None


def declare(graph: GraphProto, name: str, shape: Sequence[Dim]) -> None:
    """Declare a shape in `graph`; sizes that are declared already stay."""
    known = (value for value in chain(graph.value_info, graph.output) if value.name == name)
    value = next(known, None) or graph.value_info.add(name=name)
    dims = value.type.tensor_type.shape.dim
    while len(dims) < len(shape):
        dims.add()
    for dim, size in zip(dims, shape, strict=True):
        if _dim(dim) is not None or size is None:
            continue
        if isinstance(size, int):
            dim.dim_value = size
        else:
            dim.dim_param = size


def fix_inputs(graph: GraphProto, given: Mapping[str, Sequence[int]]) -> None:
    """Put the sizes of inputs in place of the names of their axes, wherever those stand."""
    named: dict[str, int] = {}
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        sizes = given.get(value.name, ())
        while len(dims) < len(sizes):
            dims.add()
        for dim, size in zip(dims, sizes, strict=False):
            if dim.dim_param:
                named[dim.dim_param] = size
            dim.dim_value = size
    for value in chain(graph.input, graph.output, graph.value_info):
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_param in named:
                dim.dim_value = named[dim.dim_param]
