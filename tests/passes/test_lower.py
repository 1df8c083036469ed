from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from convt_onnx.errors import UsageError
from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.inline_functions import InlineFunctions
from convt_onnx.passes.lower import Lower

from ..graph.building import (
    array,
    as_inputs,
    braces,
    initializer_names,
    model,
    op_types,
    with_function,
)
from ..verify.judging import assert_close, assert_same, oracle, random_feeds, run

TWO = """g (float[1,3,7] x) => (float[] y, float[] z)
{ [a] y = ConvTranspose <strides=[2]> (x, w, b) [c] z = ConvTranspose <strides=[3]> (x, w, b) }"""
ONE = "g (float[1,3,7] x) => (float[] y) { [a] y = ConvTranspose <strides=[2]> (x, w) }"


def test_a_decision_for_every_node_in_graph_order(apply):
    applied = apply(model(TWO, w=array(3, 4, 5), b=array(4)), Lower, target="portable")
    assert [d.path for d in applied.context.decisions] == ["a", "c"]
    assert [n.path for n in applied.context.nodes] == ["a", "c"]
    assert "ConvTranspose" not in op_types(applied.after)
    assert_same(applied.before, applied.after)


def test_kept_nodes_are_not_touched(apply):
    applied = apply(model(TWO, w=array(3, 4, 5), b=array(4)), Lower, forms={"all": "keep"})
    assert applied.changes == ()
    assert [d.form for d in applied.context.decisions] == ["keep", "keep"]
    assert [n.op_type for n in applied.nodes] == ["ConvTranspose", "ConvTranspose"]


def test_the_form_takes_the_nodes_place_and_its_outputs_name(apply):
    text = """g (float[1,3,7] x) => (float[] p, float[] q) {
      h = Relu (x) [a] y = ConvTranspose <strides=[2]> (h, w) p = Neg (y) q = Exp (y) }"""
    applied = apply(model(text, w=array(3, 4, 5)), Lower, forms={"a": "phases"})
    assert applied.changes == ("a: phases",)
    made = [o for n in applied.nodes for o in n.output]
    assert made[0] == "h" and made[-3:] == ["y", "p", "q"]
    assert all(n.name.startswith("a/") for n in applied.nodes[1:-2])
    assert_same(applied.before, applied.after)


def test_weights_that_nothing_reads_go(apply):
    before = model(ONE, w=array(3, 4, 5), unrelated=array(2))
    applied = apply(before, Lower, target="portable")
    names = initializer_names(applied.after)
    assert "w" not in names
    assert "unrelated" in names


def test_weights_that_others_read_stay(apply):
    text = ONE.replace("(float[] y)", "(float[] y, float[] s)").replace("}", "s = ReduceSum (w) }")
    applied = apply(model(text, w=array(3, 4, 5)), Lower, target="portable")
    assert "w" in initializer_names(applied.after)
    assert_same(applied.before, applied.after)


def test_a_weight_that_is_an_output_stays(apply):
    text = ONE.replace("(float[] y)", "(float[] y, float[3,4,5] w)")
    applied = apply(model(text, w=array(3, 4, 5)), Lower, target="portable")
    assert [o.name for o in applied.after.graph.output] == ["y", "w"]
    assert_same(applied.before, applied.after)


def test_names_in_use_are_left_alone(apply):
    text = """g (float[1,3,7] x) => (float[] y, float[] z) {
      ["a/Conv"] "a/Conv_out" = Neg (x) "a/Reshape" = Add ("a/Conv_out", "a/shape")
      [a] y = ConvTranspose <strides=[2]> (x, w) z = Add ("a/Reshape", "a/weight") }"""
    taken = {"a/weight": array(1), "a/shape": array(1, seed=1)}
    applied = apply(model(text, w=array(3, 4, 5), **taken), Lower, target="portable")
    assert set(taken) < initializer_names(applied.after)
    assert_same(applied.before, applied.after)


def bfloat16(nodes, inputs="", outputs="float[] y", **arrays):
    """A model that computes in bfloat16 between Casts, for NumPy's sake: u -> x, z -> y."""
    text = f"""g (float[1,3,7] u{inputs}) => ({outputs}) <bfloat16[1,3,7] x, bfloat16[3,4,5] v>
    {{ x = Cast <to=16> (u) {nodes} y = Cast <to=1> (z) }}"""
    narrow = {name: a.astype(ml_dtypes.bfloat16) for name, a in arrays.items()}
    return model(text, opset=22, ir_version=10, **narrow)


