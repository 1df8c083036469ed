"""Walks over NCHW lines: x in words of two positions, y in words of two or four elements."""

from dataclasses import replace
from functools import partial
from typing import Any

from convt_onnx.plugins.conv_transpose import heuristics
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    WALK,
    Schedule,
    axis_plans,
    program_count,
    resident_bytes,
    takes_words,
    walk_lines,
)
from convt_onnx.plugins.conv_transpose.walk import JOINED, JOINED_FEW, walk_schedule, walks
from convt_onnx.plugins.conv_transpose.walk_choice import LEAST_ROWS
from convt_onnx.spec import ConvTransposeSpec

from .walks import forced
from .walks import row as any_row

row = partial(any_row, last=False)


def chosen(problem: Problem, device: Device | None = None) -> Schedule:
    return heuristics.choose(problem, device or Device())


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
        row(strides=(2, 3)),  # odd lines of y
    ):
        assert chosen(other).kind != WALK
    assert chosen(row(), Device("older", 80)).kind != WALK
    assert chosen(row(), Device("newer", 100)).kind != WALK
    assert chosen(row(), Device("small", 90, shared_bytes=100_000)).kind != WALK


def thirds(**changes: Any) -> Problem:
    """k5 s3, 32 to 32 channels, lines of y of 2 * 191 elements."""
    spec = {"in_channels": 32, "strides": (3, 3), "output_padding": (0, 0)}
    return row(**{"batch": 4, **spec, **changes})


def test_three_phases_walk_wherever_most_of_the_device_has_a_program():
    gapless = {"kernel": (3, 3), "pads_begin": (0, 0), "pads_end": (0, 0)}
    for problem in (
        thirds(),
        thirds(dtype="bfloat16"),
        thirds(batch=1),
        thirds(in_channels=64, out_channels=64, **gapless),
        thirds(strides=(1, 3)),
        thirds(kernel=(7, 7), sizes=(64, 64), batch=8),
    ):
        schedule = chosen(problem)
        assert schedule.kind == WALK
        assert schedule.joined == JOINED
        assert program_count(problem, schedule) >= Device().processors
    for other in (
        thirds(dtype="float32"),
        thirds(batch=2, sizes=(32, 32)),  # 32 programs
        thirds(sizes=(128, 127)),  # rows q make no pairs
        thirds(pads_end=(2, 1)),  # odd lines
        thirds(kernel=(9, 9), out_channels=16),  # 36 products
        thirds(out_channels=48),
    ):
        assert chosen(other).kind != WALK


def line(
    in_channels: int = 64, length: int = 16_384, batch: int = 32, *, dtype: str = "float16",
    last: bool = False, **changes: Any,
) -> Problem:  # fmt: skip
    """One axis: k4 s2, to 32 channels."""
    spec = ConvTransposeSpec(in_channels, 32, 1, (4,), (2,), (1,), (1,), (1,), (0,))
    return Problem(replace(spec, **changes).canonical(), batch, (length,), dtype, last, last)


def test_one_axis_is_walked_where_a_program_has_many_lines_or_each_computes_much():
    for problem in (
        line(),
        line(dtype="bfloat16"),
        line(32, out_channels=16),
        line(kernel=(6,), strides=(3,), pads_begin=(2,), pads_end=(1,)),
        line(batch=1, out_channels=64),
        line(batch=8, length=2048, kernel=(8,), pads_begin=(3,), pads_end=(3,)),
        line(128, length=1024, batch=16, out_channels=64),
        line(72),
    ):
        schedule = chosen(problem)
        assert schedule.kind == WALK
        assert takes_words(problem, schedule)
        lines = walk_lines(problem, schedule)
        assert 64 * (lines - 1) < problem.sizes[0] <= 64 * lines
        assert program_count(problem, schedule) >= 0.75 * Device().processors
    for other in (
        line(dtype="float32"),
        line(last=True),
        line(batch=1),  # one short line a program
        line(batch=1, length=1000, out_channels=64),  # 16 programs
        line(128, length=8192, batch=1, out_channels=64),  # a program a processor
        line(out_channels=128),
        line(160),  # a line does not fit in registers
        line(kernel=(3,), output_padding=(1,)),  # two shifts
        line(length=16_383),  # rows q make no pairs
    ):
        assert chosen(other).kind != WALK


def test_registers_suffice_for_lines_of_many_channels():
    for channels, joined in ((32, JOINED_FEW), (64, 1)):
        schedule = chosen(line(128, out_channels=channels))
        assert (schedule.block_k, schedule.prefetch, schedule.joined) == (128, 1, joined)


def test_programs_along_one_axis_are_as_many_as_have_registers():
    few, many = (chosen(line(c)) for c in (64, 32))
    assert 3 * 132 * 0.9 < program_count(line(64), few) <= 3 * 132
    assert 4 * 132 * 0.9 < program_count(line(32), many) <= 4 * 132


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
