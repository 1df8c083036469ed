"""`keep` and `undilate`: still a ConvTranspose, in the one spelling that runtimes agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import MAX_PACKED_ELEMENTS, Form, Setting, Work
from convt_onnx.forms.weights import spread_taps
from convt_onnx.graph.attributes import canonical_attributes
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import RuntimeOperand
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec


def write_attributes(node: ir.Node, spec: ConvTransposeSpec) -> None:
    """Give a ConvTranspose another geometry, every attribute written out."""
    for name in ("auto_pad", "output_shape"):
        node.attributes.pop(name, None)
    for name, value in canonical_attributes(spec).items():
        # convert_attribute would guess the type, slowly.
        if isinstance(value, list):
            node.attributes[name] = ir.AttrInt64s(name, value)
        elif isinstance(value, int):
            node.attributes[name] = ir.AttrInt64(name, value)


def expressible(spec: ConvTransposeSpec) -> Refusal | None:
    """Why a valid ConvTranspose cannot say this geometry, None where it can."""
    if any(b < 0 for b in spec.pads_begin):
        return Refusal("CT308", f"pads_begin = {list(spec.pads_begin)}")
    limits = zip(spec.output_padding, spec.strides, spec.dilations, strict=True)
    if any(op >= max(s, d) for op, s, d in limits):
        return Refusal("CT310", f"output_padding = {list(spec.output_padding)}")
    return None


def _check_keep(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    return expressible(node.spec)


def _check_undilate(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if all(d == 1 for d in node.spec.dilations):
        return Refusal("CT309", f"dilations = {list(node.spec.dilations)}")
    if isinstance(node.weight, RuntimeOperand) and setting.opset < 2:
        return Refusal("CT306", f"Pad needs opset 2, the model has {setting.opset}")
    spread = prod(a.extent for a in node.spec.axes())
    if spread * node.spec.in_channels * node.spec.out_per_group > MAX_PACKED_ELEMENTS:
        return Refusal("CT307", f"kernel of {spread} taps")
    return expressible(_dense(node.spec))


def _dense(spec: ConvTransposeSpec) -> ConvTransposeSpec:
    return replace(spec, kernel=tuple(a.extent for a in spec.axes()), dilations=(1,) * spec.ndim)


def _emit(
    em: Emitter, node: ConvTransposeNode, spec: ConvTransposeSpec, weight: ir.Value
) -> ir.Value:
    inputs = [node.x, weight] + ([] if node.bias is None else [node.bias.value])
    return em.op("ConvTranspose", inputs, **canonical_attributes(spec))


def _emit_keep(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    return _emit(em, node, node.spec, node.weight.value)


def _emit_undilate(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    weight = spread_taps(em, node.weight, node.spec)
    return _emit(em, node, _dense(node.spec), weight)


def _work_native(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    """GEMM to columns, then col2im, as the CPU libraries do it."""
    weight = spec.in_channels * spec.out_per_group * prod(spec.kernel)
    columns = spec.out_channels * prod(spec.kernel) * prod(sizes)
    out = spec.out_channels * prod(spec.output_sizes(sizes))
    elements = spec.in_channels * prod(sizes) + 2 * columns + 2 * out
    return Work(batch * weight * prod(sizes), batch * elements + weight)


def _work_undilate(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    return _work_native(_dense(spec), batch, sizes)


KEEP = Form(
    "keep", "ConvTranspose, every attribute explicit", _check_keep, _emit_keep, _work_native
)
UNDILATE = Form(
    "undilate",
    "ConvTranspose with the dilation written into the weight as zeros",
    _check_undilate,
    _emit_undilate,
    _work_undilate,
)
