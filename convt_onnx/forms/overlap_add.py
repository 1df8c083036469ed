"""`overlap-add`: a matrix product for every tap at once, then shifted sums.

y[q] = sum over shifts e of Z_e[q + e] with Z_e = W_e x, a 1x1 convolution [N, P*C_out, *L]. The
shifted Z_e are padded to L + rows and added; interleave, crop and bias follow. Pays where the
kernel is many strides long and the output channels are few (an inverse STFT).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

import numpy as np
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import crop_elements, finish, ordered, packable, phase_order
from convt_onnx.forms.interleave import interleave_elements, layout_of
from convt_onnx.forms.order import Order
from convt_onnx.forms.weights import Packing, Table, bias_column, pack_weight
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.phases import PhaseAxis, plan_shifts
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

MAX_SHIFTS = 256


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if setting.opset < 7:
        return Refusal("CT306", f"Add needs opset 7, the model has {setting.opset}")
    refusal = packable(node, setting)
    if refusal is not None:
        return refusal
    shifts = prod(len(plan_shifts(a).shifts()) for a in node.spec.axes())
    if shifts > MAX_SHIFTS:
        return Refusal("CT305", f"{shifts} shifts, at most {MAX_SHIFTS}")
    return None


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    axes = [plan_shifts(a) for a in spec.axes()]
    shifts = list(product(*(a.shifts() for a in axes)))
    # A group's channels stay together, so its shifts can only be convolutions of their own.
    order = phase_order(node, axes, setting, group=spec.group, phases_may_lead=spec.group == 1)
    tables = [ordered(_table(spec, axes, e), spec, order) for e in shifts]
    parts = (
        _products(em, node, tables, order)
        if spec.group == 1
        else [_product(em, node, [table], order) for table in tables]
    )
    shifted = [
        em.pad(
            part,
            [0, 0, *(-i for i in e)],
            [0, 0, *(a.rows + i for a, i in zip(axes, e, strict=True))],
        )
        for part, e in zip(parts, shifts, strict=True)
    ]
    total = reduce(em.add, shifted)
    y = finish(em, total, node, axes, setting, order=order, group=spec.group)
    return y if node.bias is None else em.add(y, bias_column(em, node.bias, spec))


def _table(spec: ConvTransposeSpec, axes: Sequence[PhaseAxis], shift: tuple[int, ...]) -> Table:
    """[P, 1]: the tap of each phase that reads at this shift."""
    flat = np.zeros((1,), dtype=np.int64)
    for axis, k, e in zip(axes, spec.kernel, shift, strict=True):
        taps = np.array([{read: tap for tap, read in row}.get(e, -1) for row in axis.taps])
        joint = flat[:, None] * k + taps
        flat = np.where((flat[:, None] < 0) | (taps < 0), -1, joint).reshape(-1)
    return flat[:, None]


def _product(
    em: Emitter, node: ConvTransposeNode, tables: Sequence[Table], order: Order
) -> ir.Value:
    spec = node.spec
    ones = (1,) * spec.ndim
    packing = Packing(spec, np.concatenate(tables), ones, layout_of(order))
    return em.conv(
        node.x,
        pack_weight(em, node.weight, packing),
        None,
        kernel=ones,
        dilations=ones,
        low=(0,) * spec.ndim,
        high=(0,) * spec.ndim,
        group=spec.group,
    )


def _products(
    em: Emitter, node: ConvTransposeNode, tables: Sequence[Table], order: Order
) -> list[ir.Value]:
    """One product for all shifts, cut into one part a shift."""
    spec = node.spec
    y = _product(em, node, tables, order)
    if len(tables) == 1:
        return [y]
    width = prod(spec.strides) * spec.out_channels
    return [em.slice(y, [1], [i * width], [(i + 1) * width]) for i in range(len(tables))]


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    axes = [plan_shifts(a) for a in spec.axes()]
    shifts = prod(len(a.shifts()) for a in axes)
    rows = [n + a.rows for n, a in zip(sizes, axes, strict=True)]
    width = prod(spec.strides) * spec.out_channels
    packed = shifts * width * spec.in_per_group
    elements = spec.in_channels * prod(sizes) + shifts * width * (3 * prod(sizes) + 3 * prod(rows))
    elements += interleave_elements(spec.out_channels, spec.strides, rows)
    elements += crop_elements(spec, axes, sizes)
    return Work(batch * packed * prod(sizes), batch * elements + packed)


OVERLAP_ADD = Form(
    "overlap-add", "one matrix product for all taps, then shifted sums", _check, _emit, _work
)
