"""What each target can run: a table of capabilities, not conditions spread over the code."""

from __future__ import annotations

from dataclasses import dataclass

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
