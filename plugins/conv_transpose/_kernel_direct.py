"""Device code: multiply and add on the ordinary units, for depthwise and few-channel groups.

There, matrix instructions would mostly multiply zeros. A program computes BLOCK_Q rows q of one
phase of each split axis. The tile's last axis is BLOCK_L channels where y is channels-last;
otherwise the phases of the width of one channel, which lie next to each other in y.
"""

# ruff: noqa: ANN001, ANN202 - values of the device; a compile-time if is an if
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import (
    BASE,
    CROP,
    DILATION,
    EXACT,
    FUSED,
    KERNEL,
    STEP,
    STRIDE,
    TAP_STEP,
    coordinates,
    hint_order,
    inside,
    program_taps,
)
from convt_onnx.plugins.conv_transpose._kernel_epilogue import activate

# Channels of a group whose loop is written out; more take the compiler minutes.
UNROLLED = tl.constexpr(32)
# Channels, or terms of all taps, that are added up one after the other; more lose digits.
FEW = tl.constexpr(4)
TERMS = tl.constexpr(128)


@triton.jit
def _add_channel(
    acc,
    x,
    w,
    channel,
    at_row,
    w_at,
    group,
    read,
    has,
    c_live,
    x_c,
    C_IN: tl.constexpr,
    W_STEP: tl.constexpr,  # from a channel of w to the next
    CHANNEL_LAST: tl.constexpr,
):
    """acc plus one channel of x times one of w."""
    w_values = tl.load(w + (w_at + channel * W_STEP), mask=has, other=0.0)
    if CHANNEL_LAST:
        x_at = at_row[:, None] + ((group * C_IN + channel) * x_c)[None, :]
        x_read = read[:, None] & c_live[None, :]
    else:
        first = tl.max(group, axis=0) * C_IN + channel
        x_at = (at_row + first * x_c)[:, None]
        x_read = read[:, None]
    x_values = tl.load(x + x_at, mask=x_read, other=0.0)
    return acc + x_values.to(tl.float32) * w_values.to(tl.float32)[None, :]


