"""The plugin nodes of an ONNX file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx

from convt_onnx.plugin_node import DOMAIN, PluginRecord
from convt_onnx.plugins.tensorrt.state import record_of_node

Model = str | Path | onnx.ModelProto


def operator_types(model: Model) -> set[str]:
    """Operator types of the plugin's domain in all graphs and functions."""
    return {node.op_type for node in _nodes(_proto(model))}


def records_of(model: Model) -> dict[str, PluginRecord]:
    """What the nodes say, by operator type.

    Raises:
        UsageError: A node is not as written here.
    """
    return {n.op_type: record_of_node(n.op_type, _values(n)) for n in _nodes(_proto(model))}


def _values(node: onnx.NodeProto) -> dict[str, object]:
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {n: v.decode() if isinstance(v, bytes) else v for n, v in values.items()}


def _proto(model: Model) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    return onnx.load(str(model), load_external_data=False)


def _nodes(proto: onnx.ModelProto) -> Iterable[onnx.NodeProto]:
    pending: list[onnx.GraphProto | onnx.FunctionProto] = [proto.graph, *proto.functions]
    while pending:
        for node in pending.pop().node:
            if node.domain == DOMAIN:
                yield node
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else []
                pending += attribute.graphs
