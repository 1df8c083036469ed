"""Convolution and deconvolution layers in float64."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from convt_onnx.engine.simulate_layers import Array, Call, Index
from convt_onnx.padding import same_crops
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec


def deconvolution(call: Call) -> Array:
    """DECONVOLUTION: the padding crops; weights are [C_in, C_out/groups, *kernel]."""
    x = call.array(0)
    raw = call.raw
    kernel = tuple(raw.kernel_size_nd)
    channels, groups = raw.num_output_maps, raw.num_groups
    weight = _operand(call, 1, raw.kernel).reshape(x.shape[1], channels // groups, *kernel)
    spec = ConvTransposeSpec(
        in_channels=x.shape[1],
        out_channels=channels,
        group=groups,
        kernel=kernel,
        strides=tuple(raw.stride_nd),
        dilations=tuple(raw.dilation_nd),
        pads_begin=tuple(raw.pre_padding),
        pads_end=tuple(raw.post_padding),
        output_padding=(0,) * len(kernel),
    )
    if raw.padding_mode.name.startswith("SAME"):
        spec = same_padding(spec, upper=raw.padding_mode.name == "SAME_UPPER")
    return conv_transpose(x, weight, _bias(call, channels), spec)


def same_padding(spec: ConvTransposeSpec, *, upper: bool) -> ConvTransposeSpec:
    """SAME_UPPER and SAME_LOWER of a deconvolution: output rows are input rows times the stride."""
    return spec.with_pads(same_crops(spec, upper=upper), spec.output_padding)


def convolution(call: Call) -> Array:
    """CONVOLUTION with explicit padding; weights are [C_out, C_in/groups, *kernel]."""
    raw = call.raw
    x = call.array(0).astype(np.float64)
    kernel, groups, channels = tuple(raw.kernel_size_nd), raw.num_groups, raw.num_output_maps
    weight = _operand(call, 1, raw.kernel).astype(np.float64)
    weight = weight.reshape(groups, channels // groups, x.shape[1] // groups, *kernel)
    strides, dilations = tuple(raw.stride_nd), tuple(raw.dilation_nd)
    x = np.pad(x, [(0, 0), (0, 0), *_padding(raw, x.shape[2:])])
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    ]
    grouped = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    y = np.zeros((x.shape[0], groups, channels // groups, *sizes))
    for tap in product(*(range(k) for k in kernel)):
        rows = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, s, n in zip(tap, dilations, strides, sizes, strict=True)
        ]
        read: Index = (..., *rows)
        at: Index = (..., *tap)
        part = grouped[read]
        flat = part.reshape(*part.shape[:3], prod(sizes))
        y += np.matmul(weight[at], flat).reshape(y.shape)
    y = y.reshape(x.shape[0], channels, *sizes)
    bias = _bias(call, channels)
    return y if bias is None else y + bias.reshape(-1, *[1] * len(sizes))


def _padding(raw: Any, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Rows of zeros before and after each axis."""
    mode = raw.padding_mode.name
    if not mode.startswith("SAME"):
        return list(zip(raw.pre_padding, raw.post_padding, strict=True))
    pads = []
    for n, k, s, d in zip(sizes, raw.kernel_size_nd, raw.stride_nd, raw.dilation_nd, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        small = total // 2
        pads.append((small, total - small) if mode == "SAME_UPPER" else (total - small, small))
    return pads


def _operand(call: Call, index: int, own: Any) -> Array:
    given = call.optional(index)
    return np.asarray(own) if given is None else given


def _bias(call: Call, channels: int) -> Array | None:
    bias = _operand(call, 2, call.raw.bias)
    return bias.reshape(channels).astype(np.float64) if bias.size else None
