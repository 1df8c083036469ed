"""Nodes in every place, weights from everywhere, names of every kind."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from .graph.building import array, as_inputs, braces, initializer_names, model, with_function
from .verify.judging import assert_close, oracle, run

TARGETS = ("ort-cpu", "portable")
W = array(3, 4, 5)
C33 = array(3, 3, 1)
UP = "ConvTranspose <strides=[2]>"


@pytest.fixture(params=TARGETS)
def target(request):
    return request.param


def graph(nodes, inputs="float[N,3,L] x", outputs="float[A,B,C] y", **arrays):
    return model(f"g ({inputs}) => ({outputs}) {{ {nodes} }}", **arrays)


X = [{"x": array(1, 3, 7)}, {"x": array(2, 3, 1)}]
TWO = "float[A,B,C] y, float[D,E,F] z"


@pytest.mark.parametrize(
    ("nodes", "outputs", "arrays"),
    [
        (f"y = {UP} (x, w) z = {UP} (x, w)", TWO, {"w": W}),
        (f"y = {UP} (x, w) z = ConvTranspose <strides=[3], pads=[1,1]> (x, w)", TWO, {"w": W}),
        (f"h = {UP} (x, w) y = {UP} (h, v)", "float[A,B,C] y", {"w": W, "v": array(4, 2, 3)}),
        (f"y = {UP} (x, w) z = Relu (y)", TWO, {"w": W}),
        (f"y = {UP} (x, w) z = {UP} (y, v)", TWO, {"w": W, "v": array(4, 2, 3)}),
        (f"h = {UP} (x, w) a = Neg (h) b = Exp (h) y = Add (a, b)", "float[A,B,C] y", {"w": W}),
        (f"h = {UP} (x, w) y = Mul (h, h)", "float[A,B,C] y", {"w": W}),
        (f"h = {UP} (x, w) y = Conv (h, v)", "float[A,B,C] y", {"w": W, "v": array(2, 4, 3)}),
        (f"y = {UP} (x, w) z = Conv (x, w)", TWO, {"w": C33}),
        (f"h = {UP} (k, w) y = Add (x, h)", "float[A,B,C] y", {"w": C33, "k": C33[:1]}),
        (f"y = {UP} (x, w, ) ", "float[A,B,C] y", {"w": W}),
    ],
    ids=[
        "shared weight", "shared weight, other strides", "two in a row", "output and consumer",
        "two outputs in a row", "two consumers", "one consumer twice", "weightless tail",
        "weight of a Conv too", "constant input", "empty bias",
    ],
)  # fmt: skip
def test_in_the_main_graph(optimized, target, nodes, outputs, arrays):
    found = optimized(graph(nodes, outputs=outputs, **arrays), target)
    assert target == "ort-cpu" or "ConvTranspose" not in found.ops
    for feeds in X:
        found.check(feeds)


def test_an_output_goes_into_an_if(optimized, target):
    nodes = f"""h = {UP} (x, w) y = If (c) <
      then_branch = t () => (float[A,B,C] p) {{ p = {UP} (h, v) }},
      else_branch = e () => (float[D,E,F] q) {{ q = Relu (h) }}>"""
    proto = graph(nodes, "float[N,3,L] x, bool c", w=W, v=array(4, 2, 3))
    found = optimized(proto, target)
    assert target == "ort-cpu" or "ConvTranspose" not in found.ops
    for flag in (True, False):
        found.check({"x": array(1, 3, 7), "c": np.array(flag)})


def test_branches_that_use_the_same_names(optimized, target):
    nodes = f"""y = If (c) <
      then_branch = t () => (float[A,B,C] p) {{
        h = MaxPool <kernel_shape=[2], strides=[2]> (x) p = {UP} (h, w) }},
      else_branch = e () => (float[D,E,F] q) {{ h = Relu (x) q = {UP} (h, w) }}>"""
    proto = graph(nodes, "float[1,3,8] x, bool c", w=W)
    found = optimized(proto, target, forms={"all": "phases"})
    assert "ConvTranspose" not in found.ops
    for flag in (True, False):
        found.check({"x": array(1, 3, 8), "c": np.array(flag)})


def test_a_scan_body(optimized, target):
    text = f"""g (float[5,1,3,4] xs, float[1,4,11] s) => (float[1,4,11] last, float[A,B,C,D] ys) {{
      last, ys = Scan <num_scan_inputs=1, body = b (float[1,4,11] state, float[1,3,4] x)
        => (float[1,4,11] next, float[1,4,11] y)
        {{ h = {UP} (x, w) next = Add (state, h) y = Tanh (next) }}> (s, xs) }}"""
    found = optimized(model(text, w=W), target)
    assert target == "ort-cpu" or "ConvTranspose" not in found.ops
    found.check()


def test_a_function_that_keeps_its_weight(optimized, target):
    main = f"g (float[N,3,L] x) => ({TWO}) {{ y = f.up (x) n = Neg (x) z = f.up (n) }}"
    body = f"""up (x) => (y) {{ w = Constant <value = float[3,4,5] {braces(W)}> () v = Neg (w)
    y = {UP} (x, v) }}"""
    found = optimized(with_function(main, body), target)
    assert [f.name for f in found.after.functions] == ["up"]
    assert target == "ort-cpu" or "ConvTranspose" not in found.ops
    for feeds in X:
        found.check(feeds)


def test_a_function_that_takes_its_weight_from_the_call(optimized, target):
    main = "g (float[N,3,L] x) => (float[A,B,C] y) { y = f.up <s=[2]> (x, w) }"
    body = "up <s> (a, b) => (c) { c = ConvTranspose <strides: ints = @s> (a, b) }"
    found = optimized(with_function(main, body, w=W), target)
    assert not found.after.functions
    assert list(found.reasons.values()) != ["CT106"]
    for feeds in X:
        found.check(feeds)


# Weights that the model computes.


def test_a_weight_that_is_an_input(optimized, target):
    proto = graph(f"y = {UP} (x, w, b)", "float[N,3,L] x, float[3,4,5] w, float[4] b")
    found = optimized(proto, target)
    assert ("ConvTranspose" in found.ops) == (target == "ort-cpu")
    assert list(found.reasons.values()) == ["CT104" if target == "ort-cpu" else "CT202"]
    found.check({"x": array(2, 3, 7), "w": W, "b": array(4)})


def test_a_weight_that_may_be_overridden(optimized, target):
    proto = as_inputs(graph(f"y = {UP} (x, w)", w=W), "w")
    found = optimized(proto, target)
    assert list(found.reasons.values()) == ["CT103" if target == "ort-cpu" else "CT202"]
    assert "w" in initializer_names(found.after)
    found.check({"x": array(2, 3, 7)})
    found.check({"x": array(2, 3, 7), "w": array(3, 4, 5, seed=9)})


def test_a_weight_without_a_shape_is_left_alone(optimized, target):
    proto = graph(f"[a] y = {UP} (x, w)", "float[N,3,L] x, float[3,4,K] w")
    found = optimized(proto, target)
    assert found.reasons == {"a": "CT102"}
    assert not found.result.modified
    found.check({"x": array(1, 3, 7), "w": W})


def test_the_output_of_one_node_is_the_weight_of_another(optimized, target):
    nodes = f"w = {UP} (z, v) y = {UP} (x, w)"
    found = optimized(graph(nodes, "float[3,2,1] z, float[N,3,L] x", v=array(2, 4, 3)), target)
    found.check({"z": array(3, 2, 1), "x": array(2, 3, 7)})


@pytest.mark.parametrize("batch", [1, 3])
def test_a_modulated_weight_for_each_sample(optimized, target, batch):
    """StyleGAN2: style times weight, normalised, batch folded into the groups."""
    nodes = f"""
      st = Reshape (style, st_shape) m = Mul (st, w)
      sq = Mul (m, m) sum = ReduceSum (sq, axes) eps = Add (sum, e) d = Sqrt (eps)
      n = Div (m, d) t = Transpose <perm=[0,2,1,3,4]> (n) wk = Reshape (t, w_shape)
      xk = Reshape (x, x_shape)
      [a] h = ConvTranspose <group={batch}, strides=[2,2]> (xk, wk)
      y = Reshape (h, y_shape)"""
    shapes = {
        "st_shape": (batch, 1, 4, 1, 1),
        "w_shape": (batch * 4, 5, 3, 3),
        "x_shape": (1, batch * 4, 6, 7),
        "y_shape": (batch, 5, 13, 15),
    }
    proto = graph(
        nodes,
        f"float[{batch},4,6,7] x, float[{batch},4] style",
        "float[A,B,C,D] y",
        w=array(1, 5, 4, 3, 3),
        axes=np.array([2, 3, 4]),
        e=np.float32([1e-8]),
        **{k: np.array(v) for k, v in shapes.items()},
    )
    found = optimized(proto, target)
    assert ("ConvTranspose" in found.ops) == (target == "ort-cpu")
    found.check()


# Names.


def test_nodes_without_names(optimized, target):
    found = optimized(graph(f"y = {UP} (x, w) z = {UP} (x, w)", outputs=TWO, w=W), target)
    assert list(found.forms) == ["ConvTranspose->y", "ConvTranspose->z"]
    found.check({"x": array(1, 3, 7)})


def test_nodes_of_one_name_are_told_apart(optimized):
    # ONNX Runtime does not load such a model; others do.
    proto = graph(f"[n] y = {UP} (x, w) [n] z = {UP} (x, w)", outputs=TWO, w=W)
    found = optimized(proto, "ort-cpu", forms={"n": "keep", "n#2": "phases"})
    assert found.forms == {"n": "keep", "n#2": "phases"}
    assert [n.output[0] for n in found.after.graph.node if n.op_type == "ConvTranspose"] == ["y"]
    feeds = {"x": array(1, 3, 7)}
    assert_close(run(found.after, feeds), oracle(proto, feeds))


def test_names_that_would_be_ours(optimized, target):
    nodes = f"""["ct/Conv"] "ct/Conv_out" = Neg (x)
      ["ct/Reshape"] h = Mul ("ct/Conv_out", "ct/weight")
      [ct] y = {UP} (h, w) ["ct/Slice"] z = Identity ("ct/shape")"""
    taken = {"ct/weight": array(1), "ct/shape": np.array([1, 2])}
    proto = graph(nodes, outputs="float[A,B,C] y, int64[2] z", w=W, **taken)
    found = optimized(proto, target)
    names = [o for n in found.after.graph.node for o in n.output]
    names += [t.name for t in found.after.graph.initializer]
    assert len(names) == len(set(names))
    found.check({"x": array(1, 3, 7)})


@pytest.mark.parametrize("name", ["[bold]x[/]", "a b/c:d=e,f", "日本", "{x}", "%s"])
def test_names_with_special_characters(optimized, target, name):
    proto = graph(f"[a] y = {UP} (x, w)", w=W)
    proto.graph.node[0].name = name
    found = optimized(proto, target)
    assert list(found.forms) == [name]
    found.check({"x": array(1, 3, 7)})


def test_nodes_of_others_pass_through(optimized, target):
    nodes = f"h = com.microsoft.Gelu (x) y = {UP} (h, w)"
    text = f"g (float[N,3,L] x) => (float[A,B,C] y) {{ {nodes} }}"
    proto = model(text, domains='"com.microsoft" : 1', w=W)
    found = optimized(proto, target)
    before, after = (
        [n for n in p.graph.node if n.domain] for p in (proto, found.after)
    )  # fmt: skip
    assert [onnx.printer.to_text(n) for n in after] == [onnx.printer.to_text(n) for n in before]
