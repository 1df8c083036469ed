"""What each target can run: a table of capabilities, not conditions spread over the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from convt_onnx.errors import UsageError
from convt_onnx.plugin_node.record import HASHED, OVERLOAD
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
        plugin: How nodes of the plugin are named there (see `plugin_node.record`); empty where it
            cannot be loaded.
        mlas: Whether ONNX Runtime's CPU kernels run it, which some forms are made for.
        provider: The ONNX Runtime execution provider that it is, for timing; empty for none.
        strided_dilated: Whether ConvTranspose takes a stride and a dilation above 1 together.
        grouped_3d: Whether ConvTranspose takes groups on three axes.
        late_output_shape: Whether output_shape is honoured on axes of unknown size.
        open_channels: Whether the input's channel count may be unknown.
        computed_bias_in_padding: Whether a bias that is no initializer reaches the rows that
            output_padding adds.
        crop_within_output_padding: Whether pads may crop more rows than there are without
            output_padding.
        max_axes: Spatial axes that a convolution may have; 0 for any number.
        depthwise_island: Element types to compute in float32 where the node is depthwise.
        quantised: Integer types that DequantizeLinear takes, with zero points of 0 alone; None
            for any.
        off_device_integers: Integer types that DequantizeLinear takes on the CPU alone, though
            the target has a device.
        off_device_operators: Operators that the target has on the CPU alone, though it has a
            device, and that others can stand in for.
        functions_by_domain: Whether functions of one name in several domains, or overloads, are
            told apart, and attributes that a function takes from its call are read.
        removed_operators: Whether operators that ONNX has taken back (Crop, Affine) still run.
        saturates: Whether Conv between quantised neighbours may add products in saturating 16
            bits, on some processors (see `saturation`).
        macs_per_element: Multiply-adds that take as long as moving one element.
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
    mlas: bool = False
    provider: str = ""
    strided_dilated: bool = True
    grouped_3d: bool = True
    late_output_shape: bool = True
    open_channels: bool = True
    computed_bias_in_padding: bool = True
    crop_within_output_padding: bool = True
    max_axes: int = 0
    depthwise_island: frozenset[ir.DataType] = frozenset()
    quantised: frozenset[ir.DataType] | None = None
    off_device_integers: frozenset[ir.DataType] = frozenset()
    off_device_operators: frozenset[str] = frozenset()
    functions_by_domain: bool = True
    removed_operators: bool = True
    saturates: bool = False
    # A GEMM on a CPU core.
    macs_per_element: int = 16
    plugin: str = ""

    def takes(self, dtype: ir.DataType | None, opset: int, *, native: bool) -> bool:
        """Whether ConvTranspose (`native`) or Conv takes an element type as it is."""
        if dtype is None:
            return True
        if native:
            return dtype in self.conv_transpose_dtypes
        return dtype in self.conv_dtypes and opset >= self.conv_since.get(dtype, 1)


# What benchmarks/tensorrt_sweep.py showed on TensorRT-RTX 1.7.1; the ONNX parser and the bfloat16
# failure are those of TensorRT (NVIDIA/TensorRT#4829, onnx/onnx-tensorrt#1042). float64 is computed
# in float32.
TENSORRT = Target(
    name="tensorrt",
    summary="TensorRT 10 and 11",
    conv_transpose=True,
    conv_transpose_dtypes=FLOATS - {ir.DataType.BFLOAT16},
    conv_dtypes=FLOATS,
    output_padding_below_stride=True,
    depth_to_space=True,
    shape_ops=True,
    cast_island=frozenset(),
    strided_dilated=False,
    late_output_shape=False,
    open_channels=False,
    computed_bias_in_padding=False,
    crop_within_output_padding=False,
    max_axes=3,
    quantised=frozenset({ir.DataType.INT8, ir.DataType.INT4}),
    functions_by_domain=False,
    removed_operators=False,
    macs_per_element=128,
    plugin=HASHED,
)
# Versions up to 1.4 crash on grouped 3-D deconvolutions and have no depthwise convolution in
# bfloat16: https://github.com/pytorch/TensorRT/pull/4306.
OLD_TENSORRT_RTX = replace(
    TENSORRT,
    name="tensorrt-rtx-1.4",
    summary="TensorRT-RTX 1.0 to 1.4",
    grouped_3d=False,
    depthwise_island=frozenset({ir.DataType.BFLOAT16}),
)

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
            mlas=True,
            saturates=True,
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
            off_device_integers=frozenset({ir.DataType.INT32}),
            off_device_operators=frozenset({"Hardmax", "BitShift"}),
            plugin=OVERLOAD,
        ),
        TENSORRT,
        replace(TENSORRT, name="tensorrt-rtx", summary="TensorRT-RTX 1.5 and later"),
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
            saturates=True,
        ),
    )
}
# All that `get_target` knows.
NAMES = (*TARGETS, OLD_TENSORRT_RTX.name)


def get_target(name: str) -> Target:
    """The target of that name.

    Raises:
        UsageError: There is none.
    """
    if name == OLD_TENSORRT_RTX.name:
        return OLD_TENSORRT_RTX
    if name not in TARGETS:
        raise UsageError(
            f"no target {name!r}",
            where="--target",
            help=did_you_mean(name, NAMES),
        )
    return TARGETS[name]


def require_plugin(target: Target) -> None:
    """Refuse a target that cannot load the plugin.

    Raises:
        UsageError: It cannot.
    """
    if not target.plugin:
        able = ", ".join(t.name for t in TARGETS.values() if t.plugin)
        raise UsageError(
            f"target {target.name} takes no plugin",
            where="--plugin",
            help=f"targets that do: {able}",
        )
