"""Where each tap reads and writes, per axis, for the kernels: pure integers.

An output row o is addressed as o = q*s + r - crop with a phase r in [0, s). Its uncropped row is
base + q*s + r, so tap k feeds the phase r = (k*d - base) mod s and reads x[q - e] with the shift
e = floor((k*d - base) / s): each tap has one phase and one shift. An axis is either

* fused: one program computes all phases; its weight columns are phases, its weight blocks are
  shifts, which must be evenly spaced (they are when d = 1, s = 1 or d is a multiple of s), or
* split: a program computes one phase; its weight blocks are the taps themselves.

With base = pads_begin the output starts at a phase 0 (crop 0): aligned stores and fewest rows q.
With base rounded down to a multiple of s there may be a shift less to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from convt_onnx.spec import Axis, ConvTransposeSpec


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One axis of a schedule; `first`, `step` and `count` list the shifts of a fused axis."""

    kernel: int
    stride: int
    dilation: int
    base: int
    crop: int
    fused: bool
    first: int
    step: int
    count: int

    @property
    def phases(self) -> int:
        """Phases that one program computes."""
        return self.stride if self.fused else 1

    @property
    def split(self) -> int:
        """Programs that share one row q."""
        return 1 if self.fused else self.stride

    @property
    def blocks(self) -> int:
        """Weight blocks along this axis."""
        return self.count if self.fused else self.kernel

    @property
    def tap_step(self) -> int:
        """Distance in k between two taps of a phase."""
        return self.stride // gcd(self.stride, self.dilation)

    @property
    def inverse(self) -> int:
        """Inverse of d/g modulo s/g, which finds the first tap of a phase."""
        g = gcd(self.stride, self.dilation)
        return pow(self.dilation // g, -1, self.tap_step) if self.tap_step > 1 else 0

    def tap(self, block: int, phase: int) -> int:
        """Tap that a fused axis multiplies in a weight block and phase, or -1 for a zero."""
        position = self.base + (self.first + block * self.step) * self.stride + phase
        k, rest = divmod(position, self.dilation)
        return k if rest == 0 and 0 <= k < self.kernel else -1

    def rows(self, out: int) -> int:
        """Rows q that cover `out` output rows."""
        return -(-(out + self.crop) // self.stride)

    def exact(self, out: int) -> bool:
        """Whether every row q and phase lands inside the output."""
        return self.crop == 0 and out % self.stride == 0

    def constants(self, out: int) -> tuple[int, ...]:
        """What the device code knows at compile time; the order is that of `_kernel_axis`."""
        return (
            self.kernel,
            self.stride,
            self.dilation,
            self.base,
            self.crop,
            int(self.fused),
            self.first,
            self.step,
            self.count,
            self.tap_step,
            self.inverse,
            int(self.exact(out)),
        )


def fusable(axis: Axis) -> bool:
    """Whether the shifts of an axis are evenly spaced."""
    return _even(_shifts(axis, axis.begin)) and _even(_shifts(axis, _rounded(axis)))


def plan_axis(axis: Axis, *, fused: bool, aligned: bool) -> AxisPlan:
    """Plan of one axis.

    Args:
        axis: The geometry.
        fused: All phases in one program; only for a `fusable` axis.
        aligned: Start at the first output row, rather than at a multiple of the stride.
    """
    base = axis.begin if aligned else _rounded(axis)
    shifts = _shifts(axis, base)
    step = shifts[1] - shifts[0] if len(shifts) > 1 else 1
    return AxisPlan(
        axis.kernel,
        axis.stride,
        axis.dilation,
        base,
        axis.begin - base,
        fused,
        shifts[0] if fused else 0,
        step if fused else axis.read_step,
        len(shifts) if fused else 0,
    )


def shift_count(axis: Axis, *, aligned: bool) -> int:
    """Distinct shifts of an axis."""
    return len(_shifts(axis, axis.begin if aligned else _rounded(axis)))


def lifted_axes(spec: ConvTransposeSpec) -> tuple[Axis, Axis, Axis]:
    """The three spatial axes (depth, height, width); missing ones in front are trivial."""
    axes = tuple(spec.axes())
    unit = Axis(kernel=1, stride=1, dilation=1, begin=0, end=0)
    depth, height, width = (unit,) * (3 - len(axes)) + axes
    return depth, height, width


def _rounded(axis: Axis) -> int:
    return axis.begin - axis.begin % axis.stride


def _shifts(axis: Axis, base: int) -> tuple[int, ...]:
    return tuple(sorted({(k * axis.dilation - base) // axis.stride for k in range(axis.kernel)}))


def _even(shifts: tuple[int, ...]) -> bool:
    return len({b - a for a, b in pairwise(shifts)}) <= 1


def divider(q: int) -> tuple[int, int]:
    """Multiplier (as a signed 32-bit number) and shift that divide m < 2^31 by q.

    m // q == (m * multiplier) >> (31 + shift), the multiplier being at least 2^31.
    """
    shift = (q - 1).bit_length()
    return -(-(1 << (31 + shift)) // q) - (1 << 32), shift
