"""A schedule: which kernel, which axes are fused, which tiles; and the packing it implies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from convt_onnx.plugins.conv_transpose.geometry import AxisPlan, lifted_axes, plan_axis
from convt_onnx.plugins.conv_transpose.packing import Packing
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.plugins.conv_transpose.resident import (
    Parts,
    part_widths,
    parts_of,
    weight_elements,
)

GEMM = "gemm"
DIRECT = "direct"
RESIDENT = "resident"
LINES = "lines"
WALK = "walk"
# Kinds that read the weight as it is.
UNPACKED = (DIRECT, LINES)
# Triton's own use of shared memory beside the tiles.
SPARE_BYTES = 1024
# Of a warp whose threads exchange what they store.
EXCHANGE_BYTES = 512
# Channels of a piece of x or y that goes between memory and a matrix instruction's registers, and
# how many of a product or of a part may.
PIECE = 32
MOST_PIECES = 4
# Channels of y that a walk over NCHW lines has in the columns of a product.
WORD_CHANNELS = (16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that is compiled into a kernel besides the geometry.

    `fused` and `aligned` have one entry for depth, height and width (see `geometry.plan_axis`).
    In a `direct` schedule block_m counts rows q, block_n is the tile's last axis (channels, or the
    phases of the width), depth and height are split, and the rest is unused. In a `resident`
    schedule all axes are fused, the columns are divided among `column_tiles` programs, each of
    which computes its columns in parts of block_n, `workers` programs share the rows of a group,
    x is read `prefetch` steps ahead (or, with stages > 1, whole tiles ahead), and a thread takes
    at most `registers` (0: what the compiler likes). With `fragments` x, and y where
    `fragment_sums`, is permuted in registers instead of shared memory, and `joined` neighbouring
    shifts of the width are one product. In a `lines` schedule all axes are fused and
    block_m counts rows q of one channel. `merge` groups are computed as one: the functions below
    and the launch take the problem of `Problem.merged`.
    """

    kind: str
    fused: tuple[bool, bool, bool]
    aligned: tuple[bool, bool, bool]
    block_m: int
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 3
    flat: bool = False
    interleave: bool = False
    k_major: bool = False
    round_x: bool = False
    column_tiles: int = 1
    workers: int = 1
    prefetch: int = 0
    registers: int = 0
    joined: int = 1
    fragments: bool = False
    merge: int = 1

    @property
    def label(self) -> str:
        """Short name for tables."""
        fused = "".join("s-"[f] if not f else "f" for f in self.fused)
        extra = ("F" if self.flat else "") + ("I" if self.interleave else "")
        extra += f"m{self.merge}" if self.merge > 1 else ""
        tiles = f"{self.block_m}x{self.block_n}x{self.block_k}"
        if self.kind in (RESIDENT, WALK):
            extra += f"c{self.column_tiles}p{self.prefetch}g{self.workers}"
            extra += f"R{self.joined}" if self.fragments else ""
        return f"{self.kind}-{fused}{extra}-{tiles}-w{self.warps}s{self.stages}"


def axis_plans(problem: Problem, schedule: Schedule) -> tuple[AxisPlan, AxisPlan, AxisPlan]:
    """Plans of depth, height and width."""
    depth, height, width = (
        plan_axis(axis, fused=fused, aligned=aligned)
        for axis, fused, aligned in zip(
            lifted_axes(problem.spec), schedule.fused, schedule.aligned, strict=True
        )
    )
    return depth, height, width


def packing_of(problem: Problem, schedule: Schedule) -> Packing:
    """How a GEMM or resident schedule reads the weight."""
    packing = Packing(
        axis_plans(problem, schedule),
        problem.spec.group,
        problem.spec.in_per_group,
        problem.spec.out_per_group,
        schedule.block_k,
        schedule.block_n,
        schedule.flat,
        schedule.interleave,
        schedule.k_major,
        schedule.merge,
    )
    if schedule.kind not in (RESIDENT, WALK):
        return packing
    widths = part_widths(packing.columns, schedule.block_n, schedule.column_tiles)
    return replace(packing, tile_n=sum(widths))


