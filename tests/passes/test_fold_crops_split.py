"""Crops written as Split, and crops behind Squeeze and Unsqueeze."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_crops import FoldCrops

from ..graph.building import array, ints, model, op_types
from ..verify.judging import assert_same
from .cropping import UP, UP2, bounds, graph, one, pads


def assert_folds(apply, before):
    return apply(before, CanonicalPads, FoldCrops)


@pytest.mark.parametrize(
    ("text", "opset", "wanted"),
    [
        ("p, z, r = Split <axis=2> (y, n)", 17, [3, 2]),
        ("p, z, r = Split <axis=-1> (y, n)", 22, [3, 2]),
        ("z, p, r = Split <axis=2> (y, n)", 13, [0, 14]),
        ("p, r, z = Split <axis=2> (y, n)", 13, [15, 0]),
        ("p, z, r = Split <axis=2, split=[3,12,2]> (y)", 11, [3, 2]),
        ("z, p, r = Split <axis=2, num_outputs=3> (y)", 18, [0, 11]),
        ("p, r, z = Split <axis=2, num_outputs=3> (y)", 18, [12, 0]),
    ],
)
def test_the_only_part_that_is_read(apply, text, opset, wanted):
    arrays = {"n": ints(3, 12, 2)} if "n)" in text else {}
    before = one(f"{UP} {text}", opset=opset, **arrays)
    applied = assert_folds(apply, before)
    assert pads(applied)[0] == wanted
    assert op_types(applied.after) == ["ConvTranspose"]
    assert [o.name for o in applied.after.graph.output] == ["z"]
    assert "Split folded" in applied.changes[0]
    assert_same(before, applied.after)


def test_the_length_of_the_part_may_be_open(apply):
    nodes = f"""{UP} s = Shape <start=2, end=3> (y) m = Sub (s, five)
    n = Concat <axis=0> (two, m, three) p, z, r = Split <axis=2> (y, n)"""
    before = one(nodes, "float[N,3,L]", (7,), five=ints(5), two=ints(2), three=ints(3))
    applied = assert_folds(apply, before)
    assert pads(applied)[0] == [2, 3]
    assert op_types(applied.after) == ["ConvTranspose"]
    for n in (1, 2, 6):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_an_operator_in_between(apply):
    before = one(f"{UP} u = Relu (y) p, z = Split <axis=2> (u, n)", n=ints(4, 13))
    applied = assert_folds(apply, before)
    assert pads(applied)[0] == [4, 0]
    assert_same(before, applied.after)


@pytest.mark.parametrize(
    ("nodes", "x", "arrays", "ids"),
    [
        ("p, z, r = Split <axis=1> (y, n)", "float[1,3,7]", {"n": ints(1, 2, 1)}, ["CT404"]),
        ("z, p = Split <axis=2, num_outputs=2> (y)", "float[N,3,L]", {}, ["CT406"]),
        ("z, p = Split <axis=2> (y, n)", "float[N,3,L]", {"n": None}, ["CT406"]),
        (
            "p, z = Split <axis=2> (y, n) r = Relu (y)",
            "float[1,3,7]",
            {"n": ints(4, 13)},
            ["CT401"],
        ),
    ],
    ids=["channels", "halves of an open size", "lengths of the caller", "another reader"],
)
def test_where_it_stays(apply, nodes, x, arrays, ids):
    inputs = ", int64[2] n" if "n" in arrays and arrays["n"] is None else ""
    outputs = "float[] z, float[] r" if "r = Relu" in nodes else "float[] z"
    known = {k: v for k, v in arrays.items() if v is not None}
    text = graph(f"{UP} {nodes}", x, inputs, outputs)
    before = model(text, opset=18, w=array(3, 4, 5), b=array(4), **known)
    applied = assert_folds(apply, before)
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == ids
    assert op_types(applied.after) == op_types(before)


def test_both_parts_are_read(apply):
    before = model(
        graph(f"{UP} z, r = Split <axis=2> (y, n)", outputs="float[] z, float[] r"),
        w=array(3, 4, 5),
        b=array(4),
        n=ints(4, 13),
    )
    applied = assert_folds(apply, before)
    assert applied.changes == ()
    assert_same(before, applied.after)


def test_behind_a_squeeze(apply):
    """A transposed convolution in 1-D that was written in 2-D."""
    nodes = f"""h = Unsqueeze (x, two) {UP2.replace("(x", "(h").replace("[2,2]", "[1,2]")}
    u = Squeeze (y, two) z = Slice (u, s, e, a)"""
    before = model(
        graph(nodes, "float[N,3,L]"),
        w=array(3, 4, 1, 5),
        b=array(4),
        two=ints(2),
        **bounds([1], [-2], [2]),
    )
    applied = assert_folds(apply, before)
    assert pads(applied)[0] == [0, 1, 0, 2]
    assert op_types(applied.after) == ["Unsqueeze", "ConvTranspose", "Squeeze"]
    assert [o for n in applied.nodes for o in n.output] == ["h", "y/cropped", "z"]
    for n in (1, 2, 6):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


@pytest.mark.parametrize(
    ("axes", "cut", "wanted"),
    [([0], 3, [1, 2]), ([-1, 1], 3, [1, 2]), ([2], -1, [1, 2])],
)
def test_behind_an_unsqueeze(apply, axes, cut, wanted):
    nodes = f"{UP} u = Unsqueeze (y, n) v = Relu (u) z = Slice (v, s, e, a)"
    before = one(nodes, "float[N,3,L]", n=ints(*axes), **bounds([1], [-2], [cut]))
    applied = assert_folds(apply, before)
    assert pads(applied)[0] == wanted
    assert op_types(applied.after) == ["ConvTranspose", "Unsqueeze", "Relu"]
    for n in (1, 2, 6):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_there_and_back_again(apply):
    nodes = f"""{UP} u = Unsqueeze <axes=[1]> (y) t = Transpose <perm=[3,1,0,2]> (u)
    v = Squeeze <axes=[1]> (t) z = Slice <axes=[0], starts=[1], ends=[-2]> (v)"""
    before = one(nodes, "float[N,3,L]", opset=9)
    applied = assert_folds(apply, before)
    assert pads(applied)[0] == [1, 2]
    assert op_types(applied.after) == ["ConvTranspose", "Unsqueeze", "Transpose", "Squeeze"]
    for n in (1, 6):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_a_crop_of_nothing_on_an_added_axis(apply):
    nodes = f"{UP} u = Unsqueeze (y, n) z = Slice (u, s, e, a)"
    before = one(nodes, "float[N,3,L]", n=ints(1), **bounds([0, 1], [1, -1], [1, 3]))
    applied = assert_folds(apply, before)
    assert pads(applied)[0] == [1, 1]
    assert op_types(applied.after) == ["ConvTranspose", "Unsqueeze"]
    assert_same(before, applied.after, {"x": array(2, 3, 4)})


@pytest.mark.parametrize(
    ("nodes", "cut", "ids"),
    [
        ("u = Unsqueeze (y, n)", 2, ["CT404"]),
        ("t = Unsqueeze (y, n) u = Mul (t, m)", 3, ["CT411"]),
        ("u = Squeeze (y)", 2, []),
    ],
    ids=["channels", "a position", "axes that are not named"],
)
def test_where_a_crop_stays_behind_them(apply, nodes, cut, ids):
    arrays = {"n": ints(1)} if " n)" in nodes else {}
    if " m)" in nodes:
        arrays["m"] = np.arange(17, dtype=np.float32)
    before = one(
        f"{UP} {nodes} z = Slice (u, s, e, a)",
        "float[2,3,7]",
        **arrays,
        **bounds([1], [-2], [cut]),
    )
    applied = assert_folds(apply, before)
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == ids
    assert_same(before, applied.after)
