"""`conv`, `gemm`, `phases`, `phases-joined`, `phases-window`: a convolution, interleave and crop.

x [N, C_in, *L] -> Conv [N, P*C_out, *(L+rows)] -> interleave [N, C_out, *((L+rows)*s)] -> crop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import MAX_PACKED_ELEMENTS, MAX_PHASES, Form, Setting, Work
from convt_onnx.forms.convolution import convolve, is_lifted, window
from convt_onnx.forms.integer_kernel import requantise_output
from convt_onnx.forms.interleave import interleave, interleave_elements, layout_of, order_for
from convt_onnx.forms.moves import last_phases_first
from convt_onnx.forms.order import Interleave, Order
from convt_onnx.forms.weights import Packing, Table, combine, pack_bias, pack_weight
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import QuantisedOperand, RuntimeOperand
from convt_onnx.phases import PhaseAxis, plan_aligned, plan_window
from convt_onnx.reasons import Refusal
from convt_onnx.spec import Axis, ConvTransposeSpec

Plan = Callable[[Axis], PhaseAxis]

# From so many groups on, one matrix of all is worth a copy that brings them together.
FEWEST_JOINED = 16


def check_kernels(form: str, node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    """Refuses other kernels than those of ONNX Runtime's CPU provider, and integer ones."""
    if not setting.mlas:
        return Refusal("CT313", form)
    if isinstance(node.weight, QuantisedOperand):
        return Refusal("CT314", f"weight {node.weight.value.name}")
    return None


