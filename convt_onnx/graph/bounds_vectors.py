"""Small integer tensors that a graph computes from sizes, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.graph.bounds import Affine, Least, larger, product, quotient, remainder, smaller
from convt_onnx.graph.bounds_sizes import Sizes
from convt_onnx.graph.bounds_symbols import Item, ints, least, numbers
from convt_onnx.graph.operands import constant
from convt_onnx.standard import is_standard

Items = npt.NDArray[Any]
Binary = Callable[[Affine, Affine], Affine | None]

MAX_ITEMS = 256
MAX_DEPTH = 100
# float32 holds every integer up to here.
EXACT_FLOAT = 1 << 24
INTEGERS = {ir.DataType.INT32: 31, ir.DataType.INT64: 63}
FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Elements are Affine, or None where unknown; `real` says that they are floating-point."""

    items: Items
    real: bool = False

    def numbers(self) -> list[int] | None:
        """All elements in order, None where any is not a number."""
        return numbers(list(self.items.flat))


class Vectors:
    """Evaluates what exporters compute crop bounds with; anything else is None.

    What is cast to 64-bit integers and not known, such as a size that was rounded as a float, is
    a symbol of its own: sums with the same number can still be told apart. `least` gives lower
    bounds of symbols, by default with what `sizes` was told to assume.
    """

    def __init__(self, ir_version: int, sizes: Sizes, least: Least | None = None) -> None:
        self._ir_version = ir_version
        self._sizes = sizes
        self._known: dict[ir.Value, Tensor | None] = {}
        least = least or sizes.least
        self._binary: dict[str, Binary] = {
            "Add": Affine.plus,
            "Sub": Affine.minus,
            "Mul": product,
            "Div": lambda a, b: quotient(a, b, least),
            "Mod": lambda a, b: remainder(a, b, least),
            "Max": lambda a, b: larger(a, b, least),
            "Min": lambda a, b: smaller(a, b, least),
        }

    def vector(self, value: ir.Value | None, depth: int = 0) -> list[Affine | None] | None:
        """The elements of a 1-D tensor; None where nothing is known of it."""
        found = None if value is None else self._tensor(value, depth)
        return None if found is None or found.items.ndim != 1 else list(found.items)

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """The elements of a tensor of known numbers."""
        found = None if value is None else self._tensor(value, 0)
        return None if found is None else found.numbers()

    def _tensor(self, value: ir.Value, depth: int) -> Tensor | None:
        if value not in self._known:
            found = self._find(value, depth) if depth < MAX_DEPTH else None
            if found is None or found.items.size > MAX_ITEMS:
                found = self._unknown(value, depth)
            self._known[value] = _named(found, value) if found else None
        return self._known[value]

    def _unknown(self, value: ir.Value, depth: int) -> Tensor | None:
        """Unknown elements, where at least their number is known."""
        rank = self._sizes.rank(value)
        shape = [self._sizes.size(value, a, depth).value for a in range(rank or 0)]
        known = tuple(n for n in shape if n is not None)
        if rank is None or len(known) != rank or prod(known) > MAX_ITEMS:
            return None
        return Tensor(np.full(known, None, dtype=object))

    def _find(self, value: ir.Value, depth: int) -> Tensor | None:
        known = constant(value, self._ir_version)
        if known is not None:
            return _literal(known.tensor)
        node = value.producer()
        if node is None or not is_standard(node):
            return None
        if any(a.is_ref() for a in node.attributes.values()):
            return None
        if node.op_type == "Shape":
            return self._shape(node, depth)
        arguments: list[Tensor | None] = []
        for v in node.inputs:
            found = None if v is None else self._tensor(v, depth + 1)
            if found is None and v is not None:
                return None
            arguments.append(found)
        present = [a for a in arguments if a is not None]
        if not present or arguments[0] is None:
            return None
        try:
            return self._computed(node, value, present)
        except (ValueError, LookupError, TypeError, OverflowError):
            # An ill-formed node; it would not run either.
            return None

    def _computed(self, node: ir.Node, value: ir.Value, arguments: list[Tensor]) -> Tensor | None:
        if node.op_type in self._binary:
            return _elementwise(self._binary[node.op_type], node, arguments)
        if node.op_type == "Split":
            return _split(node, arguments, node.outputs.index(value))
        items = _moved(node, arguments)
        return None if items is None else _typed(node, Tensor(items, arguments[0].real))

    def _shape(self, node: ir.Node, depth: int) -> Tensor | None:
        x = node.inputs[0]
        rank = None if x is None else self._sizes.rank(x)
        if x is None or rank is None:
            return None
        start, end = ints(node, "start"), ints(node, "end")
        axes = range(rank)[None if start is None else start[0] : None if end is None else end[0]]
        return Tensor(_array([self._sizes.size(x, a, depth) for a in axes], (len(axes),)))


