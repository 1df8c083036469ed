from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx.passes.fold_weights import FoldWeights

from ..graph.building import (
    array,
    as_inputs,
    braces,
    initializer_names,
    ints,
    model,
    op_types,
    with_function,
)
from ..verify.judging import assert_same, oracle, random_feeds

W = array(3, 4, 5)


def graph(nodes, *, inputs="", outputs="", call="(x, w)"):
    return f"""g (float[1,3,7] x{inputs}) => (float[] y{outputs})
    {{ {nodes} [a] y = ConvTranspose <strides=[2]> {call} }}"""


def weight_norm(axes):
    return f"n = ReduceL2 {axes} d = Div (v, n) w = Mul (g, d)"


CHAINS = {
    "weight_norm": (weight_norm("<axes=[1,2], keepdims=1> (v)"), {"v": W, "g": array(3, 1, 1)}),
    "weight_norm, axes as input": (
        weight_norm("(v, i)"),
        {"v": W, "g": array(3, 1, 1), "i": ints(1, 2)},
    ),
    "weight_norm as TorchScript decomposes it": (
        """p = Abs (v) e = Constant <value = float {2}> () q = Pow (p, e)
        s = ReduceSum (q, i) h = Constant <value = float {0.5}> () n = Pow (s, h)
        d = Div (g, n) w = Mul (v, d)""",
        {"v": W, "g": array(3, 1, 1), "i": ints(1, 2)},
    ),
    "spectral_norm": (
        """m = Reshape (v, to) b = MatMul (m, q) s = MatMul (p, b) w = Div (v, s)""",
        {"v": W, "to": ints(3, 20), "p": array(3), "q": array(20)},
    ),
    "Identity": ("w = Identity (v)", {"v": W}),
    "Cast": ("w = Cast <to=1> (v)", {"v": W.astype(np.float16)}),
    "Transpose": ("w = Transpose <perm=[1,0,2]> (v)", {"v": array(4, 3, 5)}),
    "Reshape": ("w = Reshape (v, to)", {"v": array(60), "to": ints(3, 4, -1)}),
    "Unsqueeze": ("w = Unsqueeze (v, i)", {"v": array(3, 4), "i": ints(2)}),
    "Expand": ("w = Expand (v, to)", {"v": array(1, 1, 5), "to": ints(3, 4, 5)}),
    "Tile": ("w = Tile (v, by)", {"v": array(3, 1, 5), "by": ints(1, 4, 1)}),
    "ScatterND": (
        "w = ScatterND (z, i, u)",
        {"z": 0 * W, "i": ints(0, 1, 2, 0).reshape(2, 2), "u": array(2, 5)},
    ),
    "MatMul": ("w = MatMul (a, b)", {"a": array(3, 4, 2), "b": array(3, 2, 5)}),
    "Constant": (f"w = Constant <value = float[3,4,5] {braces(W)}> ()", {}),
    "no leaf": ("w = ConstantOfShape <value = float[1] {0.5}> (to)", {"to": ints(3, 4, 5)}),
}


def assert_folded(applied):
    """The weight is one initializer; nothing that made it is left; the values are right."""
    assert applied.conv_transpose.input[1] in initializer_names(applied.after)
    assert [n.op_type for n in applied.nodes] == ["ConvTranspose"]
    assert initializer_names(applied.after) == {applied.conv_transpose.input[1]}
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize("name", [name for name in CHAINS if name != "Constant"])
def test_a_chain_of_constants(apply, name):
    nodes, arrays = CHAINS[name]
    opset = 18 if "as input" in name else 17
    applied = apply(model(graph(nodes), opset=opset, **arrays), FoldWeights)
    assert applied.changes == ("a: w folded",)
    assert_folded(applied)


def test_a_constant_node_is_a_constant_already(apply):
    assert apply(model(graph(CHAINS["Constant"][0])), FoldWeights).changes == ()