def assert_close_in_bfloat16(applied):
    feeds = random_feeds(applied.before)
    assert_close(run(applied.after, feeds), oracle(applied.before, feeds), 2**-8)


@pytest.mark.parametrize("form", ["keep", "phases"])
@pytest.mark.parametrize("bias", [True, False])
def test_types_that_no_operator_takes_are_computed_between_casts(apply, form, bias):
    nodes = f"[a] z = ConvTranspose <strides=[2]> (x, w{', b' * bias})"
    before = bfloat16(nodes, w=array(3, 4, 5), b=array(4))
    applied = apply(before, CanonicalPads, Lower, forms={"a": form})
    assert applied.changes == (f"a: {form}",)
    assert op_types(applied.after).count("Cast") == 2 + 2
    assert_close_in_bfloat16(applied)


def test_a_cast_weight_is_shared_by_different_forms(apply):
    nodes = """[a] z = ConvTranspose <strides=[2]> (x, w)
    [b] t = ConvTranspose <strides=[3]> (x, w) s = Cast <to=1> (t)"""
    before = bfloat16(nodes, outputs="float[] y, float[] s", w=array(3, 4, 5))
    applied = apply(before, CanonicalPads, Lower, forms={"a": "phases", "b": "keep"})
    assert_close_in_bfloat16(applied)


def test_run_time_weights_are_cast_in_the_graph(apply):
    nodes = "v = Cast <to=16> (w) [a] z = ConvTranspose <strides=[2]> (x, v)"
    applied = apply(bfloat16(nodes, inputs=", float[3,4,5] w"), CanonicalPads, Lower)
    assert op_types(applied.after).count("Cast") == 3 + 3
    assert_close_in_bfloat16(applied)


def test_no_constant_is_left_over_in_a_function(apply):
    before = with_function(
        """g (float[1,3,7] u) => (float[] y)
        { x = Cast <to=16> (u) z = f.up (x) y = Cast <to=1> (z) }""",
        f"""up (x) => (y) {{
          v = Constant <value = float[3,4,5] {braces(array(3, 4, 5))}> () w = Cast <to=16> (v)
          y = ConvTranspose <strides=[2]> (x, w) }}""",
        opset=22,
    )
    applied = apply(before, FoldWeights, Lower, forms={"all": "phases"})
    body = applied.after.functions[0].node
    read = {i for n in body for i in n.input} | {"y"}
    assert all(set(n.output) <= read for n in body)
    assert_close_in_bfloat16(applied)


def test_the_output_of_one_node_is_the_weight_of_another(apply):
    text = """g (float[3,2,1] z, float[1,3,7] x) => (float[] y) {
      [a] w = ConvTranspose <strides=[2]> (z, v) [b] y = ConvTranspose <strides=[2]> (x, w) }"""
    applied = apply(model(text, v=array(2, 4, 3)), Lower, target="portable")
    assert len(applied.changes) == 2
    assert_same(applied.before, applied.after)


# Where it does not apply.


@pytest.mark.parametrize(
    ("proto", "options", "reason"),
    [
        (model(ONE, w=array(3, 4, 5)), {"skip": ["a"]}, "CT109"),
        (as_inputs(model(ONE, w=array(3, 4, 5)), "w"), {}, "CT103"),
        (model(ONE.replace("x)", "x, float[3,4,5] w)", 1)), {}, "CT104"),
        (model(ONE.replace("x)", "x, float[] w)", 1)), {}, "CT102"),
        (model(ONE.replace("7", "L").replace("[2]", "[2], output_shape=[14]"), w=array(3, 4, 5)),
         {}, "CT105"),
        (model(ONE.replace("(x, w)", "(x, w, b)").replace("x)", "x, float[] b)", 1),
               w=array(3, 4, 5)), {}, "CT107"),
    ],
)  # fmt: skip
def test_left_as_it_is(apply, proto, options, reason):
    applied = apply(proto, Lower, **options)
    (decision,) = applied.context.decisions
    assert decision.reason.id == reason
    assert applied.changes == ()
    assert applied.nodes[0].op_type == "ConvTranspose"


