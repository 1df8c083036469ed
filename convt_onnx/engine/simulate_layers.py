"""What each kind of layer computes, after TensorRT's operator reference.

https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/operators/index.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from convt_onnx.engine.simulate_elementwise import ACTIVATIONS, BINARY, REDUCTIONS, UNARY
from convt_onnx.engine.simulate_gap import no_rule, rule

Array = npt.NDArray[Any]
Index = tuple[int | slice | EllipsisType, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A layer of the binding with the arrays it reads; None for an absent input."""

    raw: Any
    inputs: tuple[Array | None, ...]

    def optional(self, index: int) -> Array | None:
        """An input that may be absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def array(self, index: int) -> Array:
        """An input that must be there."""
        value = self.optional(index)
        if value is None:
            raise AssertionError(f"layer {self.raw.name!r} has no input {index}")
        return value

    def ints(self, index: int, own: Any) -> list[int]:
        """Integers from an input, or from the layer itself where that is absent."""
        value = self.optional(index)
        return [int(v) for v in (own if value is None else value.reshape(-1))]


def _axes(mask: int, rank: int) -> tuple[int, ...]:
    return tuple(i for i in range(rank) if mask >> i & 1)


def _constant(call: Call) -> Array:
    shape = tuple(call.raw.shape)
    return np.asarray(call.raw.weights).reshape(shape)


def _cast(call: Call) -> Array:
    return call.array(0)


def _elementwise(call: Call) -> Array:
    return rule(BINARY, call.raw.op.name, call.raw)(call.array(0), call.array(1))


def _unary(call: Call) -> Array:
    return rule(UNARY, call.raw.op.name, call.raw)(call.array(0))


def _activation(call: Call) -> Array:
    function = rule(ACTIVATIONS, call.raw.type.name, call.raw)
    return function(call.array(0), call.raw.alpha, call.raw.beta)


def _parametric_relu(call: Call) -> Array:
    x, slope = call.array(0), call.array(1)
    return np.where(x < 0, x * slope, x)


def _select(call: Call) -> Array:
    return np.where(call.array(0), call.array(1), call.array(2))


def _concatenation(call: Call) -> Array:
    return np.concatenate([a for a in call.inputs if a is not None], axis=call.raw.axis)


def _shape(call: Call) -> Array:
    return np.array(call.array(0).shape, np.int64)


def _squeeze(call: Call) -> Array:
    return np.squeeze(call.array(0), axis=tuple(call.ints(1, ())))


def _unsqueeze(call: Call) -> Array:
    return np.expand_dims(call.array(0), axis=tuple(call.ints(1, ())))


def _shuffle(call: Call) -> Array:
    """Transpose, reshape, transpose; a size of 0 may stand for the input's."""
    raw, x = call.raw, call.array(0)
    x = x.transpose(_permutation(raw.first_transpose, x.ndim))
    own = raw.reshape_dims if call.optional(1) is None else ()
    wanted: Sequence[int] = x.shape if own is None else call.ints(1, own)
    if raw.zero_is_placeholder:
        wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    x = x.reshape(tuple(wanted))
    return x.transpose(_permutation(raw.second_transpose, x.ndim))


def _permutation(given: Any, rank: int) -> list[int]:
    return [int(given[i]) for i in range(rank)]


def _slice(call: Call) -> Array:
    """Rows start + i * stride of each axis, and what lies outside by the layer's mode."""
    raw, x = call.raw, call.array(0)
    starts, sizes = call.ints(1, raw.start), call.ints(2, raw.shape)
    steps = call.ints(3, raw.stride)
    fill = call.optional(4)
    axes = call.ints(5, getattr(raw, "axes", None) or range(len(starts)))
    mode = raw.mode.name
    outside = np.zeros((1,) * x.ndim, np.bool_)
    for axis, start, size, step in zip(axes, starts, sizes, steps, strict=True):
        rows = start + step * np.arange(size)
        length = x.shape[axis]
        beyond = (rows < 0) | (rows >= length)
        if mode == "STRICT_BOUNDS" and beyond.any():
            raise no_rule(f"layer {raw.name!r}, which reads beyond its input")
        if mode == "FILL":
            outside = outside | beyond.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        x = np.take(x, _within(rows, length, mode), axis=axis)
    value = 0 if fill is None else fill.reshape(())
    return np.where(outside, np.asarray(value, x.dtype), x)


def _within(rows: npt.NDArray[np.int64], length: int, mode: str) -> npt.NDArray[np.int64]:
    if mode == "WRAP":
        return rows % length
    if mode == "REFLECT" and length > 1:
        period = 2 * (length - 1)
        rows = rows % period
        return np.where(rows >= length, period - rows, rows)
    return np.clip(rows, 0, length - 1)


def _gather(call: Call) -> Array:
    raw, x, indices = call.raw, call.array(0), call.array(1).astype(np.int64)
    mode = raw.mode.name
    if mode == "ELEMENT":
        return np.take_along_axis(x, indices, axis=raw.axis)
    if mode != "DEFAULT" or raw.num_elementwise_dims:
        raise no_rule(f"a gather of mode {mode}, layer {raw.name!r}")
    return np.take(x, indices, axis=raw.axis)


def _reduce(call: Call) -> Array:
    x = call.array(0)
    axes = _axes(call.raw.axes, x.ndim)
    function = rule(REDUCTIONS, call.raw.op.name, call.raw)
    return function(x, axis=axes, keepdims=call.raw.keep_dims)


