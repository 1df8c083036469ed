"""Device code: epilogue of a tile of the implicit GEMM, and its store."""

# ruff: noqa: ANN001, ANN202 - values of the device; a compile-time if is an if
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import (
    CROP,
    EXACT,
    FUSED,
    STRIDE,
    coordinates,
    hint_order,
    inside,
    spread,
)
from convt_onnx.plugins.conv_transpose._kernel_epilogue import activate


@triton.jit
def store_tile(
    acc,  # [rows q, columns (phase, C_out)], float32
    first_row,
    first_column,
    group,
    phase_d,  # of split axes; else 0
    phase_h,
    phase_w,
    y,
    bias,
    slope,
    residual,
    rows,
    out_d,
    out_h,
    out_w,
    q_d,
    q_h,
    q_w,
    d_mul,
    d_shift,
    h_mul,
    h_shift,
    w_mul,
    w_shift,
    y_n,
    y_c,
    y_d,
    y_h,
    y_w,
    NDIM: tl.constexpr,
    AXIS_D: tl.constexpr,
    AXIS_H: tl.constexpr,
    AXIS_W: tl.constexpr,
    C_OUT: tl.constexpr,
    INTERLEAVE: tl.constexpr,
    CHANNEL_LAST: tl.constexpr,
    VECTOR: tl.constexpr,
    STREAM: tl.constexpr,
    WIDE: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr,
    BETA: tl.constexpr,
):
    """y = activation(acc + bias + residual) for one tile; the arguments are the kernels'."""
    BLOCK_M: tl.constexpr = acc.shape[0]
    COLUMNS: tl.constexpr = acc.shape[1]
    # Rows of the stored tile: q and, interleaved, the phase of the width. Columns: phase, C_out.
    if INTERLEAVE > 1:
        acc = acc.reshape(BLOCK_M, COLUMNS // INTERLEAVE, INTERLEAVE)
        if CHANNEL_LAST:
            acc = acc.permute(0, 2, 1).reshape(BLOCK_M * INTERLEAVE, COLUMNS // INTERLEAVE)
        else:
            acc = acc.permute(1, 0, 2).reshape(COLUMNS // INTERLEAVE, BLOCK_M * INTERLEAVE)
    elif not CHANNEL_LAST:
        acc = tl.trans(acc)
    f = tl.arange(0, BLOCK_M * INTERLEAVE)
    m = first_row + f // INTERLEAVE
    inner_w = f % INTERLEAVE
    batch, m_d, m_h, m_w = coordinates(
        m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, NDIM, INTERLEAVE
    )

    c = first_column // INTERLEAVE + tl.arange(0, COLUMNS // INTERLEAVE)
    PHASES_W: tl.constexpr = AXIS_W[STRIDE] if AXIS_W[FUSED] and INTERLEAVE == 1 else 1
    PHASES_H: tl.constexpr = AXIS_H[STRIDE] if AXIS_H[FUSED] else 1
    PHASES_D: tl.constexpr = AXIS_D[STRIDE] if AXIS_D[FUSED] else 1
    phase = c // C_OUT
    r_w = phase % PHASES_W + phase_w
    r_h = (phase // PHASES_W) % PHASES_H + phase_h
    r_d = phase // (PHASES_W * PHASES_H) + phase_d
    co = group * C_OUT + c % C_OUT

    q_at_w = m_w * AXIS_W[STRIDE] + inner_w - AXIS_W[CROP]
    q_at_h = m_h * AXIS_H[STRIDE] - AXIS_H[CROP]
    q_at_d = m_d * AXIS_D[STRIDE] - AXIS_D[CROP]
    ROW_LAST: tl.constexpr = not CHANNEL_LAST
    live = m < rows
    if AXIS_W[STRIDE] < INTERLEAVE:
        live &= inner_w < AXIS_W[STRIDE]
    write = spread(live, ROW_LAST) & spread(
        c < C_OUT * PHASES_D * PHASES_H * PHASES_W, CHANNEL_LAST
    )
    if not AXIS_D[EXACT]:
        write &= inside(spread(q_at_d, ROW_LAST) + spread(r_d, CHANNEL_LAST), out_d)
    if not AXIS_H[EXACT]:
        write &= inside(spread(q_at_h, ROW_LAST) + spread(r_h, CHANNEL_LAST), out_h)
    if not AXIS_W[EXACT]:
        write &= inside(spread(q_at_w, ROW_LAST) + spread(r_w, CHANNEL_LAST), out_w)
    if WIDE:
        m_at = batch.to(tl.int64) * y_n + q_at_d.to(tl.int64) * y_d
        m_at += q_at_h.to(tl.int64) * y_h + q_at_w.to(tl.int64) * y_w
        c_at = co.to(tl.int64) * y_c + r_d.to(tl.int64) * y_d
        c_at += r_h.to(tl.int64) * y_h + r_w.to(tl.int64) * y_w
    else:
        m_at = batch * y_n + q_at_d * y_d + q_at_h * y_h + q_at_w * y_w
        c_at = co * y_c + r_d * y_d + r_h * y_h + r_w * y_w
    at = spread(m_at, ROW_LAST) + spread(c_at, CHANNEL_LAST)
    if VECTOR > 1:
        at = tl.max_contiguous(tl.multiple_of(at, (1, VECTOR)), (1, VECTOR))
        write = tl.max_constancy(write, (1, VECTOR))
    else:
        at = hint_order(at, spread(tl.minimum(m_w, 0), ROW_LAST), 1)

    c_live = c < C_OUT * PHASES_D * PHASES_H * PHASES_W
    if bias is not None:
        b_values = tl.load(bias + co, mask=c_live, other=0.0).to(tl.float32)
        acc += spread(b_values, CHANNEL_LAST)
    if residual is not None:
        acc += tl.load(residual + at, mask=write, other=0.0).to(tl.float32)
    s_values = 0.0
    if slope is not None:
        s_values = spread(tl.load(slope + co, mask=c_live, other=0.0).to(tl.float32), CHANNEL_LAST)
    acc = activate(acc, s_values, ACTIVATION, ALPHA, BETA)
    if STREAM:
        tl.store(y + at, acc.to(y.dtype.element_ty), mask=write, eviction_policy="evict_first")
    else:
        tl.store(y + at, acc.to(y.dtype.element_ty), mask=write)
