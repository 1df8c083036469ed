"""Names of what is left, and crops in subgraphs and functions."""

from __future__ import annotations

import numpy as np
import onnx

from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_crops import FoldCrops
from convt_onnx.passes.fold_weights import FoldWeights

from ..graph.building import array, braces, ints, model, op_types, with_function
from ..verify.judging import assert_same, random_feeds
from .cropping import OF_Y, UP, bounds, graph, numbers, one, pads


def test_what_only_the_bounds_read_of_the_uncropped_size_goes(apply):
    nodes = f"{UP} {OF_Y} f = Sub (h, one) z = Slice (y, one, f, two)"
    before = model(graph(nodes, "float[N,3,L]"), w=array(3, 4, 5), b=array(4), **numbers(nodes))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert op_types(applied.after) == ["ConvTranspose"]


def test_a_crop_goes_where_a_later_one_cannot(apply):
    nodes = f"{UP} p = Slice (y, s, e, a) q = Relu (p) r = Shape (p) z = Slice (q, s, e, a)"
    text = graph(nodes, "float[N,3,L]", outputs="float[] z, int64[] r")
    before = model(text, w=array(3, 4, 7), b=array(4), **bounds([1], [-1], [2]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 1]
    assert op_types(applied.after).count("Slice") == 1
    assert [m.reason.id for m in applied.context.misses] == ["CT412"]
    assert_same(before, applied.after, {"x": array(1, 3, 4)})


def test_negative_begin_pads_become_valid(apply):
    """ONNX Runtime refuses the node as it was: three rows of bias in front."""
    up = "y = ConvTranspose <strides=[2], pads=[-3, 0]> (x, w, b)"
    before = one(f"{up} z = Slice (y, s, e, a)", **bounds([4], [-1], [2]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 1]
    same = one(f"{UP} z = Slice (y, s, e, a)", **bounds([1], [-1], [2]))
    assert_same(same, applied.after)


def test_names_types_and_shapes_of_what_is_left(apply):
    nodes = f"[n] {UP} z = Slice (y, s, e, a)"
    text = f"g (float[N,3,L] x) => (float[N,4,M] z) <float[N,4,K] y> {{ {nodes} }}"
    before = model(text, w=array(3, 4, 5), b=array(4), **bounds([1], [-2], [2]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert applied.after.graph.output == before.graph.output
    assert applied.conv_transpose.name == "n"
    assert applied.conv_transpose.output == ["z"]


def test_the_path_of_a_node_without_a_name_stays(apply):
    before = one(f"{UP} z = Slice (y, s, e, a)", **bounds([1], [-2], [2]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert applied.conv_transpose.name == "ConvTranspose->y"


def test_in_a_subgraph_with_bounds_from_outside(apply):
    nodes = f"""k = Shape (x) h = Gather (k, two) l = Mul (h, two)
    z = If (c) <
      then_branch = t () => (float[] p) {{ {UP} p = Slice (y, one, l, two) }},
      else_branch = f () => (float[] q) {{ {UP} r = Relu (y) q = Slice (r, one, l, two) }}>"""
    text = graph(nodes, "float[N,3,L]", ", bool c")
    before = model(text, w=array(3, 4, 5), b=array(4), **numbers(nodes))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert len(applied.changes) == 2
    assert "Slice" not in op_types(applied.after)
    for flag in (True, False):
        feeds = {"x": array(1, 3, 4), "c": np.array(flag)}
        assert_same(before, applied.after, feeds)


def test_in_the_body_of_a_loop(apply):
    body = """body = b (int64 i, bool k, float[1,3,L] h) => (bool m, float[1,3,M] o) {
      m = Identity (k) y = ConvTranspose (h, w) o = Slice (y, one, e, two) }"""
    loop = f"z = Loop (n, c, x) <{body}>"
    text = f"g (float[1,3,L] x, int64 n, bool c) => (float[1,3,M] z) {{ {loop} }}"
    before = model(text, w=array(3, 3, 3), e=ints(-1), one=ints(1), two=ints(2))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert len(applied.changes) == 1
    feeds = {"x": array(1, 3, 4), "n": np.array(3, np.int64), "c": np.array(True)}
    assert_same(before, applied.after, feeds)


def test_in_a_function(apply):
    before = with_function(
        "g (float[N,3,L] u) => (float[] v) { v = f.up (u) }",
        f"""up (x) => (z) {{
          w = Constant <value = float[3,4,5] {braces(array(3, 4, 5))}> ()
          y = ConvTranspose <strides=[2]> (x, w) q = Relu (y)
          s = Constant <value_ints=[1, 1]> () e = Constant <value_ints=[3, -1]> ()
          a = Constant <value_ints=[1, 2]> () z = Slice (q, s, e, a) }}""",
    )
    applied = apply(before, FoldWeights, CanonicalPads, FoldCrops)
    assert len(applied.changes) == 1
    assert not applied.after.functions[0].HasField("doc_string")
    for n in (1, 4):
        assert_same(before, applied.after, {"u": array(2, 3, n)})


def test_half_precision(apply):
    text = (
        "g (float16[1,3,7] x) => (float16[] z) { y = ConvTranspose (x, w) z = Slice (y, s, e, a) }"
    )
    weight = array(3, 4, 5, dtype=np.float16)
    before = model(text, w=weight, **bounds([1], [-2], [2]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 2]
    assert_same(before, applied.after, random_feeds(before), tolerance=2e-3)
    assert applied.after.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
