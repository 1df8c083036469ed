"""Crops behind a Reshape, which fold where it adds or takes away axes of one row."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_crops import FoldCrops

from ..graph.building import array, ints, model, op_types
from ..verify.judging import assert_same
from .cropping import HUGE, UP, bounds, graph, one, pads

# Batch, channels, kernel, length: as many rows as channels among them.
SIZES = ((1, 2), (1, 2, 4), (1, 2, 4), (1, 2, 3))


def reshaped(shape, axis, x="float[N,3,L]", channels=4, attributes="", nodes="", **arrays):
    """x -> ConvTranspose -> Reshape -> Slice of [1:-2]."""
    text = f"{UP} {nodes} u = Reshape {attributes} ({'v' if nodes else 'y'}, r) "
    arrays |= {"w": array(3, channels, 5), "b": array(channels, seed=1), "r": ints(*shape)}
    text += "z = Slice (u, s, e, a)"
    return model(graph(text, x), **arrays, **bounds([1], [-2], [axis]))


@pytest.mark.parametrize(
    ("shape", "axis", "x", "channels"),
    [
        ([0, -1], 1, "float[N,3,L]", 1),
        ([-1], 0, "float[1,3,L]", 1),
        ([4, -1], 1, "float[1,3,L]", 4),
        ([4, -1], -1, "float[1,3,7]", 4),
        ([0, 4, -1], 2, "float[N,3,L]", 4),
        ([0, 1, 4, -1], 3, "float[N,3,L]", 4),
        ([0, 0, -1, 1], 2, "float[N,3,L]", 4),
        ([0, 0, 0, 1], 2, "float[N,3,L]", 4),
        ([-1, 4, 0], 2, "float[N,3,L]", 4),
        ([1, 0, 1, -1], 3, "float[1,3,L]", 4),
    ],
)
def test_axes_of_one_row_come_and_go(apply, shape, axis, x, channels):
    before = reshaped(shape, axis, x, channels)
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 2]
    assert op_types(applied.after) == ["ConvTranspose", "Reshape"]
    batch = 1 if "[1" in x else 2
    for n in (7,) if "7" in x else (1, 2, 6):
        assert_same(before, applied.after, {"x": array(batch, 3, n)})


def test_crops_before_and_behind(apply):
    before = reshaped([0, 1, 4, -1], 3, nodes="v = Slice (y, s, h, t)", h=ints(HUGE), t=ints(2))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [2, 2]
    assert op_types(applied.after) == ["ConvTranspose", "Reshape"]
    for n in (1, 6):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_a_shape_that_is_an_attribute(apply):
    nodes = f"{UP} u = Reshape <shape=[4,-1]> (y) z = Slice <axes=[1], starts=[1], ends=[-2]> (u)"
    applied = apply(one(nodes, opset=4), CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 2]


@pytest.mark.parametrize(
    ("shape", "axis", "x", "attributes"),
    [
        ([0, -1], 1, "float[N,3,L]", ""),  # channels and rows as one
        ([-1, 0], 0, "float[1,3,L]", ""),  # rows in lines of 4, as many as the channels
        ([0, 2, 2, -1], 3, "float[N,3,L]", ""),
        ([1, -1, 17], 1, "float[1,3,7]", "<allowzero=1>"),
        ([2, -1, 2], 1, "float[1,3,L]", ""),
    ],
)
def test_not_where_rows_move(apply, shape, axis, x, attributes):
    before = reshaped(shape, axis, x, attributes=attributes)
    applied = apply(before, CanonicalPads, FoldCrops)
    assert applied.changes == ()


def test_not_where_it_states_the_size(apply):
    before = reshaped([4, 17], 1, "float[1,3,7]")
    applied = apply(before, CanonicalPads, FoldCrops)
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == ["CT411"]


def test_not_where_the_shape_is_an_input(apply):
    text = graph(f"{UP} u = Reshape (y, r) z = Slice (u, s, e, a)", inputs=", int64[2] r")
    before = model(text, w=array(3, 4, 5), b=array(4), **bounds([1], [-2], [1]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert applied.changes == ()


@st.composite
def any_reshape(draw):
    """A model of a Reshape to any shape, rows moved or not, and the input to run it with."""
    batch, channels, kernel, length = (draw(st.sampled_from(s)) for s in SIZES)
    sizes = [batch, channels, 2 * (length - 1) + kernel]
    shape = draw(st.permutations([*sizes, *draw(st.sampled_from(([], [1], [1, 1])))]))
    if draw(st.booleans()):
        shape = [*shape[:-2], shape[-2] * shape[-1]]
    axis = draw(st.integers(0, len(shape) - 1))
    rows = shape[axis]
    begin = draw(st.integers(0, rows - 1))
    end = draw(st.integers(0, rows - 1 - begin))
    written = list(shape)
    for place in range(min(3, len(shape))):
        if written[place] == sizes[place] and draw(st.booleans()):
            written[place] = 0
    if draw(st.booleans()):
        written[draw(st.integers(0, len(shape) - 1))] = -1
    x = draw(st.sampled_from((f"float[{batch},3,{length}]", "float[N,3,L]")))
    arrays = {"w": array(3, channels, kernel), "b": array(channels), "r": ints(*written)}
    nodes = f"{UP} u = Reshape (y, r) z = Slice (u, s, e, a)"
    cut = bounds([begin], [-end or HUGE], [axis])
    return model(graph(nodes, x), **arrays, **cut), array(batch, 3, length)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(any_reshape())
def test_any_reshape_computes_the_same(apply, case):
    before, x = case
    assert_same(before, apply(before, CanonicalPads, FoldCrops).after, {"x": x})
