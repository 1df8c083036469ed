from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.printer import to_text

from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.inline_functions import InlineFunctions
from convt_onnx.passes.lower import Lower

from ..graph.building import array, braces, model, op_types, with_function
from ..verify.judging import assert_same

ALL = (InlineFunctions, FoldWeights, CanonicalPads, Lower)
CALL = "g (float[1,3,7] x) => (float[] y) { y = f.up (x, w) }"
UP = "up (a, b) => (c) { c = ConvTranspose <strides=[2]> (a, b) }"
W = {"w": array(3, 4, 5)}


def functions(applied):
    return sorted(f.name for f in applied.after.functions)


def test_a_weight_from_the_call(apply):
    applied = apply(with_function(CALL, UP, **W), InlineFunctions)
    assert applied.changes == ("f:up: inlined",)
    assert functions(applied) == []
    assert applied.conv_transpose.input[:] == ["x", "w"]
    assert applied.conv_transpose.output[:] == ["y"]
    assert_same(applied.before, applied.after)


def test_a_bias_from_the_call(apply):
    body = f"""up (a, b) => (c) {{ w = Constant <value = float[3,4,5] {braces(W["w"])}> ()
    c = ConvTranspose <strides=[2]> (a, w, b) }}"""
    applied = apply(with_function(CALL.replace("w)", "b)"), body, b=array(4)), InlineFunctions)
    assert functions(applied) == []
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize(
    ("call", "declared", "wanted"),
    [("<s=[3]>", "<s>", [3]), ("", "<s: ints = [2]>", [2]), ("<s=[1]>", "<s: ints = [2]>", [1])],
)
def test_attributes_from_the_call_and_defaults(apply, call, declared, wanted):
    before = with_function(
        CALL.replace("f.up", f"f.up {call}"),
        f"up {declared} (a, b) => (c) {{ c = ConvTranspose <strides: ints = @s> (a, b) }}",
        **W,
    )
    applied = apply(before, InlineFunctions)
    assert applied.attributes == {"strides": wanted}
    assert_same(before, applied.after, reference=applied.after)


def test_an_attribute_that_the_call_leaves_out(apply):
    before = with_function(
        CALL, "up <s> (a, b) => (c) { c = ConvTranspose <strides: ints = @s> (a, b) }", **W
    )
    applied = apply(before, InlineFunctions)
    assert applied.attributes == {}
    assert_same(before, applied.after, reference=applied.after)


def test_an_input_that_the_call_leaves_out(apply):
    before = with_function(
        CALL, "up (a, b, d) => (c) { c = ConvTranspose <strides=[2]> (a, b, d) }", **W
    )
    applied = apply(before, InlineFunctions)
    assert_same(before, applied.after, reference=applied.after)


def test_weight_arithmetic_between_call_and_node(apply):
    body = """up (a, v, g) => (c) { n = ReduceL2 <axes=[1,2], keepdims=1> (v) d = Div (v, n)
    w = Mul (d, g) c = ConvTranspose <strides=[2]> (a, w) }"""
    call = "g (float[1,3,7] x) => (float[] y) { y = f.up (x, w, s) }"
    applied = apply(with_function(call, body, s=array(3, 1, 1), **W), *ALL, target="portable")
    assert "Div" not in op_types(applied.after)
    assert_same(applied.before, applied.after)


def test_callers_are_inlined_too_and_their_sizes_are_known(apply):
    text = """g (float[1,3,7,5] x) => (float[] y) { y = f.top (x, w) }
    <domain: "f", opset_import: ["" : 17]> up (a, b) => (c)
    { c = ConvTranspose <output_shape=[15,11], strides=[2,2]> (a, b) }
    <domain: "f", opset_import: ["" : 17, "f" : 1]> top (a, b) => (c)
    { h = Relu (a) n = Neg (b) d = f.up (h, n) c = Abs (d) }"""
    before = model(text, domains='"f" : 1', w=array(3, 4, 3, 3))
    applied = apply(before, InlineFunctions, CanonicalPads)
    assert functions(applied) == []
    assert "output_shape" not in applied.attributes
    assert_same(before, applied.after)


def test_each_call_gets_its_own_weight(apply):
    call = """g (float[1,3,7] x) => (float[] y, float[] z)
    { y = f.up (x, w) n = Neg (w) z = f.up (x, n) }"""
    applied = apply(with_function(call, UP, **W), *ALL, target="portable")
    assert functions(applied) == []
    assert_same(applied.before, applied.after)


def test_an_unnamed_output_of_the_call(apply):
    call = 'g (float[1,3,7] x) => (float[] y) { y, "" = f.up (x, w) }'
    body = "up (a, b) => (c, d) { c = ConvTranspose <strides=[2]> (a, b) d = Neg (a) }"
    applied = apply(with_function(call, body, **W), InlineFunctions)
    assert all(o for n in applied.nodes for o in n.output)
    assert_same(applied.before, applied.after)


