"""Arithmetic along the channels of a transposed output, as Keras writes it."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.fold_neighbours import FoldNeighbours

from ..graph.building import array, model, op_types
from ..verify.judging import assert_same

UP = "[up] y = ConvTranspose <strides=[2,3], group={g}> (x, w, b)"
LAST = "t = Transpose <perm=[0,2,3,1]> (y)"


def build(nodes, *, group=1, outputs="float[] z", opset=17, **arrays):
    """Four channels, of two groups where so asked; 5 wide, so that nothing else is 4 long."""
    text = f"g (float[N,4,H,W] x) => ({outputs}) {{ {UP.format(g=group)} {nodes} }}"
    weight = array(4, 4 // group, 3, 5)
    return model(text, opset=opset, w=weight, b=array(4, seed=1), **arrays)


def assert_folds(apply, before, folded, left):
    applied = apply(before, FoldNeighbours)
    assert applied.changes == (f"up: {', '.join(folded)} folded",)
    assert op_types(applied.after) == ["ConvTranspose", *left]
    for sizes in ((2, 3), (5, 1)):
        assert_same(before, applied.after, {"x": array(2, 4, *sizes)})
    return applied


C = {"c": array(4, seed=5), "d": array(1, 1, 1, 4, seed=6), "e": np.float32(3)}


@pytest.mark.parametrize("group", [1, 2])
def test_behind_a_transpose(apply, group):
    nodes = f"{LAST} u = Mul (t, c) v = Add (d, u) s = Sub (v, c) q = Div (s, e) z = Relu (q)"
    before = build(nodes, group=group, **C)
    applied = assert_folds(apply, before, ["Mul", "Add", "Sub", "Div"], ["Transpose", "Relu"])
    # The output before the Transpose is scaled now and has another name.
    assert [n.output[0] for n in applied.nodes] == ["y/scaled", "q", "z"]


def test_between_and_behind_two_transposes(apply):
    nodes = f"""{LAST} u = Mul (t, c) p = Transpose <perm=[0,3,1,2]> (u)
    v = BatchNormalization (p, c, c, c, n) z = Add (v, k)"""
    before = build(nodes, c=C["c"], n=np.abs(C["c"]), k=array(4, 1, 1, seed=7))
    assert_folds(apply, before, ["Mul", "BatchNormalization", "Add"], ["Transpose", "Transpose"])


@pytest.mark.parametrize("opset", [7, 17, 24])
def test_behind_casts_to_the_type_that_there_is(apply, opset):
    nodes = f"""{LAST} a = Cast <to=1> (t) u = Sub (a, c) v = Mul (u, c) s = Add (v, c)
    q = Cast <to=1> (s) z = Relu (q)"""
    before = build(nodes, opset=opset, c=C["c"])
    assert_folds(apply, before, ["Sub", "Mul", "Add"], ["Transpose", "Cast", "Relu"])


@pytest.mark.parametrize(
    ("nodes", "folded", "left"),
    [
        ("a = Cast <to=1, saturate=0> (y) z = Mul (a, k)", ["Mul"], []),
        (f"{LAST} a = Cast <to=1> (t) p = Cast <to=1> (a) z = Sub (p, c)", ["Sub"], ["Transpose"]),
        (
            """a = Cast <to=1> (y) t = Transpose <perm=[0,2,3,1]> (a) u = Add (t, c)
            p = Cast <to=1> (u) z = Mul (p, c)""",
            ["Add", "Mul"],
            ["Transpose"],
        ),
    ],
    ids=["saturate", "two", "around a Transpose"],
)
def test_no_cast_is_left_before_an_output(apply, nodes, folded, left):
    """ONNX Runtime would run it there, and refuses `saturate` where it does."""
    arrays = {"k": array(4, 1, 1)} if "k)" in nodes else {"c": C["c"]}
    assert_folds(apply, build(nodes, opset=19, **arrays), folded, left)


@pytest.mark.parametrize("to", [10, 11])
def test_not_behind_a_cast_to_another_type(apply, to):
    kind = {10: np.float16, 11: np.float64}[to]
    nodes = f"{LAST} a = Cast <to={to}> (t) u = Mul (a, c) z = Cast <to=1> (u)"
    before = build(nodes, c=C["c"].astype(kind))
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ()
    assert op_types(applied.after) == op_types(before)


def test_not_behind_a_cast_of_a_type_that_is_not_known(apply):
    text = """g (x) => (float[] z) { w = Cast <to=1> (v) y = ConvTranspose (x, w)
      a = Cast <to=1> (y) z = Mul (a, c) }"""
    before = model(text, v=array(4, 4, 3, 5), c=np.float32(3))
    assert apply(before, FoldNeighbours).changes == ()


def test_before_a_transpose_the_name_stays(apply):
    nodes = "u = Mul (y, k) z = Transpose <perm=[0,2,3,1]> (u)"
    applied = assert_folds(apply, build(nodes, k=array(4, 1, 1)), ["Mul"], ["Transpose"])
    assert [n.output[0] for n in applied.nodes] == ["u", "z"]


def test_channels_in_the_middle(apply):
    nodes = "t = Transpose <perm=[3,0,1,2]> (y) z = Mul (t, k)"
    assert_folds(apply, build(nodes, k=array(4, 1, seed=3)), ["Mul"], ["Transpose"])


@pytest.mark.parametrize(
    ("nodes", "arrays", "ids"),
    [
        (f"{LAST} z = Mul (t, k)", {"k": array(4, 1, 1)}, ["CT448"]),
        (f"{LAST} z = Mul (t, x1)", {}, ["CT444"]),
        (f"{LAST} z = BatchNormalization (t, c, c, c, n)", {}, ["CT448"]),
        (f"{LAST} z = Mul (t, c) r = Relu (t)", {}, ["CT441"]),
        (f"{LAST} z = Mul (t, c) r = Identity (y)", {}, []),
    ],
    ids=["rows", "run time", "another axis is normalised", "two readers", "read before"],
)
def test_where_they_stay(apply, nodes, arrays, ids):
    if "x1" in nodes:
        nodes = f"x1 = ReduceMean <keepdims=0> (x) {nodes}"
    if " c)" in nodes or " c," in nodes:
        arrays = arrays | {"c": C["c"]}
    if " n)" in nodes:
        arrays = arrays | {"n": np.abs(C["c"])}
    outputs = "float[] z, float[] r" if "r =" in nodes else "float[] z"
    before = build(nodes, outputs=outputs, **arrays)
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == ids
    assert op_types(applied.after) == op_types(before)


def test_an_output_of_the_graph_between(apply):
    before = build(f"{LAST} z = Mul (t, c)", outputs="float[] z, float[] t", c=C["c"])
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == ["CT442"]


def test_in_a_branch(apply):
    text = f"""g (float[1,4,3,2] x) => (float[] z) {{
      s = ReduceSum <keepdims=0> (x)  k = Cast <to=9> (s)
      z = If (k) <then_branch = a () => (float[1,5,8,4] p) {{
        {UP.format(g=1)} {LAST} p = Add (t, c) }},
      else_branch = o () => (float[1,5,8,4] q) {{ q = Expand (f, shape) }}> }}"""
    arrays = {"f": np.float32(1), "shape": np.array([1, 5, 8, 4], np.int64)}
    before = model(text, w=array(4, 4, 1, 5), b=array(4), c=C["c"], **arrays)
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ("up: Add folded",)
    assert_same(before, applied.after, {"x": np.abs(array(1, 4, 3, 2))})