def resident_parts(problem: Problem, schedule: Schedule) -> Parts:
    """The columns of one program of a schedule with resident weights."""
    parts = parts_of(packing_of(problem, schedule), schedule.block_n, schedule.column_tiles)
    joined = schedule.joined if schedule.kind == RESIDENT else 1
    return parts.join(joined) if joined > 1 else parts


def takes_fragments(problem: Problem, schedule: Schedule) -> bool:
    """Whether a resident schedule can read x as `fragments`."""
    pieces, rest = divmod(schedule.block_k, PIECE)
    return (
        problem.channels_last_in
        and problem.element_bytes == 2
        and schedule.stages == 1
        and not schedule.k_major
        and rest == 0
        and 0 < pieces <= MOST_PIECES
    )


def joinable(problem: Problem, schedule: Schedule) -> list[int]:
    """How many neighbouring shifts of the width `fragments` can join."""
    packing = packing_of(problem, schedule)
    most = MOST_PIECES * PIECE // schedule.block_k if packing.rows == schedule.block_k else 1
    return [n for n in (1, 2, 4) if n <= most and packing.axes[2].blocks % n == 0]


def fragment_sums(problem: Problem, schedule: Schedule) -> bool:
    """Whether y is written from the registers of the sums: parts of pieces, 16 bytes a store."""
    if not (schedule.fragments and problem.channels_last_out) or schedule.interleave:
        return False
    widths = resident_parts(problem, schedule).widths
    whole = min(widths) >= PIECE and max(widths) <= MOST_PIECES * PIECE
    return whole and vector_width(problem, schedule) * problem.element_bytes == 16


def takes_words(problem: Problem, schedule: Schedule) -> bool:
    """Whether a walk goes over NCHW lines: x in words of two positions, whose results y has.

    With two phases of the width these are words of four, with three they are three words of two.
    """
    width, out = axis_plans(problem, schedule)[2], problem.out_sizes[2]
    even = width.crop % 2 == 0 and out % 2 == 0 and width.rows(out) % 2 == 0
    return (
        schedule.fragments
        and not (problem.channels_last_in or problem.channels_last_out or schedule.interleave)
        and problem.element_bytes == 2
        and not schedule.k_major
        and schedule.block_m == 16 * schedule.warps
        and schedule.block_n == problem.spec.out_per_group in WORD_CHANNELS
        and (
            (width.stride == 2 and width.exact(out) and out % 4 == 0)
            or (width.stride == 3 and even)
        )
    )


def keeps_weights(problem: Problem) -> bool:
    """Whether programs may keep their weights in shared memory.

    Three TF32 products of one x do not go with it: so many registers are spilled around matrix
    instructions that one such kernel, of thousands, was compiled wrong (README).
    """
    return problem.element_bytes < 4 or problem.tf32


