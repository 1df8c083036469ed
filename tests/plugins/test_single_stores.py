"""The implicit GEMM where lines of y are stored element by element, and x is read in words."""

from dataclasses import replace

import pytest
import torch

from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.neighbours import neighbours, reads_words
from convt_onnx.plugins.conv_transpose.problem import Device
from convt_onnx.plugins.conv_transpose.schedule import GEMM, Schedule, vector_width
from convt_onnx.spec import ConvTransposeSpec

from .drawing import assert_right_with_epilogue, operands

# One shift of the width, 0; odd lines; groups; a height of several shifts.
STILL = ConvTransposeSpec(34, 10, 2, (3, 3), (4, 4), (1, 1), (1, 1), (1, 1), (0, 0))
STEEP = ConvTransposeSpec(20, 12, 1, (5, 2), (2, 3), (1, 1), (2, 0), (1, 0), (1, 0))
MOVED = ConvTransposeSpec(20, 12, 1, (3, 5), (4, 3), (1, 1), (1, 2), (1, 2), (0, 0))


def forced(spec: ConvTransposeSpec, x: torch.Tensor, **changes) -> Schedule:
    """Small tiles of the implicit GEMM."""
    problem = op.make_problem(x, spec)
    schedule = heuristics.gemm_schedule(problem, Device(), (True, True, True))
    schedule = replace(schedule, block_m=32, block_n=32, block_k=16, flat=False, **changes)
    assert vector_width(problem, schedule) == 1
    return schedule


def words(spec: ConvTransposeSpec, x: torch.Tensor, schedule: Schedule) -> int:
    return neighbours(op.make_problem(x, spec), schedule, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("spec", "most"), [(STILL, 8), (STEEP, 8), (MOVED, 1)])
def test_x_is_read_in_words_where_rows_are_its_positions(spec, most, dtype):
    torch.manual_seed(most)
    x, w, b = operands(spec, 2, (3, 8), dtype, last=False)
    schedule = forced(spec, x)
    assert words(spec, x, schedule) == most
    assert_right_with_epilogue(x, w, b, spec, schedule)


@pytest.mark.parametrize(
    ("layout", "most"), [("gaps", 1), ("unaligned", 1), ("half words", 4), ("odd", 1)]
)
def test_words_are_as_wide_as_x_allows(layout, most):
    torch.manual_seed(3)
    width = {"half words": 12, "odd": 5}.get(layout, 8)
    x, w, b = operands(STILL, 2, (3, 2 * width), torch.float16, last=False)
    if layout == "gaps":
        x = x[..., ::2]
    elif layout == "unaligned":
        x = x[..., 1 : width + 1]
    else:
        x = x[..., :width].contiguous()
    schedule = forced(STILL, x)
    assert words(STILL, x, schedule) == most
    assert_right_with_epilogue(x, w, b, STILL, schedule)


def test_64_bit_offsets(monkeypatch):
    monkeypatch.setattr("convt_onnx.plugins.conv_transpose.launch.WIDE_FROM", 0)
    torch.manual_seed(4)
    x, w, b = operands(STILL, 2, (3, 8), torch.float16, last=False)
    assert_right_with_epilogue(x, w, b, STILL, forced(STILL, x))


def test_flat_rows_and_float32_are_read_element_by_element():
    x = torch.zeros(2, 34, 3, 8, dtype=torch.float16)
    problem, schedule = op.make_problem(x, STILL), forced(STILL, x)
    assert schedule.kind == GEMM
    assert reads_words(problem, schedule)
    assert not reads_words(problem, replace(schedule, flat=True))
    assert not reads_words(problem, replace(schedule, fused=(True, True, False)))
    assert not reads_words(replace(problem, dtype="float32"), schedule)
    assert not reads_words(replace(problem, channels_last_in=True), schedule)
