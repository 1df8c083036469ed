"""Split of one axis into stride-1 convolutions, one a phase, valid for every input length.

A plan starts at uncropped row `base`: convolution row q of phase r is uncropped row
base + q*s + r, and tap k reads x[q + e] with e = (base + r - k*d) / s. The interleaved rows
then lose `crop_begin` rows at the front and `crop_end` at the back; neither depends on L.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from convt_onnx.spec import Axis

Taps = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ConvAxis:
    """A stride-1 convolution along one axis: L + low + high - (taps-1)*dilation rows.

    `table[r][t]` is the tap of the transposed convolution that phase r uses at position t, or -1
    for a zero.
    """

    table: tuple[tuple[int, ...], ...]
    dilation: int
    low: int
    high: int

    @property
    def taps(self) -> int:
        """Positions t of the convolution's kernel."""
        return len(self.table[0])


@dataclass(frozen=True, slots=True)
class PhaseAxis:
    """All phases of one axis. Every phase has L + rows rows; `taps[r]` lists (k, e)."""

    taps: tuple[Taps, ...]
    rows: int
    crop_begin: int
    crop_end: int

    @property
    def stride(self) -> int:
        """Number of phases."""
        return len(self.taps)

    def fused(self) -> ConvAxis:
        """One convolution whose window covers the taps of every phase."""
        return _conv_axis(self.taps, self.rows)

    def phase(self, r: int) -> ConvAxis:
        """The convolution of phase r alone."""
        return _conv_axis((self.taps[r],), self.rows)

    def shifts(self) -> tuple[int, ...]:
        """Distinct e over all phases, ascending."""
        return tuple(sorted({e for taps in self.taps for _, e in taps}))


def _conv_axis(phases: tuple[Taps, ...], rows: int) -> ConvAxis:
    reads = sorted({e for taps in phases for _, e in taps}) or [0]
    first, last = reads[0], reads[-1]
    step = reduce(gcd, (e - first for e in reads), 0) or 1
    table = []
    for taps in phases:
        row = [-1] * ((last - first) // step + 1)
        for k, e in taps:
            row[(e - first) // step] = k
        table.append(tuple(row))
    return ConvAxis(tuple(table), step, low=-first, high=rows + last)


def plan_aligned(axis: Axis) -> PhaseAxis:
    """Fewest taps: phases aligned to multiples of the stride, the rest of the crop afterwards."""
    return _plan(axis, axis.begin // axis.stride * axis.stride, _fused_limits)


def plan_window(axis: Axis) -> PhaseAxis:
    """No crop at the front: phases start at the first kept row, at the price of a wider window."""
    return _plan(axis, axis.begin, _fused_limits)


def plan_split(axis: Axis) -> PhaseAxis:
    """For one convolution a phase: each has its own window, so no crop at the front."""
    return _plan(axis, axis.begin, _split_limits)


def plan_shifts(axis: Axis) -> PhaseAxis:
    """For forms that add shifted rows: every e <= 0, and L + rows rows hold every shift."""
    return _plan(axis, min(axis.begin // axis.stride * axis.stride, 0), _shift_limits)


def _plan(axis: Axis, base: int, limits: Callable[[Sequence[Taps]], tuple[int, int]]) -> PhaseAxis:
    s = axis.stride
    # Low pads cannot be negative: where every read is late, start that many rows earlier.
    late, _ = limits([axis.phase_taps(base + r) for r in range(s)])
    base -= max(0, late) * s
    taps = tuple(axis.phase_taps(base + r) for r in range(s))
    crop_begin = axis.begin - base
    rows = -(-(crop_begin + axis.offset) // s) - 1
    rows = max(rows, -limits(taps)[1])  # nor can high pads
    return PhaseAxis(taps, rows, crop_begin, crop_end=(1 + rows) * s - crop_begin - axis.offset)


def _fused_limits(phases: Sequence[Taps]) -> tuple[int, int]:
    """First and last read of the one window."""
    reads = [e for taps in phases for _, e in taps]
    return min(reads), max(reads)


def _split_limits(phases: Sequence[Taps]) -> tuple[int, int]:
    """Latest first and earliest last read of any phase; one without taps reads a zero at 0."""
    reads = [[e for _, e in taps] or [0] for taps in phases]
    return max(min(r) for r in reads), min(max(r) for r in reads)


def _shift_limits(phases: Sequence[Taps]) -> tuple[int, int]:
    """Every read on its own."""
    reads = [e for taps in phases for _, e in taps]
    return max(reads), min(reads)
