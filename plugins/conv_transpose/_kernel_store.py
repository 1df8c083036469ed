"""Device code: epilogue of a tile of the implicit GEMM, and its store."""

# ruff: noqa: ANN001, ANN202, RUF005 - values of the device; Triton adds tuples, unpacks none
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
from convt_onnx.plugins.conv_transpose._kernel_epilogue import activate, read_residual
from convt_onnx.plugins.conv_transpose._kernel_fragments import PIECE, fragment_rows, sums_of

WORDS = tl.constexpr(tl.pointer_type(tl.uint32))


@triton.jit
def place_tile(
    first_row, first_column, group, phase_d, phase_h, phase_w, rows, out_d, out_h, out_w,
    q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, y_n, y_c, y_d, y_h, y_w,
    NDIM: tl.constexpr, AXIS_D: tl.constexpr, AXIS_H: tl.constexpr, AXIS_W: tl.constexpr,
    C_OUT: tl.constexpr, BLOCK_M: tl.constexpr, COLUMNS: tl.constexpr, INTERLEAVE: tl.constexpr,
    CHANNEL_LAST: tl.constexpr, VECTOR: tl.constexpr, PAIR: tl.constexpr, WIDE: tl.constexpr,
    FRAGMENTS: tl.constexpr = False, BY_ROW: tl.constexpr = False,
):  # fmt: skip
    """Offsets in y of a stored tile, which of them lie in y, and the channels of its columns.

    With BY_ROW they are offsets of the channels, and those of the rows come last.

    Its rows are q and, interleaved, the phase of the width; its columns are (phase, C_out). The
    phases given are those of split axes, else 0. With PAIR, two rows q and three phases of each
    make up three words, and offsets count words. FRAGMENTS: rows are those of `fragment_rows`.
    """
    f = tl.arange(0, BLOCK_M // PAIR * INTERLEAVE)
    m = first_row + (fragment_rows(BLOCK_M) if FRAGMENTS else f // INTERLEAVE * PAIR)
    inner_w = f % INTERLEAVE
    batch, m_d, m_h, m_w = coordinates(
        m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, NDIM, INTERLEAVE
    )

    return place_rows(
        batch, m_d, m_h, m_w, inner_w, m < rows, first_column, group, phase_d, phase_h, phase_w,
        out_d, out_h, out_w, y_n, y_c, y_d, y_h, y_w, AXIS_D, AXIS_H, AXIS_W, C_OUT, COLUMNS,
        INTERLEAVE, CHANNEL_LAST, VECTOR, PAIR, WIDE, BY_ROW,
    )  # fmt: skip


@triton.jit
def place_rows(
    batch, m_d, m_h, m_w, inner_w, live, first_column, group, phase_d, phase_h, phase_w,
    out_d, out_h, out_w, y_n, y_c, y_d, y_h, y_w,
    AXIS_D: tl.constexpr, AXIS_H: tl.constexpr, AXIS_W: tl.constexpr,
    C_OUT: tl.constexpr, COLUMNS: tl.constexpr, INTERLEAVE: tl.constexpr,
    CHANNEL_LAST: tl.constexpr, VECTOR: tl.constexpr, PAIR: tl.constexpr, WIDE: tl.constexpr,
    BY_ROW: tl.constexpr = False,
):  # fmt: skip
    """`place_tile` for rows q whose coordinates are known, with the phase of the width."""
    c = first_column // INTERLEAVE + tl.arange(0, COLUMNS // INTERLEAVE)
    PHASES_W: tl.constexpr = AXIS_W[STRIDE] if AXIS_W[FUSED] and INTERLEAVE == 1 else 1
    PHASES_H: tl.constexpr = AXIS_H[STRIDE] if AXIS_H[FUSED] else 1
    PHASES_D: tl.constexpr = AXIS_D[STRIDE] if AXIS_D[FUSED] else 1
    phase, channel = _phase_and_channel(c, first_column // INTERLEAVE, C_OUT, CHANNEL_LAST)
    r_w = phase % PHASES_W + phase_w
    r_h = (phase // PHASES_W) % PHASES_H + phase_h
    r_d = phase // (PHASES_W * PHASES_H) + phase_d
    co = group * C_OUT + channel

    if PAIR > 1:
        m_w, out_w = m_w // PAIR, out_w // PAIR
        y_n, y_c, y_d, y_h = y_n // PAIR, y_c // PAIR, y_d // PAIR, y_h // PAIR
    q_at_w = m_w * AXIS_W[STRIDE] + inner_w - AXIS_W[CROP] // PAIR
    q_at_h = m_h * AXIS_H[STRIDE] - AXIS_H[CROP]
    q_at_d = m_d * AXIS_D[STRIDE] - AXIS_D[CROP]
    ROW_LAST: tl.constexpr = not CHANNEL_LAST
    if AXIS_W[STRIDE] < INTERLEAVE:
        live &= inner_w < AXIS_W[STRIDE]
    c_live = c < C_OUT * PHASES_D * PHASES_H * PHASES_W
    write = spread(live, ROW_LAST) & spread(c_live, CHANNEL_LAST)
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
    rows_at, at = spread(m_at, ROW_LAST), spread(c_at, CHANNEL_LAST)
    if BY_ROW:
        rows_at += spread(tl.minimum(m_w, 0), ROW_LAST)
    else:
        at = rows_at + at
        rows_at = 0
    if VECTOR > 1:
        at = tl.max_contiguous(tl.multiple_of(at, (1, VECTOR)), (1, VECTOR))
        write = tl.max_constancy(write, (1, VECTOR))
    elif not BY_ROW:
        at = hint_order(at, spread(tl.minimum(m_w, 0), ROW_LAST), 1)
    return at, write, co, c_live, rows_at


@triton.jit
def _phase_and_channel(c, first, C_OUT: tl.constexpr, CHANNEL_LAST: tl.constexpr):
    """Phase and channel of the columns c from `first` on.

    Fewer than C_OUT are of two phases at most, for which one number is divided, not each.
    """
    if C_OUT & (C_OUT - 1) != 0 and c.shape[0] <= C_OUT and not CHANNEL_LAST:
        phase = first // C_OUT
        channel = c - phase * C_OUT
        next_phase = channel >= C_OUT
        phase += next_phase.to(tl.int32)
        channel = tl.where(next_phase, channel - C_OUT, channel)
    else:
        phase = c // C_OUT
        channel = c % C_OUT
    return phase, channel


@triton.jit
def _addresses(pointer, place):
    """Addresses of `place_rows`: from those of rows one instruction makes that of an element."""
    if len(place[4].shape) == 2:
        found = tl.max_contiguous(pointer + place[4] + place[0], (1, 2))
    else:
        found = pointer + place[0]
    return found


@triton.jit
def read_added(
    residual, first_row, first_column, group, rows, out_d, out_h, out_w, q_d, q_h, q_w,
    d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, y_n, y_c, y_d, y_h, y_w,
    NDIM: tl.constexpr, AXIS_D: tl.constexpr, AXIS_H: tl.constexpr, AXIS_W: tl.constexpr,
    C_OUT: tl.constexpr, BLOCK_M: tl.constexpr, COLUMNS: tl.constexpr, INTERLEAVE: tl.constexpr,
    CHANNEL_LAST: tl.constexpr, VECTOR: tl.constexpr, PAIR: tl.constexpr, WIDE: tl.constexpr,
    STREAM: tl.constexpr, FRAGMENTS: tl.constexpr,
):  # fmt: skip
    """The residual of a tile, as it is stored: whole, or in pieces."""
    STORED: tl.constexpr = PIECE if FRAGMENTS else COLUMNS
    found = ()
    for piece in tl.static_range(COLUMNS // STORED):
        place = place_tile(
            first_row, first_column + piece * STORED, group, 0, 0, 0, rows, out_d, out_h, out_w,
            q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, y_n, y_c, y_d, y_h, y_w,
            NDIM, AXIS_D, AXIS_H, AXIS_W, C_OUT, BLOCK_M, STORED, INTERLEAVE, CHANNEL_LAST, VECTOR,
            PAIR, WIDE, FRAGMENTS,
        )  # fmt: skip
        found = found + (read_tile(residual, place, PAIR, STREAM),)
    return found


@triton.jit
def read_tile(residual, place, PAIR: tl.constexpr, STREAM: tl.constexpr):
    """The residual where a tile is stored."""
    if PAIR > 1:
        words = read_residual(_addresses(residual.to(WORDS, bitcast=True), place), place[1], STREAM)
        tile = _unpaired(words).to(residual.dtype.element_ty, bitcast=True)
    else:
        tile = read_residual(_addresses(residual, place), place[1], STREAM)
    return tile


@triton.jit
def unstored(
    tiles, BLOCK_M: tl.constexpr, COLUMNS: tl.constexpr, INTERLEAVE: tl.constexpr,
    CHANNEL_LAST: tl.constexpr, FRAGMENTS: tl.constexpr,
):  # fmt: skip
    """What `read_added` found, turned into a tile of sums [rows q, columns]."""
    tile = tiles[0]
    if FRAGMENTS:
        tile = sums_of(tiles, BLOCK_M, COLUMNS)
    elif INTERLEAVE > 1:
        if CHANNEL_LAST:
            tile = tile.reshape(BLOCK_M, INTERLEAVE, COLUMNS // INTERLEAVE).permute(0, 2, 1)
        else:
            tile = tile.reshape(COLUMNS // INTERLEAVE, BLOCK_M, INTERLEAVE).permute(1, 0, 2)
        tile = tile.reshape(BLOCK_M, COLUMNS)
    elif not CHANNEL_LAST:
        tile = tl.trans(tile)
    return tile.to(tl.float32)


@triton.jit
def store_tile(
    acc,  # [rows q, columns (phase, C_out)], float32
    place,  # of `place_tile`
    residual,  # to read there, or None
    bias_values,  # [columns] or [C_out], float32, or None
    y, slope,
    INTERLEAVE: tl.constexpr, CHANNEL_LAST: tl.constexpr, PAIR: tl.constexpr,
    STREAM: tl.constexpr, ACTIVATION: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr,
):  # fmt: skip
    """y = activation(acc + bias + residual) for one tile."""
    BLOCK_M: tl.constexpr = acc.shape[0]
    COLUMNS: tl.constexpr = acc.shape[1]
    if INTERLEAVE > 1:
        acc = acc.reshape(BLOCK_M, COLUMNS // INTERLEAVE, INTERLEAVE)
        if CHANNEL_LAST:
            acc = acc.permute(0, 2, 1).reshape(BLOCK_M * INTERLEAVE, COLUMNS // INTERLEAVE)
        else:
            acc = acc.permute(1, 0, 2).reshape(COLUMNS // INTERLEAVE, BLOCK_M * INTERLEAVE)
    elif not CHANNEL_LAST:
        acc = tl.trans(acc)
    if bias_values is not None:
        acc = _add_columns(acc, bias_values, CHANNEL_LAST)
    if residual is not None:  # not before the sums are turned: both would take registers
        acc += read_tile(residual, place, PAIR, STREAM).to(tl.float32)
    s_values = 0.0
    if slope is not None:
        s_values = tl.load(slope + place[2], mask=place[3], other=0.0).to(tl.float32)
        s_values = spread(s_values, CHANNEL_LAST)
    acc = activate(acc, s_values, ACTIVATION, ALPHA, BETA)
    values = acc.to(y.dtype.element_ty)
    pointer = y
    if PAIR > 1:
        pointer = y.to(WORDS, bitcast=True)
        values = _paired(values.to(tl.uint16, bitcast=True))
    if STREAM:
        tl.store(_addresses(pointer, place), values, mask=place[1], eviction_policy="evict_first")
    else:
        tl.store(_addresses(pointer, place), values, mask=place[1])


@triton.jit
def _paired(bits):
    """Words [channels, (2 rows q, 4)] of 2-byte fields [channels, (row q, 4 phases)].

    Of four phases the last is none, and of four words.
    """
    CHANNELS: tl.constexpr = bits.shape[0]
    PAIRS: tl.constexpr = bits.shape[1] // 8
    even, odd = tl.split(bits.reshape(CHANNELS, PAIRS, 4, 2))
    v0_v4, v2_v6 = tl.split(even.reshape(CHANNELS, PAIRS, 2, 2))
    v1_v5, _ = tl.split(odd.reshape(CHANNELS, PAIRS, 2, 2))
    v0, v4 = tl.split(v0_v4)
    v2, v6 = tl.split(v2_v6)
    v1, v5 = tl.split(v1_v5)
    first = v0.to(tl.uint32) | (v1.to(tl.uint32) << 16)
    second = v2.to(tl.uint32) | (v4.to(tl.uint32) << 16)
    third = v5.to(tl.uint32) | (v6.to(tl.uint32) << 16)
    words = tl.join(tl.join(first, third), tl.join(second, second))
    return words.reshape(CHANNELS, PAIRS * 4)


@triton.jit
def _unpaired(words):
    """The fields of `_paired`; what is none there is any field."""
    CHANNELS: tl.constexpr = words.shape[0]
    PAIRS: tl.constexpr = words.shape[1] // 4
    even, odd = tl.split(words.reshape(CHANNELS, PAIRS, 2, 2))
    first, third = tl.split(even)
    second, _ = tl.split(odd)
    v0, v1 = first.to(tl.uint16), (first >> 16).to(tl.uint16)
    v2, v4 = second.to(tl.uint16), (second >> 16).to(tl.uint16)
    v5, v6 = third.to(tl.uint16), (third >> 16).to(tl.uint16)
    bits = tl.join(
        tl.join(tl.join(v0, v4), tl.join(v2, v6)), tl.join(tl.join(v1, v5), tl.join(v1, v5))
    )
    return bits.reshape(CHANNELS, PAIRS * 8)


@triton.jit
def _add_columns(acc, values, LAST: tl.constexpr):
    """acc plus a vector along its last (LAST) or first axis, which may repeat itself there."""
    EACH: tl.constexpr = values.shape[0]
    M: tl.constexpr = acc.shape[0]
    N: tl.constexpr = acc.shape[1]
    if LAST:
        acc = (acc.reshape(M, N // EACH, EACH) + values[None, None, :]).reshape(M, N)
    else:
        acc = (acc.reshape(M // EACH, EACH, N) + values[None, :, None]).reshape(M, N)
    return acc
