"""Quantisation by ONNX Runtime's own operators, said in the standard's."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from convt_onnx.graph.node import FoundNode, find_nodes
from convt_onnx.graph.operands import constant
from convt_onnx.passes.base import Pass

DOMAIN = "com.microsoft"
QUANTISE, DEQUANTISE = "QuantizeLinear", "DequantizeLinear"
# Nodes that are followed from a weight or a bias to what dequantises it.
MAX_STEPS = 8
# The opset that first takes a type or an axis, by what is asked of it.
TENSOR_OPSET, AXIS_OPSET, FLOAT16_OPSET, NARROW_AND_WIDE_OPSET = 10, 13, 19, 21
EIGHT_BITS = (ir.DataType.INT8, ir.DataType.UINT8)


class StandardQuantisers(Pass):
    """Gives QuantizeLinear and DequantizeLinear around a ConvTranspose the standard's domain.

    Rules, around a node alone::

        1. com.microsoft.DequantizeLinear (q, scale, zero)   -> DequantizeLinear
        2. com.microsoft.QuantizeLinear (y, scale, zero)     -> QuantizeLinear

    ONNX Runtime computes both alike; the contributed ones take 16-bit and 4-bit integers and
    float16 scales in every opset. Not where the model's opset has no such standard operator, or
    the scale or the integers' type is known at run time only.
    """

    name = "standard-quantisers"
    summary = "QuantizeLinear and DequantizeLinear of com.microsoft around the node become standard"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rename, one line a ConvTranspose."""
        for found in find_nodes(model):
            if found.path in self.context.choice.skip:
                continue
            done = []
            for node in _around(found):
                lacking = _lacking(node, found.opset, model.ir_version)
                if lacking is None:
                    _standardise(node)
                    done.append(node.op_type)
                else:
                    self.miss(found.path, "CT464", f"{node.op_type}: {lacking}")
            if done:
                yield f"{found.path}: {len(done)} of {DOMAIN} became standard"


def _around(found: FoundNode) -> list[ir.Node]:
    """Quantisers of the inputs and the output, and those that these are the other half of."""
    chosen: dict[ir.Node, None] = {}
    for index, value in enumerate(found.node.inputs):
        for _ in range(1 if index == 0 else MAX_STEPS):
            node = None if value is None else value.producer()
            if node is None or not node.inputs:
                break
            if _is_contributed(node, DEQUANTISE):
                chosen[node] = None
                break
            value = node.inputs[0]
    users = [u.node for u in found.node.outputs[0].uses()]
    users += [u.node for n in users if n.op_type == "Relu" for u in n.outputs[0].uses()]
    chosen |= dict.fromkeys(n for n in users if _is_contributed(n, QUANTISE))
    for node in list(chosen):
        source = node.inputs[0].producer() if node.inputs[0] is not None else None
        if node.op_type == DEQUANTISE and source is not None and _is_contributed(source, QUANTISE):
            chosen[source] = None
        if node.op_type == QUANTISE:
            readers = [u.node for u in node.outputs[0].uses()]
            chosen |= dict.fromkeys(n for n in readers if _is_contributed(n, DEQUANTISE))
    return list(chosen)


def _is_contributed(node: ir.Node, op_type: str) -> bool:
    return node.domain == DOMAIN and node.op_type == op_type


def _lacking(node: ir.Node, opset: int, ir_version: int) -> str | None:
    """What keeps the standard operator from saying the same; None where nothing does."""
    if any(a.is_ref() for a in node.attributes.values()):
        return "an attribute comes from the function's caller"
    scale = constant(node.inputs[1], ir_version)
    if scale is None:
        return "its scale is known at run time only"
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    integers = node.inputs[0] if node.op_type == DEQUANTISE else node.outputs[0]
    kind = None if zero is None else zero.dtype
    kind = kind or (None if integers is None else integers.dtype)
    if kind is None and node.op_type == QUANTISE and zero is None:
        kind = ir.DataType.UINT8
    if kind is None:
        return "the type of its integers is not known"
    needed = TENSOR_OPSET if scale.shape in ((), (1,)) else AXIS_OPSET
    if scale.tensor.dtype != ir.DataType.FLOAT:
        needed = FLOAT16_OPSET
    if kind not in EIGHT_BITS and not (kind == ir.DataType.INT32 and node.op_type == DEQUANTISE):
        needed = NARROW_AND_WIDE_OPSET
    return None if opset >= needed else f"{kind.name} takes opset {needed}"


def _standardise(node: ir.Node) -> None:
    node.domain = ""
    scale = node.inputs[1]
    if scale is not None and scale.shape is not None and scale.shape.numpy() in ((), (1,)):
        node.attributes.pop("axis", None)
