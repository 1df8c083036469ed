"""What a Slice, Split, Pad or Crop drops, if it is the same for every input size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from convt_onnx.graph.bounds import Affine
from convt_onnx.graph.bounds_symbols import Item, ints, numbers
from convt_onnx.graph.bounds_vectors import Vectors
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard

# No tensor is longer: exporters write it, and more, for "to the end".
ENDLESS = (1 << 31) - 1


class View(Protocol):
    """The value that a crop reads: what is known of its sizes."""

    vectors: Vectors

    @property
    def rank(self) -> int:
        """Number of axes."""

    def size(self, axis: int) -> Affine:
        """Size of an axis."""

    def least(self, key: Hashable) -> int | None:
        """Lower bound of a symbol in a size, None where it has none."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One axis of a Slice, with the numbers it is written with where they are known."""

    start: int | None
    end: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a node drops.

    Attributes:
        crops: (begin, end) by axis of its input.
        kept: Axes on which it does something else, and why that is no crop.
        cuts: How a Slice says it, by axis; empty for other operators.
    """

    crops: dict[int, tuple[int, int]]
    kept: dict[int, Refusal]
    cuts: dict[int, Cut]


def is_crop(node: ir.Node) -> bool:
    """Whether a node may drop rows at the ends of an axis."""
    if is_standard(node, "Split"):
        return len(_read_parts(node)) == 1
    return is_standard(node, "Slice", "Pad", "Crop")


def read_part(node: ir.Node) -> ir.Value:
    """The value that a crop makes: of a Split, the part that is read."""
    return _read_parts(node)[0] if node.op_type == "Split" else node.outputs[0]


def _read_parts(node: ir.Node) -> list[ir.Value]:
    return [o for o in node.outputs if o.uses() or o.is_graph_output()]


def read_crop(node: ir.Node, view: View) -> Reading | Refusal | None:
    """What it drops, why that cannot be told, or None where it is no crop at all."""
    if any(a.is_ref() for a in node.attributes.values()):
        return Refusal("CT405", "attributes come from the function's caller")
    readers: dict[str, Callable[[ir.Node, View], Reading | Refusal | None]] = {
        "Slice": _slice,
        "Pad": _pad,
        "Crop": _crop,
        "Split": _split,
    }
    return readers[node.op_type](node, view)


def _slice(node: ir.Node, view: View) -> Reading | Refusal:
    bounds = _slice_bounds(node, view)
    if isinstance(bounds, Refusal):
        return bounds
    reading = Reading({}, {}, {})
    for axis, start, end, step in bounds:
        values = (None if start is None else start.value, None if end is None else end.value)
        reading.cuts[axis] = Cut(*values, step)
        if step is None:
            found: tuple[int, int] | Refusal = Refusal("CT405", f"step of axis {axis}")
        elif step != 1:
            found = Refusal("CT403", f"step {step} on axis {axis}")
        else:
            found = _dropped(axis, start, end, view)
        if isinstance(found, Refusal):
            reading.kept[axis] = found
        else:
            reading.crops[axis] = found
    return reading


Bound = tuple[int, Affine | None, Affine | None, int | None]


def _slice_bounds(node: ir.Node, view: View) -> list[Bound] | Refusal:
    given, vectors = list(node.inputs), view.vectors
    axes: Sequence[int] | None
    if len(given) > 2:
        starts, ends = vectors.vector(given[1]), vectors.vector(given[2])
        axes = vectors.numbers(given[3]) if len(given) > 3 and given[3] is not None else ()
        steps = vectors.vector(given[4]) if len(given) > 4 and given[4] is not None else ()
    else:
        starts, ends = _affine(ints(node, "starts")), _affine(ints(node, "ends"))
        axes, steps = ints(node, "axes") or (), ()
    if axes is None:
        return Refusal("CT408", "computed axes")
    if starts is None or ends is None or steps is None:
        return Refusal("CT405", "bounds of the Slice")
    axes = _normal(axes or range(len(starts)), view.rank)
    if axes is None or not len(starts) == len(ends) == len(axes):
        return Refusal("CT408", "axes of the Slice")
    numbers = [None if s is None else s.value for s in steps] or [1] * len(starts)
    if len(numbers) != len(starts):
        return Refusal("CT408", "steps of the Slice")
    return list(zip(axes, starts, ends, numbers, strict=True))


def _affine(values: Sequence[int] | None) -> list[Affine | None] | None:
    return None if values is None else [Affine(v) for v in values]


def _normal(axes: Sequence[int], rank: int) -> list[int] | None:
    """Axes counted from the front; None where they are outside the rank or repeat."""
    if any(not -rank <= a < rank for a in axes):
        return None
    normal = [a % rank for a in axes]
    return normal if len(set(normal)) == len(normal) else None


def _dropped(
    axis: int, start: Affine | None, end: Affine | None, view: View
) -> tuple[int, int] | Refusal:
    """Rows that start:end drops at the front and at the back; too many count as such."""
    if start is None or end is None:
        return Refusal("CT405", f"bounds of axis {axis}")
    size = view.size(axis)
    run_time = any(isinstance(key, Item) for key, _ in start.terms | end.terms)
    unlike = Refusal("CT405" if run_time else "CT406", f"{start}:{end} of {size} on axis {axis}")
    first, last = _position(start, size, view), _position(end, size, view)
    if first is None or last is None or first.value is None:
        return unlike
    begin = max(0, first.value)
    if last.value is not None and last.value >= ENDLESS:
        return begin, 0
    back = size.minus(last).value
    return unlike if back is None else (begin, max(0, back))


def _position(bound: Affine, size: Affine, view: View) -> Affine | None:
    """Row that a bound stands for; below 0 where it lies before the first one."""
    low, high = bound.lower(view.least), bound.upper(view.least)
    if low is not None and low >= 0:
        return bound
    if high is None or high >= 0:
        return None
    return Affine(0) if high <= -ENDLESS else size.plus(bound)


def _pad(node: ir.Node, view: View) -> Reading | Refusal | None:
    """Pads of 0 and less; more is no crop."""
    given = list(node.inputs)
    axes: Sequence[int] | None = range(view.rank)
    if len(given) > 1:
        pads: Sequence[int] | None = view.vectors.numbers(given[1])
        if len(given) > 3 and given[3] is not None:
            axes = view.vectors.numbers(given[3])
    else:
        pads = ints(node, "pads") or ints(node, "paddings")
    if axes is None:
        return Refusal("CT408", "computed axes")
    if pads is None:
        return Refusal("CT405", "pads of the Pad")
    axes = _normal(axes, view.rank)
    if axes is None or len(pads) != 2 * len(axes):
        return Refusal("CT408", "axes of the Pad")
    if any(p > 0 for p in pads):
        return None
    ends = pads[len(axes) :]
    crops = {a: (-b, -e) for a, b, e in zip(axes, pads, ends, strict=False)}
    return Reading(crops, {}, {})


def _crop(node: ir.Node, view: View) -> Reading | Refusal:
    """The operator that ONNX had experimentally: border is left, top, right, bottom."""
    border, scale = ints(node, "border"), ints(node, "scale")
    if border is None or len(border) != 4 or view.rank != 4 or any(b < 0 for b in border):
        return Refusal("CT408", "border of the Crop")
    left, top, right, bottom = border
    if not scale:
        return Reading({2: (top, bottom), 3: (left, right)}, {}, {})
    if len(scale) != 2:
        return Refusal("CT408", "scale of the Crop")
    reading = Reading({}, {}, {})
    for axis, begin, length in ((2, top, scale[0]), (3, left, scale[1])):
        found = _dropped(axis, Affine(begin), Affine(begin + length), view)
        if isinstance(found, Refusal):
            return found
        reading.crops[axis] = found
    return reading


def _split(node: ir.Node, view: View) -> Reading | Refusal:
    """Parts before and behind the one that is read; the lengths add up to the size."""
    axes = _normal(ints(node, "axis") or (0,), view.rank)
    if axes is None:
        return Refusal("CT408", "axis of the Split")
    axis, place = axes[0], node.outputs.index(read_part(node))
    lengths = _lengths(node, view, axis)
    if lengths is None or len(lengths) != len(node.outputs):
        return Refusal("CT405", "lengths of the Split")
    before, behind = numbers(lengths[:place]), numbers(lengths[place + 1 :])
    if before is None or behind is None:
        return Refusal("CT406", f"parts of the Split on axis {axis}")
    return Reading({axis: (sum(before), sum(behind))}, {}, {})


def _lengths(node: ir.Node, view: View, axis: int) -> Sequence[Affine | None] | None:
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return view.vectors.vector(node.inputs[1])
    written = ints(node, "split")
    if written is not None:
        return _affine(written)
    size, count = view.size(axis).value, len(node.outputs)
    if size is None:
        return [None] * count
    part = -(-size // count)
    return _affine([*[part] * (count - 1), size - part * (count - 1)])
