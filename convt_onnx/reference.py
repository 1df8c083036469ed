"""The float64 oracle: a transposed convolution as a scatter, and its gradients.

Each input row adds itself, times each tap, to the output (see `convt_onnx.spec`). Slow on purpose
where clarity asks for it; the only cleverness is one matrix product a tap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from types import EllipsisType

import numpy as np
import numpy.typing as npt

from convt_onnx.errors import GeometryError
from convt_onnx.spec import Axis, ConvTransposeSpec

Array = npt.NDArray[np.float64]
Index = tuple[int | slice | EllipsisType, ...]


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients with respect to input, weight and bias; shapes as the operands."""

    input: Array
    weight: Array
    bias: Array


def conv_transpose(
    x: npt.ArrayLike, weight: npt.ArrayLike, bias: npt.ArrayLike | None, spec: ConvTransposeSpec
) -> Array:
    """Transposed convolution in float64.

    Args:
        x: [N, C_in, *sizes].
        weight: [C_in, C_out/group, *kernel].
        bias: [C_out] or None.
        spec: Geometry; its channels and kernel must be the weight's.

    Returns:
        [N, C_out, *spec.output_sizes(sizes)].

    Raises:
        GeometryError: Shapes do not fit the spec, or the output would be empty.
    """
    xs, ws, bs = _operands(x, weight, bias, spec)
    n, sizes = xs.shape[0], xs.shape[2:]
    out_sizes = spec.output_sizes(sizes)
    g, m = spec.group, spec.out_per_group
    y = np.zeros((n, g, m, *out_sizes))
    y += bs.reshape(g, m, *(1,) * spec.ndim)
    xg = xs.reshape(n, g, spec.in_per_group, *sizes)
    wg = ws.reshape(g, spec.in_per_group, m, *spec.kernel)
    for tap, read, write in _taps(spec, sizes, out_sizes):
        y[write] += _grouped(wg[tap].transpose(0, 2, 1), xg[read])
    return y.reshape(n, spec.out_channels, *out_sizes)


def conv_transpose_gradients(
    grad_output: npt.ArrayLike, x: npt.ArrayLike, weight: npt.ArrayLike, spec: ConvTransposeSpec
) -> Gradients:
    """Gradients of `conv_transpose` in float64, from the same definition read the other way.

    Args:
        grad_output: [N, C_out, *output sizes].
        x: [N, C_in, *sizes].
        weight: [C_in, C_out/group, *kernel].
        spec: Geometry.

    Raises:
        GeometryError: Shapes do not fit the spec.
    """
    xs, ws, _ = _operands(x, weight, None, spec)
    n, sizes = xs.shape[0], xs.shape[2:]
    out_sizes = spec.output_sizes(sizes)
    dy = np.asarray(grad_output, dtype=np.float64)
    _require_shape("grad_output", dy.shape, (n, spec.out_channels, *out_sizes))
    g, ci, m = spec.group, spec.in_per_group, spec.out_per_group
    dyg = dy.reshape(n, g, m, *out_sizes)
    xg = xs.reshape(n, g, ci, *sizes)
    wg = ws.reshape(g, ci, m, *spec.kernel)
    dx, dw = np.zeros_like(xg), np.zeros_like(wg)
    for tap, read, write in _taps(spec, sizes, out_sizes):
        rows = dyg[write]
        dx[read] += _grouped(wg[tap], rows)
        dw[tap] = _outer(xg[read], rows)
    bias = dy.sum(axis=(0, *range(2, dy.ndim)))
    return Gradients(dx.reshape(xs.shape), dw.reshape(ws.shape), bias)


def _operands(
    x: npt.ArrayLike, weight: npt.ArrayLike, bias: npt.ArrayLike | None, spec: ConvTransposeSpec
) -> tuple[Array, Array, Array]:
    xs, ws = np.asarray(x, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    bs = np.zeros(spec.out_channels) if bias is None else np.asarray(bias, dtype=np.float64)
    if xs.ndim != spec.ndim + 2 or xs.shape[1] != spec.in_channels:
        raise GeometryError(
            f"the input must be [N, {spec.in_channels}] and {spec.ndim} spatial axes",
            where=f"input shape = {list(xs.shape)}",
            help="an input without batch needs an axis of 1 in front",
        )
    _require_shape("weight", ws.shape, spec.weight_shape)
    _require_shape("bias", bs.shape, (spec.out_channels,))
    return xs, ws, bs


def _require_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise GeometryError(
            f"the {name} has the wrong shape",
            where=f"{list(shape)}, expected {list(wanted)}",
            help="the weight is [C_in, C_out/group, *kernel], the bias [C_out]",
        )


def _grouped(matrices: Array, rows: Array) -> Array:
    """[g, a, b] times [N, g, b, *sizes] -> [N, g, a, *sizes]."""
    n, g, _, *sizes = rows.shape
    # Not -1: an empty batch leaves it undefined.
    flat = rows.reshape(*rows.shape[:3], prod(sizes))
    products: Array = np.matmul(matrices, flat)
    return products.reshape(n, g, matrices.shape[1], *sizes)


def _outer(x: Array, dy: Array) -> Array:
    """Sum over batch and space: [N, g, a, *sizes], [N, g, b, *sizes] -> [g, a, b]."""
    xs = x.reshape(*x.shape[:3], prod(x.shape[3:]))
    ys = dy.reshape(*dy.shape[:3], prod(dy.shape[3:]))
    product: Array = np.matmul(xs, ys.swapaxes(2, 3)).sum(axis=0)
    return product


def _taps(
    spec: ConvTransposeSpec, sizes: tuple[int, ...], out_sizes: tuple[int, ...]
) -> Iterator[tuple[Index, Index, Index]]:
    """Each tap with the input rows it reads and the output rows it writes: indices of last axes."""
    axes = [
        [_tap_rows(a, k, n, o) for k in range(a.kernel)]
        for a, n, o in zip(spec.axes(), sizes, out_sizes, strict=True)
    ]
    for tap in product(*(range(k) for k in spec.kernel)):
        pairs = [rows[k] for rows, k in zip(axes, tap, strict=True)]
        if all(r.stop > r.start for r, _ in pairs):
            yield (..., *tap), (..., *(r for r, _ in pairs)), (..., *(w for _, w in pairs))


def _tap_rows(axis: Axis, k: int, length: int, out: int) -> tuple[slice, slice]:
    """Input rows i with 0 <= i*s + k*d - p < O, and where they land."""
    shift = k * axis.dilation - axis.begin
    first = max(0, -(shift // axis.stride))
    last = min(length - 1, (out - 1 - shift) // axis.stride)
    start = first * axis.stride + shift
    return (
        slice(first, last + 1),
        slice(start, last * axis.stride + shift + 1, axis.stride),
    )
