"""The one ordinary convolution that equals a transposed convolution, also as StableHLO text.

Per axis, with stride s, dilation d, K taps and crops p (`convt_onnx.spec`): put s - 1 zeros between
the input rows, pad the result by d*(K-1) - p_begin and d*(K-1) - p_end + output_padding rows, and
slide the flipped kernel over it with stride 1 and dilation d. Derivation: in
``i*s + k*d == o + p_begin``, tap k' = K-1-k of the flipped kernel sits at padded row o + k'*d, and
row i at padded row i*s + low, so low = d*(K-1) - p_begin; high follows from the output length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from convt_onnx.errors import GeometryError, UsageError
from convt_onnx.spec import ConvTransposeSpec, require_rows, require_several
from convt_onnx.suggest import did_you_mean

Element = Literal["f32", "f64", "f16", "bf16"]
ELEMENTS: tuple[Element, ...] = get_args(Element)
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class DilatedConvolution:
    """A convolution of stride 1 over a dilated input; one entry a spatial axis.

    `lhs_dilation` is the distance between input rows, `rhs_dilation` the one between taps. `low`
    and `high` count rows of zeros around the dilated input; below zero they crop it instead.
    """

    in_channels: int
    out_channels: int
    feature_group_count: int
    kernel: tuple[int, ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[C_out, C_in/group, *kernel]."""
        return (self.out_channels, self.in_channels // self.feature_group_count, *self.kernel)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Spatial output sizes, in rows.

        Raises:
            GeometryError: The number of sizes is wrong, the input has no row, or the output none.
        """
        require_several("sizes", sizes)
        if len(sizes) != self.ndim or any(n < 1 for n in sizes):
            raise GeometryError(
                f"expected {self.ndim} positive spatial sizes",
                where=f"sizes = {list(sizes)}",
                help="give each spatial axis a size of at least 1; leave batch and channels away",
            )
        out = tuple(
            (n - 1) * s + 1 + low + high - (k - 1) * d
            for n, k, s, d, low, high in zip(
                sizes,
                self.kernel,
                self.lhs_dilation,
                self.rhs_dilation,
                self.low,
                self.high,
                strict=True,
            )
        )
        require_rows(sizes, out)
        return out

    def regroup_weight(self, weight: npt.NDArray[T]) -> npt.NDArray[T]:
        """Weight of the convolution from that of the transposed one; the dtype stays.

        Args:
            weight: [C_in, C_out/group, *kernel].

        Returns:
            [C_out, C_in/group, *kernel], flipped over every spatial axis.

        Raises:
            GeometryError: The weight has another shape.
        """
        g = self.feature_group_count
        wanted = (self.in_channels, self.out_channels // g, *self.kernel)
        if weight.shape != wanted:
            raise GeometryError(
                "the weight has the wrong shape",
                where=f"{list(weight.shape)}, expected {list(wanted)}",
                help="pass the weight of the ConvTranspose itself: [C_in, C_out/group, *kernel]",
            )
        grouped = weight.reshape(g, -1, *wanted[1:]).swapaxes(1, 2)
        spatial = tuple(range(2, weight.ndim))
        return np.ascontiguousarray(np.flip(grouped.reshape(self.weight_shape), spatial))

    def stablehlo(
        self, batch: int, sizes: Sequence[int], dtype: Element = "f32", bias: bool = False
    ) -> str:
        """Text of a StableHLO module whose `main` runs this as one `stablehlo.convolution`.

        `main` takes x [batch, C_in, *sizes], w [C_out, C_in/group, *kernel] as `regroup_weight`
        makes it and, with `bias`, b [C_out]; it returns [batch, C_out, *output sizes].

        Args:
            batch: Number of samples.
            sizes: Spatial input sizes, in rows.
            dtype: Element type of every operand and of the result.
            bias: Whether `main` takes a bias and adds it.

        Raises:
            GeometryError: The sizes do not fit, or the output would be empty.
            UsageError: The element type is unknown.
        """
        y = _tensor((batch, self.out_channels, *self.output_sizes(sizes)), dtype)
        x = _tensor((batch, self.in_channels, *sizes), dtype)
        w = _tensor(self.weight_shape, dtype)
        b = _tensor((self.out_channels,), dtype)
        arguments = f"%x: {x}, %w: {w}" + (f", %b: {b}" if bias else "")
        add_bias = (
            f"    %rows = stablehlo.broadcast_in_dim %b, dims = [1] : ({b}) -> {y}\n"
            f"    %sum = stablehlo.add %y, %rows : {y}\n"
        )
        return (
            "module @conv_transpose {\n"
            f"  func.func public @main({arguments}) -> {y} {{\n"
            f"    %y = stablehlo.convolution(%x, %w)\n{self._attributes()}"
            f"      : ({x}, {w}) -> {y}\n"
            f"{add_bias if bias else ''}"
            f"    return {'%sum' if bias else '%y'} : {y}\n"
            "  }\n}\n"
        )

    def _attributes(self) -> str:
        space = ", ".join(map(str, range(self.ndim)))
        pad = [list(pair) for pair in zip(self.low, self.high, strict=True)]
        return (
            f"      dim_numbers = [b, f, {space}]x[o, i, {space}]->[b, f, {space}],\n"
            f"      window = {{stride = {[1] * self.ndim}, pad = {pad},\n"
            f"                lhs_dilate = {list(self.lhs_dilation)},"
            f" rhs_dilate = {list(self.rhs_dilation)}}}\n"
            "      {batch_group_count = 1 : i64,"
            f" feature_group_count = {self.feature_group_count} : i64}}\n"
        )


def as_dilated_convolution(spec: ConvTransposeSpec) -> DilatedConvolution:
    """The convolution that computes what `spec` says, for every input size."""
    axes = tuple(spec.axes())
    reach = [a.extent - 1 for a in axes]
    return DilatedConvolution(
        in_channels=spec.in_channels,
        out_channels=spec.out_channels,
        feature_group_count=spec.group,
        kernel=spec.kernel,
        lhs_dilation=spec.strides,
        rhs_dilation=spec.dilations,
        low=tuple(r - a.begin for r, a in zip(reach, axes, strict=True)),
        high=tuple(r - a.end for r, a in zip(reach, axes, strict=True)),
    )


def _tensor(shape: Sequence[int], dtype: Element) -> str:
    if dtype not in ELEMENTS:
        raise UsageError(
            "unknown element type",
            where=f"dtype = {dtype!r}",
            help=did_you_mean(str(dtype), ELEMENTS),
        )
    return f"tensor<{'x'.join(map(str, shape))}x{dtype}>"
