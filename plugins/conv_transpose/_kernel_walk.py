"""Device code: resident weights, and lines of x that stay in registers.

A program owns BLOCK_M rows (batch, width) and walks down the height, or, where there is none, along
the width of one image, folded into lines of BLOCK_M rows. It reads a line of x at the
shifts of the width, once, as fragments (see `_kernel_fragments`), and holds them while any shift
of the height wants that line.
"""

# ruff: noqa: ANN001, ANN202, RUF005 - values of the device; Triton adds tuples, unpacks none
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import (
    COUNT,
    FIRST,
    STRIDE,
    coordinates,
)
from convt_onnx.plugins.conv_transpose._kernel_fragments import PIECE, fragment_rows, sum_pieces
from convt_onnx.plugins.conv_transpose._kernel_store import place_rows, store_tile
from convt_onnx.plugins.conv_transpose._kernel_thirds import store_thirds
from convt_onnx.plugins.conv_transpose._kernel_walk_operands import (
    count_products,
    held_line,
    product_blocks,
    product_number,
    product_operand,
    read_line,
    read_weights,
    without_first,
)
from convt_onnx.plugins.conv_transpose._kernel_words import store_words, stored_channels

# What only bounds and divides is no reason to compile anew.
_PLAIN = ["rows", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "q_d", "q_h", "q_w"]
_PLAIN += ["d_mul", "d_shift", "h_mul", "h_shift", "w_mul", "w_shift"]


