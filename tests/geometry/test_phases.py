from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convt_onnx.phases import plan_aligned, plan_shifts, plan_split, plan_window
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import Axis, ConvTransposeSpec

from .strategies import axes, smallest_length

PLANS = (plan_aligned, plan_window, plan_split, plan_shifts)
FUSED = (plan_aligned, plan_window)


def oracle(axis, x, w):
    spec = ConvTransposeSpec(
        in_channels=1,
        out_channels=1,
        group=1,
        kernel=(axis.kernel,),
        strides=(axis.stride,),
        dilations=(axis.dilation,),
        pads_begin=(axis.begin,),
        pads_end=(max(axis.end, 0),),
        output_padding=(max(-axis.end, 0),),
    )
    return conv_transpose(x[None, None], w[None, None], None, spec)[0, 0]


def convolve(x, row, w, conv):
    """A stride-1 convolution with a window of `row`, as every runtime has it."""
    padded = np.pad(x, (conv.low, conv.high))
    count = len(padded) - (conv.taps - 1) * conv.dilation
    assert count >= 1
    return sum(
        padded[t * conv.dilation :][:count] * (w[k] if k >= 0 else 0) for t, k in enumerate(row)
    )


def by_one_convolution(plan, x, w):
    conv = plan.fused()
    return [convolve(x, row, w, conv) for row in conv.table]


def by_a_convolution_each(plan, x, w):
    convs = [plan.phase(r) for r in range(plan.stride)]
    return [convolve(x, conv.table[0], w, conv) for conv in convs]


def by_shifts(plan, x, w):
    """Each distinct e once: x moved by -e rows into L + rows rows, times one tap a phase."""
    phases = [np.zeros(len(x) + plan.rows) for _ in range(plan.stride)]
    for e in plan.shifts():
        assert 0 <= -e <= plan.rows
        moved = np.zeros(len(x) + plan.rows)
        moved[-e : len(x) - e] = x
        for phase, taps in zip(phases, plan.taps, strict=True):
            phase += moved * sum(w[k] for k, tap_e in taps if tap_e == e)
    return phases


FORMS = {
    plan_aligned: by_one_convolution,
    plan_window: by_one_convolution,
    plan_split: by_a_convolution_each,
    plan_shifts: by_shifts,
}


def check(maker, axis, lengths):
    plan = maker(axis)
    assert plan.stride == axis.stride
    assert plan.crop_begin >= 0
    assert plan.crop_end >= 0
    rng = np.random.default_rng(axis.kernel)
    w = rng.standard_normal(axis.kernel)
    for length in lengths:
        x = rng.standard_normal(length)
        phases = FORMS[maker](plan, x, w)
        assert {len(phase) for phase in phases} == {length + plan.rows}
        rows = np.stack(phases, axis=1).ravel()
        kept = rows[plan.crop_begin : len(rows) - plan.crop_end]
        assert len(kept) == axis.output_length(length)
        np.testing.assert_allclose(kept, oracle(axis, x, w), rtol=0, atol=1e-12)


@pytest.mark.parametrize("maker", PLANS)
@settings(max_examples=200, deadline=None)
@given(axis=axes(), longer=st.integers(3, 20))
def test_every_length_with_an_output(maker, axis, longer):
    shortest = smallest_length(axis)
    check(maker, axis, (shortest, shortest + 1, shortest + 2, shortest + longer))


@pytest.mark.parametrize("maker", PLANS)
@pytest.mark.parametrize(
    "axis",
    [
        Axis(1, 1, 1, 0, 0),
        Axis(4, 2, 1, 1, 1),
        Axis(3, 2, 1, 1, 0),  # output_padding 1
        Axis(2, 5, 1, 0, 0),  # kernel < stride
        Axis(1, 4, 1, 3, -3),  # a bias-only phase at the front
        Axis(3, 4, 2, 1, 0),  # gcd 2
        Axis(3, 2, 6, 1, 1),  # gcd = stride, reads 3 apart
        Axis(4, 6, 4, -5, 2),
        Axis(3, 2, 1, 40, 0),  # crop far beyond the kernel
        Axis(3, 2, 1, -40, 0),
        Axis(3, 2, 1, 0, 40),
        Axis(3, 2, 1, 0, -40),
        Axis(3, 2, 1, -40, -40),
        Axis(3, 2, 1, 40, -80),
    ],
)
def test_named_axes(maker, axis):
    shortest = smallest_length(axis)
    check(maker, axis, range(shortest, shortest + 5))


