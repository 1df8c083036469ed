"""Device code: taps of one axis. An axis is the tuple of `AxisPlan.constants`."""

# ruff: noqa: ANN001, ANN202 - values of the device; a compile-time if is an if
# mypy: ignore-errors

import triton
import triton.language as tl

KERNEL = tl.constexpr(0)
STRIDE = tl.constexpr(1)
DILATION = tl.constexpr(2)
BASE = tl.constexpr(3)
CROP = tl.constexpr(4)
FUSED = tl.constexpr(5)
FIRST = tl.constexpr(6)
STEP = tl.constexpr(7)
COUNT = tl.constexpr(8)
TAP_STEP = tl.constexpr(9)
INVERSE = tl.constexpr(10)
EXACT = tl.constexpr(11)


@triton.jit
def phase_taps(phase, AXIS: tl.constexpr):
    """First tap, first shift and tap count of a phase (scalar or tensor) of an axis.

    Tap j is k = first + j*TAP_STEP and reads x[q - (shift + j*READ_STEP)].
    """
    GCD: tl.constexpr = AXIS[STRIDE] // AXIS[TAP_STEP]
    residue = (phase + AXIS[BASE] % AXIS[STRIDE]) % AXIS[STRIDE]
    k = ((residue // GCD) * AXIS[INVERSE]) % AXIS[TAP_STEP]
    count = (AXIS[KERNEL] - k + AXIS[TAP_STEP] - 1) // AXIS[TAP_STEP]
    count = tl.where(residue % GCD == 0, tl.maximum(count, 0), 0)
    shift = (k * AXIS[DILATION] - AXIS[BASE] - phase) // AXIS[STRIDE]
    return k, shift, count


@triton.jit
def program_taps(phase, AXIS: tl.constexpr):
    """First weight block, first shift and tap count for one program."""
    if AXIS[FUSED]:
        block = 0
        shift = AXIS[FIRST]
        count = AXIS[COUNT]
    else:
        block, shift, count = phase_taps(phase, AXIS)
    return block, shift, count


@triton.jit
def block_step(AXIS: tl.constexpr):
    return 1 if AXIS[FUSED] else AXIS[TAP_STEP]


@triton.jit
def inside(i, size):
    """0 <= i < size, for what 31 bits count: a negative number is a large one without a sign."""
    return i.to(tl.uint32) < tl.cast(size, tl.uint32)


@triton.jit
def _divide(m, q, multiplier, shift):
    """m // q for 0 <= m < 2^31, without a division where `geometry.divider` gave its numbers."""
    if multiplier is None:
        quotient = m // q
    else:
        high = tl.umulhi(m.to(tl.uint32) * 2, multiplier.to(tl.uint32))
        quotient = (high >> shift.to(tl.uint32)).to(tl.int32)
    return quotient


@triton.jit
def coordinates(
    m,
    q_d,
    q_h,
    q_w,
    d_mul,
    d_shift,
    h_mul,
    h_shift,
    w_mul,
    w_shift,
    NDIM: tl.constexpr,
    RUN: tl.constexpr,
):
    """Batch index, depth, height and width of flattened rows; each m is repeated RUN times."""
    line = tl.max_constancy(_divide(m, q_w, w_mul, w_shift), RUN)
    width = m - line * q_w
    height = tl.zeros_like(m)
    depth = tl.zeros_like(m)
    if NDIM >= 2:
        plane = tl.max_constancy(_divide(line, q_h, h_mul, h_shift), RUN)
        height = line - plane * q_h
        line = plane
    if NDIM == 3:
        plane = tl.max_constancy(_divide(line, q_d, d_mul, d_shift), RUN)
        depth = line - plane * q_d
        line = plane
    return line, depth, height, width


@triton.jit
def round_to_tf32(v):
    """Nearest TF32 value of float32; an overflow of the largest values becomes infinite."""
    return (v.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)


@triton.jit
def spread(v, LAST: tl.constexpr):
    """A vector along the last (LAST) or the first axis of a tile."""
    return v[None, :] if LAST else v[:, None]


@triton.jit
def hint_order(offsets, unknown, AXIS: tl.constexpr):
    """Make the threads of a warp neighbours along axis 0 or 1 of a tile of offsets.

    Triton orders a tile by what it knows to be contiguous, and versions differ where it knows
    nothing. `unknown` is 0 and of no known alignment, so that the claim widens no access.
    """
    offsets = offsets + unknown
    if AXIS == 0:
        offsets = tl.max_contiguous(offsets, (2, 1))
    else:
        offsets = tl.max_contiguous(offsets, (1, 2))
    return offsets