def trace_pads(ir_version: int, sizes: Sizes) -> None:
    """Let sizes follow pads that the graph computes; sizes are kept, so nothing is assumed."""
    sizes.elements = Vectors(ir_version, sizes, least).vector


def _named(tensor: Tensor, value: ir.Value) -> Tensor:
    """Symbols for what is not known of a Cast's result."""
    node = value.producer()
    if node is None or node.op_type != "Cast" or ints(node, "to") != (int(ir.DataType.INT64),):
        return tensor
    items = [
        Affine.symbol(Item(value, i)) if a is None else a for i, a in enumerate(tensor.items.flat)
    ]
    return Tensor(_array(items, tensor.items.shape))


def _array(items: Sequence[Affine | None], shape: tuple[int, ...]) -> Items:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def _literal(tensor: ir.TensorProtocol) -> Tensor | None:
    if tensor.size > MAX_ITEMS or tensor.dtype not in (*INTEGERS, *FLOATS):
        return None
    real = tensor.dtype in FLOATS
    values = tensor.numpy()
    items = [Affine(int(v)) if not real or _exact(float(v)) else None for v in values.flat]
    return Tensor(_array(items, values.shape), real)


def _exact(v: float) -> bool:
    return abs(v) <= EXACT_FLOAT and v == int(v)


def _elementwise(function: Binary, node: ir.Node, arguments: list[Tensor]) -> Tensor | None:
    if "axis" in node.attributes or "broadcast" in node.attributes:
        return None
    real = any(a.real for a in arguments)
    if node.op_type == "Mod" and (real or ints(node, "fmod") == (1,)):
        return None

    def both(a: Affine | None, b: Affine | None) -> Affine | None:
        if a is None or b is None:
            return None
        if real and node.op_type == "Div" and (b.value is None or a.constant % (b.value or 1)):
            return None
        return _fitting(function(a, b), real)

    result = arguments[0].items
    for other in arguments[1:]:
        try:
            shape = np.broadcast_shapes(result.shape, other.items.shape)
        except ValueError:
            return None
        pairs = np.broadcast(result, other.items)
        result = _array([both(a, b) for a, b in pairs], shape)
    return Tensor(result, real)


def _fitting(a: Affine | None, real: bool) -> Affine | None:
    """None where the type of the tensor does not hold the number, or floats may round it."""
    if a is None or (real and a.value is None):
        return None
    return a if abs(a.constant) < (EXACT_FLOAT if real else 1 << 63) else None


