"""What ONNX Runtime's CPU provider does for a model, counted: arithmetic, elements moved, calls.

A model of one node in one form is walked operator by operator, and each adds to a few counts:

* Conv, where the optimiser takes it to the blocked layout (2-D, float32, constant weights, channels
  in whole blocks): direct convolution, and reordering into the layout and out of it.
* Conv otherwise: for each image and group a GEMM of C_out/g rows, C_in/g * k deep, over the output
  positions; im2col makes its right side, unless the kernel is 1.
* ConvTranspose: for each image and group a GEMM of C_out/g * k rows, C_in/g deep, over the input
  positions; col2im adds its columns up.
* GEMM packs its right side and takes rows six at a time, positions sixteen at a time.
* Work is spread over threads, which costs something each time: every blocked convolution, the
  images and groups of any other one, and a GEMM from so many multiply-adds on.
* Col2Im writes elements a stride apart, two axes without padding in a loop, others by their index.
* DepthToSpace, Slice, Pad, Concat, Gather copy elements, in runs whose length matters; so does
  Transpose, apart from orders that it has loops of its own for (`transposes`).
* What is larger than a core's own cache costs more wherever it is read or written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod

import onnx_ir as ir
import onnx_ir.passes.common

from convt_onnx.errors import ConvtError
from convt_onnx.forms import Setting
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.prediction.transposes import transpose_counts
from convt_onnx.targets import Target
from convt_onnx.tuning.extract import node_graph

GEMM_ROWS, GEMM_COLUMNS = 6, 16
# Channels of the blocked layout (AVX2), and how many blocks of filters a kernel computes at once.
BLOCK, FILTER_BLOCKS = 8, 4
# Channels in which a blocked convolution of several input channels is read.
ALIGNMENT = 4
# Multiply-adds from which MLAS gives a GEMM a second thread.
THREADED_MACS = 1 << 16
# Elements of a cache line.
LINE = 16
# What a core's second-level cache holds (512 KiB).
CACHED_ELEMENTS = 1 << 17
HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
FREE = frozenset(
    {"Constant", "Reshape", "Shape", "Squeeze", "Unsqueeze", "Identity", "Flatten", "Cast"}
)

Counts = Counter[str]


def node_features(
    node: ConvTransposeNode,
    form: str,
    setting: Setting,
    target: Target,
    x_shape: Sequence[int],
    activation: ir.Node | None = None,
) -> dict[str, float] | None:
    """Counts of a node in a form; None where they are not known, as for quantised nodes."""
    if node.x_grid is not None or node.y_grid is not None:
        return None
    try:
        model, _ = node_graph(node, form, setting, target, x_shape, activation)
    except (ConvtError, ValueError):
        return None
    return features(model)


def features(model: ir.Model) -> dict[str, float] | None:
    """Counts of a model whose sizes are all known, None where some are not."""
    onnx_ir.passes.common.ShapeInferencePass(strict_mode=False)(model)
    counts: Counts = Counter()
    for node in model.graph:
        # What reads constants alone is computed when the session is made.
        if all(v is None or v.const_value is not None for v in node.inputs):
            continue
        counter = COUNTERS.get(node.op_type, _elementwise)
        if node.op_type in FREE and node.op_type != "Cast":
            counts["calls"] += 1
            continue
        if _is_reordered_with(node):
            continue
        if _shape(node.outputs[0]) is None or any(_unknown(v) for v in node.inputs):
            return None
        counts["calls"] += 1
        counts["streamed"] += _streamed(node)
        counter(node, counts)
    return {name: float(n) for name, n in counts.items()}


def _is_reordered_with(node: ir.Node) -> bool:
    """Whether the channels go to the front only for the blocked layout to be made of them."""
    if node.op_type != "Transpose" or list(node.attributes.get_ints("perm", [])) != [0, 3, 1, 2]:
        return False
    readers = [node for node, _ in node.outputs[0].uses()]
    return bool(readers) and all(
        r.op_type == "Conv"
        and _takes_blocks(r, _known(r.inputs[1]), r.attributes.get_int("group", 1))
        for r in readers
    )


def _streamed(node: ir.Node) -> int:
    """Elements of inputs and outputs that are too large to stay in a core's own cache."""
    values = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
    sizes = [prod(_known(v)) for v in values.values()]
    return sum(n for n in sizes if n > CACHED_ELEMENTS)


def _unknown(value: ir.Value | None) -> bool:
    return value is not None and _shape(value) is None


def _shape(value: ir.Value | None) -> tuple[int, ...] | None:
    if value is None or value.shape is None:
        return None
    dims = [d for d in value.shape if isinstance(d, int)]
    return tuple(dims) if len(dims) == len(value.shape) else None


def _known(value: ir.Value | None) -> tuple[int, ...]:
    shape = _shape(value)
    if shape is None:
        raise AssertionError("features() has looked")
    return shape


