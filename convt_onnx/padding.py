"""From ONNX attributes to canonical crops, as ONNX Runtime computes them.

With total = F + output_padding - O, NOTSET/VALID/SAME_LOWER crop total - total // 2 rows at the
begin, SAME_UPPER total // 2. SAME without output_shape aims at O = L*s and keeps the natural size
where that is smaller; the total is then the same for every L, so dynamic sizes resolve too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from convt_onnx.errors import GeometryError
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.suggest import did_you_mean

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of an ONNX ConvTranspose node; None where absent."""

    kernel_shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    output_padding: tuple[int, ...] | None = None
    output_shape: tuple[int, ...] | None = None
    auto_pad: str = "NOTSET"
    group: int = 1


class UnknownSizeError(GeometryError):
    """The crops depend on an input size that is not known (output_shape on a dynamic axis)."""


def resolve(
    attributes: Attributes,
    weight_shape: Sequence[int],
    sizes: Sequence[int | None],
    *,
    in_channels: int | None = None,
    bias_shape: Sequence[int] | None = None,
) -> ConvTransposeSpec:
    """Canonical spec of a node.

    Args:
        attributes: As the node has them.
        weight_shape: [C_in, C_out/group, *kernel].
        sizes: Spatial sizes of the input, None where unknown.
        in_channels: Channels of the input, where known, to be checked against the weight.
        bias_shape: Shape of the bias, where there is one and it is known.

    Raises:
        UnknownSizeError: output_shape is given for an axis of unknown size.
        GeometryError: The attributes or shapes do not make sense.
    """
    # ONNX Runtime reads an empty auto_pad as an absent one.
    attributes = replace(attributes, auto_pad=attributes.auto_pad or "NOTSET")
    kernel = _kernel(attributes, weight_shape, sizes)
    _check_channels(attributes, weight_shape, in_channels, bias_shape)
    spec = _with_explicit_pads(attributes, weight_shape, kernel)
    _check_output_padding(spec)
    if attributes.output_shape is not None:
        return _from_output_shape(spec, attributes, sizes).canonical()
    if attributes.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return _same(spec, attributes.auto_pad).canonical()
    return spec.canonical()


def _kernel(
    attributes: Attributes, weight_shape: Sequence[int], sizes: Sequence[int | None]
) -> tuple[int, ...]:
    ndim = len(weight_shape) - 2
    if ndim < 1:
        raise GeometryError(
            "the weight must have a rank of at least 3: [C_in, C_out/group, *kernel]",
            where=f"weight shape = {list(weight_shape)}",
            help="a weight without kernel axes needs a MatMul, not a ConvTranspose",
        )
    if len(sizes) != ndim:
        raise GeometryError(
            "input and weight must have the same rank",
            where=f"input rank {len(sizes) + 2}, weight rank {len(weight_shape)}",
            help="the input is [N, C_in, *spatial], the weight [C_in, C_out/group, *kernel]",
        )
    kernel = tuple(weight_shape[2:])
    if attributes.kernel_shape is not None and attributes.kernel_shape != kernel:
        raise GeometryError(
            "kernel_shape differs from the weight's shape",
            where=f"kernel_shape = {list(attributes.kernel_shape)}, weight {list(weight_shape)}",
            help="leave kernel_shape away: it is read off the weight",
        )
    return kernel


def _check_channels(
    attributes: Attributes,
    weight_shape: Sequence[int],
    in_channels: int | None,
    bias_shape: Sequence[int] | None,
) -> None:
    if in_channels is not None and in_channels != weight_shape[0]:
        raise GeometryError(
            "the input's channels differ from the weight's",
            where=f"input channels {in_channels}, weight shape {list(weight_shape)}",
            help="the weight is [C_in, C_out/group, *kernel], the input [N, C_in, *spatial]",
        )
    out_channels = weight_shape[1] * attributes.group
    if bias_shape is not None and tuple(bias_shape) != (out_channels,):
        raise GeometryError(
            "the bias must have one value for each output channel",
            where=f"bias shape = {list(bias_shape)}, output channels = {out_channels}",
            help="the output channels are weight.shape[1] * group",
        )
    if attributes.auto_pad not in AUTO_PADS:
        raise GeometryError(
            "auto_pad has an unknown value",
            where=f"auto_pad = {attributes.auto_pad!r}",
            help=did_you_mean(attributes.auto_pad, AUTO_PADS),
        )