def _split(node: ir.Node, arguments: list[Tensor], index: int) -> Tensor | None:
    items = arguments[0].items
    if items.ndim != 1 or (ints(node, "axis") or (0,))[0] not in (0, -1):
        return None
    lengths: Sequence[int] | None = ints(node, "split")
    if len(arguments) > 1:
        lengths = arguments[1].numbers()
    if lengths is None:
        part = -(-len(items) // len(node.outputs))
        lengths = [part] * len(node.outputs)
    start = sum(lengths[:index])
    return Tensor(items[start : start + lengths[index]], arguments[0].real)


def _typed(node: ir.Node, tensor: Tensor) -> Tensor | None:
    """The result of Cast; other operators keep the type."""
    if node.op_type != "Cast":
        return tensor
    to = ir.DataType((ints(node, "to") or (0,))[0])
    if to not in INTEGERS and to not in FLOATS:
        return None
    limit = EXACT_FLOAT if to in FLOATS else 1 << INTEGERS[to]

    def fits(a: Affine) -> bool:
        wraps = to == ir.DataType.INT32 and any(isinstance(key, Item) for key, _ in a.terms)
        return abs(a.constant) < limit and not wraps

    fitting = [
        None if a is None or not fits(a) else _fitting(a, to in FLOATS) for a in tensor.items.flat
    ]
    return Tensor(_array(fitting, tensor.items.shape), to in FLOATS)


def _moved(node: ir.Node, arguments: list[Tensor]) -> Items | None:
    """What operators that only move elements give."""
    items, kind = arguments[0].items, node.op_type
    rest = [a.numbers() for a in arguments[1:]]
    if kind in ("Cast", "Identity", "Floor", "Ceil", "Round"):
        return items
    if kind == "Neg":
        return _array([None if a is None else a.times(-1) for a in items.flat], items.shape)
    if kind == "Concat":
        return np.concatenate([a.items for a in arguments], axis=(ints(node, "axis") or (1,))[0])
    if kind == "Transpose":
        return np.transpose(items, ints(node, "perm"))
    if any(r is None for r in rest):
        return None
    numbers = [r for r in rest if r is not None]
    if kind == "Gather" and numbers:
        where = np.array(numbers[0], dtype=np.int64).reshape(arguments[1].items.shape)
        taken = np.take(items, where, axis=(ints(node, "axis") or (0,))[0])
        return taken if isinstance(taken, np.ndarray) else _array([taken], ())
    if kind == "Slice":
        return _sliced(node, items, numbers)
    return _reshaped(node, items, numbers)


def _sliced(node: ir.Node, items: Items, numbers: list[list[int]]) -> Items | None:
    starts, ends = ints(node, "starts"), ints(node, "ends")
    if starts is None or ends is None:
        starts, ends = tuple(numbers[0]), tuple(numbers[1])
    default = range(len(starts))
    axes = numbers[2] if len(numbers) > 2 else ints(node, "axes") or default
    steps = numbers[3] if len(numbers) > 3 else [1] * len(starts)
    where = [slice(None)] * items.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(start, end, step)
    return np.asarray(items[tuple(where)])


def _reshaped(node: ir.Node, items: Items, numbers: list[list[int]]) -> Items | None:
    if node.op_type in ("Unsqueeze", "Squeeze"):
        axes = numbers[0] if numbers else ints(node, "axes")
        if node.op_type == "Squeeze":
            return np.squeeze(items, axis=None if axes is None else tuple(axes))
        return None if axes is None else np.expand_dims(items, tuple(axes))
    if node.op_type == "Reshape":
        shape = numbers[0] if numbers else ints(node, "shape")
        if shape is None:
            return None
        return items.reshape([items.shape[i] if n == 0 else n for i, n in enumerate(shape)])
    if node.op_type == "Expand" and numbers:
        shape = np.broadcast_shapes(items.shape, tuple(numbers[0]))
        return np.array(np.broadcast_to(items, shape)) if prod(shape) <= MAX_ITEMS else None
    if node.op_type == "Tile" and numbers:
        return np.tile(items, numbers[0]) if prod(numbers[0]) <= MAX_ITEMS else None
    if node.op_type == "ConstantOfShape":
        return _filled(node, Tensor(items).numbers())
    return None


def _filled(node: ir.Node, shape: list[int] | None) -> Items | None:
    fill = node.attributes["value"].as_tensor().numpy().item() if node.attributes else 0
    if shape is None or prod(shape) > MAX_ITEMS or fill != int(fill):
        return None
    return np.full(shape, Affine(int(fill)), dtype=object)
