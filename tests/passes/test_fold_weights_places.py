"""Computed weights in subgraphs and functions."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.inline_functions import InlineFunctions

from ..graph.building import array, braces, initializer_names, model, op_types, with_function
from ..verify.judging import assert_same, random_feeds

W = array(3, 4, 5)


def test_through_outer_scopes(apply):
    text = """g (float[1,3,7] x, bool c) => (float[] y) { u = Neg (v) y = If (c) <
      then_branch = t () => (float[] p) { w = Abs (u) p = ConvTranspose (x, w) },
      else_branch = e () => (float[] q) {
        q = If (c) <then_branch = r () => (float[] i) { i = ConvTranspose (x, u) },
                    else_branch = s () => (float[] j) { j = ConvTranspose (x, u) }> }> }"""
    applied = apply(model(text, v=W), FoldWeights)
    assert len(applied.changes) == 3
    assert "v" not in initializer_names(applied.after)
    assert not {"Neg", "Abs"} & set(op_types(applied.after))
    for flag in (True, False):
        feeds = {"x": array(1, 3, 7), "c": np.array(flag)}
        assert_same(applied.before, applied.after, feeds)


def test_in_a_loop_body_but_not_its_state(apply):
    text = """g (float[1,3,7] x, int64 n, bool c, float[3,3,1] s0) => (float[A,B,C] y) {
      y, s = Loop (n, c, x, s0) <body = b (int64 i, bool k, float[1,3,7] h, float[3,3,1] s)
        => (bool k2, float[1,3,7] h2, float[3,3,1] s2) {
          k2 = Identity (k) w = Neg (v) s2 = Neg (s)
          m = ConvTranspose (h, w) h2 = ConvTranspose (m, s2) }> }"""
    applied = apply(model(text, v=array(3, 3, 1)), FoldWeights)
    assert applied.changes == ("ConvTranspose->m: w folded",)
    feeds = random_feeds(applied.before, n=np.array(3))
    assert_same(applied.before, applied.after, feeds)


def test_through_a_function_that_is_inlined_first(apply):
    before = with_function(
        "g (float[1,3,7] x) => (float[] y) { u = Neg (v) y = f.up (x, u) }",
        "up (a, b) => (c) { w = Abs (b) c = ConvTranspose (a, w) }",
        v=W,
    )
    applied = apply(before, InlineFunctions, FoldWeights)
    assert op_types(applied.after) == ["ConvTranspose"]
    assert_same(before, applied.after)


@pytest.mark.parametrize("nested", [True, False])
def test_in_a_function_constants_are_nodes(apply, nested):
    node = "p = ConvTranspose <strides=[2]> (a, w)"
    if nested:
        node = f"""p = If (k) <then_branch = t () => (q) {{ {node.replace("p =", "q =")} }},
                               else_branch = e () => (r) {{ {node.replace("p =", "r =")} }}>"""
    before = with_function(
        "g (float[1,3,7] x) => (float[] y) { y = f.up (x) }",
        f"""up (a) => (p) {{ v = Constant <value = float[3,4,5] {braces(W)}> () w = Neg (v)
        k = Constant <value = bool {{1}}> () {node} }}""",
    )
    applied = apply(before, InlineFunctions, FoldWeights)
    assert len(applied.changes) == 1 + nested
    assert "Neg" not in op_types(applied.after)
    assert_same(before, applied.after)
