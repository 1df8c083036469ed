"""From a schedule and tensors to one launch: grid, arguments and compile-time constants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from convt_onnx.errors import UsageError
from convt_onnx.plugins.conv_transpose.activations import Activation
from convt_onnx.plugins.conv_transpose.geometry import AxisPlan, divider
from convt_onnx.plugins.conv_transpose.lines import each, lines_schedule, taps
from convt_onnx.plugins.conv_transpose.neighbours import neighbours
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    DIRECT,
    GEMM,
    LINES,
    RESIDENT,
    WALK,
    Schedule,
    axis_plans,
    fragment_sums,
    keeps_weights,
    packing_of,
    pair_width,
    program_count,
    resident_parts,
    vector_width,
)
from convt_onnx.plugins.conv_transpose.walk import products, walks

if TYPE_CHECKING:
    import torch

Constants = dict[str, Any]
WIDE_FROM = 2**31
# How float32 is multiplied where TF32 is not allowed: three TF32 products.
EXACT = "tf32x3"
# An output of this many bytes would push x out of the cache before it is read again.
STREAM_FROM = 16 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """What one launch is compiled for."""

    problem: Problem
    schedule: Schedule
    activation: Activation


def launch(
    call: Call,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    slope: torch.Tensor | None,
    residual: torch.Tensor | None,
    y: torch.Tensor,
) -> None:
    """Write y. `weight` is packed for a GEMM schedule, [C_in, C_out/group, *kernel] for a direct.

    `residual` has y's strides; y is contiguous in its layout.
    """
    schedule = call.schedule
    wide = max(_reach(x), _reach(y)) >= WIDE_FROM
    grid, constants = launch_constants(call, wide, neighbours(call.problem, schedule, x))
    sizes = launch_sizes(call, _strides(x), _strides(y))
    kernel(schedule)[grid](
        x,
        weight,
        bias,
        slope,
        residual,
        *sizes,
        y,
        **constants,
        num_warps=schedule.warps,
        num_stages=schedule.stages,
        maxnreg=schedule.registers or None,
        enable_fp_fusion=True,  # Triton 3.9 warns where it is left open
    )


def kernel(schedule: Schedule) -> Any:
    """The device function of a schedule."""
    if schedule.kind == GEMM:
        from convt_onnx.plugins.conv_transpose._kernel_gemm import gemm_kernel

        return gemm_kernel
    if schedule.kind == RESIDENT:
        from convt_onnx.plugins.conv_transpose._kernel_resident import resident_kernel

        return resident_kernel
    if schedule.kind == WALK:
        from convt_onnx.plugins.conv_transpose._kernel_walk import walk_kernel

        return walk_kernel
    if schedule.kind == LINES:
        from convt_onnx.plugins.conv_transpose._kernel_lines import lines_kernel

        return lines_kernel
    from convt_onnx.plugins.conv_transpose._kernel_direct import direct_kernel

    return direct_kernel


def launch_sizes(
    call: Call, x_strides: tuple[int, ...], y_strides: tuple[int, ...]
) -> tuple[int | None, ...]:
    """The integer arguments between the input pointers and y.

    Strides are those of [N, C, D, H, W], missing axes 0.
    """
    problem = call.problem
    outs = problem.out_sizes
    rows = tuple(a.rows(o) for a, o in zip(axis_plans(problem, call.schedule), outs, strict=True))
    total = problem.batch * prod(rows)
    dividers: tuple[int | None, ...] = (None,) * 6
    if total < WIDE_FROM:
        dividers = tuple(v for q in rows for v in divider(q))
    return (total, *problem.in_sizes, *outs, *rows, *dividers, *x_strides, *y_strides)


@lru_cache(maxsize=1024)
def launch_constants(
    call: Call, wide: bool, x_vector: int
) -> tuple[tuple[int, int, int], Constants]:
    """Grid and compile-time arguments."""
    problem, schedule = call.problem, call.schedule
    plans = axis_plans(problem, schedule)
    constants: Constants = {
        **_axis_constants(plans, problem.out_sizes),
        "C_IN": problem.spec.in_per_group,
        "C_OUT": problem.spec.out_per_group,
        "NDIM": problem.spec.ndim,
        "WIDE": wide,
        "ACTIVATION": call.activation.kind,
        "ALPHA": call.activation.alpha,
        "BETA": call.activation.beta,
    }
    grid = (program_count(problem, schedule), 1, 1)
    if schedule.kind == LINES:
        return grid, constants | _lines(call, x_vector)
    if schedule.kind == WALK:
        return grid, constants | _walk(call, x_vector)
    constants |= {
        "CHANNEL_LAST": problem.channels_last_out,
        "VECTOR": vector_width(problem, schedule),
    }
    if schedule.kind == DIRECT:
        return grid, constants | _direct(call)
    constants |= _matrix(call, x_vector)
    return grid, constants | (_resident(call) if schedule.kind == RESIDENT else _gemm(call))


def precision(problem: Problem) -> str:
    """How float32 products are computed; other types have one way."""
    if problem.dtype != "float32":
        return "ieee"
    return "tf32" if problem.tf32 else EXACT


def _matrix(call: Call, x_vector: int) -> Constants:
    """What both kernels with matrix instructions take."""
    problem, schedule = call.problem, call.schedule
    packing = packing_of(problem, schedule)
    return {
        "ROWS_PAD": packing.rows,
        "COLUMNS_PAD": packing.padded_columns,
        "BLOCK_M": schedule.block_m,
        "BLOCK_K": schedule.block_k,
        "K_MAJOR": schedule.k_major,
        "INTERLEAVE": packing.width_phases if schedule.interleave else 1,
        "X_VECTOR": min(x_vector, schedule.block_k),
        "X_CHANNEL_LAST": problem.channels_last_in,
        "PAIR": pair_width(problem, schedule),
        "STREAM": problem.out_elements * problem.element_bytes >= STREAM_FROM,
        "PRECISION": precision(problem),
        "ROUND_X": schedule.round_x,
        "UPCAST": problem.dtype == "bfloat16" and _interpreted(),
    }


def _gemm(call: Call) -> Constants:
    problem, schedule = call.problem, call.schedule
    single = not problem.channels_last_out and vector_width(problem, schedule) == 1
    return {
        "BLOCK_N": schedule.block_n,
        "FLAT": schedule.flat,
        "BY_ROW": single and problem.element_bytes == 2,
    }


def _resident(call: Call) -> Constants:
    problem, schedule = call.problem, call.schedule
    if not keeps_weights(problem):
        raise UsageError(
            "the schedule does not fit: exact float32 keeps no weights in shared memory",
            where=schedule.label,
            help="allow TF32, or leave the schedule to be chosen",
        )
    packing = packing_of(problem, schedule)
    column_tiles = packing.padded_columns // packing.tile_n
    return {
        "PARTS": resident_parts(problem, schedule).constants,
        "BLOCK_K": schedule.block_k * schedule.joined,
        "JOINED": schedule.joined,
        "FRAGMENTS": schedule.fragments,
        "FRAGMENT_SUMS": fragment_sums(problem, schedule),
        "WORKERS": program_count(problem, schedule) // (column_tiles * problem.spec.group),
        "PREFETCH": schedule.prefetch if schedule.stages == 1 else 0,
        # Few registers hold x then; else a residual would have to share them with it.
        "ADDED_FIRST": schedule.stages > 1 or schedule.fragments,
    }


def _walk(call: Call, x_vector: int) -> Constants:
    problem, schedule = call.problem, call.schedule
    if not walks(problem, schedule):
        raise UsageError(
            "the schedule does not fit: it walks down the height with fragments of x and y",
            where=f"{schedule.label}, sizes {list(problem.sizes)}",
            help="leave the schedule to be chosen for each size",
        )
    every = products(problem, schedule)
    taken = ("ROWS_PAD", "COLUMNS_PAD", "BLOCK_M", "BLOCK_K", "X_VECTOR", "STREAM", "UPCAST")
    matrix = _matrix(call, x_vector)
    return {name: matrix[name] for name in taken} | {
        "VECTOR": vector_width(problem, schedule),
        "PARTS": resident_parts(problem, schedule).constants[:2],
        "PRODUCTS": every,
        "READ_AT": max(0, sum(map(len, every)) - schedule.prefetch),
        "SEGMENTS": schedule.workers,
        "CHANNEL_LAST": problem.channels_last_out,
    }


def _direct(call: Call) -> Constants:
    schedule = call.schedule
    return {
        "CHANNELS": call.problem.spec.out_channels,
        "BLOCK_Q": schedule.block_m,
        "BLOCK_L": schedule.block_n,
        "UNROLL": 4 if call.problem.spec.in_per_group == 1 else 1,
    }


def _lines(call: Call, x_vector: int) -> Constants:
    if lines_schedule(call.problem) is None:
        raise UsageError(
            "the schedule does not fit: its lines are not made of whole words",
            where=f"{call.schedule.label}, sizes {list(call.problem.sizes)}",
            help="leave the schedule to be chosen for each size",
        )
    return {
        "TAPS": taps(call.problem, call.schedule),
        "BLOCK_Q": call.schedule.block_m,
        "EACH": each(call.problem),
        "X_VECTOR": x_vector,
    }


def _interpreted() -> bool:
    import triton

    return bool(triton.knobs.runtime.interpret)


def _axis_constants(
    plans: tuple[AxisPlan, AxisPlan, AxisPlan], outs: tuple[int, int, int]
) -> Constants:
    return {
        f"AXIS_{name}": plan.constants(out)
        for name, plan, out in zip("DHW", plans, outs, strict=True)
    }


def _strides(t: torch.Tensor) -> tuple[int, ...]:
    spatial = t.stride()[2:]
    return (t.stride(0), t.stride(1), *(0,) * (3 - len(spatial)), *spatial)


def _reach(t: torch.Tensor) -> int:
    """Elements between the first and the last, and one."""
    return int(1 + sum((n - 1) * abs(s) for n, s in zip(t.shape, t.stride(), strict=True)))
