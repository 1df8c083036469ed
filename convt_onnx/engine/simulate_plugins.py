"""What a plugin layer stands for: its ONNX node, run in ONNX Runtime.

The node of the plugin has a function body of standard operators, and under the override it is a
ConvTranspose. So the network around it can be proven; the kernels are tested for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx

from convt_onnx.engine.simulate_layers import Array
from convt_onnx.plugin_node import DOMAIN
from convt_onnx.verify.session import Runner, Source

Rule = Callable[[Sequence[Array]], Array]


def plugin_rules(proto: onnx.ModelProto) -> dict[str, Rule]:
    """A function of the inputs for each node that may have become a plugin, by its name.

    Args:
        proto: The model that was parsed.
    """
    return {
        node.name or f"node_of_{node.output[0]}": _Rule(proto, node)
        for node in _nodes(proto.graph)
        if node.domain == DOMAIN or (node.op_type == "ConvTranspose" and not node.domain)
    }


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


class _Rule:
    """Runs one node of a model, with the model's functions."""

    def __init__(self, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
        self._proto, self._node = proto, node

    def __call__(self, inputs: Sequence[Array]) -> Array:
        names = [name for name in self._node.input if name]
        values = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, inputs, strict=True)
        ]
        output = onnx.ValueInfoProto(name=self._node.output[0])
        model = onnx.ModelProto(
            ir_version=self._proto.ir_version,
            opset_import=self._proto.opset_import,
            functions=self._proto.functions,
            graph=onnx.GraphProto(name="node", node=[self._node], input=values, output=[output]),
        )
        feeds = dict(zip(names, inputs, strict=True))
        (result,) = Runner(Source(model, Path())).run(feeds).values()
        return result
