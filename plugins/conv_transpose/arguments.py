"""Arguments of torch.nn.functional.conv_transpose*: valid or not, and their geometry."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from convt_onnx.spec import ConvTransposeSpec

IntOrInts = int | Sequence[int]
# stride, padding, output_padding, groups, dilation, padding_end
Geometry = tuple[IntOrInts, IntOrInts, IntOrInts, int, IntOrInts, IntOrInts | None]


def valid(
    ndim: int, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, geometry: Geometry
) -> bool:
    """Whether torch.nn.functional would take these arguments."""
    stride, padding, extra, groups, dilation, end = geometry
    if x.dim() not in (ndim + 1, ndim + 2) or weight.dim() != ndim + 2:
        return False
    lists = (stride, padding, extra, dilation)
    if not all(isinstance(v, int) or len(v) in (1, ndim) for v in lists):
        return False
    strides, pads, extras, dilations = (each(v, ndim) for v in lists)
    channels = x.shape[-ndim - 1]
    if groups < 1 or weight.shape[0] != channels or channels % groups or channels == 0:
        return False
    if bias is not None and tuple(bias.shape) != (weight.shape[1] * groups,):
        return False
    if min(strides) < 1 or min(dilations) < 1 or min(pads) < 0 or min(extras) < 0:
        return False
    if any(e >= max(s, d) for e, s, d in zip(extras, strides, dilations, strict=True)):
        return False
    if 0 in weight.shape or 0 in x.shape[-ndim:]:
        return False
    lengths = [
        (x.shape[i - ndim] - 1) * strides[i]
        + (weight.shape[2 + i] - 1) * dilations[i]
        + extras[i]
        - 2 * pads[i]
        for i in range(ndim)
    ]
    if end is None and min(lengths) < 0:
        return False
    same = [weight] if bias is None else [weight, bias]
    autocast = torch.is_autocast_enabled(x.device.type)
    return all(t.device == x.device and (autocast or t.dtype == x.dtype) for t in same)


def spec_of(
    weight: torch.Tensor,
    stride: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> ConvTransposeSpec:
    """The geometry of a weight [C_in, C_out/groups, *kernel]."""
    return ConvTransposeSpec(
        int(weight.shape[0]),
        int(weight.shape[1]) * groups,
        groups,
        tuple(int(k) for k in weight.shape[2:]),
        tuple(stride),
        tuple(dilation),
        tuple(pads_begin),
        tuple(pads_end),
        tuple(output_padding),
    )


def each(value: IntOrInts, ndim: int) -> tuple[int, ...]:
    """One value an axis."""
    if isinstance(value, int):
        return (value,) * ndim
    return tuple(value) * (ndim if len(value) == 1 else 1)
