"""What several nodes read is packed once where each needs the same of it, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.lower import Lower

from ..graph.building import array, model
from ..verify.judging import assert_same


def test_a_shared_weight_is_packed_once(apply):
    text = """g (float[1,3,7] x) => (float[] y, float[] z) {
      [a] y = ConvTranspose <strides=[2]> (x, w) n = Neg (x)
      [b] z = ConvTranspose <strides=[2]> (n, w) }"""
    applied = apply(model(text, w=array(3, 4, 5)), Lower, forms={"all": "phases"})
    first, second = (n for n in applied.nodes if n.op_type == "Conv")
    assert first.input[1] == second.input[1]
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize("same", [True, False])
def test_integers_with_other_zero_points_are_packed_apart(apply, same):
    text = """g (float[1,3,7] x) => (float[] y, float[] z) {
      v = DequantizeLinear <axis=1> (q, s, m) w = DequantizeLinear <axis=1> (q, s, n)
      [a] y = ConvTranspose <strides=[2]> (x, v) [b] z = ConvTranspose <strides=[2]> (x, w) }"""
    integers = np.random.default_rng(0).integers(-128, 127, (3, 4, 3)).astype(np.int8)
    m = np.array([1, 2, 3, 4], np.int8)
    parts = {"q": integers, "s": abs(array(4)) + 1, "m": m, "n": m if same else 10 * m}
    applied = apply(model(text, opset=21, ir_version=10, **parts), Lower, forms={"all": "phases"})
    convs = [n for n in applied.nodes if n.op_type == "DequantizeLinear"]
    assert len({n.input[0] for n in convs}) == (1 if same else 2)
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize("form", ["phases", "phases-split", "overlap-add", "zero-insertion"])
@pytest.mark.parametrize("target", ["ort-cpu", "portable"])
def test_a_bias_that_nodes_of_other_groups_share(apply, form, target):
    text = """g (float[2,4,5] x) => (float[] y, float[] z) {
      [a] y = ConvTranspose <strides=[3]> (x, v, b)
      [b] z = ConvTranspose <strides=[3], group=2> (x, w, b) }"""
    before = model(text, v=array(4, 6, 4), w=array(4, 3, 4), b=array(6))
    applied = apply(before, Lower, forms={"all": form}, target=target)
    assert applied.changes == (f"a: {form}", f"b: {form}")
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize("form", ["phases", "phases-split", "unfold", "undilate"])
def test_a_weight_that_nodes_of_other_groups_share(apply, form):
    text = """g (float[2,4,5] x) => (float[] y, float[] z) {
      [a] y = ConvTranspose <strides=[2], dilations=[3]> (x, w)
      [b] z = ConvTranspose <strides=[2], dilations=[3], group=2> (x, w) }"""
    applied = apply(model(text, w=array(4, 3, 4)), Lower, forms={"all": form})
    assert applied.changes == (f"a: {form}", f"b: {form}")
    assert_same(applied.before, applied.after)
