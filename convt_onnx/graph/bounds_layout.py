"""Operators that only reorder, add or take away axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from convt_onnx.graph.bounds_symbols import ints

LAYOUTS = frozenset(("Transpose", "Squeeze", "Unsqueeze"))
# In place of an axis of the input: the output's own, of one row.
NEW = -1


def layout(
    node: ir.Node, rank: int, numbers: Callable[[ir.Value | None], Sequence[int] | None]
) -> tuple[int, ...] | None:
    """The axis of the input, or NEW, that each axis of the output is; None where not known.

    Args:
        node: One of LAYOUTS.
        rank: Of its input.
        numbers: Reads the axes that the node takes as an input.
    """
    if node.op_type == "Transpose":
        order = ints(node, "perm") or tuple(reversed(range(rank)))
        return order if sorted(order) == list(range(rank)) else None
    axes = numbers(node.inputs[1]) if len(node.inputs) > 1 else ints(node, "axes")
    if axes is None:
        return None
    wide = rank if node.op_type == "Squeeze" else rank + len(axes)
    normal = {a % wide for a in axes if -wide <= a < wide}
    if len(normal) != len(axes):
        return None
    if node.op_type == "Squeeze":
        return tuple(a for a in range(rank) if a not in normal)
    kept = iter(range(rank))
    return tuple(NEW if a in normal else next(kept) for a in range(wide))
