"""Sizes as arguments: formulas, the one packing for every layout, the text of a schedule."""

import random
from dataclasses import replace
from operator import add, floordiv, mul, sub

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from convt_onnx.errors import UsageError
from convt_onnx.plugins.conv_transpose import ahead, heuristics, launch
from convt_onnx.plugins.conv_transpose.compile import OPERANDS, sizes_of
from convt_onnx.plugins.conv_transpose.formula import SIZES, Formula
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.quantities import grid, output_sizes, quantities
from convt_onnx.plugins.conv_transpose.schedule import (
    GEMM,
    Schedule,
    packing_of,
    program_count,
)
from convt_onnx.plugins.conv_transpose.schedule_text import format_schedule, parse_schedule
from convt_onnx.plugins.conv_transpose.weights import pack

from .drawing import check, contiguous, draw_sizes, draw_spec, operands, wanted

OPERATORS = {"+": add, "-": sub, "*": mul, "/": floordiv}
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


# Those that take the interpreter about a second.
QUICK = (1, 2, 3, 5)


def drawn_kernel(seed: int) -> tuple[KernelSpec, tuple[int, ...]]:
    """A kernel with some sizes open, and [N, *sizes] to call it with."""
    rng = random.Random(seed)
    spec = draw_spec(rng).canonical()
    sizes = (rng.randint(1, 3), *draw_sizes(rng, spec))
    fixed = tuple(None if rng.random() < 0.7 else n for n in sizes)
    last = rng.random() < 0.5, rng.random() < 0.5
    return KernelSpec(spec, rng.choice(list(TYPES)), fixed, *last, bias=True), sizes


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 1 << 30))
def test_formulas_give_what_a_launch_passes(seed):
    kernel, (batch, *sizes) = drawn_kernel(seed)
    schedule = ahead.schedules(kernel, ahead.base_schedule(kernel), 80)[0]
    problem = replace(kernel.problem, batch=batch, sizes=tuple(sizes))
    call = launch.Call(problem, schedule, kernel.activation)
    spec = kernel.spec
    x_shape = (batch, spec.in_channels, *problem.in_sizes)
    x_strides = contiguous(x_shape, kernel.channels_last_in)
    y_shape = (batch, spec.out_channels, *problem.out_sizes)
    y_strides = contiguous(y_shape, kernel.channels_last_out)
    names = [n for n in launch.kernel(schedule).arg_names if n not in OPERANDS]
    passed = dict(zip(names, launch.launch_sizes(call, x_strides, y_strides), strict=False))
    at = sizes_of((batch, spec.in_channels, *sizes))
    values = {n: f.evaluate(at) for n, f in quantities(kernel, schedule).items()}
    assert {n: passed[n] for n in values} == values
    assert grid(kernel, schedule).evaluate(at) == program_count(problem, schedule)
    assert tuple(f.evaluate(at) for f in output_sizes(kernel)) == problem.out_sizes
    for formula in quantities(kernel, schedule).values():
        assert formula.evaluate(at) % formula.factor == 0


def assert_right(kernel: KernelSpec, schedule: Schedule, sizes: tuple[int, ...]) -> None:
    """One launch in the interpreter with the numbers of the formulas, against the oracle."""
    spec, dtype = kernel.spec, TYPES[kernel.dtype]
    x, w, b = operands(spec, sizes[0], sizes[1:], dtype, kernel.channels_last_in)
    at = sizes_of(tuple(x.shape))
    shape = (sizes[0], spec.out_channels, *spec.output_sizes(sizes[1:]))
    y = torch.empty_strided(shape, contiguous(shape, kernel.channels_last_out), dtype=dtype)
    y.fill_(float("nan"))
    given = {n: f.evaluate(at) for n, f in quantities(kernel, schedule).items()}
    packed = pack(w, packing_of(kernel.problem, schedule)) if schedule.kind == GEMM else w
    given |= {"x": x, "w": packed, "bias": b, "y": y}
    call = launch.Call(kernel.problem, schedule, kernel.activation)
    _, constants = launch.launch_constants(call, kernel.wide, 1)
    names = launch.kernel(schedule).arg_names
    arguments = {n: constants.get(n, given.get(n)) for n in names}
    launch.kernel(schedule)[(grid(kernel, schedule).evaluate(at),)](**arguments)
    check(y, wanted(x, w, b, spec), (kernel, schedule, sizes))


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n in QUICK else pytest.mark.long) for n in range(40)]
)
def test_one_packing_serves_every_layout(seed):
    kernel, sizes = drawn_kernel(seed)
    base = ahead.base_schedule(kernel)
    for last in ((False, True), (True, False), (True, True)):
        laid = replace(kernel, channels_last_in=last[0], channels_last_out=last[1])
        assert ahead.base_schedule(laid) == base
        for schedule in ahead.schedules(laid, base, 80)[:2]:
            if base.kind == GEMM:
                assert packing_of(laid.problem, schedule) == packing_of(kernel.problem, base)
            assert_right(laid, schedule, sizes)


