"""The float32 twin of a model: the same graph with every narrow or wide float as float32.

ONNX Runtime's CPU provider has no bfloat16 or float64 convolution and computes float16 ones by
casting, so both sides of a comparison are brought to float32 first. Weights convert exactly
(float64 ones round, on both sides alike).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from convt_onnx.verify.narrow import NARROW, round_constants
from convt_onnx.verify.session import Source

OTHER_FLOATS = frozenset(
    {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
)
# Attributes that hold an element type as a number.
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype"})


Holder = onnx.TensorProto | onnx.AttributeProto | onnx.TypeProto.Tensor


def other_floats(proto: onnx.ModelProto) -> bool:
    """Whether any tensor, type or cast of the model is a float other than float32."""
    return any(True for _ in _occurrences(proto))


def coarsest_step(proto: onnx.ModelProto) -> float:
    """Distance of 1 to the next number in the model's narrowest float; 0 where none is narrow."""
    kinds = {_kind(holder) for holder in _occurrences(proto)}
    steps = (float(ml_dtypes.finfo(t).eps) for k, t in NARROW.items() if k in kinds)
    return max(steps, default=0.0)


def _kind(holder: Holder) -> int:
    if isinstance(holder, onnx.TensorProto):
        return holder.data_type
    return holder.i if isinstance(holder, onnx.AttributeProto) else holder.elem_type


def float32_twin(source: Source) -> Source:
    """A copy with float32 in place of float16, bfloat16 and float64."""
    twin = onnx.ModelProto()
    twin.CopyFrom(source.proto)
    round_constants(twin, source.folder)
    for holder in _occurrences(twin):
        if isinstance(holder, onnx.TensorProto):
            _convert_tensor(holder, source.folder)
        elif isinstance(holder, onnx.AttributeProto):
            holder.i = onnx.TensorProto.FLOAT
        else:
            holder.elem_type = onnx.TensorProto.FLOAT
    return replace(source, proto=twin)


def _convert_tensor(tensor: onnx.TensorProto, folder: Path) -> None:
    array = numpy_helper.to_array(tensor, base_dir=str(folder)).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _occurrences(proto: onnx.ModelProto) -> Iterable[Holder]:
    yield from _in_graph(proto.graph)
    for function in proto.functions:
        yield from _in_values(function.value_info)
        yield from _in_nodes(function.node)


def _in_graph(graph: onnx.GraphProto) -> Iterable[Holder]:
    yield from (t for t in graph.initializer if t.data_type in OTHER_FLOATS)
    for values in (graph.input, graph.output, graph.value_info):
        yield from _in_values(values)
    yield from _in_nodes(graph.node)


def _in_values(values: Iterable[onnx.ValueInfoProto]) -> Iterable[Holder]:
    for value in values:
        kind = value.type
        while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        if kind.HasField("tensor_type") and kind.tensor_type.elem_type in OTHER_FLOATS:
            yield kind.tensor_type


def _in_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterable[Holder]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i in OTHER_FLOATS:
                yield attribute
            if attribute.HasField("t") and attribute.t.data_type in OTHER_FLOATS:
                yield attribute.t
            yield from (t for t in attribute.tensors if t.data_type in OTHER_FLOATS)
            if attribute.HasField("g"):
                yield from _in_graph(attribute.g)
            for graph in attribute.graphs:
                yield from _in_graph(graph)
