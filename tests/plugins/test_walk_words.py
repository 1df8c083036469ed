"""Walks over NCHW lines: x in words of two positions, y in words of four."""

import random
from dataclasses import replace

import pytest
import torch

from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    WALK,
    Schedule,
    axis_plans,
    program_count,
    resident_bytes,
    takes_words,
)
from convt_onnx.plugins.conv_transpose.walk import LEAST_ROWS, walk_schedule, walks
from convt_onnx.spec import ConvTransposeSpec

from .drawing import (
    assert_right,
    assert_right_with_epilogue,
    assert_right_with_slopes,
    draw_walk,
    operands,
)

# Channels that are no whole piece; groups with a crop of the height; dilation; other strides.
LARGE = ConvTransposeSpec(40, 32, 1, (5, 5), (2, 2), (1, 1), (2, 2), (2, 2), (1, 1))
GROUPS = ConvTransposeSpec(48, 32, 2, (4, 4), (2, 2), (1, 1), (1, 1), (2, 1), (0, 0))
DILATED = ConvTransposeSpec(24, 16, 1, (3, 3), (2, 2), (2, 4), (1, 3), (2, 4), (1, 0))
LINES = ConvTransposeSpec(33, 64, 1, (3, 2), (1, 2), (1, 1), (1, 0), (0, 0), (0, 0))
STEEP = ConvTransposeSpec(17, 32, 1, (5, 6), (3, 2), (1, 1), (2, 3), (1, 1), (1, 0))
DTYPES = (torch.float16, torch.bfloat16)


def forced(problem: Problem, joined: int = 4, prefetch: int = 99, **changes) -> Schedule:
    """A walk of small tiles."""
    base = heuristics.gemm_schedule(problem, Device(), (True, True, True))
    schedule = replace(
        base, kind=WALK, block_m=32, warps=2, block_n=problem.spec.out_per_group,
        block_k=32 if problem.spec.in_per_group <= 32 else 64, stages=1, flat=False,
        interleave=False, fragments=True, aligned=(True, True, True), workers=2, joined=joined,
        prefetch=prefetch,
    )  # fmt: skip
    schedule = replace(schedule, **changes)
    assert walks(problem, schedule)
    return schedule


def row(dtype="float16", sizes=(128, 128), batch=32, **changes) -> Problem:
    """The problem that is k5 s2, 64 to 32 channels."""
    spec = ConvTransposeSpec(64, 32, 1, (5, 5), (2, 2), (1, 1), (2, 2), (2, 2), (1, 1))
    return Problem(replace(spec, **changes).canonical(), batch, sizes, dtype, False, False)


def chosen(problem: Problem, device: Device | None = None) -> Schedule:
    return heuristics.choose(problem, device or Device())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("spec", "joined", "prefetch"),
    [(LARGE, 4, 99), (GROUPS, 2, 1), (DILATED, 8, 3), (LINES, 1, 99), (STEEP, 4, 2)],
)
def test_walks_with_every_part_of_the_epilogue(spec, joined, prefetch, dtype):
    torch.manual_seed(joined)
    x, w, b = operands(spec, 2, (4, 6), dtype, last=False)
    schedule = forced(op.make_problem(x, spec), joined, prefetch)
    assert_right_with_epilogue(x, w, b, spec, schedule)


@pytest.mark.parametrize(
    ("workers", "sizes"), [(1, (5, 4)), (3, (4, 2)), (5, (3, 2)), (2, (1, 40))]
)
def test_programs_share_the_height_however_many_they_are(workers, sizes):
    torch.manual_seed(workers)
    x, w, b = operands(DILATED, 1, sizes, torch.float16, last=False)
    schedule = forced(op.make_problem(x, DILATED), workers=workers)
    assert_right(x, w, b, DILATED, schedule)


