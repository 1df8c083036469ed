"""Device code: what the walk multiplies: weights, lines of x and the operands made of them.

Channels last, a line is held as fragments (see `_kernel_fragments`) of each shift of the width; in
NCHW as words (see `_kernel_words`) of each position that a shift wants.
"""

# ruff: noqa: ANN001, ANN202, RUF005, SIM108 - values of the device; a compile-time if is an if
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import COUNT, FIRST, STEP, inside
from convt_onnx.plugins.conv_transpose._kernel_fragments import (
    PIECE,
    fragment_channel,
    fragment_column,
    left_operand,
    read_pieces,
)
from convt_onnx.plugins.conv_transpose._kernel_words import (
    paired_channels,
    read_words,
    words_operand,
)


@triton.constexpr_function
def count_products(products, part):
    return len(products[part])


@triton.constexpr_function
def product_blocks(products, part, product):
    return products[part][product]


@triton.constexpr_function
def product_number(products, part, product):
    """Number of a product among those of all parts."""
    return sum(len(p) for p in products[:part]) + product


@triton.jit
def read_weights(
    w, first_block, first_column, PARTS: tl.constexpr, PRODUCTS: tl.constexpr,
    ROWS_PAD: tl.constexpr, COLUMNS_PAD: tl.constexpr, BLOCK_K: tl.constexpr,
    CHANNEL_LAST: tl.constexpr,
):  # fmt: skip
    """The weight of each product, in their order."""
    weights = ()
    for part in tl.static_range(len(PARTS[0])):
        for product in tl.static_range(count_products(PRODUCTS, part)):
            weights = weights + (
                _weight(
                    w, first_block, product_blocks(PRODUCTS, part, product),
                    first_column + PARTS[1][part], tl.constexpr(PARTS[0][part]), ROWS_PAD,
                    COLUMNS_PAD, BLOCK_K, CHANNEL_LAST,
                ),
            )  # fmt: skip
    return weights


@triton.jit
def _weight(
    w, first_block, BLOCKS: tl.constexpr, first, WIDTH: tl.constexpr, ROWS_PAD: tl.constexpr,
    COLUMNS_PAD: tl.constexpr, BLOCK_K: tl.constexpr, PERMUTED: tl.constexpr,
):  # fmt: skip
    """Weight tile [channels of BLOCKS, WIDTH] of a product, permuted as its operands are."""
    n = tl.arange(0, WIDTH)
    n = first + (fragment_column(n) if PERMUTED else n)
    k = tl.arange(0, BLOCK_K * len(BLOCKS))
    block = first_block + BLOCKS[0] + tl.zeros_like(k)
    for i in tl.static_range(len(BLOCKS) - 1):
        block = tl.where(k // BLOCK_K > i, first_block + BLOCKS[i + 1], block)
    k = k % BLOCK_K
    k = block * ROWS_PAD + (fragment_channel(k) if PERMUTED else k)
    return tl.load(w + k[:, None] * COLUMNS_PAD + n[None, :])


@triton.jit
def read_line(
    x, row, line, m_w, live, in_h, in_w, x_c, x_h, x_w, AXIS_W: tl.constexpr,
    C_IN: tl.constexpr, BLOCK_K: tl.constexpr, X_VECTOR: tl.constexpr,
    CHANNEL_LAST: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Pieces or words of a line of x at all shifts of the width."""
    at = row + (tl.cast(line, tl.int64) if WIDE else line) * x_h
    here = live & inside(tl.zeros_like(m_w) + line, in_h)
    SHIFTS: tl.constexpr = AXIS_W[COUNT]
    found = ()
    if not CHANNEL_LAST:
        found = read_words(x, at, m_w, here, in_w, x_c, x_w, AXIS_W, C_IN, BLOCK_K, X_VECTOR)
    for i in tl.static_range(SHIFTS if CHANNEL_LAST else 0):
        found = found + read_pieces(
            x, at, m_w, here, in_w, x_c, x_w, tl.constexpr(AXIS_W[FIRST] + i * AXIS_W[STEP]),
            AXIS_W[STEP], 0, C_IN, BLOCK_K, X_VECTOR, 1,
        )  # fmt: skip
    return found


@triton.jit
def held_line(read, AXIS_W: tl.constexpr, CHANNEL_LAST: tl.constexpr):
    """What a walk keeps of a line that was read."""
    if CHANNEL_LAST:
        found = read
    else:
        found = paired_channels(read, AXIS_W)
    return found


@triton.jit
def without_first(values, COUNT_FIRST: tl.constexpr):
    """A tuple without its first COUNT_FIRST elements."""
    kept = ()
    for i in tl.static_range(len(values) - COUNT_FIRST):
        kept = kept + (values[i + COUNT_FIRST],)
    return kept


@triton.jit
def product_operand(
    held, BLOCKS: tl.constexpr, LINES: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
    AXIS_W: tl.constexpr, element_type: tl.constexpr, CHANNEL_LAST: tl.constexpr,
):  # fmt: skip
    """x at the shifts of BLOCKS (height, width), side by side."""
    operands = ()
    for i in tl.static_range(len(BLOCKS)):
        if CHANNEL_LAST:
            pieces = ()
            for piece in tl.static_range(BLOCK_K // PIECE):
                pieces = pieces + (
                    held[_piece_place(BLOCKS[i], AXIS_W, LINES) * (BLOCK_K // PIECE) + piece],
                )  # fmt: skip
            operands = operands + (left_operand(pieces, BLOCK_M, BLOCK_K),)
        else:
            operands = operands + (
                words_operand(
                    held[_position_place(BLOCKS[i], AXIS_W, LINES, len(held))],
                    held[_position_place(BLOCKS[i], AXIS_W, LINES, len(held)) + 1],
                    element_type,
                ),
            )  # fmt: skip
    for _ in tl.static_range(len(BLOCKS).bit_length() - 1):
        pairs = ()
        for i in tl.static_range(len(operands) // 2):
            pairs = pairs + (_beside(operands[2 * i], operands[2 * i + 1]),)
        operands = pairs
    return operands[0]


@triton.constexpr_function
def _piece_place(block, axis, lines):
    """Place of a block (height, width) among the shifts held: lines of x run against shifts."""
    height, width = divmod(block, axis[COUNT.value])
    return (lines - 1 - height) * axis[COUNT.value] + width


@triton.constexpr_function
def _position_place(block, axis, lines, held):
    """Place of the first position of a block (height, width) among those held."""
    height, width = divmod(block, axis[COUNT.value])
    last = axis[COUNT.value] - 1
    return (lines - 1 - height) * (held // lines) + (last - width) * axis[STEP.value]


@triton.jit
def _beside(left, right):
    """Two operands as one of all their channels."""
    return tl.join(left, right).permute(0, 2, 1).reshape(left.shape[0], 2 * left.shape[1])
