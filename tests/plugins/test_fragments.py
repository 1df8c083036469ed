"""Schedules that read x as fragments of a matrix instruction's operand, and store its sums."""

import random
from dataclasses import replace

import pytest
import torch

from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.resident import Parts
from convt_onnx.plugins.conv_transpose.schedule import (
    RESIDENT,
    Schedule,
    fragment_sums,
    joinable,
    packing_of,
    resident_bytes,
    resident_parts,
    takes_fragments,
)
from convt_onnx.spec import ConvTransposeSpec

from .drawing import assert_right_with_epilogue, check, operands, poisoned, wanted

# Geometry, shifts joined, and whether the sums are stored from registers too.
LINE = ConvTransposeSpec(24, 32, 1, (4,), (2,), (1,), (1,), (0,), (0,))
GROUPS = ConvTransposeSpec(80, 32, 2, (3, 2), (2, 1), (1, 2), (1, 0), (0, 1), (1, 0))
VOLUME = ConvTransposeSpec(
    9, 5, 1, (2, 1, 3), (1, 2, 2), (1, 1, 1), (0, 0, 1), (1, 0, 0), (0, 1, 0)
)
FOUR = ConvTransposeSpec(32, 64, 1, (4,), (1,), (1,), (2,), (1,), (0,))
WIDE = ConvTransposeSpec(72, 128, 1, (1, 3), (1, 3), (1, 1), (0, 0), (0, 0), (0, 0))
CASES = [
    (LINE, 2, True),
    (GROUPS, 1, True),
    (GROUPS, 2, True),
    (VOLUME, 2, False),
    (FOUR, 4, True),
    (WIDE, 1, True),
]


def dense(dtype="float16", channels=64, last=True) -> Problem:
    spec = ConvTransposeSpec(channels, 32, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1))
    return Problem(spec.canonical(), 32, (64, 64), dtype, last, last)


def forced(problem: Problem, joined: int) -> Schedule:
    """A schedule of small tiles with fragments."""
    base = heuristics.gemm_schedule(problem, Device(), (True, True, True))
    channels = 32 if problem.spec.in_per_group <= 32 else 64
    schedule = replace(
        base, kind=RESIDENT, block_m=32, block_n=128, block_k=channels, stages=1, flat=False,
        workers=2, prefetch=1, fragments=True,
    )  # fmt: skip
    assert takes_fragments(problem, schedule)
    assert joined in joinable(problem, schedule)
    return replace(schedule, joined=joined)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("spec", "joined", "sums"), CASES)
def test_fragments_with_every_part_of_the_epilogue(spec, joined, sums, dtype):
    torch.manual_seed(joined)
    x, w, b = operands(spec, 2, (2, 3, 5)[-spec.ndim :], dtype, last=True)
    problem = op.make_problem(x, spec)
    schedule = forced(problem, joined)
    assert fragment_sums(problem, schedule) == sums
    assert_right_with_epilogue(x, w, b, spec, schedule)


def test_x_of_odd_strides_is_read_as_fragments_too():
    torch.manual_seed(5)
    x, w, b = operands(LINE, 2, (10,), torch.float16, last=True)
    x = x[:, :, ::2]
    y = poisoned(x, LINE, tf32=False)
    op.conv_transpose(x, w, b, LINE, schedule=forced(op.make_problem(x, LINE), 2), out=y)
    check(y, wanted(x, w, b, LINE), LINE)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_choice_takes_fragments_where_16_bytes_of_channels_lie_together(dtype):
    chosen = heuristics.choose(dense(dtype), Device())
    assert chosen.fragments
    assert chosen.joined == 1  # two programs of 8 warps leave a thread 128 registers
    assert fragment_sums(dense(dtype), chosen)
    assert not heuristics.choose(dense(dtype, channels=36), Device()).fragments
    assert not heuristics.choose(dense(dtype, channels=32, last=False), Device()).fragments
    assert not heuristics.choose(dense("float32"), Device()).fragments


def test_three_shifts_are_not_joined_and_wide_channels_are_not():
    assert joinable(dense(), forced(dense(), 1)) == [1, 2]
    three = replace(dense(), spec=replace(dense().spec, kernel=(5, 5), pads_begin=(2, 2)))
    assert joinable(three, replace(forced(dense(), 1), aligned=(False,) * 3)) == [1]
    wide = dense(channels=128)
    assert joinable(wide, forced(wide, 1)) == [1]


def test_narrow_parts_and_odd_channels_leave_sums_to_shared_memory():
    problem = dense()
    schedule = forced(problem, 2)
    assert fragment_sums(problem, schedule)
    assert not fragment_sums(problem, replace(schedule, block_n=16))
    assert not fragment_sums(problem, replace(schedule, fragments=False))
    odd = replace(problem, spec=replace(problem.spec, out_channels=33))
    assert not fragment_sums(odd, schedule)


def test_joined_blocks_are_those_of_their_shifts():
    rng = random.Random(4)
    for _ in range(200):
        count = rng.choice((1, 2, 4))
        total = count * rng.randint(1, 9)
        blocks = tuple(rng.randrange(1, 1 << total) for _ in range(3))
        joined = Parts((32, 32, 32), (0, 32, 64), blocks).join(count)
        for before, after in zip(blocks, joined.blocks, strict=True):
            for i in range(total // count):
                some = any(before >> (i * count + j) & 1 for j in range(count))
                assert after >> i & 1 == some
            assert after < 1 << (total // count)


def test_shared_memory_holds_the_weight_alone_where_registers_hold_x_and_y():
    problem = dense()
    schedule = replace(forced(problem, 1), block_n=64)
    through = replace(schedule, fragments=False)
    parts = resident_parts(problem, schedule)
    weights = sum(w * b.bit_count() for w, b in zip(parts.widths, parts.blocks, strict=True))
    assert resident_bytes(problem, schedule) == 2 * 64 * weights + 1024
    assert resident_bytes(problem, through) > resident_bytes(problem, schedule)
    # A joined block has the zeros of both shifts.
    assert resident_bytes(problem, replace(schedule, joined=2)) >= resident_bytes(problem, schedule)
    assert packing_of(problem, schedule).blocks == 4
