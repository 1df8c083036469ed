"""What MLAS does for a Conv, a ConvTranspose and a matrix product, counted."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.prediction.tally import Tally, known, lines
from convt_onnx.prediction.vectors import Vectors

GEMM_COLUMNS = 16
# How many blocks of filters a kernel computes at once.
FILTER_BLOCKS = 4
# Channels in which a blocked convolution of several input channels is read.
ALIGNMENT = 4
# Multiply-adds from which MLAS gives a GEMM a second thread.
THREADED_MACS = 1 << 16
HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def conv(node: ir.Node, tally: Tally) -> None:
    """Where the channels come in whole blocks, in that layout; elsewhere by im2col and a GEMM."""
    x, w, y = (known(v) for v in (node.inputs[0], node.inputs[1], node.outputs[0]))
    group = node.attributes.get_int("group", 1)
    taps, positions = prod(w[2:]), prod(y[2:])
    half(node, tally)
    if takes_blocks(node, tally.vectors):
        _blocked_conv(node, tally, x, w, y, group)
        return
    depth, times = w[1] * taps, y[0] * group
    gemm(tally, w[0] // group, positions, depth, times)
    tally.counts["spread"] += times > 1 or is_spread(w[0] // group, positions, depth)
    if taps > 1 or any(node.attributes.get_ints("pads", [])):
        tally.counts[f"im2col_{min(len(w) - 2, 3)}d"] += y[0] * group * depth * positions


def takes_blocks(node: ir.Node, vectors: Vectors) -> bool:
    """Whether ONNX Runtime's optimiser takes a Conv to the blocked layout."""
    weight, w = node.inputs[1], known(node.inputs[1])
    if weight is None or weight.const_value is None or weight.dtype != ir.DataType.FLOAT:
        return False
    if len(w) != 4:
        return False
    block, group = vectors.block, node.attributes.get_int("group", 1)
    if group == 1:
        return w[1] < block or w[1] % ALIGNMENT == 0
    if w[1] == 1 and w[0] == group:
        return w[0] % ALIGNMENT == 0
    return w[1] % block == 0 and (w[0] // group) % block == 0


def _blocked_conv(
    node: ir.Node,
    tally: Tally,
    x: Sequence[int],
    w: Sequence[int],
    y: Sequence[int],
    group: int,
) -> None:
    block = tally.vectors.block
    filters = -(-w[0] // block) * block
    positions, taps = y[0] * prod(y[2:]), prod(w[2:])
    tally.counts["spread"] += 1
    tally.counts["blocked_reordered"] += prod(y) + (prod(x) if w[1] >= block or group > 1 else 0)
    if w[1] == 1 and group > 1:
        row_taps = _row_taps(node, x[2], w[2], y[2])
        tally.counts["blocked_depthwise_macs"] += y[0] * y[3] * filters * row_taps * w[3]
        return
    tally.counts["blocked_macs"] += positions * filters * w[1] * taps
    passes = group * -(-filters // (group * block * FILTER_BLOCKS))
    tally.counts["blocked_passes"] += positions * passes * w[1] * taps * block
    # Few rows or columns leave the kernel's tiles half empty; each row is a call.
    tally.counts["blocked_rows"] += y[0] * y[2] * passes * w[1] * w[2]


def _row_taps(node: ir.Node, height: int, taps: int, rows: int) -> int:
    """Rows of the kernel that all rows of output read, without those in the padding."""
    attributes = node.attributes
    low = attributes.get_ints("pads", (0,) * 4)[0]
    step, dilation = (attributes.get_ints(n, (1, 1))[0] for n in ("strides", "dilations"))

    def rows_before(limit: int) -> int:
        """Rows of output that begin before that row of input, the padding counted."""
        return min(max(0, -(-limit // step)), rows)

    ends = ((low - dilation * k, height + low - dilation * k) for k in range(taps))
    return sum(rows_before(end) - rows_before(begin) for begin, end in ends)


def conv_transpose(node: ir.Node, tally: Tally) -> None:
    """A GEMM for each image and group, whose columns col2im adds up row by row."""
    x, w = known(node.inputs[0]), known(node.inputs[1])
    group = node.attributes.get_int("group", 1)
    rows, positions = prod(w[1:]), prod(x[2:])
    half(node, tally)
    depth, times = w[0] // group, x[0] * group
    gemm(tally, rows, positions, depth, times)
    tally.counts["spread"] += times * is_spread(rows, positions, depth)
    elements, axes = times * rows * positions, f"{min(len(w) - 2, 3)}d"
    stride = node.attributes.get_ints("strides", (1,))[-1]
    tally.counts[f"col2im_{axes}"] += elements
    tally.counts[f"col2im_{axes}_rows"] += elements // x[-1] if x[-1] else 0
    if stride > 1:
        tally.counts[f"col2im_{axes}_strided"] += elements
    tally.counts["col2im_lines"] += lines(elements, stride)


def matmul(node: ir.Node, tally: Tally) -> None:
    """A GEMM for each matrix, or one where the right side is the same for all."""
    a, b, y = (known(v) for v in (node.inputs[0], node.inputs[1], node.outputs[0]))
    rows, columns = (y[-2] if len(y) > 1 else 1), y[-1]
    half(node, tally)
    batch = prod(y[:-2])
    if len(b) == 2 and batch > 1:
        rows, batch = rows * batch, 1
    gemm(tally, rows, columns, a[-1], batch)
    tally.counts["spread"] += batch > 1 or is_spread(rows, columns, a[-1])


def gemm(tally: Tally, rows: int, columns: int, depth: int, times: int) -> None:
    """`times` products [rows, depth] x [depth, columns]."""
    columns = -(-columns // GEMM_COLUMNS) * GEMM_COLUMNS
    tally.counts["gemm_macs"] += times * rows * columns * depth
    tally.counts["gemm_passes"] += times * -(-rows // tally.vectors.gemm_rows) * columns * depth
    tally.counts["gemm_packed"] += times * depth * columns
    tally.counts["gemm_written"] += times * rows * columns
    tally.counts["gemm_calls"] += times


def is_spread(rows: int, columns: int, depth: int) -> bool:
    """Whether one GEMM runs in several threads."""
    return rows * columns * depth >= THREADED_MACS


def half(node: ir.Node, tally: Tally) -> None:
    """float16 is cast to float32 and back around every operator."""
    if node.outputs[0].dtype in HALF:
        values = [*node.outputs, *(v for v in node.inputs if v is not None and not v.const_value)]
        tally.counts["cast"] += sum(prod(known(v)) for v in values)
