from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx.passes.fold_neighbours import FoldNeighbours
from convt_onnx.passes.leaky_prelu import LeakyPrelu
from convt_onnx.passes.lower import Lower

from ..graph.building import (
    array,
    as_inputs,
    initializer_names,
    ints,
    model,
    op_types,
    with_function,
)
from ..verify.judging import assert_same
from .neighbours import BN, behind, misses


def slope(*shape, value=0.3, dtype=np.float32):
    return np.full(shape, value, dtype)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1), (1, 1, 1, 1)])
def test_one_slope_is_an_attribute(apply, shape):
    applied = apply(behind("y = PRelu (h, c)", c=slope(*shape)), LeakyPrelu)
    assert applied.changes == ("ct: PRelu beside it is LeakyRelu",)
    _, node = applied.nodes
    assert (node.op_type, list(node.input), list(node.output)) == ("LeakyRelu", ["h"], ["y"])
    assert onnx.helper.get_attribute_value(node.attribute[0]) == np.float32(0.3)
    assert "c" not in initializer_names(applied.after)
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 2.75])
def test_any_slope(apply, value):
    applied = apply(behind("y = PRelu (h, c)", c=slope(1, value=value)), LeakyPrelu)
    assert op_types(applied.after) == ["ConvTranspose", "LeakyRelu"]
    assert_same(applied.before, applied.after)


def test_behind_what_was_folded_and_in_a_form(apply):
    steps = "n = BatchNormalization (h, gamma, beta, mean, var) y = PRelu (n, c)"
    proto = behind(steps, c=slope(1, 1, 1), **BN)
    applied = apply(proto, FoldNeighbours, LeakyPrelu, Lower, forms={"ct": "phases"})
    assert op_types(applied.after)[-1] == "LeakyRelu"
    assert "PRelu" not in op_types(applied.after)
    assert_same(applied.before, applied.after)


def test_behind_a_transpose(apply):
    steps = "t = Transpose <perm=[0,2,3,1]> (h) y = PRelu (t, c)"
    applied = apply(behind(steps, c=slope(1)), LeakyPrelu)
    assert op_types(applied.after) == ["ConvTranspose", "Transpose", "LeakyRelu"]
    assert_same(applied.before, applied.after)


def test_every_reader_and_a_slope_that_others_read(apply):
    text = """g (float[2,4,5] x) => (float[] y, float[] z, float[] h, float[] v) {
      [ct] h = ConvTranspose <strides=[2]> (x, w)
      y = PRelu (h, c) z = PRelu (h, d) v = Mul (x, c) }"""
    proto = model(text, w=array(4, 6, 3), c=slope(1), d=slope(1, value=-2.0))
    applied = apply(proto, LeakyPrelu)
    assert op_types(applied.after) == ["ConvTranspose", "LeakyRelu", "LeakyRelu", "Mul"]
    assert initializer_names(applied.after) == {"w", "c"}
    assert_same(applied.before, applied.after)


def in_front(steps, *, outputs="float[] y", **arrays):
    text = f"""g (float[2,4,5] x, float[2,2,5] v) => ({outputs}) {{
      {steps} [ct] y = ConvTranspose <strides=[2]> (h, w) }}"""
    return model(text, w=array(4, 6, 3), **arrays)


def test_in_front(apply):
    applied = apply(in_front("h = PRelu (x, c)", c=slope(1)), LeakyPrelu)
    assert applied.changes == ("ct: PRelu beside it is LeakyRelu",)
    assert op_types(applied.after) == ["LeakyRelu", "ConvTranspose"]
    assert_same(applied.before, applied.after)


def test_in_front_through_concats_and_read_elsewhere_too(apply):
    steps = """a = Conv (x, k) p = PRelu (a, c) n = Neg (p) q = PRelu (v, d)
      i = Concat <axis=1> (p, n) j = Concat <axis=2> (q, q) r = Slice (j, s, e, s2)
      h = Concat <axis=1> (i, r, p)"""
    proto = in_front(
        steps,
        outputs="float[] y, float[] n",
        k=array(1, 4, 1),
        c=slope(1),
        d=slope(1, value=2.0),
        s=ints(0, 0),
        e=ints(1, 5),
        s2=ints(1, 2),
    )
    applied = apply(proto, LeakyPrelu)
    kinds = op_types(applied.after)
    assert kinds.count("LeakyRelu") == 1  # a Slice stands between the other one and the Concat
    assert kinds.count("PRelu") == 1
    assert_same(applied.before, applied.after)


def test_not_elsewhere(apply):
    applied = apply(in_front("r = PRelu (x, c) h = Exp (r)", c=slope(1)), LeakyPrelu)
    assert applied.changes == ()


def test_not_in_front_with_a_slope_a_channel(apply):
    applied = apply(in_front("h = PRelu (x, c)", c=array(4, 1)), LeakyPrelu)
    assert misses(applied) == ["CT451"]


def test_not_what_a_subgraph_reads_from_outside(apply):
    text = """g (float[2,4,5] x, bool p) => (float[] y) {
      h = PRelu (x, c)
      y = If (p) <
        then_branch = t () => (float[] a) { [ct] a = ConvTranspose <strides=[2]> (h, w) },
        else_branch = e () => (float[] b) { b = Neg (h) }> }"""
    applied = apply(model(text, w=array(4, 6, 3), c=slope(1)), LeakyPrelu)
    assert applied.changes == ()


