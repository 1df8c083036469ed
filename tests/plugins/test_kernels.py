"""Both kernels in Triton's interpreter against the float64 oracle, outputs poisoned first."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from convt_onnx.errors import UsageError
from convt_onnx.plugins.conv_transpose import groups, heuristics, lines, op
from convt_onnx.plugins.conv_transpose.activations import (
    ACTIVATIONS,
    apply_reference,
    make_activation,
)
from convt_onnx.plugins.conv_transpose.problem import Device
from convt_onnx.plugins.conv_transpose.schedule import DIRECT, GEMM, LINES, RESIDENT, pair_width
from convt_onnx.spec import ConvTransposeSpec

from .drawing import (
    NARROW_GROUPS,
    THREE_PHASES,
    WHOLE_LINES,
    check,
    draw_resident,
    draw_schedule,
    draw_sizes,
    draw_spec,
    operands,
    poisoned,
    wanted,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SPEC = ConvTransposeSpec(16, 12, 2, (3, 4), (2, 3), (1, 1), (1, 0), (0, 2), (1, 0))


def assert_right(spec, batch, sizes, dtype, last, schedule_of, tf32=False):
    x, w, b = operands(spec, batch, sizes, dtype, last)
    schedule = schedule_of(op.make_problem(x, spec, tf32=tf32))
    y = poisoned(x, spec, tf32)
    op.conv_transpose(x, w, b, spec, schedule=schedule, tf32=tf32, out=y)
    check(y, wanted(x, w, b, spec), (spec, sizes, schedule))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", DTYPES)
def test_drawn_geometries_and_gemm_schedules(dtype, seed):
    rng = random.Random(f"{dtype}{seed}")
    torch.manual_seed(seed)
    spec = draw_spec(rng)
    sizes = draw_sizes(rng, spec, 4)
    assert_right(
        spec,
        rng.choice((1, 2)),
        sizes,
        dtype,
        rng.random() < 0.5,
        lambda problem: draw_schedule(rng, problem),
        tf32=rng.random() < 0.3,
    )


@pytest.mark.parametrize(("channels", "taps"), [(64, 9), (16, 17), (32, 31)])
def test_direct_sums_of_many_terms_keep_the_digits_of_float32(channels, taps):
    torch.manual_seed(0)
    pads = (taps // 2,)
    spec = ConvTransposeSpec(channels, 2, 1, (taps,), (1,), (1,), pads, pads, (0,))
    x, w, _ = operands(spec, 1, (48,), torch.float32, last=False)
    schedule = heuristics.direct_schedule(op.make_problem(x, spec))
    y = op.conv_transpose(x, w, None, spec, schedule=schedule)
    want = torch.from_numpy(wanted(x, w, None, spec))
    # One sum of all terms loses 2.5e-7 to 5e-7.
    assert float((y.double() - want).norm() / want.norm()) < 2**-22


@pytest.mark.parametrize("width", [5, 6, 8])  # read in words of 1, 2 and, in half precision, 4
@pytest.mark.parametrize("dtype", DTYPES)
def test_drawn_geometries_and_schedules_with_resident_weights(dtype, width):
    rng = random.Random(f"resident {dtype}{width}")
    torch.manual_seed(width)
    schedule, tf32 = None, dtype == torch.float32
    while schedule is None:
        spec = draw_spec(rng)
        inner, outer = min(5, spec.in_per_group), min(4, spec.out_per_group)
        spec = replace(spec, in_channels=inner * spec.group, out_channels=outer * spec.group)
        x, *_ = operands(spec, 1, (4,) * spec.ndim, dtype, last=False)
        schedule = draw_resident(rng, op.make_problem(x, spec, tf32=tf32))
    sizes = (*draw_sizes(rng, spec, 3)[:-1], width)
    assert_right(spec, 2, sizes, dtype, rng.random() < 0.3, lambda _: schedule, tf32)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", DTYPES)
def test_drawn_geometries_and_the_direct_schedule(dtype, seed):
    rng = random.Random(f"direct {dtype}{seed}")
    torch.manual_seed(seed)
    spec = draw_spec(rng)
    # The interpreter takes its time for each program and channel.
    spec = replace(
        spec, in_channels=2 * spec.group, out_channels=min(2, spec.out_per_group) * spec.group
    )
    sizes = draw_sizes(rng, spec, 3)
    assert_right(spec, 1, sizes, dtype, rng.random() < 0.5, heuristics.direct_schedule)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", WHOLE_LINES)
def test_lines_of_whole_words_with_a_residual(spec, dtype):
    torch.manual_seed(1)
    x, w, b = operands(spec, 2 if spec.ndim == 1 else 1, (3, 2, 8)[-spec.ndim :], dtype, last=False)
    if spec.ndim == 1:  # gaps between the elements of a line
        x = x.repeat_interleave(2, -1)[..., ::2]
    problem = op.make_problem(x, spec, tf32=False)
    schedule = lines.lines_schedule(problem)
    assert heuristics.choose(problem, Device()).kind in (LINES, DIRECT)
    y = poisoned(x, spec, tf32=False)
    residual = torch.randn_like(y)
    relu = make_activation("relu")
    schedule = replace(schedule, block_m=32)
    op.conv_transpose(
        x, w, b, spec, activation=relu, residual=residual, tf32=False, schedule=schedule, out=y
    )  # fmt: skip
    check(y, np.maximum(wanted(x, w, b, spec) + residual.double().numpy(), 0), (spec, dtype))


def test_lines_are_refused_at_a_size_that_they_do_not_fit():
    spec = WHOLE_LINES[0]
    x, w, _ = operands(spec, 1, (8,), torch.float16, last=False)
    schedule = lines.lines_schedule(op.make_problem(x, spec))
    assert schedule is not None
    with pytest.raises(UsageError, match="does not fit"):
        op.conv_transpose(x[..., :5], w, None, spec, schedule=schedule)


@pytest.mark.parametrize(
    ("dtype", "kind", "aligned"),  # two elements, or none, are cropped
    [
        (torch.float16, GEMM, False),
        (torch.float16, RESIDENT, True),
        (torch.bfloat16, GEMM, True),
        (torch.bfloat16, RESIDENT, False),
    ],
)
def test_pairs_of_three_phases_with_a_residual(dtype, kind, aligned):
    torch.manual_seed(3)
    x, w, b = operands(THREE_PHASES, 2, (2, 8), dtype, last=False)
    problem = op.make_problem(x, THREE_PHASES)
    base = draw_resident(random.Random(2), problem)
    schedule = replace(base, kind=kind, aligned=(aligned,) * 3, column_tiles=1)
    assert pair_width(problem, schedule) == 2
    y = poisoned(x, THREE_PHASES, tf32=False)
    residual = torch.randn_like(y)
    op.conv_transpose(x, w, b, THREE_PHASES, residual=residual, schedule=schedule, out=y)
    check(y, wanted(x, w, b, THREE_PHASES) + residual.double().numpy(), schedule)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("spec", NARROW_GROUPS)
def test_groups_computed_as_one(spec, dtype, monkeypatch):
    monkeypatch.setattr(groups, "MERGED_FROM", 0)
    torch.manual_seed(2)
    x, w, b = operands(spec, 2, (2, 3), dtype, last=True)
    problem = op.make_problem(x, spec, tf32=True)
    assert heuristics.choose(problem, Device()).merge == spec.group
    for schedule in heuristics.candidates(problem, Device(), 30)[::20]:
        y = poisoned(x, spec, tf32=True)
        op.conv_transpose(x, w, b, spec, schedule=schedule, tf32=True, out=y)
        check(y, wanted(x, w, b, spec), schedule)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [(3, 2, 1), (2, 2, 1), (4, 3, 1), (3, 1, 2), (3, 4, 1), (3, 2, 2), (3, 2, 3), (3, 6, 4)],
)
def test_what_the_heuristics_choose(kernel, stride, dilation, last):
    two = (1, 1)
    spec = ConvTransposeSpec(
        16,
        8,
        1,
        (kernel,) * 2,
        (stride,) * 2,
        (dilation,) * 2,
        two,
        (0, 1),
        (0, 1),
    )
    assert_right(spec, 1, (3, 4), torch.float16, last, lambda p: heuristics.choose(p, Device()))


@pytest.mark.parametrize("kind", sorted(ACTIVATIONS))
@pytest.mark.parametrize("schedule", ["chosen", "direct", "resident"])
def test_epilogues(kind, schedule):
    if schedule == "resident" and kind not in ("prelu", "clip"):
        pytest.skip("shares its epilogue with the GEMM")
    torch.manual_seed(0)
    x, w, b = operands(SPEC, 2, (3, 4), torch.float32, last=schedule == "direct")
    activation = make_activation(kind, *((-0.5, 0.7) if kind == "clip" else ()))
    slope = torch.rand(SPEC.out_channels) if kind == "prelu" else None
    tf32 = schedule == "resident"
    y = poisoned(x, SPEC, tf32)
    residual = torch.randn(y.shape)
    problem = op.make_problem(x, SPEC, tf32=tf32)
    chosen = {
        "chosen": lambda: heuristics.choose(problem, Device()),
        "direct": lambda: heuristics.direct_schedule(problem),
        "resident": lambda: replace(draw_resident(random.Random(1), problem), round_x=False),
    }[schedule]()
    op.conv_transpose(
        x,
        w,
        b,
        SPEC,
        activation=activation,
        slope=slope,
        residual=residual,
        tf32=tf32,
        schedule=chosen,
        out=y,
    )
    want = torch.from_numpy(wanted(x, w, b, SPEC)) + residual.double()
    want = apply_reference(want, activation, None if slope is None else slope.double())
    most = 2e-3 if tf32 else 2e-5
    torch.testing.assert_close(y.double(), want, rtol=most, atol=most)


def test_an_empty_batch_launches_nothing():
    x, w, b = operands(SPEC, 0, (3, 4), torch.float16, last=False)
    assert op.conv_transpose(x, w, b, SPEC).shape == (0, 12, *SPEC.output_sizes((3, 4)))


@pytest.mark.parametrize("schedule", ["gemm", "direct"])
def test_64_bit_offsets_and_odd_strides(schedule, monkeypatch):
    monkeypatch.setattr("convt_onnx.plugins.conv_transpose.launch.WIDE_FROM", 0)
    x, w, b = operands(SPEC, 2, (4, 4), torch.float32, last=False)
    x = x[:, :, ::2]
    problem = op.make_problem(x, SPEC, tf32=False)
    chosen = heuristics.choose(problem, Device())
    chosen = heuristics.direct_schedule(problem) if schedule == "direct" else chosen
    y = poisoned(x, SPEC, tf32=False)
    op.conv_transpose(x, w, b, SPEC, schedule=chosen, tf32=False, out=y)
    check(y, wanted(x, w, b, SPEC), chosen)


def test_a_layout_for_the_result_alone():
    x, w, b = operands(SPEC, 2, (3, 4), torch.float32, last=False)
    y = op.conv_transpose(x, w, b, SPEC, channels_last=True, tf32=False)
    assert y.stride(1) == 1
    check(y, wanted(x, w, b, SPEC), "NCHW in, channels last out")


def test_a_weight_changed_in_place_is_packed_again():
    x, w, b = operands(SPEC, 1, (3, 4), torch.float32, last=False)
    op.conv_transpose(x, w, b, SPEC, tf32=False)
    w.mul_(-2)
    check(op.conv_transpose(x, w, b, SPEC, tf32=False), wanted(x, w, b, SPEC), "after mul_")


def test_the_torch_reference_equals_the_oracle_beyond_what_aten_takes():
    for seed in range(40):
        rng = random.Random(seed)
        spec = draw_spec(rng)
        x, w, b = operands(spec, 2, draw_sizes(rng, spec), torch.float32, last=False)
        y = op.reference(x.double(), w.double(), b.double(), spec)
        assert abs(y.numpy() - wanted(x, w, b, spec)).max() < 1e-10


def test_wrong_operands_are_named():
    x, w, b = operands(SPEC, 1, (3, 4), torch.float32, last=False)
    with pytest.raises(UsageError, match="bias has the wrong shape"):
        op.conv_transpose(x, w, b[1:], SPEC)
    with pytest.raises(UsageError, match="weight must have the type of x"):
        op.conv_transpose(x, w.half(), b, SPEC)
    with pytest.raises(UsageError, match="do not compute in this type"):
        op.conv_transpose(x.double(), w.double(), b, SPEC)
    with pytest.raises(UsageError, match="go together"):
        op.conv_transpose(x, w, b, SPEC, activation=make_activation("prelu"))
    with pytest.raises(UsageError, match="cannot be fused"):
        make_activation("rleu")


def test_exact_float32_is_refused_with_weights_in_shared_memory():
    x, w, b = operands(SPEC, 1, (3, 4), torch.float32, last=False)
    schedule = draw_resident(random.Random(1), op.make_problem(x, SPEC, tf32=True))
    with pytest.raises(UsageError, match="exact float32"):
        op.conv_transpose(x, w, b, SPEC, tf32=False, schedule=schedule)
    exact = op.make_problem(x, SPEC, tf32=False)
    assert not heuristics.fits(exact, schedule, Device())
    assert RESIDENT not in {s.kind for s in heuristics.candidates(exact, Device())}
