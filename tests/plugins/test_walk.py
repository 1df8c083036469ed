"""Schedules that walk down the height with lines of x in registers."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from convt_onnx.errors import UsageError
from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    WALK,
    axis_plans,
    packing_of,
    program_count,
    resident_bytes,
    resident_parts,
)
from convt_onnx.plugins.conv_transpose.walk import products, walk_schedule, walks
from convt_onnx.spec import ConvTransposeSpec

from .drawing import operands
from .walks import LARGE, forced
from .walks import row as any_row

row = partial(any_row, last=True)
GROUPS = ConvTransposeSpec(48, 32, 2, (4, 3), (2, 2), (1, 1), (1, 1), (1, 2), (0, 1))
DILATED = ConvTransposeSpec(24, 16, 1, (3, 2), (2, 2), (2, 3), (1, 0), (2, 1), (1, 0))


def test_the_choice_walks_where_arithmetic_bounds_and_walks_are_long():
    for dtype in ("float16", "bfloat16"):
        assert heuristics.choose(row(dtype), Device()).kind == WALK
    for other in (
        row("float32"),
        row(batch=1),  # walks would be short
        row(sizes=(128, 128), in_channels=128),  # x does not fit in registers
        row(kernel=(3, 3), pads_begin=(1, 1), pads_end=(1, 1)),  # memory bounds it
        row(in_channels=48),  # these spill
        row(pads_begin=(1, 1), pads_end=(1, 1), output_padding=(0, 0)),
        row(strides=(1, 1), output_padding=(0, 0), kernel=(3, 3)),
    ):
        assert heuristics.choose(other, Device()).kind != WALK
    assert heuristics.choose(row(), Device("older", 80)).kind != WALK
    assert heuristics.choose(row(), Device("small", 90, shared_bytes=100_000)).kind != WALK


def test_the_autotuner_tries_walks_where_registers_and_shared_memory_suffice():
    def kinds(problem: Problem, capability: int) -> set[str]:
        return {s.kind for s in heuristics.candidates(problem, Device(capability=capability))}

    small = row(kernel=(3, 3), pads_begin=(1, 1), pads_end=(1, 1))
    assert WALK in kinds(small, 90)
    assert WALK in kinds(row(), 100)
    assert WALK not in kinds(row(), 80)
    assert WALK not in kinds(row(in_channels=36), 90)
    assert WALK not in kinds(row(kernel=(8, 8), pads_begin=(3, 3), pads_end=(4, 4)), 90)


def test_two_programs_fit_a_processor_and_fill_the_device_once():
    schedule = heuristics.choose(row(), Device())
    assert 2 * resident_bytes(row(), schedule) <= Device().shared_bytes
    assert 0.75 * 264 < program_count(row(), schedule) <= 264


def test_what_a_walk_cannot_do_is_refused_before_the_launch():
    base = forced(row())
    steps = row(kernel=(3, 3), strides=(1, 1), dilations=(2, 1), output_padding=(0, 0))
    volume = Problem(
        ConvTransposeSpec(64, 32, 1, *((v,) * 3 for v in (2, 2, 1, 0, 0, 0))), 1, (4, 4, 4),
        "float16", True, True,
    )  # fmt: skip
    assert not walks(any_row(last=False), base)  # those of NCHW lines: test_walk_words.py
    for problem in (row("float32"), steps, volume, row(out_channels=33)):
        assert not walks(problem, base)
        assert not heuristics.fits(problem, base, Device())
        assert walk_schedule(problem, Device(), base) is None
    for wrong in ({"prefetch": 0}, {"workers": 0}, {"joined": 0}, {"joined": 3}):
        assert not walks(row(), replace(base, **wrong)), wrong
    spec = replace(LARGE, out_channels=33)
    x, w, b = operands(spec, 1, (3, 3), torch.float16, last=True)
    with pytest.raises(UsageError, match="does not fit"):
        op.conv_transpose(x, w, b, spec, schedule=forced(row()))


def test_products_hold_every_block_once_and_the_oldest_lines_first():
    for spec in (LARGE, GROUPS, DILATED):
        problem = Problem(spec.canonical(), 1, (9, 9), "float16", True, True)
        for joined in (1, 2, 4, 8):
            schedule = forced(problem, joined)
            parts = resident_parts(problem, schedule).blocks
            width = axis_plans(problem, schedule)[2].count
            for bits, part in zip(parts, products(problem, schedule), strict=True):
                blocks = [b for product in part for b in product]
                assert sorted(blocks) == [
                    b for b in range(packing_of(problem, schedule).blocks) if bits >> b & 1
                ]
                heights = [b // width for b in blocks]
                assert heights == sorted(heights, reverse=True)
                assert all(len(p) & (len(p) - 1) == 0 and len(p) <= joined for p in part)