def test_names_of_subgraphs_are_not_taken(apply):
    call = """g (float[1,3,7] x, bool k) => (float[] y) {
      u = f.up (x, w)
      y = If (k) <then_branch = t () => (float[] h) { h = Relu (u) },
                  else_branch = e () => (float[] i) { i = Neg (u) }> }"""
    body = """up (a, b) => (c)
    { h = Identity (a) i = ConvTranspose <strides=[2]> (h, b) c = Identity (i) }"""
    applied = apply(with_function(call, body, **W), *ALL, target="portable")
    for flag in (True, False):
        assert_same(applied.before, applied.after, {"x": array(1, 3, 7), "k": np.array(flag)})


def test_a_call_in_a_subgraph(apply):
    call = """g (float[1,3,7] x, bool k) => (float[] y) {
      h = Abs (x)
      y = If (k) <then_branch = t () => (float[] p) { p = f.up (x, w) },
                  else_branch = e () => (float[] q) { q = f.up (h, w) }> }"""
    body = "up (a, b) => (c) { h = Neg (a) c = ConvTranspose <strides=[2]> (h, b) }"
    applied = apply(with_function(call, body, **W), *ALL, target="portable")
    assert functions(applied) == []
    assert "ConvTranspose" not in op_types(applied.after)
    for flag in (True, False):
        assert_same(applied.before, applied.after, {"x": array(1, 3, 7), "k": np.array(flag)})


def test_a_node_in_a_subgraph_of_a_function(apply):
    body = """up (a, b) => (c) {
      k = Constant <value = bool {1}> ()
      c = If (k) <then_branch = t () => (p) { p = ConvTranspose <strides=[2]> (a, b) },
                  else_branch = e () => (q) { q = ConvTranspose <strides=[2]> (a, b) }> }"""
    applied = apply(with_function(CALL, body, **W), *ALL, target="portable")
    assert functions(applied) == []
    assert "ConvTranspose" not in op_types(applied.after)
    assert_same(applied.before, applied.after)


# Where it does not apply.


def assert_stays(apply, before):
    applied = apply(before, InlineFunctions)
    assert applied.changes == ()
    assert list(map(to_text, applied.after.functions)) == list(map(to_text, before.functions))
    return applied


def test_not_a_function_that_holds_its_weight(apply):
    body = f"""up (a) => (c) {{ w = Constant <value = float[3,4,5] {braces(W["w"])}> ()
    c = ConvTranspose <strides=[2]> (a, w) }}"""
    applied = assert_stays(apply, with_function(CALL.replace(", w", ""), body))
    assert_same(applied.before, applied.after)


def test_not_a_function_without_conv_transpose(apply):
    assert_stays(
        apply, with_function(CALL, "up (a, b) => (c) { c = Conv (a, b) }", w=array(4, 3, 2))
    )


def test_not_another_operator_of_that_name(apply):
    body = '<domain: "f", opset_import: ["" : 17, "o" : 1]> up (a, b) => (c)'
    text = f"{CALL}\n{body} {{ c = o.ConvTranspose (a, b) }}"
    assert_stays(apply, model(text, domains='"f" : 1, "o" : 1', **W))


def test_not_a_function_of_another_opset(apply):
    assert_stays(apply, with_function(CALL, UP, function_opset=16, **W))


def test_not_a_function_that_hands_an_input_on(apply):
    call = "g (float[1,3,7] x) => (float[] y, float[] z) { y, z = f.up (x, w) }"
    body = "up (a, b) => (c, a) { c = ConvTranspose <strides=[2]> (a, b) }"
    applied = assert_stays(apply, with_function(call, body, **W))
    assert [i.name for i in applied.after.graph.input] == ["x"]


def test_not_a_function_that_gives_one_value_twice(apply):
    call = "g (float[1,3,7] x) => (float[] y, float[] z) { y, z = f.up (x, w) }"
    assert_stays(apply, with_function(call, UP.replace("=> (c)", "=> (c, c)"), **W))


def test_not_a_call_that_leaves_outputs_away(apply):
    body = "up (a, b) => (c, d) { c = ConvTranspose <strides=[2]> (a, b) d = Neg (a) }"
    assert_stays(apply, with_function(CALL, body, **W))


def test_not_a_call_with_a_graph(apply):
    body = "up <z> (a, b) => (c) { c = ConvTranspose <strides=[2]> (a, b) }"
    before = with_function(CALL, body, **W)
    graph = onnx.helper.make_graph([], "empty", [], [])
    before.graph.node[0].attribute.append(onnx.helper.make_attribute("z", graph))
    assert_stays(apply, before)


def test_not_a_function_that_nothing_calls(apply):
    text = "g (float[1,3,7] x) => (float[] y) { y = ConvTranspose (x, w) }"
    assert_stays(apply, with_function(text, UP, **W))
