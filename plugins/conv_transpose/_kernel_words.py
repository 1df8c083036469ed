"""Device code: NCHW x and y by way of registers alone, in words of two neighbours of a line.

A matrix instruction wants of its left operand that a thread holds pairs of channels of two rows, 8
apart, and leaves a thread the sums of two channels in these rows. The two rows are neighbours of a
line here: a thread reads words of x, two positions of a channel, puts the channels of a pair
together, and so has whole registers of the operands of all shifts of the width. Of both phases of
the width it has four neighbours of y. Tiles are [BLOCK_M / 2 pairs of positions, channels / 8, 4],
so that threads are neighbours along 4 pairs of channels, then along 8 pairs of positions. It suits
2-byte types, a stride of 2 along the width and 16 rows a warp.
"""

# ruff: noqa: ANN001, ANN202, RUF005 - values of the device; Triton adds tuples, unpacks none
# mypy: ignore-errors

import triton
import triton.language as tl

from convt_onnx.plugins.conv_transpose._kernel_axis import (
    COUNT,
    CROP,
    EXACT,
    FIRST,
    STEP,
    STRIDE,
    inside,
)
from convt_onnx.plugins.conv_transpose._kernel_epilogue import activate, read_residual

WORDS = tl.constexpr(tl.pointer_type(tl.uint64))


@triton.jit
def read_words(
    x, at, m_w, live, in_w, x_c, x_w, AXIS_W: tl.constexpr, C_IN: tl.constexpr,
    BLOCK_K: tl.constexpr, X_VECTOR: tl.constexpr,
):  # fmt: skip
    """Words of the even and the odd channels that the shifts of the width touch, leftmost first.

    `at` is the offset of each pair of positions, `m_w` the first of these.
    """
    LEFT: tl.constexpr = _leftmost(AXIS_W) // 2
    RIGHT: tl.constexpr = (1 - AXIS_W[FIRST]) // 2
    found = ()
    for word in tl.static_range(RIGHT - LEFT + 1):
        for odd in tl.static_range(2):
            found = found + (
                _word(
                    x, at, m_w, live, in_w, x_c, x_w, 2 * (LEFT + word), odd, C_IN, BLOCK_K,
                    X_VECTOR,
                ),
            )  # fmt: skip
    return found


@triton.constexpr_function
def _leftmost(axis):
    return -(axis[FIRST.value] + (axis[COUNT.value] - 1) * axis[STEP.value])


