"""Device code: reads of x for resident weights, and the operands that they hold.

With channels innermost, x is read a shift, or some neighbouring ones, at a time. Otherwise x is
read in aligned words of X_VECTOR neighbours along the width, once for all shifts of the width,
which are cut out of two words in registers.
"""

# ruff: noqa: ANN001, ANN202, RUF005 - values of the device; Triton adds tuples, unpacks none
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import (
    COUNT,
    FIRST,
    STEP,
    hint_order,
    inside,
)
from convt_onnx.plugins.conv_transpose._kernel_fragments import left_operand, read_pieces


@triton.jit
def read_x(
    x, STEP_OF: tl.constexpr, row, m_d, m_h, m_w, live, in_d, in_h, in_w, x_c, x_d, x_h, x_w,
    NDIM: tl.constexpr, AXIS_D: tl.constexpr, AXIS_H: tl.constexpr, AXIS_W: tl.constexpr,
    C_IN: tl.constexpr, TILES_K: tl.constexpr, BLOCK_K: tl.constexpr, X_VECTOR: tl.constexpr,
    X_CHANNEL_LAST: tl.constexpr, LEFT: tl.constexpr, JOINED: tl.constexpr,
    FRAGMENTS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """What one step reads: a tuple of the tile [BLOCK_M, BLOCK_K], or of pieces or words of it."""
    INNER: tl.constexpr = AXIS_W[COUNT] // JOINED if X_CHANNEL_LAST else 1
    SHIFT: tl.constexpr = STEP_OF // TILES_K
    E_H: tl.constexpr = AXIS_H[FIRST] + SHIFT // INNER % AXIS_H[COUNT] * AXIS_H[STEP]
    E_D: tl.constexpr = AXIS_D[FIRST] + SHIFT // INNER // AXIS_H[COUNT] * AXIS_D[STEP]
    channel = STEP_OF % TILES_K * BLOCK_K + tl.arange(0, BLOCK_K)
    k_live = channel < C_IN
    if NDIM >= 2:
        live &= inside(m_h - E_H, in_h)
    if NDIM == 3:
        live &= inside(m_d - E_D, in_d)
    if WIDE:
        channel = channel.to(tl.int64)
    at = row - (E_D * x_d + E_H * x_h)
    if X_CHANNEL_LAST:
        E_W: tl.constexpr = AXIS_W[FIRST] + SHIFT % INNER * JOINED * AXIS_W[STEP]
    if FRAGMENTS:
        found = read_pieces(
            x, at, m_w, live, in_w, x_c, x_w, E_W, AXIS_W[STEP], STEP_OF % TILES_K * BLOCK_K,
            C_IN, BLOCK_K, X_VECTOR, JOINED,
        )  # fmt: skip
    elif X_CHANNEL_LAST:
        offsets = (at - E_W * x_w)[:, None] + channel[None, :] * x_c
        mask = (live & inside(m_w - E_W, in_w))[:, None] & k_live[None, :]
        if X_VECTOR > 1:
            offsets = tl.max_contiguous(tl.multiple_of(offsets, (1, X_VECTOR)), (1, X_VECTOR))
            mask = tl.max_constancy(mask, (1, X_VECTOR))
        found = (tl.load(x + offsets, mask=mask, other=0.0),)
    else:
        found = _words(x, at, channel * x_c, k_live, m_w, live, in_w, x_w, AXIS_W, X_VECTOR, LEFT)
    return found


@triton.jit
def _words(
    x, at, channel_at, k_live, m_w, live, in_w, x_w, AXIS_W: tl.constexpr,
    X_VECTOR: tl.constexpr, LEFT: tl.constexpr,
):  # fmt: skip
    """Words that the shifts of the width touch, each [BLOCK_K, BLOCK_M / X_VECTOR], leftmost first.

    A word holds X_VECTOR neighbours of x, the lowest bits first; it lies inside a line or outside.
    """
    BITS: tl.constexpr = x.dtype.element_ty.primitive_bitwidth
    word: tl.constexpr = tl.core.get_int_dtype(BITS * X_VECTOR, False)
    pointer = x.to(tl.pointer_type(word), bitcast=True)
    RIGHT: tl.constexpr = (-AXIS_W[FIRST] + X_VECTOR - 1) // X_VECTOR
    found = ()
    for i in tl.static_range(RIGHT - LEFT + 1):
        position = (LEFT + i) * X_VECTOR
        mask = k_live[:, None] & (live & inside(m_w + position, in_w))[None, :]
        offsets = channel_at[:, None] + (at + position * x_w)[None, :]
        offsets = hint_order(offsets // X_VECTOR, tl.minimum(m_w, 0)[None, :], 1)
        found = found + (tl.load(pointer + offsets, mask=mask, other=0),)
    return found


@triton.jit
def operand(
    read, SERVED_AT: tl.constexpr, element_type: tl.constexpr, AXIS_W: tl.constexpr,
    X_VECTOR: tl.constexpr, X_CHANNEL_LAST: tl.constexpr, LEFT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, FRAGMENTS: tl.constexpr,
):  # fmt: skip
    """x of one shift, or of joined ones, [BLOCK_M, BLOCK_K]."""
    if FRAGMENTS:
        a = left_operand(read, BLOCK_M, BLOCK_K)
    elif X_CHANNEL_LAST:
        a = read[0]
    else:
        POSITION: tl.constexpr = -(AXIS_W[FIRST] + SERVED_AT * AXIS_W[STEP]) - LEFT * X_VECTOR
        BITS: tl.constexpr = element_type.primitive_bitwidth
        REST: tl.constexpr = POSITION % X_VECTOR * BITS
        bits = read[POSITION // X_VECTOR]
        if REST > 0:
            after = read[POSITION // X_VECTOR + 1]
            bits = (bits >> REST) | (after << (X_VECTOR * BITS - REST))
        values = _unpacked(bits, BITS, X_VECTOR).reshape(BLOCK_K, BLOCK_M)
        a = tl.trans(values.to(element_type, bitcast=True))
    return a


@triton.jit
def _unpacked(bits, BITS: tl.constexpr, COUNT_OF: tl.constexpr):
    """The COUNT_OF fields of each word along new axes, the last of which varies fastest."""
    narrow: tl.constexpr = tl.core.get_int_dtype(BITS, False)
    if COUNT_OF == 1:
        values = bits
    elif COUNT_OF == 2:
        values = tl.join(bits.to(narrow), (bits >> BITS).to(narrow))
    else:
        even = tl.join(bits.to(narrow), (bits >> 2 * BITS).to(narrow))
        odd = tl.join((bits >> BITS).to(narrow), (bits >> 3 * BITS).to(narrow))
        values = tl.join(even, odd)
    return values
