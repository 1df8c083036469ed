"""Device code: the implicit GEMM of all phases with the weight kept in shared memory.

A program walks over neighbouring tiles of BLOCK_M rows q; the loops over shifts and C_in are
unrolled, so that each weight tile is loaded once, before the walk. Columns come in parts: a part
skips the shifts that none of its phases has.
"""

# ruff: noqa: ANN001, ANN202, RUF005 - values of the device; Triton adds tuples, unpacks none
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import (
    COUNT,
    FIRST,
    STEP,
    coordinates,
    round_to_tf32,
)
from convt_onnx.plugins.conv_transpose._kernel_fragments import (
    PIECE,
    fragment_channel,
    fragment_column,
    fragment_rows,
    sum_pieces,
)
from convt_onnx.plugins.conv_transpose._kernel_read import operand, read_x
from convt_onnx.plugins.conv_transpose._kernel_store import (
    place_tile,
    read_added,
    store_tile,
    unstored,
)

# What only bounds and divides is no reason to compile anew.
_PLAIN = ["rows", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "q_d", "q_h", "q_w"]
_PLAIN += ["d_mul", "d_shift", "h_mul", "h_shift", "w_mul", "w_shift"]


@triton.jit(do_not_specialize=_PLAIN)
def resident_kernel(
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
    AXIS_D: tl.constexpr,  # fused, as the others
    AXIS_H: tl.constexpr,
    AXIS_W: tl.constexpr,
    C_IN: tl.constexpr,  # of a group
    C_OUT: tl.constexpr,  # of a group
    ROWS_PAD: tl.constexpr,
    COLUMNS_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,  # channels of a product, those of joined shifts counted
    PARTS: tl.constexpr,  # widths, first columns, bits of the blocks that each part has
    JOINED: tl.constexpr,  # neighbouring shifts of the width that a product adds up
    FRAGMENTS: tl.constexpr,  # x goes to the operands' registers without shared memory
    FRAGMENT_SUMS: tl.constexpr,  # and the sums to y
    WORKERS: tl.constexpr,  # programs that share the rows of a group
    PREFETCH: tl.constexpr,  # reads of x that run ahead of the products
    K_MAJOR: tl.constexpr,
    INTERLEAVE: tl.constexpr,  # innermost columns that are phases of the width, padded; else 1
    CHANNEL_LAST: tl.constexpr,  # the tile's last axis when stored: channels, else rows
    VECTOR: tl.constexpr,  # elements known contiguous and aligned along that axis
    ADDED_FIRST: tl.constexpr,  # the sums begin at the residual
    PAIR: tl.constexpr,  # elements of a word that is made of two rows q with three phases, or 1
    X_VECTOR: tl.constexpr,  # likewise of x, along its channels or its width
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
    COUNT_PARTS: tl.constexpr = len(PARTS[0])
    TILE_COLUMNS: tl.constexpr = PARTS[1][COUNT_PARTS - 1] + PARTS[0][COUNT_PARTS - 1]
    TILES_N: tl.constexpr = COLUMNS_PAD // TILE_COLUMNS
    TILES_K: tl.constexpr = ROWS_PAD * JOINED // BLOCK_K
    SHIFTS: tl.constexpr = AXIS_D[COUNT] * AXIS_H[COUNT] * AXIS_W[COUNT] // JOINED
    # Shifts of x that one read serves.
    SERVED: tl.constexpr = 1 if X_CHANNEL_LAST else AXIS_W[COUNT]
    READS: tl.constexpr = SHIFTS // SERVED * TILES_K
    # The leftmost word that the shifts of the width touch, counted from that of a row.
    LEFT: tl.constexpr = -(AXIS_W[FIRST] + (AXIS_W[COUNT] - 1) * AXIS_W[STEP]) // X_VECTOR

    pid = tl.program_id(0)
    first_column = (pid % TILES_N) * TILE_COLUMNS
    pid = pid // TILES_N
    worker = pid % WORKERS
    group = pid // WORKERS
    weights = _weights(
        w, group, first_column, SHIFTS, TILES_K, ROWS_PAD, COLUMNS_PAD, BLOCK_K, K_MAJOR, PARTS,
        JOINED, FRAGMENTS, FRAGMENT_SUMS,
    )  # fmt: skip
    # The channels of a stored tile, where its columns begin with the first and hold all or many.
    LAST: tl.constexpr = PIECE if FRAGMENT_SUMS else PARTS[0][COUNT_PARTS - 1] // INTERLEAVE
    PERIODIC: tl.constexpr = C_OUT & (C_OUT - 1) == 0 and LAST % C_OUT == 0
    tiles = tl.cdiv(rows, BLOCK_M)
    share = tl.cdiv(tiles, WORKERS)
    end = tl.minimum((worker + 1) * share, tiles)
    for tile in tl.range(worker * share, end):
        if X_CHANNEL_LAST:
            m = tile * BLOCK_M + (fragment_rows(BLOCK_M) if FRAGMENTS else tl.arange(0, BLOCK_M))
        else:
            m = tile * BLOCK_M + X_VECTOR * tl.arange(0, BLOCK_M // X_VECTOR)
        batch, m_d, m_h, m_w = coordinates(
            m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, NDIM, 1
        )
        live = m < rows
        if WIDE:
            row = batch.to(tl.int64) * x_n + m_d.to(tl.int64) * x_d + m_h.to(tl.int64) * x_h
            row += m_w.to(tl.int64) * x_w + (group * C_IN).to(tl.int64) * x_c
        else:
            row = batch * x_n + m_d * x_d + m_h * x_h + m_w * x_w + group * C_IN * x_c

        # Where the sums begin at the residual, read at once, it takes no registers beside them.
        added = ()
        if residual is not None and ADDED_FIRST:
            for part in tl.static_range(COUNT_PARTS):
                added = added + (
                    read_added(
                        residual, tile * BLOCK_M, first_column + PARTS[1][part], group,
                        rows, out_d, out_h, out_w, q_d, q_h, q_w,
                        d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, y_n, y_c, y_d, y_h, y_w,
                        NDIM, AXIS_D, AXIS_H, AXIS_W, C_OUT, BLOCK_M, tl.constexpr(PARTS[0][part]),
                        INTERLEAVE, CHANNEL_LAST, VECTOR, PAIR, WIDE, STREAM, FRAGMENT_SUMS,
                    ),
                )  # fmt: skip
        sums = ()
        for part in tl.static_range(COUNT_PARTS):
            if residual is not None and ADDED_FIRST:
                sums = sums + (
                    unstored(
                        added[part], BLOCK_M, tl.constexpr(PARTS[0][part]), INTERLEAVE,
                        CHANNEL_LAST, FRAGMENT_SUMS,
                    ),
                )  # fmt: skip
            else:
                sums = sums + (tl.zeros((BLOCK_M, tl.constexpr(PARTS[0][part])), tl.float32),)
        reads = ()
        for step in tl.static_range(READS + PREFETCH):
            if step < READS:
                reads = reads + (
                    read_x(
                        x, step, row, m_d, m_h, m_w, live, in_d, in_h, in_w, x_c, x_d, x_h, x_w,
                        NDIM, AXIS_D, AXIS_H, AXIS_W, C_IN, TILES_K, BLOCK_K, X_VECTOR,
                        X_CHANNEL_LAST, LEFT, JOINED, FRAGMENTS, WIDE,
                    ),
                )  # fmt: skip
            if step >= PREFETCH:
                for served in tl.static_range(SERVED):
                    a = operand(
                        reads[step - PREFETCH], served, x.dtype.element_ty, AXIS_W, X_VECTOR,
                        X_CHANNEL_LAST, LEFT, BLOCK_M, BLOCK_K, FRAGMENTS,
                    )  # fmt: skip
                    if ROUND_X:
                        a = round_to_tf32(a)
                    sums = _accumulate(
                        a, weights, sums, (step - PREFETCH) // TILES_K * SERVED + served,
                        (step - PREFETCH) % TILES_K, TILES_K, PARTS, PRECISION, UPCAST,
                    )  # fmt: skip

        bias_values = None
        if bias is not None and PERIODIC:
            # 0, but of this tile: an address kept through the walk would take registers.
            here = group * C_OUT + tl.multiple_of(tl.minimum(tile, 0), 16)
            bias_values = tl.load(bias + here + tl.arange(0, C_OUT)).to(tl.float32)
        for part in tl.static_range(COUNT_PARTS):
            stored = (sums[part],)
            if FRAGMENT_SUMS:
                stored = sum_pieces(sums[part])
            for piece in tl.static_range(len(stored)):
                place = place_tile(
                    tile * BLOCK_M, first_column + PARTS[1][part] + PIECE * piece, group, 0, 0, 0,
                    rows, out_d, out_h, out_w, q_d, q_h, q_w,
                    d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, y_n, y_c, y_d, y_h, y_w,
                    NDIM, AXIS_D, AXIS_H, AXIS_W, C_OUT, BLOCK_M,
                    tl.constexpr(PIECE if FRAGMENT_SUMS else PARTS[0][part]),
                    INTERLEAVE, CHANNEL_LAST, VECTOR, PAIR, WIDE, FRAGMENT_SUMS,
                )  # fmt: skip
                if bias is not None and not PERIODIC:
                    bias_values = tl.load(bias + place[2], mask=place[3], other=0.0).to(tl.float32)
                store_tile(
                    stored[piece], place, None if ADDED_FIRST else residual, bias_values, y, slope,
                    INTERLEAVE, CHANNEL_LAST, PAIR, STREAM, ACTIVATION, ALPHA, BETA,
                )  # fmt: skip


@triton.jit
def _weights(
    w, group, first_column, SHIFTS: tl.constexpr, TILES_K: tl.constexpr, ROWS_PAD: tl.constexpr,
    COLUMNS_PAD: tl.constexpr, BLOCK_K: tl.constexpr, K_MAJOR: tl.constexpr, PARTS: tl.constexpr,
    JOINED: tl.constexpr, FRAGMENTS: tl.constexpr, FRAGMENT_SUMS: tl.constexpr,
):  # fmt: skip
    """Weight tiles [BLOCK_K, width] by (shift, tile of C_in, part); 0 where a part has none."""
    tiles = ()
    for i in tl.static_range(SHIFTS * TILES_K):
        for part in tl.static_range(len(PARTS[0])):
            if (PARTS[2][part] >> (i // TILES_K)) & 1:
                tile = _weight(
                    w, (group * SHIFTS + i // TILES_K) * JOINED, i % TILES_K,
                    first_column + PARTS[1][part], PARTS[0][part], ROWS_PAD, COLUMNS_PAD, BLOCK_K,
                    K_MAJOR, FRAGMENTS, FRAGMENT_SUMS,
                )  # fmt: skip
                tiles = tiles + (tile,)
            else:
                tiles = tiles + (0,)
    return tiles


@triton.jit
def _weight(
    w, block, at_k, first, WIDTH: tl.constexpr, ROWS_PAD: tl.constexpr,
    COLUMNS_PAD: tl.constexpr, BLOCK_K: tl.constexpr, K_MAJOR: tl.constexpr,
    FRAGMENTS: tl.constexpr, FRAGMENT_SUMS: tl.constexpr,
):  # fmt: skip
    n = tl.arange(0, WIDTH)
    n = first + (fragment_column(n) if FRAGMENT_SUMS else n)
    k = tl.arange(0, BLOCK_K)
    k = at_k * BLOCK_K + (fragment_channel(k) if FRAGMENTS else k)
    if K_MAJOR:
        tile = tl.trans(tl.load(w + (block * COLUMNS_PAD + n)[:, None] * ROWS_PAD + k[None, :]))
    else:
        tile = tl.load(w + (block * ROWS_PAD + k)[:, None] * COLUMNS_PAD + n[None, :])
    return tile


@triton.jit
def _accumulate(
    a, weights, sums, SHIFT: tl.constexpr, AT_K: tl.constexpr, TILES_K: tl.constexpr,
    PARTS: tl.constexpr, PRECISION: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    new = ()
    for part in tl.static_range(len(PARTS[0])):
        if (PARTS[2][part] >> SHIFT) & 1:
            b = weights[(SHIFT * TILES_K + AT_K) * len(PARTS[0]) + part]
            if UPCAST:
                new = new + (tl.dot(a.to(tl.float32), b.to(tl.float32), sums[part]),)
            else:
                new = new + (tl.dot(a, b, sums[part], input_precision=PRECISION),)
        else:
            new = new + (sums[part],)
    return new