def test_a_bias(apply):
    nodes = "b = Mul (p, q)"
    before = model(graph(nodes, call="(x, w, b)"), w=W, p=array(4), q=array(1))
    applied = apply(before, FoldWeights)
    assert applied.changes == ("a: b folded",)
    assert_same(before, applied.after)


def test_a_bias_made_from_the_computed_weight(apply):
    nodes = "w = Neg (v) b = ReduceMean <axes=[0,2], keepdims=0> (w)"
    applied = apply(model(graph(nodes, call="(x, w, b)"), v=W), FoldWeights)
    assert applied.changes == ("a: w folded", "a: b folded")
    assert [n.op_type for n in applied.nodes] == ["ConvTranspose"]
    assert_same(applied.before, applied.after)


def test_a_weight_that_two_nodes_read_stays_shared(apply):
    text = """g (float[1,3,7] x) => (float[] y, float[] z) {
      w = Neg (v) y = ConvTranspose (x, w) z = ConvTranspose <strides=[2]> (x, w) }"""
    applied = apply(model(text, v=W), FoldWeights)
    first, second = applied.nodes
    assert first.input[1] == second.input[1]
    assert len(applied.after.graph.initializer) == 1
    assert_same(applied.before, applied.after)


def test_channel_counts_that_the_shape_gives(apply):
    nodes = """s = Shape (x) c = Gather (s, one) m = Constant <value = int64[2] {1, 5}> ()
    r = Unsqueeze (c, zero) t = Concat <axis=0> (r, m) w = Expand (v, t)"""
    arrays = {"v": array(1, 1, 5), "one": np.array(1), "zero": ints(0)}
    text = (
        graph(nodes)
        .replace("float[1,3,7]", "float[N,3,L]")
        .replace("strides=", "group=3, strides=")
    )
    applied = apply(model(text, **arrays), FoldWeights)
    assert [n.op_type for n in applied.nodes] == ["ConvTranspose"]
    assert_same(applied.before, applied.after)


def test_channel_counts_of_a_value_that_is_inferred(apply):
    nodes = """h = Conv (x, k) s = Shape <start=1, end=2> (h)
    m = Constant <value = int64[2] {1,5}> ()
    t = Concat <axis=0> (s, m) w = Expand (v, t)"""
    text = graph(nodes, call="(h, w)").replace("float[1,3,7]", "float[N,3,L]")
    applied = apply(model(text, v=array(1, 1, 5), k=array(2, 3, 3)), FoldWeights)
    assert "Expand" not in op_types(applied.after)
    assert_same(applied.before, applied.after)


def test_what_others_read_of_the_chain_stays(apply):
    nodes = "u = Abs (v) w = Neg (u) z = Exp (u)"
    applied = apply(model(graph(nodes, outputs=", float[] z"), v=W), FoldWeights)
    assert [n.op_type for n in applied.nodes] == ["Abs", "Exp", "ConvTranspose"]
    assert "v" in initializer_names(applied.after)
    assert_same(applied.before, applied.after)


def test_another_reader_of_the_weight_keeps_the_computed_one(apply):
    nodes = "w = Neg (v) z = Abs (w)"
    applied = apply(model(graph(nodes, outputs=", float[] z"), v=W), FoldWeights)
    assert [n.op_type for n in applied.nodes] == ["Neg", "Abs", "ConvTranspose"]
    assert_same(applied.before, applied.after)


def test_a_value_of_the_chain_that_is_an_output_stays(apply):
    applied = apply(model(graph("w = Neg (v)", outputs=", float[3,4,5] w"), v=W), FoldWeights)
    assert [n.op_type for n in applied.nodes] == ["Neg", "ConvTranspose"]
    assert [o.name for o in applied.after.graph.output] == ["y", "w"]
    assert_same(applied.before, applied.after)


def test_what_was_unused_before_is_not_touched(apply):
    nodes = "w = Neg (v) unused = Exp (v)"
    applied = apply(model(graph(nodes), v=W, idle=array(2)), FoldWeights)
    assert "Exp" in op_types(applied.after)
    assert {"v", "idle"} < initializer_names(applied.after)


