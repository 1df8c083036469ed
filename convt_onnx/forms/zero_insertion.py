"""`zero-insertion`: zeros between the rows, then one stride-1 convolution.

Needs neither DepthToSpace nor ConvTranspose, at s^n times the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import packable
from convt_onnx.forms.integer_kernel import requantise_input, requantise_output
from convt_onnx.forms.weights import Packing, combine, pack_weight
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.phases import ConvAxis
from convt_onnx.reasons import Refusal
from convt_onnx.spec import Axis, ConvTransposeSpec


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if all(s == 1 for s in node.spec.strides):
        return Refusal("CT302", f"strides = {list(node.spec.strides)}")
    if setting.opset < 2:
        return Refusal("CT306", f"Pad needs opset 2, the model has {setting.opset}")
    return packable(node, setting)


def _axis(axis: Axis) -> tuple[ConvAxis, int, int]:
    """Convolution over L*s rows, and the crops where its pads would be negative."""
    reach = axis.extent - 1
    low = reach - axis.begin
    high = axis.offset - axis.stride + axis.begin
    table = (tuple(reversed(range(axis.kernel))),)
    conv = ConvAxis(table, axis.dilation, max(low, 0), max(high, 0))
    return conv, max(-low, 0), max(-high, 0)


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    x = node.x
    for i in range(spec.ndim):
        x = _insert_zeros(em, x, i, node)
    x = requantise_input(em, x, node)
    plans = [_axis(a) for a in spec.axes()]
    convs = [c for c, _, _ in plans]
    packing = Packing(spec, combine(convs, spec.kernel), spec.kernel)
    y = em.conv(
        x,
        pack_weight(em, node.weight, packing),
        None if node.bias is None else node.bias.value,
        kernel=spec.kernel,
        dilations=[c.dilation for c in convs],
        low=[c.low for c in convs],
        high=[c.high for c in convs],
        group=spec.group,
    )
    crops = [b for _, b, _ in plans], [e for _, _, e in plans]
    y = requantise_output(em, y, node, moves=any(map(any, crops)))
    return em.crop(y, [2 + i for i in range(spec.ndim)], *crops)


def _insert_zeros(em: Emitter, x: ir.Value, axis: int, node: ConvTransposeNode) -> ir.Value:
    """s - 1 zeros after every row: the axis goes last, gets a unit axis, is padded and merged."""
    n, s = node.spec.ndim, node.spec.strides[axis]
    if s == 1:
        return x
    order = [*range(1 + n + 1)]
    order.remove(2 + axis)
    order.append(2 + axis)
    x = em.transpose(x, order)
    x = em.reshape(x, [0] * (2 + n) + [1])
    x = em.pad(x, [0] * (3 + n), [0] * (2 + n) + [s - 1])
    x = em.reshape(x, [0] * (1 + n) + [-1])
    return em.transpose(x, [order.index(i) for i in range(2 + n)])


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    wide = prod(n * s for n, s in zip(sizes, spec.strides, strict=True))
    packed = spec.out_channels * spec.in_per_group * prod(spec.kernel)
    out = prod(spec.output_sizes(sizes))
    strided = sum(s > 1 for s in spec.strides)
    elements = spec.in_channels * (prod(sizes) + 4 * strided * wide) + spec.out_channels * out
    return Work(batch * packed * out, batch * elements + packed)


ZERO_INSERTION = Form(
    "zero-insertion", "zeros between the rows, then one convolution", _check, _emit, _work
)
