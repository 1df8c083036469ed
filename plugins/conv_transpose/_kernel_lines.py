"""Device code: few-channel groups in NCHW, where lines of x and y are read and written in words.

A program computes BLOCK_Q neighbouring rows q of one channel, a thread EACH of them, with all their
phases: it reads aligned words of x once for all taps, and joins the phases of the width, which lie
next to each other in y, into one store.
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
    KERNEL,
    STEP,
    STRIDE,
    coordinates,
    inside,
)
from convt_onnx.plugins.conv_transpose._kernel_epilogue import activate


@triton.jit(
    do_not_specialize=[
        "rows", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "q_d", "q_h", "q_w",
        "d_mul", "d_shift", "h_mul", "h_shift", "w_mul", "w_shift",
    ]
)  # fmt: skip
def lines_kernel(
    x,  # [N, C_in, D, H, W] with the strides x_*
    w,  # [C_in, C_out / group, *kernel], contiguous
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
    q_w,  # a multiple of EACH
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
    AXIS_W: tl.constexpr,  # exact: no row q and phase lies outside
    C_IN: tl.constexpr,  # of a group
    C_OUT: tl.constexpr,  # of a group
    TAPS: tl.constexpr,  # tap of each (block, phase), or -1: packing.tap_table
    BLOCK_Q: tl.constexpr,
    EACH: tl.constexpr,  # elements in 8 bytes
    X_VECTOR: tl.constexpr,  # elements of x that one load reads
    WIDE: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr,
    BETA: tl.constexpr,
):
    """y = activation(conv_transpose(x, w) + bias + residual)."""
    BLOCKS: tl.constexpr = AXIS_D[COUNT] * AXIS_H[COUNT]
    KERNEL_SIZE: tl.constexpr = AXIS_D[KERNEL] * AXIS_H[KERNEL] * AXIS_W[KERNEL]
    tiles = tl.cdiv(rows, BLOCK_Q)
    pid = tl.program_id(0)
    channel = pid // tiles
    group = channel // C_OUT
    tile = pid % tiles
    if WIDE:
        tile = tile.to(tl.int64)
    m = tile * BLOCK_Q + EACH * tl.arange(0, BLOCK_Q // EACH)
    batch, m_d, m_h, m_w = coordinates(
        m, q_d, q_h, q_w, d_mul, d_shift, h_mul, h_shift, w_mul, w_shift, NDIM, 1
    )
    if WIDE:
        batch = batch.to(tl.int64)
        m_d = m_d.to(tl.int64)
        m_h = m_h.to(tl.int64)
        channel = channel.to(tl.int64)
        group = group.to(tl.int64)
    live = m < rows
    at_x = batch * x_n + m_d * x_d + m_h * x_h + m_w * x_w + group * C_IN * x_c
    elements = ()
    for read in tl.static_range(BLOCKS * C_IN):
        elements = elements + _line_of_x(
            x, at_x + read % C_IN * x_c, m_d, m_h, m_w, live, in_d, in_h, in_w, x_d, x_h, x_w,
            read // C_IN, NDIM, AXIS_D, AXIS_H, AXIS_W, EACH, X_VECTOR,
        )  # fmt: skip
    weights = ()
    first = w + (group * C_IN * C_OUT + channel % C_OUT) * KERNEL_SIZE
    for i in tl.static_range(C_IN * KERNEL_SIZE):
        at_w = i // KERNEL_SIZE * C_OUT * KERNEL_SIZE + i % KERNEL_SIZE
        weights = weights + (tl.load(first + at_w).to(tl.float32),)
    start = 0.0
    if bias is not None:
        start = tl.load(bias + channel).to(tl.float32)
    slope_value = 0.0
    if slope is not None:
        slope_value = tl.load(slope + channel).to(tl.float32)

    at_y = batch * y_n + channel * y_c + m_w * AXIS_W[STRIDE]
    for line in tl.static_range(AXIS_D[STRIDE] * AXIS_H[STRIDE]):
        o_d = m_d * AXIS_D[STRIDE] + (line // AXIS_H[STRIDE] - AXIS_D[CROP])
        o_h = m_h * AXIS_H[STRIDE] + (line % AXIS_H[STRIDE] - AXIS_H[CROP])
        write = live
        if not AXIS_D[EXACT]:
            write &= inside(o_d, out_d)
        if not AXIS_H[EXACT]:
            write &= inside(o_h, out_h)
        _write_line(
            elements, weights, start, slope_value, y, residual, at_y + o_d * y_d + o_h * y_h, write,
            line, AXIS_D, AXIS_H, AXIS_W, C_IN, KERNEL_SIZE, TAPS, BLOCK_Q // EACH, EACH, X_VECTOR,
            ACTIVATION, ALPHA, BETA,
        )  # fmt: skip


@triton.jit
def _line_of_x(
    x, at, m_d, m_h, m_w, live, in_d, in_h, in_w, x_d, x_h, x_w, BLOCK: tl.constexpr,
    NDIM: tl.constexpr, AXIS_D: tl.constexpr, AXIS_H: tl.constexpr, AXIS_W: tl.constexpr,
    EACH: tl.constexpr, X_VECTOR: tl.constexpr,
):  # fmt: skip
    """Elements of x, float32, that the rows q of a thread read in one shift of depth and height.

    They begin with the leftmost word that any shift of the width touches.
    """
    E_D: tl.constexpr = AXIS_D[FIRST] + BLOCK // AXIS_H[COUNT] * AXIS_D[STEP]
    E_H: tl.constexpr = AXIS_H[FIRST] + BLOCK % AXIS_H[COUNT] * AXIS_H[STEP]
    LEFT: tl.constexpr = -(AXIS_W[FIRST] + (AXIS_W[COUNT] - 1) * AXIS_W[STEP]) // X_VECTOR
    RIGHT: tl.constexpr = (EACH - 1 - AXIS_W[FIRST]) // X_VECTOR
    BITS: tl.constexpr = x.dtype.element_ty.primitive_bitwidth
    narrow: tl.constexpr = tl.core.get_int_dtype(BITS, False)
    word: tl.constexpr = tl.core.get_int_dtype(BITS * X_VECTOR, False)
    if NDIM >= 2:
        live &= inside(m_h - E_H, in_h)
    if NDIM == 3:
        live &= inside(m_d - E_D, in_d)
    at -= E_D * x_d + E_H * x_h
    found = ()
    for i in tl.static_range(RIGHT + 1 - LEFT):
        mask = live & inside(m_w + (LEFT + i) * X_VECTOR, in_w)
        pointer = (x + (at + (LEFT + i) * X_VECTOR * x_w)).to(tl.pointer_type(word), bitcast=True)
        bits = tl.load(pointer, mask=mask, other=0)
        for j in tl.static_range(X_VECTOR):
            value = (bits >> (j * BITS)).to(narrow).to(x.dtype.element_ty, bitcast=True)
            found = found + (value.to(tl.float32),)
    return found


@triton.jit
def _write_line(
    elements, weights, start, slope, y, residual, at, write, LINE: tl.constexpr,
    AXIS_D: tl.constexpr, AXIS_H: tl.constexpr, AXIS_W: tl.constexpr, C_IN: tl.constexpr,
    KERNEL_SIZE: tl.constexpr, TAPS: tl.constexpr, THREADS: tl.constexpr, EACH: tl.constexpr,
    X_VECTOR: tl.constexpr, ACTIVATION: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr,
):  # fmt: skip
    """Compute and write the phases of the width, one phase of depth and of height."""
    # Elements of a store: 16 bytes where a thread's part of the line has so many.
    STORED: tl.constexpr = EACH * (2 - AXIS_W[STRIDE] % 2)
    for i in tl.static_range(AXIS_W[STRIDE] * EACH // STORED):
        sums = ()
        for j in tl.static_range(STORED):
            sums = sums + (
                _sum(
                    elements, weights, start + tl.zeros((THREADS,), tl.float32),
                    (i * STORED + j) // AXIS_W[STRIDE],
                    LINE * AXIS_W[STRIDE] + (i * STORED + j) % AXIS_W[STRIDE],
                    AXIS_D, AXIS_H, AXIS_W, C_IN, KERNEL_SIZE, TAPS, EACH, X_VECTOR,
                ),
            )  # fmt: skip
        offsets = at[:, None] + (tl.arange(0, STORED) + i * STORED)[None, :]
        offsets = tl.max_contiguous(tl.multiple_of(offsets, (1, STORED)), (1, STORED))
        mask = tl.broadcast_to(write[:, None], (THREADS, STORED))
        acc = _joined(sums, THREADS, STORED)
        if residual is not None:
            acc += tl.load(residual + offsets, mask=mask, other=0.0).to(tl.float32)
        acc = activate(acc, slope, ACTIVATION, ALPHA, BETA)
        tl.store(y + offsets, acc.to(y.dtype.element_ty), mask=mask)


@triton.jit
def _joined(values, THREADS: tl.constexpr, COUNT_OF: tl.constexpr):
    """2, 4 or 8 vectors as the columns of a tile; a thread keeps what it has."""
    if COUNT_OF == 8:
        tile = tl.join(
            tl.join(tl.join(values[0], values[4]), tl.join(values[2], values[6])),
            tl.join(tl.join(values[1], values[5]), tl.join(values[3], values[7])),
        )
    elif COUNT_OF == 4:
        tile = tl.join(tl.join(values[0], values[2]), tl.join(values[1], values[3]))
    else:
        tile = tl.join(values[0], values[1])
    return tile.reshape(THREADS, COUNT_OF)


@triton.jit
def _sum(
    elements, weights, acc, Q: tl.constexpr, PHASE: tl.constexpr, AXIS_D: tl.constexpr,
    AXIS_H: tl.constexpr, AXIS_W: tl.constexpr, C_IN: tl.constexpr, KERNEL_SIZE: tl.constexpr,
    TAPS: tl.constexpr, EACH: tl.constexpr, X_VECTOR: tl.constexpr,
):  # fmt: skip
    """acc and the products of all taps of one phase of row q."""
    PHASES: tl.constexpr = AXIS_D[STRIDE] * AXIS_H[STRIDE] * AXIS_W[STRIDE]
    LEFT: tl.constexpr = -(AXIS_W[FIRST] + (AXIS_W[COUNT] - 1) * AXIS_W[STEP]) // X_VECTOR
    RIGHT: tl.constexpr = (EACH - 1 - AXIS_W[FIRST]) // X_VECTOR
    SPAN: tl.constexpr = (RIGHT + 1 - LEFT) * X_VECTOR
    for block in tl.static_range(AXIS_D[COUNT] * AXIS_H[COUNT] * AXIS_W[COUNT]):
        if TAPS[block * PHASES + PHASE] >= 0:
            for channel in tl.static_range(C_IN):
                acc += (
                    elements[
                        (block // AXIS_W[COUNT] * C_IN + channel) * SPAN
                        + Q - (AXIS_W[FIRST] + block % AXIS_W[COUNT] * AXIS_W[STEP])
                        - LEFT * X_VECTOR
                    ]
                    * weights[channel * KERNEL_SIZE + TAPS[block * PHASES + PHASE]]
                )  # fmt: skip
    return acc