@pytest.mark.parametrize("ir_version", [3, 4, 9])
def test_initializers_that_are_inputs(apply, ir_version):
    before = model(graph("w = Neg (v)"), opset=8, ir_version=ir_version, v=W)
    applied = apply(as_inputs(before, "v"), FoldWeights)
    assert [i.name for i in applied.after.graph.input] == ["x", "v"]
    if ir_version > 3:  # a caller may feed another one
        assert applied.changes == ()
    else:
        assert [n.op_type for n in applied.nodes] == ["Constant", "ConvTranspose"]
        assert initializer_names(applied.after) == {"v"}
        assert_same(before, applied.after, random_feeds(before))


# Where it does not apply.


@pytest.mark.parametrize("zero_point", [True, False])
def test_not_a_quantised_weight(apply, zero_point):
    nodes = f"w = DequantizeLinear <axis=1> (q, s{', z' * zero_point})"
    parts = {"s": abs(array(4)), "z": np.arange(4).astype(np.int8)}
    integers = (100 * W).astype(np.int8)
    assert apply(model(graph(nodes), q=integers, **parts), FoldWeights).changes == ()


@pytest.mark.parametrize(
    "nodes",
    [
        "k = ReduceMean <keepdims=1> (x) w = Mul (v, k)",
        "w = Mul (v, s)",
        "r = RandomNormal <shape=[3,4,5], seed=1.0> () w = Mul (v, r)",
        "r = RandomUniformLike (v) w = Mul (v, r)",
        "r = Bernoulli (p) w = Mul (v, r)",
        "r = Dropout (v) w = Neg (r)",
        "w = o.Scale (v)",
        'r = Resize <mode="nearest"> (v, , f) w = Neg (r)',
    ],
    ids="input scalar random like bernoulli dropout custom resize".split(),
)
def test_not_what_is_not_known_to_be_constant(apply, nodes):
    arrays = {"v": W, "p": np.full((3, 4, 5), 0.5, np.float32), "f": np.ones(3, np.float32)}
    text = graph(nodes, inputs=", float s")
    before = model(text, domains='"o" : 1', **arrays)
    applied = apply(before, FoldWeights)
    assert applied.changes == ()
    assert op_types(applied.after) == op_types(before)


def test_not_where_the_shape_that_it_reads_is_open(apply):
    nodes = "s = Shape (x) k = ReduceProd <keepdims=0> (s) f = Cast <to=1> (k) w = Mul (v, f)"
    text = graph(nodes).replace("float[1,3,7]", "float[N,3,L]")
    assert apply(model(text, v=W), FoldWeights).changes == ()


def test_not_an_attribute_of_the_call(apply):
    before = with_function(
        "g (float[1,3,7] x) => (float[] y) { y = f.up <p=[1,0,2]> (x) }",
        f"""up <p> (x) => (y) {{ v = Constant <value = float[3,4,5] {braces(W)}> ()
        t = Transpose <perm: ints = @p> (v) w = Transpose <perm=[1,0,2]> (t)
        y = ConvTranspose (x, w) }}""",
    )
    assert apply(before, FoldWeights).changes == ()


def test_not_the_weight_of_a_node_that_is_skipped(apply):
    applied = apply(model(graph("w = Neg (v)"), v=W), FoldWeights, skip=["a"])
    assert applied.changes == ()
    assert op_types(applied.after) == ["Neg", "ConvTranspose"]


def test_not_an_operator_that_fails(apply):
    before = model(graph("w = Reshape (v, to)"), v=W, to=ints(7, 7, 7))
    assert apply(before, FoldWeights).changes == ()


def test_the_element_type_of_the_weight_is_kept(apply):
    before = model(graph("w = Neg (v)").replace("float", "float16"), v=W.astype(np.float16))
    applied = apply(before, FoldWeights)
    (tensor,) = applied.after.graph.initializer
    assert tensor.data_type == onnx.TensorProto.FLOAT16
    wanted = oracle(before, random_feeds(before))["y"]
    np.testing.assert_array_equal(oracle(applied.after, random_feeds(before))["y"], wanted)
