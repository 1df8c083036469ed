"""Operators that a crop behind them may be moved in front of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.graph.bounds import Affine
from convt_onnx.graph.bounds_layout import LAYOUTS, NEW
from convt_onnx.graph.bounds_sizes import BROADCASTING, ELEMENTWISE, Sizes
from convt_onnx.graph.bounds_symbols import ints, numbers
from convt_onnx.standard import is_standard

# Binary operators said with `axis` and `broadcast` before.
BROADCAST_OPSET = 7


@dataclass(frozen=True, slots=True)
class Passage:
    """How the axes come out.

    Attributes:
        order: Axis of the input, or NEW, that each axis of the output is.
        pinned: Axes of the output along which the operator is not the same everywhere.
    """

    order: tuple[int, ...]
    pinned: frozenset[int]


def passage(
    node: ir.Node, value: ir.Value, own: Sequence[Affine], sizes: Sizes, opset: int
) -> Passage | None:
    """How an operator that reads `value` lets crops through, None where it does not.

    Args:
        node: The operator.
        value: What is cropped behind it.
        own: Size of each axis of the value.
        sizes: Tells those of other values.
        opset: Of the model.
    """
    if not is_standard(node) or any(a.is_ref() for a in node.attributes.values()):
        return None
    if len([o for o in node.outputs if o.name or o.uses()]) != 1:
        return None
    rank = len(own)
    straight = tuple(range(rank))
    if node.op_type in ELEMENTWISE:
        return Passage(straight, frozenset()) if node.inputs[0] is value else None
    if node.op_type in BROADCASTING:
        pinned = _broadcast(node, value, rank, sizes) if opset >= BROADCAST_OPSET else None
    elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        pinned = _scaled(node, value, rank, sizes)
    elif node.op_type == "BatchNormalization":
        pinned = frozenset([1]) if _inference(node, value, opset) else None
    elif node.op_type in LAYOUTS:
        order = sizes.layout(node) if node.inputs[0] is value else None
        return None if order is None else Passage(order, frozenset())
    elif node.op_type == "Reshape":
        return _reshaped(node, own, sizes) if node.inputs[0] is value else None
    else:
        return None
    return None if pinned is None else Passage(straight, pinned)


def _reshaped(node: ir.Node, own: Sequence[Affine], sizes: Sizes) -> Passage | None:
    """A Reshape that only adds or takes away axes of one row; it pins the sizes that it states."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    shape = ints(node, "shape") if given is None else numbers(sizes.elements(given, 0))
    if not shape or ints(node, "allowzero") == (1,):
        return None
    single = {axis for axis, size in enumerate(own) if size == Affine(1)}
    rest = [axis for axis in range(len(own)) if axis not in single]
    order, pinned = [], set()
    for place, size in enumerate(shape):
        if size == 1 or (size == 0 and place in single):
            order.append(NEW)
            continue
        if not rest:
            return None
        axis = rest.pop(0)
        if size > 0:
            pinned.add(place)
        same = axis == place if size == 0 else own[axis] == Affine(size)
        if size >= 0 and not same:
            return None
        order.append(axis)
    return None if rest else Passage(tuple(order), frozenset(pinned))


def _broadcast(node: ir.Node, value: ir.Value, rank: int, sizes: Sizes) -> frozenset[int] | None:
    """Axes along which another operand has more than one value."""
    if node.op_type == "PRelu" and node.inputs[0] is not value:
        return None
    pinned: set[int] = set()
    for other in node.inputs:
        if other is value:
            continue
        count = None if other is None else sizes.rank(other)
        if other is None or count is None or count > rank:
            return None
        one = Affine(1)
        pinned |= {rank - count + i for i in range(count) if sizes.size(other, i) != one}
    return frozenset(pinned)


def _scaled(node: ir.Node, value: ir.Value, rank: int, sizes: Sizes) -> frozenset[int] | None:
    """The axis of per-channel scales."""
    scale = node.inputs[1] if len(node.inputs) > 1 else None
    count = None if scale is None else sizes.rank(scale)
    if node.inputs[0] is not value or scale is None or count is None or count > 1:
        return None
    if count == 0 or sizes.size(scale, 0) == Affine(1):
        return frozenset()
    return frozenset([(ints(node, "axis") or (1,))[0] % rank])


def _inference(node: ir.Node, value: ir.Value, opset: int) -> bool:
    if node.inputs[0] is not value or ints(node, "training_mode") == (1,):
        return False
    return opset >= BROADCAST_OPSET and ints(node, "spatial") != (0,)
