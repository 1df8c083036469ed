"""Device code: resident weights, and lines of x that stay in registers.

A program owns BLOCK_M rows (batch, width) and walks down the height. It reads a line of x at the
shifts of the width, once, as fragments (see `_kernel_fragments`), and holds them while any shift
of the height wants that line.
"""

# ruff: noqa: ANN001, ANN202, RUF005 - values of the device; Triton adds tuples, unpacks none
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import COUNT, FIRST, STEP, coordinates, inside
from convt_onnx.plugins.conv_transpose._kernel_fragments import (
    PIECE,
    fragment_channel,
    fragment_column,
    fragment_rows,
    left_operand,
    read_pieces,
    sum_pieces,
)
from convt_onnx.plugins.conv_transpose._kernel_store import place_rows, store_tile

# What only bounds and divides is no reason to compile anew.
_PLAIN = ["rows", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "q_d", "q_h", "q_w"]
_PLAIN += ["d_mul", "d_shift", "h_mul", "h_shift", "w_mul", "w_shift"]


@triton.jit(do_not_specialize=_PLAIN)
def walk_kernel(
    x,  # [N, C_in, D, H, W] with the strides x_*, channels last; D is 1
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
    y,  # [N, C_out, D, H, W] with the strides y_*, channels last
    NDIM: tl.constexpr,  # 2
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
    tiles = tl.cdiv(positions, BLOCK_M)
    group = pid // tiles
    share = tl.cdiv(q_h, SEGMENTS)
    first = segment * share
    end = tl.minimum(first + share, q_h)
    weights = _weights(
        w, group * LINES * AXIS_W[COUNT], first_column, PARTS, PRODUCTS, ROWS_PAD, COLUMNS_PAD,
        BLOCK_K,
    )  # fmt: skip

    m = pid % tiles * BLOCK_M + fragment_rows(BLOCK_M)
    live = m < positions
    batch, m_d, _, m_w = coordinates(
        m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, NDIM - 1, 1
    )
    if WIDE:
        row = batch.to(tl.int64) * x_n + m_w.to(tl.int64) * x_w + (group * C_IN).to(tl.int64) * x_c
    else:
        row = batch * x_n + m_w * x_w + group * C_IN * x_c

    held = ()  # from the line that the last shift wants
    for i in tl.static_range(LINES):
        held = held + _read_line(
            x, row, first - AXIS_H[FIRST] - (LINES - 1) + i, m_w, live, in_h, in_w, x_c, x_h, x_w,
            AXIS_W, C_IN, BLOCK_K, X_VECTOR, WIDE,
        )  # fmt: skip
    for line in tl.range(first, end):
        following = ()
        for part in tl.static_range(COUNT_PARTS):
            total = tl.zeros((BLOCK_M, tl.constexpr(PARTS[0][part])), tl.float32)
            for product in tl.static_range(_count(PRODUCTS, part)):
                if _number(PRODUCTS, part, product) == READ_AT:
                    following = _read_line(
                        x, row, line + 1 - AXIS_H[FIRST], m_w, live, in_h, in_w, x_c, x_h, x_w,
                        AXIS_W, C_IN, BLOCK_K, X_VECTOR, WIDE,
                    )  # fmt: skip
                a = _operand(held, _blocks(PRODUCTS, part, product), LINES, BLOCK_M, BLOCK_K)
                b = weights[_number(PRODUCTS, part, product)]
                if UPCAST:
                    total = tl.dot(a.to(tl.float32), b.to(tl.float32), total)
                else:
                    total = tl.dot(a, b, total)
            _store_part(
                total, y, bias, slope, residual, batch, m_d, line, m_w, live,
                first_column + PARTS[1][part], group, out_d, out_h, out_w, y_n, y_c, y_d, y_h, y_w,
                AXIS_D, AXIS_H, AXIS_W, C_OUT, VECTOR, STREAM, WIDE, ACTIVATION, ALPHA, BETA,
            )  # fmt: skip
        held = _without_first(held, tl.constexpr(len(held) // LINES)) + following


@triton.constexpr_function
def _count(products, part):
    return len(products[part])


@triton.constexpr_function
def _blocks(products, part, product):
    return products[part][product]


@triton.constexpr_function
def _number(products, part, product):
    """Number of a product among those of all parts."""
    return sum(len(p) for p in products[:part]) + product


@triton.jit
def _weights(
    w, first_block, first_column, PARTS: tl.constexpr, PRODUCTS: tl.constexpr,
    ROWS_PAD: tl.constexpr, COLUMNS_PAD: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The weight of each product, in their order."""
    weights = ()
    for part in tl.static_range(len(PARTS[0])):
        for product in tl.static_range(_count(PRODUCTS, part)):
            weights = weights + (
                _weight(
                    w, first_block, _blocks(PRODUCTS, part, product), first_column + PARTS[1][part],
                    tl.constexpr(PARTS[0][part]), ROWS_PAD, COLUMNS_PAD, BLOCK_K,
                ),
            )  # fmt: skip
    return weights


@triton.jit
def _weight(
    w, first_block, BLOCKS: tl.constexpr, first, WIDTH: tl.constexpr, ROWS_PAD: tl.constexpr,
    COLUMNS_PAD: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Weight tile [channels of BLOCKS, WIDTH] of a product, permuted as its operands are."""
    n = first + fragment_column(tl.arange(0, WIDTH))
    k = tl.arange(0, BLOCK_K * len(BLOCKS))
    block = first_block + BLOCKS[0] + tl.zeros_like(k)
    for i in tl.static_range(len(BLOCKS) - 1):
        block = tl.where(k // BLOCK_K > i, first_block + BLOCKS[i + 1], block)
    k = block * ROWS_PAD + fragment_channel(k % BLOCK_K)
    return tl.load(w + k[:, None] * COLUMNS_PAD + n[None, :])


@triton.jit
def _read_line(
    x, row, line, m_w, live, in_h, in_w, x_c, x_h, x_w, AXIS_W: tl.constexpr,
    C_IN: tl.constexpr, BLOCK_K: tl.constexpr, X_VECTOR: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Pieces of a line of x at all shifts of the width."""
    at = row + (tl.cast(line, tl.int64) if WIDE else line) * x_h
    here = live & inside(tl.zeros_like(m_w) + line, in_h)
    SHIFTS: tl.constexpr = AXIS_W[COUNT]
    found = ()
    for i in tl.static_range(SHIFTS):
        found = found + read_pieces(
            x, at, m_w, here, in_w, x_c, x_w, tl.constexpr(AXIS_W[FIRST] + i * AXIS_W[STEP]),
            AXIS_W[STEP], 0, C_IN, BLOCK_K, X_VECTOR, 1,
        )  # fmt: skip
    return found


@triton.jit
def _without_first(values, COUNT_FIRST: tl.constexpr):
    """A tuple without its first COUNT_FIRST elements."""
    kept = ()
    for i in tl.static_range(len(values) - COUNT_FIRST):
        kept = kept + (values[i + COUNT_FIRST],)
    return kept


@triton.jit
def _operand(
    held, BLOCKS: tl.constexpr, LINES: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    """x at the shifts of BLOCKS (height, width), side by side."""
    EACH: tl.constexpr = len(held) // LINES
    PIECES: tl.constexpr = BLOCK_K // PIECE
    operands = ()
    for i in tl.static_range(len(BLOCKS)):
        pieces = ()
        for piece in tl.static_range(PIECES):
            pieces = pieces + (
                held[_place(BLOCKS, i, EACH // PIECES, LINES) * PIECES + piece],
            )  # fmt: skip
        operands = operands + (left_operand(pieces, BLOCK_M, BLOCK_K),)
    for _ in tl.static_range(len(BLOCKS).bit_length() - 1):
        pairs = ()
        for i in tl.static_range(len(operands) // 2):
            pairs = pairs + (_beside(operands[2 * i], operands[2 * i + 1]),)
        operands = pairs
    return operands[0]


@triton.constexpr_function
def _place(blocks, i, shifts, lines):
    """Place of a block (height, width) among the shifts held: lines of x run against shifts."""
    height, width = divmod(blocks[i], shifts)
    return (lines - 1 - height) * shifts + width


@triton.jit
def _beside(left, right):
    """Two operands as one of all their channels."""
    return tl.join(left, right).permute(0, 2, 1).reshape(left.shape[0], 2 * left.shape[1])


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