def _with_explicit_pads(
    attributes: Attributes, weight_shape: Sequence[int], kernel: tuple[int, ...]
) -> ConvTransposeSpec:
    n = len(kernel)
    zeros, ones = (0,) * n, (1,) * n
    pads = zeros * 2
    if attributes.pads is not None and attributes.auto_pad == "NOTSET":
        if len(attributes.pads) != 2 * n:
            raise GeometryError(
                f"pads must have {2 * n} values, begins then ends",
                where=f"pads = {list(attributes.pads)}",
                help="as in [top, left, bottom, right] for two axes",
            )
        pads = attributes.pads
    return ConvTransposeSpec(
        in_channels=weight_shape[0],
        out_channels=weight_shape[1] * max(attributes.group, 1),
        group=attributes.group,
        kernel=kernel,
        strides=attributes.strides or ones,
        dilations=attributes.dilations or ones,
        pads_begin=pads[:n],
        pads_end=pads[n:],
        output_padding=attributes.output_padding or zeros,
    )


def _check_output_padding(spec: ConvTransposeSpec) -> None:
    for op, s, d in zip(spec.output_padding, spec.strides, spec.dilations, strict=True):
        if op >= max(s, d):
            raise GeometryError(
                "output_padding must be below the stride or the dilation of its axis",
                where=f"output_padding = {list(spec.output_padding)}, strides = "
                f"{list(spec.strides)}, dilations = {list(spec.dilations)}",
                help="a larger output_padding would only append rows that hold the bias",
            )


def _split(total: int, auto_pad: str) -> tuple[int, int]:
    small = total // 2
    return (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)


def same_crops(spec: ConvTransposeSpec, *, upper: bool) -> list[tuple[int, int]]:
    """(begin, end) an axis under SAME_UPPER or SAME_LOWER, without output_padding."""
    auto_pad = "SAME_UPPER" if upper else "SAME_LOWER"
    return [_split(max(0, a.extent - a.stride), auto_pad) for a in spec.axes_uncropped()]


def _same(spec: ConvTransposeSpec, auto_pad: str) -> ConvTransposeSpec:
    crops = [
        _split(max(0, a.extent + op - a.stride), auto_pad)
        for a, op in zip(spec.axes_uncropped(), spec.output_padding, strict=True)
    ]
    return spec.with_pads(crops, spec.output_padding)


def _wanted_rows(output_shape: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Output rows of each of the n axes; exporters may give batch and channels in front."""
    wanted = output_shape[2:] if len(output_shape) == n + 2 else output_shape
    if len(wanted) != n:
        raise GeometryError(
            f"output_shape must have one value for each of the {n} spatial axes",
            where=f"output_shape = {list(output_shape)}",
            help="leave batch and channels away, or give both",
        )
    if any(rows < 1 for rows in wanted):
        raise GeometryError(
            "output_shape must be positive",
            where=f"output_shape = {list(output_shape)}",
            help="leave output_shape away to get every row, or give the rows of each axis",
        )
    return wanted


def _from_output_shape(
    spec: ConvTransposeSpec, attributes: Attributes, sizes: Sequence[int | None]
) -> ConvTransposeSpec:
    wanted = _wanted_rows(attributes.output_shape or (), spec.ndim)
    crops, padding = [], []
    for axis, (a, op, out, length) in enumerate(
        zip(spec.axes_uncropped(), spec.output_padding, wanted, sizes, strict=True)
    ):
        if length is None:
            continue
        full = (length - 1) * a.stride + a.extent
        total = full + op - out
        if total < -(a.stride - 1):
            raise GeometryError(
                "output_shape is a stride or more beyond the natural size",
                where=f"axis {axis + 2}: output_shape {out}, natural size {full + op}",
                help="a larger size holds rows of the bias alone: append them with a Pad instead",
            )
        begin, end = _split(max(total, 0), attributes.auto_pad)
        crops.append((begin, end))
        padding.append(op + max(-total, 0))
    if None in sizes:
        raise UnknownSizeError(
            "output_shape on an axis of unknown size: the crop depends on that size",
            where=f"axis {sizes.index(None) + 2}, output_shape = {list(wanted)}",
            help="give the model static sizes, or export it with pads and output_padding",
        )
    return spec.with_pads(crops, tuple(padding))