def test_channels_last_is_written_whole_from_an_interleaved_packing():
    spec = draw_spec(random.Random(0))
    spec = replace(
        spec, in_channels=32, out_channels=16, group=1, kernel=(4,), strides=(2,), dilations=(1,),
        pads_begin=(1,), pads_end=(1,), output_padding=(0,),
    )  # fmt: skip
    kernel = KernelSpec(spec, "float32", (None, None), True, True, bias=True)
    base = ahead.base_schedule(kernel)
    assert base.interleave
    call = launch.Call(kernel.problem, base, kernel.activation)
    _, constants = launch.launch_constants(call, False, 1)
    assert constants["CHANNEL_LAST"] and constants["VECTOR"] == 4
    assert_right(kernel, base, (2, 37))


@pytest.mark.parametrize("last", [False, True])
def test_a_weight_that_is_not_packed_may_have_many_channels(last):
    spec = replace(
        draw_spec(random.Random(0)), in_channels=70, out_channels=6, group=2, kernel=(3,),
        strides=(2,), dilations=(1,), pads_begin=(1,), pads_end=(0,), output_padding=(0,),
    )  # fmt: skip
    kernel = KernelSpec(spec, "float32", (None, None), last, last, bias=True)
    assert_right(kernel, heuristics.direct_schedule(kernel.problem), (2, 9))


def test_an_open_width_is_aligned_as_its_worst_case():
    spec = replace(draw_spec(random.Random(0)), in_channels=16, out_channels=16, group=1,
                   kernel=(3,), strides=(2,), dilations=(1,), pads_begin=(0,), pads_end=(1,),
                   output_padding=(0,))  # fmt: skip
    fixed = KernelSpec(spec, "float16", (1, 8))
    assert fixed.problem.out_sizes[2] == 16
    assert KernelSpec(spec, "float16", (1, None)).problem.out_sizes[2] % 4 == 2


@given(st.integers(-9, 9), st.integers(1, 9), st.integers(1, 5), st.integers(0, 9))
def test_a_formula_is_the_arithmetic_it_was_made_from(a, b, c, n):
    size = Formula.size("n")
    for formula, value in (
        (size * a + b, n * a + b),
        ((size + b) // c * b, (n + b) // c * b),
        (size * size - a, n * n - a),
        (Formula.number(a) // c + 1, a // c + 1),
    ):
        assert formula.evaluate({"n": n}) == value
        assert postfix(formula.text, {"n": n}) == value


def postfix(text: str, sizes: dict[str, int]) -> int:
    """The text as another language would read it."""
    stack: list[int] = []
    for token in text.split():
        if token in "+-*/":
            right, left = stack.pop(), stack.pop()
            stack.append(OPERATORS[token](left, right))
        else:
            stack.append(sizes[token] if token in SIZES else int(token))
    (value,) = stack
    return value


@given(st.integers(0, 1 << 30))
def test_the_text_of_a_schedule_says_all_of_it(seed):
    kernel, _ = drawn_kernel(seed)
    base = ahead.base_schedule(kernel)
    for schedule in (base, *ahead.schedules(kernel, base, 75), *ahead.schedules(kernel, base, 80)):
        assert parse_schedule(format_schedule(schedule)) == schedule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gemm",
        "matmul fused=000",
        "gemm fused=01 aligned=000 block_m=64 block_n=64 block_k=16",
        "gemm fused=010 aligned=000 block_m=63 block_n=64 block_k=16",
        "gemm fused=010 aligned=000 block_m=64 block_n=64 block_k=16 speed=9",
        "gemm fused=010 aligned=000 block_m=99999999 block_n=64 block_k=16",
        "gemm fused=010 aligned=000 block_m=64 block_n=64 block_k=16 flat=2",
    ],
)  # fmt: skip
def test_a_text_that_is_no_schedule_is_refused(text):
    with pytest.raises(UsageError, match="no schedule"):
        parse_schedule(text)
