"""Shapes in terms of the rows of an interleave's axes, some of which may be open."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from convt_onnx.forms.base import Setting
from convt_onnx.forms.order import Interleave
from convt_onnx.graph.emitter import Emitter

# A size as a constant factor times the rows of some axes.
Extent = tuple[int, tuple[int, ...]]


class Shapes:
    """Shapes as operators take them: constant where at most one size is open, else computed.

    The last axes of `y` are those of the plan.
    """

    def __init__(self, em: Emitter, y: ir.Value, plan: Interleave, setting: Setting) -> None:
        self._em = em
        self._y = y
        # With an empty batch nothing can be inferred for a -1.
        self._infer = plan.batch is not None or not setting.can_compute_shapes
        self._sizes = plan.sizes
        self._rows: dict[int, ir.Value] = {}
        self._shape: ir.Value | None = None

    def reshape(self, y: ir.Value, extents: Sequence[Extent]) -> ir.Value:
        """Reshape to [N, *extents]."""
        known = [self._known(e) for e in extents]
        open_sizes = known.count(None)
        if open_sizes == 0 or (open_sizes == 1 and self._infer):
            return self._em.reshape(y, [0, *(-1 if n is None else n for n in known)])
        shape = [self._em.ints([0], "batch"), *self._parts(extents)]
        return self._em.op("Reshape", [y, self._em.op("Concat", shape, axis=0)])

    def vector(self, extents: Sequence[Extent], less: Sequence[int]) -> ir.Value:
        """The extents minus `less`, a tensor of their own."""
        known = [self._known(e) for e in extents]
        sizes = [n - m for n, m in zip(known, less, strict=True) if n is not None]
        if len(sizes) == len(extents):
            return self._em.ints(sizes, "sizes")
        parts = self._parts(extents)
        computed = parts[0] if len(parts) == 1 else self._em.op("Concat", parts, axis=0)
        if not any(less):
            return computed
        return self._em.op("Sub", [computed, self._em.ints(less, "crop")])

    def _parts(self, extents: Sequence[Extent]) -> list[ir.Value]:
        known = map(self._known, extents)
        return [
            self._computed(extent) if size is None else self._em.ints([size], "size")
            for extent, size in zip(extents, known, strict=True)
        ]

    def _known(self, extent: Extent) -> int | None:
        size, axes = extent
        for axis in axes:
            rows = self._sizes[axis]
            if rows is None:
                return None
            size *= rows
        return size

    def _computed(self, extent: Extent) -> ir.Value:
        factor, axes = extent
        factor *= prod(self._sizes[i] or 1 for i in axes)
        factors = [self._row(i) for i in axes if self._sizes[i] is None]
        if factor > 1:
            factors.append(self._em.ints([factor], "factor"))
        product = factors[0]
        for other in factors[1:]:
            product = self._em.op("Mul", [product, other])
        return product

    def _row(self, axis: int) -> ir.Value:
        if self._shape is None:
            self._shape = self._em.op("Shape", [self._y])
        if axis not in self._rows:
            # From the end: a form may have given the tensor axes of its own in front.
            back = axis - len(self._sizes)
            end = back + 1 or np.iinfo(np.int32).max
            self._rows[axis] = self._em.slice(self._shape, [0], [back], [end])
        return self._rows[axis]
