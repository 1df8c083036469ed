"""The size of each axis of a value, traced through what keeps or shifts sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import onnx_ir as ir

from convt_onnx.errors import GeometryError
from convt_onnx.graph.bounds import Affine, parse_size
from convt_onnx.graph.bounds_layout import LAYOUTS, NEW, layout
from convt_onnx.graph.bounds_symbols import Item, OpenSize, ints, least, numbers
from convt_onnx.graph.node import ConvTransposeNode, read_node
from convt_onnx.graph.operands import Dim, Shapes
from convt_onnx.standard import is_standard

# One input, each element of the output from the element at the same place.
ELEMENTWISE = frozenset(
    (
        "Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu "
        "HardSigmoid HardSwish Identity LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Sigmoid "
        "Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu"
    ).split()
)
# Two inputs or more that broadcast.
BROADCASTING = frozenset("Add Div Max Min Mul Pow PRelu Sub".split())
_SAME_SHAPE = ELEMENTWISE | frozenset(
    (
        "BatchNormalization DequantizeLinear Dropout GroupNormalization InstanceNormalization "
        "LayerNormalization LogSoftmax LpNormalization QuantizeLinear Softmax"
    ).split()
)
_SAME_RANK = frozenset("AveragePool Concat LpPool MaxPool Pad Resize Slice Upsample".split())
# Beyond it a size is a symbol of its own, which proves less and is never wrong.
MAX_DEPTH = 64
# The rank of a sum is looked for in each operand, these many times in a row.
MAX_BRANCHES = 4

Elements = Callable[[ir.Value | None, int], list[Affine | None] | None]


class Sizes:
    """Sizes as affine expressions of the model's open sizes.

    A named size is at least 1, others at least 0, except for what `assume` was told. Sizes are
    kept, so a graph is traced once; `forget` is for values whose sizes a rewrite has changed.
    `elements` reads the pads that a graph computes; `trace_pads` puts it there.
    """

    def __init__(self, ir_version: int, shapes: Shapes) -> None:
        self._ir_version = ir_version
        self._shapes = shapes
        self._known: dict[ir.Value, dict[int, Affine]] = {}
        self._era = 0
        self._read: dict[ir.Node, ConvTransposeNode | None] = {}
        self._ranks: dict[ir.Value, int] = {}
        self._least: dict[Hashable, int] = {}
        self.elements: Elements = lambda value, depth: None

    def least(self, key: Hashable) -> int | None:
        """Lower bound of a symbol, None where it has none."""
        return self._least.get(key, least(key))

    def rank(self, value: ir.Value, depth: int = 0) -> int | None:
        """Number of axes, where known."""
        for _ in range(MAX_DEPTH if depth < MAX_BRANCHES else 0):
            declared = self._declared(value)
            if declared is not None:
                return len(declared)
            if value in self._ranks:
                return self._ranks[value]
            node = value.producer()
            if node is None or not is_standard(node) or value is not node.outputs[0]:
                return None
            if node.op_type in ("ConvTranspose", "Conv") and len(node.inputs) > 1:
                source = node.inputs[1]
            elif node.op_type in BROADCASTING:
                return self._broadcast_rank(node, depth + 1)
            elif node.op_type in LAYOUTS:
                order = self.layout(node, depth + 1)
                return None if order is None else len(order)
            elif node.op_type in _SAME_SHAPE or node.op_type in _SAME_RANK:
                source = node.inputs[0]
            else:
                return None
            if source is None:
                return None
            value = source
        return None

    def _broadcast_rank(self, node: ir.Node, depth: int) -> int | None:
        ranks = [None if v is None else self.rank(v, depth) for v in node.inputs]
        known = [r for r in ranks if r is not None]
        return max(known) if known and len(known) == len(ranks) else None

    def size(self, value: ir.Value, axis: int, depth: int = 0) -> Affine:
        """Size of an axis; a symbol of its own where nothing is known of it."""
        known = self._known.setdefault(value, {})
        if axis not in known:
            found = self._find(value, axis, depth)
            known[axis] = found or Affine.symbol(OpenSize(value, axis, self._era))
        return known[axis]

    def assume(self, sizes: Sequence[Affine], least: Sequence[int]) -> None:
        """Lower bounds of sizes that depend on one symbol; what was assumed before is dropped."""
        self._least = {}
        for size, low in zip(sizes, least, strict=True):
            if len(size.terms) != 1:
                continue
            ((key, factor),) = size.terms
            if factor > 0:
                bounds = (-((size.constant - low) // factor), self.least(key))
                self._least[key] = max(b for b in bounds if b is not None)

    def know(self, read: ConvTransposeNode) -> None:
        """Take a node as somebody has read it; its input has the rank of the weight."""
        self._read[read.node] = read
        self._ranks[read.x] = read.spec.ndim + 2

    def forget(self, values: Sequence[ir.Value], read: ConvTransposeNode) -> None:
        """The values behind a node have other sizes now, and the node reads like this."""
        self._era += 1
        for value in values:
            self._known.pop(value, None)
        self._read[read.node] = read

    def _declared(self, value: ir.Value) -> Sequence[Dim] | None:
        inferred = self._shapes.get(value.name or "")
        if value.shape is None:
            return inferred
        own = [d if isinstance(d, int) else None for d in value.shape]
        if inferred is None or len(inferred) != len(own):
            return own
        return [i if d is None else d for d, i in zip(own, inferred, strict=True)]

    def _find(self, value: ir.Value, axis: int, depth: int) -> Affine | None:
        declared = self._declared(value)
        dim = declared[axis] if declared is not None and axis < len(declared) else None
        if isinstance(dim, int):
            return Affine(dim)
        traced = self._trace(value, axis, depth + 1) if depth < MAX_DEPTH else None
        if traced is None or (isinstance(dim, str) and _says_less(traced, dim)):
            return None if dim is None else parse_size(dim) or traced
        return traced

    def _trace(self, value: ir.Value, axis: int, depth: int) -> Affine | None:
        node = value.producer()
        if node is None or not is_standard(node) or value is not node.outputs[0]:
            return None
        if node.op_type == "ConvTranspose":
            return self._conv_transpose(node, axis, depth)
        if node.op_type in BROADCASTING:
            return self._broadcast(node, value, axis, depth)
        if not node.inputs or node.inputs[0] is None:
            return None
        if node.op_type in _SAME_SHAPE:
            return self.size(node.inputs[0], axis, depth)
        if node.op_type in LAYOUTS:
            return self._moved(node, node.inputs[0], axis, depth)
        if node.op_type == "Conv":
            return self._conv(node, node.inputs[0], axis, depth)
        if node.op_type == "Concat":
            return self._concat(node, node.inputs[0], axis, depth)
        return self._pad(node, node.inputs[0], axis, depth) if node.op_type == "Pad" else None

    def layout(self, node: ir.Node, depth: int = 0) -> tuple[int, ...] | None:
        """The axis of its input, or NEW, that each axis of one of LAYOUTS is, where known."""
        x = node.inputs[0]
        rank = None if x is None else self.rank(x, depth)
        return (
            None if rank is None else layout(node, rank, lambda v: numbers(self.elements(v, depth)))
        )

    def _moved(self, node: ir.Node, x: ir.Value, axis: int, depth: int) -> Affine | None:
        order = self.layout(node)
        if order is None or axis >= len(order):
            return None
        return Affine(1) if order[axis] == NEW else self.size(x, order[axis], depth)

    def _concat(self, node: ir.Node, x: ir.Value, axis: int, depth: int) -> Affine | None:
        joined = ints(node, "axis")
        rank = self.rank(x)
        if joined is None or not rank:
            return None
        if joined[0] % rank != axis:
            return self.size(x, axis, depth)
        total = Affine(0)
        for part in node.inputs:
            if part is None:
                return None
            total = total.plus(self.size(part, axis, depth))
        return total

    def _pad(self, node: ir.Node, x: ir.Value, axis: int, depth: int) -> Affine | None:
        rank = self.rank(x)
        if not rank:
            return None
        given = [*node.inputs, None, None, None]
        axes: list[int] | None = list(range(rank))
        if given[3] is not None:
            axes = numbers(self.elements(given[3], depth))
        pads = self.elements(given[1], depth) if given[1] is not None else _attribute_pads(node)
        if axes is None or pads is None or len(pads) != 2 * len(axes):
            return None
        size = self.size(x, axis, depth)
        for place, padded in enumerate(axes):
            begin, end = pads[place], pads[place + len(axes)]
            if padded % rank != axis:
                continue
            if begin is None or end is None:
                return None
            size = size.plus(begin).plus(end)
        return size

    def _broadcast(self, node: ir.Node, value: ir.Value, axis: int, depth: int) -> Affine | None:
        rank = self.rank(value)
        ranks = [None if v is None else self.rank(v) for v in node.inputs]
        known = [r for r in ranks if r is not None]
        if rank is None or len(known) != len(ranks) or ints(node, "axis") is not None:
            return None
        sizes = [
            self.size(v, axis - (rank - r), depth)
            for v, r in zip(node.inputs, known, strict=True)
            if v is not None and axis >= rank - r
        ]
        different = {s for s in sizes if s != Affine(1)}
        if len(different) < 2:
            return different.pop() if different else Affine(1)
        for v, r in zip(node.inputs, known, strict=True):
            if v is not None and axis >= rank - r and self._several(v, axis - (rank - r)):
                # The other operands have as many, or one.
                return self.size(v, axis - (rank - r), depth)
        return None

    def _several(self, value: ir.Value, axis: int) -> bool:
        """Whether an axis has two rows or more, whatever the model is fed with."""
        low = self.size(value, axis).lower(least)
        if low is not None and low > 1:
            return True
        node = value.producer()
        while node is not None and node.op_type in _SAME_SHAPE and is_standard(node):
            source = node.inputs[0] if value is node.outputs[0] else None
            if source is None:
                return False
            value, node = source, source.producer()
        known = None if node is None else self._read.get(node)
        if known is None or known.late is not None or not 2 <= axis < known.spec.ndim + 2:
            return False
        along = tuple(known.spec.axes())[axis - 2]
        return along.output_length(along.least_length) > 1

    def _conv_transpose(self, node: ir.Node, axis: int, depth: int) -> Affine | None:
        if node not in self._read:
            try:
                read = read_node(node, "", self._ir_version, self._shapes)
            except GeometryError:
                read = None
            self._read[node] = read if isinstance(read, ConvTransposeNode) else None
        known = self._read[node]
        if known is None or axis >= known.spec.ndim + 2:
            return None
        if axis < 2:
            return Affine(known.spec.out_channels) if axis else self.size(known.x, 0, depth)
        if known.late is not None:
            return Affine(known.late.output[axis - 2])
        along = tuple(known.spec.axes())[axis - 2]
        return self.size(known.x, axis, depth).times(along.stride).plus(along.offset - along.stride)

    def _conv(self, node: ir.Node, x: ir.Value, axis: int, depth: int) -> Affine | None:
        """Stride 1 alone: others round."""
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        rank = None if weight is None else self.rank(weight)
        if weight is None or rank is None or axis >= rank:
            return None
        if axis < 2:
            return self.size(weight, 0, depth) if axis else self.size(x, 0, depth)
        n, i = rank - 2, axis - 2
        auto_pad = node.attributes["auto_pad"].value if "auto_pad" in node.attributes else "NOTSET"
        if (ints(node, "strides") or (1,) * n)[i] != 1:
            return None
        size = self.size(x, axis, depth)
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            return size
        kernel = self.size(weight, axis, depth).value
        pads = (0,) * (2 * n) if auto_pad == "VALID" else ints(node, "pads") or (0,) * (2 * n)
        if kernel is None:
            return None
        dilation = (ints(node, "dilations") or (1,) * n)[i]
        return size.plus(pads[i] + pads[i + n] - (kernel - 1) * dilation)


def _says_less(traced: Affine, dim: str) -> bool:
    """Whether a traced size is of symbols of its own where the file has a name for it."""
    kinds = {type(key) for key, _ in traced.terms}
    return OpenSize in kinds or (Item in kinds and dim.isidentifier())


def _attribute_pads(node: ir.Node) -> list[Affine | None] | None:
    pads = ints(node, "pads") or ints(node, "paddings")
    return None if pads is None else [Affine(p) for p in pads]
