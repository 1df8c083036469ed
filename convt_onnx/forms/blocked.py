"""`phases-blocked`: `phases` with zero channels, up to what is computed in blocks of channels.

ONNX Runtime's CPU provider computes a convolution over two axes, or one that is lifted to two, with
the channels in blocks of a vector's width, faster than its GEMM and without im2col; but only where
the input channels are a multiple of 4. An inverse STFT has 2 * (n_fft / 2 + 1) of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.convolution import convolve, window
from convt_onnx.forms.fused import finish, ordered, packable, phase_order, work_of
from convt_onnx.forms.interleave import layout_of
from convt_onnx.forms.weights import Packing, combine, pack_bias, packed_array
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.phases import plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# Input channels come in multiples of this, but fewer than a block are read as they are.
ALIGNMENT, BLOCK = 4, 8


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec = node.spec
    if not setting.mlas:
        return Refusal("CT313", "phases-blocked")
    if not isinstance(node.weight, ConstantOperand):
        return Refusal("CT314", f"weight {node.weight.value.name}")
    if all(s == 1 for s in spec.strides):
        return Refusal("CT302", f"strides = {list(spec.strides)}")
    if setting.opset < 2:
        return Refusal("CT306", f"Pad needs opset 2, the model has {setting.opset}")
    if spec.ndim > 2 or spec.group > 1 or _missing(spec) == 0:
        detail = f"{spec.ndim} axes, {spec.in_channels} channels, {spec.group} groups"
        return Refusal("CT315", detail)
    return packable(node, setting)


def _missing(spec: ConvTransposeSpec) -> int:
    """Zero channels up to the next multiple."""
    return 0 if spec.in_channels < BLOCK else -spec.in_channels % ALIGNMENT


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    axes = [plan_aligned(a) for a in spec.axes()]
    fused = [a.fused() for a in axes]
    weight = node.weight
    if not isinstance(weight, ConstantOperand):
        raise TypeError(weight)
    order = phase_order(node, axes, setting, group=1)
    missing, lifted = _missing(spec), spec.ndim == 1
    table = ordered(combine(fused, spec.kernel), spec, order)
    packing = Packing(spec, table, window(fused, lifted=lifted), layout_of(order))
    y = convolve(
        em,
        em.pad(node.x, [0] * (2 + spec.ndim), [0, missing, *[0] * spec.ndim]),
        _wider(em, weight, packing, missing),
        pack_bias(em, node.bias, packing),
        fused,
        group=1,
        lifted=lifted,
    )
    return finish(em, y, node, axes, setting, order=order, group=1)


def _wider(em: Emitter, weight: ConstantOperand, packing: Packing, missing: int) -> ir.Value:
    """[P * C_out, C_in + missing, *taps]."""

    def make() -> npt.NDArray[np.generic]:
        array = packed_array(weight, packing)
        outputs, inputs = array.shape[:2]
        wide = np.zeros((outputs, inputs + missing, *packing.taps), dtype=array.dtype)
        wide[:, :inputs] = array
        return wide

    return em.shared((weight.value, packing.key, missing), make, "weight")


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    return work_of(plan_aligned, spec, batch, sizes)


PHASES_BLOCKED = Form(
    "phases-blocked",
    "`phases` with channels filled up for a blocked layout",
    _check,
    _emit,
    _work,
)