@pytest.mark.parametrize("opset", [7, 9, 16, 22])
def test_other_opsets(apply, opset):
    text = """g (float[2,4,5] x) => (float[] y) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = PRelu (h, c) }"""
    applied = apply(model(text, opset=opset, w=array(4, 6, 3), c=slope(1)), LeakyPrelu)
    assert op_types(applied.after) == ["ConvTranspose", "LeakyRelu"]
    assert_same(applied.before, applied.after)


def test_in_a_subgraph(apply):
    text = """g (float[2,4,5] x, bool p) => (float[] y) {
      y = If (p) <
        then_branch = t () => (float[] a) {
          [ct] h = ConvTranspose <strides=[2]> (x, w) a = PRelu (h, c) },
        else_branch = e () => (float[] b) { b = Neg (x) }> }"""
    applied = apply(model(text, w=array(4, 6, 3), c=slope(1)), LeakyPrelu)
    branch = applied.after.graph.node[0].attribute[0].g
    assert [n.op_type for n in branch.node] == ["ConvTranspose", "LeakyRelu"]
    for taken in (True, False):
        feeds = {"x": array(2, 4, 5, seed=9), "p": np.array(taken)}
        assert_same(applied.before, applied.after, feeds)


def test_in_a_function(apply):
    proto = with_function(
        "g (float[2,4,5] x) => (float[] y) { y = f.up (x, w) }",
        """up (x, w) => (y) {
          c = Constant <value = float[1] {0.3}> ()
          [ct] h = ConvTranspose <strides=[2]> (x, w) y = PRelu (h, c) }""",
        w=array(4, 6, 3),
    )
    applied = apply(proto, LeakyPrelu)
    kinds = [n.op_type for n in applied.after.functions[0].node]
    assert kinds == ["ConvTranspose", "LeakyRelu"]
    assert_same(applied.before, applied.after)


def test_not_with_a_slope_a_channel(apply):
    applied = apply(behind("y = PRelu (h, c)", c=array(6, 1, 1)), LeakyPrelu)
    assert applied.changes == ()
    assert misses(applied) == ["CT451"]


@pytest.mark.parametrize("place", ["behind", "in front"])
def test_not_with_more_axes_than_the_input(apply, place):
    step = "y = PRelu (h, c)" if place == "behind" else "h = PRelu (x, c)"
    make = behind if place == "behind" else in_front
    axes = 5 if place == "behind" else 4
    applied = apply(make(step, c=slope(*(1,) * axes)), LeakyPrelu)
    assert (applied.changes, misses(applied)) == ((), ["CT451"])
    assert len(apply(make(step, c=slope(*(1,) * (axes - 1))), LeakyPrelu).changes) == 1


@pytest.mark.parametrize(("axes", "changed"), [(3, True), (4, False)])
def test_a_weight_of_unknown_rank_has_three_axes_at_least(apply, axes, changed):
    proto = with_function(
        "g (float[2,4,5] x) => (float[] y) { y = f.up (x, w) }",
        f"""up (x, w) => (y) {{
          c = Constant <value = float[{",".join("1" * axes)}] {{0.3}}> ()
          [ct] h = ConvTranspose <strides=[2]> (x, w) y = PRelu (h, c) }}""",
        w=array(4, 6, 3),
    )
    assert bool(apply(proto, LeakyPrelu).changes) is changed


def test_not_with_a_double_that_no_float32_is(apply):
    steps, c = "y = PRelu (h, c)", slope(1, value=0.1, dtype=np.float64)
    assert misses(apply(behind(steps, dtype="double", c=c), LeakyPrelu)) == ["CT451"]
    exact = slope(1, value=0.25, dtype=np.float64)
    assert len(apply(behind(steps, dtype="double", c=exact), LeakyPrelu).changes) == 1


def test_not_with_a_slope_that_is_not_a_number(apply):
    applied = apply(behind("y = PRelu (h, c)", c=slope(1, value=np.nan)), LeakyPrelu)
    assert misses(applied) == ["CT451"]


def test_not_where_the_slope_may_be_overridden(apply):
    proto = as_inputs(behind("y = PRelu (h, c)", c=slope(1)), "c")
    applied = apply(proto, LeakyPrelu)
    assert applied.changes == ()
    assert misses(applied) == ["CT445"]


def test_not_with_a_slope_of_the_run(apply):
    text = """g (float[2,4,5] x, float[1] c) => (float[] y) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = PRelu (h, c) }"""
    applied = apply(model(text, w=array(4, 6, 3)), LeakyPrelu)
    assert applied.changes == ()
    assert misses(applied) == ["CT444"]


def test_not_where_the_output_is_the_slope(apply):
    text = """g (float[1,1,3] x, float[2,6,3] v) => (float[] y) {
      [ct] h = ConvTranspose (x, w) y = PRelu (v, h) }"""
    applied = apply(model(text, w=array(1, 1, 1)), LeakyPrelu)
    assert (applied.changes, misses(applied)) == ((), [])


def test_not_an_operator_of_somebody_elses(apply):
    text = """g (float[2,4,5] x) => (float[] y) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = other.PRelu (h, c) }"""
    proto = model(text, w=array(4, 6, 3), c=slope(1), domains='"other" : 1')
    assert apply(proto, LeakyPrelu).changes == ()


@pytest.mark.parametrize("target", ["ort-cuda", "tensorrt", "portable"])
def test_not_for_other_kernels(apply, target):
    proto = behind("y = PRelu (h, c)", c=slope(1))
    assert apply(proto, LeakyPrelu, target=target).changes == ()


def test_not_around_a_node_that_is_skipped(apply):
    proto = behind("y = PRelu (h, c)", c=slope(1))
    assert apply(proto, LeakyPrelu, skip=["ct"]).changes == ()
