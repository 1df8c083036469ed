"""Factors that go into the scales of quantised weights and biases."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.fold_neighbours import FoldNeighbours

from ..graph.building import array, model, op_types
from ..verify.judging import random_feeds, run

POWERS = np.array([0.5, 4, 1, 2, 8, 0.25], np.float32)


def build(operator, factor, *, axis=1, bias="float", group=1):
    """Six channels; the scales are such that powers of two alone multiply them exactly."""
    per_channel = axis is not None
    count = 6 // group
    s = np.linspace(0.011, 0.047, count, dtype=np.float32) if per_channel else np.float32(0.017)
    arrays = {
        "q": np.arange(4 * count * 6).reshape(4, count, 3, 2).astype(np.int8),
        "s": np.asarray(s),
        "f": np.asarray(factor),
    }
    nodes = f"w = DequantizeLinear <axis={axis if per_channel else 1}> (q, s) "
    operands = "x, w"
    if bias == "float":
        arrays["b"] = array(6)
        operands += ", b"
    elif bias == "quantised":
        arrays["c"] = np.arange(-300, 300, 100, dtype=np.int32)
        t = np.linspace(0.001, 0.002, 6, dtype=np.float32) if per_channel else np.float32(0.003)
        arrays["t"] = t
        nodes += "b = DequantizeLinear <axis=0> (c, t) "
        operands += ", b"
    nodes += f"[up] h = ConvTranspose <strides=[2,1], group={group}> ({operands}) y = {operator}"
    arrays = {n: np.asarray(a) for n, a in arrays.items()}
    return model(f"g (float[2,4,3,5] x) => (float[] y) {{ {nodes} }}", opset=17, **arrays)


def assert_folds(apply, before):
    applied = apply(before, FoldNeighbours)
    assert "Mul" not in op_types(applied.after)
    assert "Div" not in op_types(applied.after)
    integers = {t.name: t for t in applied.after.graph.initializer}
    assert integers["q"] == next(t for t in before.graph.initializer if t.name == "q")
    feeds = random_feeds(before)
    np.testing.assert_array_equal(run(applied.after, feeds)["y"], run(before, feeds)["y"])
    return applied


def assert_refused(apply, before):
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == ["CT447"]


@pytest.mark.parametrize("bias", ["none", "float", "quantised"])
@pytest.mark.parametrize("operator", ["Mul (h, f)", "Mul (f, h)", "Div (h, f)"])
def test_a_factor_a_channel(apply, operator, bias):
    applied = assert_folds(apply, build(operator, POWERS.reshape(6, 1, 1), bias=bias))
    kinds = op_types(applied.after)
    assert kinds.count("DequantizeLinear") == (2 if bias == "quantised" else 1)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("bias", ["none", "float", "quantised"])
def test_one_factor(apply, axis, bias):
    assert_folds(apply, build("Mul (h, f)", np.float32(0.125), axis=axis, bias=bias))


def test_groups_that_share_scales(apply):
    factor = np.tile(POWERS[:3], 2).reshape(6, 1, 1)
    assert_folds(apply, build("Mul (h, f)", factor, group=2))
    assert_refused(apply, build("Mul (h, f)", POWERS.reshape(6, 1, 1), group=2))


@pytest.mark.parametrize(
    ("factor", "axis"),
    [
        (np.float32(0.3), 1),
        (np.float32(-2), 1),
        (np.float32(2.0**-126), 1),
        (POWERS.reshape(6, 1, 1), None),
        (POWERS.reshape(6, 1, 1), 0),
    ],
    ids=["rounded", "negative", "too small", "several for one scale", "scales of input channels"],
)
def test_where_it_stays(apply, factor, axis):
    before = build("Mul (h, f)", factor, axis=axis)
    if axis == 0:
        scale = next(t for t in before.graph.initializer if t.name == "s")
        scale.dims[0] = 4
        scale.raw_data = np.linspace(0.01, 0.04, 4, dtype=np.float32).tobytes()
    assert_refused(apply, before)


def test_a_summand_does_not_replace_a_quantised_bias(apply):
    assert_refused(apply, build("Add (h, f)", np.float32(2), bias="quantised"))


def test_other_readers_keep_the_scales(apply):
    nodes = """w = DequantizeLinear <axis=1> (q, s)
    [up] h = ConvTranspose (x, w)  y = Mul (h, f)  [down] z = ConvTranspose (x, w)"""
    arrays = {
        "q": np.arange(4 * 6 * 6).reshape(4, 6, 3, 2).astype(np.int8),
        "s": np.linspace(0.011, 0.047, 6, dtype=np.float32),
        "f": np.array(4, np.float32),
    }
    before = model(f"g (float[2,4,3,5] x) => (float[] y, float[] z) {{ {nodes} }}", **arrays)
    applied = apply(before, FoldNeighbours)
    assert op_types(applied.after).count("DequantizeLinear") == 2
    feeds = random_feeds(before)
    old, new = run(before, feeds), run(applied.after, feeds)
    for name in ("y", "z"):
        np.testing.assert_array_equal(new[name], old[name])
