"""Device code: channels-last x and y by way of registers alone, 16 bytes a thread.

A matrix instruction wants of its left operand that a thread holds the channels 2t, 2t + 1, 2t + 8
and 2t + 9 of two rows, and leaves a thread the sums of columns 2t and 2t + 1 of every eight. Memory
is wanted 8 neighbours at a time. So a product's channels are permuted, in x as it is read and in
the weight's rows, and its columns, in the weight's and in y as it is stored: the sums are the same,
and no tile goes through shared memory. Tiles are read and stored by pieces of 32 channels whose
rows are in the order of `fragment_rows`; it suits 2-byte types and 16 rows a warp.
"""

# ruff: noqa: ANN001, ANN202, RUF005 - values of the device; Triton adds tuples, unpacks none
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import inside

PIECE = tl.constexpr(32)


@triton.jit
def fragment_rows(BLOCK_M: tl.constexpr):
    """Row of a tile that each row of a piece is: 8 of every 16, then the other 8."""
    i = tl.arange(0, BLOCK_M)
    return i % 8 + i // 8 % (BLOCK_M // 16) * 16 + i // (BLOCK_M // 2) * 8


@triton.jit
def fragment_channel(k):
    """Channel that row k of the weight has in a product, four times 8 neighbours to a piece."""
    return k // 32 * 32 + k // 2 % 4 * 8 + k // 16 % 2 * 4 + k // 8 % 2 * 2 + k % 2


@triton.jit
def fragment_column(n):
    """Column of the weight that column n of a product is."""
    return n // 32 * 32 + n // 2 % 4 * 8 + n // 8 % 4 * 2 + n % 2


@triton.jit
def read_pieces(
    x, at, m_w, live, in_w, x_c, x_w, E_W: tl.constexpr, STEP_W: tl.constexpr,
    FIRST_CHANNEL: tl.constexpr, C_IN: tl.constexpr, BLOCK_K: tl.constexpr,
    X_VECTOR: tl.constexpr, JOINED: tl.constexpr,
):  # fmt: skip
    """x of JOINED neighbouring shifts of the width, [BLOCK_M, BLOCK_K], as pieces."""
    EACH: tl.constexpr = BLOCK_K // JOINED
    found = ()
    for piece in tl.static_range(BLOCK_K // PIECE):
        channel = FIRST_CHANNEL + piece * PIECE % EACH + tl.arange(0, PIECE)
        k_live = channel < C_IN
        if at.dtype == tl.int64:
            channel = channel.to(tl.int64)
        e_w = E_W + piece * PIECE // EACH * STEP_W
        offsets = (at - e_w * x_w)[:, None] + channel[None, :] * x_c
        mask = (live & inside(m_w - e_w, in_w))[:, None] & k_live[None, :]
        if X_VECTOR > 1:
            offsets = tl.max_contiguous(tl.multiple_of(offsets, (1, X_VECTOR)), (1, X_VECTOR))
            mask = tl.max_constancy(mask, (1, X_VECTOR))
        found = found + (tl.load(x + offsets, mask=mask, other=0.0),)
    return found


@triton.jit
def left_operand(read, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """Pieces of x as an operand: rows in order, channels as in `fragment_channel`."""
    PIECES: tl.constexpr = BLOCK_K // PIECE
    if PIECES == 1:
        a = _operand_piece(read[0], BLOCK_M)
    elif PIECES == 2:
        a = tl.join(_operand_piece(read[0], BLOCK_M), _operand_piece(read[1], BLOCK_M))
        a = a.permute(0, 2, 1).reshape(BLOCK_M, BLOCK_K)
    else:
        even = tl.join(_operand_piece(read[0], BLOCK_M), _operand_piece(read[2], BLOCK_M))
        odd = tl.join(_operand_piece(read[1], BLOCK_M), _operand_piece(read[3], BLOCK_M))
        a = tl.join(even, odd).permute(0, 2, 3, 1).reshape(BLOCK_M, BLOCK_K)
    return a


@triton.jit
def _operand_piece(piece, BLOCK_M: tl.constexpr):
    piece = piece.reshape(2, BLOCK_M // 16, 8, 4, 4, 2).permute(1, 0, 2, 4, 3, 5)
    return piece.reshape(BLOCK_M, PIECE)


@triton.jit
def sum_pieces(total):
    """Sums whose columns are as in `fragment_column`, as pieces."""
    BLOCK_M: tl.constexpr = total.shape[0]
    PIECES: tl.constexpr = total.shape[1] // PIECE
    total = total.reshape(BLOCK_M // 16, 2, 8, PIECES, 4, 4, 2).permute(1, 0, 2, 5, 4, 6, 3)
    total = total.reshape(BLOCK_M, PIECE, PIECES)
    if PIECES == 1:
        found = (total.reshape(BLOCK_M, PIECE),)
    elif PIECES == 2:
        found = total.split()
    else:
        halves = total.reshape(BLOCK_M, PIECE, 2, 2).permute(0, 1, 3, 2).split()
        found = halves[0].split() + halves[1].split()
    return found


@triton.jit
def sums_of(pieces, BLOCK_M: tl.constexpr, COLUMNS: tl.constexpr):
    """What `sum_pieces` takes apart."""
    PIECES: tl.constexpr = COLUMNS // PIECE
    if PIECES == 1:
        total = pieces[0]
    elif PIECES == 2:
        total = tl.join(pieces[0], pieces[1])
    else:
        total = tl.join(tl.join(pieces[0], pieces[2]), tl.join(pieces[1], pieces[3]))
    total = total.reshape(2, BLOCK_M // 16, 8, 4, 4, 2, PIECES).permute(1, 0, 2, 6, 4, 3, 5)
    return total.reshape(BLOCK_M, COLUMNS)
