"""`phases-col2im`, `phases-rows-col2im`: phases that Col2Im puts in their places.

Col2Im adds blocks up in an image; where the stride is the block they only fill it:

    [N, C * P, *Q] -> [N, C, *(Q * s)]

ONNX Runtime's CPU provider does that in one pass and writes the shape of the result, where other
interleaves are two passes and a Reshape, which copies when it makes a graph's output. Over two axes
without padding its loop is the fastest interleave there is for a stride of 2, so the crop is a
Slice; over one axis the padding costs nothing and is the crop. It runs on one thread, without the
dispatches to others that a matrix transposition costs for each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import every_phase, packable, work_of
from convt_onnx.forms.order import Interleave
from convt_onnx.forms.rows import blocks_of, check_rows, rows_of
from convt_onnx.forms.shapes import Shapes
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import QuantisedOperand
from convt_onnx.phases import PhaseAxis, plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# Version of the standard operators that brought Col2Im.
OPSET = 18


def _check_place(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if setting.opset < OPSET:
        return Refusal("CT306", f"Col2Im needs opset {OPSET}, the model has {setting.opset}")
    if node.spec.ndim > 2 or node.dtype != ir.DataType.FLOAT:
        return Refusal("CT318", f"{node.spec.ndim} axes, {node.dtype}")
    return None


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if not setting.mlas:
        return Refusal("CT313", "phases-col2im")
    if isinstance(node.weight, QuantisedOperand):
        return Refusal("CT314", f"weight {node.weight.value.name}")
    if all(s == 1 for s in node.spec.strides):
        return Refusal("CT302", f"strides = {list(node.spec.strides)}")
    return _check_place(node, setting) or packable(node, setting)


def _check_rows(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    return check_rows("phases-rows-col2im", node, setting) or _check_place(node, setting)


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    axes = [plan_aligned(a) for a in node.spec.axes()]
    return _place(em, every_phase(em, node, axes, setting, "channel"), node, axes, setting)


def _emit_rows(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    axes = [plan_aligned(a) for a in node.spec.axes()]
    return _place(em, rows_of(em, node, blocks_of(node.spec, None)), node, axes, setting)


def _place(
    em: Emitter,
    y: ir.Value,
    node: ConvTransposeNode,
    axes: Sequence[PhaseAxis],
    setting: Setting,
) -> ir.Value:
    """[N, C, phases, *Q], its channels merged or not -> [N, C_out, *L_out]."""
    strides, channels = node.spec.strides, node.spec.out_channels
    every = tuple(range(len(axes)))
    rows = tuple(None if n is None else n + a.rows for n, a in zip(node.sizes, axes, strict=True))
    shapes = Shapes(em, y, Interleave(channels, strides, node.batch, rows, "channel"), setting)
    low, high = [a.crop_begin for a in axes], [a.crop_end for a in axes]
    uncropped = [0] * len(axes)
    padded = len(axes) == 1
    less = [b + e for b, e in zip(low, high, strict=True)] if padded else uncropped
    y = em.op(
        "Col2Im",
        [
            shapes.reshape(y, [(channels * prod(strides), ()), (1, every)]),
            shapes.vector([(s, (i,)) for i, s in enumerate(strides)], less),
            em.ints(strides, "block"),
        ],
        dilations=[1] * len(axes),
        pads=[*low, *high] if padded else 2 * uncropped,
        strides=list(strides),
    )
    return y if padded else em.crop(y, [2 + i for i in every], low, high)


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    return work_of(plan_aligned, spec, batch, sizes)


PHASES_COL2IM = Form("phases-col2im", "`phases`, put in place by Col2Im", _check, _emit, _work)
PHASES_ROWS_COL2IM = Form(
    "phases-rows-col2im",
    "depthwise over one axis: phases as rows, put in place by Col2Im",
    _check_rows,
    _emit_rows,
    _work,
)
