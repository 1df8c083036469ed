"""`winograd`: stride 1 and three taps along the first axis, two rows from four products, not six.

Winograd's F(2, 3), along one axis alone (Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", 2016): of a convolution with rows g_0, g_1, g_2 of its kernel, two neighbouring rows of
the result read four rows d_0 .. d_3 of the input,

    m_0 = g_0 (d_0 - d_2)                      y_0 = m_0 + m_1 + m_2
    m_1 = (g_0 + g_1 + g_2) / 2 (d_1 + d_2)    y_1 = m_1 - m_2 - m_3
    m_2 = (g_0 - g_1 + g_2) / 2 (d_2 - d_1)
    m_3 = g_2 (d_1 - d_3)

where each product is a convolution over the other axis. Everything but the last Concat stays in the
layout that ONNX Runtime's CPU provider has for convolutions, with channels in blocks: the sums of
rows are depthwise convolutions of stride 2, which also pad; so is the change of sign of m_2, since
that layout has Add, which a convolution takes in, and no Sub.

Sums of two inputs and of three taps are rounded to float32, about as much as the sum over channels
is. They overflow where a term is beyond half of what float32 holds, and an input that is not finite
spreads to the other row of its pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import check_kernels, moves, packable
from convt_onnx.forms.weights import Packing, combine, packed_array
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.phases import ConvAxis, PhaseAxis, plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# Channels are filled up to blocks of up to 16, but have to be a multiple of 4 for that.
ALIGNMENT, FEWEST_CHANNELS = 4, 16
TAPS = 3
# Rows of the input that each product adds up, first to last, and of the kernel. The last one is
# negative, as the result takes it.
INPUTS = ((0, (1, 0, -1)), (1, (1, 1)), (1, (-1, 1)), (1, (1, 0, -1)))
KERNELS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, -1]])


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec = node.spec
    refusal = check_kernels("winograd", node, setting) or packable(node, setting)
    if refusal is not None:
        return refusal
    sizes = [n for n in node.sizes if n is not None]
    if spec.ndim != 2 or len(sizes) != 2 or min(sizes) < 1 or node.dtype != ir.DataType.FLOAT:
        return Refusal("CT325", f"input sizes {list(node.sizes)} of {node.dtype}")
    if spec.strides != (1, 1) or spec.kernel[0] != TAPS or spec.dilations[0] != 1:
        return Refusal("CT325", f"kernel {list(spec.kernel)}, strides {list(spec.strides)}")
    channels = (spec.in_channels, spec.out_channels)
    if spec.group > 1 or min(channels) < FEWEST_CHANNELS or any(c % ALIGNMENT for c in channels):
        return Refusal("CT325", f"{channels} channels in {spec.group} groups")
    if _cuts(_plans(spec)):
        return Refusal("CT325", f"pads {[*spec.pads_begin, *spec.pads_end]}")
    if setting.opset < 7:
        return Refusal("CT306", f"Add needs opset 7, the model has {setting.opset}")
    if not isinstance(node.weight, ConstantOperand):
        return Refusal("CT314", f"weight {node.weight.value.name}")
    if not _sums_are_finite(node.weight):
        return Refusal("CT326", f"weight {node.weight.value.name}")
    return None


def _plans(spec: ConvTransposeSpec) -> list[PhaseAxis]:
    return [plan_aligned(a) for a in spec.axes()]


def _cuts(plans: Sequence[PhaseAxis]) -> bool:
    """Whether more is cropped than the convolution's own padding takes up."""
    return moves(plans) or any(min(p.fused().low, p.fused().high) < 0 for p in plans)


def _packing(spec: ConvTransposeSpec) -> Packing:
    """Of the convolution, whose kernel is [C_out, C_in, 3, K]."""
    fused = [p.fused() for p in _plans(spec)]
    return Packing(spec, combine(fused, spec.kernel), tuple(f.taps for f in fused))


def _sums_are_finite(weight: ConstantOperand) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.abs(weight.array()).sum(axis=2)).all())


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec, (rows, columns) = node.spec, node.sizes
    assert rows is not None and columns is not None
    height, width = spec.output_sizes((rows, columns))
    pairs = -(-height // 2)
    m = [_product(em, node, j, rows, pairs) for j in range(len(INPUTS))]
    even = em.add(m[0], em.add(m[1], m[2]))
    odd = em.add(m[3], em.add(m[1], _depthwise(em, m[2], spec.out_channels, (-1,))))
    both = em.op("Concat", [even, odd], axis=3)
    y = em.reshape(both, [0, spec.out_channels, 2 * pairs, width])
    return em.crop(y, [2], [0], [2 * pairs - height])


def _product(em: Emitter, node: ConvTransposeNode, j: int, length: int, pairs: int) -> ir.Value:
    """m_j, [N, C_out, pairs, W]; those that one row alone takes bear its bias."""
    weight, packing = node.weight, _packing(node.spec)
    assert isinstance(weight, ConstantOperand)
    rows, columns = (p.fused() for p in _plans(node.spec))

    def kernel() -> npt.NDArray[np.float32]:
        taps = packed_array(weight, packing).astype(np.float64)
        sums: npt.NDArray[np.float64] = np.einsum("r,oirk->oik", KERNELS[j], taps)
        return sums[:, :, None].astype(np.float32)

    bias = node.bias if j in (0, 3) else None
    return em.conv(
        _summed(em, node, j, rows, 2 * (pairs - 1) - length),
        em.shared((weight.value, packing.key, "winograd", j), kernel, "weight"),
        None if bias is None else bias.value,
        kernel=[1, columns.taps],
        dilations=[1, columns.dilation],
        low=[0, columns.low],
        high=[0, columns.high],
        group=1,
    )


def _summed(em: Emitter, node: ConvTransposeNode, j: int, rows: ConvAxis, past: int) -> ir.Value:
    """The sums of rows that m_j is of, [N, C_in, pairs, W].

    The last pair begins `past` rows below the input, or above where it is negative.
    """
    first, taps = INPUTS[j]
    # Padding is what is missing before the first row; where none is, zeros skip the rows above.
    low = max(rows.low - first, 0)
    taps = (*[0] * (first - rows.low + low), *taps)
    missing = past + len(taps) - low
    pads = (low, max(missing, 0))
    return _depthwise(em, node.x, node.spec.in_channels, taps, pads=pads, stride=2)


def _depthwise(
    em: Emitter,
    x: ir.Value,
    channels: int,
    taps: tuple[int, ...],
    *,
    pads: tuple[int, int] = (0, 0),
    stride: int = 1,
) -> ir.Value:
    """The same sum of rows for every channel."""
    column = np.array(taps, dtype=np.float32)[:, None]
    return em.conv(
        x,
        em.shared(
            ("winograd", channels, taps), lambda: np.tile(column, (channels, 1, 1, 1)), "rows"
        ),
        None,
        kernel=[len(taps), 1],
        dilations=[1, 1],
        low=[pads[0], 0],
        high=[pads[1], 0],
        group=channels,
        strides=[stride, 1],
    )


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    height, width = spec.output_sizes(sizes)
    pairs = batch * -(-height // 2)
    read, written = spec.in_channels * sizes[1], spec.out_channels * width
    products = len(INPUTS) * written * spec.in_channels * spec.kernel[1]
    sums = sum(len(taps) for _, taps in INPUTS) * read + written
    copies = len(INPUTS) * (2 * read + written) + 10 * written
    return Work(pairs * (products + sums), pairs * copies)


WINOGRAD = Form(
    "winograd",
    "stride 1, three taps along the first axis: two rows from four convolutions, not six",
    _check,
    _emit,
    _work,
)
