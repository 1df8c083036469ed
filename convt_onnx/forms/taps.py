"""`taps-col2im`: phases along the last of two axes, taps along the first, added up by Col2Im.

    x [N, C_in, *L] -> Conv [N, C_out * K_1 * s_2, L_1, L_2 + rows]
      -> Col2Im [N, C_out, (L_1 - 1) * s_1 + extent_1, (L_2 + rows) * s_2], then crop

With the phases of both axes as channels, each has the window of all of them: where the stride does
not divide the kernel, many of its taps are zeros, and few output channels leave blocks of channels
half empty. The native node has none of that, but adds up a column for each of its K_1 * K_2 taps.
This form has the zeros of one axis and K_1 * s_2 columns. Pays for one output channel, a kernel of
several strides and many positions (FSRCNN).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import MAX_PACKED_ELEMENTS, MAX_PHASES, Form, Setting, Work
from convt_onnx.forms.col2im import (
    Placing,
    check_col2im,
    place,
    place_phases,
    place_taps,
    taps_placeable,
)
from convt_onnx.forms.convolution import convolve, window
from convt_onnx.forms.fused import check_kernels, packable
from convt_onnx.forms.weights import Packing, bias_column, combine, pack_weight
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.phases import ConvAxis, plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import Axis, ConvTransposeSpec


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec = node.spec
    refusal = check_kernels("taps-col2im", node, setting)
    if refusal is not None:
        return refusal
    axes = list(spec.axes())
    if spec.ndim != 2 or spec.group > 1 or axes[0].kernel <= axes[0].stride:
        return Refusal("CT320", f"{spec.ndim} axes, group = {spec.group}, kernel {spec.kernel}")
    refusal = check_col2im(node, setting, 2) or packable(node, setting) or taps_placeable(axes[0])
    if refusal is not None:
        return refusal
    blocks = axes[0].kernel * axes[1].stride
    if blocks > MAX_PHASES or _packed(spec) > MAX_PACKED_ELEMENTS:
        return Refusal("CT307", f"{blocks} taps and phases of {spec.out_channels} channels")
    return None


def _convolutions(spec: ConvTransposeSpec) -> list[ConvAxis]:
    """Every tap of the first axis for itself, the phases of the last one."""
    first, last = spec.axes()
    taps = tuple((k,) for k in range(first.kernel))
    return [ConvAxis(taps, dilation=1, low=0, high=0), plan_aligned(last).fused()]


def _placings(axes: Sequence[Axis]) -> list[Placing]:
    return [place_taps(axes[0]), place_phases(axes[1])]


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    convs = _convolutions(spec)
    packing = Packing(spec, combine(convs, spec.kernel), window(convs, lifted=False))
    weight = pack_weight(em, node.weight, packing)
    y = convolve(em, node.x, weight, None, convs, group=1, lifted=False)
    y = place(em, y, node, _placings(list(spec.axes())), setting)
    return y if node.bias is None else em.add(y, bias_column(em, node.bias, spec))


def _packed(spec: ConvTransposeSpec) -> int:
    convs = _convolutions(spec)
    taps = prod(len(c.table) * c.taps for c in convs)
    return spec.in_channels * spec.out_channels * taps


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    axes = _placings(list(spec.axes()))
    rows = prod(n + a.rows for n, a in zip(sizes, axes, strict=True))
    columns = spec.out_channels * prod(a.size for a in axes) * rows
    out = spec.out_channels * prod(spec.output_sizes(sizes))
    elements = spec.in_channels * prod(sizes) + 3 * columns + 4 * out
    return Work(batch * _packed(spec) * rows, batch * elements + _packed(spec))


TAPS_COL2IM = Form(
    "taps-col2im",
    "phases along the last axis, taps along the first, added up by Col2Im",
    _check,
    _emit,
    _work,
)
