"""What each target can run: a table of capabilities, not conditions spread over the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from convt_onnx.errors import UsageError
from convt_onnx.suggest import did_you_mean

FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE}
)


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime, or a set of operators that a runtime offers.

    Attributes:
        name: As the command line knows it.
        summary: One line.
        conv_transpose: Whether the operator exists at all.
        conv_transpose_dtypes: Element types that its ConvTranspose takes.
        conv_dtypes: Element types that its Conv takes.
        output_padding_below_stride: output_padding must be below the stride.
        depth_to_space: Whether DepthToSpace exists.
        shape_ops: Whether sizes may be computed in the graph (Shape, Mul).
        cast_island: Element types to compute in float32 between two Casts, since neither
            operator takes them.
        asymmetric_pads: Whether pads may differ begin to end.
        conv_since: First opset whose Conv takes an element type of `conv_dtypes`, where not all do.
        depth_to_space_lacks: Element types of `conv_dtypes` that DepthToSpace does not take.
        device: Provider of ONNX Runtime that should run every node; "" where there is no other.
        same_auto_pad: Whether that device runs auto_pad SAME_UPPER and SAME_LOWER.
        float_weights: Whether quantised weights and biases are best folded into float ones.
        provider: The ONNX Runtime execution provider that it is, for timing; empty for none.
    """

    name: str
    summary: str
    conv_transpose: bool
    conv_transpose_dtypes: frozenset[ir.DataType]
    conv_dtypes: frozenset[ir.DataType]
    output_padding_below_stride: bool
    depth_to_space: bool
    shape_ops: bool
    cast_island: frozenset[ir.DataType]
    asymmetric_pads: bool = True
    conv_since: Mapping[ir.DataType, int] = field(default_factory=dict)
    depth_to_space_lacks: frozenset[ir.DataType] = frozenset()
    device: str = ""
    same_auto_pad: bool = True
    float_weights: bool = False
    provider: str = ""

    def takes(self, dtype: ir.DataType | None, opset: int, *, native: bool) -> bool:
        """Whether ConvTranspose (`native`) or Conv takes an element type as it is."""
        if dtype is None:
            return True
        if native:
            return dtype in self.conv_transpose_dtypes
        return dtype in self.conv_dtypes and opset >= self.conv_since.get(dtype, 1)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="ort-cpu",
            summary="ONNX Runtime's CPU provider",
            conv_transpose=True,
            conv_transpose_dtypes=frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16}),
            conv_dtypes=frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16}),
            output_padding_below_stride=True,
            depth_to_space=True,
            shape_ops=True,
            cast_island=frozenset({ir.DataType.BFLOAT16}),
            asymmetric_pads=True,
            provider="CPUExecutionProvider",
        ),
        Target(
            name="ort-cuda",
            summary="ONNX Runtime's CUDA provider",
            conv_transpose=True,
            conv_transpose_dtypes=FLOATS - {ir.DataType.BFLOAT16},
            conv_dtypes=FLOATS,
            output_padding_below_stride=True,
            depth_to_space=True,
            shape_ops=True,
            cast_island=frozenset({ir.DataType.BFLOAT16}),
            asymmetric_pads=False,
            conv_since={ir.DataType.BFLOAT16: 22},
            depth_to_space_lacks=frozenset({ir.DataType.BFLOAT16}),
            device="CUDAExecutionProvider",
            provider="CUDAExecutionProvider",
            same_auto_pad=False,
            float_weights=True,
        ),
        Target(
            name="portable",
            summary="no ConvTranspose: Conv, Reshape, Transpose, Slice, Pad, Concat, DepthToSpace",
            conv_transpose=False,
            conv_transpose_dtypes=frozenset(),
            conv_dtypes=FLOATS,
            output_padding_below_stride=True,
            depth_to_space=True,
            shape_ops=False,
            cast_island=frozenset(),
            asymmetric_pads=True,
        ),
    )
}


def get_target(name: str) -> Target:
    """The target of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in TARGETS:
        raise UsageError(
            f"no target {name!r}",
            where=f"known targets: {', '.join(TARGETS)}",
            help=did_you_mean(name, TARGETS),
        )
    return TARGETS[name]