@triton.jit(
    do_not_specialize=[
        "rows", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "q_d", "q_h", "q_w",
        "d_mul", "d_shift", "h_mul", "h_shift", "w_mul", "w_shift",
    ]
)  # fmt: skip
def direct_kernel(
    x,  # [N, C_in, D, H, W] with the strides x_*
    w,  # [C_in, C_out / group, *kernel], contiguous
    bias,  # [C_out] or None
    slope,  # [C_out] or None: PRelu
    residual,  # as y, or None
    rows,  # N * q_d * q_h * q_w
    in_d,
    in_h,
    in_w,
    out_d,
    out_h,
    out_w,
    q_d,
    q_h,
    q_w,
    d_mul,  # geometry.divider of q_d, q_h, q_w, or None
    d_shift,
    h_mul,
    h_shift,
    w_mul,
    w_shift,
    x_n,
    x_c,
    x_d,
    x_h,
    x_w,
    y_n,
    y_c,
    y_d,
    y_h,
    y_w,
    y,  # [N, C_out, D, H, W] with the strides y_*
    NDIM: tl.constexpr,
    AXIS_D: tl.constexpr,  # split
    AXIS_H: tl.constexpr,  # split
    AXIS_W: tl.constexpr,  # split, or fused where the last axis is its phases
    C_IN: tl.constexpr,  # of a group
    C_OUT: tl.constexpr,  # of a group
    CHANNELS: tl.constexpr,  # of y
    BLOCK_Q: tl.constexpr,
    BLOCK_L: tl.constexpr,
    CHANNEL_LAST: tl.constexpr,
    VECTOR: tl.constexpr,  # elements known contiguous and aligned along the last axis
    UNROLL: tl.constexpr,
    WIDE: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr,
    BETA: tl.constexpr,
):
    """y = activation(conv_transpose(x, w) + bias + residual)."""
    SPLIT_W: tl.constexpr = 1 if AXIS_W[FUSED] else AXIS_W[STRIDE]
    # Phases of a patch run next to each other: they share x and write the same lines of y.
    pid = tl.program_id(0)
    phase_w = pid % SPLIT_W
    pid = pid // SPLIT_W
    phase_h = pid % AXIS_H[STRIDE]
    pid = pid // AXIS_H[STRIDE]
    phase_d = pid % AXIS_D[STRIDE]
    pid = pid // AXIS_D[STRIDE]
    tiles_q = tl.cdiv(rows, BLOCK_Q)
    tile_q = pid % tiles_q
    tile_c = pid // tiles_q

    k_d, shift_d, count_d = program_taps(phase_d, AXIS_D)
    k_h, shift_h, count_h = program_taps(phase_h, AXIS_H)
    _, shift_w, count_w = program_taps(phase_w, AXIS_W)

    if WIDE:
        m = tile_q.to(tl.int64) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    else:
        m = tile_q * BLOCK_Q + tl.arange(0, BLOCK_Q)
    batch, m_d, m_h, m_w = coordinates(
        m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, NDIM, 1
    )
    lane = tl.arange(0, BLOCK_L)
    if CHANNEL_LAST:
        c = tile_c * BLOCK_L + lane
        c_live = c < CHANNELS
        r_w = phase_w + tl.zeros_like(lane)
        lane_live = c_live
    else:
        c = tile_c + tl.zeros_like(lane)
        c_live = lane >= 0
        r_w = phase_w + lane
        lane_live = r_w < AXIS_W[STRIDE]
    if WIDE:
        batch = batch.to(tl.int64)
        c = c.to(tl.int64)
    live = (m < rows)[:, None] & lane_live[None, :]
    row = batch * x_n + m_d * x_d + m_h * x_h + m_w * x_w
    group = c // C_OUT
    TAPS: tl.constexpr = AXIS_D[KERNEL] * AXIS_H[KERNEL] * AXIS_W[KERNEL]
    SHORT: tl.constexpr = C_IN <= FEW or (C_IN <= UNROLLED and C_IN * TAPS <= TERMS)
    w_row = (group * C_IN * C_OUT + c % C_OUT) * TAPS

    acc = tl.zeros((BLOCK_Q, BLOCK_L), tl.float32)
    div_h = tl.maximum(count_h, 1)
    div_w = tl.maximum(count_w, 1)
    for tap in tl.range(0, count_d * count_h * count_w, loop_unroll_factor=UNROLL):
        j_w = tap % div_w
        j_h = (tap // div_w) % div_h
        j_d = tap // div_w // div_h
        e_d = shift_d + j_d * AXIS_D[STEP]
        e_h = shift_h + j_h * AXIS_H[STEP]
        e_w = shift_w + j_w * AXIS_W[STEP]
        read = (m < rows) & inside(m_w - e_w, in_w)
        if NDIM >= 2:
            read &= inside(m_h - e_h, in_h)
        if NDIM == 3:
            read &= inside(m_d - e_d, in_d)
        position = AXIS_W[BASE] + e_w * AXIS_W[STRIDE] + r_w
        k_w = position // AXIS_W[DILATION]
        has = lane_live & (position >= 0) & (k_w < AXIS_W[KERNEL])
        if AXIS_W[DILATION] > 1:
            has &= position % AXIS_W[DILATION] == 0
        k_dh = (k_d + j_d * AXIS_D[TAP_STEP]) * AXIS_H[KERNEL] + k_h + j_h * AXIS_H[TAP_STEP]
        w_at = w_row + k_dh * AXIS_W[KERNEL] + k_w
        at_row = row - (e_d * x_d + e_h * x_h + e_w * x_w)
        if SHORT:
            for channel in tl.static_range(C_IN):
                acc = _add_channel(
                    acc, x, w, channel, at_row, w_at, group, read, has, c_live, x_c,
                    C_IN, C_OUT * TAPS, CHANNEL_LAST,
                )  # fmt: skip
        else:
            # Each tap by itself.
            of_tap = tl.zeros((BLOCK_Q, BLOCK_L), tl.float32)
            for channel in range(C_IN):
                of_tap = _add_channel(
                    of_tap, x, w, channel, at_row, w_at, group, read, has, c_live, x_c,
                    C_IN, C_OUT * TAPS, CHANNEL_LAST,
                )  # fmt: skip
            acc += of_tap

    q_at_w = m_w * AXIS_W[STRIDE] - AXIS_W[CROP]
    o_h = m_h * AXIS_H[STRIDE] - AXIS_H[CROP] + phase_h
    o_d = m_d * AXIS_D[STRIDE] - AXIS_D[CROP] + phase_d
    write = live
    if not AXIS_D[EXACT]:
        write &= inside(o_d, out_d)[:, None]
    if not AXIS_H[EXACT]:
        write &= inside(o_h, out_h)[:, None]
    if not AXIS_W[EXACT]:
        write &= inside(q_at_w[:, None] + r_w[None, :], out_w)
    m_at = batch * y_n + o_d * y_d + o_h * y_h + q_at_w * y_w
    at = m_at[:, None] + (c * y_c + r_w * y_w)[None, :]
    if VECTOR > 1:
        at = tl.max_contiguous(tl.multiple_of(at, (1, VECTOR)), (1, VECTOR))
        write = tl.max_constancy(write, (1, VECTOR))
    elif BLOCK_L > 1:
        at = hint_order(at, tl.minimum(m_w, 0)[:, None], 1)
    if bias is not None:
        acc += tl.load(bias + c, mask=c_live, other=0.0).to(tl.float32)[None, :]
    if residual is not None:
        acc += tl.load(residual + at, mask=write, other=0.0).to(tl.float32)
    s_values = 0.0
    if slope is not None:
        s_values = tl.load(slope + c, mask=c_live, other=0.0).to(tl.float32)[None, :]
    acc = activate(acc, s_values, ACTIVATION, ALPHA, BETA)
    tl.store(y + at, acc.to(y.dtype.element_ty), mask=write)
