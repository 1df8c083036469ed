"""The size of each axis of a value, traced through what keeps or shifts sizes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.errors import GeometryError
from convt_onnx.graph.bounds import Affine, parse_size
from convt_onnx.graph.node import ConvTransposeNode, read_node
from convt_onnx.graph.operands import Dim, Shapes

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
_SAME_RANK = frozenset(
    "AveragePool Concat LpPool MaxPool Pad Resize Slice Transpose Upsample".split()
)
# Beyond it a size is a symbol of its own, which proves less and is never wrong.
MAX_DEPTH = 64
# The rank of a sum is looked for in each operand, these many times in a row.
MAX_BRANCHES = 4


def is_standard(node: ir.Node) -> bool:
    """An operator of the ONNX standard."""
    return node.domain in ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class OpenSize:
    """The symbol of a size that has no name; `era` tells one from what the value had before."""

    value: ir.Value
    axis: int
    era: int

    def __str__(self) -> str:
        return f"size({self.value.name}, {self.axis})"


class Sizes:
    """Sizes as affine expressions of the model's open sizes.

    A named size is at least 1, others at least 0, except for what `assume` was told. Sizes are
    kept, so a graph is traced once; `forget` is for values whose sizes a rewrite has changed.
    """

    def __init__(self, ir_version: int, shapes: Shapes) -> None:
        self._ir_version = ir_version
        self._shapes = shapes
        self._known: dict[ir.Value, dict[int, Affine]] = {}
        self._era = 0
        self._read: dict[ir.Node, ConvTransposeNode | None] = {}
        self._ranks: dict[ir.Value, int] = {}
        self._least: dict[Hashable, int] = {}

    def least(self, key: Hashable) -> int:
        """Lower bound of a symbol."""
        named = isinstance(key, str) and key.isidentifier()
        return self._least.get(key, 1 if named else 0)

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
        """Lower bounds of sizes that are a symbol; what was assumed before is dropped."""
        self._least = {
            key: low
            for size, low in zip(sizes, least, strict=True)
            if size.constant == 0 and len(size.terms) == 1
            for key, factor in size.terms
            if factor == 1
        }

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
        if traced is not None and not (isinstance(dim, str) and _unnamed(traced)):
            return traced
        return traced if dim is None else parse_size(dim) or traced

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
        if node.op_type == "Transpose":
            return self._transpose(node, node.inputs[0], axis, depth)
        if node.op_type == "Conv":
            return self._conv(node, node.inputs[0], axis, depth)
        if node.op_type == "Concat":
            return self._concat(node, node.inputs[0], axis, depth)
        return None

    def _transpose(self, node: ir.Node, x: ir.Value, axis: int, depth: int) -> Affine | None:
        perm = ints(node, "perm")
        if perm is None:
            rank = self.rank(x)
            perm = None if rank is None else tuple(reversed(range(rank)))
        return None if perm is None or axis >= len(perm) else self.size(x, perm[axis], depth)

    def _concat(self, node: ir.Node, x: ir.Value, axis: int, depth: int) -> Affine | None:
        joined = ints(node, "axis")
        rank = self.rank(x)
        if joined is None or rank is None or joined[0] % rank == axis:
            return None
        return self.size(x, axis, depth)

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
        return Affine(1) if not different else different.pop() if len(different) == 1 else None

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


def _unnamed(size: Affine) -> bool:
    return any(not isinstance(key, str) for key, _ in size.terms)


def ints(node: ir.Node, name: str) -> tuple[int, ...] | None:
    """An attribute of one or several integers; None where absent or given by the caller."""
    attribute = node.attributes.get(name)
    if attribute is None or attribute.is_ref():
        return None
    if attribute.type == ir.AttributeType.INT:
        return (attribute.as_int(),)
    return tuple(attribute.as_ints()) if attribute.type == ir.AttributeType.INTS else None