def test_attributes_of_a_call_that_could_not_be_inlined(apply):
    before = with_function(
        "g (float[1,3,7] x) => (float[] y) { y = f.up <s=[2]> (x, w) }",
        "up <s> (a, b) => (c) { c = ConvTranspose <strides: ints = @s> (a, b) }",
        function_opset=16,
        w=array(3, 4, 4),
    )
    applied = apply(before, InlineFunctions, Lower, target="portable")
    assert [d.reason.id for d in applied.context.decisions] == ["CT106"]


def test_a_type_that_the_target_takes_nowhere(apply):
    before = model(ONE.replace("float", "double"), w=array(3, 4, 5, dtype=np.float64))
    applied = apply(before, Lower)
    assert [(d.form, d.reason.id) for d in applied.context.decisions] == [(None, "CT108")]
    assert applied.changes == ()


def test_a_forced_form_that_does_not_apply(apply):
    with pytest.raises(UsageError, match="form 'conv' does not apply") as caught:
        apply(model(ONE, w=array(3, 4, 5)), Lower, forms={"a": "conv"})
    assert "CT301" in caught.value.help


def test_all_leaves_out_the_nodes_where_the_form_does_not_apply(apply):
    text = """g (float[1,3,7] x) => (float[] y, float[] z)
    { [a] y = ConvTranspose (x, w) [b] z = ConvTranspose <strides=[2]> (x, w) }"""
    applied = apply(model(text, w=array(3, 4, 5)), Lower, forms={"all": "conv", "b": "keep"})
    assert applied.changes == ("a: conv",)
    assert_same(applied.before, applied.after)


# Elsewhere than in the main graph.


def test_in_both_branches_of_an_if(apply):
    text = """g (float[1,3,8] x, bool c) => (float[] y) {
      y = If (c) <
        then_branch = t () => (float[] p) {
          h = MaxPool <kernel_shape=[2], strides=[2]> (x)
          p = ConvTranspose <strides=[2]> (h, w) },
        else_branch = e () => (float[] q) {
          h = Relu (x) q = ConvTranspose <strides=[3]> (h, w) }> }"""
    applied = apply(model(text, w=array(3, 4, 5)), Lower, target="portable")
    assert "ConvTranspose" not in op_types(applied.after)
    assert "w" not in initializer_names(applied.after)
    for flag in (True, False):
        feeds = {"x": array(1, 3, 8), "c": np.array(flag)}
        assert_same(applied.before, applied.after, feeds)


def test_in_a_loop_whose_state_grows(apply):
    text = """g (float[1,2,3] x, int64 n, bool c) => (float[A,B,C] y) {
      y = Loop (n, c, x) <body = b (int64 i, bool k, float[N,2,L] s) => (bool k2, float[N,2,M] t)
        { k2 = Identity (k) t = ConvTranspose <strides=[2]> (s, w) }> }"""
    applied = apply(model(text, w=array(2, 2, 3)), Lower, target="portable")
    assert "ConvTranspose" not in op_types(applied.after)
    feeds = {"x": array(1, 2, 3), "n": np.array(3), "c": np.array(True)}
    assert_same(applied.before, applied.after, feeds)


def test_in_a_function_that_is_called_twice_with_other_sizes(apply):
    before = with_function(
        "g (float[1,2,3] x) => (float[] y, float[] z) { y = f.up (x) z = f.up (y) }",
        f"""up (x) => (y) {{
          w = Constant <value = float[2,2,3] {braces(array(2, 2, 3))}> ()
          y = ConvTranspose <strides=[2]> (x, w) }}""",
    )
    applied = apply(before, Lower, target="portable")
    assert "ConvTranspose" not in op_types(applied.after)
    assert [f.name for f in applied.after.functions] == ["up"]
    assert_same(before, applied.after)


def test_before_ir_4_constants_are_nodes(apply):
    before = as_inputs(model(ONE, opset=8, ir_version=3, w=array(3, 4, 5)), "w")
    applied = apply(before, Lower, target="portable")
    assert [i.name for i in applied.after.graph.input] == ["x", "w"]
    assert initializer_names(applied.after) == {"w"}
    assert "Constant" in op_types(applied.after)
    feeds = random_feeds(before)
    assert_close(run(applied.after, feeds), oracle(before, feeds))
