"""output_shape on an input of unknown size: the crop is known when the model runs.

The convolution is computed whole, with stride - 1 rows of bias behind it (ONNX Runtime lets
output_shape reach that far), and cropped by sizes that the graph computes itself::

    total = L*s + (K-1)*d + 1 - s + output_padding - O
    begin = (max(total, 0) + 1) // 2, for SAME_UPPER max(total, 0) // 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.padding import Attributes, resolve
from convt_onnx.spec import ConvTransposeSpec


@dataclass(frozen=True, slots=True)
class LateCrop:
    """One entry an axis: total = L * strides + offsets, output rows kept."""

    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    output: tuple[int, ...]
    upper: bool

    def begins(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Rows cropped at the begin for input sizes L."""
        extra = 0 if self.upper else 1
        totals = (n * s + c for n, s, c in zip(sizes, self.strides, self.offsets, strict=True))
        return tuple((max(t, 0) + extra) // 2 for t in totals)

    def applied(self, spec: ConvTransposeSpec, sizes: Sequence[int]) -> ConvTransposeSpec:
        """`spec`, which is uncropped, with the crop for input sizes L."""
        begins = self.begins(sizes)
        full = spec.output_sizes(sizes)
        ends = (f - b - o for f, b, o in zip(full, begins, self.output, strict=True))
        return spec.with_pads(list(zip(begins, ends, strict=True)), spec.output_padding).canonical()


def resolve_late(
    attributes: Attributes,
    weight_shape: Sequence[int],
    *,
    in_channels: int | None = None,
    bias_shape: Sequence[int] | None = None,
) -> tuple[ConvTransposeSpec, LateCrop]:
    """The whole convolution and what is to be cropped from it.

    Args:
        attributes: With an output_shape.
        weight_shape: [C_in, C_out/group, *kernel].
        in_channels: Channels of the input, where known.
        bias_shape: Shape of the bias, where there is one.

    Raises:
        GeometryError: The attributes or shapes do not make sense.
    """
    natural = resolve(
        replace(attributes, output_shape=None, auto_pad="VALID", pads=None),
        weight_shape,
        [None] * (len(weight_shape) - 2),
        in_channels=in_channels,
        bias_shape=bias_shape,
    )
    output = (attributes.output_shape or ())[-natural.ndim :]
    offsets = tuple(
        a.offset - a.stride - out for a, out in zip(natural.axes(), output, strict=True)
    )
    late = LateCrop(natural.strides, offsets, output, attributes.auto_pad == "SAME_UPPER")
    beyond = zip(natural.output_padding, natural.strides, strict=True)
    whole = replace(natural, output_padding=tuple(op + s - 1 for op, s in beyond))
    return whole, late


def emit_late_crop(em: Emitter, y: ir.Value, x: ir.Value, late: LateCrop) -> ir.Value:
    """Slice `y` by sizes computed from the shape of `x`; needs opset 10."""
    n = len(late.strides)
    shape = em.op("Shape", [x])
    sizes = em.slice(shape, [0], [2], [2 + n])
    grown = em.op("Mul", [sizes, em.ints(late.strides, "strides")])
    total = em.add(grown, em.ints(late.offsets, "offsets"))
    zero = em.ints([0], "zero")
    positive = em.op("Where", [em.op("Greater", [total, zero]), total, zero])
    rounded = positive if late.upper else em.add(positive, em.ints([1], "one"))
    begins = em.op("Div", [rounded, em.ints([2], "two")])
    ends = em.add(begins, em.ints(late.output, "output"))
    axes = em.constant(np.arange(2, 2 + n), "axes")
    return em.op("Slice", [y, begins, ends, axes])
