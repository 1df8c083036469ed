"""Device code: implicit GEMM over (shift, C_in), with all phases of fused axes as columns.

One program computes BLOCK_M rows q (flattened over batch, depth, height, width) times BLOCK_N
columns (phase, C_out) of one group, for one phase of each split axis.
"""

# ruff: noqa: ANN001, ANN202, SIM108 - values of the device; a compile-time if is an if
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import (
    COUNT,
    FUSED,
    KERNEL,
    STEP,
    STRIDE,
    block_step,
    coordinates,
    hint_order,
    inside,
    program_taps,
    round_to_tf32,
)
from convt_onnx.plugins.conv_transpose._kernel_store import place_tile, store_tile

# What only bounds and divides is no reason to compile anew.
_PLAIN = ["rows", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "q_d", "q_h", "q_w"]
_PLAIN += ["d_mul", "d_shift", "h_mul", "h_shift", "w_mul", "w_shift"]


@triton.jit(do_not_specialize=_PLAIN)
def gemm_kernel(
    x,  # [N, C_in, D, H, W] with the strides x_*
    w,  # packed, see packing.Packing.shape
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
    AXIS_D: tl.constexpr,
    AXIS_H: tl.constexpr,
    AXIS_W: tl.constexpr,
    C_IN: tl.constexpr,  # of a group
    C_OUT: tl.constexpr,  # of a group
    ROWS_PAD: tl.constexpr,
    COLUMNS_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FLAT: tl.constexpr,
    K_MAJOR: tl.constexpr,
    INTERLEAVE: tl.constexpr,  # innermost columns that are phases of the width, padded; else 1
    CHANNEL_LAST: tl.constexpr,  # the tile's last axis when stored: channels, else rows
    VECTOR: tl.constexpr,  # elements known contiguous and aligned along that axis
    PAIR: tl.constexpr,  # elements of a word that is made of two rows q with three phases, or 1
    BY_ROW: tl.constexpr,  # single elements of lines are stored
    X_VECTOR: tl.constexpr,  # likewise of x, along its channels or, in NCHW, its width
    X_CHANNEL_LAST: tl.constexpr,
    STREAM: tl.constexpr,  # y leaves the cache first
    WIDE: tl.constexpr,  # 64-bit offsets
    PRECISION: tl.constexpr,
    ROUND_X: tl.constexpr,  # to TF32, nearest; the matrix instruction cuts off
    UPCAST: tl.constexpr,  # the interpreter multiplies no bfloat16
    ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr,
    BETA: tl.constexpr,
):
    """y = activation(conv_transpose(x, w) + bias + residual)."""
    SPLIT_D: tl.constexpr = 1 if AXIS_D[FUSED] else AXIS_D[STRIDE]
    SPLIT_H: tl.constexpr = 1 if AXIS_H[FUSED] else AXIS_H[STRIDE]
    SPLIT_W: tl.constexpr = 1 if AXIS_W[FUSED] else AXIS_W[STRIDE]
    BLOCKS_H: tl.constexpr = AXIS_H[COUNT] if AXIS_H[FUSED] else AXIS_H[KERNEL]
    BLOCKS_W: tl.constexpr = AXIS_W[COUNT] if AXIS_W[FUSED] else AXIS_W[KERNEL]
    BLOCKS_D: tl.constexpr = AXIS_D[COUNT] if AXIS_D[FUSED] else AXIS_D[KERNEL]
    GROUP_ROWS: tl.constexpr = ROWS_PAD if FLAT else BLOCKS_D * BLOCKS_H * BLOCKS_W * ROWS_PAD
    TILES_N: tl.constexpr = COLUMNS_PAD // BLOCK_N

    # Phases of a patch run next to each other: they share x and write the same lines of y.
    pid = tl.program_id(0)
    phase_w = pid % SPLIT_W
    pid = pid // SPLIT_W
    phase_h = pid % SPLIT_H
    pid = pid // SPLIT_H
    phase_d = pid % SPLIT_D
    pid = pid // SPLIT_D
    tile_n = pid % TILES_N
    pid = pid // TILES_N
    tiles_m = tl.cdiv(rows, BLOCK_M)
    tile_m = pid % tiles_m
    group = pid // tiles_m

    block_d, shift_d, count_d = program_taps(phase_d, AXIS_D)
    block_h, shift_h, count_h = program_taps(phase_h, AXIS_H)
    block_w, shift_w, count_w = program_taps(phase_w, AXIS_W)

    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    batch, m_d, m_h, m_w = coordinates(
        m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, NDIM, 1
    )
    live = m < rows
    unknown = tl.minimum(m_w, 0)
    if WIDE:
        row = batch.to(tl.int64) * x_n + m_d.to(tl.int64) * x_d + m_h.to(tl.int64) * x_h
        row += m_w.to(tl.int64) * x_w
        row += (group * C_IN).to(tl.int64) * x_c
    else:
        row = batch * x_n + m_d * x_d + m_h * x_h + m_w * x_w + group * C_IN * x_c

    TILES_K: tl.constexpr = (C_IN + BLOCK_K - 1) // BLOCK_K
    taps = count_d * count_h * count_w
    if FLAT:
        steps = (taps * C_IN + BLOCK_K - 1) // BLOCK_K
    else:
        steps = taps * TILES_K

    # The pipeliner computes the first addresses even where no step follows: never divide by 0.
    div_h = tl.maximum(count_h, 1)
    div_w = tl.maximum(count_w, 1)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k_offsets = tl.arange(0, BLOCK_K)
    # Zero, the grid having one row, but unknown to LLVM: where it sees that `at` fits in 16 bits,
    # it divides pairs of them packed, and ptxas 12.8 to 13.0 loses a step of add.s16x2.
    unbounded = tl.multiple_of(tl.program_id(1), BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(steps):
        if FLAT:
            at = step * BLOCK_K + unbounded + k_offsets
            tap = at // C_IN
            channel = at % C_IN
            k_live = at < taps * C_IN
        else:
            tap = step // TILES_K
            channel = (step % TILES_K) * BLOCK_K + k_offsets
            k_live = channel < C_IN
        j_w = tap % div_w
        j_h = (tap // div_w) % div_h
        j_d = tap // div_w // div_h
        e_d = shift_d + j_d * AXIS_D[STEP]
        e_h = shift_h + j_h * AXIS_H[STEP]
        e_w = shift_w + j_w * AXIS_W[STEP]
        block = (block_d + j_d * block_step(AXIS_D)) * BLOCKS_H + block_h
        block = (block + j_h * block_step(AXIS_H)) * BLOCKS_W + block_w
        block = block + j_w * block_step(AXIS_W)

        if FLAT:
            read = live[:, None] & k_live[None, :]
            read &= inside(m_w[:, None] - e_w[None, :], in_w)
            if NDIM >= 2:
                read &= inside(m_h[:, None] - e_h[None, :], in_h)
            if NDIM == 3:
                read &= inside(m_d[:, None] - e_d[None, :], in_d)
            if WIDE:
                column = channel.to(tl.int64) * x_c - e_d.to(tl.int64) * x_d
                column -= e_h.to(tl.int64) * x_h + e_w.to(tl.int64) * x_w
            else:
                column = channel * x_c - (e_d * x_d + e_h * x_h + e_w * x_w)
            offsets = row[:, None] + column[None, :]
            if X_VECTOR > 1:
                offsets = tl.max_contiguous(tl.multiple_of(offsets, (1, X_VECTOR)), (1, X_VECTOR))
                read = tl.max_constancy(read, (1, X_VECTOR))
            elif not X_CHANNEL_LAST:
                offsets = hint_order(offsets, unknown[:, None], 0)
            a = tl.load(x + offsets, mask=read, other=0.0)
            w_row = block * C_IN + channel
        else:
            read = live & inside(m_w - e_w, in_w)
            if NDIM >= 2:
                read &= inside(m_h - e_h, in_h)
            if NDIM == 3:
                read &= inside(m_d - e_d, in_d)
            at_row = row - (e_d * x_d + e_h * x_h + e_w * x_w)
            if C_IN % BLOCK_K == 0:
                mask = read[:, None]
            else:
                mask = read[:, None] & k_live[None, :]
            if WIDE:
                offsets = at_row[:, None] + channel.to(tl.int64)[None, :] * x_c
            else:
                offsets = at_row[:, None] + channel[None, :] * x_c
            if X_VECTOR > 1 and X_CHANNEL_LAST:
                offsets = tl.max_contiguous(tl.multiple_of(offsets, (1, X_VECTOR)), (1, X_VECTOR))
                mask = tl.max_constancy(mask, (1, X_VECTOR))
            elif X_VECTOR > 1:
                offsets = tl.max_contiguous(tl.multiple_of(offsets, (X_VECTOR, 1)), (X_VECTOR, 1))
                mask = tl.max_constancy(mask, (X_VECTOR, 1))
            elif not X_CHANNEL_LAST:
                offsets = hint_order(offsets, unknown[:, None], 0)
            a = tl.load(x + offsets, mask=mask, other=0.0)
            w_row = block * ROWS_PAD + channel

        if K_MAJOR:
            if FLAT:
                w_at = (group * COLUMNS_PAD + n)[:, None] * ROWS_PAD + w_row[None, :]
                b = tl.load(w + w_at, mask=k_live[None, :], other=0.0)
            else:
                first = (group * BLOCKS_D * BLOCKS_H * BLOCKS_W + block) * COLUMNS_PAD
                b = tl.load(w + (first + n)[:, None] * ROWS_PAD + channel[None, :])
            b = tl.trans(b)
        else:
            w_at = (group * GROUP_ROWS + w_row)[:, None] * COLUMNS_PAD + n[None, :]
            if FLAT:
                b = tl.load(w + w_at, mask=k_live[:, None], other=0.0)
            else:
                b = tl.load(w + w_at)
        if ROUND_X:
            a = round_to_tf32(a)
        if UPCAST:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)

    place = place_tile(
        tile_m * BLOCK_M, tile_n * BLOCK_N, group, phase_d, phase_h, phase_w,
        rows, out_d, out_h, out_w, q_d, q_h, q_w,
        d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, y_n, y_c, y_d, y_h, y_w,
        NDIM, AXIS_D, AXIS_H, AXIS_W, C_OUT, BLOCK_M, BLOCK_N, INTERLEAVE, CHANNEL_LAST, VECTOR,
        PAIR, WIDE, False, BY_ROW,
    )  # fmt: skip
    bias_values = None
    if bias is not None:
        bias_values = tl.load(bias + place[2], mask=place[3], other=0.0).to(tl.float32)
    store_tile(
        acc, place, residual, bias_values, y, slope, INTERLEAVE, CHANNEL_LAST, PAIR, STREAM,
        ACTIVATION, ALPHA, BETA,
    )  # fmt: skip
