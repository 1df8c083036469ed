"""Schedules for kernels that are compiled ahead of time: pure functions, deterministic.

A model holds one packed weight a node, whatever the device and the layouts that a host chooses. So
the schedule that fixes the packing is chosen once, from the geometry alone; a host may change
the tile of rows, warps and stages, which the packing does not depend on.
"""

from __future__ import annotations

from dataclasses import replace

from convt_onnx.plugins.conv_transpose import fusing, groups, heuristics
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.problem import Device
from convt_onnx.plugins.conv_transpose.ptx import SHARED_LIMIT
from convt_onnx.plugins.conv_transpose.schedule import DIRECT, Schedule

# Tiles do not depend on the device: from 8.0 on they compile for any.
DEVICE = Device("ahead of time", 80, 132, SHARED_LIMIT)
OLD_DEVICE_ROWS = 32
# (block_m, warps, stages) beside the heuristic's.
_TILES = ((128, 4, 3), (64, 4, 3), (128, 8, 2), (64, 4, 2), (32, 4, 3), (32, 4, 2), (16, 4, 2))


def base_schedule(kernel: KernelSpec) -> Schedule:
    """The schedule that fixes a node's packing, the same for every layout."""
    problem = replace(kernel, channels_last_in=False, channels_last_out=False).problem
    if groups.direct_is_better(problem):
        return heuristics.direct_schedule(problem)
    fused = fusing.fused_axes(problem)
    return _within(kernel, heuristics.gemm_schedule(problem, DEVICE, fused))


def schedules(
    kernel: KernelSpec, base: Schedule, capability: int, limit: int = 4
) -> list[Schedule]:
    """Schedules with the packing of `base` for the kernel's layouts, the preferred one first."""
    if base.kind == DIRECT:
        # Its weight is not packed: every layout has a schedule of its own.
        own = heuristics.direct_schedule(kernel.problem)
        halved = [replace(own, block_m=max(16, own.block_m // n)) for n in (1, 2, 4)]
        return list(dict.fromkeys(halved))[:limit]
    if capability < 80:  # no matrix instructions there: registers are short
        return [replace(base, block_m=min(base.block_m, OLD_DEVICE_ROWS), stages=2)]
    found = [base] + [replace(base, block_m=m, warps=w, stages=s) for m, w, s in _TILES]
    unique = dict.fromkeys(_within(kernel, s) for s in found)
    return list(unique)[:limit]


def _within(kernel: KernelSpec, schedule: Schedule) -> Schedule:
    """Fewer stages, then fewer rows, until shared memory suffices."""
    while not heuristics.fits(kernel.problem, schedule, DEVICE):
        if schedule.stages > 2:
            schedule = replace(schedule, stages=schedule.stages - 1)
        elif schedule.block_m > 16:
            schedule = replace(schedule, block_m=schedule.block_m // 2)
        else:
            break
    return schedule
