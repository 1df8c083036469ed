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
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import check_kernels, every_phase, packable, work_of
from convt_onnx.forms.order import Interleave
from convt_onnx.forms.rows import blocks_of, check_rows, rows_of
from convt_onnx.forms.shapes import Shapes
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.phases import plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import Axis, ConvTransposeSpec

# Version of the standard operators that brought Col2Im.
OPSET = 18


@dataclass(frozen=True, slots=True)
class Placing:
    """What Col2Im does along one axis, and what is cropped of its image.

    L + rows blocks of `size` elements, `dilation` apart, one block every `stride`, make an image of
    (L + rows) * stride - less.
    """

    size: int
    stride: int
    dilation: int
    rows: int
    less: int
    crop_begin: int
    crop_end: int


def place_phases(axis: Axis) -> Placing:
    """Phases as `plan_aligned` has them: their blocks fill the image."""
    plan = plan_aligned(axis)
    return Placing(plan.stride, plan.stride, 1, plan.rows, 0, plan.crop_begin, plan.crop_end)


def place_taps(axis: Axis) -> Placing:
    """All taps: their blocks overlap. Rows past the last one, which no tap reaches, are zeros."""
    past = max(0, -axis.end)
    less = axis.stride - axis.extent - past
    return Placing(axis.kernel, axis.stride, axis.dilation, 0, less, axis.begin, max(0, axis.end))


def taps_placeable(axis: Axis) -> Refusal | None:
    """Why the image of an axis' taps is not one of Col2Im's.

    It begins with the first tap, and may end less than a stride behind the last one.
    """
    if axis.begin < 0:
        return Refusal("CT308", f"pads_begin = {axis.begin}")
    if -axis.end >= axis.stride:
        return Refusal("CT310", f"{-axis.end} rows past the last tap, stride {axis.stride}")
    return None


def check_col2im(node: ConvTransposeNode, setting: Setting, most_axes: int) -> Refusal | None:
    """Why ONNX Runtime's CPU provider would not run Col2Im, or slowly."""
    if setting.opset < OPSET:
        return Refusal("CT306", f"Col2Im needs opset {OPSET}, the model has {setting.opset}")
    if node.spec.ndim > most_axes or node.dtype != ir.DataType.FLOAT:
        return Refusal("CT318", f"{node.spec.ndim} axes, {node.dtype}")
    return None


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    refusal = check_kernels("phases-col2im", node, setting)
    if refusal is not None:
        return refusal
    if all(s == 1 for s in node.spec.strides):
        return Refusal("CT302", f"strides = {list(node.spec.strides)}")
    return check_col2im(node, setting, 2) or packable(node, setting)


def _check_rows(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    return check_rows("phases-rows-col2im", node, setting) or check_col2im(node, setting, 2)


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    axes = [plan_aligned(a) for a in node.spec.axes()]
    y = every_phase(em, node, axes, setting, "channel")
    return place(em, y, node, [place_phases(a) for a in node.spec.axes()], setting)


def _emit_rows(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    y = rows_of(em, node, blocks_of(node.spec, None))
    return place(em, y, node, [place_phases(a) for a in node.spec.axes()], setting)


def place(
    em: Emitter,
    y: ir.Value,
    node: ConvTransposeNode,
    axes: Sequence[Placing],
    setting: Setting,
) -> ir.Value:
    """[N, C, blocks, *(L + rows)], its channels merged or not -> [N, C_out, *L_out]."""
    sizes, channels = [a.size for a in axes], node.spec.out_channels
    every = tuple(range(len(axes)))
    rows = tuple(None if n is None else n + a.rows for n, a in zip(node.sizes, axes, strict=True))
    plan = Interleave(channels, node.spec.strides, node.batch, rows, "channel")
    shapes = Shapes(em, y, plan, setting)
    low, high = [a.crop_begin for a in axes], [a.crop_end for a in axes]
    uncropped = [0] * len(axes)
    padded = len(axes) == 1
    less = [a.less + padded * (a.crop_begin + a.crop_end) for a in axes]
    y = em.op(
        "Col2Im",
        [
            shapes.reshape(y, [(channels * prod(sizes), ()), (1, every)]),
            shapes.vector([(a.stride, (i,)) for i, a in enumerate(axes)], less),
            em.ints(sizes, "block"),
        ],
        dilations=[a.dilation for a in axes],
        pads=[*low, *high] if padded else 2 * uncropped,
        strides=[a.stride for a in axes],
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