def _softmax(call: Call) -> Array:
    x = call.array(0)
    axes = _axes(call.raw.axes, x.ndim)
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return np.asarray(e / e.sum(axis=axes, keepdims=True))


def _matrix_multiply(call: Call) -> Array:
    operands = [call.array(0), call.array(1)]
    for i, op in enumerate((call.raw.op0, call.raw.op1)):
        if op.name == "TRANSPOSE":
            operands[i] = operands[i].swapaxes(-1, -2)
    product: Array = np.matmul(operands[0], operands[1])
    return product


def _scale(call: Call) -> Array:
    """(x * scale + shift) ^ power."""
    raw, x = call.raw, call.array(0)
    shape = [1] * x.ndim
    if raw.mode.name == "CHANNEL":
        shape[raw.channel_axis] = -1
    elif raw.mode.name == "ELEMENTWISE":
        shape = list(x.shape)
    scale, shift, power = (np.asarray(w) for w in (raw.scale, raw.shift, raw.power))
    y = x * scale.reshape(shape) if scale.size else x
    y = y + shift.reshape(shape) if shift.size else y
    return np.power(y, power.reshape(shape)) if power.size else y


def _normalization(call: Call) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over the axes or over groups."""
    raw, x = call.raw, call.array(0)
    groups = raw.num_groups
    split = x if groups == 1 else x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    axes = _axes(raw.axes, x.ndim) if groups == 1 else tuple(range(2, split.ndim))
    mean = split.mean(axis=axes, keepdims=True)
    variance = split.var(axis=axes, keepdims=True)
    y = ((split - mean) / np.sqrt(variance + raw.epsilon)).reshape(x.shape)
    return np.asarray(y * call.array(1) + call.array(2))


def _dequantize(call: Call) -> Array:
    scale = _along(call.array(1), call.raw.axis, call.array(0).ndim)
    return np.asarray(call.array(0).astype(np.float32) * scale)


def _quantize(call: Call) -> Array:
    scale = _along(call.array(1), call.raw.axis, call.array(0).ndim)
    return np.clip(np.rint(call.array(0) / scale), -128, 127)


def _along(scale: Array, axis: int, rank: int) -> Array:
    if scale.size == 1:
        return scale.reshape(())
    return scale.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def _pooling(call: Call) -> Array:
    raw, x = call.raw, call.array(0)
    window, strides = tuple(raw.window_size_nd), tuple(raw.stride_nd)
    pads, grown = _pool_pads(raw, x, window, strides)
    axes = tuple(range(-len(window), 0))
    if raw.type.name == "MAX":
        windows = _windows(np.pad(x, pads, constant_values=-np.inf), window, strides)
        return np.asarray(windows.max(axis=axes))
    if raw.type.name != "AVERAGE":
        raise no_rule(f"a pooling of type {raw.type.name}, layer {raw.name!r}")
    total = _windows(np.pad(x, pads), window, strides).sum(axis=axes)
    if raw.average_count_excludes_padding:
        counted = np.pad(np.ones_like(x), pads)
        return np.asarray(total / _windows(counted, window, strides).sum(axis=axes))
    if grown:
        # Whether rows that the rounding adds count is not said.
        raise no_rule(f"an average of padding that is rounded up, layer {raw.name!r}")
    return np.asarray(total / prod(window))


def _pool_pads(
    raw: Any, x: Array, window: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[list[tuple[int, int]], bool]:
    """Rows before and after each axis, and whether rounding up has added some."""
    pads, grown = [(0, 0)] * (x.ndim - len(window)), False
    up = raw.padding_mode.name == "EXPLICIT_ROUND_UP"
    for axis, w, s in zip(range(2, x.ndim), window, strides, strict=True):
        before, after = raw.pre_padding[axis - 2], raw.post_padding[axis - 2]
        beyond = (x.shape[axis] + before + after - w) % s
        more = s - beyond if up and beyond else 0
        pads.append((before, after + more))
        grown = grown or more > 0
    return pads, grown


def _windows(x: Array, window: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    axes = tuple(range(x.ndim - len(window), x.ndim))
    views = np.lib.stride_tricks.sliding_window_view(x, window, axis=axes)
    whole = [slice(None)] * len(window)
    kept: Index = (..., *[slice(None, None, s) for s in strides], *whole)
    return np.asarray(views[kept])


RULES: Mapping[str, Callable[[Call], Array]] = {
    "ACTIVATION": _activation,
    "CAST": _cast,
    "CONCATENATION": _concatenation,
    "CONSTANT": _constant,
    "DEQUANTIZE": _dequantize,
    "ELEMENTWISE": _elementwise,
    "GATHER": _gather,
    "IDENTITY": _cast,
    "MATRIX_MULTIPLY": _matrix_multiply,
    "NORMALIZATION": _normalization,
    "PARAMETRIC_RELU": _parametric_relu,
    "POOLING": _pooling,
    "QUANTIZE": _quantize,
    "REDUCE": _reduce,
    "SCALE": _scale,
    "SELECT": _select,
    "SHAPE": _shape,
    "SHUFFLE": _shuffle,
    "SLICE": _slice,
    "SOFTMAX": _softmax,
    "SQUEEZE": _squeeze,
    "UNARY": _unary,
    "UNSQUEEZE": _unsqueeze,
}
