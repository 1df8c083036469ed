"""`zero-insertion`: zeros between the rows, then one stride-1 convolution.

Needs neither DepthToSpace nor ConvTranspose, at s^n times the arithmetic. The zeros go in with the
channels last, where a Pad copies and fills whole rows of channels. ONNX Runtime's CPU provider
reads its blocked layout from there, so that with one axis, lifted to two, one transposition of the
input is all that this takes. A depthwise node then has nothing to interleave, which is what its
phases take longest for with several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.convolution import convolve, is_lifted, window
from convt_onnx.forms.fused import packable
from convt_onnx.forms.integer_kernel import OUTPUT_DTYPE_OPSET, requantise_input, requantise_output
from convt_onnx.forms.weights import Packing, combine, pack_weight
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.phases import ConvAxis
from convt_onnx.reasons import Refusal
from convt_onnx.spec import Axis, ConvTransposeSpec

# An axis of one row, which lifts another.
UNIT = ConvAxis(((0,),), 1, 0, 0)


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if all(s == 1 for s in node.spec.strides):
        return Refusal("CT302", f"strides = {list(node.spec.strides)}")
    if setting.opset < 2:
        return Refusal("CT306", f"Pad needs opset 2, the model has {setting.opset}")
    int8 = node.x_grid is not None and node.x_grid.dtype == ir.DataType.INT8
    if setting.mlas and int8 and setting.opset >= OUTPUT_DTYPE_OPSET:
        return Refusal("CT319", f"an int8 input, opset {setting.opset}")
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
    lifted = is_lifted(node, setting)
    x = requantise_input(em, _insert_zeros(em, node, setting, lifted=lifted), node)
    plans = [_axis(a) for a in spec.axes()]
    convs = [c for c, _, _ in plans]
    over = [*[UNIT] * lifted, *convs]
    packing = Packing(spec, combine(convs, spec.kernel), window(over, lifted=False))
    y = convolve(
        em,
        x,
        pack_weight(em, node.weight, packing),
        None if node.bias is None else node.bias.value,
        over,
        group=spec.group,
        lifted=False,
    )
    crops = [b for _, b, _ in plans], [e for _, _, e in plans]
    y = requantise_output(em, y, node, moves=any(map(any, crops)))
    if lifted:
        y = em.squeeze(y, [2])
    return em.crop(y, [2 + i for i in range(spec.ndim)], *crops)


def _insert_zeros(
    em: Emitter, node: ConvTransposeNode, setting: Setting, *, lifted: bool
) -> ir.Value:
    """s - 1 zeros after every row: [N, C, *L] -> [N, C, *(L * s)], lifted [N, C, 1, L * s].

    For each axis in turn [N, .., L, C] gets a unit axis, which is padded and merged.
    """
    spec, n, x = node.spec, node.spec.ndim, node.x
    order = list(range(2 + n))
    for i in reversed(range(n)):
        if spec.strides[i] == 1:
            continue
        wanted = [a for a in order if a not in (1, 2 + i)] + [2 + i, 1]
        x = em.transpose(x, [order.index(a) for a in wanted])
        order = wanted
        x = _widen(em, x, node, i, setting, lifted=lifted)
    if lifted:
        return em.transpose(x, [0, 3, 1, 2])
    return em.transpose(x, [order.index(a) for a in range(2 + n)])


def _widen(
    em: Emitter, x: ir.Value, node: ConvTransposeNode, axis: int, setting: Setting, *, lifted: bool
) -> ir.Value:
    """[N, .., L, C] -> [N, .., L * s, C] for the rows of one axis, lifted [N, 1, L * s, C]."""
    n, stride, size = node.spec.ndim, node.spec.strides[axis], node.sizes[axis]
    apart = em.pad(em.unsqueeze(x, [1 + n]), [0] * (3 + n), [0] * (1 + n) + [stride - 1, 0])
    if size is None and not node.batch and setting.can_compute_shapes:
        # With an empty batch nothing can be inferred for a -1.
        scale = em.ints([1] * n + [stride, 1], "scale")
        merged = em.op("Reshape", [apart, em.op("Mul", [em.op("Shape", [x]), scale])])
        return em.unsqueeze(merged, [1]) if lifted else merged
    wide = -1 if size is None else size * stride
    return em.reshape(apart, [0] * n + [1] * lifted + [wide, node.spec.in_channels])


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    wide = prod(n * s for n, s in zip(sizes, spec.strides, strict=True))
    packed = spec.out_channels * spec.in_per_group * prod(spec.kernel)
    out = prod(spec.output_sizes(sizes))
    strided = sum(s > 1 for s in spec.strides)
    elements = spec.in_channels * (prod(sizes) + 2 * strided * wide) + spec.out_channels * out
    return Work(batch * packed * out, batch * elements + packed)


ZERO_INSERTION = Form(
    "zero-insertion", "zeros between the rows, then one convolution", _check, _emit, _work
)
