"""What is compiled ahead of time: a call whose sizes may be open."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from convt_onnx.plugins.conv_transpose.activations import NONE, Activation
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.spec import Axis, ConvTransposeSpec

ASSUMED_SIZE = {1: 200, 2: 40, 3: 16}


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel, for one layout of x and of y.

    Attributes:
        spec: Geometry.
        dtype: Of x, the weight, the other operands and y: a key of problem.DTYPE_BYTES.
        sizes: [N, *spatial sizes of x]; None is an argument of the kernel.
        channels_last_in, channels_last_out: Whether x, y hold their channels innermost. Both are
            contiguous.
        tf32: Whether float32 products may be rounded to TF32.
        bias, residual: Whether they are operands.
        activation: "prelu" has its slopes, one an output channel, as an operand.
        wide: Whether offsets take 64 bits, which 2^31 elements of x or y need.
    """

    spec: ConvTransposeSpec
    dtype: str
    sizes: tuple[int | None, ...]
    channels_last_in: bool = False
    channels_last_out: bool = False
    tf32: bool = False
    bias: bool = False
    residual: bool = False
    activation: Activation = NONE
    wide: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """Pointers in order, without y."""
        names = ["x", "w"]
        names += ["bias"] if self.bias else []
        names += ["slope"] if self.activation.kind == "prelu" else []
        return (*names, *(["residual"] if self.residual else []))

    @property
    def problem(self) -> Problem:
        """A call of ordinary size, whose output is aligned no better than that of every call."""
        batch, *spatial = self.sizes
        sizes = tuple(
            _typical(axis, ASSUMED_SIZE.get(self.spec.ndim, 8)) if n is None else n
            for n, axis in zip(spatial, self.spec.axes(), strict=True)
        )
        return Problem(
            self.spec,
            1 if batch is None else batch,
            sizes,
            self.dtype,
            self.channels_last_in,
            # With one channel both layouts are the same, and phases are neighbours in memory.
            self.channels_last_out or self.spec.out_channels == 1,
            self.tf32 and self.dtype == "float32",
        )

    def reach(self, sizes: tuple[int, ...]) -> int:
        """Elements of the larger of x and y for [N, *spatial sizes of x]."""
        batch, *spatial = sizes
        outs = self.spec.output_sizes(spatial)
        return batch * max(
            self.spec.in_channels * prod(spatial), self.spec.out_channels * prod(outs)
        )


def _typical(axis: Axis, size: int) -> int:
    """Of two successive sizes that whose output length has the smaller power of two."""
    size = max(size, 2 + max(0, -axis.offset) // axis.stride)
    return min(size, size + 1, key=lambda n: _power_of_two(axis.output_length(n)))


def _power_of_two(value: int) -> int:
    return value & -value
