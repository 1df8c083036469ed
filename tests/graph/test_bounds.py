"""Sizes and vectors of sizes, followed through the operators of a graph."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from convt_onnx.graph.bounds import Affine
from convt_onnx.graph.bounds_sizes import Sizes
from convt_onnx.graph.bounds_vectors import Vectors, trace_pads
from convt_onnx.graph.node import read_node

from .building import array, ints, model


def read(nodes, inputs="float[N,3,H,W] x", name="z", shapes=None, opset=17, **arrays):
    """The elements of a vector of a model, as text."""
    text = f"g ({inputs}) => (int64[] {name}) {{ {nodes} }}"
    graph = ir.from_proto(model(text, opset=opset, **arrays)).graph
    known = Sizes(8, {"x": ("N", 3, "H", "W")} if shapes is None else shapes)
    trace_pads(8, known)
    found = Vectors(8, known).vector(graph.outputs[0])
    return None if found is None else [None if a is None else str(a) for a in found]


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ("z = Shape (x)", ["N", "3", "H", "W"]),
        ("z = Shape <start=-2> (x)", ["H", "W"]),
        ("y = Transpose <perm=[0,2,3,1]> (x) z = Shape (y)", ["N", "H", "W", "3"]),
        ("y = Transpose (x) z = Shape (y)", ["W", "H", "3", "N"]),
        ("y = Relu (x) v = Sigmoid (y) z = Shape (v)", ["N", "3", "H", "W"]),
        ("y = Mul (x, m) z = Shape (y)", ["N", "3", "H", "W"]),
        ("y = Concat <axis=1> (x, x) z = Shape <start=2> (y)", ["H", "W"]),
        ("y = Conv <pads=[1,1,1,1]> (x, k) z = Shape (y)", ["N", "2", "H", "W"]),
        ("y = Conv <dilations=[1,2]> (x, k) z = Shape <start=2> (y)", ["H + -2", "W + -4"]),
        ("y = ConvTranspose <strides=[2,3]> (x, t) z = Shape (y)", ["N", "2", "2*H + 1", "3*W"]),
        (
            "y = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x) z = Shape <start=3> (y)",
            ["size(y, 3)"],
        ),
    ],
)
def test_sizes_are_traced(nodes, wanted):
    arrays = {"m": array(3, 1, 1), "k": array(2, 3, 3, 3), "t": array(3, 2, 3, 3)}
    assert read(nodes, **{n: a for n, a in arrays.items() if f" {n})" in nodes}) == wanted


S = "s = Shape <start=2> (x)"


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        (f"{S} z = Sub (s, one)", ["H + -1", "W + -1"]),
        (f"{S} c = Cast <to=6> (s) z = Cast <to=7> (c)", ["H", "W"]),
        (f"{S} a, b = Split <axis=0> (s) z = Concat <axis=0> (b, a)", ["W", "H"]),
        (f"{S} r = Reshape (s, col) t = Transpose (r) z = Reshape (t, minus)", ["H", "W"]),
        (f"{S} z = Slice (s, minus, low, zero, minus)", ["W", "H"]),
        (f"{S} g = Gather (s, zero) z = Expand (g, two)", ["H", "H"]),
        (f"{S} g = Gather (s, zero) z = Tile (g, two)", ["H", "H"]),
        ("z = ConstantOfShape <value=int64[1] {3}> (two)", ["3", "3"]),
        (f"{S} f = Neg (s) z = Max (f, zero)", ["0", "0"]),
        (f"{S} d = Div (s, two) z = Concat <axis=0> (d, one)", [None, None, "1"]),
        (f"{S} z = Concat <axis=0> (u, s)", [None, "H", "W"]),
    ],
)
def test_vectors(nodes, wanted):
    arrays = {
        "zero": ints(0),
        "one": ints(1),
        "two": ints(2),
        "minus": ints(-1),
        "low": ints(-99),
        "col": ints(2, 1),
    }
    used = {n: a for n, a in arrays.items() if f"{n}," in nodes or f"{n})" in nodes}
    assert read(nodes, "float[N,3,H,W] x, int64[1] u", **used) == wanted


def test_floats_are_read_where_they_are_exact():
    f = array(1) * 0 + 2
    nodes = "c = Cast <to=1> (i) m = Mul (c, f) d = Div (m, g) z = Cast <to=7> (d)"
    assert read(nodes, f=f, g=f * 2, i=ints(6)) == ["3"]
    assert read(nodes, f=f, g=f * 2, i=ints(5)) == ["item(z, 0)"]
    assert read(nodes, f=f, g=f * 2, i=ints(1 << 40)) == ["item(z, 0)"]


def test_numbers_that_the_type_does_not_hold():
    assert read("c = Cast <to=6> (i) z = Cast <to=7> (c)", i=ints((1 << 63) - 1)) == ["item(z, 0)"]
    assert read("z = Add (i, i)", i=ints((1 << 63) - 1)) == [None]


ROUNDED = "s = Shape (x) f = Cast <to=1> (s) c = Cast <to=7> (f)"


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ("z = Identity (c)", ["item(c, 0)", "3", "item(c, 2)", "item(c, 3)"]),
        (
            "d = Sub (c, s) z = Mul (d, two)",
            ["2*item(c, 0) + -2*N", "0", "-2*H + 2*item(c, 2)", "-2*W + 2*item(c, 3)"],
        ),
        ("d = Sub (c, s) e = Add (d, s) z = Sub (e, c)", ["0", "0", "0", "0"]),
        # What is multiplied may wrap where the number has no bounds.
        ("d = Mul (c, two) z = Div (d, two)", [None, "3", None, None]),
        ("z = Max (c, two)", [None, "3", None, None]),
        (
            "i = Cast <to=6> (c) z = Cast <to=7> (i)",
            ["item(z, 0)", "3", "item(z, 2)", "item(z, 3)"],
        ),
    ],
)
def test_a_size_that_was_rounded_is_a_symbol(nodes, wanted):
    arrays = {"two": ints(2)} if "two" in nodes else {}
    found = read(f"{ROUNDED} {nodes}", **arrays)
    assert [None if t is None else sorted(t.split(" + ")) for t in found] == [
        None if t is None else sorted(t.split(" + ")) for t in wanted
    ]


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ('y = Pad <mode="edge"> (x, p) z = Shape <start=2> (y)', ["H + 1", "W + 4"]),
        ("y = Pad (x, q, , a) z = Shape <start=2> (y)", ["H", "W + -2"]),
        ("y = Pad (x, u) z = Shape <start=2> (y)", ["size(y, 2)", "size(y, 3)"]),
        ("y = Concat <axis=-1> (x, x, k) z = Shape <start=2> (y)", ["H", "2*W + 3"]),
        ("y = Squeeze (x, b) z = Shape (y)", ["N", "H", "W"]),
        ("v = Unsqueeze (x, c) z = Shape (v)", ["N", "1", "3", "H", "W", "1"]),
        ("v = Unsqueeze (x, c) y = Squeeze (v, c) z = Shape (y)", ["N", "3", "H", "W"]),
    ],
)
def test_sizes_behind_pads_and_of_moved_axes(nodes, wanted):
    known = {
        "p": ints(0, 0, 1, 3, 0, 0, 0, 1),
        "q": ints(-1, -1),
        "a": ints(-1),
        "b": ints(1),
        "c": ints(-1, 1),
        "k": array(1, 3, 1, 3),
    }
    words = set("".join(c if c.isalnum() else " " for c in nodes).split())
    arrays = {n: v for n, v in known.items() if n in words}
    assert read(nodes, "float[N,3,H,W] x, int64[8] u", **arrays) == wanted


def test_a_size_behind_a_pad_by_what_was_rounded():
    nodes = f"""{ROUNDED} d = Sub (c, s) g = Gather (d, i) o = Concat <axis=0> (zero, g)
    y = Pad (x, o, , a) z = Shape <start=2> (y)"""
    arrays = {"i": ints(3), "zero": ints(0), "a": ints(3)}
    assert read(nodes, **arrays) == ["H", "item(c, 3)"]


def test_a_sum_is_as_long_as_an_operand_of_several_rows():
    rows = "t = ConvTranspose <strides=[2,2]> (x, w)"
    nodes = f"{rows} v = Add (t, u) z = Shape <start=2> (v)"
    inputs = "float[N,3,H,W] x, float[N,3,P,Q] u"
    shapes = {"x": ("N", 3, "H", "W"), "u": ("N", 3, "P", "Q")}
    assert read(nodes, inputs, shapes=shapes, w=array(3, 3, 3, 2)) == ["2*H + 1", "2*W"]
    nodes = "v = Add (x, u) z = Shape <start=2> (v)"
    assert read(nodes, inputs, shapes=shapes) == ["size(v, 2)", "size(v, 3)"]


@pytest.mark.parametrize(
    "nodes",
    [
        "z = NonZero (x)",
        "s = Shape (x) z = Gather (s, nine)",
        "z = Expand (nine, huge)",
        "z = ConstantOfShape (huge)",
        "s = Shape (x) z = Reshape (s, nine)",
    ],
)
def test_what_is_not_followed(nodes):
    arrays = {"nine": ints(9), "huge": ints(1 << 40)}
    assert read(nodes, **{n: a for n, a in arrays.items() if n in nodes}) is None


def test_a_long_chain_of_operators_ends_in_a_symbol_of_its_own():
    nodes = " ".join(f"v{i + 1} = Relu (v{i})" for i in range(99))
    graph = ir.from_proto(model(f"g (float[N] v0) => (float[] v99) {{ {nodes} }}")).graph
    found = Sizes(8, {"v0": ("N",)}).size(graph.outputs[0], 0)
    assert found.value is None
    assert str(found).startswith("size(v")


def test_a_value_that_was_rewritten_has_another_symbol():
    text = "g (float[] x) => (float[] y) { y = ConvTranspose <pads=[1,1]> (x, w) }"
    graph = ir.from_proto(model(text, w=array(3, 4, 5))).graph
    node, x = graph[0], graph.inputs[0]
    known = Sizes(8, {})
    before = known.size(x, 2)
    assert known.size(x, 2) == before
    known.forget([x], read_node(node, "", 8, {}))
    assert known.size(x, 2) != before


def test_sizes_that_are_kept_rest_on_no_assumption():
    """Where another node needs two rows, no less are padded; elsewhere one may be."""
    nodes = """s = Shape <start=2> (x) m = Sub (s, two) p = Max (m, zero)
    o = Concat <axis=0> (zero, p) y = Pad (x, o, , a) z = Shape <start=2> (y)"""
    arrays = {"two": ints(2), "zero": ints(0), "a": ints(2)}
    proto = model(f"g (float[N,3,L] x) => (int64[] z) {{ {nodes} }}", **arrays)
    graph = ir.from_proto(proto).graph
    y = next(n.outputs[0] for n in graph if n.op_type == "Pad")
    known = Sizes(8, {"x": ("N", 3, "L")})
    trace_pads(8, known)
    known.assume([Affine.symbol("L")], [2])
    assert Vectors(8, known).vector(graph[2].outputs[0]) == [Affine.symbol("L").plus(-2)]
    assert str(known.size(y, 2)) == "size(y, 2)"
