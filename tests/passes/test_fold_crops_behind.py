"""Crops behind other operators, and crops that do more."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_crops import FoldCrops

from ..graph.building import array, ints, model, op_types
from ..verify.judging import assert_same
from .cropping import HUGE, UP, UP2, bounds, graph, one, pads

ELEMENTWISE = [
    "z = {} (v)".replace("{}", kind).replace("(v)", "({v})")
    for kind in (
        "Relu",
        "LeakyRelu",
        "Sigmoid",
        "Tanh",
        "Elu",
        "Neg",
        "Erf",
        "Softplus",
        "Identity",
    )
]


@pytest.mark.parametrize(
    "operator",
    [
        *ELEMENTWISE,
        "z = Clip ({v}, low)",
        "z = Mul ({v}, m)",
        "z = Add (m, {v})",
        "z = Sub (low, {v})",
        "z = PRelu ({v}, m)",
        "z = Pow ({v}, two)",
        "z = Max ({v}, low, m)",
        "z = Mul ({v}, i)",
        "z = BatchNormalization ({v}, n, n, n, n)",
    ],
)
def test_behind_an_elementwise_operator(apply, operator):
    nodes = f"{UP} {operator.replace('z =', 'u =').format(v='y')} z = Slice (u, s, e, a)"
    arrays = {
        "low": np.array(-0.5, np.float32),
        "two": np.array(2, np.float32),
        "m": array(4, 1),
        "i": array(1, 1, 1),
        "n": np.abs(array(4, seed=2)),
        **bounds([1], [-2], [2]),
    }
    used = {
        k: v for k, v in arrays.items() if f"{k}," in nodes or f"{k})" in nodes or f"({k}" in nodes
    }
    before = one(nodes, "float[N,3,L]", **used)
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied) == ([1, 2], [0])
    assert "Slice" not in op_types(applied.after)
    made = [o for n in applied.nodes for o in n.output]
    assert made == ["y/cropped", "z"]
    for n in (1, 2, 6):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_a_run_time_operand_that_is_the_same_along_the_axis(apply):
    nodes = f"{UP} u = Mul (y, k) z = Slice (u, s, e, a)"
    text = graph(nodes, "float[N,3,L]", ", float[N,4,1] k")
    before = model(text, w=array(3, 4, 5), b=array(4), **bounds([1], [-2], [2]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 2]
    assert_same(before, applied.after, {"x": array(2, 3, 5), "k": array(2, 4, 1)})


@pytest.mark.parametrize(
    ("perm", "axes", "wanted"),
    [("[0,2,3,1]", [1, 2], [1, 0, 0, 2]), ("[3,1,0,2]", [3, 0], [1, 0, 0, 2])],
)
def test_behind_a_transpose(apply, perm, axes, wanted):
    nodes = f"{UP2} u = Transpose <perm={perm}> (y) z = Slice (u, s, e, a)"
    before = one(nodes, "float[N,3,H,W]", (4, 3), **bounds([1, 0], [HUGE, -2], axes))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == wanted
    assert op_types(applied.after) == ["ConvTranspose", "Transpose"]
    for n in (2, 5):
        assert_same(before, applied.after, {"x": array(2, 3, n, n)})


@pytest.mark.parametrize("x", ["float[N,3,L]", "float[2,3,5]"])
def test_crops_on_both_sides_of_operators(apply, x):
    nodes = f"""{UP} p = Slice (y, s, e, a) q = Relu (p) r = Transpose <perm=[0,2,1]> (q)
    t = Mul (r, m) z = Slice (t, s, e, c)"""
    before = one(nodes, x, (7,), **bounds([1], [-1], [2]), m=array(4), c=ints(1))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [2, 2]
    assert op_types(applied.after) == ["ConvTranspose", "Relu", "Transpose", "Mul"]
    made = [o for n in applied.nodes for o in n.output]
    # The values after the first crop are what that crop left, and are cropped further.
    assert made == ["y/cropped", "q/cropped", "r/cropped", "z"]
    for n in (1, 5) if "L" in x else (5,):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_a_crop_of_nothing_behind_one_that_goes(apply):
    nodes = f"{UP} p = Slice (y, s, e, a) q = Relu (p) z = Slice (q, zero, far, a)"
    more = {"zero": ints(0), "far": ints(HUGE)}
    applied = apply(one(nodes, "float[2,3,5]", **bounds([1], [-2], [2]), **more), FoldCrops)
    assert [o for n in applied.nodes for o in n.output] == ["y/cropped", "z"]
    assert_same(applied.before, applied.after)


def test_a_quantised_output(apply):
    nodes = f"""{UP} u = QuantizeLinear <axis=1> (y, k, l) v = DequantizeLinear <axis=1> (u, k, l)
    z = Slice (v, s, e, a)"""
    scale, zero = np.full(4, 0.05, np.float32), np.zeros(4, np.int8)
    before = one(nodes, opset=21, **bounds([1], [-2], [2]), k=scale, l=zero)
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 2]
    assert_same(before, applied.after, tolerance=0.05)


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("apart", [False, True])
def test_other_axes_keep_their_slice(apply, opset, apart):
    if opset < 10:
        crops = "z = Slice <axes=[1, 2], starts=[1, 1], ends=[3, -2]> (y)"
        if apart:
            crops = """p = Slice <axes=[1], starts=[1], ends=[3]> (y)
            z = Slice <axes=[2], starts=[1], ends=[-2]> (p)"""
        before = one(f"{UP} {crops}", "float[N,3,L]", opset=opset)
    else:
        crops, arrays = "z = Slice (y, s, e, a)", bounds([1, 1], [3, -2], [1, 2])
        if apart:
            crops = "p = Slice (y, s, t, s) z = Slice (p, s, e, a)"
            arrays = {**bounds([1], [-2], [2]), "t": ints(3)}
        before = one(f"{UP} {crops}", "float[N,3,L]", opset=opset, **arrays)
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 2]
    assert op_types(applied.after).count("Slice") == 1
    assert [m.reason.id for m in applied.context.misses][:1] == ["CT404"]
    for n in (1, 2, 5):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_a_step_on_another_axis_stays(apply):
    nodes = f"{UP2} z = Slice (y, s, e, a, t)"
    arrays = bounds([1, 8], [-2, 0], [2, 3], [1, -2])
    before = one(nodes, "float[1,3,4,4]", (5, 5), **arrays)
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 0, 2, 0]
    assert op_types(applied.after) == ["ConvTranspose", "Slice"]
    assert_same(before, applied.after)
