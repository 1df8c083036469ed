"""`phases-split`: one convolution a phase, each with its own taps; then concatenate, interleave."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.convolution import convolve, is_lifted, window
from convt_onnx.forms.fused import crop_elements, finish, moves, packable, phase_order
from convt_onnx.forms.integer_kernel import requantise_output
from convt_onnx.forms.interleave import interleave_elements
from convt_onnx.forms.order import Order, in_front
from convt_onnx.forms.weights import Packing, combine, pack_weight
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.phases import plan_split
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

MAX_CONVOLUTIONS = 64


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    phases = prod(node.spec.strides)
    if phases == 1:
        return Refusal("CT302", f"strides = {list(node.spec.strides)}")
    if phases > MAX_CONVOLUTIONS:
        return Refusal("CT305", f"{phases} phases, at most {MAX_CONVOLUTIONS}")
    if setting.opset < 4:
        return Refusal("CT306", f"Concat needs opset 4, the model has {setting.opset}")
    return packable(node, setting)


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    axes = [plan_split(a) for a in spec.axes()]
    lifted = is_lifted(node, setting)
    order = phase_order(node, axes, setting, group=1, phases_may_lead=True)
    parts = []
    for phase in _phases(spec.strides, order):
        convs = [a.phase(r) for a, r in zip(axes, phase, strict=True)]
        packing = Packing(spec, combine(convs, spec.kernel), window(convs, lifted=lifted))
        part = convolve(
            em,
            node.x,
            pack_weight(em, node.weight, packing),
            None if node.bias is None else node.bias.value,
            convs,
            group=spec.group,
            lifted=lifted,
        )
        parts.append(requantise_output(em, part, node, moves=moves(axes)))
    y = em.op("Concat", parts, axis=1)
    return finish(em, y, node, axes, setting, order=order, group=1)


def _phases(strides: Sequence[int], order: Order) -> list[tuple[int, ...]]:
    """Phases in the order in which their convolutions are put together."""
    phases = list(product(*(range(s) for s in strides)))
    count = in_front(order)
    return sorted(phases, key=lambda phase: phase[-count:]) if count else phases


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    axes = [plan_split(a) for a in spec.axes()]
    rows = [n + a.rows for n, a in zip(sizes, axes, strict=True)]
    taps = prod(sum(a.phase(r).taps for r in range(a.stride)) for a in axes)
    packed = taps * spec.out_channels * spec.in_per_group
    phases = prod(spec.strides)
    elements = phases * (spec.in_channels * prod(sizes) + 3 * spec.out_channels * prod(rows))
    elements += interleave_elements(spec.out_channels, spec.strides, rows)
    elements += crop_elements(spec, axes, sizes)
    return Work(batch * packed * prod(rows), batch * elements + packed)


PHASES_SPLIT = Form(
    "phases-split", "one convolution a phase, no zero taps, then interleave", _check, _emit, _work
)