@settings(deadline=None)
@given(axis=axes())
def test_window_is_non_negative_and_holds_each_tap_once(axis):
    for maker in FUSED:
        conv = maker(axis).fused()
        assert conv.low >= 0
        assert conv.high >= 0
        assert sorted(k for row in conv.table for k in row if k >= 0) == list(range(axis.kernel))
    plan = plan_split(axis)
    rows = [plan.phase(r) for r in range(axis.stride)]
    assert all(c.low >= 0 and c.high >= 0 and len(c.table) == 1 for c in rows)
    assert sorted(k for c in rows for k in c.table[0] if k >= 0) == list(range(axis.kernel))


@settings(deadline=None)
@given(axis=axes())
def test_no_zero_tap_where_none_is_needed(axis):
    for row in (plan_split(axis).phase(r).table[0] for r in range(axis.stride)):
        assert row == (-1,) or -1 not in row
    for conv in (plan_aligned(axis).fused(), plan_window(axis).fused()):
        columns = list(zip(*conv.table, strict=True))
        assert any(k >= 0 for k in columns[0])
        assert any(k >= 0 for k in columns[-1])


@settings(deadline=None)
@given(axis=axes())
def test_aligned_has_the_narrowest_window(axis):
    narrowest = plan_aligned(axis).fused().taps
    assert narrowest <= plan_window(axis).fused().taps
    for begin in range(axis.begin, axis.begin + axis.stride):
        other = Axis(axis.kernel, axis.stride, axis.dilation, begin, axis.end)
        assert narrowest <= plan_window(other).fused().taps


@settings(deadline=None)
@given(axis=axes())
def test_no_row_is_computed_without_need(axis):
    """Whole strides are cropped only where pads would be negative without them."""
    s = axis.stride
    for maker, free in ((plan_aligned, s - 1), (plan_window, 0)):
        plan = maker(axis)
        conv = plan.fused()
        assert plan.crop_begin <= free or conv.low == 0
        assert plan.crop_end < s or conv.high == 0
    plan = plan_split(axis)
    convs = [plan.phase(r) for r in range(s)]
    assert plan.crop_begin == 0 or min(c.low for c in convs) == 0
    assert plan.crop_end < s or min(c.high for c in convs) == 0


def test_the_decoder_layer():
    """k4 s2 p1: aligned has 2 taps and crops a row, window has 3 and crops nothing."""
    axis = Axis(4, 2, 1, 1, 1)
    aligned, window = plan_aligned(axis), plan_window(axis)
    assert aligned.fused().table == ((2, 0), (3, 1))
    assert (aligned.fused().low, aligned.fused().high) == (1, 1)
    assert (aligned.crop_begin, aligned.crop_end) == (1, 1)
    assert window.fused().table == ((3, 1, -1), (-1, 2, 0))
    assert (window.fused().low, window.fused().high) == (1, 1)
    assert (window.crop_begin, window.crop_end) == (0, 0)
    split = plan_split(axis)
    assert [split.phase(r).table for r in (0, 1)] == [((3, 1),), ((2, 0),)]
    assert [(split.phase(r).low, split.phase(r).high) for r in (0, 1)] == [(1, 0), (0, 1)]
    assert (split.crop_begin, split.crop_end) == (0, 0)
    assert plan_shifts(axis).shifts() == (-1, 0)


def test_gcd_leaves_bias_only_phases():
    """s = 4, d = 2: odd phases have no tap, even ones dilate by d/g = 1."""
    plan = plan_aligned(Axis(3, 4, 2, 0, 0))
    assert plan.taps == (((0, 0), (2, -1)), (), ((1, 0),), ())
    assert plan.fused().table == ((2, 0), (-1, -1), (-1, 1), (-1, -1))
    assert plan.phase(1).table == ((-1,),)
    dilated = plan_aligned(Axis(3, 2, 6, 0, 0)).fused()
    assert dilated.dilation == 3
    assert dilated.table == ((2, 1, 0), (-1, -1, -1))
