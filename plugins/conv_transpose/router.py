"""Whether the kernels can run a call, and whether they should: both with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from convt_onnx.plugins.conv_transpose.fusing import is_wide
from convt_onnx.plugins.conv_transpose.problem import DTYPE_BYTES, Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import UNPACKED, Schedule, packing_of, row_count

MAX_ELEMENTS = 2**31
# Triton has no matrix instructions, nor bfloat16, below this compute capability.
OLDEST = 75


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no, and why; `Answer` is true where the answer is yes."""

    yes: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.yes


YES = Answer(True)


def supports(problem: Problem, device: Device, schedule: Schedule | None = None) -> Answer:
    """Whether the kernels compute this call on this device (by this schedule)."""
    spec = problem.spec
    if not 1 <= spec.ndim <= 3:
        return Answer(False, f"{spec.ndim} spatial axes; the kernels take one to three")
    if problem.dtype not in DTYPE_BYTES:
        return Answer(False, f"type {problem.dtype}; the kernels take {', '.join(DTYPE_BYTES)}")
    if device.capability < OLDEST:
        return Answer(False, f"compute capability {device.capability / 10}; 7.5 is the oldest")
    if problem.dtype == "bfloat16" and device.capability < 80:
        return Answer(False, "bfloat16 needs compute capability 8.0")
    if schedule is not None and schedule.kind not in UNPACKED:
        return _gemm_supports(problem.merged(schedule.merge), schedule)
    return YES


def _gemm_supports(problem: Problem, schedule: Schedule) -> Answer:
    rows = row_count(problem, schedule)
    if rows >= MAX_ELEMENTS - schedule.block_m:
        return Answer(False, f"{rows} rows q; they are counted in 31 bits")
    if prod(packing_of(problem, schedule).shape) >= MAX_ELEMENTS:
        return Answer(False, "the packed weight has 2^31 elements or more")
    return YES


def worth(problem: Problem, device: Device) -> Answer:
    """Whether the kernels were measured to be as fast as the library on calls like this.

    The rules come from benchmarks/gpu_shapes.py on an H200; README.md has the figures.
    """
    answer = supports(problem, device)
    if not answer:
        return answer
    half = problem.element_bytes == 2
    if is_wide(problem) and not (half and problem.channels_last_in):
        return Answer(False, "wide channels: the library is closer to the chip's rate")
    if not half and prod(problem.sizes) == 1 and problem.spec.group == 1:
        return Answer(False, "one input pixel in float32: reading the weight is all there is")
    return YES
