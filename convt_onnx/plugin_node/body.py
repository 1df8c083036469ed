"""The function that says in standard operators what a plugin node computes.

Attributes are written out, not referenced: TensorRT reads a referenced one as its default.
bfloat16 is computed in float32 between Casts, since few runtimes have its ConvTranspose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import Any

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.attributes import canonical_attributes
from convt_onnx.graph.emitter import Emitter, NamePool
from convt_onnx.plugin_node.record import DOMAIN, PluginRecord
from convt_onnx.plugin_node.weights import unpack_by_nodes
from convt_onnx.plugins.conv_transpose.activations import Activation

DType = np.dtype[Any]
# bfloat16 is an island of float32.
TYPES: dict[str, DType] = {
    "float16": np.dtype("f2"),
    "bfloat16": np.dtype("f4"),
    "float32": np.dtype("f4"),
}


def make_function(record: PluginRecord, naming: str, opset: int) -> ir.Function:
    """The function of a record, for models of that opset."""
    inputs = {name: ir.Value(name=name) for name in record.inputs}
    em = free_emitter(opset)
    result = _emit(em, record, inputs)
    result.name = "Y"
    name, overload = record.identity(naming)
    graph = ir.Graph(
        list(inputs.values()),
        [result],
        nodes=em.nodes,
        opset_imports={"": opset},
        name=name,
    )
    return ir.Function(DOMAIN, name, overload, graph=graph, attributes=[])


def free_emitter(opset: int) -> Emitter:
    """An emitter for nodes that belong to no graph yet; constants are nodes."""
    container = ir.Graph([], [], nodes=[], name="body")
    return Emitter(
        container,
        opset=opset,
        inline_constants=True,
        names=NamePool(ir.Model(container, ir_version=10)),
        prefix="body",
        cache={},
    )


def _emit(em: Emitter, record: PluginRecord, inputs: dict[str, ir.Value]) -> ir.Value:
    island = record.dtype == "bfloat16"
    if island:
        inputs = {name: em.cast(v, ir.DataType.FLOAT) for name, v in inputs.items()}
    weight = inputs["W"]
    if record.packing is not None:
        weight = unpack_by_nodes(em, weight, record.packing)
        weight = em.reshape(weight, record.spec.weight_shape)
    y = emit_conv_transpose(em, record, inputs["X"], weight, inputs.get("B"))
    if record.has_residual:
        y = em.add(y, inputs["R"])
    y = emit_activation(em, record, y, inputs.get("S"), TYPES[record.dtype])
    return em.cast(y, ir.DataType.BFLOAT16) if island else y


def emit_conv_transpose(
    em: Emitter, record: PluginRecord, x: ir.Value, weight: ir.Value, bias: ir.Value | None
) -> ir.Value:
    """ConvTranspose; rows that it cannot express are padded behind it, below the bias."""
    spec = record.spec
    low = [max(0, -b) for b in spec.pads_begin]
    high = [max(0, op - s + 1) for op, s in zip(spec.output_padding, spec.strides, strict=True)]
    odd = [low > 0 or high > 0 for low, high in zip(low, high, strict=True)]
    if not any(odd):
        operands = [x, weight] if bias is None else [x, weight, bias]
        return em.op("ConvTranspose", operands, **canonical_attributes(spec))
    begin = [b if o else 0 for b, o in zip(spec.pads_begin, odd, strict=True)]
    end = [e if o else 0 for e, o in zip(spec.pads_end, odd, strict=True)]
    inner = replace(
        spec,
        pads_begin=_less(spec.pads_begin, begin),
        pads_end=_less(spec.pads_end, end),
        output_padding=_less(spec.output_padding, high),
    )
    y = em.op("ConvTranspose", [x, weight], **canonical_attributes(inner))
    y = em.pad(y, [0, 0, *low], [0, 0, *high])
    axes = range(2, 2 + spec.ndim)
    y = em.crop(y, axes, [max(0, b) for b in begin], end)
    return y if bias is None else em.add(y, _per_channel(em, bias, record))


def _less(values: Sequence[int], taken: Sequence[int]) -> tuple[int, ...]:
    return tuple(v - t for v, t in zip(values, taken, strict=True))


def emit_activation(
    em: Emitter, record: PluginRecord, y: ir.Value, slope: ir.Value | None, dtype: DType
) -> ir.Value:
    """The activation of y, which is of `dtype`; `slope` is [C_out], for prelu."""
    activation = record.activation
    match activation.kind:
        case "none":
            return y
        case "relu" | "sigmoid" | "tanh":
            return em.op(activation.kind.capitalize(), [y])
        case "leaky_relu":
            return em.op("LeakyRelu", [y], alpha=activation.alpha)
        case "elu":
            return em.op("Elu", [y], alpha=activation.alpha)
        case "prelu":
            assert slope is not None
            return em.op("PRelu", [y, _per_channel(em, slope, record)])
        case "silu":
            return em.op("Mul", [y, em.op("Sigmoid", [y])])
        case "clip":
            return _clip(em, y, activation, dtype)
    return _gelu(em, y, activation, dtype)


def _clip(em: Emitter, y: ir.Value, activation: Activation, dtype: DType) -> ir.Value:
    """Max and Min, of which an infinite bound needs none."""
    bounds = (("Max", activation.alpha, -inf), ("Min", activation.beta, inf))
    for op_type, bound, open_end in bounds:
        if bound != open_end:
            y = em.op(op_type, [y, _scalar(em, bound, dtype)])
    return y


def _gelu(em: Emitter, y: ir.Value, activation: Activation, dtype: DType) -> ir.Value:
    """0.5 * y * (1 + erf(y / sqrt(2))), or with tanh(sqrt(2 / pi) * (y + 0.044715 * y^3))."""
    if activation.kind == "gelu":
        inner = em.op("Erf", [em.op("Mul", [y, _scalar(em, sqrt(0.5), dtype)])])
    else:
        square = em.op("Mul", [em.op("Mul", [y, y]), _scalar(em, 0.044715, dtype)])
        factor = em.add(square, _scalar(em, 1.0, dtype))
        scaled = em.op("Mul", [y, _scalar(em, sqrt(2 / np.pi), dtype)])
        inner = em.op("Tanh", [em.op("Mul", [scaled, factor])])
    half = em.op("Mul", [y, _scalar(em, 0.5, dtype)])
    return em.op("Mul", [half, em.add(inner, _scalar(em, 1.0, dtype))])


def _scalar(em: Emitter, value: float, dtype: DType) -> ir.Value:
    return em.constant(np.array(value, dtype), "constant")


def _per_channel(em: Emitter, vector: ir.Value, record: PluginRecord) -> ir.Value:
    return em.reshape(vector, [-1] + [1] * record.spec.ndim)
