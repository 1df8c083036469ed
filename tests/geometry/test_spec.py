from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx_ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convt_onnx.errors import ConvtError, ExitCode, GeometryError
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import Axis, ConvTransposeSpec

from .strategies import axes, cases, smallest_length

SPEC = ConvTransposeSpec(
    in_channels=4,
    out_channels=6,
    group=2,
    kernel=(3, 4),
    strides=(2, 3),
    dilations=(1, 2),
    pads_begin=(1, 0),
    pads_end=(0, 2),
    output_padding=(1, 0),
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict.fromkeys(("kernel", "strides", "dilations", "pads_begin"), ()), "one spatial axis"),
        ({"strides": (2,)}, "strides must have one value for each of the 2"),
        ({"dilations": (1, 1, 1)}, "dilations must have one value for each of the 2"),
        ({"pads_begin": (0,)}, "pads_begin must have one value"),
        ({"pads_end": ()}, "pads_end must have one value"),
        ({"output_padding": (0,)}, "output_padding must have one value"),
        ({"kernel": (3, 0)}, "kernel must be positive"),
        ({"strides": (0, 1)}, "strides must be positive"),
        ({"strides": (-1, 1)}, "strides must be positive"),
        ({"dilations": (1, 0)}, "dilations must be positive"),
        ({"output_padding": (0, -1)}, "output_padding must not be negative"),
        ({"group": 0}, "group must be at least 1"),
        ({"group": -2}, "group must be at least 1"),
        ({"in_channels": 0}, "channel counts must be positive"),
        ({"out_channels": 0}, "channel counts must be positive"),
        ({"in_channels": 5}, "the input channels must be divisible by group"),
        ({"out_channels": 7}, "the output channels must be divisible by group"),
    ],
)
def test_constructor_refuses(change, message):
    with pytest.raises(GeometryError, match=message):
        replace(SPEC, **change)


def test_refusal_says_where_and_is_a_value_error():
    with pytest.raises(
        ValueError, match=r"strides must be positive\n  at: strides = \[0, 1\]"
    ) as e:
        replace(SPEC, strides=(0, 1))
    assert isinstance(e.value, ConvtError)
    assert e.value.exit_code == ExitCode.USAGE


def test_help_follows_where():
    with pytest.raises(GeometryError) as e:
        replace(SPEC, output_padding=(0, -1))
    assert str(e.value).splitlines()[1:] == [
        "  at: output_padding = [0, -1]",
        "help: crop with pads instead",
    ]


@pytest.mark.parametrize("sizes", [(), (3,), (3, 3, 3)])
def test_output_sizes_refuses_wrong_rank(sizes):
    with pytest.raises(GeometryError, match="expected 2 spatial sizes"):
        SPEC.output_sizes(sizes)


def test_one_number_is_no_sequence():
    with pytest.raises(GeometryError, match=r"sizes must be a sequence[^\0]*pass \(5,\)"):
        SPEC.output_sizes(5)
    for name in ("kernel", "strides", "output_padding"):
        with pytest.raises(GeometryError, match=f"{name} must be a sequence"):
            replace(SPEC, **{name: 1})


@pytest.mark.parametrize(("end", "empty"), [(4, False), (5, True), (9, True)])
def test_output_sizes_refuses_an_empty_output(end, empty):
    spec = replace(SPEC, pads_end=(end, 2), output_padding=(0, 0))
    if empty:
        with pytest.raises(GeometryError, match="the output would be empty"):
            spec.output_sizes((2, 1))
    else:
        with pytest.raises(GeometryError, match=r"\[2, 0\]"):
            spec.output_sizes((2, 0))
        assert spec.output_sizes((3, 1)) == (2, 5)


def test_derived_numbers():
    assert SPEC.ndim == 2
    assert (SPEC.in_per_group, SPEC.out_per_group) == (2, 3)
    assert SPEC.weight_shape == (4, 3, 3, 4)
    assert not SPEC.depthwise
    assert replace(SPEC, in_channels=2).depthwise
    assert not replace(SPEC, in_channels=1, group=1).depthwise
    assert list(SPEC.axes()) == [Axis(3, 2, 1, 1, -1), Axis(4, 3, 2, 0, 2)]
    assert list(SPEC.axes_uncropped()) == [Axis(3, 2, 1, 0, 0), Axis(4, 3, 2, 0, 0)]


def test_with_pads_changes_nothing_else():
    other = SPEC.with_pads([(5, 6), (7, 8)], (2, 3))
    assert (other.pads_begin, other.pads_end, other.output_padding) == ((5, 7), (6, 8), (2, 3))
    back = {n: getattr(SPEC, n) for n in ("pads_begin", "pads_end", "output_padding")}
    assert replace(other, **back) == SPEC