def test_without_a_bias_and_with_a_slope_for_each_channel():
    torch.manual_seed(3)
    x, w, _ = operands(GROUPS, 1, (3, 4), torch.float16, last=False)
    assert_right_with_slopes(x, w, GROUPS, forced(op.make_problem(x, GROUPS)))


@pytest.mark.parametrize("layout", ["gaps", "odd lines", "unaligned"])
def test_x_that_is_not_made_of_words(layout):
    torch.manual_seed(4)
    x, w, b = operands(LARGE, 2, (4, 12), torch.float16, last=False)
    if layout == "gaps":
        x = x[:, :, :, ::2]
    elif layout == "odd lines":
        x = torch.cat([x, x[..., :1]], -1)[..., :12]
    else:
        x = torch.cat([x, x], -1)[..., 1:7]
    schedule = forced(op.make_problem(x, LARGE))
    assert_right(x, w, b, LARGE, schedule)


def test_64_bit_offsets(monkeypatch):
    monkeypatch.setattr("convt_onnx.plugins.conv_transpose.launch.WIDE_FROM", 0)
    torch.manual_seed(5)
    x, w, b = operands(GROUPS, 2, (4, 6), torch.float16, last=False)
    assert_right_with_epilogue(x, w, b, GROUPS, forced(op.make_problem(x, GROUPS)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(3))
def test_drawn_geometries_and_walks(dtype, seed):
    rng = random.Random(f"words{dtype}{seed}")
    torch.manual_seed(seed)
    spec, sizes, schedule = draw_walk(rng, dtype, last=False)
    x, w, b = operands(spec, 2, sizes, dtype, last=False)
    assert_right(x, w, b, spec, schedule)


def test_the_choice_walks_where_many_rows_are_added_up_and_walks_are_long():
    small = {"kernel": (3, 3), "pads_begin": (1, 1), "pads_end": (1, 1)}
    for problem in (
        row(),
        row("bfloat16"),
        row(batch=4),
        row(**small),
        row(in_channels=32),
        row(in_channels=128, out_channels=64, group=2),
        row(kernel=(4, 4), pads_begin=(1, 1), pads_end=(1, 1), output_padding=(0, 0)),
    ):
        schedule = chosen(problem)
        assert schedule.kind == WALK
        assert takes_words(problem, schedule)
        assert axis_plans(problem, schedule)[1].count * problem.spec.in_per_group < LEAST_ROWS * 2
    for other in (
        row("float32"),
        row(sizes=(96, 160), batch=2),  # walks would be short
        row(sizes=(128, 127)),  # lines of y are no whole words
        row(in_channels=32, **small),  # the stores take the time
        row(in_channels=128),  # x does not fit in registers
        row(out_channels=48),  # no power of two
        row(kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0), output_padding=(0, 0)),
        row(strides=(2, 3)),
    ):
        assert chosen(other).kind != WALK
    assert chosen(row(), Device("older", 80)).kind != WALK
    assert chosen(row(), Device("newer", 100)).kind != WALK
    assert chosen(row(), Device("small", 90, shared_bytes=100_000)).kind != WALK


def test_two_programs_fit_a_processor_and_fill_the_device_once():
    schedule = chosen(row())
    assert 2 * resident_bytes(row(), schedule) <= Device().shared_bytes
    assert 0.75 * 264 < program_count(row(), schedule) <= 264


def test_what_such_a_walk_cannot_do_is_refused():
    base = forced(row())
    wrong = ({"interleave": True}, {"k_major": True}, {"block_n": 64}, {"block_m": 64})
    for changes in wrong:
        assert not walks(row(), replace(base, **changes)), changes
    cropped = row(kernel=(4, 4), pads_begin=(1, 1), pads_end=(1, 1), output_padding=(0, 0))
    assert not walks(cropped, replace(base, aligned=(False,) * 3))
    for problem in (row("float32"), row(sizes=(128, 127)), row(strides=(2, 1))):
        assert not walks(problem, base)
        assert walk_schedule(problem, Device(), base) is None
