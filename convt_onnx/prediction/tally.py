"""Counts of what a model takes, on a kind of processor, and the sizes they are made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import onnx_ir as ir

from convt_onnx.prediction.vectors import Vectors

# Elements of a cache line.
LINE = 16


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts by name, and the processor that they are for."""

    vectors: Vectors
    counts: Counter[str] = field(default_factory=Counter)


def shape_of(value: ir.Value | None) -> tuple[int, ...] | None:
    """Its sizes, None where one is not known."""
    if value is None or value.shape is None:
        return None
    dims = [d for d in value.shape if isinstance(d, int)]
    return tuple(dims) if len(dims) == len(value.shape) else None


def known(value: ir.Value | None) -> tuple[int, ...]:
    """Sizes that are known to be known."""
    shape = shape_of(value)
    if shape is None:
        raise AssertionError("features() has looked")
    return shape


def lines(elements: int, stride: int) -> int:
    """Cache lines that elements a stride apart lie in."""
    return elements * min(stride, LINE) // LINE