def resident_bytes(problem: Problem, schedule: Schedule) -> int:
    """Shared memory that a program takes: its weights, and tiles of x or of y.

    Tiles of x that are read whole tiles ahead stay while y is turned into its order.
    """
    packing, parts = packing_of(problem, schedule), resident_parts(problem, schedule)
    reads = 1 + schedule.prefetch
    if schedule.stages > 1:
        reads = schedule.stages * packing.blocks * (packing.rows // packing.tile_k)
    x = 0 if schedule.fragments else reads * packing.tile_k
    direct = fragment_sums(problem, schedule) or takes_words(problem, schedule)
    y = 0 if direct else max(parts.widths)
    tiles = x + y if schedule.stages > 1 else max(x, y)
    elements = weight_elements(packing, parts) + schedule.block_m * tiles
    thirds = schedule.kind == WALK and not problem.channels_last_out
    exchanged = EXCHANGE_BYTES * schedule.warps if thirds and packing.axes[2].stride == 3 else 0
    return elements * problem.element_bytes + exchanged + SPARE_BYTES


def row_count(problem: Problem, schedule: Schedule) -> int:
    """Rows q of the whole batch."""
    plans = axis_plans(problem, schedule)
    return problem.batch * prod(a.rows(o) for a, o in zip(plans, problem.out_sizes, strict=True))


def walk_lines(problem: Problem, schedule: Schedule) -> int:
    """Lines that a walk goes over: of the height, or of a width folded by its positions."""
    _, height, width = axis_plans(problem, schedule)
    if problem.spec.ndim == 1:
        return -(-width.rows(problem.out_sizes[2]) // schedule.block_m)
    return height.rows(problem.out_sizes[1])


def walk_tiles(problem: Problem, schedule: Schedule) -> int:
    """Tiles of positions (batch, width) that each line of a walk has."""
    if problem.spec.ndim == 1:
        return problem.batch
    rows = row_count(problem, schedule) // walk_lines(problem, schedule)
    return -(-rows // schedule.block_m)


def program_count(problem: Problem, schedule: Schedule) -> int:
    """Programs of one launch."""
    tiles = -(-row_count(problem, schedule) // schedule.block_m)
    channels = problem.spec.out_channels
    if schedule.kind == LINES:
        return tiles * channels
    programs = tiles * prod(a.split for a in axis_plans(problem, schedule))
    if schedule.kind == DIRECT:
        last = -(-channels // schedule.block_n) if problem.channels_last_out else channels
        return programs * last
    packing = packing_of(problem, schedule)
    columns = packing.padded_columns // packing.tile_n * problem.spec.group
    if schedule.kind == WALK:
        return walk_tiles(problem, schedule) * schedule.workers * columns
    if schedule.kind == RESIDENT:
        return min(schedule.workers, tiles) * columns
    return programs * columns


def vector_width(problem: Problem, schedule: Schedule) -> int:
    """Elements that one store may write at once: contiguous and aligned to their own size.

    Supposes y contiguous in its layout and aligned to 16 bytes.
    """
    limit = 16 // problem.element_bytes
    width = axis_plans(problem, schedule)[2]
    out = problem.out_sizes[2]
    direct = schedule.kind == DIRECT
    if problem.channels_last_out and (problem.spec.out_channels > 1 or direct):
        # A direct tile runs over the channels of all groups, a GEMM tile over those of one.
        channels = problem.spec.out_channels if direct else problem.spec.out_per_group
        inner = packing_of(problem, schedule).width_phases if schedule.interleave else 1
        if problem.spec.group == 1 and schedule.fused[2] and inner == 1 and width.exact(out):
            channels *= width.phases  # the pixels of a row q lie next to each other
        return largest_divisor(min(limit, schedule.block_n // inner), channels)
    if not width.exact(out):
        return 1
    phases = width.phases
    if problem.channels_last_out or direct:
        return largest_divisor(limit, phases, out)
    interleaved = schedule.interleave and phases & (phases - 1) == 0
    return largest_divisor(limit, out) if interleaved or width.stride == 1 else 1


def pair_width(problem: Problem, schedule: Schedule) -> int:
    """Elements of a word that two rows q with three interleaved phases are made of: 2, or 1.

    Such a word lies in one line of NCHW, which begins with a whole word, or outside.
    """
    width = axis_plans(problem, schedule)[2]
    out = problem.out_sizes[2]
    even = width.crop % 2 == 0 and out % 2 == 0 and width.rows(out) % 2 == 0
    three = schedule.interleave and width.phases == 3 and not problem.channels_last_out
    return 2 if three and even and problem.element_bytes == 2 else 1


def largest_divisor(limit: int, *sizes: int) -> int:
    """Largest power of two up to `limit` (one itself) that divides every size."""
    while limit > 1 and any(size % limit for size in sizes):
        limit //= 2
    return limit
