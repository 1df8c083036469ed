"""Timing of a bounded list of schedules on the device, for one call; see `tuned` for the cache."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from convt_onnx.plugins.conv_transpose import heuristics, op, tuned
from convt_onnx.plugins.conv_transpose.activations import NONE, Activation
from convt_onnx.plugins.conv_transpose.schedule import Schedule
from convt_onnx.spec import ConvTransposeSpec

if TYPE_CHECKING:
    import torch


def autotune(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    spec: ConvTransposeSpec,
    *,
    activation: Activation = NONE,
    tf32: bool | None = None,
    limit: int = 16,
    seconds: float = 60.0,
) -> Schedule:
    """Time up to `limit` schedules, remember the fastest, return it.

    No schedule is begun after `seconds`, compilation included. A schedule must beat the
    heuristic's by 2 % to replace it, so that noise changes nothing.
    """
    problem = op.make_problem(x, spec, tf32=tf32)
    device = op.device_of(x)
    deadline = time.monotonic() + seconds
    best: tuple[float, Schedule] | None = None
    for schedule in heuristics.candidates(problem, device, limit):
        if best is not None and time.monotonic() > deadline:
            break
        took = _microseconds(x, weight, bias, spec, activation, tf32, schedule)
        if best is None or took < best[0] * 0.98:
            best = (took, schedule)
    assert best is not None  # the heuristic's own choice always is a candidate
    tuned.remember(problem, device, best[1], best[0])
    return best[1]


def _microseconds(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    spec: ConvTransposeSpec,
    activation: Activation,
    tf32: bool | None,
    schedule: Schedule,
) -> float:
    """Median time of one launch; infinite where the schedule needs more than the device has."""
    import triton
    from triton.runtime.errors import OutOfResources

    def call() -> object:
        return op.conv_transpose(
            x, weight, bias, spec, activation=activation, tf32=tf32, schedule=schedule
        )

    try:
        took = triton.testing.do_bench(call, warmup=5, rep=20, return_mode="median")
    except OutOfResources:
        return float("inf")
    return float(took) * 1000.0
