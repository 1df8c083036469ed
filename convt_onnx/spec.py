"""Geometry of a transposed convolution in one canonical form: pure integers, no ONNX.

Per axis, with input length L, tap k of K, stride s, dilation d and begin crop p::

    y[o] = bias + sum of x[i] * w[k]  over all k, i with  i*s + k*d == o + p

The full length is F = (L-1)*s + (K-1)*d + 1, the output length
O = F + output_padding - p_begin - p_end. Rows past F hold the bias alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Protocol, TypeVar

from convt_onnx.errors import GeometryError

# Of a tensor: a petabyte of float32. What forms make on the way still has sizes of 64 bits.
MAX_ELEMENTS = 1 << 48


class Length(Protocol):
    """An int or a symbolic size: whatever can be multiplied by and added to an int."""

    def __mul__(self, other: int) -> Length: ...
    def __add__(self, other: int) -> Length: ...


L = TypeVar("L", bound=Length)


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis. `end` is the net end crop: pads_end - output_padding, may be negative."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def extent(self) -> int:
        """Rows that one input row reaches: (K-1)*d + 1."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def offset(self) -> int:
        """C in O = (L-1)*s + C."""
        return self.extent - self.begin - self.end

    def output_length(self, length: int) -> int:
        """Output rows for `length` input rows."""
        return (length - 1) * self.stride + self.offset

    @property
    def least_length(self) -> int:
        """Fewest input rows that give an output row; ONNX Runtime refuses fewer."""
        return max(1, 1 - (self.offset - 1) // self.stride)

    @property
    def tap_step(self) -> int:
        """Distance in k between two taps of one phase: s / gcd(s, d)."""
        return self.stride // gcd(self.stride, self.dilation)

    @property
    def read_step(self) -> int:
        """Distance in x between two taps of one phase: d / gcd(s, d)."""
        return self.dilation // gcd(self.stride, self.dilation)

    def phase_taps(self, coordinate: int) -> tuple[tuple[int, int], ...]:
        """Taps (k, e) that feed uncropped row u = q*s + `coordinate`; tap k reads x[q + e].

        Empty when gcd(s, d) does not divide the coordinate: that phase is bias only.
        """
        step = self.tap_step
        rest, off = divmod(coordinate, self.stride // step)
        if off:
            return ()
        first = rest * pow(self.read_step, -1, step) % step
        return tuple(
            (k, (coordinate - k * self.dilation) // self.stride)
            for k in range(first, self.kernel, step)
        )

    def useful_pairs(self, length: int) -> int:
        """Number of (input row, tap) pairs that land inside the output."""
        out = self.output_length(length)
        total = 0
        for k in range(self.kernel):
            low = -(-(self.begin - k * self.dilation) // self.stride)
            high = (out - 1 + self.begin - k * self.dilation) // self.stride
            total += max(0, min(high, length - 1) - max(low, 0) + 1)
        return total


@dataclass(frozen=True, slots=True)
class ConvTransposeSpec:
    """Everything but the sizes of the input: channels, groups and one entry a spatial axis.

    The weight has shape [in_channels, out_channels / group, *kernel]. Crops (`pads_begin`,
    `pads_end`) are in output rows. Values come from `convt_onnx.padding.resolve` or are given
    directly; the constructor raises GeometryError where they make no sense.
    """

    in_channels: int
    out_channels: int
    group: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    output_padding: tuple[int, ...]

    def __post_init__(self) -> None:
        require_several("kernel", self.kernel)
        n = len(self.kernel)
        if n < 1:
            raise GeometryError(
                "a transposed convolution needs at least one spatial axis",
                where="kernel = []",
                help="give the kernel a size for each axis; without axes it is a matrix product",
            )
        for name in ("strides", "dilations", "pads_begin", "pads_end", "output_padding"):
            _require_length(name, getattr(self, name), n)
        for name in ("kernel", "strides", "dilations"):
            _require_positive(name, getattr(self, name))
        if any(v < 0 for v in self.output_padding):
            raise GeometryError(
                "output_padding must not be negative",
                where=f"output_padding = {list(self.output_padding)}",
                help="crop with pads instead",
            )
        self._check_channels()

    def _check_channels(self) -> None:
        where = f"group = {self.group}, channels {self.in_channels} -> {self.out_channels}"
        if self.group < 1:
            raise GeometryError(
                "group must be at least 1",
                where=where,
                help="1 for an ordinary convolution, the input channels for a depthwise one",
            )
        if self.in_channels < 1 or self.out_channels < 1:
            raise GeometryError(
                "channel counts must be positive",
                where=where,
                help="check the weight's shape [C_in, C_out/group, *kernel]",
            )
        for which, count in (("input", self.in_channels), ("output", self.out_channels)):
            if count % self.group:
                raise GeometryError(
                    f"the {which} channels must be divisible by group",
                    where=where,
                    help="check the weight's shape [C_in, C_out/group, *kernel] and group",
                )

    @property
    def ndim(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    @property
    def in_per_group(self) -> int:
        """Input channels of one group."""
        return self.in_channels // self.group

    @property
    def out_per_group(self) -> int:
        """Output channels of one group."""
        return self.out_channels // self.group

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[C_in, C_out/group, *kernel]."""
        return (self.in_channels, self.out_per_group, *self.kernel)

    @property
    def depthwise(self) -> bool:
        """One input channel a group."""
        return self.group > 1 and self.in_per_group == 1

    def axes(self) -> Iterator[Axis]:
        """Each spatial axis with its net end crop."""
        for k, s, d, b, e, op in zip(
            self.kernel,
            self.strides,
            self.dilations,
            self.pads_begin,
            self.pads_end,
            self.output_padding,
            strict=True,
        ):
            yield Axis(k, s, d, b, e - op)

    def axes_uncropped(self) -> Iterator[Axis]:
        """Each spatial axis as it would be without any crop."""
        for axis in self.axes():
            yield replace(axis, begin=0, end=0)

    def with_pads(
        self, pads: Sequence[tuple[int, int]], output_padding: tuple[int, ...]
    ) -> ConvTransposeSpec:
        """The same convolution with other crops: one (begin, end) an axis."""
        return replace(
            self,
            pads_begin=tuple(b for b, _ in pads),
            pads_end=tuple(e for _, e in pads),
            output_padding=output_padding,
        )

    def canonical(self) -> ConvTransposeSpec:
        """The same operation with one spelling.

        Dilation is 1 where the kernel extent is 1; output_padding is taken out of a positive end
        crop (only rows kept matter: O depends on p_end - output_padding); a negative end crop
        becomes output_padding.
        """
        net = [e - op for e, op in zip(self.pads_end, self.output_padding, strict=True)]
        return replace(
            self,
            dilations=tuple(
                1 if k == 1 else d for k, d in zip(self.kernel, self.dilations, strict=True)
            ),
            pads_end=tuple(max(e, 0) for e in net),
            output_padding=tuple(max(-e, 0) for e in net),
        )

    def output_length(self, axis: int, length: L) -> L:
        """Output rows of `axis` for `length` input rows, as an int or a symbolic expression."""
        a = tuple(self.axes())[axis]
        return length * a.stride + (a.offset - a.stride)  # type: ignore[return-value]

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Spatial output sizes; raises GeometryError where the output would be empty."""
        require_several("sizes", sizes)
        if len(sizes) != self.ndim:
            raise GeometryError(
                f"expected {self.ndim} spatial sizes",
                where=f"sizes = {list(sizes)}",
                help="give each spatial axis one size; leave batch and channels away",
            )
        out = tuple(a.output_length(n) for a, n in zip(self.axes(), sizes, strict=True))
        require_rows(sizes, out)
        return out

    def macs_exact(self, batch: int, sizes: Sequence[int]) -> int:
        """Multiply-adds that reach the output: no zero tap, no cropped row."""
        pairs = prod(a.useful_pairs(n) for a, n in zip(self.axes(), sizes, strict=True))
        return batch * self.in_channels * self.out_per_group * pairs


def require_several(name: str, values: Sequence[int]) -> None:
    """Raise GeometryError where one number stands for one value an axis."""
    if isinstance(values, int):
        raise GeometryError(
            f"{name} must be a sequence with one value for each spatial axis",
            where=f"{name} = {values}",
            help=f"pass ({values},) where there is one axis",
        )


def require_rows(sizes: Sequence[int], out: Sequence[int]) -> None:
    """Raise GeometryError where the output of these input sizes has no row along an axis."""
    if any(n < 1 for n in out):
        raise GeometryError(
            "the output would be empty",
            where=f"input sizes {list(sizes)} give output sizes {list(out)}",
            help="the pads crop more rows than the input makes",
        )


def _require_length(name: str, values: Sequence[int], n: int) -> None:
    require_several(name, values)
    if len(values) != n:
        raise GeometryError(
            f"{name} must have one value for each of the {n} spatial axes",
            where=f"{name} = {list(values)}",
            help=f"the kernel has {n} axes",
        )


def _require_positive(name: str, values: Sequence[int]) -> None:
    if any(v < 1 for v in values):
        raise GeometryError(
            f"{name} must be positive",
            where=f"{name} = {list(values)}",
            help="give every axis a value of at least 1",
        )
