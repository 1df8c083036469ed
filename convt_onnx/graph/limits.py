"""What no ConvTranspose computes: other types than floats, tensors beyond any memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.errors import GeometryError
from convt_onnx.spec import MAX_ELEMENTS, ConvTransposeSpec

# The longest kernels that models have, of inverse STFTs, have 2^12 to 2^14.
MAX_TAPS = 1 << 22
# ONNX Runtime 1.32 reads outside of an empty input over so many axes, and ends the process.
EMPTY_CRASHES = 3


def check_types(operands: Iterable[ir.Value | None]) -> None:
    """Refuse inputs that are declared as, or hold, anything but floats.

    Raises:
        GeometryError: One does.
    """
    for value in operands:
        if value is None:
            continue
        tensor = ir.convenience.get_const_tensor(value)
        for dtype in (value.dtype, None if tensor is None else tensor.dtype):
            if dtype is not None and not dtype.is_floating_point():
                raise GeometryError(
                    "ConvTranspose computes floats",
                    where=f"{value.name!r} is of type {dtype}",
                    help="put a Cast or a DequantizeLinear in front",
                )


def check_kernel(spec: ConvTransposeSpec) -> None:
    """Refuse kernels whose taps could not be counted one by one.

    Raises:
        GeometryError: It is one.
    """
    if prod(spec.kernel) > MAX_TAPS:
        raise GeometryError(
            "the kernel is too large for any runtime",
            where=f"kernel = {list(spec.kernel)}",
            help="correct the shape of the weight; 2^22 taps are the most",
        )


def check_sizes(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> None:
    """Refuse sizes that leave no output, empty inputs, or tensors that no runtime can hold.

    Raises:
        GeometryError: They do.
    """
    out = spec.output_sizes(sizes)
    if spec.ndim >= EMPTY_CRASHES and 0 in sizes:
        raise GeometryError(
            "the input is empty, which ONNX Runtime does not survive over three axes or more",
            where=f"input sizes {list(sizes)}",
            help="correct the declared sizes, or what crops the input in front of the node",
        )
    x, y = [batch, spec.in_channels, *sizes], [batch, spec.out_channels, *out]
    if max(prod(x), prod(y)) > MAX_ELEMENTS:
        raise GeometryError(
            "the node's tensors would be too large for any runtime",
            where=f"strides = {list(spec.strides)}, input shape {x}, output shape {y}",
            help="correct the declared sizes or the attributes; 2^48 elements are the most",
        )
