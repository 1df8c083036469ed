"""A copy of a model without its large tensors, small enough for shape inference."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from convt_onnx.model_io.tensors import byte_count

# Shapes, axes and sizes are smaller; weights, whose values no shape depends on, are larger.
KEPT_BYTES = 1024


def skeleton(model: ModelProto, folder: Path) -> ModelProto:
    """Copy `model` with the tensors of at most 1 KiB, external ones among them read in.

    A larger initializer becomes a value_info. A larger tensor in an attribute keeps its
    dimensions and loses its data.

    Args:
        model: A checked model.
        folder: Where its external data is.

    Raises:
        OSError: External data cannot be read.
    """
    copy = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    _slim_graph(model.graph, copy.graph, folder)
    for function in model.functions:
        _slim_function(function, copy.functions.add(), folder)
    return copy


def _slim_graph(graph: GraphProto, copy: GraphProto, folder: Path) -> None:
    copy.name = graph.name or "graph"
    copy.input.extend(graph.input)
    copy.output.extend(graph.output)
    copy.value_info.extend(graph.value_info)
    typed = {value.name for values in (graph.input, graph.value_info) for value in values}
    for tensor in graph.initializer:
        if _is_small(tensor):
            _copy_small(tensor, copy.initializer.add(), folder)
        elif tensor.name not in typed:
            value = copy.value_info.add(name=tensor.name)
            value.type.tensor_type.elem_type = tensor.data_type
            for size in tensor.dims:
                value.type.tensor_type.shape.dim.add(dim_value=size)
    for node in graph.node:
        _slim_node(node, copy.node.add(), folder)


def _slim_function(function: FunctionProto, copy: FunctionProto, folder: Path) -> None:
    nodes = [NodeProto() for _ in function.node]
    for node, slim in zip(function.node, nodes, strict=True):
        _slim_node(node, slim, folder)
    copy.name = function.name
    copy.domain = function.domain
    copy.overload = function.overload
    copy.input.extend(function.input)
    copy.output.extend(function.output)
    copy.attribute.extend(function.attribute)
    copy.attribute_proto.extend(function.attribute_proto)
    copy.opset_import.extend(function.opset_import)
    copy.value_info.extend(function.value_info)
    copy.node.extend(nodes)


def _slim_node(node: NodeProto, copy: NodeProto, folder: Path) -> None:
    if not any(attribute.HasField("t") or attribute.HasField("g") for attribute in node.attribute):
        copy.CopyFrom(node)
        return
    copy.op_type = node.op_type
    copy.domain = node.domain
    copy.overload = node.overload
    copy.name = node.name
    copy.input.extend(node.input)
    copy.output.extend(node.output)
    for attribute in node.attribute:
        _slim_attribute(attribute, copy.attribute.add(), folder)


def _slim_attribute(attribute: AttributeProto, copy: AttributeProto, folder: Path) -> None:
    if attribute.type == AttributeProto.GRAPH:
        _slim_graph(attribute.g, copy.g, folder)
    elif attribute.type == AttributeProto.TENSOR and not _is_small(attribute.t):
        copy.t.data_type = attribute.t.data_type
        copy.t.dims.extend(attribute.t.dims)
    elif attribute.type == AttributeProto.TENSOR:
        _copy_small(attribute.t, copy.t, folder)
    else:
        copy.CopyFrom(attribute)
        return
    copy.name = attribute.name
    copy.type = attribute.type
    copy.ref_attr_name = attribute.ref_attr_name


def _is_small(tensor: TensorProto) -> bool:
    return _raw_bytes(tensor) <= KEPT_BYTES


def _raw_bytes(tensor: TensorProto) -> int:
    dtype = ir.DataType(tensor.data_type)
    if dtype == ir.DataType.STRING:
        return sum(map(len, tensor.string_data))
    count = 1
    for size in tensor.dims:
        count *= size
    return byte_count(count, dtype)


def _copy_small(tensor: TensorProto, copy: TensorProto, folder: Path) -> None:
    if tensor.data_location != TensorProto.EXTERNAL:
        copy.CopyFrom(tensor)
        return
    entries = {entry.key: entry.value for entry in tensor.external_data}
    with (folder / entries["location"]).open("rb") as file:
        file.seek(int(entries.get("offset", 0)))
        copy.raw_data = file.read(_raw_bytes(tensor))
    copy.name = tensor.name
    copy.data_type = tensor.data_type
    copy.dims.extend(tensor.dims)