def packable(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    """Refuses what cannot be repacked: too large, or at run time without Pad."""
    if isinstance(node.weight, RuntimeOperand) and setting.opset < 2:
        return Refusal("CT306", f"Pad needs opset 2, the model has {setting.opset}")
    spec = node.spec
    phases = prod(spec.strides)
    if phases > MAX_PHASES or prod(a.extent for a in spec.axes()) > MAX_PACKED_ELEMENTS:
        return Refusal("CT307", f"{phases} phases, kernel {list(spec.kernel)}")
    positions = prod(-(-a.extent // a.stride) + 2 for a in spec.axes())
    if phases * positions * spec.out_channels * spec.in_per_group > MAX_PACKED_ELEMENTS:
        return Refusal("CT307", f"{phases} phases of {spec.out_channels} channels")
    return None


def _emit(
    plan: Plan, joined: bool, em: Emitter, node: ConvTransposeNode, setting: Setting
) -> ir.Value:
    spec = node.spec
    axes = [plan(a) for a in spec.axes()]
    order = phase_order(node, axes, setting, group=spec.group)
    y = every_phase(em, node, axes, setting, order)
    if is_lifted(node, setting) and spec.strides == (1,):
        y = em.squeeze(y, [2])
    y = requantise_output(em, y, node, moves=moves(axes))
    return finish(em, y, node, axes, setting, order=order, group=spec.group, joined=joined)


def every_phase(
    em: Emitter,
    node: ConvTransposeNode,
    axes: Sequence[PhaseAxis],
    setting: Setting,
    order: Order,
) -> ir.Value:
    """One convolution of all phases, [N, P * C_out, *Q]; lifted, with a unit axis."""
    spec = node.spec
    fused = [a.fused() for a in axes]
    lifted = is_lifted(node, setting)
    table = ordered(combine(fused, spec.kernel), spec, order)
    packing = Packing(spec, table, window(fused, lifted=lifted), layout_of(order))
    return convolve(
        em,
        node.x,
        pack_weight(em, node.weight, packing),
        pack_bias(em, node.bias, packing),
        fused,
        group=spec.group,
        lifted=lifted,
    )


def phase_order(
    node: ConvTransposeNode,
    axes: Sequence[PhaseAxis],
    setting: Setting,
    *,
    group: int,
    phases_may_lead: bool = False,
) -> Order:
    """The order of channels and phases that `finish` is to get."""
    quantised = node.x_grid is not None or node.y_grid is not None
    return order_for(
        _rows(node, axes),
        node.spec.strides,
        None if quantised else node.dtype,
        group=group,
        phases_may_lead=phases_may_lead,
        setting=setting,
    )


def ordered(table: Table, spec: ConvTransposeSpec, order: Order) -> Table:
    """The rows of a table, one a phase, as the order wants them."""
    return last_phases_first(table, spec.strides, order)


def moves(axes: Sequence[PhaseAxis]) -> bool:
    """Whether `finish` does anything."""
    return any(a.stride > 1 or a.crop_begin or a.crop_end for a in axes)


def finish(
    em: Emitter,
    y: ir.Value,
    node: ConvTransposeNode,
    axes: Sequence[PhaseAxis],
    setting: Setting,
    *,
    order: Order,
    group: int,
    joined: bool = False,
) -> ir.Value:
    """Interleave the phases of `y` and crop what the output does not keep.

    In the orders of moves and of pairs `y` may have unit axes in front of its last ones.
    """
    spec, rows = node.spec, _rows(node, axes)
    plan = Interleave(spec.out_channels, spec.strides, node.batch, rows, order, group, joined)
    y = interleave(em, y, plan, setting)
    where = [2 + i for i in range(len(axes))]
    return em.crop(y, where, [a.crop_begin for a in axes], [a.crop_end for a in axes])


def _rows(node: ConvTransposeNode, axes: Sequence[PhaseAxis]) -> tuple[int | None, ...]:
    return tuple(None if n is None else n + a.rows for n, a in zip(node.sizes, axes, strict=True))


def crop_elements(spec: ConvTransposeSpec, axes: Sequence[PhaseAxis], sizes: Sequence[int]) -> int:
    """Elements that the crop reads and writes for one batch entry."""
    if not any(a.crop_begin or a.crop_end for a in axes):
        return 0
    return 2 * spec.out_channels * prod(spec.output_sizes(sizes))


def work_of(plan: Plan, spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    """What the convolution of a plan, its interleave and its crop cost."""
    axes = [plan(a) for a in spec.axes()]
    fused = [a.fused() for a in axes]
    rows = [n + a.rows for n, a in zip(sizes, axes, strict=True)]
    phases = prod(spec.strides)
    packed = phases * spec.out_channels * spec.in_per_group * prod(f.taps for f in fused)
    elements = spec.in_channels * prod(sizes) + phases * spec.out_channels * prod(rows)
    elements += interleave_elements(spec.out_channels, spec.strides, rows)
    elements += crop_elements(spec, axes, sizes)
    return Work(batch * packed * prod(rows), batch * elements + packed)


def _check_conv(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if any(s > 1 for s in node.spec.strides):
        return Refusal("CT301", f"strides = {list(node.spec.strides)}")
    return packable(node, setting)


def _check_phases(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if all(s == 1 for s in node.spec.strides):
        return Refusal("CT302", f"strides = {list(node.spec.strides)}")
    return packable(node, setting)


def _check_window(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    refusal = _check_phases(node, setting)
    if refusal is None and all(a.begin % a.stride == 0 for a in node.spec.axes()):
        return Refusal("CT304", f"pads_begin = {list(node.spec.pads_begin)}")
    return refusal


def _check_joined(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if not setting.mlas:
        return Refusal("CT313", "phases-joined")
    refusal = _check_phases(node, setting)
    if refusal is None and (node.spec.group < FEWEST_JOINED or node.spec.strides[-1] == 1):
        return Refusal("CT317", f"{node.spec.group} groups, strides = {list(node.spec.strides)}")
    return refusal


def _check_gemm(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    refusal = _check_phases(node, setting)
    if refusal is None and any(a.extent > a.stride for a in node.spec.axes()):
        return Refusal("CT303", f"kernel = {list(node.spec.kernel)}")
    return refusal


def _form(
    name: str,
    summary: str,
    check: Callable[[ConvTransposeNode, Setting], Refusal | None],
    plan: Plan,
    *,
    joined: bool = False,
) -> Form:
    def work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
        done = work_of(plan, spec, batch, sizes)
        rows = [n + plan(a).rows for n, a in zip(sizes, spec.axes(), strict=True)]
        again = joined * batch * interleave_elements(spec.out_channels, spec.strides, rows)
        return Work(done.macs, done.elements + again)

    return Form(
        name,
        summary,
        check,
        lambda em, node, setting: _emit(plan, joined, em, node, setting),
        work,
    )


CONV = _form("conv", "one stride-1 convolution, kernel flipped", _check_conv, plan_aligned)
GEMM = _form("gemm", "no overlap: one 1x1 convolution, then interleave", _check_gemm, plan_aligned)
PHASES = _form(
    "phases", "one convolution for all phases, exact taps, then crop", _check_phases, plan_aligned
)
PHASES_JOINED = _form(
    "phases-joined",
    "`phases`, interleaved in one go for all groups",
    _check_joined,
    plan_aligned,
    joined=True,
)
PHASES_WINDOW = _form(
    "phases-window",
    "one convolution for all phases, wider window, crop in its pads",
    _check_window,
    plan_window,
)
