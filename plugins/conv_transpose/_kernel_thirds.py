"""Device code: NCHW y of three phases of the width, from the registers of the sums.

A thread has the sums of two neighbouring positions (see `_kernel_words`) at three phases, six
neighbours of a line of y. With two fields more, which are none, they are exchanged among the
threads of a warp alone, so that neighbouring threads store neighbouring words of 4 bytes.
"""

# ruff: noqa: ANN001, ANN202 - values of the device; a compile-time if is an if
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import CROP, EXACT, STRIDE, inside
from convt_onnx.plugins.conv_transpose._kernel_epilogue import activate, read_residual


@triton.jit
def store_thirds(
    first,  # sums of a phase of the width, [BLOCK_M, channels], float32
    second,
    third,
    y,
    bias_values,  # [channels], or None
    slope, residual, batch, line, m_w, live, phase_h, first_channel, out_h, out_w, y_n, y_c, y_h,
    AXIS_H: tl.constexpr, AXIS_W: tl.constexpr, STREAM: tl.constexpr, WIDE: tl.constexpr,
    ACTIVATION: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr,
):  # fmt: skip
    """y = activation(sums + bias + residual) of the line of y that a phase of the height is."""
    CHANNELS: tl.constexpr = first.shape[1]
    PAIRS: tl.constexpr = first.shape[0] // 2
    at, mask = _places(
        batch, line * AXIS_H[STRIDE] - AXIS_H[CROP] + phase_h, m_w, live, first_channel, out_h,
        out_w, y_n, y_c, y_h, AXIS_H, AXIS_W, WIDE,
    )  # fmt: skip
    mask = tl.max_constancy(mask[None, :] & (tl.arange(0, CHANNELS) >= 0)[:, None], (1, 2))
    total = _six(first, second, third)
    if bias_values is not None:
        total += bias_values.to(tl.float32)[None, :, None, None, None]
    if residual is not None:
        added = read_residual(_addresses(residual, at, y_c, CHANNELS), mask, STREAM)
        added = added.reshape(CHANNELS, PAIRS, 2, 2, 2).permute(1, 0, 2, 3, 4)
        total += added.to(tl.float32)
    s_values = 0.0
    if slope is not None:
        s_values = tl.load(slope + first_channel + tl.arange(0, CHANNELS)).to(tl.float32)
        s_values = s_values[None, :, None, None, None]
    total = activate(total, s_values, ACTIVATION, ALPHA, BETA).to(y.dtype.element_ty)
    total = total.permute(1, 0, 2, 3, 4).reshape(CHANNELS, 8 * PAIRS)
    pointer = _addresses(y, at, y_c, CHANNELS)
    if STREAM:
        tl.store(pointer, total, mask=mask, eviction_policy="evict_first")
    else:
        tl.store(pointer, total, mask=mask)


@triton.jit
def _places(
    batch, at_h, m_w, live, first_channel, out_h, out_w, y_n, y_c, y_h, AXIS_H: tl.constexpr,
    AXIS_W: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Offsets in the first channel of y of [(pair of positions, 8 fields)], and which are in y."""
    FIELDS: tl.constexpr = 8 * m_w.shape[0]
    field = tl.arange(0, 8)
    at_w = (m_w * 3 - AXIS_W[CROP])[:, None] + field[None, :]
    mask = live[:, None] & (field < 6)[None, :] & inside(at_w, out_w)
    if not AXIS_H[EXACT]:
        mask &= inside(tl.zeros_like(at_w) + at_h, out_h)
    if WIDE:
        batch, at_h = batch.to(tl.int64), tl.cast(at_h, tl.int64)
        first_channel = tl.cast(first_channel, tl.int64)
    at = (batch * y_n)[:, None] + at_w + at_h * y_h + first_channel * y_c
    return at.reshape(FIELDS), mask.reshape(FIELDS)


@triton.jit
def _addresses(pointer, at, y_c, CHANNELS: tl.constexpr):
    """Addresses [channels, fields]: one of a field, and for each channel what is added to it.

    Adding 0, of no known alignment, keeps the claim of contiguity from widening an access.
    """
    channel = tl.arange(0, CHANNELS).to(tl.int64) * y_c
    found = (pointer + (at + tl.minimum(at, 0)))[None, :] + channel[:, None]
    return tl.max_contiguous(tl.multiple_of(found, (1, 4)), (1, 2))


@triton.jit
def _six(first, second, third):
    """Fields [pair of positions, channels, 2, 2, 2] of both positions at three phases."""
    v0, v3 = _positions(first)
    v1, v4 = _positions(second)
    v2, v5 = _positions(third)
    even = tl.join(tl.join(v0, v4), tl.join(v2, v2))
    odd = tl.join(tl.join(v1, v5), tl.join(v3, v3))
    return tl.join(even, odd)


@triton.jit
def _positions(total):
    """Sums of the first and the second position of each pair, [pair, channels]."""
    WARPS: tl.constexpr = total.shape[0] // 16
    CHANNELS: tl.constexpr = total.shape[1]
    total = total.reshape(WARPS, 2, 8, CHANNELS).permute(0, 2, 3, 1)
    return tl.split(total.reshape(8 * WARPS, CHANNELS, 2))