@triton.jit(do_not_specialize=_PLAIN)
def walk_kernel(
    x,  # [N, C_in, D, H, W] with the strides x_*; D is 1
    w,  # packed, see packing.Packing.shape
    bias,  # [C_out] or None
    slope,  # [C_out] or None: PRelu
    residual,  # as y, or None
    rows,  # N * q_h * q_w
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
    NDIM: tl.constexpr,  # 2, or 1: then lines are BLOCK_M positions of the width
    AXIS_D: tl.constexpr,  # fused, as the others
    AXIS_H: tl.constexpr,
    AXIS_W: tl.constexpr,
    C_IN: tl.constexpr,  # of a group
    C_OUT: tl.constexpr,  # of a group
    ROWS_PAD: tl.constexpr,
    COLUMNS_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,  # positions (batch, width)
    BLOCK_K: tl.constexpr,  # all channels
    PARTS: tl.constexpr,  # widths and first columns
    PRODUCTS: tl.constexpr,  # of each part the weight blocks of each product
    READ_AT: tl.constexpr,  # the product before which the next line is read
    SEGMENTS: tl.constexpr,  # programs that share the height
    VECTOR: tl.constexpr,  # channels of y known contiguous and aligned
    X_VECTOR: tl.constexpr,  # likewise of x
    CHANNEL_LAST: tl.constexpr,  # of x and y
    STREAM: tl.constexpr,  # y leaves the cache first
    WIDE: tl.constexpr,  # 64-bit offsets
    UPCAST: tl.constexpr,  # the interpreter multiplies no bfloat16
    ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr,
    BETA: tl.constexpr,
):
    """y = activation(conv_transpose(x, w) + bias + residual)."""
    COUNT_PARTS: tl.constexpr = len(PARTS[0])
    TILE_COLUMNS: tl.constexpr = PARTS[1][COUNT_PARTS - 1] + PARTS[0][COUNT_PARTS - 1]
    TILES_N: tl.constexpr = COLUMNS_PAD // TILE_COLUMNS
    LINES: tl.constexpr = AXIS_H[COUNT]

    pid = tl.program_id(0)
    first_column = (pid % TILES_N) * TILE_COLUMNS
    pid = pid // TILES_N
    segment = pid % SEGMENTS
    pid = pid // SEGMENTS
    positions = rows // q_h
    if NDIM == 1:  # the width is folded: a line follows the one before
        positions = rows // q_w * BLOCK_M
        q_h = tl.cdiv(q_w, BLOCK_M)
        in_h = q_h
        x_h = x_w * BLOCK_M
    tiles = tl.cdiv(positions, BLOCK_M)
    group = pid // tiles
    share = tl.cdiv(q_h, SEGMENTS)
    first = segment * share
    end = tl.minimum(first + share, q_h)
    weights = read_weights(
        w, group * LINES * AXIS_W[COUNT], first_column, PARTS, PRODUCTS, ROWS_PAD, COLUMNS_PAD,
        BLOCK_K, CHANNEL_LAST,
    )  # fmt: skip

    m = pid % tiles * BLOCK_M
    if CHANNEL_LAST:
        m += fragment_rows(BLOCK_M)
    else:
        m += 2 * tl.arange(0, BLOCK_M // 2)
    live = m < positions
    if NDIM == 1:
        batch, m_d, m_w = m // BLOCK_M, tl.zeros_like(m), m % BLOCK_M
    else:
        batch, m_d, _, m_w = coordinates(
            m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, 1, 1
        )
    if WIDE:
        row = batch.to(tl.int64) * x_n + m_w.to(tl.int64) * x_w + (group * C_IN).to(tl.int64) * x_c
    else:
        row = batch * x_n + m_w * x_w + group * C_IN * x_c

    # Words leave registers for the bias: read at a line's end, it would be waited for.
    bias_values = None
    if bias is not None and not CHANNEL_LAST:
        bias_values = _line_bias(bias, group * C_OUT, C_OUT, AXIS_W)
    held = ()  # from the line that the last shift wants
    for i in tl.static_range(LINES):
        at = first - AXIS_H[FIRST] - (LINES - 1) + i
        read = read_line(
            x, row, at, _along(m_w, at, BLOCK_M, NDIM), live, in_h, in_w, x_c, x_h, x_w,
            AXIS_W, C_IN, BLOCK_K, X_VECTOR, CHANNEL_LAST, WIDE,
        )  # fmt: skip
        held = held + held_line(read, AXIS_W, CHANNEL_LAST)
    for line in tl.range(first, end):
        following = ()
        sums = ()  # of the phases of the width
        for part in tl.static_range(COUNT_PARTS):
            total = tl.zeros((BLOCK_M, tl.constexpr(PARTS[0][part])), tl.float32)
            for product in tl.static_range(count_products(PRODUCTS, part)):
                if product_number(PRODUCTS, part, product) == READ_AT:
                    at = line + 1 - AXIS_H[FIRST]
                    following = read_line(
                        x, row, at, _along(m_w, at, BLOCK_M, NDIM), live, in_h, in_w, x_c, x_h, x_w,
                        AXIS_W, C_IN, BLOCK_K, X_VECTOR, CHANNEL_LAST, WIDE,
                    )  # fmt: skip
                a = product_operand(
                    held, product_blocks(PRODUCTS, part, product), LINES, BLOCK_M, BLOCK_K, AXIS_W,
                    x.dtype.element_ty, CHANNEL_LAST,
                )  # fmt: skip
                b = weights[product_number(PRODUCTS, part, product)]
                if UPCAST:
                    total = tl.dot(a.to(tl.float32), b.to(tl.float32), total)
                else:
                    total = tl.dot(a, b, total)
            if CHANNEL_LAST:
                _store_part(
                    total, y, bias, slope, residual, batch, m_d, line, m_w, live,
                    first_column + PARTS[1][part], group, out_d, out_h, out_w,
                    y_n, y_c, y_d, y_h, y_w, AXIS_D, AXIS_H, AXIS_W, C_OUT, VECTOR, STREAM, WIDE,
                    ACTIVATION, ALPHA, BETA,
                )  # fmt: skip
            else:
                sums = sums + (total,)
                if part % AXIS_W[STRIDE] == AXIS_W[STRIDE] - 1:
                    at_w = _along(m_w, line, BLOCK_M, NDIM)
                    _store_line(
                        sums, y, bias_values, slope, residual, batch, line, at_w,
                        live & (at_w < q_w),
                        part // AXIS_W[STRIDE], group * C_OUT, out_h, out_w, y_n, y_c, y_h,
                        AXIS_H, AXIS_W, STREAM, WIDE, ACTIVATION, ALPHA, BETA,
                    )  # fmt: skip
                    sums = ()
        following = held_line(following, AXIS_W, CHANNEL_LAST)
        held = without_first(held, tl.constexpr(len(held) // LINES)) + following


@triton.jit
def _store_part(
    total, y, bias, slope, residual, batch, m_d, line, m_w, live, first_column, group,
    out_d, out_h, out_w, y_n, y_c, y_d, y_h, y_w, AXIS_D: tl.constexpr, AXIS_H: tl.constexpr,
    AXIS_W: tl.constexpr, C_OUT: tl.constexpr, VECTOR: tl.constexpr, STREAM: tl.constexpr,
    WIDE: tl.constexpr, ACTIVATION: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr,
):  # fmt: skip
    """Write the sums of a part of the columns of one line."""
    PERIODIC: tl.constexpr = C_OUT & (C_OUT - 1) == 0 and PIECE % C_OUT == 0
    bias_values = None
    if bias is not None and PERIODIC:
        # 0, but of this line: an address kept through the walk would take registers.
        here = group * C_OUT + tl.multiple_of(tl.minimum(line, 0), 16)
        bias_values = tl.load(bias + here + tl.arange(0, C_OUT)).to(tl.float32)
    stored = sum_pieces(total)
    for piece in tl.static_range(len(stored)):
        place = place_rows(
            batch, m_d, tl.zeros_like(m_w) + line, m_w, 0, live, first_column + PIECE * piece,
            group, 0, 0, 0, out_d, out_h, out_w, y_n, y_c, y_d, y_h, y_w, AXIS_D, AXIS_H, AXIS_W,
            C_OUT, PIECE, 1, True, VECTOR, 1, WIDE,
        )  # fmt: skip
        if bias is not None and not PERIODIC:
            bias_values = tl.load(bias + place[2], mask=place[3], other=0.0).to(tl.float32)
        store_tile(
            stored[piece], place, residual, bias_values, y, slope, 1, True, 1, STREAM,
            ACTIVATION, ALPHA, BETA,
        )  # fmt: skip


@triton.jit
def _along(m_w, line, BLOCK_M: tl.constexpr, NDIM: tl.constexpr):
    """Positions of a line along the width, which is folded where there is no height."""
    if NDIM == 1:
        m_w += line * BLOCK_M
    return m_w


@triton.jit
def _line_bias(bias, first, C_OUT: tl.constexpr, AXIS_W: tl.constexpr):
    """The bias as `_store_line` wants it."""
    if AXIS_W[STRIDE] == 3:
        found = tl.load(bias + first + tl.arange(0, C_OUT))
    else:
        channel, own = stored_channels(first, C_OUT)
        found = tl.load(bias + channel + own)
    return found


@triton.jit
def _store_line(
    sums, y, bias_values, slope, residual, batch, line, m_w, live, phase_h, first_channel,
    out_h, out_w, y_n, y_c, y_h, AXIS_H: tl.constexpr, AXIS_W: tl.constexpr,
    STREAM: tl.constexpr, WIDE: tl.constexpr, ACTIVATION: tl.constexpr, ALPHA: tl.constexpr,
    BETA: tl.constexpr,
):  # fmt: skip
    """Write a line of NCHW y of the sums of all phases of the width."""
    if AXIS_W[STRIDE] == 3:
        store_thirds(
            sums[0], sums[1], sums[2], y, bias_values, slope, residual, batch, line, m_w, live,
            phase_h, first_channel, out_h, out_w, y_n, y_c, y_h, AXIS_H, AXIS_W, STREAM, WIDE,
            ACTIVATION, ALPHA, BETA,
        )  # fmt: skip
    else:
        store_words(
            sums[0], sums[1], y, bias_values, slope, residual, batch, line, m_w, live, phase_h,
            first_channel, out_h, y_n, y_c, y_h, AXIS_H, STREAM, WIDE, ACTIVATION, ALPHA, BETA,
        )  # fmt: skip