@triton.jit
def _word(
    x, at, m_w, live, in_w, x_c, x_w, POSITION: tl.constexpr, ODD: tl.constexpr,
    C_IN: tl.constexpr, BLOCK_K: tl.constexpr, X_VECTOR: tl.constexpr,
):  # fmt: skip
    channel = (8 * tl.arange(0, BLOCK_K // 8))[None, :, None] + ODD
    own = 2 * tl.arange(0, 4)[None, None, :]
    k_live = channel + own < C_IN
    first = at + POSITION * x_w
    if at.dtype == tl.int64:
        channel, own = channel.to(tl.int64), own.to(tl.int64)
    # Adding 0, of no known alignment, keeps the claim of contiguity from widening an access; of
    # the positions alone it is known that they are even.
    none = tl.minimum(m_w + 1, 0)[:, None, None]
    if X_VECTOR > 1:
        pointer = x.to(tl.pointer_type(tl.uint32), bitcast=True)
        offsets = (first // 2)[:, None, None] + own * (x_c // 2) + none
        offsets = tl.max_contiguous(offsets + channel * (x_c // 2), (2, 1, 4))
        mask = k_live & (live & inside(m_w + POSITION, in_w))[:, None, None]
        word = tl.load(pointer + offsets, mask=mask, other=0)
    else:
        pointer = x.to(tl.pointer_type(tl.uint16), bitcast=True)
        offsets = first[:, None, None] + own * x_c + none
        offsets = tl.max_contiguous(offsets + channel * x_c, (2, 1, 4))
        mask = k_live & (live & inside(m_w + POSITION, in_w))[:, None, None]
        word = tl.load(pointer + offsets, mask=mask, other=0).to(tl.uint32)
        mask = k_live & (live & inside(m_w + POSITION + 1, in_w))[:, None, None]
        word |= tl.load(pointer + offsets + x_w, mask=mask, other=0).to(tl.uint32) << 16
    return word


@triton.jit
def paired_channels(words, AXIS_W: tl.constexpr):
    """Of each position that a shift wants, leftmost first: the channels of a pair in a word."""
    LOW: tl.constexpr = _leftmost(AXIS_W)
    SKIP: tl.constexpr = LOW % 2
    found = ()
    for i in tl.static_range(2 - AXIS_W[FIRST] - LOW):
        even = words[(i + SKIP) // 2 * 2]
        odd = words[(i + SKIP) // 2 * 2 + 1]
        if (i + SKIP) % 2 == 0:
            found = found + ((even & 0xFFFF) | (odd << 16),)
        else:
            found = found + ((even >> 16) | (odd & 0xFFFF0000),)
    return found


@triton.jit
def words_operand(first, second, element_type: tl.constexpr):
    """x at one shift, [BLOCK_M, BLOCK_K], of the pairs' first and second positions."""
    EIGHTS: tl.constexpr = first.shape[1]
    WARPS: tl.constexpr = first.shape[0] // 8
    first = tl.join(first.to(tl.uint16), (first >> 16).to(tl.uint16))
    second = tl.join(second.to(tl.uint16), (second >> 16).to(tl.uint16))
    both = tl.join(first, second).reshape(WARPS, 8, EIGHTS, 4, 2, 2).permute(0, 5, 1, 2, 3, 4)
    return both.reshape(16 * WARPS, 8 * EIGHTS).to(element_type, bitcast=True)


@triton.jit
def stored_channels(first, COUNT_OF: tl.constexpr):
    """Channels of a stored tile, [1, COUNT_OF / 4, 1] and what the four of its last axis add."""
    i = tl.arange(0, COUNT_OF // 4)
    return (first + i // 2 * 8 + i % 2)[None, :, None], 2 * tl.arange(0, 4)[None, None, :]


@triton.jit
def store_words(
    even,  # sums of the even phase of the width, [BLOCK_M, channels], float32
    odd,
    y,
    bias_values,  # of `stored_channels`, or None
    slope, residual, batch, line, m_w, live, phase_h, first_channel, out_h, y_n, y_c, y_h,
    AXIS_H: tl.constexpr, STREAM: tl.constexpr, WIDE: tl.constexpr, ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr, BETA: tl.constexpr,
):  # fmt: skip
    """y = activation(sums + bias + residual): of a pair of positions four neighbours of a line."""
    WARPS: tl.constexpr = even.shape[0] // 16
    EIGHTS: tl.constexpr = even.shape[1] // 8
    # [warp, pair of positions, 8 channels, channel of a pair, pair of channels, position, phase]
    total = tl.join(even, odd).reshape(WARPS, 2, 8, EIGHTS, 4, 2, 2).permute(0, 2, 3, 5, 4, 1, 6)
    total = total.reshape(8 * WARPS, 2 * EIGHTS, 4, 2, 2)
    channel, own = stored_channels(first_channel, even.shape[1])
    at_h = line * AXIS_H[STRIDE] - AXIS_H[CROP] + phase_h
    mask = live[:, None, None] & (channel + own >= 0)
    if not AXIS_H[EXACT]:
        mask &= inside(tl.zeros_like(m_w) + at_h, out_h)[:, None, None]
    if bias_values is not None:
        total += bias_values.to(tl.float32)[:, :, :, None, None]
    s_values = 0.0
    if slope is not None:
        s_values = tl.load(slope + channel + own).to(tl.float32)[:, :, :, None, None]
    if WIDE:
        batch, at_h = batch.to(tl.int64), tl.cast(at_h, tl.int64)
        channel, own = channel.to(tl.int64), own.to(tl.int64)
    # Four elements are a word. See `_word`.
    at = batch * y_n + m_w * 2 + at_h * y_h
    at = (at // 4 + tl.minimum(at, 0))[:, None, None] + own * (y_c // 4)
    at = tl.max_contiguous(at + channel * (y_c // 4), (2, 1, 4))
    if residual is not None:
        words = read_residual(residual.to(WORDS, bitcast=True) + at, mask, STREAM)
        total += _four(words).to(y.dtype.element_ty, bitcast=True).to(tl.float32)
    total = activate(total, s_values, ACTIVATION, ALPHA, BETA)
    words = _word_of_four(total.to(y.dtype.element_ty).to(tl.uint16, bitcast=True))
    if STREAM:
        tl.store(y.to(WORDS, bitcast=True) + at, words, mask=mask, eviction_policy="evict_first")
    else:
        tl.store(y.to(WORDS, bitcast=True) + at, words, mask=mask)


@triton.jit
def _word_of_four(bits):
    """Words of the four fields of each of [.., .., .., position, phase]."""
    even, odd = tl.split(bits)
    first_even, second_even = tl.split(even)
    first_odd, second_odd = tl.split(odd)
    low = first_even.to(tl.uint32) | (first_odd.to(tl.uint32) << 16)
    high = second_even.to(tl.uint32) | (second_odd.to(tl.uint32) << 16)
    return low.to(tl.uint64) | (high.to(tl.uint64) << 32)


@triton.jit
def _four(words):
    """The fields of words, [.., .., .., position, phase]."""
    low, high = words.to(tl.uint32), (words >> 32).to(tl.uint32)
    even = tl.join(low.to(tl.uint16), high.to(tl.uint16))
    odd = tl.join((low >> 16).to(tl.uint16), (high >> 16).to(tl.uint16))
    return tl.join(even, odd)