@settings(max_examples=150, deadline=None)
@given(cases())
def test_canonical_is_the_same_operation_in_one_spelling(case):
    spec, canonical = case.spec, case.spec.canonical()
    expected = conv_transpose(*case.arrays(), spec)
    np.testing.assert_array_equal(conv_transpose(*case.arrays(), canonical), expected)
    assert canonical.canonical() == canonical
    # Every spelling of the same operation ends in the same one.
    more = tuple(p + 2 for p in spec.output_padding)
    shifted = replace(
        spec,
        pads_end=tuple(p + 2 for p in spec.pads_end),
        output_padding=more,
        dilations=tuple(
            d if k > 1 else d + 1 for k, d in zip(spec.kernel, spec.dilations, strict=True)
        ),
    )
    assert shifted.canonical() == canonical
    for k, d, end, op in zip(
        canonical.kernel,
        canonical.dilations,
        canonical.pads_end,
        canonical.output_padding,
        strict=True,
    ):
        assert k > 1 or d == 1
        assert end >= 0
        assert op >= 0
        assert end == 0 or op == 0


@settings(deadline=None)
@given(cases(), st.data())
def test_output_length_agrees_with_output_sizes(case, data):
    axis = data.draw(st.integers(0, case.spec.ndim - 1))
    out = case.spec.output_length(axis, case.sizes[axis])
    assert type(out) is int
    assert out == case.spec.output_sizes(case.sizes)[axis] >= 1


@pytest.mark.parametrize(
    ("kernel", "stride", "begin", "end", "expected"),
    [(3, 2, 1, 1, "2*H - 1"), (4, 2, 1, 1, "2*H"), (3, 1, 1, 1, "H"), (5, 3, 0, 0, "3*H + 2")],
)
def test_output_length_of_a_symbol(kernel, stride, begin, end, expected):
    spec = ConvTransposeSpec(1, 1, 1, (kernel,), (stride,), (1,), (begin,), (end,), (0,))
    out = spec.output_length(0, onnx_ir.SymbolicDim("H"))
    assert isinstance(out, onnx_ir.SymbolicDim)
    assert str(out) == expected
    assert out.evaluate({"H": 7}) == spec.output_sizes((7,))[0]


def pairs_one_by_one(axis, length):
    rows = range(axis.output_length(length))
    return sum(
        i * axis.stride + k * axis.dilation - axis.begin in rows
        for i in range(length)
        for k in range(axis.kernel)
    )


@settings(deadline=None)
@given(axes(), st.integers(0, 5))
def test_useful_pairs(axis, longer):
    length = smallest_length(axis) + longer
    assert axis.useful_pairs(length) == pairs_one_by_one(axis, length)


@settings(deadline=None)
@given(axes(), st.integers(1, 4))
def test_useful_pairs_of_an_empty_output(axis, length):
    assert axis.useful_pairs(length) == pairs_one_by_one(axis, length)


def test_macs_exact_of_a_layer_counted_by_hand():
    # 1-D: 2 input rows, 3 taps, stride 2, first and last row cropped: 4 of 6 pairs stay.
    spec = ConvTransposeSpec(4, 6, 2, (3,), (2,), (1,), (1,), (1,), (0,))
    assert spec.macs_exact(5, (2,)) == 5 * 4 * 3 * 4
    square = ConvTransposeSpec(4, 6, 2, *(v * 2 for v in ((3,), (2,), (1,), (1,), (1,), (0,))))
    assert square.macs_exact(5, (2, 2)) == 5 * 4 * 3 * 4 * 4


@settings(deadline=None)
@given(axes(), st.integers(-20, 20))
def test_phase_taps_are_the_pairs_of_the_definition(axis, coordinate):
    expected = {
        (k, e)
        for k in range(axis.kernel)
        for e in range(-80, 80)
        if e * axis.stride + k * axis.dilation == coordinate
    }
    taps = axis.phase_taps(coordinate)
    assert set(taps) == expected
    assert len(taps) == len(expected)
    assert list(taps) == sorted(taps)
    for (k0, e0), (k1, e1) in pairwise(taps):
        assert (k1 - k0, e0 - e1) == (axis.tap_step, axis.read_step)


def test_the_tap_of_a_huge_stride_is_found_without_a_search():
    axis = Axis(kernel=1 << 40, stride=1 << 40, dilation=(1 << 20) + 1, begin=0, end=0)
    ((k, e),) = axis.phase_taps(12_345)
    assert 0 <= k < axis.kernel
    assert k * axis.dilation + e * axis.stride == 12_345
