"""Models with nodes for the plugin, and what to look at in the result."""

from __future__ import annotations

import onnx

from convt_onnx.tuning.options import TuneOptions

from ..graph.building import array, model

UNTIMED = TuneOptions(enabled=False)
UP = "ConvTranspose <strides = [2, 3], pads = [1, 0, 0, 2], output_padding = [1, 0]>"
GRAPH = "g (float[n, 6, h, 5] x) => (float[] y) {{ {body} }}"


def plugin_nodes(proto):
    """Nodes of the plugin in all graphs and in functions of others."""
    pending, found = [proto.graph, *(f for f in proto.functions if f.domain != "convt_onnx")], []
    while pending:
        for node in pending.pop(0).node:
            found += [node] if node.domain == "convt_onnx" else []
            pending += [a.g for a in node.attribute if a.HasField("g")]
    return found


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def weights(**more):
    """Asymmetric weights with C_in/g != C_out/g."""
    return {"w": array(6, 4, 3, 4), "b": array(8, seed=1)} | more


def single(body="y = {up} (x, w, b)", **arrays):
    text = GRAPH.format(body=body.format(up=UP.replace(">", ", group = 2>")))
    return model(text, **weights(**arrays))
