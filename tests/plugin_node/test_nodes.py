"""Models whose nodes the plugin computes: what is written, that it runs, and the way back."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from ..graph.building import (
    array,
    braces,
    initializer_names,
    model,
    op_types,
    with_function,
)
from ..verify.judging import assert_same, random_feeds
from .plugging import GRAPH, UP, attributes, plugin_nodes, single


def test_one_name_for_each_set_of_attributes(plugged):
    before = single(
        """a = {up} (x, w, b)
        c = {up} (x, w2, b)
        d = {up} (x, w)
        y = Sum (a, c, d)""",
        w2=array(6, 4, 3, 4, seed=2),
    )
    after, _ = plugged(before)
    nodes = plugin_nodes(after)
    assert [n.op_type for n in nodes].count(nodes[0].op_type) == 2
    assert {n.op_type for n in nodes} == {f.name for f in after.functions}
    assert all(n.op_type.startswith("ConvT_") and not n.overload for n in nodes)
    assert all(attributes(n)["plugin_namespace"] == b"convt_onnx" for n in nodes)
    assert len(after.functions) == 2
    assert_same(before, after)


def test_one_type_with_overloads_for_a_custom_op_library(plugged):
    before = single("a = {up} (x, w, b) y = Sigmoid (a)")
    after, _ = plugged(before, "ort-cuda")
    (node,), (function,) = plugin_nodes(after), after.functions
    assert node.op_type == function.name == "FusedConvTranspose"
    assert node.overload == function.overload != ""
    assert after.ir_version >= 10
    assert_same(before, after)


ACTIVATIONS = {
    "y = Relu (a)": ("relu", 0, 0),
    "y = LeakyRelu <alpha = 0.25> (a)": ("leaky_relu", 0.25, 0),
    "y = Elu <alpha = 0.5> (a)": ("elu", 0.5, 0),
    "y = Sigmoid (a)": ("sigmoid", 0, 0),
    "y = Tanh (a)": ("tanh", 0, 0),
    "s = Sigmoid (a) y = Mul (a, s)": ("silu", 0, 0),
    "y = PRelu (a, slope)": ("prelu", 0, 0),
    "y = Clip (a, low, high)": ("clip", -0.5, 0.75),
    "y = Clip (a, low)": ("clip", -0.5, np.inf),
    "e = Div (a, root) f = Erf (e) g = Add (f, one) h = Mul (a, g) y = Mul (h, half)": (
        "gelu", 0, 0,
    ),
}  # fmt: skip
CONSTANTS = {
    "slope": array(8, 1, 1, seed=3),
    "low": np.float32(-0.5),
    "high": np.float32(0.75),
    "root": np.float32(2**0.5),
    "one": np.float32(1),
    "half": np.float32(0.5),
}


@pytest.mark.parametrize("text", ACTIVATIONS, ids=[a[0] for a in ACTIVATIONS.values()])
def test_a_residual_and_each_activation_are_taken_in(plugged, text):
    body = "c = {up} (x, w, b) r = {up} (x, w2) a = Add (c, r) " + text
    used = {n: v for n, v in CONSTANTS.items() if n in re.split(r"[(), ]+", text)}
    before = single(body, w2=array(6, 4, 3, 4, seed=2), **used)
    after, _ = plugged(before)
    assert [n.domain for n in after.graph.node] == ["convt_onnx"] * 2
    kept = attributes(after.graph.node[-1])
    kind, alpha, beta = ACTIVATIONS[text]
    assert (kept["activation"], kept["alpha"], kept["beta"]) == (kind.encode(), alpha, beta)
    assert kept["has_residual"] == 1
    assert_same(before, after, tolerance=2e-5)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = {up} (x, w) y = Relu (a) z = Tanh (a)", ["Relu", "Tanh"]),
        ("z = {up} (x, w) y = Relu (z)", ["Relu"]),
        ("a = {up} (x, w) c = Relu (a) r = Add (c, s) y = Identity (r)", ["Add", "Identity"]),
    ],
    ids=["two readers", "graph output", "activation before residual"],
)
def test_what_others_read_stops_the_fusing(plugged, body, left):
    outputs = "float[] y, float[] z" if "z" in body else "float[] y"
    text = GRAPH.replace("float[] y", outputs)
    text = text.replace("x)", "x, float[2, 4, 11, 14] s)").replace("n, 6, h", "2, 6, 5")
    arrays = {"w": array(6, 4, 3, 4)}
    before = model(text.format(body=body.format(up=UP)), **arrays)
    after, _ = plugged(before)
    assert [n.op_type for n in after.graph.node if not n.domain] == left
    assert_same(before, after)


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_types_and_ranks(plugged, dtype, axes):
    kind = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    sizes = "h, 5, 3".split(", ")[:axes]
    kernel = (3, 4, 2)[:axes]
    text = f"""g ({dtype}[n, 6, {", ".join(sizes)}] x) => ({dtype}[] y)
    {{ a = ConvTranspose <strides = {[2] * axes}> (x, w, b) y = Relu (a) }}"""
    arrays = {"w": array(6, 5, *kernel).astype(kind), "b": array(5).astype(kind)}
    before = model(text, opset=22, ir_version=10, **arrays)
    after, result = plugged(before)
    (node,) = plugin_nodes(after)
    assert [d.form for d in result.decisions] == ["plugin"]
    assert op_types(after)[: len(after.graph.node)] == [node.op_type]
    if dtype != "bfloat16":
        assert_same(before, after, tolerance=1e-5 if dtype == "float" else 2e-3)


def test_weights_of_the_run_are_packed_by_nodes(plugged):
    text = GRAPH.format(body=f"v = Neg (w) a = {UP} (x, v, b) y = Relu (a)")
    before = model(text.replace("x) =>", "x, float[6, 5, 3, 4] w) =>"), b=array(5, seed=1))
    after, _ = plugged(before)
    assert len(plugin_nodes(after)) == 1
    assert attributes(plugin_nodes(after)[0])["packed"] == 1
    assert_same(before, after)


def test_weights_that_two_nodes_share_stay_one(plugged):
    body = f"a = {UP} (x, w, b) c = {UP} (x, w) y = Add (a, c)"
    before = model(GRAPH.format(body=body), w=array(6, 4, 3, 4), b=array(4, seed=1))
    after, _ = plugged(before)
    assert len(plugin_nodes(after)) == 2
    assert len([n for n in initializer_names(after) if "packed" in n]) == 1
    assert_same(before, after)


BRANCHES = """g (float[n, 6, h, 5] x, bool c) => (float[] y) {
    y = If (c) <
        then_branch = t () => (float[a, d, e, f] p) {
            p0 = ConvTranspose <strides = [2, 2]> (x, w)
            p = Relu (p0)
        },
        else_branch = o () => (float[a, d, e, f] q) { q = f.up (x) }
    >
}
"""
FUNCTION = """up (v) => (z) {
    w = Constant <value = float[6, 2, 1, 2] %s> ()
    z0 = ConvTranspose <strides = [2, 2]> (v, w)
    z = Tanh (z0)
}"""


@pytest.mark.parametrize("target", ["tensorrt-rtx", "ort-cuda"])
def test_inside_a_branch_and_a_function(plugged, target):
    function = FUNCTION % braces(array(6, 2, 1, 2))
    before = with_function(BRANCHES, function, w=array(6, 5, 3, 4))
    after, _ = plugged(before, target)
    assert len(plugin_nodes(after)) == 2
    for value in (True, False):
        assert_same(before, after, random_feeds(before, c=np.array(value)))


def test_no_overload_is_called_from_a_function(plugged):
    """ONNX Runtime does not find it; this function has another opset, so it is not inlined."""
    function = FUNCTION % braces(array(6, 2, 1, 2))
    before = with_function(BRANCHES, function, function_opset=16, w=array(6, 5, 3, 4))
    after, _ = plugged(before, "ort-cuda", verify=False)
    assert [n.op_type for n in plugin_nodes(after)] == ["FusedConvTranspose"]
    (kept,) = (f for f in after.functions if f.name == "up")
    assert [n.op_type for n in kept.node] == ["Constant", "ConvTranspose", "Tanh"]


def test_inside_a_loop(plugged):
    text = """g (float[n, 6, h, 5] x) => (float[n, 6, h, 5] y) {
        count = Constant <value = int64 {3}> ()
        yes = Constant <value = bool {1}> ()
        y = Loop (count, yes, x) <body = b (int64 i, bool go, float[a, 6, d, 5] v)
            => (bool on, float[a, 6, d, 5] z) {
            on = Identity (go)
            z0 = ConvTranspose <pads = [1, 1, 1, 1]> (v, w)
            z = Tanh (z0)
        }>
    }"""
    before = model(text, w=array(6, 6, 3, 3))
    after, _ = plugged(before)
    assert len(plugin_nodes(after)) == 1
    assert_same(before, after, tolerance=3e-5)


def test_six_nodes_each_with_its_own_body(plugged):
    bodies, names = [], []
    for i, (k, s) in enumerate([(1, 2), (2, 2), (3, 1), (3, 2), (4, 2), (4, 3)]):
        bodies.append(f"y{i} = ConvTranspose <strides = [{s}, {s}]> (x, w{i})")
        names.append((f"w{i}", array(6, 2 + i, k, k, seed=i)))
    outputs = ", ".join(f"float[] y{i}" for i in range(6))
    text = f"g (float[n, 6, h, 5] x) => ({outputs}) {{ {' '.join(bodies)} }}"
    before = model(text, **dict(names))
    after, _ = plugged(before)
    assert len({n.op_type for n in plugin_nodes(after)}) == len(after.functions) == 6
    assert_same(before, after)