def _gemm(counts: Counts, rows: int, columns: int, depth: int, times: int) -> None:
    """`times` products [rows, depth] x [depth, columns]."""
    columns = -(-columns // GEMM_COLUMNS) * GEMM_COLUMNS
    counts["gemm_macs"] += times * rows * columns * depth
    counts["gemm_passes"] += times * -(-rows // GEMM_ROWS) * columns * depth
    counts["gemm_packed"] += times * depth * columns
    counts["gemm_written"] += times * rows * columns
    counts["gemm_calls"] += times


def _is_spread(rows: int, columns: int, depth: int) -> bool:
    """Whether one GEMM runs in several threads."""
    return rows * columns * depth >= THREADED_MACS


def _half(node: ir.Node, counts: Counts) -> None:
    """float16 is cast to float32 and back around every operator."""
    if node.outputs[0].dtype in HALF:
        values = [*node.outputs, *(v for v in node.inputs if v is not None and not v.const_value)]
        counts["cast"] += sum(prod(_known(v)) for v in values)


def _conv(node: ir.Node, counts: Counts) -> None:
    x, w, y = (_known(v) for v in (node.inputs[0], node.inputs[1], node.outputs[0]))
    group = node.attributes.get_int("group", 1)
    taps, positions = prod(w[2:]), prod(y[2:])
    _half(node, counts)
    if _takes_blocks(node, w, group):
        _blocked_conv(node, counts, x, w, y, group)
        return
    depth, times = w[1] * taps, y[0] * group
    _gemm(counts, w[0] // group, positions, depth, times)
    counts["spread"] += times > 1 or _is_spread(w[0] // group, positions, depth)
    if taps > 1 or any(node.attributes.get_ints("pads", [])):
        counts[f"im2col_{min(len(w) - 2, 3)}d"] += y[0] * group * depth * positions


def _takes_blocks(node: ir.Node, w: Sequence[int], group: int) -> bool:
    weight = node.inputs[1]
    if weight is None or weight.const_value is None or weight.dtype != ir.DataType.FLOAT:
        return False
    if len(w) != 4:
        return False
    if group == 1:
        return w[1] < BLOCK or w[1] % ALIGNMENT == 0
    if w[1] == 1 and w[0] == group:
        return w[0] % BLOCK == 0
    return w[1] % BLOCK == 0 and (w[0] // group) % BLOCK == 0


def _blocked_conv(
    node: ir.Node,
    counts: Counts,
    x: Sequence[int],
    w: Sequence[int],
    y: Sequence[int],
    group: int,
) -> None:
    filters = -(-w[0] // BLOCK) * BLOCK
    positions, taps = y[0] * prod(y[2:]), prod(w[2:])
    counts["spread"] += 1
    counts["blocked_reordered"] += prod(y) + (prod(x) if w[1] >= BLOCK or group > 1 else 0)
    if w[1] == 1 and group > 1:
        row_taps = _row_taps(node, x[2], w[2], y[2])
        counts["blocked_depthwise_macs"] += y[0] * y[3] * filters * row_taps * w[3]
        return
    counts["blocked_macs"] += positions * filters * w[1] * taps
    passes = group * -(-filters // (group * BLOCK * FILTER_BLOCKS))
    counts["blocked_passes"] += positions * passes * w[1] * taps * BLOCK
    # Few rows or columns leave the kernel's tiles half empty; each row is a call.
    counts["blocked_rows"] += y[0] * y[2] * passes * w[1] * w[2]


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


def _conv_transpose(node: ir.Node, counts: Counts) -> None:
    x, w = _known(node.inputs[0]), _known(node.inputs[1])
    group = node.attributes.get_int("group", 1)
    rows, positions = prod(w[1:]), prod(x[2:])
    _half(node, counts)
    depth, times = w[0] // group, x[0] * group
    _gemm(counts, rows, positions, depth, times)
    counts["spread"] += times * _is_spread(rows, positions, depth)
    counts[f"col2im_{min(len(w) - 2, 3)}d"] += times * rows * positions


def _matmul(node: ir.Node, counts: Counts) -> None:
    a, b, y = (_known(v) for v in (node.inputs[0], node.inputs[1], node.outputs[0]))
    rows, columns = (y[-2] if len(y) > 1 else 1), y[-1]
    _half(node, counts)
    batch = prod(y[:-2])
    if len(b) == 2 and batch > 1:
        rows, batch = rows * batch, 1
    _gemm(counts, rows, columns, a[-1], batch)
    counts["spread"] += batch > 1 or _is_spread(rows, columns, a[-1])


def _transpose(node: ir.Node, counts: Counts) -> None:
    shape = _known(node.inputs[0])
    perm = node.attributes.get_ints("perm", range(len(shape))[::-1])
    dtype = node.outputs[0].dtype
    counts.update(transpose_counts(shape, perm, 0 if dtype is None else int(dtype.itemsize)))


def _depth_to_space(node: ir.Node, counts: Counts) -> None:
    y = _known(node.outputs[0])
    counts["depth_to_space"] += prod(y)


def _col2im(node: ir.Node, counts: Counts) -> None:
    blocks = prod(_known(node.inputs[0]))
    strides = node.attributes.get_ints("strides", (1, 1))
    if len(strides) != 2 or any(node.attributes.get_ints("pads", [])):
        counts["placed_by_index"] += blocks
        return
    counts["placed"] += blocks
    counts["placed_lines"] += blocks * min(strides[-1], LINE) // LINE


def _copied(node: ir.Node, counts: Counts) -> None:
    y = _known(node.outputs[0])
    counts["copied"] += prod(y)
    counts["copied_rows"] += prod(y[:-1])


def _elementwise(node: ir.Node, counts: Counts) -> None:
    counts["elementwise"] += sum(prod(_known(v)) for v in (*node.inputs, *node.outputs) if v)


def _cast(node: ir.Node, counts: Counts) -> None:
    counts["cast"] += 2 * prod(_known(node.outputs[0]))


COUNTERS: dict[str, Callable[[ir.Node, Counts], None]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "Gemm": _matmul,
    "Transpose": _transpose,
    "DepthToSpace": _depth_to_space,
    "Col2Im": _col2im,
    "Slice": _copied,
    "Pad": _copied,
    "Concat": _copied,
    "Gather": _copied,
    "Cast": _cast,
}
