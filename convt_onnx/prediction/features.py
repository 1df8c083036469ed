"""What ONNX Runtime's CPU provider does for a model, counted: arithmetic, elements moved, calls.

A model of one node in one form is walked operator by operator, and each adds to a few counts:

* Conv, where the optimiser takes it to the blocked layout (2-D, float32, constant weights, channels
  in whole blocks): direct convolution, and reordering into the layout and out of it.
* Conv otherwise: for each image and group a GEMM of C_out/g rows, C_in/g * k deep, over the output
  positions; im2col makes its right side, unless the kernel is 1.
* ConvTranspose: for each image and group a GEMM of C_out/g * k rows, C_in/g deep, over the input
  positions; col2im adds its columns up, row by row, an element at a time where there is a stride.
* GEMM packs its right side and takes rows six or twelve at a time, positions sixteen at a time.
* Work is spread over threads, which costs something each time: every blocked convolution, the
  images and groups of any other one, and a GEMM from so many multiply-adds on.
* Col2Im writes elements a stride apart, two axes without padding in a loop, others by their index.
* DepthToSpace, Slice, Pad, Concat, Gather copy elements, in runs whose length matters; so does
  Transpose, apart from orders that it has loops of its own for (`transposes`).
* What is larger than a core's own cache costs more wherever it is read or written.
* Each operator is a call, and the run of the session is one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import onnx_ir as ir
import onnx_ir.passes.common

from convt_onnx.errors import ConvtError
from convt_onnx.forms import Setting
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.prediction.convolutions import conv, conv_transpose, matmul, takes_blocks
from convt_onnx.prediction.tally import Tally, known, lines, shape_of
from convt_onnx.prediction.transposes import transpose_counts
from convt_onnx.prediction.vectors import Vectors
from convt_onnx.targets import Target
from convt_onnx.tuning.extract import node_graph

FREE = frozenset(
    {"Constant", "Reshape", "Shape", "Squeeze", "Unsqueeze", "Identity", "Flatten", "Cast"}
)


def node_features(
    node: ConvTransposeNode,
    form: str,
    setting: Setting,
    target: Target,
    x_shape: Sequence[int],
    vectors: Vectors,
    activation: ir.Node | None = None,
) -> dict[str, float] | None:
    """Counts of a node in a form; None where they are not known, as for quantised nodes."""
    if node.x_grid is not None or node.y_grid is not None:
        return None
    try:
        model, _ = node_graph(node, form, setting, target, x_shape, activation)
    except (ConvtError, ValueError):
        return None
    return features(model, vectors)


def features(model: ir.Model, vectors: Vectors) -> dict[str, float] | None:
    """Counts of a model whose sizes are all known, None where some are not."""
    onnx_ir.passes.common.ShapeInferencePass(strict_mode=False)(model)
    tally = Tally(vectors)
    tally.counts["runs"] = 1
    for node in model.graph:
        # What reads constants alone is computed when the session is made.
        if all(v is None or v.const_value is not None for v in node.inputs):
            continue
        counter = COUNTERS.get(node.op_type, _elementwise)
        if node.op_type in FREE and node.op_type != "Cast":
            tally.counts["calls"] += 1
            continue
        if _is_reordered_with(node, vectors):
            continue
        if any(v is not None and shape_of(v) is None for v in (node.outputs[0], *node.inputs)):
            return None
        tally.counts["calls"] += 1
        tally.counts["streamed"] += _streamed(node, vectors)
        counter(node, tally)
    return {name: float(n) for name, n in tally.counts.items()}


def _is_reordered_with(node: ir.Node, vectors: Vectors) -> bool:
    """Whether the channels go to the front only for the blocked layout to be made of them."""
    if node.op_type != "Transpose" or list(node.attributes.get_ints("perm", [])) != [0, 3, 1, 2]:
        return False
    readers = [node for node, _ in node.outputs[0].uses()]
    return bool(readers) and all(r.op_type == "Conv" and takes_blocks(r, vectors) for r in readers)


def _streamed(node: ir.Node, vectors: Vectors) -> int:
    """Elements of inputs and outputs that are too large to stay in a core's own cache."""
    values = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
    sizes = [prod(known(v)) for v in values.values()]
    return sum(n for n in sizes if n > vectors.cached_elements)


def _transpose(node: ir.Node, tally: Tally) -> None:
    shape = known(node.inputs[0])
    perm = node.attributes.get_ints("perm", range(len(shape))[::-1])
    dtype = node.outputs[0].dtype
    tally.counts.update(transpose_counts(shape, perm, 0 if dtype is None else int(dtype.itemsize)))


def _depth_to_space(node: ir.Node, tally: Tally) -> None:
    y = known(node.outputs[0])
    tally.counts["depth_to_space"] += prod(y)


def _col2im(node: ir.Node, tally: Tally) -> None:
    blocks = prod(known(node.inputs[0]))
    strides = node.attributes.get_ints("strides", (1, 1))
    if len(strides) != 2 or any(node.attributes.get_ints("pads", [])):
        tally.counts["placed_by_index"] += blocks
        return
    tally.counts["placed"] += blocks
    tally.counts["placed_lines"] += lines(blocks, strides[-1])


def _copied(node: ir.Node, tally: Tally) -> None:
    y = known(node.outputs[0])
    tally.counts["copied"] += prod(y)
    tally.counts["copied_rows"] += prod(y[:-1])


def _elementwise(node: ir.Node, tally: Tally) -> None:
    tally.counts["elementwise"] += sum(prod(known(v)) for v in (*node.inputs, *node.outputs) if v)


def _cast(node: ir.Node, tally: Tally) -> None:
    tally.counts["cast"] += 2 * prod(known(node.outputs[0]))


COUNTERS: dict[str, Callable[[ir.Node, Tally], None]] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MatMul": matmul,
    "Gemm": matmul,
    "Transpose": _transpose,
    "DepthToSpace": _depth_to_space,
    "Col2Im": _col2im,
    "Slice": _copied,
    "Pad": _copied,
    "Concat": _copied,
    "Gather": _copied,
    "Cast": _cast,
}
